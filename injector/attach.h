// Attaching at the window: one held thread, one stub, one verdict.
#ifndef ROCATTACH_INJECTOR_ATTACH_H_
#define ROCATTACH_INJECTOR_ATTACH_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "injector/attach_request.h"
#include "injector/failure.h"
#include "injector/library_facts.h"
#include "injector/outcome.h"
#include "injector/tracee.h"

namespace rocattach {

// An attach that has begun: the thread is on its way to its stop, or it has failed.
struct AttachStart {
  Tracee tracee;
  uint64_t seized_ns = 0;         // CLOCK_BOOTTIME; 0: it was not
  uint64_t stop_deadline_ns = 0;  // how long the stop is waited for
  AttachStage stage = AttachStage::kSeize;
  StepResult result;
};

// Seizes the thread `tid` of `pid`, makes sure that this is the process that started at
// `start_ns`, and only then asks for a stop, which takes the thread some 30 us. What is
// prepared after this call costs the target no time. `is_same_process` is asked whether
// the process surely is the same; if it does not know, /proc is asked. `start` is the
// calling OS thread's, and lets the target go when it ends.
void BeginAttach(pid_t pid, pid_t tid, uint64_t start_ns, uint32_t stop_timeout_msec,
                 absl::FunctionRef<bool()> is_same_process, AttachStart* start);

// Performs the whole attach on the calling OS thread (ptrace belongs to a thread):
// PTRACE_SEIZE and PTRACE_INTERRUPT, wait, check, write the stub, set rip, detach.
// Never throws, never leaves the target stopped, never sets PTRACE_O_EXITKILL.
// A successful outcome says that the stub is running; that the collector is there is
// known only when it reports in.
//
// `cache` remembers what was found in library files and may be shared by threads; with
// null, libraries are parsed each time. `begun`: what BeginAttach has begun for the
// same thread, or null.
//
// The caller keeps two rules:
// - If the outcome has tracer_must_exit, the calling thread ends at once: a thread of
//   the target could not be detached (it sleeps where it cannot be interrupted), and
//   the end of its tracer is what frees it. AttachOnOwnThread does this by itself.
// - Nobody in this process blocks in wait calls that match the target, such as
//   waitpid(-1) or waitpid(target): they would take its stops. Wait for its pidfd to
//   become readable first, or use __WNOTHREAD.
AttachOutcome AttachAtWindow(const AttachRequest& request,
                             LibraryCache* cache = nullptr,
                             AttachStart* begun = nullptr);

// The same for a thread that the calling OS thread traces already and that stands at
// the window in a stop (Tracee::Keep said kHeld). It is detached when this returns.
AttachOutcome AttachStopped(const AttachRequest& request, Tracee* stopped,
                            LibraryCache* cache = nullptr);

// The same on a thread of its own, which has ended when this returns: tracer_must_exit
// is never set in what it returns. Costs the start of a thread.
AttachOutcome AttachOnOwnThread(const AttachRequest& request,
                                LibraryCache* cache = nullptr);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ATTACH_H_
