// Time namespaces (time_namespaces(7)): processes whose CLOCK_BOOTTIME and
// CLOCK_MONOTONIC have an offset.
#ifndef ROCATTACH_USERSPACE_BASE_TIME_NAMESPACE_H_
#define ROCATTACH_USERSPACE_BASE_TIME_NAMESPACE_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// The inode of /proc/PROCESS/ns/KIND; 0 if there is none, as on kernels before 5.6.
// `process`: a number, or "self".
ino_t TimeNamespaceOf(absl::string_view process, absl::string_view kind);

// Offset by which the process's CLOCK_BOOTTIME is ahead of that of the initial time
// namespace. FAILED_PRECONDITION where the kernel does not tell: it shows the offsets
// that the process's children will have.
absl::StatusOr<int64_t> ReadBootOffset(absl::string_view process);

// The offset in the contents of /proc/PID/timens_offsets. DATA_LOSS if there is none.
absl::StatusOr<int64_t> ParseBootOffset(absl::string_view text);

// FAILED_PRECONDITION if this process's CLOCK_BOOTTIME has an offset: then the start
// times of processes in /proc and those that BPF programs see would differ, and so would
// the times of events.
absl::Status CheckOwnClocks();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_TIME_NAMESPACE_H_
