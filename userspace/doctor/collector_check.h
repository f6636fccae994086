// Check of the library that is injected.
#ifndef ROCATTACH_USERSPACE_DOCTOR_COLLECTOR_CHECK_H_
#define ROCATTACH_USERSPACE_DOCTOR_COLLECTOR_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "userspace/doctor/check.h"

namespace rocattach {

// The oldest C library that targets are expected to have, from 2012.
inline constexpr char kOldestGlibc[] = "GLIBC_2.17";

// "collector": whether it is found (`given`: as for --collector; empty: in the usual
// places), has the functions to probe, can be read by every user, and loads; and which
// C library it needs.
Check CheckCollector(const std::string& given);

// Loads and unloads a library in a child of this process, so that it has no effect on
// this process.
absl::Status TryLoad(const std::string& path);

// An empty string if any user can read the file at `path` and reach it; otherwise the
// obstacle, such as "/root is not searchable by other users".
std::string ObstacleForOthers(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_COLLECTOR_CHECK_H_
