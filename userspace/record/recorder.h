// Drains the memory of all targets into one stream (or one for each process), and
// accounts for every record.
#ifndef ROCATTACH_USERSPACE_RECORD_RECORDER_H_
#define ROCATTACH_USERSPACE_RECORD_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schemas/stream.pb.h"
#include "userspace/base/thread_checker.h"
#include "userspace/record/arrival.h"
#include "userspace/record/drain/agent_topology.h"
#include "userspace/record/driver_evidence.h"
#include "userspace/record/early_messages.h"
#include "userspace/record/load_governor.h"
#include "userspace/record/output/output_pause.h"
#include "userspace/record/output/output_set.h"
#include "userspace/record/recorder_inbox.h"
#include "userspace/record/recorder_observer.h"
#include "userspace/record/run_statistics.h"
#include "userspace/record/sessions/session_offers.h"
#include "userspace/record/target.h"
#include "userspace/record/target_meter.h"
#include "userspace/record/target_table.h"
#include "userspace/record/verdict_notifier.h"
#include "userspace/watch/windows/stub_remover.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

struct RecorderOptions {
  OutputOptions output;
  bool recording = true;
  // Limits for the service; beyond them, fewer dispatches are recorded.
  LoadBudget budget = {};
  // Configuration of collectors: their memory must match it exactly.
  rocattach_collector_config collector_config = {};
  // Returns true if collectors wait for a session to write its plan; may be null.
  std::function<bool()> hold_arrivals;
  // After this time without a report, the collector counts as silent.
  uint64_t report_timeout_ns = 5'000'000'000;
  // Time for operations in flight to finish, in processes that run on, when recording
  // stops. Those that do not finish are recorded without times.
  uint64_t operations_timeout_ns = 500'000'000;
  // Called if a process that was to be attached to could not be entered at its window,
  // for a reason that may be temporary. On the recorder's thread; may be null.
  std::function<void(ProcessId)> on_not_entered;
  // May be null; must outlive the recorder.
  TargetObserver* targets = nullptr;
  // Adds up what attached processes do; may be null; must outlive the recorder.
  TargetMeters* meters = nullptr;
  // Removes the stubs of failed attaches; may be null; must outlive the recorder.
  StubRemover* stub_remover = nullptr;
  // For processes that were armed without rocprofiler-sdk; see TargetSession.
  SdkSearch sdk_search;
};

// Owns all of the output, and a thread that drains all targets. Messages from other
// threads are queued and handled in rounds on that thread. The sink's calls only queue:
// a slow disk does not delay the threads that hold processes.
class Recorder : public WindowSink {
 public:
  static absl::StatusOr<std::unique_ptr<Recorder>> Start(RecorderOptions options,
                                                         RecorderObservers observers);
  ~Recorder() override;

  void OnWindow(Window window) override;
  void OnReady(const rocattach_event& event) override;
  void OnEvent(const rocattach_event& event) override;
  // Sets a process's workload once it is known, perhaps before its window. Any thread.
  void SetWorkload(const ProcessId& process, v1::Workload workload);
  // Posts an arrival, such as the one that OnReady creates from a report.
  void OnArrival(Arrival arrival);

  // Ends recording in all targets, present and future: soon, on the recorder's thread.
  // Data recorded until then is still read.
  void EndRecording();

  // Marks the run as over: output that cannot be written from now on is lost, and
  // the observer is not told that it is paused. Any thread.
  void MarkRunOver() { ending_ = true; }

  // Stops recording in all targets, drains them once more, closes every account and
  // file. `kernel` goes into the summary.
  absl::Status Finish(const rocattach_bpf_stats& kernel);

  // Replaces Finish() if the run never started: leaves no empty files behind.
  void Abandon();

  // Runs `task` on the recorder's thread, soon; false if that has ended.
  bool RunOnThread(std::function<void()> task);
  bool OnRecorderThread() const { return recorder_thread_.IsOwner(); }
  // On the recorder's thread: tells all meters what is not in the records.
  void UpdateMeters();
  // On the recorder's thread: numbers of living processes with windows, by verdict
  // ("open": none yet), and of those that have ended and are still read ("ending").
  std::map<std::string, uint64_t> CountTargets() const;
  // Waits, for at most `timeout_ns`, until every window that has been passed to the
  // recorder has its verdict. Not on the recorder's thread. `give_up` is called
  // repeatedly; true ends the wait. Returns false if a verdict is missing.
  bool AwaitVerdicts(uint64_t timeout_ns, absl::FunctionRef<bool()> give_up);
  // Compares the driver's readings with what the collectors have seen. Any thread.
  void CompareWithDriver(std::map<ProcessId, DriverReading> readings);
  // On the recorder's thread: the target if it has a collector, or null.
  Target* FindTarget(ProcessId id);

  RunTotals Totals() const { return statistics_.Totals(inbox_.dropped()); }
  // Number of attached processes, and whether too many messages wait; both are
  // cheap.
  uint32_t running() const { return running_.load(std::memory_order_relaxed); }
  bool crowded() const { return inbox_.crowded(); }
  const std::string& output_name() const { return output_.name(); }
  std::vector<std::string> files() const { return output_.files(); }

 private:
  Recorder(RecorderOptions options, RecorderObservers observers, OutputSet output);
  void StopThread();
  absl::Status CloseAll(const rocattach_bpf_stats& kernel);
  void Run();
  // One round: messages, then all targets. Returns the time to sleep, in ms; -1 until
  // the next message.
  int Round() ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  void Dispatch(RecorderMessage message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  void Handle(Window window) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  void Handle(Arrival arrival) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  void Handle(WorkloadMessage found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  void Handle(const rocattach_event& event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  void CountHold(Target* target) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  void AddUnrelated(const ProcessId& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  // The end, for its stream, of a process that runs on.
  static v1::ProcessEnd EndOfLiving(const Target& target);
  // A window that was refused in the kernel: only its verdict is recorded.
  void RecordOverBudget(Window window) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  // Opens the stream of a new target; null if that failed.
  Target* AddTarget(Window window) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  // Closes a target that is drained, or out of time: verdict, account, totals.
  void CloseTarget(Target* target, const v1::ProcessEnd& end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  // Settles overdue verdicts, and finds ends that no kernel event reported.
  void Scan(uint64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  void CountBeforeSession(Target* target)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  // Does what a target needs after a drain: settles its verdict, offers it to sessions,
  // checks for answers. Lets it rest if all is done. True if something is awaited.
  bool Serve(Target* target, uint64_t now_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  // Notifies the observer of a target that uses GPUs in a way that is not seen.
  void ReportUnseenWork(const Target& target)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  // Notifies the observer, once, of a target with implausible numbers.
  void ReportNotBelievable(Target* target)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);
  // Records more or fewer dispatches of all targets, depending on the service's load.
  void Govern(uint64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_thread_);

  const RecorderOptions options_;
  const RecorderObservers observers_;
  OutputSet output_;
  RecorderInbox inbox_;
  RunStatistics statistics_;
  std::atomic<uint32_t> running_ = 0;
  std::atomic<bool> ending_ = false;  // set by MarkRunOver()
  std::thread thread_;

  // Owned by thread_, and after its end by the caller of Finish() or Abandon().
  ThreadChecker recorder_thread_;
  bool ended_ ABSL_GUARDED_BY(recorder_thread_) = false;  // set by EndRecording()
  RingViews views_ ABSL_GUARDED_BY(recorder_thread_);     // for all targets
  TargetTable targets_ ABSL_GUARDED_BY(recorder_thread_);
  SessionOffers offers_ ABSL_GUARDED_BY(recorder_thread_);
  VerdictNotifier verdicts_ ABSL_GUARDED_BY(recorder_thread_);
  OutputPause pause_ ABSL_GUARDED_BY(recorder_thread_);
  EarlyMessages early_ ABSL_GUARDED_BY(recorder_thread_);
  LoadGovernor governor_ ABSL_GUARDED_BY(recorder_thread_);
  AgentTopology topology_ ABSL_GUARDED_BY(recorder_thread_);
  // Processes whose window was UNRELATED: the kernel reports their ends.
  absl::flat_hash_set<ProcessId> unrelated_ ABSL_GUARDED_BY(recorder_thread_);
  uint64_t last_scan_ns_ ABSL_GUARDED_BY(recorder_thread_) = 0;
  uint64_t last_lost_ns_ ABSL_GUARDED_BY(recorder_thread_) = 0;
  uint64_t last_busy_ns_ ABSL_GUARDED_BY(recorder_thread_) = 0;
  uint64_t last_losses_ns_ ABSL_GUARDED_BY(recorder_thread_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RECORDER_H_
