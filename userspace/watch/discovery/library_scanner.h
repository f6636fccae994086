// Finds every copy of the HSA runtime on the machine.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_SCANNER_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_SCANNER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/watch/discovery/checked_file.h"

namespace rocattach {

// One file that holds an HSA runtime. Uprobes belong to the inode, so copies are
// distinguished by device and inode, not by path.
struct LibraryCopy {
  std::string path;  // one path that leads to it (possibly /proc/PID/root/…)
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t hsa_init_offset = 0;  // in the file
  std::vector<pid_t> mapped_by;  // processes that have it mapped now
  // The file's device as /proc/PID/maps shows it, which on some file systems is not
  // `device`; 0: it was not found in a process.
  dev_t mapped_device = 0;
  // The file that was inspected, still open: the probe is put on it and not on `path`,
  // where another file may be by now.
  CheckedFile file;
};

// A file that looked like a copy and was rejected, with the reason for users.
struct RejectedLibrary {
  std::string path;
  std::string reason;
  // True if it may be a runtime nevertheless: its processes' windows are then missed.
  bool may_be_runtime = true;
};

// True if the file at `path` still is this one, and is no runtime.
bool IsForeignFile(const std::string& path, dev_t device, ino_t inode);

struct LibraryScan {
  std::vector<LibraryCopy> copies;
  std::vector<RejectedLibrary> rejected;
};

// Places to search besides mapped files.
struct LibraryScanOptions {
  // Files or directories named by the user.
  std::vector<std::string> extra_paths;
  // Globs of usual places; the default covers distributions, /opt/rocm*, wheels.
  std::vector<std::string> usual_places = DefaultLibraryPlaces();
  bool scan_mapped = true;
  // Without scan_mapped: the processes whose mapped files are searched.
  std::vector<pid_t> processes;
  // Each copy costs a probe. Limits on copies that are not named in extra_paths: in
  // all, and for files of one user other than root. 0: no limit.
  uint32_t most_copies = 0;
  uint32_t most_copies_per_user = 0;

  static std::vector<std::string> DefaultLibraryPlaces();
};

// True for libhsa-runtime64.so, libhsa-runtime64.so.1.2, libhsa-runtime64-abc123.so.1 …
bool LooksLikeHsaRuntime(absl::string_view path);

// Searches /proc/*/maps and the usual places.
LibraryScan ScanLibraries(const LibraryScanOptions& options);

// The directories of LD_LIBRARY_PATH in this program's environment, in order: programs
// that are started from the same shell find their libraries there.
std::vector<std::string> LibraryPathDirectories();

// The globs for HSA runtimes in these directories, for LibraryScanOptions.
std::vector<std::string> LibraryPathPlaces();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_SCANNER_H_
