// The ROCm release that a copy of the HSA runtime belongs to.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_ROCM_VERSION_H_
#define ROCATTACH_USERSPACE_TELEMETRY_ROCM_VERSION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// "6.4.3", from the number at the end of the file's name (libhsa-runtime64.so.1.15.60403)
// or from a folder of its path (/opt/rocm-6.4.3/lib); empty if neither has it, as with
// the runtimes of Linux distributions.
std::string RocmVersionOf(absl::string_view library_path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_ROCM_VERSION_H_
