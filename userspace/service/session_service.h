// The sessions of a running service: started and stopped by people, by time, by the
// command line, on processes that are there and that come.
#ifndef ROCATTACH_USERSPACE_SERVICE_SESSION_SERVICE_H_
#define ROCATTACH_USERSPACE_SERVICE_SESSION_SERVICE_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/record/recorder_backend.h"
#include "userspace/session/collection_period.h"
#include "userspace/session/session_engine.h"

namespace rocattach {

// What somebody wants collected.
struct SessionRequest {
  std::vector<pid_t> pids = {};  // empty: every process, and those to come
  std::vector<FilterSpec> filters = {};
  uint64_t duration_ns = 0;                    // 0: until it is stopped
  std::vector<CollectionPeriod> periods = {};  // empty: all the time
  // Both begin when the first process has come, not now.
  bool from_first_process = false;
  // For programs that want the records themselves; filters share one buffer then.
  std::vector<TargetId> targets = {};  // as pids
  BufferCallback records = {};
  ProcessEndedCallback process_ended = {};
  std::function<void()> over = {};  // the session has ended; must not wait
};

// How a session stands.
struct SessionInfo {
  uint64_t number = 0;  // as in the stream
  bool active = false;  // false between periods, and when it is over
  bool over = false;
  uint64_t begin_ns = 0, end_ns = 0;  // CLOCK_BOOTTIME; end 0: not yet
  std::vector<pid_t> running;
  std::map<pid_t, std::string> refused;  // and why; of the last start
  // Why it does not collect in a period of its own; empty if it does, or need not.
  std::string waiting_for;
  std::vector<std::string> counters;
  std::vector<std::string> collects;  // "counters", "dispatches" …
  // It asked processes, and no single one has ever collected for it.
  bool refused_by_all = false;
};

// True if only rocprofiler-sdk has what the filters ask for.
bool NeedsSdk(const std::vector<FilterSpec>& filters);

// Thread-safe; none of its functions may be called on the recorder's thread.
class SessionService {
 public:
  // `on_refused` hears of processes that cannot do what a session asks for.
  SessionService(std::shared_ptr<const CounterCatalog> catalog,
                 std::function<void(pid_t, const std::string& why)> on_refused);
  ~SessionService();
  SessionService(const SessionService&) = delete;
  SessionService& operator=(const SessionService&) = delete;

  RecorderBackend* backend() { return backend_.get(); }
  // Before any process comes.
  void SetRecorder(Recorder* recorder) { backend_->SetRecorder(recorder); }

  // Starts a session; its number. If it is for every process, those that cannot do it
  // are refused one by one; if it names processes, each must.
  absl::StatusOr<uint64_t> Start(SessionRequest request);
  // When it returns, everything that the session collected is in the stream.
  absl::Status Stop(uint64_t number);
  // Reads what the processes of a session have recorded, and delivers it.
  absl::Status Flush(uint64_t number);
  std::vector<SessionInfo> List();
  // Stops all sessions. Before the recorder finishes.
  void Close();

  // For the window server: whether new processes are to wait until the sessions have
  // been offered to them, and whether these want rocprofiler-sdk.
  bool holds_arrivals() const { return all_sessions_ > 0; }
  bool needs_sdk() const { return sdk_sessions_ > 0; }

  const CounterCatalog& catalog() const { return *catalog_; }
  // For what needs no session of the service: checks, device sessions, time.
  SessionEngine& engine() { return *engine_; }

 private:
  struct Session {
    SessionId id = {};
    // Of all its filters. Without request.records nobody reads it: what is recorded
    // goes to the stream by itself.
    BufferId buffer = {};
    SessionRequest request;
    CollectionSchedule schedule{{}};
    uint64_t begin_ns = 0, end_ns = 0;
    bool awaits_first = false;  // its time has not begun
    bool collecting = false;
    bool over = false;
    std::string waiting_for;  // as SessionInfo
    uint64_t period = 0;      // periods that are over
    uint64_t begun = 0;       // and those that have begun
    bool ran = false, was_refused = false;
  };
  // What was last reported for a process.
  struct Notified {
    std::string why;
    uint64_t period = 0;
  };

  void Run();
  void Arrived(TargetId target, bool waiting);
  void Serve(TargetId target, bool waiting);
  // What time asks for; when to look again.
  uint64_t ServeTime(uint64_t now_ns);
  absl::Status Create(const SessionRequest& request, Session* session);
  absl::Status Complete(const SessionRequest& request, Session* session);
  absl::Status End(Session* session);
  // What time asks of one session; when to look again. Sets `released` if others may
  // have waited for what it gives up.
  uint64_t ServeSession(Session* session, uint64_t now_ns, bool* released);
  // A period has begun, or something that it waits for has changed.
  void Begin(Session* session);
  // Notes in streams and notifies `on_refused` what it does not know yet.
  void NotifyRefused(Session* session);
  // Periods that were over before the service, on a busy machine, came to them.
  void NotifyLate(Session* session, uint64_t elapsed_ns, bool due);
  // The processes that it is for.
  std::vector<TargetId> TargetsOf(const Session& session);
  void Notify(const Session& session, TargetId target, const std::string& why);
  // What was reported for a session that is over.
  void Forget(uint64_t number);
  void LookAgain();
  void Count(const SessionRequest& request, int change);

  const std::shared_ptr<const CounterCatalog> catalog_;
  const std::function<void(pid_t, const std::string&)> on_refused_;
  std::shared_ptr<RecorderBackend> backend_;
  std::unique_ptr<SessionEngine> engine_;
  std::atomic<int> all_sessions_ = 0, sdk_sessions_ = 0;

  std::mutex serving_;  // sessions_; one start, stop or step of time at a time
  std::map<uint64_t, Session> sessions_;
  std::map<std::pair<uint64_t, TargetId>, Notified> notified_;

  std::mutex mutex_;  // what stands below
  std::condition_variable changed_;
  std::deque<std::pair<TargetId, bool>> arrivals_;
  bool stopping_ = false;
  bool look_again_ = false;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_SESSION_SERVICE_H_
