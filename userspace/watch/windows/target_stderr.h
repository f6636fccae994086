// Writes messages to the standard error of a target.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_TARGET_STDERR_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_TARGET_STDERR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "userspace/base/process.h"

namespace rocattach {

// Writes a line to the standard error of a process. The process is not trusted, and the
// caller may have more rights than it, so only what the process could write to itself
// is written to: its descriptor 2 must be open for writing, and be a terminal, a pipe
// or a file on a local file system. Never waits, stops or raises a signal; what cannot
// be written at once is not written, and the status says why.
absl::Status WriteToStderrOf(const ProcessId& process, absl::string_view line);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_TARGET_STDERR_H_
