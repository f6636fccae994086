// From the memory of many targets to one stream (or one per process), with accounts.
#ifndef ROCATTACH_USERSPACE_RECORD_RECORDER_H_
#define ROCATTACH_USERSPACE_RECORD_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schemas/stream.pb.h"
#include "userspace/base/duration_histogram.h"
#include "userspace/base/unique_fd.h"
#include "userspace/record/arrival.h"
#include "userspace/record/output_set.h"
#include "userspace/record/target.h"
#include "userspace/watch/stub_remover.h"
#include "userspace/watch/window.h"

namespace rocattach {

// Everything that a run has come to so far.
struct RunTotals {
  uint64_t begin_ns = 0;
  uint64_t attached = 0, passed = 0, refused = 0, missed = 0, open = 0;
  // Windows of processes that the command did not start: counted, nothing else.
  uint64_t unrelated = 0;
  uint64_t running = 0;  // attached processes that live
  // Messages for which there was no room, because the output was too slow.
  uint64_t unheard = 0;
  uint64_t dispatches = 0, copies = 0;
  // Of sessions: dispatches with counters, samples of whole GPUs, calls of APIs.
  uint64_t measured = 0, samples = 0, api_calls = 0;
  uint64_t dropped = 0;  // records lost, for whatever reason
  uint64_t unseen = 0;   // packets that the GPU took behind the collector's back
  // Processes whose accounts cannot be true; what they claim is in no other number.
  uint64_t not_believable = 0;
  DurationHistogram hold, hit_to_stopped, hit_to_released;
};

// Hears of processes that sessions can use, on the recorder's thread. Must not wait.
class TargetObserver {
 public:
  virtual ~TargetObserver() = default;
  // It can be described now. `waiting`: it is held in its OnLoad until
  // Target::AcknowledgeMapped, though not for long.
  virtual void OnTargetReady(TargetId target, TargetDescription description,
                             bool waiting) = 0;
  // It was offered, and is gone.
  virtual void OnTargetGone(TargetId target) = 0;
};

// Hears of verdicts and ends, on the recorder's thread.
class RecorderObserver {
 public:
  virtual ~RecorderObserver() = default;
  virtual void OnVerdict(const v1::Process& process,
                         const v1::WindowEvent& verdict) = 0;
  virtual void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
                     const v1::LossAccount& account) = 0;
  // Its numbers cannot be true, and it is not read any more. Once for a process.
  virtual void OnNotBelievable(const v1::Process& process, const std::string& why) {
    (void)process, (void)why;
  }
};

struct RecorderOptions {
  OutputOptions output;
  bool recording = true;
  // What collectors are configured with: their memory must fit it exactly.
  rocattach_collector_config collector_config = {};
  // Whether collectors wait until a session has its plan in them; may be null.
  std::function<bool()> hold_arrivals;
  // A stub that ran without a report by then: the collector is silent.
  uint64_t report_timeout_ns = 5'000'000'000;
  // May be null; must outlive the recorder.
  TargetObserver* targets = nullptr;
  // Takes the stubs of attaches that failed; may be null; must outlive the recorder.
  StubRemover* stub_remover = nullptr;
  // For processes that were armed without rocprofiler-sdk; see TargetSession.
  SdkSearch sdk_search;
};

// Owns a thread that drains all targets, and all of the output. The sink's calls only
// queue; nothing that a slow disk does reaches the threads that hold processes.
class Recorder : public WindowSink {
 public:
  static absl::StatusOr<std::unique_ptr<Recorder>> Start(RecorderOptions options,
                                                         RecorderObserver* observer);
  ~Recorder() override;

  void OnWindow(Window window) override;
  void OnReady(const rocattach_event& event) override;
  void OnEvent(const rocattach_event& event) override;
  // What OnReady makes of a report.
  void OnArrival(Arrival arrival);

  // Stops recording in all targets, drains them once more, closes every account and
  // file. `kernel` goes into the summary.
  absl::Status Finish(const rocattach_bpf_stats& kernel);

  // Instead of Finish() where the run never began: leaves no file without content
  // behind.
  void Abandon();

  // Runs `task` on the recorder's thread, soon; false if that has ended.
  bool RunOnThread(std::function<void()> task);
  bool OnRecorderThread() const {
    return std::this_thread::get_id() == thread_.get_id();
  }
  // On the recorder's thread: the target, or null. Only those with a collector.
  Target* FindTarget(TargetId id);

  RunTotals Totals() const;
  // How many processes are attached, and whether too many messages wait; both are
  // cheap.
  uint32_t running() const { return running_.load(std::memory_order_relaxed); }
  bool crowded() const { return crowded_.load(std::memory_order_relaxed); }
  const std::string& output_name() const { return output_.name(); }
  std::vector<std::string> files() const { return output_.files(); }

 private:
  struct Task {
    std::function<void()> run;
  };
  using Message = std::variant<Window, Arrival, Task, rocattach_event>;

  Recorder(RecorderOptions options, RecorderObserver* observer, OutputSet output);
  void Post(Message message);
  // The same, unless too many wait already: then it is counted.
  void PostIfRoom(Message message);
  void StopThread();
  absl::Status CloseAll(const rocattach_bpf_stats& kernel);
  void Run();
  // One round: messages, then all targets. Returns how long to sleep, in ms; -1 until
  // the next message.
  int Round();
  void Dispatch(Message message);
  void Handle(Window window);
  void Handle(Arrival arrival);
  void Handle(const rocattach_event& event);
  void NoteUnrelated(const TargetKey& key);
  // A window that was refused in the kernel: its verdict, and no more.
  void NoteOverBudget(Window window);
  Target* Find(const TargetKey& key);
  // Settles an open verdict before the target's next window replaces it.
  void SettleBefore(Target* target);
  // Keeps a message whose window has not come yet; it is handled right behind it.
  void KeepEarly(const TargetKey& key, Message message);
  // The process has ended: it leaves the table, and is closed once it is drained.
  void EndTarget(const TargetKey& key, const v1::ProcessEnd& end);
  // Everything has been taken from it, or is given up: verdict, account, totals.
  void CloseTarget(Target* target, const v1::ProcessEnd& end);
  // Drains and closes what has ended, within each one's share.
  void ServeEnding(uint64_t now_ns);
  // What one target may cost in this round, see Target::Drain.
  void ShareOut();
  uint64_t ShareOf(const Target& target) const;
  // The verdict of an attach that nothing was heard of for too long.
  static void SettleOverdue(Target* target);
  // Verdicts that time has decided, and ends that the kernel's events did not tell.
  void Scan(uint64_t now_ns);
  // Offers a target to sessions once it can be described, and looks after its session.
  // True if something is awaited.
  bool ServeSession(Target* target, uint64_t now_ns);
  // Tells the observer, once, of a target that cannot be believed.
  void NoteBelief(Target* target);
  // Counts a verdict and tells the observer.
  void NoteVerdict(const Target& target);
  void RemoveStub(const Window& window);
  v1::WatcherSummary Summary(const rocattach_bpf_stats& kernel) const;

  RecorderOptions options_;
  RecorderObserver* observer_;
  OutputSet output_;
  UniqueFd wake_fd_;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards what stands below, up to the blank line
  std::deque<Message> inbox_;
  bool stopping_ = false;
  RunTotals totals_;      // of ended targets
  OperationCounts live_;  // what all living targets are counted with

  std::atomic<uint32_t> running_ = 0;
  std::atomic<bool> crowded_ = false;

  absl::flat_hash_map<TargetKey, std::unique_ptr<Target>> targets_;
  // What ended processes have left is drained in rounds like that of all others: a ring
  // full of garbage must not keep the recorder from its neighbours.
  struct Ending {
    std::unique_ptr<Target> target;
    v1::ProcessEnd end;
  };
  std::deque<Ending> ending_;
  // What each user's targets share.
  absl::flat_hash_map<uint32_t, std::weak_ptr<UserMemory>> user_memory_;
  // Users with targets that could not be drained in one round, and how many of those.
  absl::flat_hash_map<uint32_t, uint32_t> behind_;
  // A report or an end may overtake its window, which another thread posts; the end of
  // a hold does so as a rule where the process is known from an earlier window.
  struct Early {
    uint64_t since_ns = 0;
    std::vector<Message> messages;
  };
  absl::flat_hash_map<TargetKey, Early> early_;
  // Processes whose window was UNRELATED: the kernel will tell of their ends.
  absl::flat_hash_set<TargetKey> unrelated_;
  absl::flat_hash_set<TargetKey> suspected_gone_;
  std::set<TargetId> offered_;
  uint64_t last_scan_ns_ = 0;
  uint64_t last_losses_ns_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RECORDER_H_
