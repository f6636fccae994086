// The life cycle. Filters and buffers: session_objects.cc.
#include "userspace/session/session_engine.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/engine_state.h"
#include "userspace/session/session_status.h"

namespace rocattach {
namespace {

std::string Name(TargetId target) {
  return absl::StrCat("process ", target.pid);
}

absl::Status HasActiveSession(absl::string_view what, SessionId owner) {
  return SessionError(SessionStatus::kHasActiveSession,
                      absl::StrCat(what, " belongs to session ", Number(owner)));
}

std::vector<std::string> NamesOf(const Session& session, FilterKind kind) {
  for (const auto& [id, filter] : session.filters) {
    if (filter.spec.kind == kind) return filter.spec.CounterList();
  }
  return {};
}

uint64_t BufferDrops(const Session& session) {
  uint64_t dropped = 0;
  for (const auto& [id, buffer] : session.buffers) dropped += buffer.records->dropped();
  return dropped;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> EngineState::Find(SessionId id) const {
  if (!initialized) {
    return SessionError(SessionStatus::kNotInitialized, "sessions are not initialized");
  }
  auto found = sessions.find(id);
  if (found == sessions.end() || found->second->destroying) {
    return SessionError(SessionStatus::kSessionNotFound,
                        absl::StrCat("session ", Number(id)));
  }
  return found->second;
}

bool EngineState::WaitSettled(std::unique_lock<std::mutex>& lock,
                              const Session& session) {
  while (session.phase == Phase::kStarting || session.phase == Phase::kStopping) {
    if (RecordBuffer::InCallback()) return false;
    changed.wait(lock);
  }
  return true;
}

void EngineState::UpdateRoutes(Session& session) const {
  if (session.sink == nullptr) return;
  SessionRoutes routes;
  for (const auto& [id, filter] : session.filters) {
    auto found = session.buffers.find(filter.buffer);
    const std::shared_ptr<RecordBuffer> records =
        found == session.buffers.end() ? nullptr : found->second.records;
    switch (filter.spec.kind) {
      case FilterKind::kDispatchTimestamps:
        routes.timestamps = records;
        break;
      case FilterKind::kCounters:
        routes.counters = records;
        break;
      case FilterKind::kCountersSampler:
        routes.sampler = records;
        break;
      default:
        routes.api = records;
        routes.sync = filter.sync;
        break;
    }
  }
  session.sink->SetRoutes(std::move(routes));
}

void EngineState::Release(Session& session) {
  std::erase_if(target_owner, [&](const auto& e) { return e.second == session.id; });
  std::erase_if(counter_owner, [&](const auto& e) { return e.second == session.id; });
  if (all_owner == session.id) all_owner = {};
  session.running.clear();
}

void EngineState::Settle(Session& session, Phase phase) {
  session.phase = phase;
  changed.notify_all();
}

SessionEngine::SessionEngine(std::shared_ptr<SessionBackend> backend,
                             std::shared_ptr<const CounterCatalog> catalog)
    : state_(std::make_shared<EngineState>()) {
  state_->backend = std::move(backend);
  state_->catalog = std::move(catalog);
}

SessionEngine::~SessionEngine() {
  StopAll().IgnoreError();
  std::vector<SessionId> devices;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    for (const auto& [id, session] : state_->sessions) {
      if (session->sink != nullptr) session->sink->Detach();
    }
    for (const auto& [id, device] : state_->devices) devices.push_back(id);
  }
  for (SessionId id : devices) DestroyDeviceSession(id).IgnoreError();
}

SessionBackend& SessionEngine::backend() {
  return *state_->backend;
}

absl::Status SessionEngine::Initialize() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->initialized) {
    return SessionError(SessionStatus::kAlreadyInitialized, "initialize was called");
  }
  state_->initialized = true;
  return absl::OkStatus();
}

absl::Status SessionEngine::Finalize() {
  RETURN_IF_ERROR(CheckInitialized());
  return StopAll();
}

// Stops every session, then counts as not initialized.
absl::Status SessionEngine::StopAll() {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    ++state_->finalizing;
  }
  absl::Cleanup done = [&] {
    std::lock_guard<std::mutex> lock(state_->mutex);
    --state_->finalizing;
  };
  while (true) {
    std::shared_ptr<Session> session;
    {
      std::unique_lock<std::mutex> lock(state_->mutex);
      for (const auto& [id, candidate] : state_->sessions) {
        if (candidate->phase != Phase::kIdle) session = candidate;
      }
      if (session == nullptr) {
        state_->initialized = false;
        return absl::OkStatus();
      }
      if (!state_->WaitSettled(lock, *session)) {
        return SessionError(SessionStatus::kError,
                            "finalize inside a callback while a session is starting or "
                            "stopping");
      }
      if (session->phase != Phase::kActive) continue;
      session->phase = Phase::kStopping;
    }
    StopTargets(session).IgnoreError();  // nobody is left to tell
  }
}

absl::Status SessionEngine::CheckInitialized() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->initialized) return absl::OkStatus();
  return SessionError(SessionStatus::kNotInitialized, "sessions are not initialized");
}

absl::Status SessionEngine::CheckSession(SessionId session) const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->Find(session).status();
}

absl::StatusOr<SessionId> SessionEngine::CreateSession(int replay_mode) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (!state_->initialized) {
    return SessionError(SessionStatus::kNotInitialized, "sessions are not initialized");
  }
  if (replay_mode != ROCATTACH_NONE_REPLAY_MODE) {
    return SessionError(SessionStatus::kIncorrectReplayMode,
                        absl::StrCat("replay mode ", replay_mode,
                                     "; a program's work cannot be repeated from "
                                     "outside, only NONE is offered"));
  }
  auto session = std::make_shared<Session>();
  session->id = static_cast<SessionId>(state_->NewHandle(kSessionHandle));
  state_->sessions.emplace(session->id, session);
  return session->id;
}

absl::StatusOr<SessionId> SessionEngine::CreateReadySession(int replay_mode,
                                                            FilterSpec filter,
                                                            size_t buffer_bytes,
                                                            BufferCallback callback,
                                                            SyncCallback sync) {
  ASSIGN_OR_RETURN(const SessionId session, CreateSession(replay_mode));
  auto complete = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const FilterId filter_id,
                     CreateFilter(session, std::move(filter)));
    ASSIGN_OR_RETURN(const BufferId buffer_id,
                     CreateBuffer(session, buffer_bytes, std::move(callback)));
    RETURN_IF_ERROR(SetFilterBuffer(session, filter_id, buffer_id));
    if (!sync) return absl::OkStatus();
    return SetApiTraceSyncCallback(session, filter_id, std::move(sync));
  };
  if (absl::Status status = complete(); !status.ok()) {
    DestroySession(session).IgnoreError();
    return status;
  }
  return session;
}

absl::Status SessionEngine::AddSessionTarget(SessionId id, TargetId target) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  if (session->phase != Phase::kIdle) return HasActiveSession("its process", id);
  session->targets.insert(target);
  return absl::OkStatus();
}

absl::Status SessionEngine::StartSession(SessionId id) {
  std::shared_ptr<Session> session;
  {
    std::unique_lock<std::mutex> lock(state_->mutex);
    ASSIGN_OR_RETURN(session, state_->Find(id));
    if (state_->finalizing > 0) {
      return SessionError(SessionStatus::kNotInitialized, "finalize is under way");
    }
    if (session->filters.empty()) {
      return SessionError(SessionStatus::kSessionMissingFilter,
                          absl::StrCat("session ", Number(id)));
    }
    for (const auto& [filter_id, filter] : session->filters) {
      if (filter.buffer == BufferId() && !filter.sync) {
        return SessionError(SessionStatus::kSessionMissingBuffer,
                            absl::StrCat("filter ", static_cast<uint64_t>(filter_id),
                                         " of session ", Number(id)));
      }
    }
    if (!state_->WaitSettled(lock, *session) || session->phase != Phase::kIdle) {
      return HasActiveSession("what it asks for", id);
    }
    if (session->destroying) return state_->Find(id).status();
    session->phase = Phase::kStarting;
    session->refused.clear();
    std::weak_ptr<EngineState> weak = state_;
    session->sink = std::make_shared<SessionSink>(
        id, NamesOf(*session, FilterKind::kCounters),
        NamesOf(*session, FilterKind::kCountersSampler), [weak, id](TargetId target) {
          const std::shared_ptr<EngineState> state = weak.lock();
          if (state == nullptr) return;
          std::lock_guard<std::mutex> guard(state->mutex);
          auto found = state->sessions.find(id);
          if (found != state->sessions.end()) found->second->running.erase(target);
          auto owner = state->target_owner.find(target);
          if (owner != state->target_owner.end() && owner->second == id) {
            state->target_owner.erase(owner);
          }
        });
    session->dropped_before = BufferDrops(*session);
    state_->UpdateRoutes(*session);
  }
  const absl::Status status = StartTargets(session);
  if (!status.ok()) {
    // What was started before it failed; nothing that was collected is thrown away.
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      session->phase = Phase::kStopping;
    }
    StopTargets(session).IgnoreError();
    return status;
  }
  BecomeActive(session);
  return absl::OkStatus();
}

// Ends phase kStarting.
void SessionEngine::BecomeActive(const std::shared_ptr<Session>& session) {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (!session->destroy_settled) {
      state_->Settle(*session, Phase::kActive);
      return;
    }
    session->phase = Phase::kStopping;
  }
  StopTargets(session).IgnoreError();
}

// In phase kStarting.
absl::Status SessionEngine::StartTargets(const std::shared_ptr<Session>& session) {
  std::vector<FilterSpec> filters;
  std::vector<TargetId> targets;
  bool all = false;
  // Quick and without calls back, so that what is checked is what is reserved.
  const std::vector<TargetId> present = state_->backend->Targets();
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    all = session->targets.empty();
    targets =
        all ? present
            : std::vector<TargetId>(session->targets.begin(), session->targets.end());
    if (state_->all_owner != SessionId()) {
      return HasActiveSession("every process", state_->all_owner);
    }
    for (TargetId target : targets) {
      auto owner = state_->target_owner.find(target);
      if (owner != state_->target_owner.end()) {
        return HasActiveSession(Name(target), owner->second);
      }
    }
    for (TargetId target : targets) state_->target_owner[target] = session->id;
    if (all) state_->all_owner = session->id;
    for (const auto& [id, filter] : session->filters) filters.push_back(filter.spec);
    session->started = filters;
  }
  absl::Status first;
  size_t started = 0;
  for (TargetId target : targets) {
    const absl::Status status = StartTarget(session, target, filters);
    if (status.ok()) {
      ++started;
      continue;
    }
    // One process that cannot give what is asked for does not keep the others from it,
    // unless it was named.
    if (!all || SessionStatusOf(status) == SessionStatus::kHasActiveSession) {
      return status;
    }
    first.Update(status);
  }
  return started == 0 ? first : absl::OkStatus();
}

absl::Status SessionEngine::StartTarget(const std::shared_ptr<Session>& session,
                                        TargetId target,
                                        const std::vector<FilterSpec>& filters) {
  auto refuse = [&](absl::Status status) {
    std::lock_guard<std::mutex> lock(state_->mutex);
    session->running.erase(target);
    session->refused[target] = status;
    auto owner = state_->target_owner.find(target);
    if (owner != state_->target_owner.end() && owner->second == session->id) {
      state_->target_owner.erase(owner);
    }
    return status;
  };
  auto description = state_->backend->Describe(target);
  if (!description.ok()) {
    return refuse(
        SessionError(SessionStatus::kError,
                     absl::StrCat(Name(target), ": ", description.status().message())));
  }
  auto plan = CompilePlan(session->id, filters, *description, state_->catalog,
                          *state_->backend);
  if (!plan.ok()) return refuse(plan.status());
  absl::Status taken;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    for (const std::string& key : (*plan)->counter_gpus) {
      auto owner = state_->counter_owner.find(key);
      if (owner != state_->counter_owner.end() && owner->second != session->id) {
        taken = HasActiveSession(absl::StrCat("measuring counters of GPU ", key),
                                 owner->second);
      }
    }
    if (taken.ok()) {
      for (const std::string& key : (*plan)->counter_gpus) {
        state_->counter_owner[key] = session->id;
      }
      // Before the backend knows of it: the process may end at once.
      session->running.insert(target);
    }
  }
  if (!taken.ok()) return refuse(taken);
  session->sink->AddTarget(target, *plan);
  const absl::Status started = state_->backend->Start(target, *plan, session->sink);
  if (started.ok()) return absl::OkStatus();
  return refuse(SessionError(SessionStatus::kError,
                             absl::StrCat(Name(target), ": ", started.message())));
}

// In phase kStopping, which it ends.
absl::Status SessionEngine::StopTargets(const std::shared_ptr<Session>& session) {
  std::set<TargetId> running;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    running = session->running;
  }
  absl::Status result;
  auto note = [&](TargetId target, const absl::Status& status) {
    if (status.ok()) return;
    result.Update(SessionError(SessionStatus::kError,
                               absl::StrCat(Name(target), ": ", status.message())));
  };
  for (TargetId target : running) note(target, state_->backend->Stop(target));
  // In a callback nobody is waited for: see SessionBackend::Settle.
  if (!RecordBuffer::InCallback()) {
    for (TargetId target : running) note(target, state_->backend->Settle(target));
  }
  std::vector<std::shared_ptr<RecordBuffer>> buffers;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    for (const auto& [id, buffer] : session->buffers) buffers.push_back(buffer.records);
  }
  for (const auto& buffer : buffers) buffer->Flush();
  bool destroy = false;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->Release(*session);
    state_->Settle(*session, Phase::kIdle);
    destroy = session->destroy_settled;
  }
  if (destroy) FinishDestroy(session);
  return result;
}

// Of an idle session whose id counts as gone.
void SessionEngine::FinishDestroy(const std::shared_ptr<Session>& session) {
  std::vector<std::shared_ptr<RecordBuffer>> buffers;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    for (const auto& [id, buffer] : session->buffers) buffers.push_back(buffer.records);
  }
  for (const auto& buffer : buffers) buffer->Flush();
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::erase_if(state_->leaving, [](const auto& e) { return e.second.expired(); });
  for (const auto& [id, buffer] : session->buffers)
    state_->leaving[id] = buffer.records;
  state_->sessions.erase(session->id);
}

absl::Status SessionEngine::TerminateSession(SessionId id) {
  std::shared_ptr<Session> session;
  {
    std::unique_lock<std::mutex> lock(state_->mutex);
    ASSIGN_OR_RETURN(session, state_->Find(id));
    if (!state_->WaitSettled(lock, *session) || session->phase != Phase::kActive) {
      return SessionError(SessionStatus::kSessionNotActive,
                          absl::StrCat("session ", Number(id)));
    }
    session->phase = Phase::kStopping;
  }
  return StopTargets(session);
}

absl::Status SessionEngine::DestroySession(SessionId id) {
  std::shared_ptr<Session> session;
  bool active = false;
  {
    std::unique_lock<std::mutex> lock(state_->mutex);
    ASSIGN_OR_RETURN(session, state_->Find(id));
    const bool settled = state_->WaitSettled(lock, *session);
    if (session->destroying) return state_->Find(id).status();
    session->destroying = true;
    active = session->phase == Phase::kActive;
    if (!settled || active) session->destroy_settled = true;
    if (!settled) return absl::OkStatus();
    if (active) session->phase = Phase::kStopping;
  }
  if (active) {
    StopTargets(session).IgnoreError();  // nobody is left to use the session
  } else {
    FinishDestroy(session);
  }
  return absl::OkStatus();
}

void SessionEngine::TargetArrived(TargetId target) {
  std::shared_ptr<Session> session;
  std::vector<FilterSpec> filters;
  {
    std::unique_lock<std::mutex> lock(state_->mutex);
    auto found = state_->sessions.find(state_->all_owner);
    if (found != state_->sessions.end()) session = found->second;
    if (session == nullptr || !state_->WaitSettled(lock, *session) ||
        session->phase != Phase::kActive || session->running.contains(target) ||
        state_->target_owner.contains(target)) {
      return;
    }
    session->phase = Phase::kStarting;
    state_->target_owner[target] = session->id;
    filters = session->started;  // it goes on as it was started
  }
  StartTarget(session, target, filters).IgnoreError();  // the report tells
  BecomeActive(session);
}

absl::StatusOr<SessionReport> SessionEngine::Report(SessionId id) const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  SessionReport report;
  report.active = session->phase == Phase::kActive;
  report.running.assign(session->running.begin(), session->running.end());
  report.refused = session->refused;
  const uint64_t dropped = BufferDrops(*session);
  report.dropped = dropped - std::min(dropped, session->dropped_before);
  if (session->sink != nullptr) report.dropped += session->sink->unrouted();
  return report;
}

}  // namespace rocattach
