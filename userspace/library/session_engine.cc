#include "userspace/library/session_engine.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/library/engine_state.h"
#include "userspace/session/filter_check.h"

namespace rocattach {
namespace {

uint64_t BufferDrops(const Session& session) {
  uint64_t dropped = 0;
  for (const auto& [id, buffer] : session.buffers) dropped += buffer.records->dropped();
  return dropped;
}

// True if there is something to stop.
bool HasRun(const Session& session) {
  return session.phase == Phase::kActive || session.phase == Phase::kLost;
}

absl::Status NotActive(SessionId id) {
  return SessionError(SessionStatus::kSessionNotActive,
                      absl::StrCat(HandleName(id), " is not active"));
}

absl::Status IsActive(SessionId id) {
  return SessionError(SessionStatus::kHasActiveSession,
                      absl::StrCat(HandleName(id), " is active"));
}

// A session whose program has named its modes needs a filter for each.
absl::Status CheckModes(const Session& session) {
  uint32_t missing = session.modes;
  for (const auto& [id, filter] : session.filters) {
    missing &= ~static_cast<uint32_t>(ModeOf(filter.spec.kind));
  }
  if (missing == 0) return absl::OkStatus();
  const bool tracing = (missing & static_cast<uint32_t>(SessionMode::kTracing)) != 0;
  return SessionError(
      SessionStatus::kSessionMissingFilter,
      absl::StrCat(HandleName(session.id), " has the mode ",
                   tracing ? "tracing" : "profiling", " and no filter for it"));
}

}  // namespace

SessionEngine::SessionEngine(std::shared_ptr<SessionRunner> runner)
    : state_(std::make_shared<EngineState>(std::move(runner))),
      filters_(state_),
      buffers_(state_),
      names_(state_),
      devices_(state_->runner, state_->session_numbers) {}

SessionEngine::~SessionEngine() {
  StopAll().IgnoreError();
}

absl::Status SessionEngine::Initialize() {
  absl::Status done =
      SessionError(SessionStatus::kAlreadyInitialized, "initialize was called");
  {
    absl::MutexLock lock(&state_->mutex);
    if (state_->initialized) return done;
  }
  RETURN_IF_ERROR(state_->runner->Connect());
  absl::MutexLock lock(&state_->mutex);
  if (state_->initialized) return done;  // another thread was faster
  state_->initialized = true;
  return absl::OkStatus();
}

absl::Status SessionEngine::Finalize() {
  RETURN_IF_ERROR(CheckInitialized());
  return StopAll();
}

// Stops every session; the engine then counts as not initialized.
absl::Status SessionEngine::StopAll() {
  {
    absl::MutexLock lock(&state_->mutex);
    ++state_->finalizing;
  }
  absl::Cleanup done = [&] {
    absl::MutexLock lock(&state_->mutex);
    --state_->finalizing;
  };
  while (true) {
    std::shared_ptr<Session> session;
    {
      absl::MutexLock lock(&state_->mutex);
      for (const auto& [id, candidate] : state_->sessions) {
        if (candidate->phase != Phase::kIdle) session = candidate;
      }
      if (session == nullptr) {
        state_->initialized = false;
        return absl::OkStatus();
      }
      state_->EndNow(*session);
      if (!state_->WaitSettled(*session)) {
        return SessionError(SessionStatus::kError,
                            "finalize inside a callback while a session is starting or "
                            "stopping");
      }
      if (!HasRun(*session)) continue;
      session->phase = Phase::kStopping;
    }
    StopRun(session).IgnoreError();  // there is no one to report the error to
  }
}

absl::Status SessionEngine::CheckInitialized() const {
  absl::MutexLock lock(&state_->mutex);
  if (state_->initialized) return absl::OkStatus();
  return SessionError(SessionStatus::kNotInitialized, "sessions are not initialized");
}

absl::Status SessionEngine::CheckSession(SessionId session) const {
  absl::MutexLock lock(&state_->mutex);
  return state_->Find(session).status();
}

absl::StatusOr<SessionId> SessionEngine::CreateSession(int replay_mode) {
  absl::MutexLock lock(&state_->mutex);
  if (!state_->initialized) {
    return SessionError(SessionStatus::kNotInitialized, "sessions are not initialized");
  }
  if (replay_mode != kNoReplay) {
    return SessionError(SessionStatus::kIncorrectReplayMode,
                        absl::StrCat("replay mode ", replay_mode,
                                     "; a program's work cannot be repeated from "
                                     "outside, only NONE is offered"));
  }
  auto session = std::make_shared<Session>();
  session->id = static_cast<SessionId>(state_->session_handles.Next());
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
                     filters_.Create(session, std::move(filter)));
    if (callback) {
      ASSIGN_OR_RETURN(const BufferId buffer_id,
                       buffers_.Create(session, buffer_bytes, std::move(callback)));
      RETURN_IF_ERROR(filters_.SetBuffer(session, filter_id, buffer_id));
    }
    if (!sync) return absl::OkStatus();
    return filters_.SetSyncCallback(session, filter_id, std::move(sync));
  };
  if (absl::Status status = complete(); !status.ok()) {
    DestroySession(session).IgnoreError();
    return status;
  }
  return session;
}

absl::Status SessionEngine::AddSessionTarget(SessionId id, ProcessId target) {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  if (session->phase != Phase::kIdle && session->phase != Phase::kLost) {
    return IsActive(id);
  }
  session->targets.insert(target);
  return absl::OkStatus();
}

absl::Status SessionEngine::AddSessionProcess(SessionId id, pid_t pid) {
  {
    absl::MutexLock lock(&state_->mutex);
    ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
    if (session->phase != Phase::kIdle && session->phase != Phase::kLost) {
      return IsActive(id);
    }
  }
  ASSIGN_OR_RETURN(const ProcessId target, state_->runner->FindTarget(pid));
  return AddSessionTarget(id, target);
}

absl::Status SessionEngine::SetLostCallback(SessionId id,
                                            SessionLostCallback callback) {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  session->lost = std::move(callback);
  return absl::OkStatus();
}

absl::Status SessionEngine::AddSessionMode(SessionId id, SessionMode mode) {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  if (mode != SessionMode::kProfiling && mode != SessionMode::kTracing) {
    return SessionError(SessionStatus::kInvalidArguments,
                        absl::StrCat("session mode ", static_cast<uint32_t>(mode)));
  }
  session->modes |= static_cast<uint32_t>(mode);
  return absl::OkStatus();
}

// Enters phase kStarting.
absl::StatusOr<std::shared_ptr<Session>> SessionEngine::PrepareStart(SessionId id) {
  // Destroyed after the lock is released: its destructor may have to wait for a
  // callback.
  std::shared_ptr<SessionRun> previous;
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(std::shared_ptr<Session> session, state_->Find(id));
  if (state_->finalizing > 0) {
    return SessionError(SessionStatus::kNotInitialized, "finalize is in progress");
  }
  if (session->filters.empty()) {
    return SessionError(SessionStatus::kSessionMissingFilter,
                        absl::StrCat(HandleName(id), " has no filter"));
  }
  RETURN_IF_ERROR(CheckModes(*session));
  for (const auto& [filter_id, filter] : session->filters) {
    if (filter.buffer == BufferId() && !filter.sync) {
      return SessionError(
          SessionStatus::kSessionMissingBuffer,
          absl::StrCat("filter ", static_cast<uint64_t>(filter_id), " of ",
                       HandleName(id), " has neither a buffer nor a callback"));
    }
  }
  if (!state_->WaitSettled(*session) || session->phase == Phase::kActive) {
    return IsActive(id);
  }
  if (session->destroying) return state_->Find(id).status();
  session->phase = Phase::kStarting;
  RunSpec spec;
  spec.session = id;
  spec.names = session->names;
  spec.targets.assign(session->targets.begin(), session->targets.end());
  for (const auto& [filter_id, filter] : session->filters) {
    spec.filters.push_back(filter.spec);
  }
  session->router = std::make_shared<RecordRouter>(id);
  spec.consumer = session->router;
  session->loss = absl::OkStatus();
  spec.lost = [weak = std::weak_ptr<EngineState>(state_), id,
               router = session->router.get()](const absl::Status& why) {
    if (const auto state = weak.lock()) state->Lose(id, router, why);
  };
  previous = std::move(session->run);
  session->run = state_->runner->NewRun(std::move(spec));
  session->dropped_before = BufferDrops(*session);
  state_->UpdateRoutes(*session);
  return session;
}

absl::Status SessionEngine::StartSession(SessionId id) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, PrepareStart(id));
  if (absl::Status status = session->run->Start(); !status.ok()) {
    // Stops what was started before the failure; nothing that was collected is
    // discarded.
    {
      absl::MutexLock lock(&state_->mutex);
      session->phase = Phase::kStopping;
    }
    StopRun(session).IgnoreError();
    return status;
  }
  BecomeActive(session);
  return absl::OkStatus();
}

// Ends phase kStarting.
void SessionEngine::BecomeActive(const std::shared_ptr<Session>& session) {
  absl::Status loss;  // set if it was lost while it was starting
  std::shared_ptr<RecordRouter> router;
  bool destroy = false;
  {
    absl::MutexLock lock(&state_->mutex);
    destroy = session->destroy_settled;
    if (destroy) {
      session->phase = Phase::kStopping;
    } else {
      state_->Settle(*session, Phase::kActive);
      loss = session->loss;
      router = session->router;
    }
  }
  if (destroy) {
    StopRun(session).IgnoreError();
  } else if (!loss.ok()) {
    state_->Lose(session->id, router.get(), loss);
  }
}

// Called in phase kStopping, which it ends.
absl::Status SessionEngine::StopRun(const std::shared_ptr<Session>& session) {
  absl::Status result = session->run->Stop();
  std::vector<std::shared_ptr<RecordBuffer>> buffers;
  {
    absl::MutexLock lock(&state_->mutex);
    for (const auto& [id, buffer] : session->buffers) buffers.push_back(buffer.records);
  }
  for (const auto& buffer : buffers) buffer->Flush();
  bool destroy = false;
  {
    absl::MutexLock lock(&state_->mutex);
    state_->Settle(*session, Phase::kIdle);
    destroy = session->destroy_settled;
  }
  if (destroy) FinishDestroy(session);
  return result;
}

// For an idle session whose id counts as gone.
void SessionEngine::FinishDestroy(const std::shared_ptr<Session>& session) {
  std::vector<std::shared_ptr<RecordBuffer>> buffers;
  {
    absl::MutexLock lock(&state_->mutex);
    for (const auto& [id, buffer] : session->buffers) buffers.push_back(buffer.records);
  }
  for (const auto& buffer : buffers) buffer->Flush();
  absl::MutexLock lock(&state_->mutex);
  for (const auto& [id, buffer] : session->buffers) {
    state_->AddLeaving(id, buffer.records);
  }
  state_->sessions.erase(session->id);
}

absl::Status SessionEngine::TerminateSession(SessionId id) {
  std::shared_ptr<Session> session;
  {
    absl::MutexLock lock(&state_->mutex);
    ASSIGN_OR_RETURN(session, state_->Find(id));
    state_->EndNow(*session);
    if (!state_->WaitSettled(*session) || !HasRun(*session)) {
      return NotActive(id);
    }
    session->phase = Phase::kStopping;
  }
  return StopRun(session);
}

absl::Status SessionEngine::DestroySession(SessionId id) {
  std::shared_ptr<Session> session;
  bool active = false;
  {
    absl::MutexLock lock(&state_->mutex);
    ASSIGN_OR_RETURN(session, state_->Find(id));
    state_->EndNow(*session);
    const bool settled = state_->WaitSettled(*session);
    if (session->destroying) return state_->Find(id).status();
    session->destroying = true;
    active = HasRun(*session);
    if (!settled || active) session->destroy_settled = true;
    if (!settled) return absl::OkStatus();
    if (active) session->phase = Phase::kStopping;
  }
  if (active) {
    StopRun(session).IgnoreError();  // the session is no longer in use
  } else {
    FinishDestroy(session);
  }
  return absl::OkStatus();
}

absl::Status SessionEngine::CheckActive(SessionId id) const {
  std::shared_ptr<SessionRun> run;
  {
    absl::MutexLock lock(&state_->mutex);
    ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
    if (session->phase == Phase::kLost) return session->loss;
    if (session->phase != Phase::kActive) return NotActive(id);
    run = session->run;
  }
  return run->Check();
}

absl::StatusOr<uint64_t> SessionEngine::Dropped(SessionId id) const {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  const uint64_t dropped = BufferDrops(*session);
  const uint64_t of_start = dropped - std::min(dropped, session->dropped_before);
  return of_start + (session->router == nullptr ? 0 : session->router->dropped());
}

}  // namespace rocattach
