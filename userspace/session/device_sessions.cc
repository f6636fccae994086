// Device profiling: the counters of a GPU, whoever uses it.
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/session/engine_state.h"
#include "userspace/session/session_engine.h"
#include "userspace/session/target_runner.h"

namespace rocattach {
namespace {

// Takes a device session for one conversation with the backend.
class Conversation {
 public:
  static absl::StatusOr<Conversation> Begin(EngineState& state, SessionId id) {
    std::unique_lock<std::mutex> lock(state.mutex);
    while (true) {
      auto found = state.devices.find(id);
      if (found == state.devices.end()) {
        return SessionError(SessionStatus::kSessionNotFound,
                            absl::StrCat("device session ", Number(id)));
      }
      if (!found->second->busy) {
        found->second->busy = true;
        return Conversation(state, found->second);
      }
      state.changed.wait(lock);
    }
  }
  ~Conversation() {
    if (session_ == nullptr) return;
    std::lock_guard<std::mutex> lock(state_->mutex);
    session_->busy = false;
    state_->changed.notify_all();
  }
  Conversation(Conversation&& other) noexcept
      : state_(other.state_), session_(std::exchange(other.session_, nullptr)) {}
  Conversation& operator=(Conversation&&) = delete;

  DeviceSession* operator->() const { return session_.get(); }

 private:
  Conversation(EngineState& state, std::shared_ptr<DeviceSession> session)
      : state_(&state), session_(std::move(session)) {}
  EngineState* state_;
  std::shared_ptr<DeviceSession> session_;
};

absl::Status NotActive(SessionId id) {
  return SessionError(SessionStatus::kSessionNotActive,
                      absl::StrCat("device session ", Number(id)));
}

}  // namespace

absl::StatusOr<SessionId> SessionEngine::CreateDeviceSession(
    std::vector<std::string> counters, int gpu_index) {
  ASSIGN_OR_RETURN(std::string gpu_key, CheckDevice(counters, gpu_index));
  return AddDeviceSession(std::move(counters), std::move(gpu_key));
}

absl::StatusOr<std::string> SessionEngine::CheckDevice(
    const std::vector<std::string>& counters, int gpu_index) const {
  return state_->runner->CheckDevice(counters, gpu_index);
}

SessionId SessionEngine::AddDeviceSession(std::vector<std::string> counters,
                                          std::string gpu_key) {
  auto session = std::make_shared<DeviceSession>();
  session->gpu_key = std::move(gpu_key);
  session->names = std::move(counters);
  std::lock_guard<std::mutex> lock(state_->mutex);
  const auto id = static_cast<SessionId>(state_->NewHandle(kDeviceHandle));
  state_->devices.emplace(id, std::move(session));
  return id;
}

absl::Status SessionEngine::StartDeviceSession(SessionId id) {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  if (session->run != nullptr) return OwnedBy("what it measures", id);
  ASSIGN_OR_RETURN(session->run,
                   state_->runner->StartDevice(id, session->names, session->gpu_key));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> SessionEngine::PollDeviceSession(SessionId id) {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  if (session->run == nullptr) return NotActive(id);
  return session->run->Poll();
}

absl::StatusOr<std::vector<std::string>> SessionEngine::DeviceSessionCounters(
    SessionId id) const {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  return session->names;
}

absl::Status SessionEngine::StopDeviceSession(SessionId id) {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  if (session->run == nullptr) return NotActive(id);
  return std::exchange(session->run, nullptr)->Stop();
}

absl::Status SessionEngine::DestroyDeviceSession(SessionId id) {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  if (session->run != nullptr) {
    // It is going away.
    std::exchange(session->run, nullptr)->Stop().IgnoreError();
  }
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->devices.erase(id);
  return absl::OkStatus();
}

}  // namespace rocattach
