#include "userspace/watch/window_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/attach.h"
#include "injector/code_cave.h"
#include "injector/maps.h"
#include "injector/stub.h"
#include "injector/symbol_lookup.h"
#include "injector/target_checks.h"
#include "injector/target_memory.h"
#include "injector/thread_status.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"

namespace rocattach {
namespace {

// A process that is seized ahead of time and opens no window is let go after this.
constexpr uint32_t kSeizePatienceMsec = 30'000;
// Of these windows reports are awaited, each for so long at least.
constexpr size_t kMostAttempted = 8192;
constexpr uint64_t kLongestReportNs = 60'000'000'000;

}  // namespace

absl::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOpen:
      return "open";
    case Verdict::kAttached:
      return "attached";
    case Verdict::kPassed:
      return "passed";
    case Verdict::kRefused:
      return "refused";
    case Verdict::kMissed:
      return "missed";
  }
  return "unknown";
}

WindowServer::WindowServer(KernelProbe* probe, WindowSink* sink,
                           WindowServerOptions options)
    : probe_(probe),
      sink_(sink),
      options_(std::move(options)),
      followers_([probe](const rocattach_event& event) { return probe->IsOpen(event); },
                 options_.hold_timeout_msec) {
  const PolicyRules& rules = options_.policy;
  policy_reads_process_ =
      !rules.allow.empty() || !rules.deny.empty() || rules.only_uid.has_value();
}

WindowServer::~WindowServer() {
  Stop();
}

absl::Status WindowServer::Start() {
  stop_fd_.reset(eventfd(0, EFD_CLOEXEC));
  if (!stop_fd_.valid()) return absl::ErrnoToStatus(errno, "eventfd() failed");
  if (options_.attach && !options_.dry_run &&
      probe_->hold_mode() == HoldMode::kSignal) {
    auto preseizer = Preseizer::Start(
        [this](pid_t pid) { return Wants(pid); },
        [this](const rocattach_event& event) { return probe_->IsOpen(event); }, &cache_,
        kSeizePatienceMsec);
    if (!preseizer.ok()) return preseizer.status();
    preseizer_ = *std::move(preseizer);
  }
  if (absl::Status told = PublishRules(); !told.ok()) return told;
  for (int i = 0; i < options_.threads; ++i) StartThread();
  return absl::OkStatus();
}

absl::Status WindowServer::PublishRules() {
  const PolicyRules& rules = options_.policy;
  if (rules.only_uid.has_value()) {
    probe_->OnlyUid(*rules.only_uid);
  }
  for (const std::string& glob : rules.deny) {
    if (!IsPlainCommand(glob)) continue;
    if (absl::Status told = probe_->DenyComm(glob); !told.ok()) return told;
  }
  return absl::OkStatus();
}

void WindowServer::StartThread() {
  std::lock_guard<std::mutex> lock(threads_mutex_);
  if (!stopping_) threads_.emplace_back([this] { Run(); });
}

void WindowServer::Stop() {
  {
    std::lock_guard<std::mutex> lock(threads_mutex_);
    if (stopping_ || !stop_fd_.valid()) return;
    stopping_ = true;
  }
  uint64_t one = 1;
  (void)!write(stop_fd_.get(), &one, sizeof(one));
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  followers_.Stop();
  if (preseizer_ != nullptr) preseizer_->Stop();
}

void WindowServer::Run() {
  // A held thread waits for this one: it must not queue behind batch work. It sleeps
  // nearly always and works for some 100 us a window.
  sched_param param = {};
  param.sched_priority = 1;
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &param) ==
      0) {
    realtime_ = true;
  }
  (void)pthread_setname_np(pthread_self(), "rwa-window");
  WarmUp();
  Worker worker;
  rocattach_event event;
  for (;;) {
    if (!worker.leading) Lead(&worker);
    const bool taken = Take(&event);
    if (taken && Serve(event, &worker)) continue;
    HandOver(&worker);
    // The end of this thread frees a tracee that cannot be detached; another thread
    // takes its place.
    if (taken) StartThread();
    return;
  }
}

void WindowServer::WarmUp() {
  if (!options_.attach) return;
  const pid_t self = getpid();
  auto status = ReadThreadStatus(self, gettid());
  auto maps = Maps::ReadFiles(self, RemoteAddress(reinterpret_cast<uint64_t>(&self)));
  auto memory = TargetMemory::Open(self, gettid());
  if (!status.ok() || !maps.ok() || !memory.ok()) return;
  LoaderFunctions functions;
  CodeCave cave;
  (void)CheckIdentity(self, 1);
  (void)CheckNotSecure(self);
  (void)CheckCollector(self, *status, options_.collector.path);
  (void)CheckMappings(*maps, options_.collector.path, false);
  (void)FindLoaderFunctions(self, *maps, &cache_, &functions);
  (void)FindCodeCave(self, *maps, *memory, &cache_, functions.dlopen, StubBytes(),
                     &cave);
}

void WindowServer::Lead(Worker* worker) {
  {
    std::lock_guard<std::mutex> lock(lead_mutex_);
    worker->leading = true;
    if (!std::exchange(has_leader_, true)) return;
    idle_.push_back(worker);
  }
  worker->lead.acquire();
}

void WindowServer::HandOver(Worker* worker) {
  if (!std::exchange(worker->leading, false)) return;
  Worker* next = nullptr;
  {
    std::lock_guard<std::mutex> lock(lead_mutex_);
    if (idle_.empty()) {
      has_leader_ = false;
      return;
    }
    next = idle_.back();
    idle_.pop_back();
  }
  next->lead.release();
}

bool WindowServer::Take(rocattach_event* event) {
  for (;;) {
    bool known = false;
    const bool consumed = probe_->ConsumeOne([event, &known](const rocattach_event& e) {
      *event = e;
      known = true;
    });
    if (known) return true;
    if (consumed) continue;  // of a format that is not ours: counted as lost
    pollfd fds[2] = {{probe_->events_fd(), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return false;
    // Stopping comes second, so that nothing that waits is left unserved.
    if (fds[0].revents == 0 && fds[1].revents != 0) return false;
  }
}

bool WindowServer::Serve(const rocattach_event& event, Worker* worker) {
  switch (event.type) {
    case ROCATTACH_EVENT_WINDOW:
      return ServeWindow(event, worker);
    case ROCATTACH_EVENT_READY:
      ServeReady(event);
      return true;
    case ROCATTACH_EVENT_FOLLOW:
      followers_.Add(event);
      return true;
    default:
      sink_->OnEvent(event);
      return true;
  }
}

std::string WindowServer::WhyDenied(Window* window) {
  auto info = ReadProcessInfo(static_cast<pid_t>(window->event.pid));
  if (info.ok()) window->process = *std::move(info);
  PolicyDecision decision = Decide(options_.policy, window->process);
  return decision.allowed ? "denied in the kernel" : decision.reason;
}

void WindowServer::CannotLook(const absl::Status& status, Window* window) {
  if (!IsOwnShortage(ErrnoOf(status))) {
    window->verdict = Verdict::kMissed;
    window->reason = "the process was gone before it could be looked at";
    return;
  }
  window->verdict = Verdict::kRefused;
  window->attach_tried = true;
  window->outcome.reason = AttachReason::kServiceResources;
  window->outcome.error = ErrnoOf(status);
  window->outcome.retryable = true;
  window->outcome.detail = std::string(status.message());
  window->reason = absl::StrCat(window->outcome.detail, "; ",
                                AttachReasonHelp(window->outcome.reason));
}

bool WindowServer::IsWanted(Window* window, Worker* worker) {
  if (!policy_reads_process_) return true;
  const rocattach_event& event = window->event;
  std::optional<PolicyDecision> decision;
  if (event.pid == event.tid) {
    const absl::string_view comm(event.comm, strnlen(event.comm, sizeof(event.comm)));
    decision = DecideByName(options_.policy, event.uid, comm);
    if (!decision.has_value()) {
      auto executable = ReadExecutable(static_cast<pid_t>(event.pid));
      if (executable.ok()) {
        decision = DecideByName(options_.policy, event.uid, comm, *executable);
      }
    }
  }
  if (!decision.has_value()) {
    // This takes longer than a hand-over.
    HandOver(worker);
    auto info = ReadProcessInfo(static_cast<pid_t>(event.pid));
    if (!info.ok()) {
      CannotLook(info.status(), window);
      return false;
    }
    window->process = *std::move(info);
    decision = Decide(options_.policy, window->process);
  }
  window->reason = decision->reason;
  return decision->allowed;
}

bool WindowServer::IsWantedAtOnce(const rocattach_event& event,
                                  std::string* reason) const {
  if (event.mode != ROCATTACH_WINDOW_HELD || !options_.attach || options_.dry_run) {
    return false;
  }
  if (options_.full && !options_.full().empty()) return false;
  if (!policy_reads_process_) return true;
  if (event.pid != event.tid) return false;
  auto decision = DecideByName(
      options_.policy, event.uid,
      absl::string_view(event.comm, strnlen(event.comm, sizeof(event.comm))));
  if (!decision.has_value() || !decision->allowed) return false;
  *reason = std::move(decision->reason);
  return true;
}

void WindowServer::Begin(const rocattach_event& event, AttachStart* start) const {
  // A thread that is held lives. And the first thread's number belongs to the process
  // while its claim lasts.
  auto is_same_process = [this, &event] {
    return probe_->IsHeld(event) || (event.tid == event.pid && probe_->IsOpen(event));
  };
  BeginAttach(static_cast<pid_t>(event.pid), static_cast<pid_t>(event.tid),
              event.start_ns, options_.hold_timeout_msec, is_same_process, start);
}

bool WindowServer::RefuseOverBudget(Window* window) const {
  const rocattach_event& event = window->event;
  std::string why;
  if (event.mode == ROCATTACH_WINDOW_OVER_BUDGET) {
    why = BudgetRefusal(event.over_budget.budget, event.charged_uid,
                        event.over_budget.refused, options_.budget);
  } else if (event.mode == ROCATTACH_WINDOW_HELD ||
             event.mode == ROCATTACH_WINDOW_SIGNALLED) {
    if (options_.attach && !options_.dry_run && options_.full) why = options_.full();
  }
  if (why.empty()) return false;
  window->verdict = Verdict::kRefused;
  window->outcome.reason = AttachReason::kOverBudget;
  window->reason = std::move(why);
  return true;
}

bool WindowServer::ShouldSkip(Window* window, Worker* worker) {
  if (RefuseOverBudget(window)) return true;
  window->verdict = Verdict::kPassed;
  switch (window->event.mode) {
    case ROCATTACH_WINDOW_DENIED:
      window->reason = WhyDenied(window);
      return true;
    case ROCATTACH_WINDOW_UNRELATED:
      window->reason = "was not started by the profiled command";
      return true;
    case ROCATTACH_WINDOW_PAUSED:
      window->reason = "attaching is paused";
      return true;
    default:
      break;
  }
  if (window->event.mode == ROCATTACH_WINDOW_SHARED) {
    RefuseShared(window);
    return true;
  }
  if (!IsWanted(window, worker)) return true;
  if (!options_.attach) {
    window->reason = "only watching; --auto attaches";
    return true;
  }
  if (options_.dry_run) {
    window->reason = "dry run: would attach";
    return true;
  }
  if (window->event.mode == ROCATTACH_WINDOW_UNSERVED) {
    window->verdict = Verdict::kMissed;
    window->reason =
        "the watcher was stopped (SIGSTOP, ^Z or a frozen control group), and a "
        "stopped "
        "watcher holds nobody";
    return true;
  }
  if (window->event.mode == ROCATTACH_WINDOW_REPORTED) {
    window->verdict = Verdict::kMissed;
    window->reason =
        options_.hold ? "the thread could not be held at hsa_init; start the watcher "
                        "before the process, or see 'rocattach doctor' for the hold"
                      : "holding is switched off (--hold none), and nothing can be "
                        "attached to that is not held";
    return true;
  }
  window->verdict = Verdict::kOpen;
  return false;
}

void WindowServer::RefuseShared(Window* window) {
  const auto other = static_cast<pid_t>(window->event.shared.owner_pid);
  const bool is_vfork_child = window->event.shared.is_vfork_child != 0;
  window->verdict = Verdict::kRefused;
  window->attach_tried = true;
  AttachOutcome& outcome = window->outcome;
  outcome.stage = AttachStage::kCheck;
  outcome.reason = AttachReason::kSharedMemory;
  outcome.detail =
      is_vfork_child
          ? absl::StrCat("the process runs in the memory of its parent, process ",
                         other, ", which waits for it (vfork)")
          : absl::StrCat("the process shares its memory with process ", other,
                         ", whose hsa_init came first");
  window->reason = absl::StrCat(outcome.detail, "; ", AttachReasonHelp(outcome.reason));
}

bool WindowServer::ServeWindow(const rocattach_event& event, Worker* worker) {
  AttachStart start;
  std::string reason;
  const bool at_once = IsWantedAtOnce(event, &reason);
  if (at_once) Begin(event, &start);
  Window window;
  window.event = event;
  window.reason = std::move(reason);
  if (event.cookie >= 1 && event.cookie <= options_.libraries.size()) {
    window.library = options_.libraries[event.cookie - 1];
  }
  if (!at_once && ShouldSkip(&window, worker)) {
    if (event.mode == ROCATTACH_WINDOW_HELD) probe_->Release(event);
    if (preseizer_ != nullptr) preseizer_->Forget(static_cast<pid_t>(event.pid));
  } else if (!Attach(&window, worker, &start)) {
    return true;
  }
  bool go_on = !window.outcome.tracer_must_exit;
  Finish(std::move(window));
  return go_on;
}

void WindowServer::Finish(Window window) {
  const rocattach_event& event = window.event;
  if (window.process.id.pid == 0) {
    // Not on the way to the stop: who it is can be read while it runs on.
    auto info = ReadProcessInfo(static_cast<pid_t>(event.pid));
    if (info.ok()) {
      window.process = *std::move(info);
    } else {
      window.process.id.pid = static_cast<pid_t>(event.pid);
      window.process.uid = event.uid;
      window.process.comm =
          std::string(event.comm, strnlen(event.comm, sizeof(event.comm)));
    }
  }
  sink_->OnWindow(std::move(window));
}

bool WindowServer::Wants(pid_t pid) const {
  if (!policy_reads_process_) return true;
  auto info = ReadProcessInfo(pid);
  return info.ok() && Decide(options_.policy, *info).allowed;
}

AttachRequest WindowServer::MakeRequest(const rocattach_event& event) const {
  AttachRequest request;
  request.pid = static_cast<pid_t>(event.pid);
  request.tid = static_cast<pid_t>(event.tid);
  request.start_ns = event.start_ns;
  request.window_ip = event.ip;
  request.collector_path = options_.collector.path;
  request.collector_file = options_.collector.file;
  request.other_collector_path = options_.other_collector.path;
  request.other_collector_file = options_.other_collector.file;
  request.config = options_.collector_config;
  request.config.window_id = event.time_ns;
  request.attached_before = (event.window.flags & ROCATTACH_WINDOW_AGAIN) != 0;
  request.stop_timeout_msec = options_.hold_timeout_msec;
  request.memory_bytes = options_.collector_memory_bytes;
  return request;
}

void WindowServer::AddKnown(const Window& window, AttachRequest* request) {
  const rocattach_event& event = window.event;
  if ((event.window.flags & ROCATTACH_WINDOW_KNOWN) != 0) {
    request->cpu = static_cast<int>(event.window.cpu);
    request->known_harmless =
        (event.window.flags & (ROCATTACH_WINDOW_SECURE | ROCATTACH_WINDOW_STRICT)) == 0;
    request->known_unlimited = (event.window.flags & ROCATTACH_WINDOW_LIMITED) == 0;
    request->filesystem_view_id = event.window.filesystem_view_id;
    request->stack = event.sp;
    request->filesystem_views = &filesystem_views_;
  }
  if (probe_->describes_processes() && event.layout != 0) {
    request->read_layout = [this, &event](rocattach_layout* copy) {
      return probe_->ReadLayout(event, copy);
    };
    request->known_files = &files_;
    request->on_learned = [this](const std::vector<KnownFiles::Judgement>& learned) {
      for (const auto& [file, kind] : learned) probe_->SetFileKind(file, kind);
    };
  }
}

bool WindowServer::Attach(Window* window, Worker* worker, AttachStart* start) {
  window->attach_tried = true;
  if (window->event.mode == ROCATTACH_WINDOW_HELD && start->seized_ns == 0 &&
      start->result.ok()) {
    Begin(window->event, start);
  }
  AttachRequest request = MakeRequest(window->event);
  if (options_.needs_sdk != nullptr && options_.needs_sdk()) {
    // Only who asks for the SDK waits for this look.
    BackendChoice choice = ChooseBackend(request.pid, options_.sdk_search);
    request.config.backend = choice.backend;
    window->sdk_missing = std::move(choice.missing);
  }
  {
    std::lock_guard<std::mutex> lock(attempted_mutex_);
    // Collectors that never reported leave their windows here.
    if (attempted_.size() >= kMostAttempted) {
      const uint64_t oldest = BootNs() - std::min(BootNs(), kLongestReportNs);
      absl::erase_if(attempted_, [oldest](uint64_t id) { return id < oldest; });
    }
    attempted_.insert(request.config.window_id);
  }
  std::shared_ptr<StubRemover::Again> again;
  if (request.attached_before && options_.stub_remover != nullptr) {
    again = std::make_shared<StubRemover::Again>(options_.stub_remover, request.pid);
    request.keep_old_stub = !again->ok();
  }
  if (window->event.mode == ROCATTACH_WINDOW_SIGNALLED) {
    preseizer_->Serve(std::move(*window), std::move(request),
                      [this, again](Window served) {
                        Judge(&served);
                        Finish(std::move(served));
                      });
    return false;
  }
  AddKnown(*window, &request);
  // A hand-over wakes a thread, perhaps on the very processor that the held one needs
  // to come to its stop: not before it stands, and then only if others wait.
  request.on_wait = [this, worker] { HandOver(worker); };
  request.on_stopped = [this, worker] {
    if (worker->leading && probe_->HasUrgentEvents()) HandOver(worker);
  };
  window->outcome = AttachAtWindow(request, &cache_, start);
  Judge(window);
  return true;
}

void WindowServer::Judge(Window* window) {
  if (window->outcome.ok()) return;  // open until the collector reports in
  {
    std::lock_guard<std::mutex> lock(attempted_mutex_);
    attempted_.erase(window->event.time_ns);
  }
  // Whatever went wrong, the thread must not stand until its deadline.
  probe_->Release(window->event);
  // Open until the kernel tells how it ended, and whether all of it has.
  if (window->outcome.reason == AttachReason::kTargetExited) return;
  bool late = window->outcome.reason == AttachReason::kStopTimeout ||
              window->outcome.reason == AttachReason::kNotAtWindow;
  window->verdict = late ? Verdict::kMissed : Verdict::kRefused;
  window->reason =
      absl::StrCat(window->outcome.detail, window->outcome.detail.empty() ? "" : "; ",
                   AttachReasonHelp(window->outcome.reason));
}

void WindowServer::ServeReady(const rocattach_event& event) {
  {
    // A report comes once for each attach.
    std::lock_guard<std::mutex> lock(attempted_mutex_);
    if (attempted_.erase(event.ready.window_id) == 0) return;
  }
  sink_->OnReady(event);
}

}  // namespace rocattach
