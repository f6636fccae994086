#include "userspace/watch/window_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "injector/attach.h"
#include "injector/thread_status.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/attach_warm_up.h"

namespace rocattach {
namespace {

// A process that is seized in advance and opens no window is released after this time.
constexpr uint32_t kSeizePatienceMsec = 30'000;

// A thread is joined shortly before the kernel releases its tracees.
void WaitUntilUntraced(pid_t pid, pid_t tid) {
  constexpr useconds_t kPauseUsec = 50;
  for (int i = 0; i < 2000; ++i) {
    const auto status = ReadThreadStatus(pid, tid);
    if (!status.ok() || status->tracer != getpid()) return;
    usleep(kPauseUsec);
  }
}

// It is not the process that cannot be attached to, only that none of its threads was
// where one can be entered.
bool HasNoSafePoint(const AttachOutcome& outcome) {
  if (outcome.ok() || outcome.target_modified) return false;
  return outcome.reason == AttachReason::kNoSafePoint ||
         (outcome.retryable && (outcome.reason == AttachReason::kNotAtWindow ||
                                outcome.reason == AttachReason::kLoaderBusy ||
                                outcome.reason == AttachReason::kUnsafeContext ||
                                outcome.reason == AttachReason::kStopTimeout));
}

}  // namespace

WindowServer::WindowServer(KernelProbe* probe, WindowSink* sink,
                           WindowServerOptions options)
    : probe_(probe),
      sink_(sink),
      options_(std::move(options)),
      policy_(PolicyOptions()),
      requests_(probe, options_.collector, options_.hold_timeout_msec),
      followers_([probe](const rocattach_event& event) { return probe->IsOpen(event); },
                 options_.hold_timeout_msec) {}

WindowServer::~WindowServer() {
  Stop();
}

WindowPolicyOptions WindowServer::PolicyOptions() {
  WindowPolicyOptions policy = options_.policy;
  if (options_.crash_breaker) policy.crash_breaker = &crash_breaker_;
  return policy;
}

absl::Status WindowServer::Start() {
  stop_fd_.reset(eventfd(0, EFD_CLOEXEC));
  if (!stop_fd_.valid()) return ErrnoStatus(errno, "eventfd() failed");
  if (policy_.attaches() && probe_->hold_mode() == HoldMode::kSignal) {
    auto preseizer = Preseizer::Start(
        [this](pid_t pid) {
          return (options_.wanted == nullptr || options_.wanted(pid)) &&
                 policy_.Allows(pid);
        },
        [this](const rocattach_event& event) { return probe_->IsOpen(event); }, &cache_,
        kSeizePatienceMsec);
    if (!preseizer.ok()) return preseizer.status();
    preseizer_ = *std::move(preseizer);
  }
  RETURN_IF_ERROR(PublishRules());
  for (int i = 0; i < options_.threads; ++i) StartThread();
  return absl::OkStatus();
}

absl::Status WindowServer::PublishRules() {
  const PolicyRules& rules = policy_.rules();
  if (rules.only_uid.has_value()) probe_->OnlyUid(*rules.only_uid);
  for (const std::string& glob : rules.deny) {
    if (IsPlainCommand(glob)) RETURN_IF_ERROR(probe_->DenyComm(glob));
  }
  return absl::OkStatus();
}

void WindowServer::StartThread() {
  absl::MutexLock lock(&mutex_);
  if (!stopping_) threads_.emplace_back([this] { Run(); });
}

void WindowServer::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_ || !stop_fd_.valid()) return;
    stopping_ = true;
  }
  uint64_t one = 1;
  (void)!write(stop_fd_.get(), &one, sizeof(one));
  // No thread is added from here on.
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  followers_.Stop();
  if (preseizer_ != nullptr) preseizer_->Stop();
}

void WindowServer::Run() {
  // A held thread waits for this one, so it must not queue behind batch work. It sleeps
  // most of the time and works for some 100 us per window.
  sched_param param = {};
  param.sched_priority = 1;
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &param) ==
      0) {
    realtime_ = true;
  }
  (void)pthread_setname_np(pthread_self(), "rwa-window");
  if (options_.policy.attach) WarmUpAttach(options_.collector.file.path, &cache_);
  Member member;
  rocattach_event event;
  for (;;) {
    if (!member.leads()) leadership_.Acquire(&member);
    const bool taken = Take(&event);
    if (taken && Serve(event, &member)) continue;
    leadership_.HandOver(&member);
    // The end of this thread releases a tracee that cannot be detached; another thread
    // takes its place.
    if (taken) StartThread();
    return;
  }
}

void WindowServer::Prepare(const ProcessId& process, uint64_t runtime_address,
                           uint64_t cookie) {
  rocattach_event event = LateEvent(process, cookie);
  event.ip = runtime_address;
  auto prepared = std::make_unique<PreparedTarget>();
  // What fails here fails again when a thread has stopped, and is reported then.
  if (PrepareAttach(requests_.Build(event), &cache_, prepared.get()).ok()) {
    prepared_.Add(process.pid, std::move(prepared));
  }
}

bool WindowServer::Take(rocattach_event* event) {
  for (;;) {
    bool known = false;
    const bool consumed = probe_->ConsumeOne([event, &known](const rocattach_event& e) {
      *event = e;
      known = true;
    });
    if (known) return true;
    if (consumed) continue;  // of an unknown format: counted as lost
    pollfd fds[2] = {{probe_->events_fd(), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return false;
    // Stopping comes second, so that pending events are still served.
    if (fds[0].revents == 0 && fds[1].revents != 0) return false;
  }
}

bool WindowServer::Serve(const rocattach_event& event, Member* member) {
  switch (event.type) {
    case ROCATTACH_EVENT_WINDOW:
      return ServeWindow(event, member);
    case ROCATTACH_EVENT_READY:
      if (awaited_.Remove(event.ready.window_id)) sink_->OnReady(event);
      return true;
    case ROCATTACH_EVENT_FOLLOW:
      followers_.Add(event);
      return true;
    case ROCATTACH_EVENT_EXIT:
      crash_breaker_.OnExit(
          ProcessId::StartedAt(static_cast<pid_t>(event.pid), event.start_ns),
          static_cast<int>(event.exit.wait_status), event.time_ns);
      sink_->OnEvent(event);
      return true;
    default:
      sink_->OnEvent(event);
      return true;
  }
}

void WindowServer::Begin(const rocattach_event& event, AttachStart* start) const {
  // A held thread is alive. And the first thread's ID belongs to the process while its
  // claim exists.
  auto is_same_process = [this, &event] {
    return probe_->IsHeld(event) || (event.tid == event.pid && probe_->IsOpen(event));
  };
  BeginAttach(static_cast<pid_t>(event.pid), static_cast<pid_t>(event.tid),
              event.start_ns, options_.hold_timeout_msec, is_same_process, start);
}

std::string WindowServer::LibraryOf(const rocattach_event& event) const {
  if (options_.libraries == nullptr) return "";
  return options_.libraries->PathOf(event.cookie & ~ROCATTACH_COOKIE_LATE);
}

bool WindowServer::ServeWindow(const rocattach_event& event, Member* member) {
  AttachStart start;
  std::optional<std::string> accepted = policy_.AcceptFromEvent(event);
  if (accepted.has_value()) Begin(event, &start);
  // While the thread is stopping.
  if (options_.on_window != nullptr) options_.on_window(event);
  Window window;
  window.event = event;
  window.hsa_library = LibraryOf(event);
  // Reading a process takes longer than passing the lead.
  auto hand_over = [this, member] { leadership_.HandOver(member); };
  if (accepted.has_value()) {
    window.reason = *std::move(accepted);
  } else if (policy_.ShouldSkip(&window, hand_over)) {
    if (event.mode == ROCATTACH_WINDOW_HELD) probe_->Release(event);
    if (preseizer_ != nullptr) preseizer_->Forget(static_cast<pid_t>(event.pid));
    Finish(std::move(window));
    return true;
  }
  const bool is_late = options_.on_late_window != nullptr && IsLate(event);
  if (is_late) options_.on_late_window(event, /*served=*/false);
  const bool is_settled = Attach(&window, member, &start);
  if (is_late) options_.on_late_window(event, /*served=*/true);
  if (!is_settled) return true;
  const bool go_on = !window.outcome.tracer_must_exit;
  Finish(std::move(window));
  return go_on;
}

void WindowServer::Finish(Window window) {
  const rocattach_event& event = window.event;
  if (window.outcome.ok() && window.reason.empty()) window.reason = NoteOf(event).why;
  if (window.process.id.pid == 0) {
    // Read only now, not before the stop: the process runs on meanwhile.
    window.process = ProcessOf(event);
  }
  if (window.outcome.ok()) {
    crash_breaker_.OnAttached(window.process.id, window.process.executable, BootNs());
  }
  sink_->OnWindow(std::move(window));
}

bool WindowServer::Attach(Window* window, Member* member, AttachStart* start) {
  window->attach_tried = true;
  if (window->event.mode == ROCATTACH_WINDOW_HELD && start->seized_ns == 0 &&
      start->result.ok()) {
    Begin(window->event, start);
  }
  AttachRequest request = requests_.Build(window->event);
  if (NoteOf(window->event).loaded) request.earlier = EarlierAttach::kReplaceStub;
  ChooseBackendFor(window, &request);
  awaited_.Add(request.config.window_id, BootNs());
  std::shared_ptr<StubRemover::Reattach> reattach;
  if (options_.stub_remover != nullptr) {
    reattach = std::make_shared<StubRemover::Reattach>(options_.stub_remover,
                                                       request.point.pid);
    request.keep_stubs = !reattach->ok();
  }
  if (window->event.mode == ROCATTACH_WINDOW_SIGNALLED) {
    preseizer_->Serve(std::move(*window), std::move(request),
                      [this, reattach](Window served) {
                        Settle(&served);
                        Finish(std::move(served));
                      });
    return false;
  }
  requests_.AddKernelFacts(window->event, &request);
  std::unique_ptr<PreparedTarget> prepared;
  if (IsLate(window->event)) prepared = prepared_.Take(request.point.pid);
  request.known.prepared = prepared.get();
  // Passing the lead wakes a thread, perhaps on the very CPU that the held one needs in
  // order to stop: so it is delayed until the stop, or until the wait for it takes
  // long, and after the stop it is done only if events are pending.
  request.callbacks.on_wait = [this, member] { leadership_.HandOver(member); };
  request.callbacks.on_stopped = [this, member] {
    if (member->leads() && probe_->HasUrgentEvents()) leadership_.HandOver(member);
  };
  window->outcome = AttachAtWindow(request, &cache_, start);
  Settle(window);
  return true;
}

void WindowServer::ChooseBackendFor(Window* window, AttachRequest* request) const {
  if (options_.needs_sdk == nullptr || !options_.needs_sdk()) return;
  // It is too late to enter through the SDK; what it can still give, the collector's
  // answer says.
  if (IsLate(window->event)) return;
  // Reads the process, which delays only windows of services with sessions that need
  // the SDK.
  BackendChoice choice = ChooseBackend(request->point.pid, options_.sdk_search);
  request->config.backend = choice.backend;
  window->sdk_missing = std::move(choice.missing);
}

rocattach_event WindowServer::LateEvent(const ProcessId& process, uint64_t cookie) {
  rocattach_event event = {};
  event.type = ROCATTACH_EVENT_WINDOW;
  event.mode = ROCATTACH_WINDOW_BLOCKED;
  event.pid = event.tid = static_cast<uint32_t>(process.pid);
  event.time_ns = BootNs();
  event.start_ns = process.start_ticks * ClockTickNs();
  event.cookie = cookie | ROCATTACH_COOKIE_LATE;
  return event;
}

WindowServer::LateNote WindowServer::NoteOf(const rocattach_event& event) {
  if (!IsLate(event)) return {};
  absl::MutexLock lock(&notes_mutex_);
  const auto note = notes_.find(static_cast<pid_t>(event.pid));
  return note == notes_.end() ? LateNote() : note->second;
}

void WindowServer::NoteNotEntered(pid_t pid, bool loaded, std::string why) {
  absl::MutexLock lock(&notes_mutex_);
  notes_[pid] = {loaded, std::move(why)};
}

AttachOutcome WindowServer::LoadForSdk(const ProcessId& process,
                                       uint64_t runtime_address, uint64_t cookie,
                                       pid_t tid) {
  rocattach_event event = LateEvent(process, cookie);
  event.ip = runtime_address;
  AttachRequest request = requests_.Build(event);
  request.point.blocked = true;
  request.point.tid = tid;
  request.config.backend = ROCATTACH_BACKEND_SDK_ATTACH;
  return AttachOnOwnThread(request, &cache_);
}

void WindowServer::TakeOver(const ProcessId& process, uint64_t memory, uint64_t bytes,
                            uint64_t cookie, const AttachOutcome* entered) {
  Window window;
  window.event = LateEvent(process, cookie);
  window.event.mode =
      entered != nullptr ? ROCATTACH_WINDOW_LISTENER : ROCATTACH_WINDOW_TAKEN_OVER;
  window.hsa_library = LibraryOf(window.event);
  window.attach_tried = true;
  if (entered != nullptr) window.outcome = *entered;
  window.outcome.stage = AttachStage::kDone;
  rocattach_event ready = window.event;
  ready.type = ROCATTACH_EVENT_READY;
  ready.mode = ROCATTACH_READY_TAKEN_OVER;
  ready.ready = {memory, bytes, ready.time_ns};
  // 0: no report comes, but the process's end is reported.
  (void)probe_->ExpectReport(process.pid, 0);
  Finish(std::move(window));
  sink_->OnReady(ready);
}

AttachOutcome WindowServer::TryAtCall(const AttachRequest& request,
                                      const SeenCall& seen, AwaitedCall* call) {
  AttachOutcome outcome;
  std::thread([&] {
    (void)pthread_setname_np(pthread_self(), "rwa-call");
    outcome = rocattach::AttachAtCall(request, seen, &cache_, call);
  }).join();
  if (outcome.tracer_must_exit) WaitUntilUntraced(request.point.pid, seen.tid);
  outcome.tracer_must_exit = false;
  return outcome;
}

bool WindowServer::AttachAtCall(const ProcessId& process, uint64_t runtime_address,
                                uint64_t cookie, AwaitedCall* call,
                                uint64_t deadline_ns) {
  std::optional<SeenCall> seen = WaitForCall(call, deadline_ns);
  if (!seen.has_value()) return false;
  Window window;
  window.event = LateEvent(process, cookie);
  rocattach_event& event = window.event;
  event.mode = ROCATTACH_WINDOW_SIGNALLED;
  event.tid = 0;  // the event says nothing about the process, so it is read
  if (policy_.ShouldSkip(&window, [] {})) return false;
  window.hsa_library = LibraryOf(event);
  window.attach_tried = true;
  AttachRequest request = requests_.Build(event);
  if (NoteOf(event).loaded) request.earlier = EarlierAttach::kReplaceStub;
  std::optional<StubRemover::Reattach> reattach;
  if (options_.stub_remover != nullptr) {
    reattach.emplace(options_.stub_remover, process.pid);
    request.keep_stubs = !reattach->ok();
  }
  ChooseBackendFor(&window, &request);
  if (!probe_->ExpectReport(process.pid, event.time_ns).ok()) return false;
  awaited_.Add(request.config.window_id, BootNs());
  const std::unique_ptr<PreparedTarget> prepared = prepared_.Take(process.pid);
  request.known.prepared = prepared.get();
  while (seen.has_value()) {
    window.outcome = TryAtCall(request, *seen, call);
    if (window.outcome.ok()) {
      event.tid = static_cast<uint32_t>(seen->tid);
      event.ip = seen->ip;
      // In its call it made no progress any more.
      window.outcome.stopped_ns = call->hit_ns();
      Finish(std::move(window));
      return true;
    }
    if (!window.outcome.retryable || BootNs() >= deadline_ns) break;
    call->Await();
    seen = WaitForCall(call, deadline_ns);
  }
  (void)awaited_.Remove(request.config.window_id);
  probe_->ForgetReport(process.pid);
  // The next way in needs it again.
  Prepare(process, runtime_address, cookie);
  return false;
}

void WindowServer::PassBy(const ProcessId& process, uint64_t cookie,
                          AttachReason reason, std::string detail) {
  Window window;
  window.event = LateEvent(process, cookie);
  window.hsa_library = LibraryOf(window.event);
  window.attach_tried = true;
  window.outcome.reason = reason;
  window.outcome.detail = std::move(detail);
  SetAttachVerdict(&window);
  Finish(std::move(window));
}

absl::Status WindowServer::AttachBlocked(const ProcessId& process,
                                         uint64_t runtime_address, uint64_t cookie,
                                         bool returns_unentered) {
  Window window;
  window.event = LateEvent(process, cookie);
  rocattach_event& event = window.event;
  event.ip = runtime_address;
  window.hsa_library = LibraryOf(event);
  window.attach_tried = true;
  AttachRequest request = requests_.Build(event);
  if (NoteOf(event).loaded) request.earlier = EarlierAttach::kReplaceStub;
  request.point.blocked = true;
  ChooseBackendFor(&window, &request);
  std::optional<StubRemover::Reattach> reattach;
  if (options_.stub_remover != nullptr) {
    reattach.emplace(options_.stub_remover, process.pid);
    request.keep_stubs = !reattach->ok();
  }
  const std::unique_ptr<PreparedTarget> prepared = prepared_.Take(process.pid);
  request.known.prepared = prepared.get();
  awaited_.Add(request.config.window_id, BootNs());
  if (absl::Status status = probe_->ExpectReport(process.pid, event.time_ns);
      !status.ok()) {
    window.outcome.reason = AttachReason::kServiceResources;
    window.outcome.detail = std::string(status.message());
  } else {
    window.outcome = AttachBlockedThread(request, &cache_);
    event.tid = static_cast<uint32_t>(request.point.tid);
  }
  if (!window.outcome.ok()) probe_->ForgetReport(process.pid);
  if (returns_unentered && HasNoSafePoint(window.outcome)) {
    (void)awaited_.Remove(event.time_ns);
    return absl::AbortedError(
        absl::StrCat("no thread of process ", process.pid,
                     " can be entered now: ", window.outcome.detail));
  }
  Settle(&window);
  Finish(std::move(window));
  return absl::OkStatus();
}

void WindowServer::Settle(Window* window) {
  if (window->outcome.ok()) return;  // open until the collector reports
  (void)awaited_.Remove(window->event.time_ns);
  // Whatever failed, do not hold the thread until its deadline.
  probe_->Release(window->event);
  SetAttachVerdict(window);
}

}  // namespace rocattach
