#include "userspace/record/recorder.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/convert.h"
#include "userspace/record/dictionary.h"
#include "userspace/record/end_verdict.h"
#include "userspace/record/settle_target.h"
#include "userspace/record/window_state.h"

namespace rocattach {
namespace {

constexpr int kDrainPeriodMsec = 4;
constexpr uint64_t kScanPeriodNs = 100'000'000;
// How often losses are written to the recording, in case it is truncated later.
constexpr uint64_t kLossesPeriodNs = 1'000'000'000;
constexpr int kNice = -10;
// With this many records in one round, a target is busy: do not sleep.
constexpr uint64_t kBusyRecords = 4096;
// After recording was switched off, a hook may still be capturing.
constexpr uint64_t kQuiesceNs = 20'000'000;
// How often what is in flight then is looked at.
constexpr timespec kQuiesceStep = {0, 2'000'000};

// Time limit for draining all rings when the run ends.
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
  process.set_hsa_library(window.hsa_library);
  return process;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recorder>> Recorder::Start(RecorderOptions options,
                                                          RecorderObserver* observer) {
  ASSIGN_OR_RETURN(OutputSet output, OutputSet::Open(options.output));
  auto recorder = std::unique_ptr<Recorder>(
      new Recorder(std::move(options), observer, std::move(output)));
  RETURN_IF_ERROR(recorder->inbox_.status());
  recorder->thread_ = std::thread([raw = recorder.get()] { raw->Run(); });
  return recorder;
}

Recorder::Recorder(RecorderOptions options, RecorderObserver* observer,
                   OutputSet output)
    : options_(std::move(options)),
      observer_(observer),
      output_(std::move(output)),
      statistics_(BootNs()),
      governor_(options_.budget),
      topology_(options_.sdk_search.topology) {}

Recorder::~Recorder() {
  if (thread_.joinable()) (void)Finish({});
}

void Recorder::OnWindow(Window window) {
  // A process with running code of ours must not be forgotten.
  if (window.attach_tried) {
    inbox_.Post(std::move(window));
  } else {
    inbox_.PostIfRoom(std::move(window));
  }
}

void Recorder::OnReady(const rocattach_event& event) {
  const bool hold = options_.hold_arrivals != nullptr && options_.hold_arrivals();
  OnArrival(MapArrival(event, options_.collector_config, hold));
}

void Recorder::OnArrival(Arrival arrival) {
  inbox_.Post(std::move(arrival));
}

void Recorder::OnEvent(const rocattach_event& event) {
  // An end is also noticed without its event.
  inbox_.PostIfRoom(event);
}

void Recorder::SetWorkload(const ProcessId& process, v1::Workload workload) {
  // What follows from it is not needed for an account.
  inbox_.PostIfRoom(WorkloadMessage{process, std::move(workload)});
}

bool Recorder::RunOnThread(std::function<void()> task) {
  return inbox_.PostTask(std::move(task));
}

Target* Recorder::FindTarget(ProcessId id) {
  recorder_thread_.AssertOwned();
  for (auto& [key, target] : targets_) {
    if (target->has_memory() && target->id() == id) return target.get();
  }
  return ending_.Find(id);
}

void Recorder::UpdateMeters() {
  recorder_thread_.AssertOwned();
  for (auto& [key, target] : targets_) target->UpdateMeter();
  ending_.ForEach([](Target* target) { target->UpdateMeter(); });
}

bool Recorder::AwaitVerdicts(uint64_t timeout_ns, absl::FunctionRef<bool()> give_up) {
  constexpr absl::Duration kPause = absl::Milliseconds(2);
  enum Answer { kNone, kOpen, kSettled };
  const uint64_t begin_ns = BootNs();
  for (;;) {
    // A thread that is kept by a slow disk may answer after this function has returned.
    auto answer = std::make_shared<std::atomic<Answer>>(kNone);
    const bool asked = RunOnThread([this, answer] {
      recorder_thread_.AssertOwned();
      const bool settled = std::none_of(
          targets_.begin(), targets_.end(),
          [](const auto& entry) { return entry.second->verdict() == Verdict::kOpen; });
      answer->store(settled ? kSettled : kOpen);
    });
    if (!asked) return false;
    do {
      absl::SleepFor(kPause);
      if (answer->load() == kSettled) return true;
      if (give_up() || BootNs() - begin_ns >= timeout_ns) return false;
    } while (answer->load() == kNone);
  }
}

std::map<std::string, uint64_t> Recorder::CountTargets() const {
  recorder_thread_.AssertOwned();
  std::map<std::string, uint64_t> counts;
  for (const Verdict verdict : {Verdict::kOpen, Verdict::kAttached, Verdict::kPassed,
                                Verdict::kRefused, Verdict::kMissed}) {
    counts[std::string(VerdictName(StateOf(verdict)))] = 0;
  }
  for (const auto& [key, target] : targets_) {
    ++counts[std::string(VerdictName(StateOf(target->verdict())))];
  }
  uint64_t& ending = counts["ending"];
  ending_.ForEach([&ending](Target*) { ++ending; });
  return counts;
}

void Recorder::NoteBeforeSession(Target* target) {
  if (target->session() == nullptr) return;
  const uint64_t before = target->session()->TakeDispatchesBefore();
  if (before != 0) statistics_.CountBeforeSession(before);
}

bool Recorder::ServeSession(Target* target, uint64_t now_ns) {
  if (!target->has_memory()) return false;
  const ProcessId id = target->id();
  bool awaited = target->session()->Poll(now_ns);
  NoteBeforeSession(target);
  if (options_.targets == nullptr) {
    target->AcknowledgeMapped();
    return awaited;
  }
  auto offered = offered_.find(id);
  if (offered == offered_.end()) {
    std::optional<TargetDescription> description =
        target->session()->Describe(target->opened().sdk_missing);
    if (description.has_value()) {
      offered = offered_.emplace(id, now_ns).first;
      options_.targets->OnTargetReady(id, *std::move(description),
                                      !target->acknowledged());
    }
  }
  // Whatever sessions do, the process does not wait longer than this. It begins to wait
  // when it can be described, which may be long after its window has opened: until then
  // it loads rocprofiler-sdk.
  if (!target->acknowledged()) {
    const bool waits = offered != offered_.end();
    const uint64_t begin_ns = waits ? offered->second : target->opened().event.time_ns;
    const uint64_t wait_ns =
        uint64_t{options_.collector_config.map_wait_msec} * 1'000'000;
    const bool expired = now_ns > begin_ns + wait_ns;
    awaited |= !expired;
    if (waits && expired) target->AcknowledgeMapped();
  }
  return awaited;
}

void Recorder::Run() {
  recorder_thread_.Adopt();
  (void)pthread_setname_np(pthread_self(), "rwa-recorder");
  // Priority over the processes that it reads from: what is not drained in time is
  // lost.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  while (inbox_.Wait(Round())) {
  }
}

int Recorder::Round() {
  // Everything posted before this will have been handled when verdicts are judged: on a
  // busy machine a round may take seconds.
  const uint64_t handled_until_ns = BootNs();
  for (RecorderMessage& message : inbox_.TakeAll()) Dispatch(std::move(message));
  const uint64_t now = BootNs();
  bool awaited = false, behind = false;
  uint64_t most = 0;
  uint32_t running = 0;
  OperationCounts live;
  ShareOut();
  for (auto& [key, target] : targets_) {
    most = std::max(most, target->Drain(now, shares_.Of(target->uid())));
    behind |= target->behind();
    if (target->SettleFromCollector()) NoteVerdict(*target);
    NoteBelief(target.get());
    awaited |= ServeSession(target.get(), now);
    target->published = target->counts();
    live += target->published;
    running += target->has_memory() ? 1 : 0;
  }
  DrainEnding(now);
  live += ending_.Publish();
  statistics_.SetLive(live, running);
  running_ = running;
  if (now - last_scan_ns_ >= kScanPeriodNs) Scan(handled_until_ns);
  output_.Flush(now);
  NotePause();
  Govern(now);
  if (most >= kBusyRecords || behind || !ending_.empty()) return 0;
  if (awaited) return 1;
  if (running > 0) return kDrainPeriodMsec;
  const bool at_rest =
      targets_.empty() && early_.empty() && !paused_ && governor_.level().every();
  return at_rest ? -1 : 100;
}

void Recorder::Govern(uint64_t now_ns) {
  if (!governor_.limited()) return;
  LoadReading reading;
  reading.now_ns = now_ns;
  reading.cpu_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID);
  reading.disk_bytes = output_.bytes();
  reading.attached = running_ > 0;
  if (!governor_.Update(reading)) return;
  for (auto& [key, target] : targets_) {
    target->SetSampling(governor_.level(), governor_.reason());
  }
  statistics_.NoteSampling(governor_.level());
  if (observer_ != nullptr) {
    observer_->OnSampling(governor_.level(), governor_.reason());
  }
}

void Recorder::NotePause() {
  if (paused_ != output_.paused().ok()) return;
  paused_ = !paused_;
  statistics_.SetPaused(paused_);
  if (observer_ == nullptr) return;
  if (paused_) {
    dropped_before_pause_ = output_.records_dropped();
    observer_->OnRecordingPaused(output_.paused());
  } else {
    observer_->OnRecordingResumed(output_.records_dropped() - dropped_before_pause_);
  }
}

void Recorder::Dispatch(RecorderMessage message) {
  if (auto* window = std::get_if<Window>(&message)) {
    Handle(std::move(*window));
  } else if (auto* arrival = std::get_if<Arrival>(&message)) {
    Handle(std::move(*arrival));
  } else if (auto* task = std::get_if<RecorderTask>(&message)) {
    task->run();
  } else if (auto* found = std::get_if<WorkloadMessage>(&message)) {
    Handle(std::move(*found));
  } else {
    Handle(std::get<rocattach_event>(message));
  }
}

Target* Recorder::Find(const ProcessId& key) {
  auto found = targets_.find(key);
  return found == targets_.end() ? nullptr : found->second.get();
}

Target* Recorder::AddTarget(Window window) {
  v1::Process process = DescribeProcess(window);
  auto output = output_.OpenProcess(window.process, process);
  if (!output.ok()) {
    output_.Note(output.status());
    return nullptr;
  }
  std::weak_ptr<UserMemory>& kept = user_memory_[window.event.uid];
  std::shared_ptr<UserMemory> user = kept.lock();
  if (user == nullptr) kept = user = std::make_shared<UserMemory>();
  std::unique_ptr<Target>& target = targets_[ProcessIdOf(window.event)];
  target = std::make_unique<Target>(std::move(window), *output, std::move(process),
                                    &output_, std::move(user), &topology_);
  return target.get();
}

void Recorder::Handle(Window window) {
  const ProcessId key = ProcessIdOf(window.event);
  Target* target = Find(key);
  if (target == nullptr && window.event.mode == ROCATTACH_WINDOW_UNRELATED) {
    return NoteUnrelated(key);
  }
  if (target == nullptr && window.event.mode == ROCATTACH_WINDOW_OVER_BUDGET) {
    return NoteOverBudget(std::move(window));
  }
  if (target != nullptr) {
    if (SettleBeforeReopen(target)) NoteVerdict(*target);
    target->Reopen(std::move(window));
  } else {
    target = AddTarget(std::move(window));
    if (target == nullptr) return;
  }
  statistics_.CountAttach(target->opened());
  if (target->verdict() != Verdict::kOpen) NoteVerdict(*target);
  for (RecorderMessage& message : early_.Take(key)) Dispatch(std::move(message));
}

void Recorder::NoteUnrelated(const ProcessId& key) {
  statistics_.CountUnrelated();
  // Its end may have arrived earlier.
  for (const RecorderMessage& message : early_.Take(key)) {
    if (std::holds_alternative<rocattach_event>(message)) return;
  }
  unrelated_.insert(key);
}

// The kernel does not report its end, so the stream ends here.
void Recorder::NoteOverBudget(Window window) {
  v1::Process process = DescribeProcess(window);
  auto output = output_.OpenProcess(window.process, process);
  if (!output.ok()) return output_.Note(output.status());
  Target target(std::move(window), *output, std::move(process), &output_);
  NoteVerdict(target);
  v1::ProcessEnd end;
  end.set_how(v1::ProcessEnd::STILL_RUNNING);
  end.set_time_ns(BootNs());
  end.set_wall_ns(BootNs() - target.opened().event.start_ns);
  target.Close(end);
}

void Recorder::Handle(Arrival arrival) {
  Target* target = Find(ProcessIdOf(arrival.event));
  if (target == nullptr) {
    ProcessId key = ProcessIdOf(arrival.event);
    early_.Keep(key, std::move(arrival), BootNs());
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
  if (options_.meters != nullptr && !target->metered()) {
    target->SetMeter(
        options_.meters->Open(target->process(), target->session()->names()));
  }
  if (!governor_.level().every()) {
    target->SetSampling(governor_.level(), governor_.reason());
  }
}

void Recorder::Handle(WorkloadMessage found) {
  Target* target = Find(found.process);
  if (target == nullptr) target = ending_.Find(found.process);
  if (target != nullptr) {
    target->SetWorkload(std::move(found.workload));
    return;
  }
  const ProcessId key = found.process;
  early_.Keep(key, std::move(found), BootNs());
}

void Recorder::Handle(const rocattach_event& event) {
  ProcessId key = ProcessIdOf(event);
  Target* target = Find(key);
  if (target == nullptr) {
    if (unrelated_.erase(key) == 0) early_.Keep(key, event, BootNs());
    return;
  }
  // The thread that serves a window posts it after the end of its hold.
  if (event.type == ROCATTACH_EVENT_HOLD_END &&
      event.hold_end.window_ns > target->opened().event.time_ns) {
    early_.Keep(key, event, BootNs());
    return;
  }
  switch (event.type) {
    case ROCATTACH_EVENT_HOLD_END: {
      target->NoteHoldEnd(event);
      statistics_.CountHold(event.hold_end.held_ns);
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
  shares_.Clear();
  for (const auto& [key, target] : targets_) {
    if (target->behind()) shares_.Add(target->uid());
  }
  ending_.AddTo(&shares_);
}

void Recorder::DrainEnding(uint64_t now_ns) {
  ending_.Drain(now_ns, shares_, [this](Target* target, const v1::ProcessEnd& end) {
    recorder_thread_.AssertOwned();
    CloseTarget(target, end);
  });
}

void Recorder::EndTarget(const ProcessId& key, const v1::ProcessEnd& end) {
  auto found = targets_.extract(key);
  if (found.empty()) return;
  std::unique_ptr<Target> target = std::move(found.mapped());
  if (target->DrainLast(BootNs(), shares_.Of(target->uid()))) {
    CloseTarget(target.get(), end);
    return;
  }
  ending_.Add(std::move(target), end,
              [this](Target* oldest, const v1::ProcessEnd& its_end) {
                recorder_thread_.AssertOwned();
                CloseTarget(oldest, its_end);
              });
}

void Recorder::CloseTarget(Target* target, const v1::ProcessEnd& end) {
  if (SettleAtEnd(target, end)) NoteVerdict(*target);
  const bool attached = target->verdict() == Verdict::kAttached;
  const ProcessId id = target->id();
  NoteBelief(target);
  NoteBeforeSession(target);
  const v1::LossAccount account = target->Close(end);
  statistics_.CountEnd(account, target->published);
  if (observer_ != nullptr && attached) {
    observer_->OnEnd(target->process(), end, account);
  }
  if (offered_.erase(id) > 0) options_.targets->OnTargetGone(id);
}

void Recorder::NoteBelief(Target* target) {
  if (target->not_believable().empty()) return;
  if (std::exchange(target->reported_not_believable, true)) return;
  statistics_.CountNotBelievable();
  if (observer_ != nullptr) {
    observer_->OnNotBelievable(target->process(), target->not_believable());
  }
}

void Recorder::Scan(uint64_t now_ns) {
  last_scan_ns_ = now_ns;
  const bool note_losses = now_ns - last_losses_ns_ >= kLossesPeriodNs;
  if (note_losses) last_losses_ns_ = now_ns;
  std::vector<ProcessId> gone;
  for (auto& [key, target] : targets_) {
    if (SettleIfNotLoaded(target.get(), now_ns, HasCollector) ||
        SettleIfOverdue(target.get(), now_ns, options_.report_timeout_ns)) {
      NoteVerdict(*target);
    }
    if (note_losses) target->NoteLosses();
    if (target->IsGone()) gone.push_back(key);
  }
  EndLost(gone, now_ns);
  absl::erase_if(user_memory_,
                 [](const auto& entry) { return entry.second.expired(); });
  early_.Expire(now_ns);
}

// The kernel's event, if any, precedes this: a pidfd becomes readable only after it.
// One round of grace lets the event, which another thread posts, arrive first.
void Recorder::EndLost(const std::vector<ProcessId>& gone, uint64_t now_ns) {
  for (const ProcessId& key : gone) {
    if (!suspected_gone_.contains(key)) continue;
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::LOST);
    end.set_time_ns(now_ns);
    EndTarget(key, end);
  }
  suspected_gone_ = absl::flat_hash_set<ProcessId>(gone.begin(), gone.end());
}

void Recorder::NoteVerdict(const Target& target) {
  if (target.verdict() == Verdict::kOpen) return;
  statistics_.CountVerdict(target.verdict());
  if (options_.meters != nullptr) options_.meters->OnVerdict(target.window());
  if (target.verdict() == Verdict::kRefused) RemoveStub(target.opened());
  if (observer_ != nullptr) observer_->OnVerdict(target.process(), target.window());
  if (options_.on_not_entered != nullptr && MayBeEnteredLater(target.window())) {
    options_.on_not_entered(target.id());
  }
}

// A failed attach must leave nothing behind.
void Recorder::RemoveStub(const Window& window) const {
  if (options_.stub_remover == nullptr || window.outcome.stub_address == 0) return;
  StubLocation location;
  location.pid = static_cast<pid_t>(window.event.pid);
  location.tid = static_cast<pid_t>(window.event.tid);
  location.start_ns = window.event.start_ns;
  location.address = window.outcome.stub_address;
  location.stack_pointer = window.outcome.stub_stack_pointer;
  location.window_id = window.event.time_ns;
  options_.stub_remover->Remove(location);
}

void Recorder::StopThread() {
  inbox_.Close();
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

void Recorder::Quiesce() {
  for (auto& [key, target] : targets_) target->SetRecording(false);
  const uint64_t begin_ns = BootNs();
  for (;;) {
    nanosleep(&kQuiesceStep, nullptr);
    const uint64_t now_ns = BootNs();
    bool has_inflight = false;
    ShareOut();
    for (auto& [key, target] : targets_) {
      target->Drain(now_ns, shares_.Of(target->uid()));
      has_inflight |= target->has_inflight() && !target->IsGone();
    }
    const uint64_t elapsed_ns = now_ns - begin_ns;
    if (elapsed_ns >= kQuiesceNs &&
        (!has_inflight || elapsed_ns >= options_.operations_timeout_ns)) {
      return;
    }
  }
}

absl::Status Recorder::CloseAll(const rocattach_bpf_stats& kernel) {
  recorder_thread_.Adopt();
  if (!targets_.empty()) Quiesce();
  std::vector<std::pair<ProcessId, uint64_t>> started;
  for (auto& [key, target] : targets_) {
    started.emplace_back(key, target->opened().event.start_ns);
  }
  for (const auto& [key, start_ns] : started) {
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::STILL_RUNNING);
    end.set_time_ns(BootNs());
    end.set_wall_ns(BootNs() - start_ns);
    EndTarget(key, end);
  }
  const uint64_t give_up_ns = BootNs() + kLastDrainNs;
  while (!ending_.empty() && BootNs() < give_up_ns) {
    ShareOut();
    DrainEnding(BootNs());
  }
  ending_.CloseAll([this](Target* target, const v1::ProcessEnd& end) {
    recorder_thread_.AssertOwned();
    CloseTarget(target, end);
  });
  return output_.Close(statistics_.Summary(kernel, inbox_.dropped()));
}

}  // namespace rocattach
