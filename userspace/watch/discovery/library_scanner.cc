#include "userspace/watch/discovery/library_scanner.h"

#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "injector/elf/function_offset.h"
#include "injector/elf/probe_instruction.h"
#include "injector/process/maps.h"
#include "userspace/base/process.h"
#include "userspace/base/user_threads.h"

namespace rocattach {
namespace {

// Limited, because any user can have files with such names.
constexpr size_t kMostRejected = 64;

// Time limit for the scan of all processes, which takes some milliseconds.
constexpr absl::Duration kScanPatience = absl::Seconds(2);
constexpr int kReadersPerUser = 2;

// Loaders accept only ELF files.
bool IsElf(int fd) {
  char magic[SELFMAG];
  return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
         memcmp(magic, ELFMAG, sizeof(magic)) == 0;
}

// `found`: the result of the search for hsa_init in this file.
bool MayBeRuntime(int fd, const absl::Status& found) {
  return found.ok() || (!absl::IsNotFound(found) && IsElf(fd));
}

// Collects files by inode; remembers what each process maps. Thread-safe, because a
// process that blocks the thread that reads it and its files must not delay the others.
class Collection {
 public:
  explicit Collection(const LibraryScanOptions& options)
      : most_(options.most_copies), most_per_user_(options.most_copies_per_user) {}

  // Adds the file at `path` if it is new, and the process that has mapped it, which may
  // be 0, with the device that its mapping shows. `named` files were requested by the
  // user, so a failure is reported whatever the file's name.
  void Add(const std::string& path, bool named, pid_t mapped_by = 0,
           dev_t mapped_device = 0) ABSL_LOCKS_EXCLUDED(mutex_) {
    auto file = CheckedFile::Open(path);
    if (!file.ok()) {
      if (named) Reject(path, file.status());
      return;
    }
    const Key key(file->device(), file->inode());
    if (!IsKnown(key)) {
      if (!named && !MakeRoom(key, file->owner())) return;
      Inspect(path, *std::move(file), /*is_counted=*/!named);
    }
    if (mapped_by == 0) return;
    absl::MutexLock lock(&mutex_);
    const auto copy = copies_.find(key);
    if (copy == copies_.end()) return;
    copy->second.mapped_by.push_back(mapped_by);
    copy->second.mapped_device = mapped_device;
  }

  void Reject(const std::string& path, const absl::Status& why,
              bool may_be_runtime = true) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (rejected_.size() < kMostRejected) {
      rejected_.push_back({path, std::string(why.message()), may_be_runtime});
    }
  }

  // Returns what has been found so far, and what exceeded the limits.
  LibraryScan Result() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    LibraryScan scan;
    for (const Key& key : order_) scan.copies.push_back(copies_.at(key));
    scan.rejected = rejected_;
    for (const auto& [uid, count] : left_out_) {
      scan.rejected.push_back(
          {absl::StrCat(count, " files of user ", uid),
           absl::StrCat(
               "more copies of the runtime than get a probe: ", most_per_user_,
               " of one user (--max-libraries-per-user), ", most_,
               " in all (--max-libraries); those that --library names always get "
               "one")});
    }
    return scan;
  }

 private:
  using Key = std::pair<dev_t, ino_t>;

  // True if the file has been looked at, or left out.
  bool IsKnown(const Key& key) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return seen_.count(key) > 0;
  }
  // True if the limits allow one more copy of this user, which is then counted.
  bool MakeRoom(const Key& key, uid_t uid) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const bool in_all = most_ == 0 || taken_ < most_;
    const bool of_user =
        uid == 0 || most_per_user_ == 0 || taken_of_[uid] < most_per_user_;
    if (in_all && of_user) {
      ++taken_;
      ++taken_of_[uid];
      return true;
    }
    if (seen_.insert(key).second) ++left_out_[uid];
    return false;
  }
  void GiveBack(uid_t uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    --taken_;
    --taken_of_[uid];
  }
  // Reads the file. Two threads may do so at the same time.
  void Inspect(const std::string& path, CheckedFile file, bool is_counted)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    const Key key(file.device(), file.inode());
    auto offset = FindFunctionFileOffset(file.fd(), "hsa_init");
    absl::Status usable = offset.status();
    const bool may_be_runtime = MayBeRuntime(file.fd(), usable);
    if (usable.ok()) usable = CheckProbeInstruction(file.fd(), *offset);
    bool is_new = false;
    {
      absl::MutexLock lock(&mutex_);
      is_new = seen_.insert(key).second;
      if (is_counted && (!is_new || !usable.ok())) GiveBack(file.owner());
      if (is_new && usable.ok()) {
        order_.push_back(key);
        copies_[key] = {path, key.first, key.second, *offset, {}, 0, std::move(file)};
      }
    }
    if (is_new && !usable.ok()) Reject(path, usable, may_be_runtime);
  }

  const uint32_t most_, most_per_user_;
  mutable absl::Mutex mutex_;
  uint32_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uid_t, uint32_t> taken_of_ ABSL_GUARDED_BY(mutex_);
  std::map<uid_t, uint64_t> left_out_ ABSL_GUARDED_BY(mutex_);
  std::set<Key> seen_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, LibraryCopy> copies_ ABSL_GUARDED_BY(mutex_);
  std::vector<Key> order_ ABSL_GUARDED_BY(mutex_);
  std::vector<RejectedLibrary> rejected_ ABSL_GUARDED_BY(mutex_);
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

// Adds the runtimes that a process has mapped, in any mount namespace, and even if a
// file has been deleted since: map_files leads to exactly that file.
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
    // the mapped file is used.
    struct stat info;
    const bool same = !mapping.deleted && stat(plain.c_str(), &info) == 0 &&
                      info.st_ino == mapping.inode;
    collection->Add(same ? plain : exact, false, pid,
                    makedev(mapping.device_major, mapping.device_minor));
  }
}

// Processes that have not been read within kScanPatience are reported by name.
void AddAllMapped(const std::shared_ptr<Collection>& collection) {
  UserThreads threads("rwa-scan", kReadersPerUser);
  const std::set<pid_t> unread =
      ReadProcesses(&threads, kScanPatience, ListProcesses(),
                    [collection](pid_t pid) { AddMapped(pid, collection.get()); });
  for (pid_t pid : unread) {
    collection->Reject(
        absl::StrCat("/proc/", pid, "/maps"),
        absl::DeadlineExceededError(absl::StrCat(
            "process ", pid, " of user ", UserOf(pid),
            " keeps whoever reads its mappings or their files waiting; what it has "
            "mapped is looked at when the next process maps it")));
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
  const auto collection = std::make_shared<Collection>(options);
  for (const std::string& path : options.extra_paths) {
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      AddGlob(path + "/libhsa-runtime64*.so*", true, collection.get());
    } else {
      collection->Add(path, true);
    }
  }
  for (const std::string& place : options.usual_places)
    AddGlob(place, false, collection.get());
  if (options.scan_mapped) {
    AddAllMapped(collection);
  } else {
    for (pid_t pid : options.processes) AddMapped(pid, collection.get());
  }
  return collection->Result();
}

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
