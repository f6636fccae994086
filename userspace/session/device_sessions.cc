// Device profiling: the counters of a GPU, whoever uses it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/counter_file.h"
#include "userspace/session/engine_state.h"
#include "userspace/session/session_engine.h"
#include "userspace/session/session_status.h"

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
  if (counters.empty()) {
    return SessionError(SessionStatus::kInvalidArguments, "no counters named");
  }
  const std::vector<TargetGpu> gpus = state_->backend->MachineGpus();
  if (gpu_index < 0 || static_cast<size_t>(gpu_index) >= gpus.size()) {
    return SessionError(SessionStatus::kAgentNotFound,
                        absl::StrCat("GPU ", gpu_index, " of ", gpus.size()));
  }
  auto session = std::make_shared<DeviceSession>();
  session->gpu = static_cast<size_t>(gpu_index);
  session->description = gpus[session->gpu];
  session->key = session->description.key;
  const ArchitectureCounters* known =
      state_->catalog->Find(session->description.architecture);
  if (known == nullptr) {
    return SessionError(
        SessionStatus::kCounterInformationMissing,
        absl::StrCat("the counters of ", session->description.architecture,
                     " are not known"));
  }
  ASSIGN_OR_RETURN(session->plan,
                   PlanPasses(*known, {counters}, {.single_pass = true}));
  session->names = std::move(counters);
  std::lock_guard<std::mutex> lock(state_->mutex);
  const auto id = static_cast<SessionId>(state_->NewHandle(kDeviceHandle));
  state_->devices.emplace(id, std::move(session));
  return id;
}

absl::Status SessionEngine::StartDeviceSession(SessionId id) {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    auto [owner, added] = state_->counter_owner.try_emplace(session->key, id);
    if (!added) {
      return SessionError(SessionStatus::kHasActiveSession,
                          absl::StrCat("the counters of GPU ", session->key,
                                       " belong to session ", Number(owner->second)));
    }
  }
  const absl::Status started =
      state_->backend->StartDevice(session->gpu, session->plan.passes[0].counters);
  if (!started.ok()) {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->counter_owner.erase(session->key);
    return SessionError(SessionStatus::kError, started.message());
  }
  session->active = true;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> SessionEngine::PollDeviceSession(SessionId id) {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  if (!session->active) return NotActive(id);
  auto readings = state_->backend->PollDevice(session->gpu);
  if (!readings.ok()) {
    return SessionError(SessionStatus::kError, readings.status().message());
  }
  // The same evaluation as that of a session's records.
  CompiledPlan plan;
  plan.counter_names = session->plan.passes[0].counters;
  PlanArchitecture architecture;
  architecture.counters = state_->catalog->Find(session->description.architecture);
  std::vector<double> values(session->names.size(), std::nan(""));
  for (const rocattach_record_counter_t& value :
       RequestedValues(plan, architecture, session->plan, session->description,
                       session->names, 0, *readings)) {
    // A name that was asked for twice has its value twice.
    for (size_t i = 0; i < values.size(); ++i) {
      if (session->names[i] == session->names[value.counter]) values[i] = value.value;
    }
  }
  return values;
}

absl::StatusOr<std::vector<std::string>> SessionEngine::DeviceSessionCounters(
    SessionId id) const {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  return session->names;
}

absl::Status SessionEngine::StopDeviceSession(SessionId id) {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  if (!session->active) return NotActive(id);
  const absl::Status stopped = state_->backend->StopDevice(session->gpu);
  session->active = false;
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->counter_owner.erase(session->key);
  return stopped.ok() ? absl::OkStatus()
                      : SessionError(SessionStatus::kError, stopped.message());
}

absl::Status SessionEngine::DestroyDeviceSession(SessionId id) {
  ASSIGN_OR_RETURN(const Conversation session, Conversation::Begin(*state_, id));
  if (session->active) {
    state_->backend->StopDevice(session->gpu).IgnoreError();  // it is going away
    session->active = false;
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->counter_owner.erase(session->key);
  }
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->devices.erase(id);
  return absl::OkStatus();
}

}  // namespace rocattach
