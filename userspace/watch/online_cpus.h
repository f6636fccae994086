// Which processors run at the moment.
#ifndef ROCATTACH_USERSPACE_WATCH_ONLINE_CPUS_H_
#define ROCATTACH_USERSPACE_WATCH_ONLINE_CPUS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// The kernel's "0-3,8,10-11"; rising. Unset if it is malformed, or names processors that
// Linux cannot have.
std::optional<std::vector<int>> ParseCpuList(absl::string_view text);

// From sysfs. Where that cannot be read, all that are configured.
std::vector<int> ReadOnlineCpus();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_ONLINE_CPUS_H_
