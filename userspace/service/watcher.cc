#include "userspace/service/watcher.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "injector/elf/function_offset.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/time_namespace.h"
#include "userspace/service/metrics_setup.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

// Time in which the last events of a command that has just ended can arrive.
constexpr int kSettleMsec = 50;

// Time limit at the end of a run for threads that enter or read processes: for all of
// them, and the minimum for each kind.
constexpr absl::Duration kStopPatience = absl::Seconds(1);
constexpr absl::Duration kLeastPatience = absl::Milliseconds(20);

// `late` and `translated` may be null.
WindowLosses ReadWindowLosses(const KernelProbe& probe, const LateLibraries* late,
                              const TranslatedProcesses* translated) {
  const KernelStats kernel = probe.ReadStats();
  WindowLosses losses;
  losses.events = kernel.lost;
  losses.over_budget = kernel.over_budget;
  losses.unclaimed = kernel.claims_full;
  losses.window_deadlines = kernel.deadlines;
  if (translated != nullptr) {
    const TranslationCounts looks = translated->counts();
    losses.opens = looks.opens_lost;
    losses.looks_left_out = looks.left_out;
  }
  if (late == nullptr) return losses;
  const DiscoveryCounts mappings = late->counts();
  losses.mappings = mappings.lost;
  losses.mapping_holds = mappings.held;
  losses.mapping_deadlines = mappings.deadlines;
  return losses;
}

absl::Status CheckAttended(const WindowServer& server) {
  constexpr absl::Duration kMost = absl::Seconds(1);
  const absl::Duration unattended = server.UnattendedFor();
  if (unattended < kMost) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "no thread has taken the kernel's events for ", absl::FormatDuration(unattended),
      ", so windows are missed: processes keep all of them waiting "
      "(rocattach_kept_threads)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Watcher>> Watcher::Start(WatcherOptions options,
                                                        WatcherObserver* observer) {
  auto watcher = std::unique_ptr<Watcher>(new Watcher());
  watcher->options_ = std::move(options);
  watcher->observer_ = observer;
  RETURN_IF_ERROR(watcher->loop_.status());
  RETURN_IF_ERROR(CheckOwnClocks());
  RETURN_IF_ERROR(watcher->LoadProbe());
  watcher->FindLibraries();
  RETURN_IF_ERROR(watcher->StartRecorder());
  watcher->TrackWorkloads();
  RETURN_IF_ERROR(watcher->ServeMetrics());
  RETURN_IF_ERROR(watcher->StartSessions());
  RETURN_IF_ERROR(watcher->StartServer());
  if (watcher->options_.watch_new) RETURN_IF_ERROR(watcher->WatchNew());
  if (watcher->metrics_ != nullptr) {
    watcher->metrics_->SetReady(
        [server = watcher->serving_.load()] { return CheckAttended(*server); });
  }
  return watcher;
}

absl::Status Watcher::LoadProbe() {
  WatcherOptions& o = options_;
  descriptors_ = DescriptorLimit::Raise();
  o.budget.processes = descriptors_.Processes(o.budget.processes);
  KernelProbeOptions probe;
  probe.hold = Attaches() && o.best_hold_mode != HoldMode::kNone;
  probe.hold_deadline_ns = uint64_t{o.hold_timeout_msec} * 1'000'000;
  probe.budget = o.budget;
  probe.lacking = o.lacking;
  probe.best_hold_mode = std::min(o.best_hold_mode, HoldMode::kSignal);
  if (o.only_own_command) {
    probe.only_below = getpid();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
      return ErrnoStatus(errno, "prctl(PR_SET_CHILD_SUBREAPER) failed");
    }
  }
  if (o.only_cgroup.has_value()) probe.only_cgroup = o.only_cgroup->id();
  probe.only_followed = o.wait_for_start || o.follow_children;
  ASSIGN_OR_RETURN(probe_, KernelProbe::Load(probe));
  late_attaches_ = MakeLateAttaches();
  RETURN_IF_ERROR(late_attaches_->changed().status());
  if (probe.only_followed) RETURN_IF_ERROR(late_attaches_->Follow(&o.running));
  if (probe.hold) {
    ASSIGN_OR_RETURN(stop_guard_,
                     StopGuard::Start(std::clamp(o.hold_timeout_msec / 4, 5u, 50u)));
  }
  return absl::OkStatus();
}

void Watcher::FindLibraries() {
  LibraryScanOptions scan;
  scan.extra_paths = options_.extra_libraries;
  scan.most_copies = options_.budget.libraries;
  scan.most_copies_per_user = options_.budget.libraries_per_user;
  for (std::string& entry : LibraryPathPlaces()) scan.usual_places.push_back(entry);
  // Created first, to see a copy that is mapped while the others are searched for.
  if (options_.watch_new) {
    late_libraries_ = std::make_unique<LateLibraries>(
        probe_.get(), [history = history_](const ProcessId& process, MissReason why) {
          history->OnMissedWindow(process, MissReasonName(why));
        });
  }
  libraries_ = std::make_unique<ProbedLibraries>(
      ScanLibraries(scan),
      LibraryLimits{options_.budget.libraries, options_.budget.libraries_per_user});
}

absl::Status Watcher::StartRecorder() {
  const WatcherOptions& o = options_;
  RecorderOptions recorder;
  recorder.output = {o.output_directory, o.output_file, o.recorder_arguments,
                     o.on_file_complete, o.rotation};
  recorder.recording = o.recording;
  recorder.budget = o.load_budget;
  recorder.collector_config = CollectorConfigOf(o);
  if (o.catalog != nullptr && Attaches()) {
    sessions_ = std::make_unique<SessionService>(o.catalog, observer_);
    recorder.targets = sessions_->targets();
    recorder.sdk_search = o.sdk_search;
    recorder.hold_arrivals = [sessions = sessions_.get()] {
      return sessions->holds_arrivals();
    };
  }
  if (Attaches()) {
    recorder.on_not_entered = [this](ProcessId process) {
      probe_->CloseWindow(process);
      late_attaches_->Retry(process);
    };
    stub_remover_ = std::make_unique<StubRemover>();
    recorder.stub_remover = stub_remover_.get();
  }
  metrics_ = MakeServiceMetrics(o);
  if (metrics_ != nullptr) recorder.meters = metrics_->meters();
  RecorderObservers observers = {history_.get()};
  if (observer_ != nullptr) observers.push_back(observer_);
  observers.push_back(late_attaches_.get());
  ASSIGN_OR_RETURN(recorder_,
                   Recorder::Start(std::move(recorder), std::move(observers)));
  return absl::OkStatus();
}

absl::Status Watcher::StartSessions() {
  if (sessions_ != nullptr) {
    sessions_->SetRecorder(recorder_.get());
    sessions_->SetOnServed([this] { late_attaches_->changed().Signal(); });
    if (!options_.session.filters.empty()) {
      ASSIGN_OR_RETURN(own_session_,
                       OwnSession::Start(options_.session, sessions_.get()));
      if (metrics_ != nullptr) metrics_->AddOwnSession(own_session_->number());
    }
  }
  if (sessions_ == nullptr || metrics_ == nullptr) return absl::OkStatus();
  return CountForMetrics(options_, sessions_.get(), metrics_.get());
}

absl::Status Watcher::StartServer() {
  if (options_.attach) {
    ASSIGN_OR_RETURN(options_.collector_path, FindCollector(options_.collector_path));
    ASSIGN_OR_RETURN(collector_, CollectorFile::Open(options_.collector_path));
    RETURN_IF_ERROR(ArmCollector());
  }
  server_ =
      std::make_unique<WindowServer>(probe_.get(), recorder_.get(), ServerOptions());
  late_attaches_->Start(server_.get(), libraries_->known());
  // The threads come first, so that a window that opens while the probes are being set
  // is served.
  RETURN_IF_ERROR(server_->Start());
  serving_ = server_.get();
  return absl::OkStatus();
}

bool Watcher::IsWanted(pid_t pid) const {
  return (!options_.only_own_command || IsBelow(pid, getpid())) && IsInScope(pid) &&
         (!late_attaches_->follows() || late_attaches_->IsFollowed(pid)) &&
         server_->MayAllow(pid);
}

absl::Status Watcher::WatchTranslated() {
  ASSIGN_OR_RETURN(
      translated_,
      TranslatedProcesses::Start({.libraries = libraries_->known(),
                                  .on_found = [this](const TranslatedProcess& process) {
                                    PassTranslated(process);
                                  }}));
  counting_ = translated_.get();
  translated_->FindRunning();
  libraries_->set_after_probe(
      [translated = translated_.get()](const CheckedFile& file, pid_t mapped_by) {
        translated->AfterProbe(file, mapped_by);
      });
  return absl::OkStatus();
}

void Watcher::PassTranslated(const TranslatedProcess& process) {
  late_libraries_->OnWindow(process.id);
  if (!IsWanted(process.id.pid)) return;
  std::string detail = process.how;
  if (!process.restored.ok()) {
    absl::StrAppend(&detail,
                    "; the breakpoint of the probe is still in its memory, and may end "
                    "it with SIGTRAP at hsa_init: ",
                    process.restored.message());
  }
  server_->PassBy(process.id, process.cookie, AttachReason::kTranslated,
                  std::move(detail));
}

absl::Status Watcher::WatchNew() {
  RETURN_IF_ERROR(WatchTranslated());
  RETURN_IF_ERROR(libraries_->SetProbes(probe_.get()));
  LateLibrariesOptions late;
  late.hold = Attaches() && probe_->hold_mode() == HoldMode::kYielding &&
              options_.best_hold_mode == HoldMode::kYielding;
  late.hold_timeout_msec = options_.hold_timeout_msec;
  late.wanted = [this](pid_t pid) { return IsWanted(pid); };
  late.on_mapped = [translated = translated_.get()](pid_t pid, uid_t uid) {
    translated->OnMapped(pid, uid);
  };
  if (Attaches() && options_.best_hold_mode != HoldMode::kNone) {
    late.enter_late = [this](const ProcessId& process) {
      late_attaches_->Enter(process);
    };
  }
  DriverProcessScan::Options scan;
  scan.roots = options_.gpu_roots;
  scan.wanted = late.wanted;
  scan.on_driver_use = [libraries = late_libraries_.get()](const ProcessId& process) {
    return libraries->OnDriverUse(process);
  };
  scan.enter_late = late.enter_late;
  RETURN_IF_ERROR(late_libraries_->Start(std::move(late), libraries_.get()));
  driver_scan_ = std::make_unique<DriverProcessScan>(std::move(scan));
  return absl::OkStatus();
}

absl::Status Watcher::ServeMetrics() {
  if (metrics_ == nullptr) return absl::OkStatus();
  if (late_libraries_ != nullptr) {
    metrics_->SetMissedWindows(
        [late = late_libraries_.get()] { return late->missed(); });
  }
  metrics_->SetWorkloadFailures(
      [workloads = workloads_.get()] { return workloads->failures(); });
  metrics_->SetAddition([this, workloads = workloads_.get(), probe = probe_.get(),
                         late = late_libraries_.get()](NodeSnapshot* snapshot) {
    workloads->AddTo(snapshot);
    snapshot->window_losses = ReadWindowLosses(*probe, late, counting_);
    const WindowServer* server = serving_;
    if (server == nullptr) return;
    snapshot->window_losses->unattended_ns =
        static_cast<uint64_t>(absl::ToInt64Nanoseconds(server->UnattendedFor()));
    snapshot->window_losses->kept_threads = KeptThreads();
  });
  return PublishMetrics(options_, recorder_.get(), observer_, metrics_.get());
}

void Watcher::TrackWorkloads() {
  WorkloadTracking::Options options;
  options.sources = options_.workload_sources;
  options.gpu_roots = options_.gpu_roots;
  options.all_gpu_processes = metrics_ != nullptr;
  options.on_reading = [recorder = recorder_.get()](const GpuUsage& usage) {
    std::map<ProcessId, DriverReading> readings;
    for (const GpuProcess& process : usage.processes) {
      DriverReading& reading = readings[process.id];
      for (const auto& [gpu, use] : process.gpus) {
        reading.computes |= use.cu_occupancy.value_or(0) > 0;
        reading.sdma_us += use.sdma_us.value_or(0);
      }
    }
    recorder->CompareWithDriver(std::move(readings));
  };
  options.found = [history = history_, metrics = metrics_.get(),
                   recorder = recorder_.get()](const ProcessId& process,
                                               const WorkloadIdentity& workload) {
    history->SetWorkload(process, workload);
    if (v1::Workload message = WorkloadToProto(workload); message.ByteSizeLong() > 0) {
      recorder->SetWorkload(process, std::move(message));
    }
    if (metrics != nullptr) metrics->SetWorkload(process, workload);
  };
  options.on_failure = [observer = observer_](absl::string_view source,
                                              const absl::Status& why) {
    if (observer != nullptr) {
      observer->OnSourceFailed(std::string(source), std::string(why.message()));
    }
  };
  workloads_ = std::make_unique<WorkloadTracking>(std::move(options));
}

std::unique_ptr<LateAttaches> Watcher::MakeLateAttaches() {
  LateAttaches::Options late;
  late.wait_for_start = options_.wait_for_start;
  late.wait_timeout_msec = options_.wait_timeout_msec;
  late.follow_children = options_.follow_children;
  late.idle_patience_msec = options_.idle_patience_msec;
  late.use_listeners = Attaches();
  late.wanted = [this](const ProcessId& process) {
    const auto& named = options_.running;
    return std::find(named.begin(), named.end(), process) != named.end() ||
           server_->Allows(process.pid);
  };
  late.on_loaded = [this](const ProcessId& process) {
    (void)libraries_->ProbeMappedBy(process.pid, probe_.get());
  };
  return std::make_unique<LateAttaches>(probe_.get(), history_.get(), observer_,
                                        std::move(late));
}

bool Watcher::IsInScope(pid_t pid) const {
  return !options_.only_cgroup.has_value() || options_.only_cgroup->Contains(pid);
}

std::vector<ProcessId> Watcher::RunningProcesses() const {
  std::set<ProcessId> running(options_.running.begin(), options_.running.end());
  if (options_.all_running) {
    for (const LibraryCopy& copy : libraries_->scan().copies) {
      for (pid_t pid : copy.mapped_by) {
        // If only its arguments decide, they are read later by a thread of its user,
        // because they are in its memory.
        if (pid != getpid() && IsInScope(pid) && server_->MayAllow(pid)) {
          running.insert(IdentityOf(pid));
        }
      }
    }
  }
  return {running.begin(), running.end()};
}

void Watcher::AttachToRunning() {
  const std::vector<ProcessId> running = RunningProcesses();
  if (!running.empty()) late_attaches_->Attach(running);
}

WindowServerOptions Watcher::ServerOptions() const {
  WindowServerOptions server;
  if (SessionService* sessions = sessions_.get()) {
    server.attacher.needs_sdk = [sessions, always = options_.always_sdk] {
      return always || sessions->needs_sdk();
    };
    server.attacher.sdk_search = options_.sdk_search;
  }
  server.on_late_window = [this](const rocattach_event& event, bool served) {
    late_attaches_->OnLateWindow(event, served);
  };
  server.attacher.on_window = [this](const rocattach_event& event) {
    const ProcessId process = ProcessIdOf(event);
    if (late_libraries_ != nullptr) late_libraries_->OnWindow(process);
    late_attaches_->OnWindow(process);
    if (workloads_ != nullptr) workloads_->Request(process, event.cgroup_id);
  };
  if (late_attaches_->follows() || options_.only_cgroup.has_value()) {
    server.wanted = [this](pid_t pid) {
      return IsInScope(pid) &&
             (!late_attaches_->follows() || late_attaches_->IsFollowed(pid));
    };
  }
  server.watch_new = options_.watch_new;
  server.policy.rules = options_.policy;
  server.attacher.stub_remover = stub_remover_.get();
  server.crash_breaker = options_.crash_breaker && !options_.only_own_command;
  server.policy.attach = options_.attach;
  server.policy.dry_run = options_.dry_run;
  server.policy.hold = options_.best_hold_mode != HoldMode::kNone;
  server.attacher.hold_timeout_msec = options_.hold_timeout_msec;
  server.threads = options_.threads;
  server.policy.budget = options_.budget;
  server.policy.full = [recorder = recorder_.get(), most = options_.budget.processes] {
    if (recorder->running() >= most) {
      return absl::StrCat(most,
                          " processes are attached, as many as --max-processes and the "
                          "limit of open files (ulimit -n) allow");
    }
    if (recorder->crowded()) {
      return std::string(
          "the recording cannot keep up: the output or the CPU is too slow");
    }
    return std::string();
  };
  server.attacher.collector.config = CollectorConfigOf(options_);
  server.attacher.collector.memory_bytes =
      CollectorMemoryBytes(server.attacher.collector.config);
  if (collector_ != nullptr) {
    const CollectorFile::Choice* copy = collector_->copy();
    server.attacher.collector.file = copy != nullptr ? *copy : collector_->original();
    if (copy != nullptr) server.attacher.collector.other_file = collector_->original();
    server.attacher.collector.descriptor = collector_->sent_fd();
  }
  server.attacher.libraries = libraries_->known();
  return server;
}

Watcher::~Watcher() {
  if (driver_scan_ != nullptr) driver_scan_->Stop();
  StopLateAttaches();
  StopWatching();
  if (sessions_ != nullptr) sessions_->Close();
  if (metrics_ != nullptr) metrics_->Close();
  if (recorder_ != nullptr && !ran_) recorder_->Abandon();
}

void Watcher::StopLateAttaches() {
  if (late_attaches_ == nullptr) return;
  // An attach that has begun waits for its process to call the runtime.
  const auto patience =
      kStopPatience / 2 + absl::Milliseconds(options_.idle_patience_msec);
  if (!late_attaches_->Stop(patience)) has_kept_threads_ = true;
}

// Destroys nothing that blocked threads use, see HasKeptThreads().
void Watcher::StopWatching() {
  const uint64_t begin_ns = BootNs();
  const auto patience = [begin_ns] {
    const auto spent = absl::Nanoseconds(ElapsedNs(begin_ns, BootNs()));
    return std::max(kStopPatience - spent, kLeastPatience);
  };
  bool ended = true;
  if (translated_ != nullptr) ended &= translated_->StopReporting(patience());
  if (server_ != nullptr) ended &= server_->Stop(patience());
  if (late_libraries_ != nullptr) ended &= late_libraries_->Stop(patience());
  if (workloads_ != nullptr) ended &= workloads_->Stop(patience());
  has_kept_threads_ |= !ended;
}

size_t Watcher::KeptThreads() const {
  const absl::Duration than = absl::Milliseconds(2 * options_.hold_timeout_msec);
  return server_->KeptThreads() + late_attaches_->KeptThreads(than);
}

absl::Status Watcher::ArmCollector() {
  const int fd = collector_->original_fd();
  ASSIGN_OR_RETURN(uint64_t ready,
                   FindFunctionFileOffset(fd, ROCATTACH_COLLECTOR_READY));
  ASSIGN_OR_RETURN(uint64_t unloaded,
                   FindFunctionFileOffset(fd, ROCATTACH_COLLECTOR_UNLOADED));
  // Uses the descriptors, because the file at the path may have been replaced since.
  RETURN_IF_ERROR(
      probe_->AddCollector(absl::StrCat("/proc/self/fd/", fd), ready, unloaded));
  for (int other : {collector_->copy_fd(), collector_->memfd()}) {
    if (other < 0) continue;
    RETURN_IF_ERROR(
        probe_->AddCollector(absl::StrCat("/proc/self/fd/", other), ready, unloaded));
  }
  return absl::OkStatus();
}

void Watcher::RemoveWrittenProbes() {
  const auto removed = libraries_->RemoveWritten(probe_.get(), [this](const std::string&
                                                                          path) {
    if (observer_ == nullptr) return;
    observer_->OnLibraryChanged(
        path,
        "was written to, so its probe was removed: another instruction may be there "
        "now. Processes that load it from now on are not seen; restart "
        "rocattach-watch. Replace libraries by renaming, as package managers do, not "
        "by writing into them");
  });
  if (late_libraries_ != nullptr) late_libraries_->Forget(removed);
}

uint64_t Watcher::SessionAnswers() {
  if (own_session_ == nullptr) return UINT64_MAX;
  return own_session_->Answers(late_attaches_->settled(), recorder_->Totals());
}

uint64_t Watcher::DurationBegan(uint64_t now_ns) {
  const uint64_t first_ns =
      options_.duration_from_attach ? late_attaches_->first_attach_ns() : 0;
  return duration_.BeganNs(now_ns, first_ns, ReadyForDuration());
}

bool Watcher::ReadyForDuration() {
  if (!options_.duration_from_attach) return true;
  if (!late_attaches_->settled()) return false;
  const uint64_t attached = recorder_->Totals().attached;
  if (SessionAnswers() < attached) return false;
  return !options_.wait_for_start || attached > 0;
}

void Watcher::EndRecording() {
  recorder_->EndRecording();
  // Detaches from each process when its session is over, whatever others answer.
  late_attaches_->BeginDetachListeners(
      [targets = sessions_ == nullptr ? nullptr : sessions_->targets()](
          const ProcessId& process) {
        if (targets != nullptr) (void)targets->Settle(process);
      });
}

void Watcher::AwaitVerdicts() {
  constexpr uint64_t kMostNs = 2'000'000'000;
  (void)recorder_->AwaitVerdicts(kMostNs,
                                 [this] { return loop_.StopRequestedAgain(); });
}

std::optional<int> Watcher::WaitForCommand() {
  if (!has_kept_threads_) {
    // Nothing would read the events of the probes any more.
    late_libraries_.reset();
    server_.reset();
    probe_.reset();
  }
  if (!loop_.has_command()) return std::nullopt;
  return loop_.Wait(0, {}).command_status;
}

absl::StatusOr<RunResult> Watcher::Run(const std::vector<std::string>& command,
                                       const std::function<void()>& on_tick) {
  if (!command.empty()) {
    const bool taken = options_.output_file == "-";
    RETURN_IF_ERROR(loop_.StartCommand(command, descriptors_,
                                       taken ? ChildCommand::Output::kStandardError
                                             : ChildCommand::Output::kInherited));
  }
  ran_ = true;
  AttachToRunning();
  RunLoop::Events events;
  events.on_tick = [this, &on_tick] {
    if (on_tick) on_tick();
    late_attaches_->Poll();
  };
  events.awaits_processes = [this] { return late_attaches_->waits(); };
  events.duration_began = [this](uint64_t now_ns) { return DurationBegan(now_ns); };
  events.changed = &late_attaches_->changed();
  events.watched_fd = libraries_->fd();
  events.on_watched = [this] { RemoveWrittenProbes(); };
  RunResult result;
  static_cast<RunEnd&>(result) = loop_.Wait(options_.duration_msec * 1'000'000, events);
  const bool in_time = result.command_status.has_value() || result.interrupted;
  if (!in_time) EndRecording();
  if (!command.empty()) poll(nullptr, 0, kSettleMsec);
  Finish(&result);
  return result;
}

void Watcher::Finish(RunResult* result) {
  recorder_->MarkRunOver();
  if (driver_scan_ != nullptr) driver_scan_->Stop();
  // In this order, so that nothing that was begun fails because the run is over.
  StopLateAttaches();
  probe_->SetPaused(true);
  AwaitVerdicts();
  StopWatching();
  if (late_libraries_ != nullptr) result->missed_windows = late_libraries_->Finish();
  if (sessions_ != nullptr) sessions_->Close();
  // What rocprofiler-sdk delivers at the detach has to be recorded too.
  late_attaches_->DetachListeners();
  if (metrics_ != nullptr) metrics_->Close();
  result->kernel = probe_->ReadStats();
  result->refusals = probe_->ReadRefusals();
  result->output_status = recorder_->Finish(result->kernel);
  result->totals = recorder_->Totals();
  if (own_session_ != nullptr) {
    static_cast<OwnSessionResult&>(*result) = own_session_->Result(result->totals);
  }
  result->files = recorder_->files();
}

}  // namespace rocattach
