#include "userspace/watch/discovery/library_search.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "injector/elf/elf_needs.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

constexpr size_t kMaxCache = 16 << 20;
constexpr const char* kStandardPlaces[] = {"/lib/x86_64-linux-gnu",
                                           "/usr/lib/x86_64-linux-gnu",
                                           "/lib64",
                                           "/usr/lib64",
                                           "/lib",
                                           "/usr/lib"};

std::string DirectoryOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

std::string FindIn(const std::string& root, absl::string_view directory,
                   const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string path = absl::StrCat(directory, "/", name);
    if (access(absl::StrCat(root, path).c_str(), R_OK) == 0) return path;
  }
  return "";
}

// The cache stores its strings one after the other.
std::string FindInCache(const std::string& root,
                        const std::vector<std::string>& names) {
  auto cache = ReadFile(absl::StrCat(root, "/etc/ld.so.cache"), kMaxCache);
  if (!cache.ok()) return "";
  for (const std::string& name : names) {
    for (absl::string_view text : absl::StrSplit(*cache, '\0')) {
      if (absl::StartsWith(text, "/") &&
          absl::EndsWith(text, absl::StrCat("/", name)) &&
          access(absl::StrCat(root, text).c_str(), R_OK) == 0) {
        return std::string(text);
      }
    }
  }
  return "";
}

}  // namespace

std::string FindLibrary(const std::string& root, const std::string& loading,
                        const std::string& environment,
                        const std::vector<std::string>& names) {
  const std::string origin = DirectoryOf(loading);
  std::vector<std::string> places;
  auto add = [&](absl::string_view list) {
    for (absl::string_view place : absl::StrSplit(list, ':', absl::SkipEmpty())) {
      places.push_back(
          absl::StrReplaceAll(place, {{"$ORIGIN", origin}, {"${ORIGIN}", origin}}));
    }
  };
  auto needs = ReadElfNeeds(absl::StrCat(root, loading));
  if (needs.ok()) add(needs->rpath);
  for (absl::string_view variable : absl::StrSplit(environment, '\0')) {
    if (absl::ConsumePrefix(&variable, "LD_LIBRARY_PATH=")) add(variable);
  }
  if (needs.ok()) add(needs->runpath);
  for (const std::string& place : places) {
    if (std::string found = FindIn(root, place, names); !found.empty()) return found;
  }
  if (std::string found = FindInCache(root, names); !found.empty()) return found;
  for (const char* place : kStandardPlaces) {
    if (std::string found = FindIn(root, place, names); !found.empty()) return found;
  }
  return "";
}

}  // namespace rocattach
