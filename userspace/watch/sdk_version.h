// Whether rocprofiler-sdk can be added to a running process, as far as its file tells.
#ifndef ROCATTACH_USERSPACE_WATCH_SDK_VERSION_H_
#define ROCATTACH_USERSPACE_WATCH_SDK_VERSION_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace rocattach {

// FAILED_PRECONDITION if the library at `path` below `root` is a version that cannot be
// added to a process that has started its runtime. Its file's name has the version:
// librocprofiler-sdk.so.1.0.0. A name without one says nothing, and is OK.
absl::Status CheckSdkCanBeAdded(const std::string& root, const std::string& path);

// FAILED_PRECONDITION if the process has loaded rocprofiler-sdk, whoever did it.
absl::Status CheckSdkIsNotLoaded(pid_t pid);

// The same for the library that the process would find; OK also if it finds none.
absl::Status CheckSdkOfProcessCanBeAdded(pid_t pid);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_SDK_VERSION_H_
