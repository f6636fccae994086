// Opens the memory that a target reports as its collector's.
#ifndef ROCATTACH_USERSPACE_RECORD_TARGET_MEMFD_H_
#define ROCATTACH_USERSPACE_RECORD_TARGET_MEMFD_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Opens what process `pid` has mapped at [address, address + bytes) if it is a memfd
// (memfd_create without huge pages), sealed against changes of its size, with exactly
// `bytes` bytes. Waits for no file system: files that could cause that are refused
// unopened. But it waits for who holds the lock of the target's mappings, and for a hole
// that is being punched into the file; after that none is.
absl::StatusOr<UniqueFd> OpenTargetMemfd(pid_t pid, uint64_t address, uint64_t bytes);

// The checks by themselves. Device, type, size: of a descriptor opened with O_PATH too.
absl::Status CheckTargetMemfd(int fd, uint64_t bytes);
// That it is sealed, and has exactly `bytes` bytes for good.
absl::Status CheckSealed(int fd, uint64_t bytes);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_TARGET_MEMFD_H_
