#include "userspace/service/collector_search.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/file.h"
#include "userspace/base/version.h"

namespace rocattach {
namespace {

constexpr char kCollectorName[] = "librocattach-collector.so";

bool OthersMayWrite(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return true;
  // In a sticky directory such as /tmp, any user can add files.
  return (info.st_uid != 0 && info.st_uid != geteuid()) ||
         ((info.st_mode & S_IWGRP) != 0 && info.st_gid != 0) ||
         (info.st_mode & S_IWOTH) != 0;
}

// By changing the file itself, or its entry in the directory.
bool OthersMayReplace(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return true;
  const std::string file = real;
  free(real);
  return OthersMayWrite(file) ||
         OthersMayWrite(file.substr(0, std::max<size_t>(file.rfind('/'), 1)));
}

}  // namespace

absl::StatusOr<std::string> FindCollector(const std::string& given) {
  std::vector<std::string> candidates;
  std::string untrusted;
  if (!given.empty()) {
    candidates.push_back(given);
  } else {
    if (auto program = ReadLink("/proc/self/exe"); program.ok()) {
      std::string directory = program->substr(0, program->rfind('/'));
      candidates = {absl::StrCat(directory, "/", kCollectorName),
                    absl::StrCat(directory, "/../collector/", kCollectorName),
                    absl::StrCat(directory, "/", ROCATTACH_LIBDIR_FROM_BINDIR,
                                 "/rocattach/", kCollectorName)};
    }
    candidates.push_back(
        absl::StrCat(ROCATTACH_INSTALL_LIBDIR, "/rocattach/", kCollectorName));
  }
  for (const std::string& candidate : candidates) {
    if (char* real = realpath(candidate.c_str(), nullptr); real != nullptr) {
      std::string path = real;
      free(real);
      if (access(path.c_str(), R_OK) != 0) continue;
      // A default location must not be one where another user can put a library that we
      // would load into every process.
      if (given.empty() && OthersMayReplace(path) &&
          !OthersMayReplace("/proc/self/exe")) {
        untrusted = path;
        continue;
      }
      return path;
    }
  }
  if (!untrusted.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the collector ", untrusted,
                     " can be changed by other users than this program can; name it "
                     "with --collector FILE to use it all the same"));
  }
  return absl::NotFoundError(
      absl::StrCat("the collector ", candidates[0],
                   " cannot be read; name it with --collector FILE"));
}

}  // namespace rocattach
