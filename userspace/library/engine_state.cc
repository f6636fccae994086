#include "userspace/library/engine_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/session_status.h"

namespace rocattach {

EngineState::EngineState(std::shared_ptr<SessionRunner> session_runner)
    : runner(std::move(session_runner)),
      session_numbers(std::make_shared<HandleSource::Count>(0)),
      session_handles(HandleKind::kSession, session_numbers),
      filter_handles(HandleKind::kFilter),
      buffer_handles(HandleKind::kBuffer) {}

absl::Status NoBuffer(BufferId id) {
  return SessionError(
      SessionStatus::kBufferNotFound,
      absl::StrCat("the session has no buffer ", static_cast<uint64_t>(id)));
}

absl::StatusOr<std::shared_ptr<Session>> EngineState::Find(SessionId id) const {
  if (!initialized) {
    return SessionError(SessionStatus::kNotInitialized, "sessions are not initialized");
  }
  auto found = sessions.find(id);
  if (found == sessions.end() || found->second->destroying) {
    return SessionError(SessionStatus::kSessionNotFound,
                        absl::StrCat("there is no ", HandleName(id)));
  }
  return found->second;
}

bool EngineState::WaitSettled(const Session& session) {
  while (session.phase == Phase::kStarting || session.phase == Phase::kStopping) {
    if (UserCallback::Active()) return false;
    changed.Wait(&mutex);
  }
  return true;
}

void EngineState::EndNow(Session& session) const {
  // Inside a callback, this thread does not wait, and the session may remain active.
  if (session.run == nullptr || UserCallback::Active()) return;
  session.run->EndAt(BootNs());
}

void EngineState::UpdateRoutes(Session& session) const {
  if (session.router == nullptr) return;
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
  session.router->SetRoutes(std::move(routes));
}

void EngineState::AddLeaving(BufferId id,
                             const std::shared_ptr<RecordBuffer>& records) {
  std::erase_if(leaving, [](const auto& entry) { return entry.second.expired(); });
  leaving[id] = records;
}

void EngineState::Lose(SessionId id, const RecordRouter* router,
                       const absl::Status& why) {
  SessionLostCallback lost;
  {
    absl::MutexLock lock(&mutex);
    auto found = sessions.find(id);
    if (found == sessions.end() || found->second->router.get() != router) return;
    Session& session = *found->second;
    session.loss = why;
    // If it is starting or stopping, the end of that phase reports this.
    if (session.phase != Phase::kActive) return;
    Settle(session, Phase::kLost);
    lost = session.lost;
  }
  if (!lost) return;
  UserCallback callback;
  lost(id, why);
}

void EngineState::Settle(Session& session, Phase phase) {
  session.phase = phase;
  changed.SignalAll();
}

}  // namespace rocattach
