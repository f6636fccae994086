#include "userspace/base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

}  // namespace

absl::StatusOr<FolderListing> ListFolder(const std::string& path, size_t most) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return ListFolder(std::move(fd), path, most);
}

absl::StatusOr<FolderListing> ListFolder(UniqueFd folder, const std::string& path,
                                         size_t most) {
  const std::unique_ptr<DIR, CloseFolder> entries(fdopendir(folder.get()));
  if (entries == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("fdopendir(", path, ") failed"));
  }
  (void)folder.release();
  FolderListing found;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(entries.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (found.names.size() == most) {
      found.cut = true;
      return found;
    }
    found.names.emplace_back(name);
  }
  if (errno != 0) {
    return ErrnoStatus(errno, absl::StrCat("readdir(", path, ") failed"));
  }
  return found;
}

}  // namespace rocattach
