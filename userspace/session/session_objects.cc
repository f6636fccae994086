// Filters and buffers of sessions, and what is done with their records.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/session/engine_state.h"
#include "userspace/session/filter_check.h"
#include "userspace/session/session_engine.h"

namespace rocattach {
namespace {

constexpr size_t kMaxBufferBytes = size_t{1} << 30;
constexpr uint64_t kMaxFlushIntervalMs = 86'400'000;  // a day

absl::Status NoFilter(FilterId id) {
  return SessionError(SessionStatus::kFilterNotFound,
                      absl::StrCat("filter ", static_cast<uint64_t>(id)));
}

absl::Status NoBuffer(BufferId id) {
  return SessionError(SessionStatus::kBufferNotFound,
                      absl::StrCat("buffer ", static_cast<uint64_t>(id)));
}

}  // namespace

absl::Status SessionEngine::CheckFilter(const FilterSpec& filter) const {
  return state_->runner->CheckFilter(filter);
}

absl::StatusOr<FilterId> SessionEngine::CreateFilter(SessionId id, FilterSpec filter) {
  RETURN_IF_ERROR(CheckSession(id));
  // Without the lock: expressions are compiled and others are asked.
  RETURN_IF_ERROR(CheckFilter(filter));
  std::lock_guard<std::mutex> lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  for (const auto& [other_id, other] : session->filters) {
    if (other.spec.kind == filter.kind) {
      return SessionError(SessionStatus::kSessionFilterDataMismatch,
                          absl::StrCat("session ", Number(id), " has a filter of kind ",
                                       static_cast<int>(filter.kind)));
    }
  }
  const auto filter_id = static_cast<FilterId>(state_->NewHandle(kFilterHandle));
  session->filters[filter_id].spec = std::move(filter);
  return filter_id;
}

absl::Status SessionEngine::DestroyFilter(SessionId id, FilterId filter) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  if (session->filters.erase(filter) == 0) return NoFilter(filter);
  state_->UpdateRoutes(*session);
  return absl::OkStatus();
}

absl::StatusOr<BufferId> SessionEngine::CreateBuffer(SessionId id, size_t bytes,
                                                     BufferCallback callback,
                                                     BufferId existing) {
  std::shared_ptr<RecordBuffer> grows;
  RecordBuffer::Deliver deliver;
  BufferId buffer_id = existing;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
    if (!callback) {
      return SessionError(SessionStatus::kInvalidArguments,
                          "a buffer needs a callback");
    }
    auto found = session->buffers.find(existing);
    if (found != session->buffers.end()) grows = found->second.records;
    if (grows != nullptr && grows->unread()) {
      return SessionError(SessionStatus::kInvalidArguments,
                          "a buffer that nobody reads cannot grow");
    }
    const size_t before = grows == nullptr ? 0 : grows->bytes();
    if (bytes < SmallestRecordBytes() || bytes > kMaxBufferBytes - before) {
      return SessionError(SessionStatus::kIncorrectSize,
                          absl::StrCat(bytes, " bytes; one record takes at least ",
                                       SmallestRecordBytes(), " and a buffer ",
                                       kMaxBufferBytes, " at most"));
    }
    if (grows == nullptr) {
      buffer_id = static_cast<BufferId>(state_->NewHandle(kBufferHandle));
    }
    deliver = [callback = std::move(callback), id, buffer_id](
                  const rocattach_record_header_t* begin,
                  const rocattach_record_header_t* end) {
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

absl::StatusOr<BufferId> SessionEngine::CreateUnreadBuffer(SessionId id) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  const auto buffer_id = static_cast<BufferId>(state_->NewHandle(kBufferHandle));
  session->buffers[buffer_id].records = RecordBuffer::CreateUnread();
  return buffer_id;
}

absl::Status SessionEngine::CheckFlushInterval(uint64_t interval) {
  if (interval > 0 && interval <= kMaxFlushIntervalMs) return absl::OkStatus();
  return SessionError(
      SessionStatus::kIncorrectFlushInterval,
      absl::StrCat(interval, " ms; it must be from 1 to ", kMaxFlushIntervalMs));
}

absl::Status SessionEngine::SetFlushInterval(SessionId id, BufferId buffer,
                                             uint64_t interval) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  auto found = session->buffers.find(buffer);
  if (found == session->buffers.end()) return NoBuffer(buffer);
  RETURN_IF_ERROR(CheckFlushInterval(interval));
  found->second.flush_interval_ns = interval * 1'000'000;
  found->second.flushed_ns = BootNs();
  return absl::OkStatus();
}

absl::Status SessionEngine::DestroyBuffer(SessionId id, BufferId buffer) {
  std::shared_ptr<RecordBuffer> records;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
    auto found = session->buffers.find(buffer);
    if (found == session->buffers.end()) return NoBuffer(buffer);
    records = found->second.records;
    session->buffers.erase(found);
    for (auto& [filter_id, filter] : session->filters) {
      if (filter.buffer == buffer) filter.buffer = {};
    }
    state_->UpdateRoutes(*session);
    std::erase_if(state_->leaving, [](const auto& e) { return e.second.expired(); });
    state_->leaving[buffer] = records;
  }
  records->Flush();
  return absl::OkStatus();
}

absl::Status SessionEngine::SetFilterBuffer(SessionId id, FilterId filter,
                                            BufferId buffer) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  auto found_buffer = session->buffers.find(buffer);
  if (found_buffer == session->buffers.end()) return NoBuffer(buffer);
  auto found_filter = session->filters.find(filter);
  if (found_filter == session->filters.end()) return NoFilter(filter);
  const size_t needed = RecordBytes(found_filter->second.spec);
  const size_t present = found_buffer->second.records->bytes();
  if (present < needed && !found_buffer->second.records->unread()) {
    return SessionError(
        SessionStatus::kIncorrectSize,
        absl::StrCat("the buffer holds ", present,
                     " bytes and a record of this filter takes ", needed));
  }
  found_filter->second.buffer = buffer;
  state_->UpdateRoutes(*session);
  return absl::OkStatus();
}

absl::Status SessionEngine::SetApiTraceSyncCallback(SessionId id, FilterId filter,
                                                    SyncCallback callback) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  auto found = session->filters.find(filter);
  if (found == session->filters.end()) return NoFilter(filter);
  if (found->second.spec.kind != FilterKind::kApiTrace) {
    return SessionError(SessionStatus::kFilterNotSupported,
                        "synchronous callbacks are for API tracing");
  }
  found->second.sync = std::move(callback);
  state_->UpdateRoutes(*session);
  return absl::OkStatus();
}

absl::Status SessionEngine::FlushData(SessionId id, BufferId buffer) {
  std::shared_ptr<RecordBuffer> records;
  std::shared_ptr<SessionRun> run;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
    auto found = session->buffers.find(buffer);
    if (found == session->buffers.end()) return NoBuffer(buffer);
    records = found->second.records;
    found->second.flushed_ns = BootNs();
    // A callback must not wait for deliveries: see SessionBackend::Settle.
    if (session->phase == Phase::kActive && !RecordBuffer::InCallback()) {
      run = session->run;
    }
  }
  absl::Status result = run == nullptr ? absl::OkStatus() : run->Drain();
  records->Flush();
  return result;
}

absl::Status SessionEngine::CheckBuffer(SessionId id, BufferId buffer) const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  return session->buffers.contains(buffer) ? absl::OkStatus() : NoBuffer(buffer);
}

absl::Status SessionEngine::NextRecord(const rocattach_record_header_t* record,
                                       const rocattach_record_header_t** next,
                                       SessionId id, BufferId buffer) {
  std::shared_ptr<RecordBuffer> records;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
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
    // A buffer that is gone is only spoken of while it is being delivered.
    RETURN_IF_ERROR(CheckBuffer(id, buffer));
    return SessionError(SessionStatus::kRecordCorrupted,
                        "not a record that this callback was given");
  }
  return absl::OkStatus();
}

void SessionEngine::Tick(uint64_t now_ns) {
  std::vector<std::shared_ptr<RecordBuffer>> due;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
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
