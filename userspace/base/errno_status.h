// Statuses that carry the errno that they were made from.
#ifndef ROCATTACH_USERSPACE_BASE_ERRNO_STATUS_H_
#define ROCATTACH_USERSPACE_BASE_ERRNO_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// Like absl::ErrnoToStatus, which loses the number, since several errnos share one
// code.
absl::Status ErrnoStatus(int error, absl::string_view message);

// The errno of a status from ErrnoStatus; 0 for any other.
int ErrnoOf(const absl::Status& status);

// True if the errno means that this process, or the whole machine, lacks open files or
// memory: the object of the call is not the cause.
bool IsOwnShortage(int error);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_ERRNO_STATUS_H_
