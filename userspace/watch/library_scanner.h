// Finding every copy of the HSA runtime on the machine.
#ifndef ROCATTACH_USERSPACE_WATCH_LIBRARY_SCANNER_H_
#define ROCATTACH_USERSPACE_WATCH_LIBRARY_SCANNER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/watch/checked_file.h"

namespace rocattach {

// One file that holds an HSA runtime. Uprobes belong to the inode, so copies are told
// apart by device and inode, not by path.
struct LibraryCopy {
  std::string path;  // one path that leads to it (possibly /proc/PID/root/…)
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t hsa_init_offset = 0;  // in the file
  std::vector<pid_t> mapped_by;  // processes that have it mapped now
  // What was looked at, still open: the probe goes there and not to `path`, where
  // another file may stand by now.
  CheckedFile file;
};

// A file that looked like one and was left out, with the reason for people.
struct RejectedLibrary {
  std::string path;
  std::string reason;
};

struct LibraryScan {
  std::vector<LibraryCopy> copies;
  std::vector<RejectedLibrary> rejected;
};

// Where to look beside what is mapped.
struct LibraryScanOptions {
  // Files or directories named by the user.
  std::vector<std::string> extra_paths;
  // Globs of usual places; the default covers distributions, /opt/rocm*, wheels.
  std::vector<std::string> usual_places = DefaultLibraryPlaces();
  bool scan_mapped = true;
  // Each copy costs a probe. So many are taken that are not named in extra_paths: in
  // all, and of files of one user who is not root. 0: no limit.
  uint32_t most_copies = 0;
  uint32_t most_copies_per_user = 0;

  static std::vector<std::string> DefaultLibraryPlaces();
};

// True for libhsa-runtime64.so, libhsa-runtime64.so.1.2, libhsa-runtime64-abc123.so.1 …
bool LooksLikeHsaRuntime(absl::string_view path);

// Looks through /proc/*/maps and the usual places.
LibraryScan ScanLibraries(const LibraryScanOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LIBRARY_SCANNER_H_
