// Checks by its file whether rocprofiler-sdk can be added to a running process.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_SDK_VERSION_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_SDK_VERSION_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace rocattach {

// FAILED_PRECONDITION if the library at `path` below `root` is a version that cannot be
// added to a process that has started its runtime. The version is in the file's name:
// librocprofiler-sdk.so.1.0.0. OK also for a name without a version.
absl::Status CheckSdkCanBeAdded(const std::string& root, const std::string& path);

// FAILED_PRECONDITION if the process has loaded rocprofiler-sdk, whatever loaded it.
absl::Status CheckSdkIsNotLoaded(pid_t pid);

// As CheckSdkCanBeAdded(), for the library that the process would find; OK if none.
absl::Status CheckSdkOfProcessCanBeAdded(pid_t pid);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_SDK_VERSION_H_
