// Explains what denies an attach: privileges, Yama, SELinux or AppArmor.
#ifndef ROCATTACH_INJECTOR_PROCESS_DENIAL_H_
#define ROCATTACH_INJECTOR_PROCESS_DENIAL_H_

#include <sys/types.h>

#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// The kernel reports a denial without a reason (EPERM, EACCES). These functions read
// the settings that decide about it, below `root` (empty: this machine), and return a
// sentence with the likely cause and the remedy.

// Explains why this process may not trace or inspect process `pid`.
std::string ExplainTraceDenial(pid_t pid, absl::string_view root = "");

// True if a message of the dynamic loader mentions a missing permission.
bool SpeaksOfDenial(absl::string_view error);

// Explains why process `pid` may not open or map the collector. Empty if no security
// module confines the process.
std::string ExplainLoadDenial(pid_t pid, absl::string_view root = "");

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_DENIAL_H_
