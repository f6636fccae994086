// Why one step of an attach cannot go on. The steps return it; attach.cc turns it into
// the AttachOutcome of the stage at hand.
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

// The texts for people on these reasons refer to the errno, so there is one: EIO where
// no call failed (a short or a wrong answer).
constexpr bool NeedsErrno(AttachReason reason) {
  return reason == AttachReason::kMemoryAccess || reason == AttachReason::kRegisters;
}

// What a step of an attach comes to: success, or one failure.
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

// What an errno of one of our calls stands for in an attach, wherever it shows: a
// target that has gone, or a service that lacks files or memory, is a verdict of its
// own.
inline AttachReason ReasonForErrno(int error, AttachReason otherwise) {
  if (error == ESRCH) return AttachReason::kTargetExited;
  return IsOwnShortage(error) ? AttachReason::kServiceResources : otherwise;
}

// The failure that an errno of one of our calls comes to. `otherwise`: the reason if
// the errno does not say better.
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

// The same for a status, which has its errno with it (ErrnoStatus).
inline AttachFailure FailureFromStatus(const absl::Status& status,
                                       AttachReason otherwise) {
  return FailureFromErrno(ErrnoOf(status), otherwise, std::string(status.message()));
}

// The same for a file below /proc/PID, which goes with the process and which only its
// user and a tracer may open.
inline AttachFailure FailureFromProc(const absl::Status& status) {
  return FailureFromStatus(
      status, absl::IsPermissionDenied(status) ? AttachReason::kNotPermitted
              : absl::IsNotFound(status)       ? AttachReason::kTargetExited
                                               : AttachReason::kMemoryAccess);
}

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_FAILURE_H_
