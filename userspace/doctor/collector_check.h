// Check of the library that is injected.
#ifndef ROCATTACH_USERSPACE_DOCTOR_COLLECTOR_CHECK_H_
#define ROCATTACH_USERSPACE_DOCTOR_COLLECTOR_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "userspace/doctor/check.h"

namespace rocattach {

// No target has an older C library than this one of 2012.
inline constexpr char kOldestGlibc[] = "GLIBC_2.17";

// "collector": is it found (`given` as by --collector, empty for the usual places),
// does it have the functions to probe, which C library does it need, can every user
// read it, does it load?
Check CheckCollector(const std::string& given);

// Loads and unloads a library in a child of this process, so that nothing of it
// remains.
absl::Status TryLoad(const std::string& path);

// An empty string if any user can read the file at `path` and reach it; otherwise the
// obstacle, such as "/root is not searchable by other users".
std::string ObstacleForOthers(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_COLLECTOR_CHECK_H_
