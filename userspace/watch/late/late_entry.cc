#include "userspace/watch/late/late_entry.h"

#include <pthread.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/process/thread_status.h"
#include "userspace/base/clock.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

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

// The event of a window that the kernel does not announce.
rocattach_event EventOf(const LateTarget& target) {
  rocattach_event event = {};
  event.type = ROCATTACH_EVENT_WINDOW;
  event.mode = ROCATTACH_WINDOW_BLOCKED;
  event.pid = event.tid = static_cast<uint32_t>(target.process.pid);
  event.time_ns = BootNs();
  event.start_ns = target.process.start_ticks * ClockTickNs();
  event.cookie = target.cookie | ROCATTACH_COOKIE_LATE;
  event.ip = target.runtime_address;
  return event;
}

}  // namespace

void LateEntry::Prepare(const LateTarget& target) {
  const rocattach_event event = EventOf(target);
  auto prepared = std::make_shared<PreparedTarget>();
  // If this fails, it fails again when a thread has stopped, and is reported then.
  if (PrepareAttach(attacher_->requests().Build(event), &attacher_->cache(),
                    prepared.get())
          .ok()) {
    attacher_->preparations().Add(target.process, std::move(prepared));
  }
}

void LateEntry::FinishUnannounced(Window window) {
  attacher_->Announce(window.event);
  attacher_->Finish(std::move(window));
}

AttachOutcome LateEntry::LoadForSdk(const LateTarget& target, pid_t tid) {
  const rocattach_event event = EventOf(target);
  AttachRequest request = attacher_->requests().Build(event);
  request.point.blocked = true;
  request.point.tid = tid;
  request.config.backend = ROCATTACH_BACKEND_SDK_ATTACH;
  return AttachOnOwnThread(request, &attacher_->cache());
}

void LateEntry::TakeOver(const LateTarget& target, uint64_t memory, uint64_t bytes,
                         const AttachOutcome* entered) {
  Window window = attacher_->NewWindow(EventOf(target));
  window.event.mode =
      entered != nullptr ? ROCATTACH_WINDOW_LISTENER : ROCATTACH_WINDOW_TAKEN_OVER;
  window.attach_tried = true;
  if (entered != nullptr) window.outcome = *entered;
  window.outcome.stage = AttachStage::kDone;
  rocattach_event ready = window.event;
  ready.type = ROCATTACH_EVENT_READY;
  ready.mode = ROCATTACH_READY_TAKEN_OVER;
  ready.ready = {memory, bytes, ready.time_ns};
  // 0: no report comes, but the end of the process is reported.
  (void)attacher_->probe()->ExpectReport(target.process, 0);
  FinishUnannounced(std::move(window));
  attacher_->sink()->OnReady(ready);
}

AttachOutcome LateEntry::TryAtCall(const AttachRequest& request, const SeenCall& seen,
                                   AwaitedCall* call) {
  AttachOutcome outcome;
  std::thread([&] {
    (void)pthread_setname_np(pthread_self(), "rwa-call");
    outcome = AttachAtCall(request, seen, &attacher_->cache(), call);
  }).join();
  if (outcome.tracer_must_exit) WaitUntilUntraced(request.point.pid, seen.tid);
  outcome.tracer_must_exit = false;
  return outcome;
}

bool LateEntry::AtCall(const LateTarget& target, AwaitedCall* call,
                       uint64_t deadline_ns) {
  KernelProbe* const probe = attacher_->probe();
  std::optional<SeenCall> seen = WaitForCall(call, deadline_ns);
  if (!seen.has_value() || probe->IsServed(target.process)) return false;
  Window window = attacher_->NewWindow(EventOf(target));
  rocattach_event& event = window.event;
  event.mode = ROCATTACH_WINDOW_SIGNALLED;
  event.tid = 0;  // the event says nothing about the process, so it is read
  event.ip = 0;
  if (policy_->ShouldSkip(&window, [] {})) return false;
  if (!probe->ExpectReport(target.process, event.time_ns).ok()) return false;
  WindowAttacher::Request request = attacher_->MakeRequest(&window);
  while (seen.has_value()) {
    window.outcome = TryAtCall(request.attach, *seen, call);
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
  (void)attacher_->ForgetReport(event);
  probe->ForgetReport(target.process);
  // The next way to enter needs it again.
  Prepare(target);
  return false;
}

void LateEntry::PassBy(const ProcessId& process, uint64_t cookie, AttachReason reason,
                       std::string detail) {
  Window window = attacher_->NewWindow(EventOf({process, 0, cookie}));
  window.attach_tried = true;
  window.outcome.reason = reason;
  window.outcome.detail = std::move(detail);
  SetAttachVerdict(&window);
  window.verdict = Verdict::kPassed;
  FinishUnannounced(std::move(window));
}

absl::Status LateEntry::Blocked(const LateTarget& target, bool returns_unentered) {
  KernelProbe* const probe = attacher_->probe();
  Window window = attacher_->NewWindow(EventOf(target));
  rocattach_event& event = window.event;
  WindowAttacher::Request request = attacher_->MakeRequest(&window);
  request.attach.point.blocked = true;
  if (absl::Status status = probe->ExpectReport(target.process, event.time_ns);
      !status.ok()) {
    window.outcome.reason = AttachReason::kServiceResources;
    window.outcome.detail = std::string(status.message());
  } else {
    window.outcome = AttachBlockedThread(request.attach, &attacher_->cache());
    event.tid = static_cast<uint32_t>(request.attach.point.tid);
  }
  if (!window.outcome.ok()) probe->ForgetReport(target.process);
  if (!window.outcome.ok() && !window.outcome.target_modified &&
      !(Lives(target.process) && CheckIsProcess(target.process.pid).ok())) {
    // Its end has been recorded, if the process was; a window after that would be one of
    // another process with its ID.
    (void)attacher_->ForgetReport(event);
    return absl::NotFoundError(absl::StrCat("process ", target.process.pid,
                                            " ended before it could be entered"));
  }
  if (returns_unentered && HasNoSafePoint(window.outcome)) {
    (void)attacher_->ForgetReport(event);
    return absl::AbortedError(
        absl::StrCat("no thread of process ", target.process.pid,
                     " can be entered now: ", window.outcome.detail));
  }
  attacher_->Settle(&window);
  FinishUnannounced(std::move(window));
  return absl::OkStatus();
}

}  // namespace rocattach
