#include "userspace/library/recorder_program.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/version.h"

namespace rocattach {
namespace {

// The folder of the file that contains this function; empty if that is not known.
std::string OwnFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&OwnFolder), &info) == 0) return "";
  char* real = realpath(info.dli_fname, nullptr);
  if (real == nullptr) return "";
  std::string path = real;
  free(real);
  return path.substr(0, path.rfind('/'));
}

}  // namespace

absl::StatusOr<std::string> FindRecorderProgram() {
  std::vector<std::string> candidates;
  if (const char* given = secure_getenv("ROCATTACH_PROGRAM"); given != nullptr) {
    candidates = {given};
  } else {
    if (const std::string folder = OwnFolder(); !folder.empty()) {
      candidates = {
          absl::StrCat(folder, "/", ROCATTACH_BINDIR_FROM_LIBDIR, "/rocattach"),
          // The libraries with other names are one folder below.
          absl::StrCat(folder, "/../", ROCATTACH_BINDIR_FROM_LIBDIR, "/rocattach"),
          absl::StrCat(folder, "/../cli/rocattach"),
          absl::StrCat(folder, "/../../cli/rocattach"),
      };
    }
    candidates.push_back(absl::StrCat(ROCATTACH_INSTALL_BINDIR, "/rocattach"));
  }
  for (const std::string& candidate : candidates) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return absl::NotFoundError(
      absl::StrCat("the program rocattach is in none of these places: ",
                   absl::StrJoin(candidates, ", ")));
}

}  // namespace rocattach
