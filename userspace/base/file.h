// Files and folders, opened and read with bounds.
#ifndef ROCATTACH_USERSPACE_BASE_FILE_H_
#define ROCATTACH_USERSPACE_BASE_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// open(2) with O_CLOEXEC added to `flags`. Errors name the path.
absl::StatusOr<UniqueFd> OpenFile(const std::string& path, int flags, mode_t mode = 0);

// Reads a whole file, but never more than `limit` bytes: a longer file is an
// OUT_OF_RANGE error. For /proc files, whose size is not known in advance.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t limit);

// The target of a symbolic link such as /proc/PID/exe.
absl::StatusOr<std::string> ReadLink(const std::string& path);

// Creates a directory and its missing parents with `mode`; existing ones are fine.
absl::Status MakeDirectories(const std::string& path, mode_t mode);

// Writes all of `data`, with as many write(2) calls as needed.
absl::Status WriteAll(int fd, absl::string_view data);

// The contents of a folder.
struct FolderListing {
  std::vector<std::string> names;  // in no order, without "." and ".."
  bool cut = false;                // there are more names than requested
};

// Lists at most `most` names. Errors name the path; NOT_FOUND: no such folder.
absl::StatusOr<FolderListing> ListFolder(const std::string& path, size_t most);
// The same for an open folder, whose position changes. `path` is for errors.
absl::StatusOr<FolderListing> ListFolder(UniqueFd folder, const std::string& path,
                                         size_t most);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_FILE_H_
