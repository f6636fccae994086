// What is in a folder.
#ifndef ROCATTACH_USERSPACE_BASE_FOLDER_H_
#define ROCATTACH_USERSPACE_BASE_FOLDER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

struct FolderListing {
  std::vector<std::string> names;  // in no order, without "." and ".."
  bool cut = false;                // there are more than were asked for
};

// At most `most` names. Errors name the path; NOT_FOUND if there is no such folder.
absl::StatusOr<FolderListing> ListFolder(const std::string& path, size_t most);
// The same of an open folder, whose position is moved. `path` is for errors.
absl::StatusOr<FolderListing> ListFolder(UniqueFd folder, const std::string& path,
                                         size_t most);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_FOLDER_H_
