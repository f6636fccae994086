// Removes the stub of an attach that failed after the thread was redirected to it.
#ifndef ROCATTACH_INJECTOR_STUB_STUB_REMOVAL_H_
#define ROCATTACH_INJECTOR_STUB_STUB_REMOVAL_H_

#include <sys/types.h>

#include <cstdint>

#include "injector/failure.h"

namespace rocattach {

struct StubLocation {
  pid_t pid = 0;
  pid_t tid = 0;               // the thread that ran it
  uint64_t start_ns = 0;       // the process's start, as in AttachRequest
  uint64_t address = 0;        // AttachOutcome::stub_address
  uint64_t stack_pointer = 0;  // AttachOutcome::stub_stack_pointer
  uint64_t window_id = 0;      // the attach's; a later attach's stub is left alone
};

// Zeroes the stub if its thread has left it for good; no other thread ever enters it.
// The position of a sleeping thread is read from /proc; a running one is stopped
// briefly. While the thread is in the stub, or in functions called by it, nothing is
// changed: kNotAtWindow, retryable. Also succeeds if the stub is already gone. Blocks
// for a tenth of a second at most.
StepResult RemoveStub(const StubLocation& location);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_STUB_STUB_REMOVAL_H_
