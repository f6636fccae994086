#include "userspace/control/remote_runner.h"

#include <utility>

#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/control/filter_proto.h"
#include "userspace/control/remote_run.h"
#include "userspace/control/session_wire.h"

namespace rocattach {
namespace {

using Stub = ServiceConnection::Stub;

// The engine knows whether a session is active: what the service reports of its own run
// is an error like any other.
absl::Status AsError(const absl::Status& status) {
  if (status.ok()) return status;
  return SessionError(SessionStatus::kError, status.message());
}

class RemoteRun : public SessionRun {
 public:
  RemoteRun(std::shared_ptr<ServiceConnection> connection, const RunSpec& spec,
            std::shared_ptr<RecordRouter> router)
      : connection_(connection), stream_(std::move(connection), std::move(router)) {
    for (const FilterSpec& filter : spec.filters) {
      *request_.add_filters() = FilterToProto(filter);
    }
    for (ProcessId target : spec.targets) *request_.add_processes() = ToProto(target);
  }

  absl::Status Start() override {
    return stream_.Start([this](Stub* stub, grpc::ClientContext* context) {
      return stub->Run(context, request_);
    });
  }

  absl::Status Stop() override { return AsError(stream_.Stop()); }

  absl::Status Drain() override {
    v1::RunNumber request;
    request.set_run(stream_.run());
    v1::DrainRunResponse response;
    const absl::Status drained = connection_->Ask([&](Stub* stub) {
      grpc::ClientContext context;
      SetDeadline(&context);
      return stub->DrainRun(&context, request, &response);
    });
    if (!drained.ok()) {
      return SessionError(SessionStatus::kCorruptedSessionBuffer, drained.message());
    }
    stream_.WaitFor(response.total());
    return absl::OkStatus();
  }

  // The service tracks processes itself.
  void Arrived(ProcessId) override {}
  std::vector<ProcessId> Running() const override { return {}; }
  std::map<ProcessId, absl::Status> Refused() const override { return {}; }

 private:
  const std::shared_ptr<ServiceConnection> connection_;
  v1::RunRequest request_;
  RemoteStream stream_;
};

class RemoteDevice : public DeviceRun {
 public:
  explicit RemoteDevice(std::shared_ptr<ServiceConnection> connection)
      : connection_(connection), stream_(std::move(connection), nullptr) {}

  absl::Status Start(const v1::RunDeviceRequest& request) {
    return stream_.Start([&](Stub* stub, grpc::ClientContext* context) {
      return stub->RunDevice(context, request);
    });
  }

  absl::StatusOr<std::vector<double>> Poll() override {
    v1::RunNumber request;
    request.set_run(stream_.run());
    v1::DeviceValues response;
    RETURN_IF_ERROR(AsError(connection_->Ask([&](Stub* stub) {
      grpc::ClientContext context;
      SetDeadline(&context);
      return stub->PollDevice(&context, request, &response);
    })));
    return std::vector<double>(response.values().begin(), response.values().end());
  }

  absl::Status Stop() override { return AsError(stream_.Stop()); }

 private:
  const std::shared_ptr<ServiceConnection> connection_;
  RemoteStream stream_;
};

}  // namespace

absl::Status RemoteRunner::Connect() {
  return connection_->Ask([](Stub* stub) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::HelloResponse response;
    return stub->Hello(&context, {}, &response);
  });
}

absl::Status RemoteRunner::CheckFilter(const FilterSpec& filter) {
  return connection_->Ask([&](Stub* stub) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::CheckFilterResponse response;
    return stub->CheckFilter(&context, FilterToProto(filter), &response);
  });
}

absl::StatusOr<ProcessId> RemoteRunner::FindTarget(pid_t pid) {
  v1::FindProcessRequest request;
  request.set_pid(static_cast<uint32_t>(pid));
  v1::TargetProcess response;
  RETURN_IF_ERROR(connection_->Ask([&](Stub* stub) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return stub->FindProcess(&context, request, &response);
  }));
  return FromProto(response);
}

std::shared_ptr<SessionRun> RemoteRunner::NewRun(RunSpec spec,
                                                 std::shared_ptr<RecordRouter> router) {
  return std::make_shared<RemoteRun>(connection_, spec, std::move(router));
}

absl::StatusOr<std::string> RemoteRunner::CheckDevice(
    const std::vector<std::string>& counters, int gpu_index) {
  v1::CheckDeviceRequest request;
  request.mutable_counters()->Add(counters.begin(), counters.end());
  request.set_gpu_index(gpu_index);
  v1::CheckDeviceResponse response;
  RETURN_IF_ERROR(connection_->Ask([&](Stub* stub) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return stub->CheckDevice(&context, request, &response);
  }));
  return response.gpu_key();
}

absl::StatusOr<std::shared_ptr<DeviceRun>> RemoteRunner::StartDevice(
    SessionId, const std::vector<std::string>& counters, const std::string& gpu_key) {
  v1::RunDeviceRequest request;
  request.mutable_counters()->Add(counters.begin(), counters.end());
  request.set_gpu_key(gpu_key);
  auto device = std::make_shared<RemoteDevice>(connection_);
  RETURN_IF_ERROR(device->Start(request));
  return std::shared_ptr<DeviceRun>(std::move(device));
}

}  // namespace rocattach
