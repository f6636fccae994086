// Takes the stub of an attach that failed after the thread had been sent to it.
#ifndef ROCATTACH_INJECTOR_STUB_REMOVAL_H_
#define ROCATTACH_INJECTOR_STUB_REMOVAL_H_

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
  uint64_t window_id = 0;      // of the attach: a later one's stub is left alone
};

// Zeroes the stub if its thread has left it for good; nothing else of the process ever
// enters it. A thread that sleeps is judged from /proc; one that runs is stopped for a
// moment. Where the thread still is in the stub, or in what that has called, nothing is
// changed: kNotAtWindow, retryable. Success also if there is no such stub any more.
// Blocks for a tenth of a second at most.
StepResult RemoveStub(const StubLocation& location);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_STUB_REMOVAL_H_
