#include "userspace/doctor/machine.h"

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kFileLimit = 1 << 20;

}  // namespace

std::string Machine::Full(absl::string_view path) const {
  return absl::StrCat(root_, path);
}

absl::StatusOr<std::string> Machine::Read(absl::string_view path) const {
  ASSIGN_OR_RETURN(std::string text, ReadFile(Full(path), kFileLimit));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

absl::StatusOr<std::string> Machine::Link(absl::string_view path) const {
  return ReadLink(Full(path));
}

bool Machine::Exists(absl::string_view path) const {
  return access(Full(path).c_str(), F_OK) == 0;
}

bool Machine::CanOpen(absl::string_view path, bool for_writing) const {
  // open(), not access(): it uses effective rights, and checks device cgroups too.
  return OpenFile(Full(path), (for_writing ? O_RDWR : O_RDONLY) | O_NONBLOCK).ok();
}

std::vector<std::string> Machine::Glob(absl::string_view pattern) const {
  std::vector<std::string> paths;
  glob_t found = {};
  if (glob(Full(pattern).c_str(), GLOB_BRACE, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      paths.emplace_back(found.gl_pathv[i] + root_.size());
    }
  }
  globfree(&found);
  return paths;
}

}  // namespace rocattach
