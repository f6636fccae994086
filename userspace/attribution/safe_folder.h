// Reads folders and small files of other programs, within bounds.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_SAFE_FOLDER_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_SAFE_FOLDER_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/base/file.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Follows no symbolic link in the last part of a path or name. Errors name the path;
// NOT_FOUND if it does not exist.
class SafeFolder {
 public:
  static absl::StatusOr<SafeFolder> Open(const std::string& path);
  // A folder in this one.
  absl::StatusOr<SafeFolder> OpenFolder(const std::string& name) const;

  // At most `most` names, without "." and "..".
  absl::StatusOr<FolderListing> List(size_t most) const;
  // Reads a regular file that belongs to root or to the user of this process and that
  // others cannot write, a group other than root's included: PERMISSION_DENIED for any
  // other. OUT_OF_RANGE if it is longer than `limit` bytes.
  absl::StatusOr<std::string> ReadTrusted(const std::string& name, size_t limit) const;

  const std::string& path() const { return path_; }

 private:
  SafeFolder(std::string path, UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_SAFE_FOLDER_H_
