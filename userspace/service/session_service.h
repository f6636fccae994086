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
#include "userspace/record/sessions/session_targets.h"
#include "userspace/service/refusal_notices.h"
#include "userspace/service/session_request.h"
#include "userspace/service/watcher_observer.h"
#include "userspace/session/collection_period.h"
#include "userspace/session/session_types.h"
#include "userspace/session/target_runner.h"

namespace rocattach {

// A text for users: how many collection periods were skipped, and why.
std::string SkippedPeriodsText(uint64_t periods);

// The error of a service that is ending: UNAVAILABLE.
absl::Status ServiceIsEnding();

// Thread-safe; none of its functions may be called on the recorder's thread.
class SessionService {
 public:
  // `observer` may be null, and must outlive it.
  SessionService(std::shared_ptr<const CounterCatalog> catalog,
                 SessionObserver* observer);
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
  // Stops a session. When it returns, everything that it collected is in the stream.
  absl::Status Stop(uint64_t number) ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  // Passes on what the processes of a session have recorded so far.
  absl::Status Flush(uint64_t number) ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  std::vector<SessionInfo> List() ABSL_LOCKS_EXCLUDED(sessions_mutex_);
  // Stops all sessions. To be called before the recorder finishes.
  void Close() ABSL_LOCKS_EXCLUDED(sessions_mutex_, mutex_);

  // For the window server: true if new processes are to wait until the sessions have
  // been offered to them, and true if these sessions need rocprofiler-sdk.
  bool holds_arrivals() const { return all_sessions_ > 0; }
  bool needs_sdk() const { return sdk_sessions_ > 0; }

  const CounterCatalog& catalog() const { return *catalog_; }
  // As SessionRunner.
  absl::Status CheckFilter(const FilterSpec& filter) {
    return runner_.CheckFilter(filter);
  }
  absl::StatusOr<std::string> CheckDevice(const std::vector<std::string>& counters,
                                          int gpu_index) {
    return runner_.CheckDevice(counters, gpu_index);
  }
  // The counters of a GPU, with a number as sessions have. Sessions that yield are
  // stopped first, until their next period.
  struct DeviceSession {
    uint64_t number = 0;
    std::shared_ptr<DeviceRun> run;
  };
  absl::StatusOr<DeviceSession> StartDevice(const std::vector<std::string>& counters,
                                            const std::string& gpu_key)
      ABSL_LOCKS_EXCLUDED(sessions_mutex_);

 private:
  struct Session {
    SessionId id = {};
    SessionRequest request;          // its targets have start times
    std::shared_ptr<TargetRun> run;  // its last start; nullptr: none yet, or it is over
    CollectionSchedule schedule{{}};
    uint64_t begin_ns = 0, end_ns = 0;
    bool awaits_first = false;  // its time has not started
    bool collecting = false;
    bool over = false;
    CollectedCounts collected;  // by the starts before the last one
    std::string waiting_for;    // as in SessionInfo
    uint64_t period = 0;        // periods that have ended
    uint64_t begun = 0;         // periods that have begun
    bool ran = false, was_refused = false;
    std::set<ProcessId> left_out;  // processes that were reported
  };
  // Number of processes that have ended whose refusals are kept.
  static constexpr size_t kEndedThatAreKept = 1000;
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

  // Checks the filters of a request, and finds the processes that it names.
  absl::StatusOr<Session> NewSession(SessionRequest request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // Starts it until the end of its period. ServiceIsEnding() if it is.
  absl::Status StartRun(Session* session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // Drops what is kept for a session beside itself.
  void Forget(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // ServiceIsEnding() if it is.
  absl::Status CheckOpen() ABSL_LOCKS_EXCLUDED(mutex_);
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
  // Forgets what was reported of processes that have ended, once that is much.
  void ForgetEndedNotices() ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_);
  // The processes that the session is for.
  std::vector<ProcessId> TargetsOf(const Session& session);
  // Counts a session that begins (1) or ends (-1), see holds_arrivals().
  void Count(const SessionRequest& request, int change);

  const std::shared_ptr<const CounterCatalog> catalog_;
  SessionObserver* const observer_;
  std::shared_ptr<SessionTargets> targets_;
  TargetRunner runner_;
  std::atomic<uint64_t> last_number_ = 0;  // of sessions and device sessions
  std::atomic<int> all_sessions_ = 0, sdk_sessions_ = 0;
  std::atomic<uint64_t> served_ = 0;
  std::function<void()> on_served_;

  // Held while a session is started or stopped, or a schedule is executed.
  absl::Mutex sessions_mutex_;
  std::map<uint64_t, Session> sessions_ ABSL_GUARDED_BY(sessions_mutex_);
  RefusalNotices notices_ ABSL_GUARDED_BY(sessions_mutex_);
  RefusalNotices skip_notices_ ABSL_GUARDED_BY(sessions_mutex_);
  size_t most_notices_ ABSL_GUARDED_BY(sessions_mutex_) = kEndedThatAreKept;

  // Guards what Run() waits for. Never held for long: the recorder's thread takes it.
  absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(sessions_mutex_);
  std::deque<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool look_again_ ABSL_GUARDED_BY(mutex_) = false;
  // The last starts of sessions by their numbers: they are ended without waiting for a
  // thread that has the other lock.
  std::map<uint64_t, std::shared_ptr<TargetRun>> runs_ ABSL_GUARDED_BY(mutex_);
  WakeEvent changed_;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_SESSION_SERVICE_H_
