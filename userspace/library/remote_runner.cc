#include "userspace/library/remote_runner.h"

#include <utility>

#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/control/session_wire.h"
#include "userspace/library/remote_run.h"

namespace rocattach {
namespace {

using Stub = ServiceConnection::Stub;

// Makes every error of the service's run an ERROR: whether a session is active is for
// the engine to say.
absl::Status AsError(const absl::Status& status) {
  if (status.ok()) return status;
  return SessionError(SessionStatus::kError, status.message());
}

// One run in the service, registered in OwnSessions by its number there.
class NamedStream {
 public:
  NamedStream(std::shared_ptr<ServiceConnection> connection,
              std::shared_ptr<OwnSessions> own, SessionId session,
              std::shared_ptr<RecordConsumer> consumer,
              std::shared_ptr<SessionTargetNames> names, RemoteStream::Lost lost)
      : own_(std::move(own)),
        session_(session),
        stream_(std::move(connection), std::move(consumer), std::move(names),
                std::move(lost)) {}
  ~NamedStream() { own_->Remove(stream_.session()); }
  NamedStream(const NamedStream&) = delete;
  NamedStream& operator=(const NamedStream&) = delete;

  absl::Status Start(const RemoteStream::Begin& begin) {
    RETURN_IF_ERROR(own_->Named(stream_.Start(begin)));
    own_->Add(stream_.session(), session_);
    return absl::OkStatus();
  }
  absl::Status Stop() {
    absl::Status stopped = AsError(stream_.Stop());
    own_->Remove(stream_.session());
    return stopped;
  }
  RemoteStream& operator*() { return stream_; }
  RemoteStream* operator->() { return &stream_; }

 private:
  const std::shared_ptr<OwnSessions> own_;
  const SessionId session_;
  RemoteStream stream_;
};

class RemoteRun : public SessionRun {
 public:
  RemoteRun(std::shared_ptr<ServiceConnection> connection,
            std::shared_ptr<OwnSessions> own, RunSpec spec)
      : connection_(connection),
        stream_(std::move(connection), std::move(own), spec.session,
                std::move(spec.consumer), std::move(spec.names), std::move(spec.lost)) {
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

  absl::Status Stop() override { return stream_.Stop(); }

  absl::Status Drain() override {
    absl::Status drained = DrainRun();
    if (drained.ok()) return drained;
    return SessionError(SessionStatus::kCorruptedSessionBuffer, drained.message());
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(stream_->Check());
    return connection_->Answers() ? absl::OkStatus()
                                  : FromGrpc(connection_->NoAnswer());
  }

 private:
  absl::Status DrainRun() {
    v1::RunNumber request;
    request.set_run(stream_->run());
    v1::DrainRunResponse response;
    RETURN_IF_ERROR(connection_->Call<v1::DrainRunResponse>(
        [&](Stub* stub, grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          return stub->AsyncDrainRun(context, request, queue);
        },
        &response));
    return stream_->WaitFor(response.total());
  }

  const std::shared_ptr<ServiceConnection> connection_;
  v1::RunRequest request_;
  NamedStream stream_;
};

class RemoteDevice : public DeviceRun {
 public:
  RemoteDevice(std::shared_ptr<ServiceConnection> connection,
               std::shared_ptr<OwnSessions> own, SessionId session)
      : connection_(connection),
        stream_(std::move(connection), std::move(own), session, nullptr, nullptr,
                nullptr) {}

  absl::Status Start(const v1::RunDeviceRequest& request) {
    return stream_.Start([&](Stub* stub, grpc::ClientContext* context) {
      return stub->RunDevice(context, request);
    });
  }

  absl::StatusOr<std::vector<double>> Poll() override {
    RETURN_IF_ERROR(stream_->Check());
    v1::RunNumber request;
    request.set_run(stream_->run());
    v1::DeviceValues response;
    RETURN_IF_ERROR(AsError(connection_->Call<v1::DeviceValues>(
        [&](Stub* stub, grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          return stub->AsyncPollDevice(context, request, queue);
        },
        &response)));
    return std::vector<double>(response.values().begin(), response.values().end());
  }

  absl::Status Stop() override { return stream_.Stop(); }
  bool lost() const override { return !stream_->Check().ok(); }

 private:
  const std::shared_ptr<ServiceConnection> connection_;
  mutable NamedStream stream_;
};

}  // namespace

absl::Status RemoteRunner::Connect() {
  v1::HelloResponse response;
  return connection_->Call<v1::HelloResponse>(
      [](Stub* stub, grpc::ClientContext* context, grpc::CompletionQueue* queue) {
        return stub->AsyncHello(context, {}, queue);
      },
      &response);
}

absl::Status RemoteRunner::CheckFilter(const FilterSpec& filter) {
  v1::CheckFilterResponse response;
  return connection_->Call<v1::CheckFilterResponse>(
      [&](Stub* stub, grpc::ClientContext* context, grpc::CompletionQueue* queue) {
        return stub->AsyncCheckFilter(context, FilterToProto(filter), queue);
      },
      &response);
}

absl::StatusOr<ProcessId> RemoteRunner::FindTarget(pid_t pid) {
  v1::FindProcessRequest request;
  request.set_pid(static_cast<uint32_t>(pid));
  v1::TargetProcess response;
  RETURN_IF_ERROR(connection_->Call<v1::TargetProcess>(
      [&](Stub* stub, grpc::ClientContext* context, grpc::CompletionQueue* queue) {
        return stub->AsyncFindProcess(context, request, queue);
      },
      &response));
  return FromProto(response);
}

std::shared_ptr<SessionRun> RemoteRunner::NewRun(RunSpec spec) {
  return std::make_shared<RemoteRun>(connection_, own_, std::move(spec));
}

absl::StatusOr<std::string> RemoteRunner::CheckDevice(
    const std::vector<std::string>& counters, int gpu_index) {
  v1::CheckDeviceRequest request;
  request.mutable_counters()->Add(counters.begin(), counters.end());
  request.set_gpu_index(gpu_index);
  v1::CheckDeviceResponse response;
  RETURN_IF_ERROR(connection_->Call<v1::CheckDeviceResponse>(
      [&](Stub* stub, grpc::ClientContext* context, grpc::CompletionQueue* queue) {
        return stub->AsyncCheckDevice(context, request, queue);
      },
      &response));
  return response.gpu_key();
}

absl::StatusOr<std::shared_ptr<DeviceRun>> RemoteRunner::StartDevice(
    SessionId session, const std::vector<std::string>& counters,
    const std::string& gpu_key) {
  v1::RunDeviceRequest request;
  request.mutable_counters()->Add(counters.begin(), counters.end());
  request.set_gpu_key(gpu_key);
  auto device = std::make_shared<RemoteDevice>(connection_, own_, session);
  RETURN_IF_ERROR(device->Start(request));
  return std::shared_ptr<DeviceRun>(std::move(device));
}

}  // namespace rocattach
