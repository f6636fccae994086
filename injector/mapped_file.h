// The file behind a mapping of another process.
#ifndef ROCATTACH_INJECTOR_MAPPED_FILE_H_
#define ROCATTACH_INJECTOR_MAPPED_FILE_H_

#include <sys/stat.h>
#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "injector/maps.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Opens the very file that is mapped: through /proc/PID/map_files, which also reaches
// deleted, replaced, overlay and other-namespace files; without the right to that,
// through the path in the target's root, accepted only if device and inode agree.
absl::StatusOr<UniqueFd> OpenMappedFile(pid_t pid, const Mapping& mapping);

// stat(2) of the same file. Cheaper than opening it.
absl::Status StatMappedFile(pid_t pid, const Mapping& mapping, struct stat* info);

// Opens `path` as the process `pid` would see it: from its root directory, links
// resolved inside that root, magic links refused.
absl::StatusOr<UniqueFd> OpenInRootOf(pid_t pid, const std::string& path, int flags);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_MAPPED_FILE_H_
