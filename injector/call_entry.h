// Late attach at a call of the runtime: the thread is stopped only for as long as it
// takes to inspect and redirect it.
#ifndef ROCATTACH_INJECTOR_CALL_ENTRY_H_
#define ROCATTACH_INJECTOR_CALL_ENTRY_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "injector/attach_request.h"
#include "injector/elf/library_facts.h"
#include "injector/outcome.h"

namespace rocattach {

// A thread at the entry of a probed function.
struct SeenCall {
  pid_t tid = 0;
  int cpu = -1;  // on which it ran; -1: not known
  uint64_t ip = 0;
  uint64_t stack_pointer = 0;
};

// A probe on functions of the runtime in one process (bpf/call.h). At first it only
// notes a call and stops no thread.
class ProbedCall {
 public:
  virtual ~ProbedCall() = default;

  // The call that was noted last; empty if there is none yet.
  virtual std::optional<SeenCall> Seen() = 0;
  // False if no further call will be noted.
  virtual bool IsAwaited() = 0;
  // From here on, the next call of the same function by the same thread, which the
  // calling thread has seized, stops that thread with ROCATTACH_STOP_SIGNAL, once.
  virtual void Arm() = 0;
  // True if a call has stopped the thread, or is about to.
  virtual bool IsStopping() = 0;
  // From here on, no call stops the thread. False if one is already stopping it.
  virtual bool Disarm() = 0;
};

// Waits until a call has been seen, without disturbing the process; empty if there was
// none before `deadline_ns` (CLOCK_BOOTTIME), or if there will be none.
std::optional<SeenCall> WaitForCall(ProbedCall* call, uint64_t deadline_ns);

// 1. Prepares everything, including the stub, while the thread of the call runs on.
// 2. Seizes the thread, which does not stop it.
// 3. Arms the probe, and waits for the thread's next call, a tenth of a second at most.
// 4. At the stop: checks that the thread is where it should be and that dlopen may be
//    called there, sets rip, detaches. If dlopen may not be called, the thread runs on
//    to its next call.
//
// Tries this once. `request` is complete except for the point's thread and address.
// After a failure the process is as it was, and another way in may be tried; after a
// retryable one, the same way with another call.
//
// The calling thread must end afterwards, because only that releases a thread that has
// not been stopped: see also attach.h. Meanwhile it has a real-time priority, if that
// is permitted, since a stopped thread waits for it, and runs on the processor of the
// call: when the thread stops there, the calling thread continues without another
// processor having to wake up.
AttachOutcome AttachAtCall(AttachRequest request, const SeenCall& seen,
                           LibraryCache* cache, ProbedCall* call);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_CALL_ENTRY_H_
