#include "userspace/control/control_client.h"

#include <errno.h>
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schemas/control.grpc.pb.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

// A stop waits for what its session has collected.
constexpr auto kPatience = std::chrono::seconds(60);

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // Nobody cancels calls here but a service that ends.
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::CANCELLED) {
    return absl::UnavailableError(
        "the service has closed the connection: it is ending, or you are neither root "
        "nor the user that runs it");
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
}

}  // namespace

struct ControlClient::Parts {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Control::Stub> stub;
};

absl::StatusOr<std::unique_ptr<ControlClient>> ControlClient::Connect(
    const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is too long for a socket"));
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "socket() failed");
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
      0) {
    const bool denied = errno == EACCES || errno == EPERM;
    return absl::UnavailableError(absl::StrCat(
        "no answer at ", path, ": ", strerror(errno),
        denied ? "; sessions are for root and the user that runs the service"
               : "; is 'rocattach-watch --auto' running? --socket names another "
                 "place"));
  }
  // gRPC reads until there is nothing more: on a socket that waits, its threads hang.
  if (fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "fcntl(O_NONBLOCK) failed");
  }
  auto parts = std::make_unique<Parts>();
  parts->channel = grpc::CreateInsecureChannelFromFd("rocattach-watch", fd.release());
  parts->stub = v1::Control::NewStub(parts->channel);
  return std::unique_ptr<ControlClient>(new ControlClient(std::move(parts)));
}

ControlClient::ControlClient(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ControlClient::~ControlClient() = default;

absl::StatusOr<v1::StartSessionResponse> ControlClient::StartSession(
    const v1::StartSessionRequest& request) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StartSessionResponse response;
  const absl::Status status =
      FromGrpc(parts_->stub->StartSession(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::Status ControlClient::StopSession(uint64_t session) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StopSessionRequest request;
  request.set_session(session);
  v1::StopSessionResponse response;
  return FromGrpc(parts_->stub->StopSession(&context, request, &response));
}

absl::StatusOr<v1::GetStatusResponse> ControlClient::GetStatus() {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetStatusResponse response;
  const absl::Status status =
      FromGrpc(parts_->stub->GetStatus(&context, {}, &response));
  if (!status.ok()) return status;
  return response;
}

}  // namespace rocattach
