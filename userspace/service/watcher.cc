#include "userspace/service/watcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/function_offset.h"
#include "userspace/abi/geometry.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/settle_target.h"
#include "userspace/service/collector_search.h"
#include "userspace/service/workload_message.h"
#include "userspace/watch/library_path.h"
#include "userspace/watch/running_process.h"

namespace rocattach {
namespace {

constexpr int kTickMsec = 500;
// While processes are waited for.
constexpr int kAwaitedTickMsec = 100;
// Counters for metrics: how long they are counted in each period, and at which interval
// they are read, which is also when another pass is due.
constexpr uint64_t kMetricsCountingNs = 1'000'000'000;
constexpr uint64_t kMetricsSampleNs = 100'000'000;
// How long the last events of a command that has just ended may take to arrive.
constexpr int kSettleMsec = 50;

// Sizes of a collector's memory; sparse, only what is used costs anything.
rocattach_collector_config DefaultCollectorConfig(const WatcherOptions& options) {
  rocattach_collector_config config = {};
  config.size = sizeof(config);
  config.version = ROCATTACH_SHM_VERSION;
  config.recording_flags = options.recording_flags;
  config.recording = options.recording ? 1 : 0;
  config.ring_count = 64;
  config.ring_slots = options.ring_slots;
  config.inflight_count = 65536;
  config.dictionary_bytes = 32 << 20;
  config.map_wait_msec = options.session_wait_msec;
  return config;
}

// `late` may be null.
WindowLosses ReadWindowLosses(const KernelProbe& probe, const LateLibraries* late) {
  const KernelStats kernel = probe.ReadStats();
  WindowLosses losses;
  losses.events = kernel.lost;
  losses.over_budget = kernel.over_budget;
  losses.unclaimed = kernel.claims_full;
  losses.window_deadlines = kernel.deadlines;
  if (late == nullptr) return losses;
  const DiscoveryCounts mappings = late->counts();
  losses.mappings = mappings.lost;
  losses.mapping_holds = mappings.held;
  losses.mapping_deadlines = mappings.deadlines;
  return losses;
}

uint64_t MemoryBytes(rocattach_collector_config config) {
  config.collector_path[0] = '/';  // any path: without one the config is invalid
  collector::Geometry geometry;
  return collector::ComputeGeometry(config, &geometry) ? geometry.total_bytes : 0;
}

}  // namespace

Watcher::Watcher() : requested_([] { return BootNs() / 1'000'000; }) {}

absl::StatusOr<std::unique_ptr<Watcher>> Watcher::Start(WatcherOptions options,
                                                        WatcherObserver* observer) {
  auto watcher = std::unique_ptr<Watcher>(new Watcher());
  watcher->options_ = std::move(options);
  watcher->observer_ = observer;
  RETURN_IF_ERROR(watcher->stop_.status());
  RETURN_IF_ERROR(watcher->verdict_.status());
  RETURN_IF_ERROR(watcher->LoadProbe());
  watcher->FindLibraries();
  RETURN_IF_ERROR(watcher->StartRecorder());
  watcher->TrackWorkloads();
  RETURN_IF_ERROR(watcher->ServeMetrics());
  RETURN_IF_ERROR(watcher->StartSessions());
  RETURN_IF_ERROR(watcher->StartServer());
  if (watcher->options_.watch_new) RETURN_IF_ERROR(watcher->WatchNew());
  if (watcher->metrics_ != nullptr) watcher->metrics_->SetReady();
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
  targets_ = MakeTargets();
  if (probe.only_followed) RETURN_IF_ERROR(targets_->Follow(&o.running));
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
  // First, so that a copy that is mapped while the others are searched for is seen.
  if (options_.watch_new) {
    late_libraries_ = std::make_unique<LateLibraries>(
        probe_.get(), [history = history_](const ProcessId& process, MissReason why) {
          history->NoteMissedWindow(process, MissReasonName(why));
        });
  }
  libraries_ = std::make_unique<ArmedLibraries>(
      ScanLibraries(scan),
      LibraryLimits{options_.budget.libraries, options_.budget.libraries_per_user});
}

std::unique_ptr<SessionService> Watcher::MakeSessions() {
  return std::make_unique<SessionService>(
      options_.catalog,
      [observer = observer_](pid_t pid, const std::string& why) {
        if (observer != nullptr) observer->OnSessionRefused(pid, why);
      },
      [observer = observer_](pid_t pid, const std::vector<LeftOut>& left_out) {
        if (observer != nullptr) observer->OnSessionLeftOut(pid, left_out);
      },
      [observer = observer_](pid_t pid, uint64_t periods) {
        if (observer != nullptr) {
          observer->OnPeriodsSkipped(pid, periods, SkippedPeriodsText(periods));
        }
      });
}

void Watcher::MakeMetrics() {
  WatcherOptions& o = options_;
  o.metrics.consumers = 0;
  const auto add = [&o](bool wanted, MetricsConsumer consumer) {
    if (wanted) o.metrics.consumers |= static_cast<uint8_t>(consumer);
  };
  add(o.metrics_listen.has_value(), MetricsConsumer::kScrape);
  add(o.otlp.has_value(), MetricsConsumer::kPush);
  add(o.profile_push.has_value(), MetricsConsumer::kProfile);
  if (o.metrics.consumers != 0) metrics_ = std::make_unique<ServiceMetrics>(o.metrics);
}

absl::Status Watcher::StartRecorder() {
  const WatcherOptions& o = options_;
  RecorderOptions recorder;
  recorder.output = {o.output_directory, o.output_file, o.recorder_arguments,
                     o.on_file_complete, o.rotation};
  recorder.recording = o.recording;
  recorder.budget = o.load_budget;
  recorder.collector_config = DefaultCollectorConfig(o);
  if (o.catalog != nullptr && Attaches()) {
    sessions_ = MakeSessions();
    recorder.targets = sessions_->targets();
    recorder.sdk_search = o.sdk_search;
    recorder.hold_arrivals = [sessions = sessions_.get()] {
      return sessions->holds_arrivals();
    };
  }
  if (Attaches()) {
    recorder.on_not_entered = [this](ProcessId process) {
      if (late_attaches_ != nullptr) late_attaches_->Retry(process);
    };
    stub_remover_ = std::make_unique<StubRemover>();
    recorder.stub_remover = stub_remover_.get();
  }
  MakeMetrics();
  if (metrics_ != nullptr) recorder.meters = metrics_->meters();
  history_observer_ = std::make_unique<HistoryObserver>(
      history_.get(), observer_, [this](const v1::WindowEvent& verdict, pid_t pid) {
        targets_->NoteSettled(pid);
        requested_.NoteVerdict(pid, MayBeEnteredLater(verdict));
        verdict_.Signal();
      });
  ASSIGN_OR_RETURN(recorder_,
                   Recorder::Start(std::move(recorder), history_observer_.get()));
  return absl::OkStatus();
}

absl::Status Watcher::StartSessions() {
  if (sessions_ != nullptr) {
    sessions_->SetRecorder(recorder_.get());
    if (!options_.session.filters.empty()) {
      ASSIGN_OR_RETURN(session_, sessions_->Start(options_.session));
      if (metrics_ != nullptr) metrics_->AddOwnSession(session_);
    }
  }
  return CountForMetrics();
}

absl::Status Watcher::StartServer() {
  if (options_.attach) {
    ASSIGN_OR_RETURN(options_.collector_path, FindCollector(options_.collector_path));
    ASSIGN_OR_RETURN(collector_, CollectorFile::Open(options_.collector_path));
    RETURN_IF_ERROR(ArmCollector());
  }
  server_ =
      std::make_unique<WindowServer>(probe_.get(), recorder_.get(), ServerOptions());
  running_attacher_ = std::make_unique<RunningAttacher>(probe_.get(), server_.get(),
                                                        libraries_->known());
  running_attacher_->set_patience(absl::Milliseconds(options_.idle_patience_msec));
  running_attacher_->set_returns_unentered(options_.wait_for_start);
  if (Attaches()) {
    listener_entries_ = std::make_unique<ListenerEntries>();
    running_attacher_->set_sdk_entry(listener_entries_.get());
  }
  late_attaches_ = std::make_unique<LateAttaches>(
      [attacher = running_attacher_.get()](const std::vector<pid_t>& pids) {
        return attacher->Attach(pids);
      },
      [this](const std::map<pid_t, absl::Status>& failed) {
        NoteUnentered(failed);
        if (observer_ != nullptr) observer_->OnRunningDone();
      },
      [this](const std::map<pid_t, absl::Status>& failed) { NoteUnentered(failed); });
  // The threads come first, so that a window that opens while the probes are being set
  // is served.
  return server_->Start();
}

absl::Status Watcher::WatchNew() {
  RETURN_IF_ERROR(libraries_->Arm(probe_.get()));
  LateLibrariesOptions late;
  late.hold = Attaches() && probe_->hold_mode() == HoldMode::kYielding &&
              options_.best_hold_mode == HoldMode::kYielding;
  late.hold_timeout_msec = options_.hold_timeout_msec;
  late.wanted = [this](pid_t pid) {
    return (!options_.only_own_command || IsBelow(pid, getpid())) && IsInScope(pid) &&
           (!targets_->follows() || targets_->IsFollowed(pid)) && server_->Allows(pid);
  };
  if (Attaches()) {
    late.enter_late = [this](const ProcessId& process) {
      late_attaches_->Enter(process);
    };
  }
  DriverBackstop::Options backstop;
  backstop.roots = options_.gpu_roots;
  backstop.wanted = late.wanted;
  backstop.note = [libraries = late_libraries_.get()](const ProcessId& process) {
    return libraries->NoteDriverUse(process);
  };
  backstop.enter_late = late.enter_late;
  RETURN_IF_ERROR(late_libraries_->Start(std::move(late), libraries_.get()));
  backstop_ = std::make_unique<DriverBackstop>(std::move(backstop));
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
  metrics_->SetAddition([workloads = workloads_.get(), probe = probe_.get(),
                         late = late_libraries_.get()](NodeSnapshot* snapshot) {
    workloads->AddTo(snapshot);
    snapshot->window_losses = ReadWindowLosses(*probe, late);
  });
  if (options_.otlp.has_value()) {
    RETURN_IF_ERROR(metrics_->Push(*options_.otlp, recorder_.get(),
                                   [observer = observer_](const absl::Status& state) {
                                     if (observer != nullptr) {
                                       observer->OnMetricsPush(state);
                                     }
                                   }));
  }
  if (options_.profile_push.has_value()) {
    RETURN_IF_ERROR(
        metrics_->PushProfiles(*options_.profile_push, recorder_.get(),
                               [observer = observer_](const absl::Status& state) {
                                 if (observer != nullptr)
                                   observer->OnProfilePush(state);
                               }));
  }
  if (!options_.metrics_listen.has_value()) return absl::OkStatus();
  return metrics_->Listen(*options_.metrics_listen, recorder_.get());
}

absl::Status Watcher::CountForMetrics() {
  if (options_.metrics_counters.empty() || sessions_ == nullptr ||
      metrics_ == nullptr) {
    return absl::OkStatus();
  }
  FilterSpec spec;
  spec.kind = FilterKind::kCountersSampler;
  spec.counters = {options_.metrics_counters};
  spec.sample_interval_ns = kMetricsSampleNs;
  // What a GPU lacks is left out there.
  spec.optional = options_.metrics_counters;
  SessionRequest request;
  request.filters = {std::move(spec)};
  request.periods = {{options_.metrics_counters_period_ns - kMetricsCountingNs,
                      kMetricsCountingNs, /*repeat=*/0}};
  request.yields = true;
  auto session = sessions_->Start(std::move(request));
  if (!session.ok()) {
    return absl::Status(session.status().code(),
                        absl::StrCat("--metrics-counters: ",
                                     WithoutStatusName(session.status().message())));
  }
  metrics_->AddOwnSession(*session);
  return absl::OkStatus();
}

void Watcher::TrackWorkloads() {
  WorkloadTracking::Options options;
  options.sources = options_.workload_sources;
  options.gpu_roots = options_.gpu_roots;
  options.monitor_gpus = metrics_ != nullptr;
  options.found = [history = history_, metrics = metrics_.get(),
                   recorder = recorder_.get()](const ProcessId& process,
                                               const WorkloadIdentity& workload) {
    history->NoteWorkload(process, workload);
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

void Watcher::NoteUnentered(const std::map<pid_t, absl::Status>& failed) {
  std::map<pid_t, absl::Status> final;
  for (const auto& [pid, why] : failed) {
    bool is_new = false;
    if (!absl::IsAborted(why) || !targets_->AwaitSafePoint(pid, why, &is_new)) {
      targets_->NoteSettled(pid);
      final[pid] = why;
    } else if (is_new && observer_ != nullptr) {
      observer_->OnNotStarted(pid, why, /*awaited=*/true);
    }
    requested_.Remove(pid);
  }
  NoteNotAttached(final);
  verdict_.Signal();
}

void Watcher::NoteNotAttached(const std::map<pid_t, absl::Status>& failed) {
  for (const auto& [pid, status] : failed) {
    // What has ended meanwhile cannot be told from another process of its number.
    if (const auto ticks = ReadStartTicks(pid); ticks.ok()) {
      history_->NoteNotAttached({pid, *ticks}, status.message());
    }
    if (observer_ != nullptr) observer_->OnNotAttached(pid, status);
  }
}

std::unique_ptr<RunningTargets> Watcher::MakeTargets() {
  RunningTargetsOptions targets;
  targets.wait = options_.wait_for_start;
  targets.wait_timeout_msec = options_.wait_timeout_msec;
  targets.children = options_.follow_children;
  targets.on_not_started = [this](pid_t pid, const absl::Status& why, bool awaited) {
    if (observer_ != nullptr) observer_->OnNotStarted(pid, why, awaited);
  };
  targets.on_loaded = [this](pid_t pid) {
    (void)libraries_->ArmMappedBy(pid, probe_.get());
  };
  targets.on_given_up = [this](pid_t pid, const absl::Status& why) {
    NoteNotAttached({{pid, why}});
  };
  return std::make_unique<RunningTargets>(probe_.get(), std::move(targets));
}

bool Watcher::IsInScope(pid_t pid) const {
  return !options_.only_cgroup.has_value() || options_.only_cgroup->Contains(pid);
}

std::vector<pid_t> Watcher::RunningProcesses() const {
  std::set<pid_t> pids(options_.running.begin(), options_.running.end());
  if (options_.all_running) {
    for (const LibraryCopy& copy : libraries_->scan().copies) {
      for (pid_t pid : copy.mapped_by) {
        if (pid != getpid() && IsInScope(pid) && server_->Allows(pid)) {
          pids.insert(pid);
        }
      }
    }
  }
  return {pids.begin(), pids.end()};
}

void Watcher::AttachToRunning() {
  const std::vector<pid_t> pids = RunningProcesses();
  if (pids.empty() && options_.running.empty()) return;
  RequestAttaches(targets_->Started(pids));
}

void Watcher::RequestAttaches(std::vector<pid_t> pids) {
  requested_.Add(pids);
  late_attaches_->Request(std::move(pids));
}

WindowServerOptions Watcher::ServerOptions() const {
  WindowServerOptions server;
  if (SessionService* sessions = sessions_.get()) {
    server.needs_sdk = [sessions, always = options_.always_sdk] {
      return always || sessions->needs_sdk();
    };
    server.sdk_search = options_.sdk_search;
  }
  server.on_late_window = [this](const rocattach_event& event, bool served) {
    running_attacher_->OnLateWindow(event, served);
  };
  server.on_window = [this](const rocattach_event& event) {
    const auto pid = static_cast<pid_t>(event.pid);
    if (late_libraries_ != nullptr) late_libraries_->NoteWindow(event);
    if (options_.wait_for_start) targets_->NoteWindow(pid);
    if (workloads_ != nullptr) {
      workloads_->Request(ProcessId::StartedAt(pid, event.start_ns), event.cgroup_id);
    }
  };
  if (targets_->follows() || options_.only_cgroup.has_value()) {
    server.wanted = [this](pid_t pid) {
      return IsInScope(pid) && (!targets_->follows() || targets_->IsFollowed(pid));
    };
  }
  server.policy.rules = options_.policy;
  server.stub_remover = stub_remover_.get();
  server.crash_breaker = options_.crash_breaker && !options_.only_own_command;
  server.policy.attach = options_.attach;
  server.policy.dry_run = options_.dry_run;
  server.policy.hold = options_.best_hold_mode != HoldMode::kNone;
  server.hold_timeout_msec = options_.hold_timeout_msec;
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
  server.collector.config = DefaultCollectorConfig(options_);
  server.collector.memory_bytes = MemoryBytes(server.collector.config);
  if (collector_ != nullptr) {
    const CollectorFile::Choice* copy = collector_->copy();
    server.collector.file = copy != nullptr ? *copy : collector_->original();
    if (copy != nullptr) server.collector.other_file = collector_->original();
    server.collector.descriptor = collector_->sent_fd();
  }
  server.libraries = libraries_->known();
  return server;
}

Watcher::~Watcher() {
  if (backstop_ != nullptr) backstop_->Stop();
  StopLateLibraries();
  if (late_attaches_ != nullptr) late_attaches_->Stop();
  if (server_ != nullptr) server_->Stop();
  if (workloads_ != nullptr) workloads_->Stop();
  if (sessions_ != nullptr) sessions_->Close();
  if (metrics_ != nullptr) metrics_->Close();
  if (recorder_ != nullptr && !ran_) recorder_->Abandon();
}

absl::Status Watcher::ArmCollector() {
  const int fd = collector_->original_fd();
  ASSIGN_OR_RETURN(uint64_t ready,
                   FindFunctionFileOffset(fd, ROCATTACH_COLLECTOR_READY));
  ASSIGN_OR_RETURN(uint64_t unloaded,
                   FindFunctionFileOffset(fd, ROCATTACH_COLLECTOR_UNLOADED));
  // Through the descriptors: the file at the path may have been replaced since.
  RETURN_IF_ERROR(
      probe_->AddCollector(absl::StrCat("/proc/self/fd/", fd), ready, unloaded));
  for (int other : {collector_->copy_fd(), collector_->memfd()}) {
    if (other < 0) continue;
    RETURN_IF_ERROR(
        probe_->AddCollector(absl::StrCat("/proc/self/fd/", other), ready, unloaded));
  }
  return absl::OkStatus();
}

void Watcher::DisarmWritten() {
  const auto disarmed = libraries_->DisarmWritten(probe_.get(), [this](
                                                                    const std::string&
                                                                        path) {
    if (observer_ == nullptr) return;
    observer_->OnLibraryChanged(
        path,
        "was written to, so its probe was removed: another instruction may be there "
        "now. Processes that load it from now on are not seen; restart "
        "rocattach-watch. Replace libraries by renaming, as package managers do, not "
        "by writing into them");
  });
  if (late_libraries_ != nullptr) late_libraries_->Forget(disarmed);
}

void Watcher::StopLateLibraries() {
  if (late_libraries_ == nullptr || late_libraries_->Stop()) return;
  // A file system keeps one of its threads, which uses these: they end with the
  // process.
  (void)late_libraries_.release();
  (void)libraries_.release();
  (void)probe_.release();
}

void Watcher::RequestStop(int forward_signal) {
  forward_signal_ = forward_signal;
  stop_.Signal();
}

bool Watcher::StopsNow(RunResult* result) {
  stop_.Clear();
  // The run ends with the command, so the command is asked to end, and waited for. A
  // second request, or one without a command, ends the run at once.
  const bool again = std::exchange(result->interrupted, true);
  if (command_ == nullptr || again) return true;
  if (int number = forward_signal_.load(); number != 0) kill(command_->pid(), number);
  return false;
}

bool Watcher::DurationBegins() const {
  if (!options_.duration_from_attach) return true;
  if (!requested_.settled()) return false;
  return !options_.wait_for_start || recorder_->Totals().attached > 0;
}

void Watcher::AwaitVerdicts() {
  constexpr uint64_t kMostNs = 2'000'000'000;
  (void)recorder_->AwaitVerdicts(kMostNs, [this] { return stop_.WaitFor(0); });
}

void Watcher::Wait(uint64_t duration_ns, const std::function<void()>& on_tick,
                   RunResult* result) {
  const int child_fd = command_ != nullptr ? command_->pidfd() : -1;
  const int written_fd = libraries_ != nullptr ? libraries_->fd() : -1;
  uint64_t deadline_ns = 0;
  for (;;) {
    const uint64_t now = BootNs();
    int timeout = targets_->waits() ? kAwaitedTickMsec : kTickMsec;
    if (duration_ns != 0 && deadline_ns == 0 && DurationBegins()) {
      deadline_ns = now + duration_ns;
    }
    if (deadline_ns != 0) {
      if (now >= deadline_ns) {
        result->command_runs_on = command_ != nullptr;
        return;
      }
      timeout = static_cast<int>(
          std::min<uint64_t>(kTickMsec, (deadline_ns - now) / 1'000'000 + 1));
    }
    // poll() ignores an entry without a descriptor.
    pollfd fds[4] = {{stop_.fd(), POLLIN, 0},
                     {child_fd, POLLIN, 0},
                     {written_fd, POLLIN, 0},
                     {deadline_ns == 0 ? verdict_.fd() : -1, POLLIN, 0}};
    int ready = poll(fds, 4, timeout);
    if (fds[3].revents != 0) verdict_.Clear();
    if (on_tick) on_tick();
    if (std::vector<pid_t> started = targets_->Poll(); !started.empty()) {
      RequestAttaches(std::move(started));
    }
    ReapOrphans(command_.get());
    if (ready <= 0) continue;
    if (fds[2].revents != 0 && probe_ != nullptr) DisarmWritten();
    if (fds[0].revents != 0 && StopsNow(result)) return;
    if (child_fd >= 0 && fds[1].revents != 0) {
      result->command_status = command_->TryWait();
      command_.reset();
      return;
    }
  }
}

std::optional<int> Watcher::WaitForCommand() {
  StopLateLibraries();
  // The events of the probes would not be read any more.
  server_.reset();
  probe_.reset();
  RunResult result;
  if (command_ != nullptr) Wait(0, nullptr, &result);
  return result.command_status;
}

absl::StatusOr<RunResult> Watcher::Run(const std::vector<std::string>& command,
                                       const std::function<void()>& on_tick) {
  RunResult result;
  if (!command.empty()) {
    const bool taken = options_.output_file == "-";
    ASSIGN_OR_RETURN(command_,
                     ChildCommand::Start(command, descriptors_,
                                         taken ? ChildCommand::Output::kStandardError
                                               : ChildCommand::Output::kInherited));
  }
  ran_ = true;
  AttachToRunning();
  const uint64_t duration_ns = options_.duration_msec * 1'000'000;
  Wait(duration_ns, on_tick, &result);
  if (!command.empty()) poll(nullptr, 0, kSettleMsec);
  if (backstop_ != nullptr) backstop_->Stop();
  // In this order: nothing that was begun fails because the run is over.
  late_attaches_->Stop();
  probe_->SetPaused(true);
  AwaitVerdicts();
  server_->Stop();
  if (late_libraries_ != nullptr) result.missed_windows = late_libraries_->Finish();
  if (sessions_ != nullptr) {
    sessions_->Close();
    for (const SessionInfo& info : sessions_->List()) {
      if (info.number != session_) continue;
      result.session_refused = info.refused_by_all;
      result.session_measures = NeedsSdk(options_.session.filters);
    }
  }
  // What rocprofiler-sdk delivers at a detach is still recorded.
  if (listener_entries_ != nullptr) listener_entries_->DetachAll();
  if (workloads_ != nullptr) workloads_->Stop();
  if (metrics_ != nullptr) metrics_->Close();
  result.kernel = probe_->ReadStats();
  result.refusals = probe_->ReadRefusals();
  result.output_status = recorder_->Finish(result.kernel);
  result.totals = recorder_->Totals();
  const RunTotals& totals = result.totals;
  result.session_too_late =
      result.session_measures && options_.session.periods.empty() &&
      totals.before_session > 0 && totals.dispatches <= totals.before_session &&
      totals.measured + totals.samples + totals.api_calls + totals.memory == 0;
  result.files = recorder_->files();
  return result;
}

}  // namespace rocattach
