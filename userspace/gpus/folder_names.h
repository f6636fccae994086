// What is in a directory of /proc or sysfs.
#ifndef ROCATTACH_USERSPACE_GPUS_FOLDER_NAMES_H_
#define ROCATTACH_USERSPACE_GPUS_FOLDER_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

struct FolderNames {
  std::vector<std::string> names;  // in no order, without "." and ".."
  bool cut = false;                // there are more than were asked for
};

// At most `most` names. An error names the path; NOT_FOUND if there is no such
// directory.
absl::StatusOr<FolderNames> ReadFolderNames(const std::string& path, size_t most);

// The number that `text` is, but for a line end. Unset if it is none.
std::optional<uint64_t> NumberIn(absl::string_view text);
// The number that a small file contains; unset if it cannot be read or contains none.
std::optional<uint64_t> ReadNumber(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_GPUS_FOLDER_NAMES_H_
