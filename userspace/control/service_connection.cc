#include "userspace/control/service_connection.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/control/service_channel.h"
#include "userspace/control/session_wire.h"

namespace rocattach {
namespace {

// A stop waits for what its session has collected.
constexpr auto kPatience = std::chrono::seconds(60);

}  // namespace

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
}

absl::StatusOr<std::shared_ptr<ServiceConnection::Stub>> ServiceConnection::Get(
    bool* is_new) {
  absl::MutexLock lock(&mutex_);
  *is_new = stub_ == nullptr;
  if (stub_ != nullptr) return stub_;
  const auto channel = ConnectToService(socket_);
  if (!channel.ok()) {
    return SessionError(SessionStatus::kError, channel.status().message());
  }
  std::shared_ptr<Stub> stub = v1::SessionApi::NewStub(*channel);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::HelloResponse response;
  RETURN_IF_ERROR(FromGrpc(stub->Hello(&context, {}, &response)));
  if (response.record_layout() != kRecordLayout) {
    return SessionError(
        SessionStatus::kError,
        absl::StrCat("rocattach-watch ", response.version(), " at ", socket_,
                     " sends other records than this library reads; use the same "
                     "version of both"));
  }
  stub_ = stub;
  return stub;
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
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return FromGrpc(status);
    Drop(stub);
    if (is_new) return FromGrpc(status);
  }
}

}  // namespace rocattach
