#include "userspace/library/session_buffers.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/library/engine_state.h"
#include "userspace/session/filter_check.h"

namespace rocattach {
namespace {

constexpr size_t kMaxBufferBytes = size_t{1} << 30;
constexpr uint64_t kMaxFlushIntervalMs = 86'400'000;  // a day

}  // namespace

absl::StatusOr<BufferId> SessionBuffers::Create(SessionId id, size_t bytes,
                                                BufferCallback callback,
                                                BufferId existing) {
  std::shared_ptr<RecordBuffer> grows;
  RecordBuffer::Deliver deliver;
  BufferId buffer_id = existing;
  {
    absl::MutexLock lock(&state_->mutex);
    ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
    if (!callback) {
      return SessionError(SessionStatus::kInvalidArguments,
                          "a buffer needs a callback");
    }
    auto found = session->buffers.find(existing);
    if (found != session->buffers.end()) grows = found->second.records;
    const size_t before = grows == nullptr ? 0 : grows->bytes();
    if (bytes < SmallestRecordBytes() || bytes > kMaxBufferBytes - before) {
      return SessionError(SessionStatus::kIncorrectSize,
                          absl::StrCat(bytes, " bytes; one record takes at least ",
                                       SmallestRecordBytes(), " and a buffer ",
                                       kMaxBufferBytes, " at most"));
    }
    if (grows == nullptr) {
      buffer_id = static_cast<BufferId>(state_->buffer_handles.Next());
    }
    deliver = [callback = std::move(callback), id, buffer_id](const RecordHeader* begin,
                                                              const RecordHeader* end) {
      callback(begin, end, id, buffer_id);
    };
    if (grows == nullptr) {
      session->buffers[buffer_id].records =
          RecordBuffer::Create(bytes, std::move(deliver));
      return buffer_id;
    }
  }
  grows->Grow(bytes, std::move(deliver));
  return buffer_id;
}

absl::Status SessionBuffers::CheckFlushInterval(uint64_t interval) {
  if (interval > 0 && interval <= kMaxFlushIntervalMs) return absl::OkStatus();
  return SessionError(
      SessionStatus::kIncorrectFlushInterval,
      absl::StrCat(interval, " ms; it must be from 1 to ", kMaxFlushIntervalMs));
}

absl::Status SessionBuffers::SetFlushInterval(SessionId id, BufferId buffer,
                                              uint64_t interval) {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  auto found = session->buffers.find(buffer);
  if (found == session->buffers.end()) return NoBuffer(buffer);
  RETURN_IF_ERROR(CheckFlushInterval(interval));
  found->second.flush_interval_ns = interval * 1'000'000;
  found->second.flushed_ns = BootNs();
  return absl::OkStatus();
}

absl::Status SessionBuffers::Destroy(SessionId id, BufferId buffer) {
  std::shared_ptr<RecordBuffer> records;
  {
    absl::MutexLock lock(&state_->mutex);
    ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
    auto found = session->buffers.find(buffer);
    if (found == session->buffers.end()) return NoBuffer(buffer);
    records = found->second.records;
    session->buffers.erase(found);
    for (auto& [filter_id, filter] : session->filters) {
      if (filter.buffer == buffer) filter.buffer = {};
    }
    state_->UpdateRoutes(*session);
    state_->AddLeaving(buffer, records);
  }
  records->Flush();
  return absl::OkStatus();
}

absl::Status SessionBuffers::Check(SessionId id, BufferId buffer) const {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  return session->buffers.contains(buffer) ? absl::OkStatus() : NoBuffer(buffer);
}

absl::Status SessionBuffers::Flush(SessionId id, BufferId buffer) {
  std::shared_ptr<RecordBuffer> records;
  std::shared_ptr<SessionRun> run;
  absl::Status result;
  {
    absl::MutexLock lock(&state_->mutex);
    ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
    auto found = session->buffers.find(buffer);
    if (found == session->buffers.end()) return NoBuffer(buffer);
    records = found->second.records;
    found->second.flushed_ns = BootNs();
    if (session->phase == Phase::kLost) {
      result =
          SessionError(SessionStatus::kCorruptedSessionBuffer, session->loss.message());
    }
    // A callback must not wait for deliveries: see SessionBackend::Settle.
    if (session->phase == Phase::kActive && !UserCallback::Active()) {
      run = session->run;
    }
  }
  if (run != nullptr) result = run->Drain();
  records->Flush();
  return result;
}

absl::Status SessionBuffers::NextRecord(const RecordHeader* record,
                                        const RecordHeader** next, SessionId id,
                                        BufferId buffer) const {
  std::shared_ptr<RecordBuffer> records;
  {
    absl::MutexLock lock(&state_->mutex);
    auto session = state_->sessions.find(id);
    auto leaving = state_->leaving.find(buffer);
    if (leaving != state_->leaving.end()) {
      records = leaving->second.lock();  // its session may be gone
    } else if (session != state_->sessions.end() && state_->initialized) {
      auto found = session->second->buffers.find(buffer);
      if (found == session->second->buffers.end()) return NoBuffer(buffer);
      records = found->second.records;
    }
    if (records == nullptr) {
      RETURN_IF_ERROR(state_->Find(id).status());
      return NoBuffer(buffer);
    }
  }
  if (!records->Next(record, next)) {
    // A destroyed buffer is known only while it is being delivered.
    RETURN_IF_ERROR(Check(id, buffer));
    return SessionError(SessionStatus::kRecordCorrupted,
                        "not a record that this callback was given");
  }
  return absl::OkStatus();
}

void SessionBuffers::Tick(uint64_t now_ns) {
  std::vector<std::shared_ptr<RecordBuffer>> due;
  {
    absl::MutexLock lock(&state_->mutex);
    for (auto& [id, session] : state_->sessions) {
      for (auto& [buffer_id, buffer] : session->buffers) {
        if (buffer.flush_interval_ns == 0 ||
            now_ns < buffer.flushed_ns + buffer.flush_interval_ns) {
          continue;
        }
        buffer.flushed_ns = now_ns;
        due.push_back(buffer.records);
      }
    }
  }
  for (const auto& buffer : due) buffer->Flush();
}

}  // namespace rocattach
