// What the parts of the session engine share. Everything is guarded by
// EngineState::mutex, except what says otherwise.
#ifndef ROCATTACH_USERSPACE_SESSION_ENGINE_STATE_H_
#define ROCATTACH_USERSPACE_SESSION_ENGINE_STATE_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/session/record_buffer.h"
#include "userspace/session/record_router.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_types.h"

namespace rocattach {

inline constexpr uint8_t kSessionHandle = 1, kFilterHandle = 2, kBufferHandle = 3,
                         kDeviceHandle = 4, kHandleKinds = 5;

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

// kStarting and kStopping belong to the thread that set them: it alone talks to the
// backend about this session and ends the phase.
enum class Phase { kIdle, kStarting, kActive, kStopping };

struct Session {
  SessionId id = {};
  std::set<TargetId> targets;  // empty: all that there are
  std::map<FilterId, Filter> filters;
  std::map<BufferId, SessionBuffer> buffers;
  ProcessEndedCallback ended;
  Phase phase = Phase::kIdle;
  bool destroying = false;       // its id counts as gone
  bool destroy_settled = false;  // who ends the phase finishes the destruction
  // The last start; nullptr before the first one.
  std::shared_ptr<SessionRun> run;
  std::shared_ptr<RecordRouter> router;
  uint64_t dropped_before = 0;  // what the buffers had dropped when it started
};

struct DeviceSession {
  std::string gpu_key;
  std::vector<std::string> names;  // as asked for
  std::shared_ptr<DeviceRun> run;  // nullptr: not active
  bool busy = false;               // some thread talks to the runner about it
};

struct EngineState {
  std::shared_ptr<SessionRunner> runner;  // constant

  mutable std::mutex mutex;
  std::condition_variable changed;  // a phase ended
  bool initialized = false;
  int finalizing = 0;                       // no session starts meanwhile
  uint64_t last_handle[kHandleKinds] = {};  // sessions count 1, 2, 3
  std::map<SessionId, std::shared_ptr<Session>> sessions;
  std::map<SessionId, std::shared_ptr<DeviceSession>> devices;
  // Buffers whose last delivery is under way while their session is gone already, so
  // that the callback can still step through it.
  std::map<BufferId, std::weak_ptr<RecordBuffer>> leaving;

  // Handles say what they are: a filter's id is never taken for a session's.
  uint64_t NewHandle(uint8_t kind) {
    return uint64_t{0x5257} << 48 | uint64_t{kind} << 40 | ++last_handle[kind];
  }

  // The following want the mutex held.
  absl::StatusOr<std::shared_ptr<Session>> Find(SessionId id) const;
  // Waits until no thread is starting or stopping the session. False if this thread
  // must not wait, because it is inside a callback that the other may be waiting for.
  bool WaitSettled(std::unique_lock<std::mutex>& lock, const Session& session);
  // Tells an active session where its records go now.
  void UpdateRoutes(Session& session) const;
  // Ends a phase.
  void Settle(Session& session, Phase phase);
};

// For people, and as in recordings: without what makes a handle.
inline uint64_t Number(SessionId id) {
  return static_cast<uint64_t>(id) & 0xffffffffff;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_ENGINE_STATE_H_
