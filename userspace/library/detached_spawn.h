// Starts a program that is not a child of the caller.
#ifndef ROCATTACH_USERSPACE_LIBRARY_DETACHED_SPAWN_H_
#define ROCATTACH_USERSPACE_LIBRARY_DETACHED_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

struct DetachedProcess {
  pid_t pid = -1;
  UniqueFd pidfd;
};

// Starts `program` with these arguments (the first is its own name) and environment,
// and with `input`, `output` and `errors` as its only descriptors. It has a session of
// its own, so that no signal of the caller's terminal reaches it, and no blocked,
// ignored or handled signals.
//
// It is the child of a process that has ended already: the caller's wait calls do not
// see it, its end sends no SIGCHLD, and init reaps it. It becomes a child of the caller
// only if the caller is init or a subreaper.
absl::StatusOr<DetachedProcess> SpawnDetached(
    const std::string& program, const std::vector<std::string>& arguments,
    const std::vector<std::string>& environment, int input, int output, int errors);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_DETACHED_SPAWN_H_
