// Attaching at the window: one held thread, one stub, one verdict.
#ifndef ROCATTACH_INJECTOR_ATTACH_H_
#define ROCATTACH_INJECTOR_ATTACH_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "injector/attach_request.h"
#include "injector/elf/library_facts.h"
#include "injector/failure.h"
#include "injector/outcome.h"
#include "injector/process/blocked_thread.h"
#include "injector/tracing/tracee.h"

namespace rocattach {

// An attach that has begun: the thread is about to stop, or the attach has failed.
struct AttachStart {
  Tracee tracee;
  uint64_t seized_ns = 0;         // CLOCK_BOOTTIME; 0: not seized
  uint64_t stop_deadline_ns = 0;  // when the wait for the stop ends
  AttachStage stage = AttachStage::kSeize;
  // Stop the thread only inside a system call that continues unnoticed
  // (blocked_thread.h). Set this before BeginAttach.
  bool blocked = false;
  BlockedCall call;  // the thread's call, if it has been seized
  StepResult result;
};

// Seizes the thread `tid` of `pid`, verifies that this is the process that started at
// `start_ns`, and only then requests a stop, which takes some 30 us. If it is another
// process, or if the thread is not `blocked` as wanted, the thread is not stopped and
// the calling thread must end (tracer_must_exit).
// Preparations made after this call cost the target no time. `is_same_process` returns
// true if the process is certainly the same; otherwise /proc is read. `start` belongs
// to the calling OS thread and releases the target when it is destroyed.
void BeginAttach(pid_t pid, pid_t tid, uint64_t start_ns, uint32_t stop_timeout_msec,
                 absl::FunctionRef<bool()> is_same_process, AttachStart* start);

// For a process that is already running: finds and checks what an attach needs, so that
// a stopped thread does not wait for it. The process notices nothing; one page of a
// library's code becomes its own copy. `request.point.tid` is any of its threads.
StepResult PrepareAttach(const AttachRequest& request, LibraryCache* cache,
                         PreparedTarget* prepared);

// Performs the whole attach on the calling OS thread (ptrace belongs to a thread):
// PTRACE_SEIZE and PTRACE_INTERRUPT, wait, check, write the stub, set rip, detach.
// Never throws, never leaves the target stopped, never sets PTRACE_O_EXITKILL. A
// successful outcome means that the stub is running; the collector is known to be
// loaded only when it reports.
//
// `cache` remembers the facts of library files and may be shared by threads; if it is
// null, libraries are parsed each time. `begun` is the attach that BeginAttach has
// begun for the same thread, or null.
//
// The caller must obey two rules:
// - If the outcome has tracer_must_exit, the calling thread ends at once: a thread of
//   the target could not be detached (it is in uninterruptible sleep), and only the end
//   of its tracer frees it. AttachOnOwnThread does this by itself.
// - No thread of this process blocks in wait calls that match the target, such as
//   waitpid(-1) or waitpid(target): they would consume its stops. Wait for its pidfd to
//   become readable first, or use __WNOTHREAD.
AttachOutcome AttachAtWindow(const AttachRequest& request,
                             LibraryCache* cache = nullptr,
                             AttachStart* begun = nullptr);

// AttachAtWindow for a thread that the calling OS thread already traces and that is
// stopped at the window (Tracee::Keep returned kHeld). Detaches it before returning.
AttachOutcome AttachStopped(const AttachRequest& request, Tracee* stopped,
                            LibraryCache* cache = nullptr);

// Late attach to a process in which no thread calls the runtime: tries its blocked
// threads (blocked_thread.h) one after the other, each on a new thread as in the
// function below, until one was entered or changed, or another try is useless. Sets
// `request.point.tid` to the last thread tried.
AttachOutcome AttachBlockedThread(AttachRequest& request,
                                  LibraryCache* cache = nullptr);

// AttachAtWindow on a new thread, which has ended when this returns, so the outcome
// never has tracer_must_exit. Costs the start of a thread.
AttachOutcome AttachOnOwnThread(const AttachRequest& request,
                                LibraryCache* cache = nullptr);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ATTACH_H_
