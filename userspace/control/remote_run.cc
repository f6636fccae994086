#include "userspace/control/remote_run.h"

#include <pthread.h>

#include <utility>

#include "absl/time/time.h"
#include "userspace/base/session_status.h"
#include "userspace/control/record_wire.h"
#include "userspace/control/session_wire.h"
#include "userspace/session/record_buffer.h"

namespace rocattach {
namespace {

// How long the last records may take after the service has reported that they were
// sent.
constexpr absl::Duration kPatience = absl::Seconds(60);

}  // namespace

RemoteStream::RemoteStream(std::shared_ptr<ServiceConnection> connection,
                           std::shared_ptr<RecordRouter> router)
    : connection_(std::move(connection)), router_(std::move(router)) {}

RemoteStream::~RemoteStream() {
  if (!thread_.joinable()) return;
  shared_->context.TryCancel();
  // In a callback, the reader may be waiting for us.
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
    // The call has ended without an error, but the run never started.
    return SessionError(SessionStatus::kError, "the service has not started anything");
  }
  thread_ = std::thread([shared = shared_] { Read(shared); });
  return absl::OkStatus();
}

void RemoteStream::Take(Shared* shared, const v1::RunRecords& records) {
  if (shared->router != nullptr) RouteRecords(records, shared->router.get());
  absl::MutexLock lock(&shared->mutex);
  shared->total = records.total();
  shared->changed.SignalAll();
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
  // A stop inside a callback has not waited for the last records.
  if (shared->router != nullptr) shared->router->Flush();
  absl::MutexLock lock(&shared->mutex);
  shared->ended = true;
  shared->end = end;
  shared->changed.SignalAll();
}

void RemoteStream::WaitFor(uint64_t total) {
  if (RecordBuffer::InCallback()) return;
  absl::MutexLock lock(&shared_->mutex);
  shared_->changed.WaitFor(&shared_->mutex, kPatience,
                           [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
                             return shared_->ended || shared_->total >= total;
                           });
}

absl::Status RemoteStream::Stop() {
  if (!thread_.joinable()) return absl::OkStatus();
  {
    absl::MutexLock lock(&shared_->mutex);
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
  absl::MutexLock lock(&shared_->mutex);
  if (!shared_->changed.WaitFor(&shared_->mutex, kPatience,
                                [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
                                  return shared_->ended;
                                })) {
    stopped.Update(
        SessionError(SessionStatus::kError, "the last records have not arrived"));
  }
  stopped.Update(shared_->end);
  return stopped;
}

}  // namespace rocattach
