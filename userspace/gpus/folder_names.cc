#include "userspace/gpus/folder_names.h"

#include <dirent.h>
#include <errno.h>

#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

// A number and a line end.
constexpr size_t kMostNumberBytes = 64;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

}  // namespace

absl::StatusOr<FolderNames> ReadFolderNames(const std::string& path, size_t most) {
  const std::unique_ptr<DIR, CloseFolder> folder(opendir(path.c_str()));
  if (folder == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("opendir(", path, ") failed"));
  }
  FolderNames found;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(folder.get());
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

std::optional<uint64_t> NumberIn(absl::string_view text) {
  uint64_t value = 0;
  text = absl::StripTrailingAsciiWhitespace(text);
  // What SimpleAtoi accepts beyond digits is no number of the kernel's.
  if (text.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) ||
      !absl::SimpleAtoi(text, &value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  const auto text = ReadFile(path, kMostNumberBytes);
  return text.ok() ? NumberIn(*text) : std::nullopt;
}

}  // namespace rocattach
