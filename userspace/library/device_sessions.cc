#include "userspace/library/device_sessions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

absl::Status DeviceNotActive(SessionId id) {
  return SessionError(SessionStatus::kSessionNotActive,
                      absl::StrCat("device ", HandleName(id), " is not active"));
}

}  // namespace

// A device session reserved for use by one thread.
class DeviceSessions::Use {
 public:
  static absl::StatusOr<Use> Begin(DeviceSessions* owner, SessionId id) {
    ASSIGN_OR_RETURN(std::shared_ptr<Device> device, owner->BeginUse(id));
    return Use(owner, std::move(device));
  }
  ~Use() {
    if (device_ != nullptr) owner_->EndUse(*device_);
  }
  Use(Use&& other) noexcept
      : owner_(other.owner_), device_(std::exchange(other.device_, nullptr)) {}
  Use& operator=(Use&&) = delete;

  Device* operator->() const { return device_.get(); }

 private:
  Use(DeviceSessions* owner, std::shared_ptr<Device> device)
      : owner_(owner), device_(std::move(device)) {}

  DeviceSessions* owner_;
  std::shared_ptr<Device> device_;
};

DeviceSessions::DeviceSessions(std::shared_ptr<SessionRunner> runner,
                               std::shared_ptr<HandleSource::Count> numbers)
    : runner_(std::move(runner)),
      handles_(HandleKind::kDeviceSession, std::move(numbers)) {}

DeviceSessions::~DeviceSessions() {
  std::vector<SessionId> ids;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, device] : devices_) ids.push_back(id);
  }
  for (SessionId id : ids) Destroy(id).IgnoreError();
}

absl::StatusOr<std::shared_ptr<DeviceSessions::Device>> DeviceSessions::BeginUse(
    SessionId id) {
  absl::MutexLock lock(&mutex_);
  while (true) {
    auto found = devices_.find(id);
    if (found == devices_.end()) {
      return SessionError(SessionStatus::kSessionNotFound,
                          absl::StrCat("there is no device ", HandleName(id)));
    }
    if (!found->second->busy) {
      found->second->busy = true;
      return found->second;
    }
    use_ended_.Wait(&mutex_);
  }
}

void DeviceSessions::EndUse(Device& device) {
  absl::MutexLock lock(&mutex_);
  device.busy = false;
  use_ended_.SignalAll();
}

absl::StatusOr<SessionId> DeviceSessions::Create(std::vector<std::string> counters,
                                                 int gpu_index) {
  auto device = std::make_shared<Device>();
  ASSIGN_OR_RETURN(device->gpu_key, runner_->CheckDevice(counters, gpu_index));
  device->names = std::move(counters);
  absl::MutexLock lock(&mutex_);
  const auto id = static_cast<SessionId>(handles_.Next());
  devices_.emplace(id, std::move(device));
  return id;
}

absl::Status DeviceSessions::Start(SessionId id) {
  ASSIGN_OR_RETURN(const Use device, Use::Begin(this, id));
  if (device->run != nullptr && !device->run->lost()) {
    return SessionError(SessionStatus::kHasActiveSession,
                        absl::StrCat("device ", HandleName(id), " is active"));
  }
  device->run = nullptr;
  ASSIGN_OR_RETURN(device->run,
                   runner_->StartDevice(id, device->names, device->gpu_key));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> DeviceSessions::Poll(SessionId id) {
  ASSIGN_OR_RETURN(const Use device, Use::Begin(this, id));
  if (device->run == nullptr) return DeviceNotActive(id);
  return device->run->Poll();
}

absl::StatusOr<std::vector<std::string>> DeviceSessions::Counters(SessionId id) {
  ASSIGN_OR_RETURN(const Use device, Use::Begin(this, id));
  return device->names;
}

absl::Status DeviceSessions::Stop(SessionId id) {
  ASSIGN_OR_RETURN(const Use device, Use::Begin(this, id));
  if (device->run == nullptr) return DeviceNotActive(id);
  return std::exchange(device->run, nullptr)->Stop();
}

absl::Status DeviceSessions::Destroy(SessionId id) {
  ASSIGN_OR_RETURN(const Use device, Use::Begin(this, id));
  if (device->run != nullptr) {
    // It is being destroyed.
    std::exchange(device->run, nullptr)->Stop().IgnoreError();
  }
  absl::MutexLock lock(&mutex_);
  devices_.erase(id);
  return absl::OkStatus();
}

}  // namespace rocattach
