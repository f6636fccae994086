#include "userspace/control/remote_run.h"

#include <pthread.h>
#include <string.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "userspace/control/session_wire.h"
#include "userspace/session/record_buffer.h"
#include "userspace/session/session_status.h"

namespace rocattach {
namespace {

// How long the last records may take when the service has said that they have been
// sent.
constexpr auto kPatience = std::chrono::seconds(60);

// What a record of this kind has at least; 0 for kinds that are not made.
size_t FixedBytes(uint32_t kind) {
  switch (kind) {
    case ROCATTACH_PROFILER_RECORD:
      return sizeof(rocattach_record_profiler_t);
    case ROCATTACH_TRACER_RECORD:
      return sizeof(rocattach_record_tracer_t);
    case ROCATTACH_COUNTERS_SAMPLER_RECORD:
      return sizeof(rocattach_record_counters_sampler_t);
    default:
      return 0;
  }
}

// How many values say that they follow.
uint64_t CountersOf(const rocattach_record_header_t* record) {
  if (record->kind == ROCATTACH_PROFILER_RECORD) {
    return reinterpret_cast<const rocattach_record_profiler_t*>(record)->counters_count;
  }
  if (record->kind == ROCATTACH_COUNTERS_SAMPLER_RECORD) {
    return reinterpret_cast<const rocattach_record_counters_sampler_t*>(record)
        ->num_counters;
  }
  return 0;
}

}  // namespace

RemoteStream::RemoteStream(std::shared_ptr<ServiceConnection> connection,
                           std::shared_ptr<RecordRouter> router)
    : connection_(std::move(connection)), router_(std::move(router)) {}

RemoteStream::~RemoteStream() {
  if (!thread_.joinable()) return;
  shared_->context.TryCancel();
  // In a callback the reader may be what waits for us.
  if (RecordBuffer::InCallback()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

absl::Status RemoteStream::Start(const Begin& begin) {
  absl::Status started = connection_->Ask([&](ServiceConnection::Stub* stub) {
    shared_ = std::make_shared<Shared>();
    shared_->connection = connection_;
    shared_->router = router_;
    shared_->reader = begin(stub, &shared_->context);
    v1::RunEvent first;
    if (!shared_->reader->Read(&first)) return shared_->reader->Finish();
    run_ = first.started().run();
    return grpc::Status::OK;
  });
  if (!started.ok()) return started;
  if (run_ == 0) {
    // The call has ended well without having begun.
    return SessionError(SessionStatus::kError, "the service has not started anything");
  }
  thread_ = std::thread([shared = shared_] { Read(shared); });
  return absl::OkStatus();
}

// Nothing is trusted about where records end, although the service makes them: a wrong
// step would be ours.
void RemoteStream::Take(Shared* shared, const v1::RunRecords& records) {
  const std::string& bytes = records.records();
  std::vector<uint64_t> words((bytes.size() + 7) / 8);
  if (!bytes.empty()) memcpy(words.data(), bytes.data(), bytes.size());
  const char* base = reinterpret_cast<const char*>(words.data());
  if (shared->router != nullptr && records.lost() > 0) {
    shared->router->CountLost(records.lost());
  }
  size_t offset = 0;
  while (shared->router != nullptr &&
         bytes.size() - offset >= sizeof(rocattach_record_header_t)) {
    const auto* record =
        reinterpret_cast<const rocattach_record_header_t*>(base + offset);
    const size_t fixed = FixedBytes(record->kind);
    if (fixed == 0 || record->bytes < fixed || record->bytes > bytes.size() - offset ||
        record->bytes !=
            fixed + CountersOf(record) * sizeof(rocattach_record_counter_t)) {
      shared->router->CountLost(1);
      break;
    }
    shared->router->Take(record);
    offset += record->bytes;
  }
  std::lock_guard<std::mutex> lock(shared->mutex);
  shared->total = records.total();
  shared->changed.notify_all();
}

void RemoteStream::Read(const std::shared_ptr<Shared>& shared) {
  (void)pthread_setname_np(pthread_self(), "rocattach-reads");
  v1::RunEvent event;
  while (shared->reader->Read(&event)) {
    if (event.has_records()) Take(shared.get(), event.records());
    if (event.has_ended() && shared->router != nullptr) {
      shared->router->TargetEnded(FromProto(event.ended()));
    }
  }
  const absl::Status end = FromGrpc(shared->reader->Finish());
  // A stop inside a callback has not waited for the last ones.
  if (shared->router != nullptr) shared->router->Flush();
  std::lock_guard<std::mutex> lock(shared->mutex);
  shared->ended = true;
  shared->end = end;
  shared->changed.notify_all();
}

void RemoteStream::WaitFor(uint64_t total) {
  if (RecordBuffer::InCallback()) return;
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->changed.wait_for(lock, kPatience,
                            [&] { return shared_->ended || shared_->total >= total; });
}

absl::Status RemoteStream::Stop() {
  if (!thread_.joinable()) return absl::OkStatus();
  {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    if (shared_->ended) {
      return SessionError(SessionStatus::kError, shared_->end.message());
    }
  }
  v1::RunNumber request;
  request.set_run(run_);
  absl::Status stopped = connection_->Ask([&](ServiceConnection::Stub* stub) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::StopRunResponse response;
    return stub->StopRun(&context, request, &response);
  });
  if (RecordBuffer::InCallback()) return stopped;
  std::unique_lock<std::mutex> lock(shared_->mutex);
  if (!shared_->changed.wait_for(lock, kPatience, [&] { return shared_->ended; })) {
    stopped.Update(
        SessionError(SessionStatus::kError, "the last records have not come"));
  }
  stopped.Update(shared_->end);
  return stopped;
}

}  // namespace rocattach
