// Opens the memory that a target reports as its collector's.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_TARGET_MEMFD_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_TARGET_MEMFD_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Opens the file that process `pid` has mapped at [address, address + bytes) if it is a
// memfd (memfd_create without huge pages), sealed against changes of its size, with
// exactly `bytes` bytes. Does not wait for a file system: files that could cause that
// are refused unopened. But it waits for the lock of the target's mappings, and for a
// hole that is being punched into the file; no more are punched afterwards.
absl::StatusOr<UniqueFd> OpenTargetMemfd(pid_t pid, uint64_t address, uint64_t bytes);

// The separate checks. Device, type and size; also for an O_PATH descriptor.
absl::Status CheckTargetMemfd(int fd, uint64_t bytes);
// Checks that it is sealed, and that its size is `bytes` for good.
absl::Status CheckSealed(int fd, uint64_t bytes);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_TARGET_MEMFD_H_
