#include "userspace/control/control_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "schemas/control.grpc.pb.h"

namespace rocattach {
namespace {

// A stop waits for the data that its session has collected.
constexpr auto kPatience = std::chrono::seconds(60);

absl::Status FromControl(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // Only a service that ends cancels calls here.
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::CANCELLED) {
    return absl::UnavailableError(
        "the service has closed the connection: it is ending, it has too many "
        "connections, or you are neither root nor the user that runs it");
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
  auto channel = ConnectToService(path);
  if (!channel.ok()) return channel.status();
  auto parts = std::make_unique<Parts>();
  parts->channel = *std::move(channel);
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
      FromControl(parts_->stub->StartSession(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::Status ControlClient::StopSession(uint64_t session) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StopSessionRequest request;
  request.set_session(session);
  v1::StopSessionResponse response;
  return FromControl(parts_->stub->StopSession(&context, request, &response));
}

absl::StatusOr<v1::GetStatusResponse> ControlClient::GetStatus() {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetStatusResponse response;
  const absl::Status status =
      FromControl(parts_->stub->GetStatus(&context, {}, &response));
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::GetHistoryResponse> ControlClient::GetHistory(uint32_t pid) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetHistoryRequest request;
  request.set_pid(pid);
  v1::GetHistoryResponse response;
  const absl::Status status =
      FromControl(parts_->stub->GetHistory(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

}  // namespace rocattach
