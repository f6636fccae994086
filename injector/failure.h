// Why one step of an attach cannot go on. The steps return it; attach.cc turns it into
// the AttachOutcome of the stage at hand.
#ifndef ROCATTACH_INJECTOR_FAILURE_H_
#define ROCATTACH_INJECTOR_FAILURE_H_

#include <optional>
#include <string>

#include "injector/outcome.h"

namespace rocattach {

struct AttachFailure {
  AttachReason reason = AttachReason::kInternal;
  int error = 0;           // errno of the failing call, 0 if none
  std::string detail;      // the call with its arguments, and the remedy
  bool retryable = false;  // the same request may succeed later
};

// Nothing: the step succeeded.
using StepResult = std::optional<AttachFailure>;

// Which part of the kernel's word ESRCH, EPERM, … stands for in an attach: a target
// that has gone is a verdict of its own wherever it shows.
inline AttachReason ReasonForErrno(int error, AttachReason otherwise) {
  return error == 3 /* ESRCH */ ? AttachReason::kTargetExited : otherwise;
}

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_FAILURE_H_
