#include "userspace/watch/library_path.h"

#include <stdlib.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rocattach {

std::vector<std::string> LibraryPathDirectories() {
  const char* path = getenv("LD_LIBRARY_PATH");
  if (path == nullptr) return {};
  return absl::StrSplit(path, ':', absl::SkipEmpty());
}

std::vector<std::string> LibraryPathPlaces() {
  std::vector<std::string> places = LibraryPathDirectories();
  for (std::string& place : places) absl::StrAppend(&place, "/libhsa-runtime64*.so*");
  return places;
}

}  // namespace rocattach
