#include "userspace/control/service_connection.h"

#include <grpc/support/time.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/control/child_closes.h"
#include "userspace/control/service_channel.h"
#include "userspace/control/session_wire.h"

namespace rocattach {
namespace {

// Of a service that answers meanwhile: a stop waits for what its session has collected.
constexpr absl::Duration kLongestCall = absl::Seconds(60);
// How long a call waits before the service is asked whether it is there, and how long
// that answer may take.
constexpr absl::Duration kPatience = absl::Seconds(1);
constexpr absl::Duration kAnswerPatience = absl::Seconds(4);
// The same for a service that has not answered just before.
constexpr absl::Duration kShortPatience = absl::Milliseconds(100);
constexpr absl::Duration kShortAnswerPatience = absl::Milliseconds(300);
constexpr absl::Duration kSilence = absl::Seconds(10);

// The monotonic clock: a step of the time of day changes no deadline.
gpr_timespec After(absl::Duration duration) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_millis(absl::ToInt64Milliseconds(duration), GPR_TIMESPAN));
}

}  // namespace

void ServiceConnection::SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(After(kLongestCall));
}

bool ServiceConnection::Broke(const grpc::Status& status) {
  // gRPC says one or the other of a connection that the service's death closed; the
  // service itself says neither without details.
  return status.error_details().empty() &&
         (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
          status.error_code() == grpc::StatusCode::UNKNOWN);
}

bool ServiceConnection::silent() const {
  return BootNs() < silent_until_ns_;
}

absl::Duration ServiceConnection::Patience() const {
  return silent() ? kShortPatience : kPatience;
}

void ServiceConnection::Note(bool answered) {
  silent_until_ns_ =
      answered ? 0
               : BootNs() + static_cast<uint64_t>(absl::ToInt64Nanoseconds(kSilence));
}

grpc::Status ServiceConnection::NoAnswer() const {
  return ToGrpc(SessionError(
      SessionStatus::kError,
      absl::StrCat(
          "rocattach-watch at ", socket_,
          " does not answer: it is stopped, frozen or hangs; continue it (kill "
          "-CONT) or restart it")));
}

bool ServiceConnection::Answers(Stub* stub) {
  grpc::ClientContext context;
  context.set_deadline(After(silent() ? kShortAnswerPatience : kAnswerPatience));
  v1::HelloResponse response;
  const grpc::Status status = stub->Hello(&context, {}, &response);
  const bool answered = status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
  Note(answered);
  return answered;
}

bool ServiceConnection::Answers() {
  std::shared_ptr<Stub> stub;
  {
    absl::MutexLock lock(&mutex_);
    stub = stub_;
  }
  return stub == nullptr || Answers(stub.get());
}

bool ServiceConnection::Await(Stub* stub, grpc::CompletionQueue* queue,
                              grpc::ClientContext* context) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->AsyncNext(&tag, &ok, After(Patience())) !=
         grpc::CompletionQueue::GOT_EVENT) {
    if (Answers(stub)) continue;
    context->TryCancel();
    (void)queue->Next(&tag, &ok);
    return false;
  }
  Note(true);
  return true;
}

absl::StatusOr<std::shared_ptr<ServiceConnection::Stub>> ServiceConnection::Connect() {
  absl::StatusOr<UniqueFd> socket = ConnectToSocket(socket_);
  if (!socket.ok()) {
    return SessionError(SessionStatus::kError, socket.status().message());
  }
  CloseInChildren(socket->get());
  std::shared_ptr<Stub> stub = v1::SessionApi::NewStub(ChannelOver(*std::move(socket)));
  grpc::ClientContext context;
  context.set_deadline(After(silent() ? kShortAnswerPatience : kAnswerPatience));
  v1::HelloResponse response;
  const grpc::Status status = stub->Hello(&context, {}, &response);
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    Note(false);
    return FromGrpc(NoAnswer());
  }
  Note(true);
  RETURN_IF_ERROR(FromGrpc(status));
  if (response.record_layout() != kRecordFormat) {
    return SessionError(
        SessionStatus::kError,
        absl::StrCat("rocattach-watch ", response.version(), " at ", socket_,
                     " sends other records than this library reads; use the same "
                     "version of both"));
  }
  return stub;
}

absl::StatusOr<std::shared_ptr<ServiceConnection::Stub>> ServiceConnection::Get(
    bool* is_new) {
  absl::MutexLock lock(&mutex_);
  *is_new = stub_ == nullptr;
  if (stub_ == nullptr) {
    ASSIGN_OR_RETURN(stub_, Connect());
  }
  return stub_;
}

void ServiceConnection::Drop(const std::shared_ptr<Stub>& stub) {
  absl::MutexLock lock(&mutex_);
  if (stub_ == stub) stub_ = nullptr;
}

absl::Status ServiceConnection::Ask(const std::function<grpc::Status(Stub*)>& call) {
  for (;;) {
    bool is_new = false;
    ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub, Get(&is_new));
    const grpc::Status status = call(stub.get());
    if (!Broke(status)) return FromGrpc(status);
    Drop(stub);
    if (is_new) return FromGrpc(status);
  }
}

}  // namespace rocattach
