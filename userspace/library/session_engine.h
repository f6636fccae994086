// Profiling sessions: their life cycle. Filters, buffers and device sessions are in
// separate classes.
#ifndef ROCATTACH_USERSPACE_LIBRARY_SESSION_ENGINE_H_
#define ROCATTACH_USERSPACE_LIBRARY_SESSION_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/library/device_sessions.h"
#include "userspace/library/record_router.h"
#include "userspace/library/session_buffers.h"
#include "userspace/library/session_filters.h"
#include "userspace/library/session_names.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_types.h"

namespace rocattach {

struct EngineState;
struct Session;

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
  // Called when the session has ended without being terminated.
  absl::Status SetLostCallback(SessionId session, SessionLostCallback callback);
  // Restricts the session to filters of its modes; each mode needs a filter.
  absl::Status AddSessionMode(SessionId session, SessionMode mode);
  absl::Status StartSession(SessionId session);
  absl::Status TerminateSession(SessionId session);
  absl::Status DestroySession(SessionId session);

  // NOT_INITIALIZED.
  absl::Status CheckInitialized() const;
  // NOT_INITIALIZED, SESSION_NOT_FOUND.
  absl::Status CheckSession(SessionId session) const;
  // NOT_INITIALIZED, SESSION_NOT_FOUND, SESSION_NOT_ACTIVE; ERROR if it was lost, or if
  // its runner does not answer.
  absl::Status CheckActive(SessionId session) const;
  // Records of the last start for which there was no room or no buffer.
  absl::StatusOr<uint64_t> Dropped(SessionId session) const;

  SessionFilters& filters() { return filters_; }
  SessionBuffers& buffers() { return buffers_; }
  SessionNames& names() { return names_; }
  // Device profiling; this does not require Initialize.
  DeviceSessions& devices() { return devices_; }

 private:
  absl::StatusOr<std::shared_ptr<Session>> PrepareStart(SessionId id);
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

#endif  // ROCATTACH_USERSPACE_LIBRARY_SESSION_ENGINE_H_
