// Statuses that remember the errno they came from.
#ifndef ROCATTACH_USERSPACE_BASE_ERRNO_STATUS_H_
#define ROCATTACH_USERSPACE_BASE_ERRNO_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// absl::ErrnoToStatus, which forgets the number: several of them share one code.
absl::Status ErrnoStatus(int error, absl::string_view message);

// The errno of a status from ErrnoStatus; 0 for any other.
int ErrnoOf(const absl::Status& status);

// The errno says that this process, or the whole machine, lacks open files or memory:
// whatever the call was about is not the cause.
bool IsOwnShortage(int error);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_ERRNO_STATUS_H_
