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
        request_(RequestToProto(spec.filters, spec.targets)),
        stream_(std::move(connection), std::move(own), spec.session,
                std::move(spec.consumer), std::move(spec.names), std::move(spec.lost)) {
  }

  absl::Status Start() override {
    return stream_.Start([this](Stub* stub, grpc::ClientContext* context) {
      return stub->Run(context, request_);
    });
  }

  absl::Status Stop() override { return stream_.Stop(); }

  absl::Status Drain() override {
    const absl::Status drained = stream_->Drain();
    if (drained.ok()) return drained;
    return SessionError(SessionStatus::kCorruptedSessionBuffer, drained.message());
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(stream_->Check());
    return stream_->Answers() ? absl::OkStatus() : FromGrpc(connection_->NoAnswer());
  }

 private:
  const std::shared_ptr<ServiceConnection> connection_;
  const v1::SessionRequest request_;
  NamedStream stream_;
};

class RemoteDevice : public DeviceRun {
 public:
  RemoteDevice(std::shared_ptr<ServiceConnection> connection,
               std::shared_ptr<OwnSessions> own, SessionId session)
      : stream_(std::move(connection), std::move(own), session, nullptr, nullptr,
                nullptr) {}

  absl::Status Start(const v1::RunDeviceRequest& request) {
    return stream_.Start([&](Stub* stub, grpc::ClientContext* context) {
      return stub->RunDevice(context, request);
    });
  }

  absl::StatusOr<std::vector<double>> Poll() override {
    const auto polled = stream_->Poll();
    RETURN_IF_ERROR(AsError(polled.status()));
    return std::vector<double>(polled->values().begin(), polled->values().end());
  }

  absl::Status Stop() override { return stream_.Stop(); }
  bool lost() const override { return !stream_->Check().ok(); }

 private:
  mutable NamedStream stream_;
};

}  // namespace

absl::Status RemoteRunner::Connect() {
  return connection_->Hello();
}

absl::Status RemoteRunner::CheckFilter(const FilterSpec& filter) {
  return connection_->Call(&Stub::AsyncCheckFilter, FilterToProto(filter)).status();
}

absl::StatusOr<ProcessId> RemoteRunner::FindTarget(pid_t pid) {
  ASSIGN_OR_RETURN(const v1::ProcessIdentity found,
                   connection_->Call(&Stub::AsyncFindProcess, ToProto({.pid = pid})));
  return FromProto(found);
}

std::shared_ptr<SessionRun> RemoteRunner::NewRun(RunSpec spec) {
  return std::make_shared<RemoteRun>(connection_, own_, std::move(spec));
}

absl::StatusOr<std::string> RemoteRunner::CheckDevice(
    const std::vector<std::string>& counters, int gpu_index) {
  v1::CheckDeviceRequest request;
  request.mutable_counters()->Add(counters.begin(), counters.end());
  request.set_gpu_index(gpu_index);
  ASSIGN_OR_RETURN(const v1::CheckDeviceResponse checked,
                   connection_->Call(&Stub::AsyncCheckDevice, request));
  return checked.gpu_key();
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
