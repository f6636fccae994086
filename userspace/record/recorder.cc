#include "userspace/record/recorder.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/convert.h"
#include "userspace/record/dictionary.h"
#include "userspace/record/end_verdict.h"

namespace rocattach {
namespace {

constexpr int kDrainPeriodMsec = 4;
constexpr uint64_t kScanPeriodNs = 100'000'000;
// How often the recording says what was lost, for the case that it is cut off.
constexpr uint64_t kLossesPeriodNs = 1'000'000'000;
constexpr int kNice = -10;
// A message without a window is forgotten after this: its window event was lost.
constexpr uint64_t kEarlyLifeNs = 10'000'000'000;
// So many records in one round of one target: it is busy, do not sleep.
constexpr uint64_t kBusyRecords = 4096;
// Messages that wait to be heard: from so many on no process is attached, and beyond
// the second number only attached processes are heard of. The first is more than the
// kernel lets one user cause in a second.
constexpr size_t kCrowdedMessages = 8192;
constexpr size_t kMostMessages = 16384;
// Of one process, without its window.
constexpr size_t kMostEarly = 16;
constexpr size_t kMostEarlyProcesses = 8192;
// After recording was switched off, a hook may still be publishing.
constexpr uint64_t kQuiesceNs = 20'000'000;
// From the window to the moment that a process goes on without a session.
constexpr uint64_t kLongestArrivalNs = 500'000'000;

// What one round may cost where several targets have more than that; a dispatch costs
// 1, and takes some 100 ns. A ring holds 16,384 of them: at this length of a round it
// does not fill up between two looks.
constexpr uint64_t kRoundCost = 65'536;
constexpr uint64_t kLeastShare = 256;
// Ended processes of one user that wait to be drained. One more, and what is left of
// the oldest is counted as lost.
constexpr size_t kMaxEndingPerUser = 64;
// What is left in all rings when the run ends.
constexpr uint64_t kLastDrainNs = 10'000'000'000;

v1::Process DescribeProcess(const Window& window) {
  v1::Process process = ProcessToProto(window.process);
  process.set_comm(CleanText(window.process.comm));
  process.set_pid(window.event.pid);
  process.set_start_ns(window.event.start_ns);
  process.set_inner_pid(window.event.inner_pid);
  process.set_cgroup_id(window.event.cgroup_id);
  process.set_window_id(window.event.time_ns);
  process.set_seen_ns(window.event.time_ns);
  process.set_hsa_library(window.library);
  return process;
}

void SetQuantiles(const DurationHistogram& from, v1::Quantiles* to) {
  to->set_count(from.count());
  to->set_median_ns(from.Quantile(0.5));
  to->set_p99_ns(from.Quantile(0.99));
  to->set_max_ns(from.max());
  to->set_min_ns(from.min());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recorder>> Recorder::Start(RecorderOptions options,
                                                          RecorderObserver* observer) {
  ASSIGN_OR_RETURN(OutputSet output, OutputSet::Open(options.output));
  auto recorder = std::unique_ptr<Recorder>(
      new Recorder(std::move(options), observer, std::move(output)));
  recorder->wake_fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!recorder->wake_fd_.valid())
    return absl::ErrnoToStatus(errno, "eventfd() failed");
  recorder->totals_.begin_ns = BootNs();
  recorder->thread_ = std::thread([raw = recorder.get()] { raw->Run(); });
  return recorder;
}

Recorder::Recorder(RecorderOptions options, RecorderObserver* observer,
                   OutputSet output)
    : options_(std::move(options)), observer_(observer), output_(std::move(output)) {}

Recorder::~Recorder() {
  if (thread_.joinable()) (void)Finish({});
}

void Recorder::Post(Message message) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    inbox_.push_back(std::move(message));
    if (inbox_.size() >= kCrowdedMessages) crowded_ = true;
  }
  uint64_t one = 1;
  (void)!write(wake_fd_.get(), &one, sizeof(one));
}

void Recorder::PostIfRoom(Message message) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (inbox_.size() >= kMostMessages) {
      ++totals_.unheard;
      return;
    }
  }
  Post(std::move(message));
}

void Recorder::OnWindow(Window window) {
  // What runs in a process must not be forgotten.
  if (window.attach_tried) {
    Post(std::move(window));
  } else {
    PostIfRoom(std::move(window));
  }
}
void Recorder::OnReady(const rocattach_event& event) {
  const bool hold = options_.hold_arrivals != nullptr && options_.hold_arrivals();
  OnArrival(MapArrival(event, options_.collector_config, hold));
}
void Recorder::OnArrival(Arrival arrival) {
  Post(std::move(arrival));
}
void Recorder::OnEvent(const rocattach_event& event) {
  // An end is noticed without its event as well.
  PostIfRoom(event);
}

bool Recorder::RunOnThread(std::function<void()> task) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return false;
  }
  Post(Task{std::move(task)});
  return true;
}

Target* Recorder::FindTarget(TargetId id) {
  for (auto& [key, target] : targets_) {
    if (target->has_memory() && target->id() == id) return target.get();
  }
  for (Ending& ending : ending_) {
    if (ending.target->has_memory() && ending.target->id() == id) {
      return ending.target.get();
    }
  }
  return nullptr;
}

bool Recorder::ServeSession(Target* target, uint64_t now_ns) {
  if (!target->has_memory()) return false;
  const TargetId id = target->id();
  bool awaited = target->session()->Poll(now_ns);
  if (options_.targets == nullptr) {
    target->AcknowledgeMapped();
    return awaited;
  }
  if (!offered_.contains(id)) {
    std::optional<TargetDescription> description =
        target->session()->Describe(target->opened().sdk_missing);
    if (description.has_value()) {
      offered_.insert(id);
      options_.targets->OnTargetReady(id, *std::move(description),
                                      !target->acknowledged());
    }
  }
  // Whatever sessions do, the process does not wait longer than this.
  if (!target->acknowledged()) {
    awaited = true;
    if (now_ns > target->opened().event.time_ns + kLongestArrivalNs) {
      target->AcknowledgeMapped();
    }
  }
  return awaited;
}

void Recorder::Run() {
  (void)pthread_setname_np(pthread_self(), "rwa-recorder");
  // Before the processes that it reads from: what is not drained in time is lost.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  for (;;) {
    int timeout = Round();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_ && inbox_.empty()) return;
      if (!inbox_.empty()) continue;
    }
    if (timeout == 0) continue;
    pollfd fd = {wake_fd_.get(), POLLIN, 0};
    if (poll(&fd, 1, timeout) > 0) {
      uint64_t count;
      (void)!read(wake_fd_.get(), &count, sizeof(count));
    }
  }
}

int Recorder::Round() {
  std::deque<Message> messages;
  // Everything posted before this will have been heard when verdicts are judged: on a
  // busy machine a round may take seconds.
  const uint64_t heard_until_ns = BootNs();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    messages.swap(inbox_);
    crowded_ = false;
  }
  for (Message& message : messages) Dispatch(std::move(message));
  uint64_t now = BootNs();
  bool awaited = false, behind = false;
  uint64_t most = 0, running = 0;
  OperationCounts live;
  ShareOut();
  for (auto& [key, target] : targets_) {
    most = std::max(most, target->Drain(now, ShareOf(*target)));
    behind |= target->behind();
    if (target->SettleFromCollector()) NoteVerdict(*target);
    NoteBelief(target.get());
    awaited |= ServeSession(target.get(), now);
    target->published = target->counts();
    live.dispatches += target->published.dispatches;
    live.copies += target->published.copies;
    running += target->has_memory() ? 1 : 0;
  }
  ServeEnding(now);
  for (const Ending& ending : ending_) {
    ending.target->published = ending.target->counts();
    live.dispatches += ending.target->published.dispatches;
    live.copies += ending.target->published.copies;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    live_ = live;
    totals_.running = running;
    running_ = static_cast<uint32_t>(running);
  }
  if (now - last_scan_ns_ >= kScanPeriodNs) Scan(heard_until_ns);
  output_.Flush(now);
  if (most >= kBusyRecords || behind || !ending_.empty()) return 0;
  if (awaited) return 1;
  if (running > 0) return kDrainPeriodMsec;
  return targets_.empty() && early_.empty() ? -1 : 100;
}

void Recorder::Dispatch(Message message) {
  if (auto* window = std::get_if<Window>(&message)) {
    Handle(std::move(*window));
  } else if (auto* arrival = std::get_if<Arrival>(&message)) {
    Handle(std::move(*arrival));
  } else if (auto* task = std::get_if<Task>(&message)) {
    task->run();
  } else {
    Handle(std::get<rocattach_event>(message));
  }
}

Target* Recorder::Find(const TargetKey& key) {
  auto found = targets_.find(key);
  return found == targets_.end() ? nullptr : found->second.get();
}

void Recorder::KeepEarly(const TargetKey& key, Message message) {
  if (early_.size() >= kMostEarlyProcesses && !early_.contains(key)) return;
  Early& early = early_[key];
  if (early.messages.size() >= kMostEarly) return;
  if (early.since_ns == 0) early.since_ns = BootNs();
  early.messages.push_back(std::move(message));
}

void Recorder::Handle(Window window) {
  TargetKey key = KeyOf(window.event);
  Target* target = Find(key);
  if (target == nullptr && window.event.mode == ROCATTACH_WINDOW_UNRELATED) {
    return NoteUnrelated(key);
  }
  if (target == nullptr && window.event.mode == ROCATTACH_WINDOW_OVER_BUDGET) {
    return NoteOverBudget(std::move(window));
  }
  if (target != nullptr) {
    SettleBefore(target);
    target->Reopen(std::move(window));
  } else {
    v1::Process process = DescribeProcess(window);
    auto output = output_.OpenProcess(window.process, process);
    if (!output.ok()) {
      output_.Note(output.status());
      return;
    }
    std::weak_ptr<UserMemory>& kept = user_memory_[window.event.uid];
    std::shared_ptr<UserMemory> user = kept.lock();
    if (user == nullptr) kept = user = std::make_shared<UserMemory>();
    auto made = std::make_unique<Target>(std::move(window), *output, std::move(process),
                                         &output_, std::move(user));
    target = made.get();
    targets_[key] = std::move(made);
  }
  const AttachOutcome& outcome = target->opened().outcome;
  if (outcome.ok()) {
    uint64_t hit = target->opened().event.time_ns;
    std::lock_guard<std::mutex> lock(mutex_);
    totals_.hit_to_stopped.Add(outcome.stopped_ns - std::min(hit, outcome.stopped_ns));
    totals_.hit_to_released.Add(outcome.released_ns -
                                std::min(hit, outcome.released_ns));
  }
  if (target->verdict() != Verdict::kOpen) NoteVerdict(*target);
  auto early = early_.extract(key);
  if (early.empty()) return;
  for (Message& message : early.mapped().messages) Dispatch(std::move(message));
}

void Recorder::NoteUnrelated(const TargetKey& key) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++totals_.unrelated;
  }
  // Nothing but its end can have come before.
  if (early_.erase(key) == 0) unrelated_.insert(key);
}

// The kernel does not tell of its end, so its stream ends here.
void Recorder::NoteOverBudget(Window window) {
  v1::Process process = DescribeProcess(window);
  auto output = output_.OpenProcess(window.process, process);
  if (!output.ok()) return output_.Note(output.status());
  const TargetKey key = KeyOf(window.event);
  Target target(std::move(window), *output, std::move(process), &output_);
  NoteVerdict(target);
  v1::ProcessEnd end;
  end.set_how(v1::ProcessEnd::STILL_RUNNING);
  end.set_time_ns(BootNs());
  end.set_wall_ns(BootNs() - key.start_ns);
  target.Close(end);
}

// A process may shut its runtime down and come again before anybody has looked at it:
// the verdict of its last window is due.
void Recorder::SettleBefore(Target* target) {
  if (target->verdict() != Verdict::kOpen) return;
  if (!target->SettleFromCollector()) {
    target->Settle(Verdict::kRefused, AttachReason::kCollectorSilent,
                   "the process opened its next window before the collector reported");
  }
  NoteVerdict(*target);
}

void Recorder::Handle(Arrival arrival) {
  Target* target = Find(KeyOf(arrival.event));
  if (target == nullptr) {
    TargetKey key = KeyOf(arrival.event);
    KeepEarly(key, std::move(arrival));
    return;
  }
  if (const auto& failure = arrival.failure; failure.has_value()) {
    if (target->verdict() != Verdict::kOpen) return;
    target->Settle(Verdict::kRefused, failure->reason, failure->detail, failure->error);
    NoteVerdict(*target);
    return;
  }
  target->SetMemory(std::move(arrival.memory), options_.recording,
                    arrival.acknowledged);
  if (options_.targets != nullptr) target->session()->AllowLateSdk(options_.sdk_search);
}

void Recorder::Handle(const rocattach_event& event) {
  TargetKey key = KeyOf(event);
  Target* target = Find(key);
  if (target == nullptr) {
    if (unrelated_.erase(key) == 0) KeepEarly(key, event);
    return;
  }
  // The thread that serves a window posts it later than the end of its hold.
  if (event.type == ROCATTACH_EVENT_HOLD_END &&
      event.hold_end.window_ns > target->opened().event.time_ns) {
    KeepEarly(key, event);
    return;
  }
  switch (event.type) {
    case ROCATTACH_EVENT_HOLD_END: {
      target->NoteHoldEnd(event);
      std::lock_guard<std::mutex> lock(mutex_);
      totals_.hold.Add(event.hold_end.held_ns);
      return;
    }
    case ROCATTACH_EVENT_EXIT: {
      v1::ProcessEnd end = EndFromWaitStatus(static_cast<int>(event.exit.wait_status));
      end.set_time_ns(event.time_ns);
      end.set_wall_ns(event.time_ns - event.start_ns);
      EndTarget(key, end);
      return;
    }
    case ROCATTACH_EVENT_EXEC: {
      v1::ProcessEnd end;
      end.set_how(v1::ProcessEnd::EXECED);
      end.set_time_ns(event.time_ns);
      end.set_wall_ns(event.time_ns - event.start_ns);
      EndTarget(key, end);
      return;
    }
    default:
      return;
  }
}

void Recorder::ShareOut() {
  behind_.clear();
  for (const auto& [key, target] : targets_) {
    if (target->behind()) ++behind_[target->uid()];
  }
  for (const Ending& ending : ending_) ++behind_[ending.target->uid()];
}

// Each user gets the same, and each of his targets the same of that. Those that are
// drained in one go do not count: they cost little.
uint64_t Recorder::ShareOf(const Target& target) const {
  const auto own = behind_.find(target.uid());
  const uint64_t users = behind_.size() + (own == behind_.end() ? 1 : 0);
  const uint64_t targets = own == behind_.end() ? 1 : own->second;
  return std::max(kLeastShare, kRoundCost / users / targets);
}

void Recorder::ServeEnding(uint64_t now_ns) {
  for (size_t i = ending_.size(); i > 0; --i) {
    Ending ending = std::move(ending_.front());
    ending_.pop_front();
    if (ending.target->DrainLast(now_ns, ShareOf(*ending.target))) {
      CloseTarget(ending.target.get(), ending.end);
    } else {
      ending_.push_back(std::move(ending));
    }
  }
}

void Recorder::EndTarget(const TargetKey& key, const v1::ProcessEnd& end) {
  auto found = targets_.extract(key);
  if (found.empty()) return;
  std::unique_ptr<Target> target = std::move(found.mapped());
  if (target->DrainLast(BootNs(), ShareOf(*target))) {
    CloseTarget(target.get(), end);
    return;
  }
  const uint32_t uid = target->uid();
  ending_.push_back({std::move(target), end});
  auto is_users = [uid](const Ending& e) { return e.target->uid() == uid; };
  if (std::count_if(ending_.begin(), ending_.end(), is_users) >
      static_cast<ptrdiff_t>(kMaxEndingPerUser)) {
    auto oldest = std::find_if(ending_.begin(), ending_.end(), is_users);
    CloseTarget(oldest->target.get(), oldest->end);
    ending_.erase(oldest);
  }
}

void Recorder::CloseTarget(Target* target, const v1::ProcessEnd& end) {
  if (target->SettleFromCollector()) NoteVerdict(*target);
  if (target->verdict() == Verdict::kOpen) {
    const bool in_place = target->has_memory() && target->memory()->hears_of_init();
    if (in_place && target->memory()->init_status() != 0) {
      target->Settle(
          Verdict::kPassed, AttachReason::kNone,
          absl::StrFormat("hsa_init failed in this process (status %#x): it "
                          "had no GPU to use, and there was nothing to record",
                          target->memory()->init_status()));
    } else {
      const EndVerdict verdict =
          VerdictAtEnd(target->opened(),
                       in_place               ? CollectorProgress::kInPlace
                       : target->has_memory() ? CollectorProgress::kReported
                                              : CollectorProgress::kNone,
                       end);
      target->Settle(verdict.verdict, verdict.reason, verdict.detail);
    }
    NoteVerdict(*target);
  }
  bool attached = target->verdict() == Verdict::kAttached;
  const TargetId id = target->id();
  NoteBelief(target);
  v1::LossAccount account = target->Close(end);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    live_.dispatches -= target->published.dispatches;
    live_.copies -= target->published.copies;
    totals_.dispatches += account.dispatches_delivered();
    totals_.copies += account.copies_delivered();
    totals_.measured += account.counted_delivered();
    totals_.samples += account.samples_delivered();
    totals_.api_calls += account.api_calls_delivered();
    if (account.not_believable().empty()) {
      totals_.dropped += account.dropped_ring_full() + account.dropped_collector() +
                         account.dropped_invalid() + account.dropped_inflight() +
                         account.dropped_writer();
      totals_.unseen += account.packets_unseen();
    }
  }
  if (observer_ != nullptr && attached)
    observer_->OnEnd(target->process(), end, account);
  if (offered_.erase(id) > 0) options_.targets->OnTargetGone(id);
}

void Recorder::NoteBelief(Target* target) {
  if (target->not_believable().empty()) return;
  if (std::exchange(target->told_not_believable, true)) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++totals_.not_believable;
  }
  if (observer_ != nullptr) {
    observer_->OnNotBelievable(target->process(), target->not_believable());
  }
}

void Recorder::SettleOverdue(Target* target) {
  if (target->has_memory()) {
    target->Settle(Verdict::kRefused, AttachReason::kCollectorSilent,
                   "the collector was loaded, but the runtime never called it: another "
                   "tool may be registered with rocprofiler-register");
  } else if (target->opened().outcome.ok()) {
    target->Settle(Verdict::kRefused, AttachReason::kCollectorSilent,
                   absl::StrCat("the collector did not report in; ",
                                AttachReasonHelp(AttachReason::kCollectorSilent)));
  } else {
    const EndVerdict verdict = VerdictOfLostThread(target->opened());
    target->Settle(verdict.verdict, verdict.reason, verdict.detail);
  }
}

void Recorder::Scan(uint64_t now_ns) {
  last_scan_ns_ = now_ns;
  const bool note_losses = now_ns - last_losses_ns_ >= kLossesPeriodNs;
  if (note_losses) last_losses_ns_ = now_ns;
  std::vector<TargetKey> gone;
  for (auto& [key, target] : targets_) {
    // A collector that hears of hsa_init is in place: the call may take its time.
    const bool in_place = target->has_memory() && target->memory()->hears_of_init();
    if (target->verdict() == Verdict::kOpen && target->opened().attach_tried &&
        !in_place &&
        now_ns > target->opened().event.time_ns + options_.report_timeout_ns) {
      SettleOverdue(target.get());
      NoteVerdict(*target);
    }
    if (note_losses) target->NoteLosses();
    if (target->IsGone()) gone.push_back(key);
  }
  // The kernel's event comes first if there is one: a pidfd is readable only after it.
  // One round of grace lets the event, which another thread posts, win.
  for (const TargetKey& key : gone) {
    if (!suspected_gone_.contains(key)) continue;
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::LOST);
    end.set_time_ns(now_ns);
    EndTarget(key, end);
  }
  absl::erase_if(user_memory_,
                 [](const auto& entry) { return entry.second.expired(); });
  suspected_gone_ = absl::flat_hash_set<TargetKey>(gone.begin(), gone.end());
  absl::erase_if(early_, [now_ns](const auto& entry) {
    return now_ns > entry.second.since_ns + kEarlyLifeNs;
  });
}

void Recorder::NoteVerdict(const Target& target) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    switch (target.verdict()) {
      case Verdict::kAttached:
        ++totals_.attached;
        break;
      case Verdict::kPassed:
        ++totals_.passed;
        break;
      case Verdict::kRefused:
        ++totals_.refused;
        break;
      case Verdict::kMissed:
        ++totals_.missed;
        break;
      case Verdict::kOpen:
        return;
    }
  }
  if (target.verdict() == Verdict::kRefused) RemoveStub(target.opened());
  if (observer_ != nullptr) observer_->OnVerdict(target.process(), target.window());
}

// An attach that came to nothing leaves nothing behind.
void Recorder::RemoveStub(const Window& window) {
  if (options_.stub_remover == nullptr || !window.outcome.ok()) return;
  StubLocation location;
  location.pid = static_cast<pid_t>(window.event.pid);
  location.tid = static_cast<pid_t>(window.event.tid);
  location.start_ns = window.event.start_ns;
  location.address = window.outcome.stub_address;
  location.stack_pointer = window.outcome.stub_stack_pointer;
  location.window_id = window.event.time_ns;
  options_.stub_remover->Remove(location);
}

RunTotals Recorder::Totals() const {
  std::lock_guard<std::mutex> lock(mutex_);
  RunTotals totals = totals_;
  totals.dispatches += live_.dispatches;
  totals.copies += live_.copies;
  return totals;
}

void Recorder::StopThread() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  uint64_t one = 1;
  (void)!write(wake_fd_.get(), &one, sizeof(one));
  thread_.join();
}

void Recorder::Abandon() {
  StopThread();
  // A process may have been attached meanwhile.
  if (output_.used()) {
    (void)CloseAll({});
  } else {
    output_.Discard();
  }
}

absl::Status Recorder::Finish(const rocattach_bpf_stats& kernel) {
  StopThread();
  return CloseAll(kernel);
}

absl::Status Recorder::CloseAll(const rocattach_bpf_stats& kernel) {
  // From here on this thread is the recorder's. Records that were under way when
  // recording stopped get a moment to arrive.
  for (auto& [key, target] : targets_) target->SetRecording(false);
  timespec pause = {0, kQuiesceNs};
  if (!targets_.empty()) nanosleep(&pause, nullptr);
  std::vector<TargetKey> keys;
  for (auto& [key, target] : targets_) keys.push_back(key);
  for (const TargetKey& key : keys) {
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::STILL_RUNNING);
    end.set_time_ns(BootNs());
    end.set_wall_ns(BootNs() - key.start_ns);
    EndTarget(key, end);
  }
  const uint64_t give_up_ns = BootNs() + kLastDrainNs;
  while (!ending_.empty() && BootNs() < give_up_ns) {
    ShareOut();
    ServeEnding(BootNs());
  }
  for (Ending& ending : ending_) CloseTarget(ending.target.get(), ending.end);
  ending_.clear();
  return output_.Close(Summary(kernel));
}

v1::WatcherSummary Recorder::Summary(const rocattach_bpf_stats& kernel) const {
  v1::WatcherSummary summary;
  std::lock_guard<std::mutex> lock(mutex_);
  summary.set_begin_ns(totals_.begin_ns);
  summary.set_end_ns(BootNs());
  summary.set_windows_attached(totals_.attached);
  summary.set_windows_passed(totals_.passed);
  summary.set_windows_unrelated(totals_.unrelated);
  summary.set_windows_refused(totals_.refused);
  summary.set_windows_missed(totals_.missed);
  SetQuantiles(totals_.hold, summary.mutable_hold());
  SetQuantiles(totals_.hit_to_released, summary.mutable_hit_to_released());
  SetQuantiles(totals_.hit_to_stopped, summary.mutable_hit_to_stopped());
  summary.set_dispatches(totals_.dispatches);
  summary.set_copies(totals_.copies);
  summary.set_dropped(totals_.dropped);
  summary.set_not_believable(totals_.not_believable);
  summary.set_probe_hits(kernel.hits);
  summary.set_probe_windows(kernel.windows);
  summary.set_events_lost(kernel.lost + totals_.unheard);
  summary.set_claims_full(kernel.claims_full);
  summary.set_windows_over_budget(kernel.over_budget);
  summary.set_holds(kernel.held);
  summary.set_hold_deadlines(kernel.deadlines);
  summary.set_recorder_cpu_ns(ClockNs(CLOCK_PROCESS_CPUTIME_ID));
  return summary;
}

}  // namespace rocattach
