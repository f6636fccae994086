#include "userspace/watch/windows/window_server.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/attach.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/user_threads.h"
#include "userspace/watch/windows/attach_warm_up.h"

namespace rocattach {
namespace {

// A process that is seized in advance and opens no window is released after this time.
constexpr uint32_t kSeizePatienceMsec = 30'000;

}  // namespace

WindowServer::WindowServer(KernelProbe* probe, WindowSink* sink,
                           WindowServerOptions options)
    : probe_(probe),
      sink_(sink),
      options_(std::move(options)),
      attacher_(probe, sink, options_.attacher),
      policy_(PolicyOptions()),
      late_(&attacher_, &policy_),
      followers_([probe](const rocattach_event& event) { return probe->IsOpen(event); },
                 options_.attacher.hold_timeout_msec),
      threads_(ThreadOptions()) {}

WindowServer::~WindowServer() {
  (void)Stop(absl::Hours(1));
}

WindowPolicyOptions WindowServer::PolicyOptions() {
  WindowPolicyOptions policy = options_.policy;
  if (options_.crash_breaker) policy.crash_breaker = &attacher_.crash_breaker();
  return policy;
}

ServingThreads::Options WindowServer::ThreadOptions() {
  ServingThreads::Options threads;
  threads.threads = options_.threads;
  threads.hold_timeout_msec = options_.attacher.hold_timeout_msec;
  if (options_.policy.attach) {
    threads.begin = [this] {
      WarmUpAttach(attacher_.collector_path(), &attacher_.cache());
    };
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
        [this](const rocattach_event& event) { return probe_->IsOpen(event); },
        &attacher_.cache(), kSeizePatienceMsec);
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
  attacher_.Announce(event);
  Window window = attacher_.NewWindow(event);
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
  attacher_.Settle(&window);
  if (preseizer_ != nullptr) preseizer_->Forget(window.process.id);
  sink_->OnWindow(std::move(window));
}

size_t WindowServer::KeptThreads() const {
  const absl::Duration than =
      2 * absl::Milliseconds(options_.attacher.hold_timeout_msec);
  return threads_.Kept(than) + (preseizer_ == nullptr ? 0 : preseizer_->Kept(than));
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
      if (attacher_.awaited().Remove(event.ready.window_id)) sink_->OnReady(event);
      return true;
    case ROCATTACH_EVENT_FOLLOW:
      followers_.Add(event);
      return true;
    case ROCATTACH_EVENT_EXIT:
      attacher_.crash_breaker().OnExit(
          ProcessIdOf(event), static_cast<int>(event.exit.wait_status), event.time_ns);
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
              event.start_ns, options_.attacher.hold_timeout_msec, is_same_process,
              start);
}

bool WindowServer::ServeWindow(const rocattach_event& event, const Lead& lead) {
  AttachStart start;
  std::optional<std::string> accepted = policy_.AcceptFromEvent(event);
  if (accepted.has_value()) Begin(event, &start);
  // Called while the thread is stopping.
  attacher_.Announce(event);
  Window window = attacher_.NewWindow(event);
  // Reading a process takes longer than passing the lead.
  auto hand_over = [&lead] { lead.HandOver(); };
  if (accepted.has_value()) {
    window.reason = *std::move(accepted);
  } else if (policy_.ShouldSkip(&window, hand_over)) {
    if (event.mode == ROCATTACH_WINDOW_HELD) probe_->Release(event);
    if (preseizer_ != nullptr) preseizer_->Forget(ProcessIdOf(event));
    attacher_.Finish(std::move(window));
    return true;
  }
  const bool is_late = options_.on_late_window != nullptr && IsLate(event);
  if (is_late) options_.on_late_window(event, /*served=*/false);
  const bool is_settled = Attach(&window, lead, &start);
  if (is_late) options_.on_late_window(event, /*served=*/true);
  if (!is_settled) return true;
  const bool go_on = !window.outcome.tracer_must_exit;
  attacher_.Finish(std::move(window));
  return go_on;
}

bool WindowServer::Attach(Window* window, const Lead& lead, AttachStart* start) {
  if (window->event.mode == ROCATTACH_WINDOW_HELD && start->seized_ns == 0 &&
      start->result.ok()) {
    Begin(window->event, start);
  }
  WindowAttacher::Request request = attacher_.MakeRequest(window);
  if (window->event.mode == ROCATTACH_WINDOW_SIGNALLED) {
    preseizer_->Serve(std::move(*window), std::move(request.attach),
                      [this, reattach = request.reattach](Window served) {
                        attacher_.Settle(&served);
                        attacher_.Finish(std::move(served));
                      });
    return false;
  }
  attacher_.requests().AddKernelFacts(window->event, &request.attach);
  // Passing the lead wakes a thread, perhaps on the very CPU that the held one needs in
  // order to stop: so it is delayed until the stop, or until the wait for it takes
  // long, and after the stop it is done only if events are pending.
  request.attach.callbacks.on_wait = [&lead] { lead.HandOver(); };
  request.attach.callbacks.on_stopped = [this, &lead] {
    if (lead.held() && probe_->HasUrgentEvents()) lead.HandOver();
  };
  window->outcome = AttachAtWindow(request.attach, &attacher_.cache(), start);
  attacher_.Settle(window);
  return true;
}

void WindowServer::PassBy(const ProcessId& process, uint64_t cookie,
                          AttachReason reason, std::string detail) {
  if (preseizer_ != nullptr) preseizer_->Forget(process);
  late_.PassBy(process, cookie, reason, std::move(detail));
}

}  // namespace rocattach
