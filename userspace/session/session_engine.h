// Profiling sessions: their life cycle. Filters, buffers and device sessions are in
// separate classes.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_ENGINE_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/counters/catalog.h"
#include "userspace/session/device_sessions.h"
#include "userspace/session/record_router.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_buffers.h"
#include "userspace/session/session_filters.h"
#include "userspace/session/session_names.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_types.h"

namespace rocattach {

struct EngineState;
struct Session;

// The state of a session.
struct SessionReport {
  bool active = false;
  // The processes it collects from now.
  std::vector<ProcessId> running;
  // Processes in which the last start failed, with the reasons.
  std::map<ProcessId, absl::Status> refused;
  // Processes that run without something that the filters would include.
  std::map<ProcessId, std::vector<LeftOut>> left_out;
  // Records of the last start for which there was no room or no buffer.
  uint64_t dropped = 0;
  CollectedCounts collected;  // since the session was created
};

// Thread-safe. Errors carry a SessionStatus (SessionStatusOf); every function checks in
// the order that rocattach_sessions.h documents, NOT_INITIALIZED and SESSION_NOT_FOUND
// first, and changes nothing when it fails. User callbacks run with no lock held and
// may call any function.
//
// A session is for the processes that were added, or for all current and future ones. A
// process has at most one active session, and so have the counters of a GPU.
class SessionEngine {
 public:
  explicit SessionEngine(std::shared_ptr<SessionRunner> runner);
  // For the processes of this backend.
  SessionEngine(std::shared_ptr<SessionBackend> backend,
                std::shared_ptr<const CounterCatalog> catalog);
  // Terminates active sessions. Not from inside a callback.
  ~SessionEngine();
  SessionEngine(const SessionEngine&) = delete;
  SessionEngine& operator=(const SessionEngine&) = delete;

  // ERROR if the runner has no service to collect for it.
  absl::Status Initialize();
  // Terminates active sessions; all ids are valid again after the next Initialize.
  absl::Status Finalize();

  absl::StatusOr<SessionId> CreateSession(int replay_mode);
  // A session with one filter, written to one buffer; without `callback` it has none.
  // `sync` may be empty too, but a start needs one of the two.
  absl::StatusOr<SessionId> CreateReadySession(int replay_mode, FilterSpec filter,
                                               size_t buffer_bytes,
                                               BufferCallback callback,
                                               SyncCallback sync);
  // Restricts the session to this process, and others that are added.
  absl::Status AddSessionTarget(SessionId session, ProcessId target);
  absl::Status AddSessionProcess(SessionId session, pid_t pid);
  // Called when a process of the session has ended.
  absl::Status SetProcessEndedCallback(SessionId session,
                                       ProcessEndedCallback callback);
  // Called when the session has ended without being terminated.
  absl::Status SetLostCallback(SessionId session, SessionLostCallback callback);
  // Restricts the session to filters of its modes; each mode needs a filter.
  absl::Status AddSessionMode(SessionId session, SessionMode mode);
  // `ends_ns`: the time at which it ends in each process, boot-time clock, however late
  // it is terminated.
  absl::Status StartSession(SessionId session, uint64_t ends_ns = UINT64_MAX);
  // Sets that time for a session that is active or starting; it can only become
  // earlier. Does not wait.
  void EndSessionAt(SessionId session, uint64_t boot_ns);
  // Ends all sessions now, and prevents further starts. Call this before Finalize(),
  // which may have to wait for a thread that starts a session.
  void EndAllNow();
  absl::Status TerminateSession(SessionId session);
  absl::Status DestroySession(SessionId session);

  // NOT_INITIALIZED.
  absl::Status CheckInitialized() const;
  // NOT_INITIALIZED, SESSION_NOT_FOUND.
  absl::Status CheckSession(SessionId session) const;
  // NOT_INITIALIZED, SESSION_NOT_FOUND, SESSION_NOT_ACTIVE; ERROR if it was lost, or if
  // its runner does not answer.
  absl::Status CheckActive(SessionId session) const;
  absl::StatusOr<SessionReport> Report(SessionId session) const;

  // For code that passes the session's records on, also while it is being destroyed;
  // nullptr when it is gone.
  std::shared_ptr<const SessionTargetNames> TargetNamesOf(SessionId session) const;

  // A process became ready: an active session for all processes starts there.
  void TargetArrived(ProcessId target);

  SessionFilters& filters() { return filters_; }
  SessionBuffers& buffers() { return buffers_; }
  SessionNames& names() { return names_; }
  // Device profiling; this does not require Initialize.
  DeviceSessions& devices() { return devices_; }

 private:
  absl::StatusOr<std::shared_ptr<Session>> PrepareStart(SessionId id, uint64_t ends_ns);
  absl::Status StopRun(const std::shared_ptr<Session>& session);
  void BecomeActive(const std::shared_ptr<Session>& session);
  void FinishDestroy(const std::shared_ptr<Session>& session);
  absl::Status StopAll();

  const std::shared_ptr<EngineState> state_;
  SessionFilters filters_;
  SessionBuffers buffers_;
  SessionNames names_;
  DeviceSessions devices_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_ENGINE_H_
