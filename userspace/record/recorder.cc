#include "userspace/record/recorder.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/drain/convert.h"
#include "userspace/record/drain/dictionary.h"
#include "userspace/record/end_verdict.h"
#include "userspace/record/settle_target.h"
#include "userspace/record/window_state.h"
#include "userspace/stream/hold.h"

namespace rocattach {
namespace {

constexpr int kDrainPeriodMsec = 4;
// Period while rings of at least kRestSlots slots fill slowly: at a million records a
// second, half of one fills in this time.
constexpr int kRestPeriodMsec = 8;
constexpr uint32_t kRestSlots = 16384;
constexpr uint64_t kRestAfterNs = 100'000'000;
// Maximum time that records wait in the rings of a resting target.
constexpr uint64_t kRestNs = 200'000'000;
constexpr uint64_t kScanPeriodNs = 100'000'000;
// Period of checks for ends that no event reported: a system call for each target.
constexpr uint64_t kLostPeriodNs = 500'000'000;
// Period of writing losses to the recording, in case it is truncated later.
constexpr uint64_t kLossesPeriodNs = 1'000'000'000;
constexpr int kNice = -10;
// About ten rings of the default size, for all processes together.
constexpr uint64_t kMostViewBytes = 16 << 20;
// With this many records in one round, a target is busy: do not sleep.
constexpr uint64_t kBusyRoundRecords = 4096;

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

// True if the policy has passed the process, or if nothing is attached to.
bool IsUnwanted(const Window& window) {
  return window.verdict == Verdict::kPassed && !window.attach_tried &&
         window.outcome.reason == AttachReason::kNone;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recorder>> Recorder::Start(RecorderOptions options,
                                                          RecorderObservers observers) {
  ASSIGN_OR_RETURN(OutputSet output, OutputSet::Open(options.output));
  auto recorder = std::unique_ptr<Recorder>(
      new Recorder(std::move(options), std::move(observers), std::move(output)));
  RETURN_IF_ERROR(recorder->inbox_.status());
  recorder->thread_ = std::thread([raw = recorder.get()] { raw->Run(); });
  return recorder;
}

Recorder::Recorder(RecorderOptions options, RecorderObservers observers,
                   OutputSet output)
    : options_(std::move(options)),
      observers_(std::move(observers)),
      output_(std::move(output)),
      statistics_(BootNs()),
      views_(kMostViewBytes),
      targets_([this](Target* target, const v1::ProcessEnd& end) {
        recorder_thread_.AssertOwned();
        CloseTarget(target, end);
      }),
      offers_(options_.targets,
              uint64_t{options_.collector_config.map_wait_msec} * 1'000'000),
      verdicts_({&statistics_, options_.meters, options_.stub_remover, &observers_,
                 options_.on_not_entered}),
      pause_(&statistics_, &observers_),
      governor_(options_.budget),
      topology_(options_.sdk_search.topology) {}

Recorder::~Recorder() {
  if (thread_.joinable()) (void)Finish({});
}

void Recorder::OnWindow(Window window) {
  // A process that runs injected code must not be forgotten.
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
  // Accounts do not depend on the workload, so this message may be dropped.
  inbox_.PostIfRoom(WorkloadMessage{process, std::move(workload)});
}

bool Recorder::RunOnThread(std::function<void()> task) {
  return inbox_.PostTask(std::move(task));
}

void Recorder::EndRecording() {
  (void)RunOnThread([this] {
    recorder_thread_.AssertOwned();
    ended_ = true;
    targets_.EndRecording();
  });
}

Target* Recorder::FindTarget(ProcessId id) {
  recorder_thread_.AssertOwned();
  return targets_.FindWithMemory(id);
}

void Recorder::UpdateMeters() {
  recorder_thread_.AssertOwned();
  targets_.UpdateMeters();
}

std::map<std::string, uint64_t> Recorder::CountTargets() const {
  recorder_thread_.AssertOwned();
  return targets_.CountByState();
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
      answer->store(targets_.AllSettled() ? kSettled : kOpen);
    });
    if (!asked) return false;
    do {
      absl::SleepFor(kPause);
      if (answer->load() == kSettled) return true;
      if (give_up() || BootNs() - begin_ns >= timeout_ns) return false;
    } while (answer->load() == kNone);
  }
}

void Recorder::CountBeforeSession(Target* target) {
  if (target->session() == nullptr) return;
  const uint64_t before = target->session()->TakeDispatchesBefore();
  if (before != 0) statistics_.CountBeforeSession(before);
}

bool Recorder::Serve(Target* target, uint64_t now_ns) {
  if (target->SettleFromCollector()) verdicts_.Notify(*target);
  ReportNotBelievable(target);
  target->published = target->counts();
  if (!target->has_memory()) return false;
  const bool answer_awaited = target->session()->Poll(now_ns);
  CountBeforeSession(target);
  const bool waits = offers_.Update(target, now_ns) || answer_awaited;
  if (!waits && !target->behind() && target->verdict() != Verdict::kOpen &&
      offers_.HasServed(*target)) {
    target->RestUntil(std::min(now_ns + kRestNs, target->session()->ends_ns()));
  }
  return waits;
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
  uint32_t running = 0, uncalled = 0;
  OperationCounts live;
  targets_.ShareOut();
  for (const auto& [key, target] : targets_.living()) {
    if (!target->Rests(now)) {
      most = std::max(most, targets_.Drain(target.get(), now));
      behind |= target->behind();
      awaited |= Serve(target.get(), now);
    }
    live += target->published;
    running += target->has_memory() ? 1 : 0;
    uncalled += target->uncalled() ? 1 : 0;
  }
  if (most >= kBusyRoundRecords / 4) last_busy_ns_ = now;
  targets_.DrainEnding(now);
  live += targets_.PublishEnding();
  statistics_.SetLive(live, running, uncalled);
  running_ = running;
  if (now - last_scan_ns_ >= kScanPeriodNs) Scan(handled_until_ns);
  output_.Flush(now);
  // Once the run is over, its result reports output that is incomplete.
  if (!ending_) pause_.Update(output_);
  Govern(now);
  if (most >= kBusyRoundRecords || behind || targets_.has_ending()) return 0;
  if (awaited) return 1;
  if (running > 0) {
    const bool rests = options_.collector_config.ring_slots >= kRestSlots &&
                       now - last_busy_ns_ >= kRestAfterNs;
    return rests ? kRestPeriodMsec : kDrainPeriodMsec;
  }
  const bool at_rest = targets_.living().empty() && early_.empty() &&
                       !pause_.paused() && governor_.level().every();
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
  for (const auto& [key, target] : targets_.living()) {
    target->SetSampling(governor_.level(), governor_.reason());
  }
  statistics_.SetSampling(governor_.level());
  for (RecorderObserver* observer : observers_) {
    observer->OnSampling(governor_.level(), governor_.reason());
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

Target* Recorder::AddTarget(Window window) {
  v1::Process process = DescribeProcess(window);
  auto output = IsUnwanted(window) ? output_.OpenUnwanted(window.process, process)
                                   : output_.OpenProcess(window.process, process);
  if (!output.ok()) {
    output_.KeepError(output.status());
    return nullptr;
  }
  const ProcessId key = ProcessIdOf(window.event);
  std::shared_ptr<UserMemory> user = targets_.MemoryOfUser(window.event.uid);
  return targets_.Add(
      key, std::make_unique<Target>(std::move(window), *output, std::move(process),
                                    &output_, std::move(user), &topology_));
}

void Recorder::Handle(Window window) {
  const ProcessId key = ProcessIdOf(window.event);
  Target* target = targets_.FindLiving(key);
  if (target == nullptr && window.event.mode == ROCATTACH_WINDOW_UNRELATED) {
    return AddUnrelated(key);
  }
  if (target == nullptr && window.event.mode == ROCATTACH_WINDOW_OVER_BUDGET) {
    return RecordOverBudget(std::move(window));
  }
  if (target != nullptr && !target->output().kept && !IsUnwanted(window)) {
    // It is wanted by now, for example because it has changed its name.
    targets_.End(key, EndOfLiving(*target));
    target = nullptr;
  }
  if (target != nullptr) {
    if (SettleBeforeReopen(target)) verdicts_.Notify(*target);
    target->Reopen(std::move(window));
  } else {
    target = AddTarget(std::move(window));
    if (target == nullptr) return;
  }
  statistics_.CountAttach(target->opened(), HoldNs(target->window()));
  CountHold(target);
  verdicts_.Notify(*target);
  for (RecorderMessage& message : early_.Take(key)) Dispatch(std::move(message));
}

void Recorder::CountHold(Target* target) {
  if (const uint64_t hold_ns = target->TakeHoldNs(); hold_ns != 0) {
    statistics_.CountHold(hold_ns);
  }
}

void Recorder::AddUnrelated(const ProcessId& key) {
  statistics_.CountUnrelated();
  // Its end may have arrived earlier.
  for (const RecorderMessage& message : early_.Take(key)) {
    if (std::holds_alternative<rocattach_event>(message)) return;
  }
  unrelated_.insert(key);
}

v1::ProcessEnd Recorder::EndOfLiving(const Target& target) {
  v1::ProcessEnd end;
  end.set_how(v1::ProcessEnd::STILL_RUNNING);
  end.set_time_ns(BootNs());
  end.set_wall_ns(ElapsedNs(target.opened().event.start_ns, BootNs()));
  return end;
}

// The kernel does not report this process's end, so its stream ends here.
void Recorder::RecordOverBudget(Window window) {
  v1::Process process = DescribeProcess(window);
  auto output = output_.OpenProcess(window.process, process);
  if (!output.ok()) return output_.KeepError(output.status());
  Target target(std::move(window), *output, std::move(process), &output_);
  verdicts_.Notify(target);
  target.Close(EndOfLiving(target));
}

void Recorder::Handle(Arrival arrival) {
  Target* target = targets_.FindLiving(ProcessIdOf(arrival.event));
  if (target == nullptr) {
    ProcessId key = ProcessIdOf(arrival.event);
    early_.Keep(key, std::move(arrival), BootNs());
    return;
  }
  if (const auto& failure = arrival.failure; failure.has_value()) {
    if (target->verdict() != Verdict::kOpen) return;
    target->Settle(Verdict::kRefused, failure->reason, failure->detail, failure->error);
    verdicts_.Notify(*target);
    return;
  }
  arrival.memory->ViewWith(&views_);
  target->SetMemory(std::move(arrival.memory), options_.recording,
                    arrival.acknowledged);
  if (ended_) target->EndRecording();
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
  Target* target = targets_.FindLiving(found.process);
  if (target == nullptr) target = targets_.FindEnding(found.process);
  if (target != nullptr) {
    target->SetWorkload(std::move(found.workload));
    return;
  }
  const ProcessId key = found.process;
  early_.Keep(key, std::move(found), BootNs());
}

void Recorder::Handle(const rocattach_event& event) {
  ProcessId key = ProcessIdOf(event);
  Target* target = targets_.FindLiving(key);
  if (target == nullptr) {
    if (unrelated_.erase(key) == 0) early_.Keep(key, event, BootNs());
    return;
  }
  // The thread that serves a window posts the window after the end of its hold.
  if (event.type == ROCATTACH_EVENT_HOLD_END &&
      event.hold_end.window_ns > target->opened().event.time_ns) {
    early_.Keep(key, event, BootNs());
    return;
  }
  switch (event.type) {
    case ROCATTACH_EVENT_HOLD_END: {
      target->OnHoldEnd(event);
      statistics_.CountProbe(event.hold_end.held_ns);
      CountHold(target);
      return;
    }
    case ROCATTACH_EVENT_EXIT: {
      v1::ProcessEnd end = EndFromWaitStatus(static_cast<int>(event.exit.wait_status));
      end.set_time_ns(event.time_ns);
      end.set_wall_ns(ElapsedNs(event.start_ns, event.time_ns));
      targets_.End(key, end);
      return;
    }
    case ROCATTACH_EVENT_EXEC: {
      v1::ProcessEnd end;
      end.set_how(v1::ProcessEnd::EXECED);
      end.set_time_ns(event.time_ns);
      end.set_wall_ns(ElapsedNs(event.start_ns, event.time_ns));
      targets_.End(key, end);
      return;
    }
    default:
      return;
  }
}

void Recorder::CloseTarget(Target* target, const v1::ProcessEnd& end) {
  if (SettleAtEnd(target, end)) verdicts_.Notify(*target);
  const bool attached = target->verdict() == Verdict::kAttached;
  const ProcessId id = target->id();
  ReportNotBelievable(target);
  CountBeforeSession(target);
  offers_.ReportIfMissed(*target);
  const v1::LossAccount account = target->Close(end);
  statistics_.CountEnd(account, target->published);
  if (attached) {
    for (RecorderObserver* observer : observers_) {
      observer->OnEnd(target->process(), end, account);
    }
  }
  offers_.Withdraw(id);
}

void Recorder::CompareWithDriver(std::map<ProcessId, DriverReading> readings) {
  (void)RunOnThread([this, readings = std::move(readings)] {
    recorder_thread_.AssertOwned();
    for (const auto& [id, reading] : readings) {
      Target* target = FindTarget(id);
      if (target != nullptr && target->CompareWithDriver(reading)) {
        ReportUnseenWork(*target);
      }
    }
  });
}

void Recorder::ReportUnseenWork(const Target& target) {
  statistics_.CountUnseenWork();
  for (RecorderObserver* observer : observers_) {
    observer->OnUnseenWork(target.process(), target.unseen_work());
  }
}

void Recorder::ReportNotBelievable(Target* target) {
  if (target->not_believable().empty()) return;
  if (std::exchange(target->reported_not_believable, true)) return;
  statistics_.CountNotBelievable();
  for (RecorderObserver* observer : observers_) {
    observer->OnNotBelievable(target->process(), target->not_believable());
  }
}

void Recorder::Scan(uint64_t now_ns) {
  last_scan_ns_ = now_ns;
  const bool write_losses = now_ns - last_losses_ns_ >= kLossesPeriodNs;
  if (write_losses) last_losses_ns_ = now_ns;
  for (const auto& [key, target] : targets_.living()) {
    if (SettleIfNotLoaded(target.get(), now_ns, HasCollector) ||
        SettleIfOverdue(target.get(), now_ns, options_.report_timeout_ns)) {
      verdicts_.Notify(*target);
    }
    if (write_losses) target->WriteLosses();
  }
  early_.Expire(now_ns);
  if (now_ns - last_lost_ns_ < kLostPeriodNs) return;
  last_lost_ns_ = now_ns;
  for (const ProcessId& key : targets_.FindLost()) {
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::LOST);
    end.set_time_ns(now_ns);
    targets_.End(key, end);
  }
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

absl::Status Recorder::CloseAll(const rocattach_bpf_stats& kernel) {
  recorder_thread_.Adopt();
  targets_.Quiesce(options_.operations_timeout_ns);
  targets_.EndAll();
  return output_.Close(statistics_.Summary(kernel, inbox_.dropped()));
}

}  // namespace rocattach
