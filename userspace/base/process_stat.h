// The start time in the text of a process's stat file.
#ifndef ROCATTACH_USERSPACE_BASE_PROCESS_STAT_H_
#define ROCATTACH_USERSPACE_BASE_PROCESS_STAT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// ProcessId::start_ticks in `stat`, the contents of /proc/PID/stat. INVALID_ARGUMENT if
// it has none.
absl::StatusOr<uint64_t> StartTicksIn(absl::string_view stat);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_PROCESS_STAT_H_
