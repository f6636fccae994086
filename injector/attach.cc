#include "injector/attach.h"

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "injector/attach_run.h"
#include "injector/failure.h"
#include "injector/fault.h"
#include "injector/process/target_checks.h"
#include "injector/process/thread_owner.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// Checks a seized thread before it is interrupted, because the interruption might make
// its system call return EINTR.
StepResult CheckSeized(pid_t pid, pid_t tid, uint64_t start_ns,
                       absl::FunctionRef<bool()> is_same_process, AttachStart* start) {
  if (!is_same_process()) {
    RETURN_IF_FAILED(CheckIdentity(pid, start_ns));
  }
  if (!start->blocked) return StepOk();
  if (StepResult owner = CheckHasRobustList(tid); !owner.ok()) {
    owner.failure().retryable = true;  // with another thread
    return owner;
  }
  const auto call = FindBlockedCall(pid, tid);
  if (call.has_value()) {
    start->call = *call;
    return StepOk();
  }
  // It was in another call when it was chosen.
  return AttachFailure{
      AttachReason::kNotAtWindow, 0,
      absl::StrCat("thread ", tid,
                   " is no longer blocked in a call that continues unnoticed"),
      true};
}

StepResult Begin(pid_t pid, pid_t tid, uint64_t start_ns,
                 absl::FunctionRef<bool()> is_same_process, AttachStart* start) {
  start->stage = AttachStage::kSeize;
  if (FaultAt("seize")) return InjectedFault("seize");
  RETURN_IF_FAILED(start->tracee.Seize(pid, tid));
  start->seized_ns = BootNs();
  if (FaultAt("after-seize")) return InjectedFault("after-seize");

  start->stage = AttachStage::kCheck;
  StepResult seized = CheckSeized(pid, tid, start_ns, is_same_process, start);
  if (!seized.ok()) {
    // A detach would need a stop.
    start->tracee.ReleaseByEnd();
    return seized;
  }

  start->stage = AttachStage::kStop;
  if (FaultAt("interrupt")) return InjectedFault("interrupt");
  RETURN_IF_FAILED(start->tracee.Interrupt());
  if (FaultAt("after-interrupt")) return InjectedFault("after-interrupt");
  return StepOk();
}

}  // namespace

void BeginAttach(pid_t pid, pid_t tid, uint64_t start_ns, uint32_t stop_timeout_msec,
                 absl::FunctionRef<bool()> is_same_process, AttachStart* start) {
  start->result = Begin(pid, tid, start_ns, is_same_process, start);
  start->stop_deadline_ns = BootNs() + uint64_t{stop_timeout_msec} * 1'000'000;
}

StepResult PrepareAttach(const AttachRequest& request, LibraryCache* cache,
                         PreparedTarget* prepared) {
  return AttachRun(request, cache, nullptr, nullptr).Prepare(prepared);
}

AttachOutcome AttachAtWindow(const AttachRequest& request, LibraryCache* cache,
                             AttachStart* begun) {
  AttachStart own;
  if (begun == nullptr) begun = &own;
  return AttachRun(request, cache, &begun->tracee, begun).Run();
}

AttachOutcome AttachStopped(const AttachRequest& request, Tracee* stopped,
                            LibraryCache* cache) {
  return AttachRun(request, cache, stopped, nullptr).Run();
}

AttachOutcome AttachBlockedThread(AttachRequest& request, LibraryCache* cache) {
  AttachOutcome outcome;
  auto threads = BlockedThreads(request.point.pid);
  if (!threads.ok()) {
    AttachFailure failure = FailureFromProc(threads.status());
    outcome.reason = failure.reason;
    outcome.error = failure.error;
    outcome.detail = std::move(failure.detail);
    outcome.retryable = failure.retryable;
    return outcome;
  }
  outcome.reason = AttachReason::kNoSafePoint;
  outcome.detail = "no thread is blocked in a call that continues unnoticed";
  for (pid_t tid : *threads) {
    request.point.tid = tid;
    outcome = AttachOnOwnThread(request, cache);
    if (outcome.ok() || outcome.target_modified || !outcome.retryable) break;
  }
  return outcome;
}

AttachOutcome AttachOnOwnThread(const AttachRequest& request, LibraryCache* cache) {
  AttachOutcome outcome;
  std::thread([&] { outcome = AttachAtWindow(request, cache); }).join();
  outcome.tracer_must_exit = false;
  return outcome;
}

}  // namespace rocattach
