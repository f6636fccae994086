#include "userspace/library/remote_run.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/control/run_names.h"
#include "userspace/library/record_wire.h"

namespace rocattach {
namespace {

// Time limit for the last records after the service has reported that they were sent:
// a callback of the program may be slow.
constexpr int kSecondsForRecords = 60;

}  // namespace

RemoteStream::RemoteStream(std::shared_ptr<ServiceConnection> connection,
                           std::shared_ptr<RecordConsumer> consumer,
                           std::shared_ptr<SessionTargetNames> names, Lost lost)
    : connection_(std::move(connection)),
      consumer_(std::move(consumer)),
      names_(std::move(names)),
      lost_(std::move(lost)) {}

RemoteStream::~RemoteStream() {
  Cancel();
}

void RemoteStream::Cancel() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->stopping = true;
  }
  shared_->context.TryCancel();
  // In a callback, the reader may be waiting for us.
  if (UserCallback::Active()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

bool RemoteStream::Await(const Awaited& what) {
  Shared& shared = *shared_;
  for (int second = 0; second < kSecondsForRecords; ++second) {
    {
      absl::MutexLock lock(&shared.mutex);
      if (shared.changed.WaitFor(&shared.mutex, connection_->Patience(),
                                 [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
                                   return IsThere(shared, what);
                                 })) {
        return true;
      }
    }
    if (!Answers()) break;
  }
  absl::MutexLock lock(&shared.mutex);
  return IsThere(shared, what);
}

grpc::Status RemoteStream::StartOnce(const std::shared_ptr<Stub>& stub,
                                     const Begin& begin) {
  Cancel();  // ends a first attempt, over a connection that was lost
  stub_ = stub;
  shared_ = std::make_shared<Shared>();
  shared_->connection = connection_;
  shared_->consumer = consumer_;
  shared_->names = names_;
  shared_->lost = lost_;
  shared_->reader = begin(stub.get(), &shared_->context);
  thread_ = std::thread([shared = shared_] { Read(shared); });
  Shared& shared = *shared_;
  const bool answered = Await({.started = true});
  if (!answered) {
    Cancel();
    return connection_->NoAnswer();
  }
  absl::MutexLock lock(&shared.mutex);
  if (shared.started.has_value()) {
    session_.set_session(*shared.started);
    return grpc::Status::OK;
  }
  if (!shared.end.ok()) return shared.end;
  return ToGrpc(
      SessionError(SessionStatus::kError, "the service has not started anything"));
}

absl::Status RemoteStream::Start(const Begin& begin) {
  return connection_->Ask(
      [&](const std::shared_ptr<Stub>& stub) { return StartOnce(stub, begin); });
}

void RemoteStream::ConsumeEvent(Shared* shared, const v1::RunEvent& event) {
  if (event.has_names() && shared->names != nullptr) {
    AddSentNames(event.names(), shared->names.get());
  }
  if (event.has_records() && shared->consumer != nullptr) {
    ConsumeRecords(event.records(), shared->consumer.get());
  }
  if (event.has_ended() && shared->consumer != nullptr) {
    shared->consumer->TargetEnded(FromProto(event.ended()));
  }
  absl::MutexLock lock(&shared->mutex);
  if (event.has_started()) shared->started = event.started();
  if (event.has_records()) shared->total = event.records().total();
  shared->changed.SignalAll();
}

absl::Status RemoteStream::Loss(const Shared& shared) {
  if (ServiceConnection::Broke(shared.end)) {
    return SessionError(
        SessionStatus::kError,
        absl::StrCat("rocattach-watch at ", shared.connection->socket(),
                     " is gone, and with it the session: records that had not arrived "
                     "are lost; start the service and the session again"));
  }
  if (shared.end.ok()) {
    return SessionError(SessionStatus::kError, "the service has ended the session");
  }
  return SessionError(SessionStatus::kError, FromGrpc(shared.end).message());
}

void RemoteStream::Read(const std::shared_ptr<Shared>& shared) {
  (void)pthread_setname_np(pthread_self(), "rocattach-reads");
  v1::RunEvent event;
  while (shared->reader->Read(&event)) ConsumeEvent(shared.get(), event);
  const grpc::Status end = shared->reader->Finish();
  // A stop inside a callback does not wait for the last records.
  if (shared->consumer != nullptr) shared->consumer->Flush();
  absl::Status loss;
  {
    absl::MutexLock lock(&shared->mutex);
    shared->ended = true;
    shared->end = end;
    if (shared->started.has_value() && !shared->stopping) loss = Loss(*shared);
    shared->changed.SignalAll();
  }
  if (!loss.ok() && shared->lost) shared->lost(loss);
}

absl::Status RemoteStream::WaitFor(uint64_t total) {
  if (UserCallback::Active()) return absl::OkStatus();
  Shared& shared = *shared_;
  const bool done = Await({.total = total});
  absl::MutexLock lock(&shared.mutex);
  if (shared.total >= total) return absl::OkStatus();
  if (done && !shared.stopping) return Loss(shared);
  return SessionError(SessionStatus::kError, "the last records have not arrived");
}

absl::Status RemoteStream::Drain() {
  ASSIGN_OR_RETURN(const v1::DrainResponse drained, Call(&Stub::AsyncDrain));
  return WaitFor(drained.total());
}

absl::StatusOr<v1::DeviceValues> RemoteStream::Poll() {
  RETURN_IF_ERROR(Check());
  return Call(&Stub::AsyncPollDevice);
}

absl::Status RemoteStream::Check() {
  absl::MutexLock lock(&shared_->mutex);
  return shared_->ended && !shared_->stopping ? Loss(*shared_) : absl::OkStatus();
}

absl::Status RemoteStream::Stop() {
  if (!thread_.joinable()) return absl::OkStatus();
  Shared& shared = *shared_;
  {
    absl::MutexLock lock(&shared.mutex);
    if (shared.ended) return Loss(shared);
    shared.stopping = true;
  }
  absl::Status stopped = Call(&Stub::AsyncStop).status();
  // The service may still be collecting: it ends a session whose call is cancelled as
  // soon as it can.
  if (!stopped.ok()) shared.context.TryCancel();
  if (UserCallback::Active()) return stopped;
  const bool ended = Await({});
  if (!ended) {
    shared.context.TryCancel();
    stopped.Update(
        SessionError(SessionStatus::kError, "the last records have not arrived"));
  }
  absl::MutexLock lock(&shared.mutex);
  if (shared.ended && stopped.ok()) stopped = FromGrpc(shared.end);
  return stopped;
}

}  // namespace rocattach
