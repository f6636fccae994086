#include "userspace/watch/windows/window_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/attach.h"
#include "injector/process/thread_status.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/user_threads.h"
#include "userspace/watch/windows/attach_warm_up.h"

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

// True if the process can be attached to, but none of its threads was where one can be
// entered.
bool HasNoSafePoint(const AttachOutcome& outcome) {
  if (outcome.ok() || outcome.target_modified) return false;
  return outcome.reason == AttachReason::kNoSafePoint ||
         (outcome.retryable && (outcome.reason == AttachReason::kNotAtWindow ||
                                outcome.reason == AttachReason::kLoaderBusy ||
                                outcome.reason == AttachReason::kUnsafeContext ||
                                outcome.reason == AttachReason::kForeignThread ||
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
                 options_.hold_timeout_msec),
      threads_(ThreadOptions()) {}

WindowServer::~WindowServer() {
  (void)Stop(absl::Hours(1));
}

WindowPolicyOptions WindowServer::PolicyOptions() {
  WindowPolicyOptions policy = options_.policy;
  if (options_.crash_breaker) policy.crash_breaker = &crash_breaker_;
  return policy;
}

ServingThreads::Options WindowServer::ThreadOptions() {
  ServingThreads::Options threads;
  threads.threads = options_.threads;
  threads.hold_timeout_msec = options_.hold_timeout_msec;
  if (options_.policy.attach) {
    threads.begin = [this] { WarmUpAttach(options_.collector.file.path, &cache_); };
  }
  threads.wait_for_event = [this](rocattach_event* event, int stop_fd) {
    return WaitForEvent(event, stop_fd);
  };
  threads.serve = [this](const rocattach_event& event, const Lead& lead) {
    return Serve(event, lead);
  };
  threads.expire = [this](const rocattach_event& event) { Expire(event); };
  return threads;
}

absl::Status WindowServer::Start() {
  if (policy_.attaches() && options_.watch_new &&
      probe_->hold_mode() == HoldMode::kSignal) {
    ASSIGN_OR_RETURN(auto events, MmapEvents::Open());
    auto preseizer = Preseizer::Start(
        std::move(events),
        [this](pid_t pid) {
          return (options_.wanted == nullptr || options_.wanted(pid)) &&
                 policy_.MayAllow(pid);
        },
        [this](const rocattach_event& event) { return probe_->IsOpen(event); }, &cache_,
        kSeizePatienceMsec);
    if (!preseizer.ok()) return preseizer.status();
    preseizer_ = *std::move(preseizer);
  }
  RETURN_IF_ERROR(PublishRules());
  return threads_.Start();
}

absl::Status WindowServer::PublishRules() {
  const PolicyRules& rules = policy_.rules();
  if (rules.only_uid.has_value()) probe_->OnlyUid(*rules.only_uid);
  for (const std::string& glob : rules.deny) {
    if (IsPlainCommand(glob)) RETURN_IF_ERROR(probe_->DenyComm(glob));
  }
  return absl::OkStatus();
}

bool WindowServer::Stop(absl::Duration patience) {
  const bool all_ended = threads_.Stop(patience);
  // Their threads trace, and a process that executes a file which its file system does
  // not deliver blocks the thread that seizes it.
  UserThreads stopping("rwa-stop", /*most_per_user=*/2);
  (void)stopping.Run(0, [this] { followers_.Stop(); });
  if (preseizer_ != nullptr) (void)stopping.Run(0, [this] { preseizer_->Stop(); });
  return stopping.Finish(patience) && all_ended;
}

void WindowServer::Expire(const rocattach_event& event) {
  if (options_.on_window != nullptr) options_.on_window(event);
  Window window;
  window.event = event;
  window.hsa_library = LibraryOf(event);
  window.attach_tried = true;
  window.outcome.stage = AttachStage::kSeize;
  window.outcome.reason = AttachReason::kStopTimeout;
  window.outcome.detail = absl::StrCat(
      "it was not stopped before its hold ended, because other processes of user ",
      event.charged_uid,
      " keep the threads waiting that serve this user's processes: by a page fault in "
      "their memory, a file system, or the lock of their mappings");
  // Not read from the process, because that is what the threads are waiting for.
  window.process.id = ProcessIdOf(event);
  window.process.uid = event.uid;
  window.process.comm = std::string(CommOf(event));
  Settle(&window);
  if (preseizer_ != nullptr) preseizer_->Forget(window.process.id.pid);
  sink_->OnWindow(std::move(window));
}

size_t WindowServer::KeptThreads() const {
  const absl::Duration than = 2 * absl::Milliseconds(options_.hold_timeout_msec);
  return threads_.Kept(than) + (preseizer_ == nullptr ? 0 : preseizer_->Kept(than));
}

void WindowServer::Prepare(const ProcessId& process, uint64_t runtime_address,
                           uint64_t cookie) {
  rocattach_event event = LateEvent(process, cookie);
  event.ip = runtime_address;
  auto prepared = std::make_unique<PreparedTarget>();
  // If this fails, it fails again when a thread has stopped, and is reported then.
  if (PrepareAttach(requests_.Build(event), &cache_, prepared.get()).ok()) {
    prepared_.Add(process.pid, std::move(prepared));
  }
}

bool WindowServer::WaitForEvent(rocattach_event* event, int stop_fd) {
  for (;;) {
    bool known = false;
    const bool consumed = probe_->ConsumeOne([event, &known](const rocattach_event& e) {
      *event = e;
      known = true;
    });
    if (known) return true;
    if (consumed) continue;  // unknown format: counted as lost
    pollfd fds[2] = {{probe_->events_fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return false;
    // Stopping comes second, so that pending events are still served.
    if (fds[0].revents == 0 && fds[1].revents != 0) return false;
  }
}

bool WindowServer::Serve(const rocattach_event& event, const Lead& lead) {
  switch (event.type) {
    case ROCATTACH_EVENT_WINDOW:
      return ServeWindow(event, lead);
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
  // A held thread is alive, and the first thread's ID belongs to the process while its
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

bool WindowServer::ServeWindow(const rocattach_event& event, const Lead& lead) {
  AttachStart start;
  std::optional<std::string> accepted = policy_.AcceptFromEvent(event);
  if (accepted.has_value()) Begin(event, &start);
  // Called while the thread is stopping.
  if (options_.on_window != nullptr) options_.on_window(event);
  Window window;
  window.event = event;
  window.hsa_library = LibraryOf(event);
  // Reading a process takes longer than passing the lead.
  auto hand_over = [&lead] { lead.HandOver(); };
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
  const bool is_settled = Attach(&window, lead, &start);
  if (is_late) options_.on_late_window(event, /*served=*/true);
  if (!is_settled) return true;
  const bool go_on = !window.outcome.tracer_must_exit;
  Finish(std::move(window));
  return go_on;
}

void WindowServer::FinishUnannounced(Window window) {
  if (options_.on_window != nullptr) options_.on_window(window.event);
  Finish(std::move(window));
}

void WindowServer::Finish(Window window) {
  const rocattach_event& event = window.event;
  if (window.outcome.ok() && window.reason.empty())
    window.reason = FailedAttemptOf(event).why;
  if (window.process.id.pid == 0) {
    // Read only now, not before the stop: the process runs on meanwhile.
    window.process = ProcessOf(event);
  }
  if (window.outcome.ok()) {
    crash_breaker_.OnAttached(window.process.id, window.process.executable, BootNs());
  }
  sink_->OnWindow(std::move(window));
}

bool WindowServer::Attach(Window* window, const Lead& lead, AttachStart* start) {
  window->attach_tried = true;
  if (window->event.mode == ROCATTACH_WINDOW_HELD && start->seized_ns == 0 &&
      start->result.ok()) {
    Begin(window->event, start);
  }
  AttachRequest request = requests_.Build(window->event);
  if (FailedAttemptOf(window->event).loaded)
    request.earlier = EarlierAttach::kReplaceStub;
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
  request.callbacks.on_wait = [&lead] { lead.HandOver(); };
  request.callbacks.on_stopped = [this, &lead] {
    if (lead.held() && probe_->HasUrgentEvents()) lead.HandOver();
  };
  window->outcome = AttachAtWindow(request, &cache_, start);
  Settle(window);
  return true;
}

void WindowServer::ChooseBackendFor(Window* window, AttachRequest* request) const {
  if (options_.needs_sdk == nullptr || !options_.needs_sdk()) return;
  // It is too late to enter through the SDK; the collector's answer says what the SDK
  // can still provide.
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

WindowServer::FailedAttempt WindowServer::FailedAttemptOf(
    const rocattach_event& event) {
  if (!IsLate(event)) return {};
  absl::MutexLock lock(&failed_attempts_mutex_);
  const auto attempt = failed_attempts_.find(static_cast<pid_t>(event.pid));
  return attempt == failed_attempts_.end() ? FailedAttempt() : attempt->second;
}

void WindowServer::RecordFailedAttempt(pid_t pid, bool loaded, std::string why) {
  absl::MutexLock lock(&failed_attempts_mutex_);
  failed_attempts_[pid] = {loaded, std::move(why)};
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
  // 0: no report comes, but the end of the process is reported.
  (void)probe_->ExpectReport(process.pid, 0);
  FinishUnannounced(std::move(window));
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
  if (!seen.has_value() || probe_->IsServed(process.pid)) return false;
  Window window;
  window.event = LateEvent(process, cookie);
  rocattach_event& event = window.event;
  event.mode = ROCATTACH_WINDOW_SIGNALLED;
  event.tid = 0;  // the event says nothing about the process, so it is read
  if (policy_.ShouldSkip(&window, [] {})) return false;
  window.hsa_library = LibraryOf(event);
  window.attach_tried = true;
  AttachRequest request = requests_.Build(event);
  if (FailedAttemptOf(event).loaded) request.earlier = EarlierAttach::kReplaceStub;
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
      // The thread has made no progress since it entered this call.
      window.outcome.stopped_ns = call->hit_ns();
      FinishUnannounced(std::move(window));
      return true;
    }
    if (!window.outcome.retryable || BootNs() >= deadline_ns) break;
    call->Await();
    seen = WaitForCall(call, deadline_ns);
  }
  (void)awaited_.Remove(request.config.window_id);
  probe_->ForgetReport(process.pid);
  // The next way to enter needs it again.
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
  window.verdict = Verdict::kPassed;
  if (preseizer_ != nullptr) preseizer_->Forget(process.pid);
  FinishUnannounced(std::move(window));
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
  if (FailedAttemptOf(event).loaded) request.earlier = EarlierAttach::kReplaceStub;
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
  FinishUnannounced(std::move(window));
  return absl::OkStatus();
}

void WindowServer::Settle(Window* window) {
  if (window->outcome.ok()) return;  // open until the collector reports
  (void)awaited_.Remove(window->event.time_ns);
  // After any failure, the thread must not be held until its deadline.
  probe_->Release(window->event);
  SetAttachVerdict(window);
}

}  // namespace rocattach
