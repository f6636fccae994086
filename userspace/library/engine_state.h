// State that the parts of the session engine share: the sessions with their filters and
// buffers.
#ifndef ROCATTACH_USERSPACE_LIBRARY_ENGINE_STATE_H_
#define ROCATTACH_USERSPACE_LIBRARY_ENGINE_STATE_H_

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/library/record_buffer.h"
#include "userspace/library/record_router.h"
#include "userspace/session/session_handle.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_types.h"
#include "userspace/session/target_names.h"

namespace rocattach {

struct Filter {
  FilterSpec spec;
  BufferId buffer = {};  // none
  SyncCallback sync;
};

struct SessionBuffer {
  std::shared_ptr<RecordBuffer> records;
  uint64_t flush_interval_ns = 0;  // 0: none
  uint64_t flushed_ns = 0;
};

// kStarting and kStopping belong to the thread that set them: only it uses the
// session's run and ends the phase. A session is kLost if its run has ended by itself:
// it can be started again, and terminating it reports why.
enum class Phase { kIdle, kStarting, kActive, kStopping, kLost };

// Guarded by EngineState::mutex; the run is used without it.
struct Session {
  SessionId id = {};
  std::set<ProcessId> targets;  // empty: all processes
  std::map<FilterId, Filter> filters;
  std::map<BufferId, SessionBuffer> buffers;
  SessionLostCallback lost;
  absl::Status loss;  // of the last start
  // The names for the records of all its starts.
  const std::shared_ptr<SessionTargetNames> names =
      std::make_shared<SessionTargetNames>();
  std::set<std::string> texts;  // given to the user
  uint32_t modes = 0;           // bits of SessionMode; 0: any
  Phase phase = Phase::kIdle;
  bool destroying = false;       // its id counts as gone
  bool destroy_settled = false;  // the end of the phase finishes the destruction
  // The last start; nullptr before the first one.
  std::shared_ptr<SessionRun> run;
  std::shared_ptr<RecordRouter> router;
  uint64_t dropped_before = 0;  // by the buffers, before it started
};

struct EngineState {
  explicit EngineState(std::shared_ptr<SessionRunner> session_runner);

  // NOT_INITIALIZED, SESSION_NOT_FOUND.
  absl::StatusOr<std::shared_ptr<Session>> Find(SessionId id) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex);
  // Waits until no thread is starting or stopping the session. False if this thread
  // must not wait, because it is inside a callback that the other may be waiting for.
  bool WaitSettled(const Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Ends the last start of the session in each process, even if its answer is still
  // awaited. Call this before waiting for that.
  void EndNow(Session& session) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Ends a phase.
  void Settle(Session& session, Phase phase) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The session's run of this router has ended by itself: tells the user.
  void Lose(SessionId id, const RecordRouter* router, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex);
  // Sets where the records of an active session go from now on.
  void UpdateRoutes(Session& session) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Keeps the buffer known for as long as its last delivery takes.
  void AddLeaving(BufferId id, const std::shared_ptr<RecordBuffer>& records)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  const std::shared_ptr<SessionRunner> runner;

  mutable absl::Mutex mutex;
  absl::CondVar changed;  // a phase ended
  bool initialized ABSL_GUARDED_BY(mutex) = false;
  int finalizing ABSL_GUARDED_BY(mutex) = 0;  // nonzero: no session starts
  // For sessions and device sessions together.
  const std::shared_ptr<HandleSource::Count> session_numbers;
  HandleSource session_handles ABSL_GUARDED_BY(mutex);
  HandleSource filter_handles ABSL_GUARDED_BY(mutex);
  HandleSource buffer_handles ABSL_GUARDED_BY(mutex);
  std::map<SessionId, std::shared_ptr<Session>> sessions ABSL_GUARDED_BY(mutex);
  // Buffers whose last delivery is in progress although their session is gone, so that
  // the callback can still step through it.
  std::map<BufferId, std::weak_ptr<RecordBuffer>> leaving ABSL_GUARDED_BY(mutex);
};

// Returns BUFFER_NOT_FOUND.
absl::Status NoBuffer(BufferId id);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_ENGINE_STATE_H_
