#include "userspace/watch/library_scanner.h"

#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "injector/function_offset.h"
#include "injector/maps.h"
#include "injector/probe_instruction.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

// Any user can have files with such names.
constexpr size_t kMostRejected = 64;

// No loader takes anything else.
bool IsElf(int fd) {
  char magic[SELFMAG];
  return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
         memcmp(magic, ELFMAG, sizeof(magic)) == 0;
}

// `found`: of hsa_init in this file.
bool MayBeRuntime(int fd, const absl::Status& found) {
  return found.ok() || (!absl::IsNotFound(found) && IsElf(fd));
}

// Collects files by inode; remembers what each process maps.
class Collection {
 public:
  explicit Collection(const LibraryScanOptions& options)
      : most_(options.most_copies), most_per_user_(options.most_copies_per_user) {}

  // Adds the file at `path` if it is new. `named` files were requested by the user, so
  // a failure is reported whatever the file's name. Returns the copy's index, -1 if it
  // is not a copy.
  int Add(const std::string& path, bool named) {
    auto file = CheckedFile::Open(path);
    if (!file.ok()) {
      if (named) Reject(path, file.status());
      return -1;
    }
    auto key = std::pair(file->device(), file->inode());
    auto known = by_inode_.find(key);
    if (known != by_inode_.end()) return known->second;
    const uid_t owner = file->owner();
    if (!named && !HasRoom(owner)) {
      by_inode_[key] = -1;
      ++left_out_[owner];
      return -1;
    }
    auto offset = FindFunctionFileOffset(file->fd(), "hsa_init");
    absl::Status usable = offset.status();
    const bool may_be_runtime = MayBeRuntime(file->fd(), usable);
    if (usable.ok()) usable = CheckProbeInstruction(file->fd(), *offset);
    if (!usable.ok()) {
      Reject(path, usable, may_be_runtime);
      by_inode_[key] = -1;
      return -1;
    }
    int number = static_cast<int>(scan.copies.size());
    by_inode_[key] = number;
    scan.copies.push_back(
        {path, file->device(), file->inode(), *offset, {}, 0, *std::move(file)});
    if (!named) {
      ++taken_;
      ++taken_of_[owner];
    }
    return number;
  }

  // Reports what exceeded the limits.
  void Finish() {
    for (const auto& [uid, count] : left_out_) {
      scan.rejected.push_back(
          {absl::StrCat(count, " files of user ", uid),
           absl::StrCat(
               "more copies of the runtime than get a probe: ", most_per_user_,
               " of one user (--max-libraries-per-user), ", most_,
               " in all (--max-libraries); those that --library names always get "
               "one")});
    }
  }

  LibraryScan scan;

 private:
  bool HasRoom(uid_t uid) {
    if (most_ != 0 && taken_ >= most_) return false;
    return uid == 0 || most_per_user_ == 0 || taken_of_[uid] < most_per_user_;
  }
  void Reject(const std::string& path, const absl::Status& why,
              bool may_be_runtime = true) {
    if (scan.rejected.size() < kMostRejected) {
      scan.rejected.push_back({path, std::string(why.message()), may_be_runtime});
    }
  }
  const uint32_t most_, most_per_user_;
  uint32_t taken_ = 0;
  std::map<uid_t, uint32_t> taken_of_;
  std::map<uid_t, uint64_t> left_out_;
  std::map<std::pair<dev_t, ino_t>, int> by_inode_;
};

void AddGlob(const std::string& pattern, bool named, Collection* collection) {
  glob_t found = {};
  if (glob(pattern.c_str(), GLOB_NOSORT | GLOB_BRACE, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      if (LooksLikeHsaRuntime(found.gl_pathv[i]))
        collection->Add(found.gl_pathv[i], named);
    }
  }
  globfree(&found);
}

// A library that a process has mapped, whatever its mount namespace or whether its file
// has been deleted since: map_files leads to exactly that file.
void AddMapped(pid_t pid, Collection* collection) {
  auto maps = Maps::Read(pid);
  if (!maps.ok()) return;  // gone, or a kernel thread
  for (const Mapping& mapping : maps->mappings()) {
    if (!mapping.executable || !mapping.is_file() ||
        !LooksLikeHsaRuntime(mapping.path)) {
      continue;
    }
    std::string plain =
        absl::StrCat("/proc/", pid, "/root", DecodeMapsPath(mapping.path));
    std::string exact =
        absl::StrCat("/proc/", pid, "/map_files/", absl::Hex(mapping.start.value()),
                     "-", absl::Hex(mapping.end.value()));
    // The process's user controls what is at the path; if that is not the mapped file,
    // the mapped file counts.
    struct stat info;
    const bool same = !mapping.deleted && stat(plain.c_str(), &info) == 0 &&
                      info.st_ino == mapping.inode;
    int number = collection->Add(same ? plain : exact, false);
    if (number >= 0) {
      LibraryCopy& copy = collection->scan.copies[static_cast<size_t>(number)];
      copy.mapped_by.push_back(pid);
      copy.mapped_device = makedev(mapping.device_major, mapping.device_minor);
    }
  }
}

}  // namespace

bool IsForeignFile(const std::string& path, dev_t device, ino_t inode) {
  const auto file = CheckedFile::Open(path);
  return file.ok() && file->device() == device && file->inode() == inode &&
         !MayBeRuntime(file->fd(),
                       FindFunctionFileOffset(file->fd(), "hsa_init").status());
}

std::vector<std::string> LibraryScanOptions::DefaultLibraryPlaces() {
  const std::string name = "/libhsa-runtime64*.so*";
  std::vector<std::string> places;
  for (const char* directory :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib",
        "/usr/local/lib64", "/opt/rocm*/lib", "/opt/rocm*/lib64",
        "/opt/rocm*/core-*/lib", "/opt/conda/lib", "/usr/lib/ollama/rocm",
        ("/{usr,usr/local,opt/venv,opt/conda,root/.venv,venv}/lib/python3*/"
         "{site,dist}-packages/{torch/lib,_rocm_sdk_core/lib,_rocm_sdk_devel/lib}"),
        "/usr/lib/python3/dist-packages/torch/lib",
        "/home/*/.local/lib/python3*/site-packages/{torch/lib,_rocm_sdk_core/lib}"}) {
    places.push_back(directory + name);
  }
  return places;
}

bool LooksLikeHsaRuntime(absl::string_view path) {
  size_t slash = path.rfind('/');
  absl::string_view name =
      slash == absl::string_view::npos ? path : path.substr(slash + 1);
  return absl::StartsWith(name, "libhsa-runtime64") && absl::StrContains(name, ".so");
}

LibraryScan ScanLibraries(const LibraryScanOptions& options) {
  Collection collection(options);
  for (const std::string& path : options.extra_paths) {
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      AddGlob(path + "/libhsa-runtime64*.so*", true, &collection);
    } else {
      collection.Add(path, true);
    }
  }
  for (const std::string& place : options.usual_places)
    AddGlob(place, false, &collection);
  if (options.scan_mapped) {
    for (pid_t pid : ListProcesses()) AddMapped(pid, &collection);
  } else {
    for (pid_t pid : options.processes) AddMapped(pid, &collection);
  }
  collection.Finish();
  return std::move(collection.scan);
}

}  // namespace rocattach
