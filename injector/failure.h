// Why one step of an attach cannot go on. The steps return it; attach.cc turns it into
// the AttachOutcome of the stage at hand.
#ifndef ROCATTACH_INJECTOR_FAILURE_H_
#define ROCATTACH_INJECTOR_FAILURE_H_

#include <errno.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "injector/outcome.h"
#include "userspace/base/errno_status.h"

namespace rocattach {

struct AttachFailure {
  AttachReason reason = AttachReason::kInternal;
  int error = 0;           // errno of the failing call, 0 if none
  std::string detail;      // the call with its arguments, and the remedy
  bool retryable = false;  // the same request may succeed later
};

// Nothing: the step succeeded.
using StepResult = std::optional<AttachFailure>;

// What an errno of one of our calls stands for in an attach, wherever it shows: a
// target that has gone, or a service that lacks files or memory, is a verdict of its
// own.
inline AttachReason ReasonForErrno(int error, AttachReason otherwise) {
  if (error == ESRCH) return AttachReason::kTargetExited;
  return IsOwnShortage(error) ? AttachReason::kServiceResources : otherwise;
}

// Why a look at the target, or at one of its files, failed. `otherwise`: what it is if
// the errno does not say better.
inline AttachFailure FailedLook(const absl::Status& status, AttachReason otherwise) {
  AttachFailure failure;
  failure.error = ErrnoOf(status);
  failure.reason = ReasonForErrno(failure.error, otherwise);
  failure.detail = std::string(status.message());
  failure.retryable = failure.reason == AttachReason::kServiceResources;
  return failure;
}

// The same for a file below /proc/PID, which goes with the process and which only its
// user and a tracer may open.
inline AttachFailure FailedLookAtProc(const absl::Status& status) {
  return FailedLook(status, absl::IsPermissionDenied(status)
                                ? AttachReason::kNotPermitted
                            : absl::IsNotFound(status) ? AttachReason::kTargetExited
                                                       : AttachReason::kMemoryAccess);
}

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_FAILURE_H_
