// The reason why one step of an attach failed. The steps return it; attach_run.cc turns
// it into the AttachOutcome of the current stage.
#ifndef ROCATTACH_INJECTOR_FAILURE_H_
#define ROCATTACH_INJECTOR_FAILURE_H_

#include <errno.h>

#include <optional>
#include <string>
#include <utility>

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

// The help texts of these reasons refer to the errno, so there must be one: EIO where
// no call failed (a short transfer or a wrong result).
constexpr bool NeedsErrno(AttachReason reason) {
  return reason == AttachReason::kMemoryAccess || reason == AttachReason::kRegisters;
}

// The result of a step of an attach: success, or one failure.
class [[nodiscard]] StepResult {
 public:
  StepResult() = default;  // success
  // NOLINTNEXTLINE(google-explicit-constructor): a failure is returned as it is.
  StepResult(AttachFailure failure) : failure_(std::move(failure)) {
    if (failure_->error == 0 && NeedsErrno(failure_->reason)) failure_->error = EIO;
  }

  bool ok() const { return !failure_.has_value(); }
  // Only if not ok().
  const AttachFailure& failure() const { return *failure_; }
  AttachFailure& failure() { return *failure_; }

 private:
  std::optional<AttachFailure> failure_;
};

inline StepResult StepOk() {
  return {};
}

#define RETURN_IF_FAILED(step)                                               \
  do {                                                                       \
    if (::rocattach::StepResult step_result_ = (step); !step_result_.ok()) { \
      return step_result_;                                                   \
    }                                                                        \
  } while (false)

// The reason that an errno of one of our calls implies at any stage: a target that has
// exited, and a service that lacks files or memory, have their own reasons.
inline AttachReason ReasonForErrno(int error, AttachReason otherwise) {
  if (error == ESRCH) return AttachReason::kTargetExited;
  return IsOwnShortage(error) ? AttachReason::kServiceResources : otherwise;
}

// The failure for an errno of one of our calls. `otherwise`: the reason if the errno
// implies none.
inline AttachFailure FailureFromErrno(int error, AttachReason otherwise,
                                      std::string detail) {
  AttachFailure failure;
  failure.error = error;
  failure.reason = ReasonForErrno(error, otherwise);
  failure.detail = std::move(detail);
  failure.retryable = failure.reason == AttachReason::kServiceResources;
  if (error == 0 && NeedsErrno(failure.reason)) failure.error = EIO;
  return failure;
}

// The same for a status that carries an errno (ErrnoStatus).
inline AttachFailure FailureFromStatus(const absl::Status& status,
                                       AttachReason otherwise) {
  return FailureFromErrno(ErrnoOf(status), otherwise, std::string(status.message()));
}

// The same for a file below /proc/PID, which disappears with the process and which only
// its user and a tracer may open.
inline AttachFailure FailureFromProc(const absl::Status& status) {
  return FailureFromStatus(
      status, absl::IsPermissionDenied(status) ? AttachReason::kNotPermitted
              : absl::IsNotFound(status)       ? AttachReason::kTargetExited
                                               : AttachReason::kMemoryAccess);
}

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_FAILURE_H_
