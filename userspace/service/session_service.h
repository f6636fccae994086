// The sessions of a running service: started and stopped by clients, by their schedules
// and by the command line, on attached processes and future ones.
#ifndef ROCATTACH_USERSPACE_SERVICE_SESSION_SERVICE_H_
#define ROCATTACH_USERSPACE_SERVICE_SESSION_SERVICE_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/wake_event.h"
#include "userspace/record/session_targets.h"
#include "userspace/service/refusal_notices.h"
#include "userspace/service/session_request.h"
#include "userspace/session/collection_period.h"
#include "userspace/session/session_engine.h"

namespace rocattach {

// A text for users: how many collection periods were skipped, and why.
std::string SkippedPeriodsText(uint64_t periods);

// Thread-safe; none of its functions may be called on the recorder's thread.
class SessionService {
 public:
  // `on_refused` is called for processes that cannot do what a session requests, with a
  // reason for users (no status names); `on_left_out` for those that do all but what
  // was not requested by name; `on_skipped`, with a number, for periods that passed
  // before they could be started. Each once for a process and session; may be null.
  // session; each may be null.
  SessionService(
      std::shared_ptr<const CounterCatalog> catalog,
      std::function<void(pid_t, const std::string& why)> on_refused,
      std::function<void(pid_t, const std::vector<LeftOut>&)> on_left_out = nullptr,
      std::function<void(pid_t, uint64_t periods)> on_skipped = nullptr);
  ~SessionService();
  SessionService(const SessionService&) = delete;
  SessionService& operator=(const SessionService&) = delete;

  SessionTargets* targets() { return targets_.get(); }
  // Call this before any process arrives.
  void SetRecorder(Recorder* recorder) { targets_->SetRecorder(recorder); }

  // `on_served` is called whenever the sessions have been offered to a process; not
  // under a lock. Call this before any process arrives.
  void SetOnServed(std::function<void()> on_served) {
    on_served_ = std::move(on_served);
  }
  // Number of processes to which the sessions have been offered: each has answered.
  uint64_t served() const { return served_; }

  // Starts a session and returns its number. If it is for all processes, those that
  // cannot serve it refuse individually; if it names processes, all must be able to.
  absl::StatusOr<uint64_t> Start(SessionRequest request)
      ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  // Called before something else uses counters: stops sessions that yield until their
  // next period.
  void Yield() ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  // Stops a session. When it returns, everything that it collected is in the stream.
  absl::Status Stop(uint64_t number) ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  // Drains the processes of a session and delivers what they recorded.
  absl::Status Flush(uint64_t number) ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  std::vector<SessionInfo> List() ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  // Stops all sessions. To be called before the recorder finishes.
  void Close() ABSL_LOCKS_EXCLUDED(sessions_mutex_, mutex_);

  // For the window server: true if new processes are to wait until the sessions have
  // been offered to them, and true if these sessions need rocprofiler-sdk.
  bool holds_arrivals() const { return all_sessions_ > 0; }
  bool needs_sdk() const { return sdk_sessions_ > 0; }

  const CounterCatalog& catalog() const { return *catalog_; }
  // For uses that need no session of the service: checks, device sessions, time.
  SessionEngine& engine() { return *engine_; }

 private:
  struct Session {
    SessionId id = {};
    // Shared by all filters of the session. Nothing reads it without request.records:
    // records go to the stream anyway.
    BufferId buffer = {};
    SessionRequest request;
    CollectionSchedule schedule{{}};
    uint64_t begin_ns = 0, end_ns = 0;
    bool awaits_first = false;  // its time has not started
    bool collecting = false;
    bool over = false;
    CollectedCounts collected;  // once it is over
    std::string waiting_for;    // as in SessionInfo
    uint64_t period = 0;        // periods that have ended
    uint64_t begun = 0;         // periods that have begun
    bool ran = false, was_refused = false;
    std::set<ProcessId> left_out;  // processes that were reported
  };
  struct Arrival {
    ProcessId target;
    bool waiting = false;  // held until the sessions have been offered to it
    bool missed = false;   // the process had ended by then
    uint64_t time_ns = 0;  // when it arrived
  };

  void Run() ABSL_LOCKS_EXCLUDED(sessions_mutex_, mutex_);
  // Called on the recorder's thread.
  void OnArrival(const Arrival& arrival) ABSL_LOCKS_EXCLUDED(mutex_);
  void ServeArrival(const Arrival& arrival) ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  // Reports sessions that could not begin in a process because it had ended.
  void ServeMissed(ProcessId target) ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  // Executes the schedules; returns when to call it again.
  uint64_t ServeSchedules(uint64_t now_ns) ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  // Makes Run() check the schedules again.
  void WakeScheduler() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status Create(const SessionRequest& request, Session* session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // Adds filters, buffers and processes.
  absl::Status Complete(const SessionRequest& request, Session* session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  absl::Status End(Session* session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  void YieldTo(const SessionRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // Executes the schedule of one session; returns when to call it again. Sets
  // `released` if it released something that other sessions may wait for.
  uint64_t ServeSchedule(Session* session, uint64_t now_ns, bool* released)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // The end, in boot time, of the collection period that is active now.
  static uint64_t EndOfPeriod(const Session& session);
  // Begins a period, or tries it again because something that it waits for has changed.
  void BeginPeriod(Session* session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // Reports the refusals of the last start that have not been reported yet.
  void ReportRefusals(Session* session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // Reports periods that passed before the service, on a busy machine, could start
  // them.
  void ReportMissedPeriods(Session* session, uint64_t elapsed_ns, bool due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  void ReportSkipped(const Session& session, ProcessId target, uint64_t periods)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  void ReportRefusal(const Session& session, ProcessId target, const std::string& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // The processes that the session is for.
  std::vector<ProcessId> TargetsOf(const Session& session);
  // Counts a session that begins (1) or ends (-1), see holds_arrivals().
  void Count(const SessionRequest& request, int change);

  const std::shared_ptr<const CounterCatalog> catalog_;
  const std::function<void(pid_t, const std::string&)> on_refused_;
  const std::function<void(pid_t, const std::vector<LeftOut>&)> on_left_out_;
  const std::function<void(pid_t, uint64_t)> on_skipped_;
  std::shared_ptr<SessionTargets> targets_;
  std::unique_ptr<SessionEngine> engine_;
  std::atomic<int> all_sessions_ = 0, sdk_sessions_ = 0;
  std::atomic<uint64_t> served_ = 0;
  std::function<void()> on_served_;

  // Held while a session is started or stopped, or a schedule is executed.
  absl::Mutex sessions_mutex_;
  std::map<uint64_t, Session> sessions_ ABSL_GUARDED_BY(sessions_mutex_);
  RefusalNotices notices_ ABSL_GUARDED_BY(sessions_mutex_);
  RefusalNotices skip_notices_ ABSL_GUARDED_BY(sessions_mutex_);

  // Guards what Run() waits for. Never held for long: the recorder's thread takes it.
  absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(sessions_mutex_);
  std::deque<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool look_again_ ABSL_GUARDED_BY(mutex_) = false;
  WakeEvent changed_;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_SESSION_SERVICE_H_
