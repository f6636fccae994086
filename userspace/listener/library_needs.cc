#include "userspace/listener/library_needs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "injector/elf/byte_source.h"
#include "injector/elf/elf_needs.h"
#include "injector/elf/mapped_file.h"
#include "injector/process/maps.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/discovery/library_search.h"

namespace rocattach {
namespace {

constexpr off_t kMaxLibrary = 64 << 20;
// More libraries than this are not followed.
constexpr size_t kMostLibraries = 256;
constexpr size_t kMostMapped = 8192;

class NeedsCheck {
 public:
  explicit NeedsCheck(pid_t pid)
      : pid_(pid), root_(absl::StrCat("/proc/", pid, "/root")) {}

  absl::Status Run(const std::string& path);

 private:
  absl::Status ReadMapped();
  absl::StatusOr<UniqueFd> Open(const std::string& path) const;
  absl::StatusOr<ElfNeeds> NeedsOf(const std::string& path) const;
  absl::Status CheckOne(const std::string& path);
  absl::Status CheckVersions(const std::string& path, const ElfNeeds& needs,
                             const std::vector<std::string>& providers) const;

  const pid_t pid_;
  const std::string root_;
  std::string environment_;
  std::map<std::string, std::string> mapped_;  // paths by file name and SONAME
  std::vector<std::string> waiting_;
  std::set<std::string> seen_;
};

absl::StatusOr<UniqueFd> NeedsCheck::Open(const std::string& path) const {
  ASSIGN_OR_RETURN(UniqueFd root, OpenRootOf(pid_));
  return OpenRegularInRoot(root.get(), path);
}

absl::StatusOr<ElfNeeds> NeedsCheck::NeedsOf(const std::string& path) const {
  ASSIGN_OR_RETURN(UniqueFd file, Open(path));
  return ReadElfNeeds(FileSource(file.get()));
}

absl::Status NeedsCheck::ReadMapped() {
  ASSIGN_OR_RETURN(const Maps maps, Maps::Read(pid_));
  for (const Mapping& mapping : maps.mappings()) {
    if (!mapping.executable || !mapping.is_file()) continue;
    const std::string path = DecodeMapsPath(mapping.path);
    if (mapped_.size() > kMostMapped ||
        !mapped_.emplace(path.substr(path.rfind('/') + 1), path).second) {
      continue;
    }
    auto file = OpenMappedFile(pid_, mapping);
    if (!file.ok()) continue;
    auto needs = ReadElfNeeds(FileSource(file->get()));
    if (needs.ok() && !needs->soname.empty()) mapped_.emplace(needs->soname, path);
  }
  return absl::OkStatus();
}

// A library that defines a version has its name, between zero bytes, in its file.
absl::Status NeedsCheck::CheckVersions(
    const std::string& path, const ElfNeeds& needs,
    const std::vector<std::string>& providers) const {
  std::set<std::string> missing(needs.versions.begin(), needs.versions.end());
  for (const std::string& provider : providers) {
    if (missing.empty()) break;
    auto file = Open(provider);
    struct stat info;
    // A file that cannot be read cannot be checked.
    if (!file.ok() || fstat(file->get(), &info) != 0 || info.st_size > kMaxLibrary) {
      return absl::OkStatus();
    }
    std::string bytes(static_cast<size_t>(info.st_size), '\0');
    RETURN_IF_ERROR(FileSource(file->get()).ReadAt(0, bytes.data(), bytes.size()));
    std::erase_if(missing, [&](const std::string& version) {
      return absl::StrContains(bytes, absl::StrCat(absl::string_view("\0", 1), version,
                                                   absl::string_view("\0", 1)));
    });
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " needs version ", *missing.begin(),
                   " of a library, which is newer than what the process has"));
}

absl::Status NeedsCheck::CheckOne(const std::string& path) {
  ASSIGN_OR_RETURN(const ElfNeeds needs, NeedsOf(path));
  std::vector<std::string> providers;
  for (const std::string& name : needs.needed) {
    if (const auto mapped = mapped_.find(name); mapped != mapped_.end()) {
      providers.push_back(mapped->second);
      continue;
    }
    std::string found = absl::StrContains(name, '/')
                            ? name
                            : FindLibrary(root_, path, environment_, {name});
    if (found.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " needs ", name, ", which the process's loader would not find"));
    }
    providers.push_back(found);
    if (seen_.size() < kMostLibraries && seen_.insert(found).second) {
      waiting_.push_back(std::move(found));
    }
  }
  return CheckVersions(path, needs, providers);
}

absl::Status NeedsCheck::Run(const std::string& path) {
  environment_ = ReadEnvironment(pid_).value_or("");
  RETURN_IF_ERROR(ReadMapped());
  waiting_.push_back(path);
  while (!waiting_.empty()) {
    const std::string next = std::move(waiting_.back());
    waiting_.pop_back();
    RETURN_IF_ERROR(CheckOne(next));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLibraryNeeds(pid_t pid, const std::string& path) {
  return NeedsCheck(pid).Run(path);
}

}  // namespace rocattach
