// The copies of the HSA runtime that probes and windows can name.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_KNOWN_LIBRARIES_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_KNOWN_LIBRARIES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "injector/process/maps.h"
#include "userspace/watch/discovery/library_scanner.h"

namespace rocattach {

// Limits on copies that are found after the start: in all, and for files of one user
// other than root. 0: no limit.
struct LibraryLimits {
  uint32_t most = 512;
  uint32_t most_per_user = 32;
};

// The copies found by the search at the start, and those that a process has turned out
// to use since: new files, in a container or environment that did not exist. Each has a
// cookie, a number from 1 on that no other copy ever gets. Thread-safe.
class KnownLibraries {
 public:
  struct Entry {
    std::shared_ptr<const LibraryCopy> copy;
    uint64_t cookie = 0;
  };
  // The copies that a process has mapped.
  struct Mapped {
    std::vector<Entry> entries;
    std::vector<RejectedLibrary> rejected;  // these cannot be probed
    uint32_t without_room = 0;              // copies beyond the limits
  };

  explicit KnownLibraries(std::vector<LibraryCopy> scanned,
                          const LibraryLimits& later = LibraryLimits());

  // The copy that this mapping is a part of; no copy if it is not known. On a file
  // system where mappings have another device than their file, the copy is known only
  // after MappedBy() of the process.
  Entry Find(const Mapping& mapping) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the copies that the process has mapped; adds unknown ones. Reads the files,
  // which can take long on a network file system.
  Mapped MappedBy(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // The copies that were found after the start.
  std::vector<Entry> Later() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets a copy; its file is closed when its entry is no longer in use.
  void Remove(uint64_t cookie) ABSL_LOCKS_EXCLUDED(mutex_);
  // The path of a copy, also of one removed recently. Empty if the cookie is unknown.
  std::string PathOf(uint64_t cookie) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool HasRoom(uid_t owner) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // True if mappings of the copy's file have this device in /proc/PID/maps.
  bool IsMappedAs(const Entry& entry, dev_t device) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const LibraryLimits limits_;
  const uint64_t scanned_;  // cookies up to this one are from the search at the start
  mutable absl::Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const LibraryCopy>> copies_
      ABSL_GUARDED_BY(mutex_);
  // Devices that mappings of a copy have been seen with, other than the file's own: on
  // some file systems they differ.
  std::map<uint64_t, std::set<dev_t>> mapped_devices_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::string> removed_ ABSL_GUARDED_BY(mutex_);  // paths
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_KNOWN_LIBRARIES_H_
