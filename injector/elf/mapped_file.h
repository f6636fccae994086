// The file behind a mapping of another process.
#ifndef ROCATTACH_INJECTOR_ELF_MAPPED_FILE_H_
#define ROCATTACH_INJECTOR_ELF_MAPPED_FILE_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "injector/process/maps.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Opens exactly the file that is mapped: through /proc/PID/map_files, which also
// reaches deleted, replaced, overlay and other-namespace files; without the right to
// use that, through the path in the target's root, accepted only if device and inode
// agree.
absl::StatusOr<UniqueFd> OpenMappedFile(pid_t pid, const Mapping& mapping);

// stat(2) of the same file. Cheaper than opening it.
absl::Status StatMappedFile(pid_t pid, const Mapping& mapping, struct stat* info);

// The root directory that the process `pid` sees.
absl::StatusOr<UniqueFd> OpenRootOf(pid_t pid);

// Opens `path` as a process with the root directory `root` would see it: links are
// resolved inside that root, magic links are refused.
absl::StatusOr<UniqueFd> OpenInRoot(int root, const std::string& path, int flags);

// The same for a regular file, for reading. Nothing else is opened, because opening a
// device may have effects; INVALID_ARGUMENT if it is not a regular file.
absl::StatusOr<UniqueFd> OpenRegularInRoot(int root, const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_MAPPED_FILE_H_
