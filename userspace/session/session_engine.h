// Profiling sessions: their life cycle, filters and buffers.
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
#include "userspace/session/rocattach_sessions.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_types.h"

namespace rocattach {

struct EngineState;
struct Session;

// What a session is doing.
struct SessionReport {
  bool active = false;
  // The processes it collects from now.
  std::vector<TargetId> running;
  // Processes that could not be started, and why; of the last start.
  std::map<TargetId, absl::Status> refused;
  // Records of the last start that found no room, or no buffer to go to.
  uint64_t dropped = 0;
};

// Thread-safe. Errors carry a SessionStatus (SessionStatusOf); every function checks in
// the order that rocattach_sessions.h documents, NOT_INITIALIZED and SESSION_NOT_FOUND
// first, and changes nothing when it fails. User callbacks run with no lock held and
// may call any function.
//
// A session is for the processes that it was told, or for all that there are and come.
// A process has at most one active session; so has the counters of a GPU.
class SessionEngine {
 public:
  explicit SessionEngine(std::shared_ptr<SessionRunner> runner);
  // On the processes of this backend.
  SessionEngine(std::shared_ptr<SessionBackend> backend,
                std::shared_ptr<const CounterCatalog> catalog);
  // Terminates what is active. Not from inside a callback.
  ~SessionEngine();
  SessionEngine(const SessionEngine&) = delete;
  SessionEngine& operator=(const SessionEngine&) = delete;

  // ERROR when the runner has nobody to collect.
  absl::Status Initialize();
  // Terminates active sessions; all ids stay valid for after the next Initialize.
  absl::Status Finalize();

  absl::StatusOr<SessionId> CreateSession(int replay_mode);
  // A session with one filter, written to one buffer. `sync` may be empty.
  absl::StatusOr<SessionId> CreateReadySession(int replay_mode, FilterSpec filter,
                                               size_t buffer_bytes,
                                               BufferCallback callback,
                                               SyncCallback sync);
  // The session is for this process (and others that are named).
  absl::Status AddSessionTarget(SessionId session, TargetId target);
  absl::Status AddSessionProcess(SessionId session, pid_t pid);
  // Whom to tell of processes of the session that end.
  absl::Status SetProcessEndedCallback(SessionId session,
                                       ProcessEndedCallback callback);
  absl::Status StartSession(SessionId session);
  absl::Status TerminateSession(SessionId session);
  absl::Status DestroySession(SessionId session);

  absl::StatusOr<FilterId> CreateFilter(SessionId session, FilterSpec filter);
  absl::Status DestroyFilter(SessionId session, FilterId filter);
  // `existing`: a buffer of the session that grows by `bytes` instead.
  absl::StatusOr<BufferId> CreateBuffer(SessionId session, size_t bytes,
                                        BufferCallback callback,
                                        BufferId existing = {});
  // A buffer for filters whose records nobody reads here, because the backend puts them
  // elsewhere by itself: takes no memory, drops nothing, cannot grow.
  absl::StatusOr<BufferId> CreateUnreadBuffer(SessionId session);
  // Milliseconds. INCORRECT_FLUSH_INTERVAL.
  static absl::Status CheckFlushInterval(uint64_t interval);
  absl::Status SetFlushInterval(SessionId session, BufferId buffer, uint64_t interval);
  absl::Status DestroyBuffer(SessionId session, BufferId buffer);
  absl::Status SetFilterBuffer(SessionId session, FilterId filter, BufferId buffer);
  absl::Status SetApiTraceSyncCallback(SessionId session, FilterId filter,
                                       SyncCallback callback);
  absl::Status FlushData(SessionId session, BufferId buffer);
  absl::Status NextRecord(const rocattach_record_header_t* record,
                          const rocattach_record_header_t** next, SessionId session,
                          BufferId buffer);

  // Device profiling; these do not ask for Initialize.
  absl::StatusOr<SessionId> CreateDeviceSession(std::vector<std::string> counters,
                                                int gpu_index);
  absl::Status StartDeviceSession(SessionId session);
  // Of a GPU by its key, with counters that CheckDevice has found good.
  SessionId AddDeviceSession(std::vector<std::string> counters, std::string gpu_key);
  // One value per counter of the create call, NaN where there is none.
  absl::StatusOr<std::vector<double>> PollDeviceSession(SessionId session);
  absl::StatusOr<std::vector<std::string>> DeviceSessionCounters(
      SessionId session) const;
  absl::Status StopDeviceSession(SessionId session);
  absl::Status DestroyDeviceSession(SessionId session);

  // What create calls check of their arguments; see SessionRunner.
  absl::Status CheckFilter(const FilterSpec& filter) const;
  absl::StatusOr<std::string> CheckDevice(const std::vector<std::string>& counters,
                                          int gpu_index) const;
  // NOT_INITIALIZED.
  absl::Status CheckInitialized() const;
  // NOT_INITIALIZED, SESSION_NOT_FOUND.
  absl::Status CheckSession(SessionId session) const;
  absl::Status CheckBuffer(SessionId session, BufferId buffer) const;
  absl::StatusOr<SessionReport> Report(SessionId session) const;

  // A process became ready: an active session for all processes starts there.
  void TargetArrived(TargetId target);
  // Flushes buffers whose interval is over. Call it every few milliseconds.
  void Tick(uint64_t now_ns);

 private:
  absl::StatusOr<std::shared_ptr<Session>> PrepareStart(SessionId id);
  absl::Status StopRun(const std::shared_ptr<Session>& session);
  void BecomeActive(const std::shared_ptr<Session>& session);
  void FinishDestroy(const std::shared_ptr<Session>& session);
  absl::Status StopAll();

  const std::shared_ptr<EngineState> state_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_ENGINE_H_
