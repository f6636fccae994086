// Options of ROCm's profilers that this program does not have.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_ROCM_OPTIONS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_ROCM_OPTIONS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// "rocprofv3's --att is not available: …", with what can be done instead, for an option
// of rocprofv3 or of 'rocprof-compute profile' such as "--att"; empty for any other.
std::string RocmOptionText(absl::string_view option);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_ROCM_OPTIONS_H_
