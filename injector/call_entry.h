// Late attach at a call of the runtime: the thread stands still for as long as it takes
// to look at it and to redirect it.
#ifndef ROCATTACH_INJECTOR_CALL_ENTRY_H_
#define ROCATTACH_INJECTOR_CALL_ENTRY_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "injector/attach_request.h"
#include "injector/library_facts.h"
#include "injector/outcome.h"

namespace rocattach {

// A thread at the entry of a probed function.
struct SeenCall {
  pid_t tid = 0;
  int cpu = -1;  // on which it ran; -1: not known
  uint64_t ip = 0;
  uint64_t stack_pointer = 0;
};

// A probe on functions of the runtime in one process (bpf/call.h). It first notes a
// call and stops nobody.
class ProbedCall {
 public:
  virtual ~ProbedCall() = default;

  // The call that was noted last; empty: none yet.
  virtual std::optional<SeenCall> Seen() = 0;
  // False: no call will be noted any more.
  virtual bool IsAwaited() = 0;
  // The next call of the same function by the same thread, which the calling thread
  // has seized, stops it with ROCATTACH_STOP_SIGNAL. Once.
  virtual void Arm() = 0;
  // A call has stopped the thread, or is about to.
  virtual bool IsStopping() = 0;
  // From now on no call stops it. False: one is doing so.
  virtual bool Disarm() = 0;
};

// Waits until a call has been seen, without disturbing anything; empty: none was before
// `deadline_ns` (CLOCK_BOOTTIME), or none will be.
std::optional<SeenCall> WaitForCall(ProbedCall* call, uint64_t deadline_ns);

// 1. Prepares everything while the thread of the call runs on, the stub included.
// 2. Seizes the thread, which does not stop it.
// 3. Arms the probe, and waits for the thread's next call, a tenth of a second at most.
// 4. At the stop: checks that the thread is where it should be and that dlopen may be
//    called there, sets rip, detaches. If it may not, the thread runs on to its next
//    call.
//
// Tries this once. `request` says all but the point's thread and address. After a
// failure the process is as it was, and another way in may be tried; after one that is
// retryable, the same with another call.
//
// The calling thread must end afterwards, because only that releases a thread that has
// not been stopped: see also attach.h. It gets a real-time priority meanwhile if that is
// permitted, since a stopped thread waits for it, and moves to the processor of the
// call: where the thread stops, this one continues without another processor having to
// wake up.
AttachOutcome AttachAtCall(AttachRequest request, const SeenCall& seen,
                           LibraryCache* cache, ProbedCall* call);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_CALL_ENTRY_H_
