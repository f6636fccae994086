// The copies of the HSA runtime that probes and windows can name.
#ifndef ROCATTACH_USERSPACE_WATCH_KNOWN_LIBRARIES_H_
#define ROCATTACH_USERSPACE_WATCH_KNOWN_LIBRARIES_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "injector/maps.h"
#include "userspace/watch/library_scanner.h"

namespace rocattach {

// Those of the search at the start, and those that a process has turned out to use
// since: a new file, in a container or an environment that did not exist. Each has a
// cookie, its number from 1 on. Copies are only ever added, so pointers to them stay
// valid. Thread-safe.
class KnownLibraries {
 public:
  struct Entry {
    const LibraryCopy* copy = nullptr;
    uint64_t cookie = 0;
  };

  explicit KnownLibraries(std::vector<LibraryCopy> scanned);

  // The copy that this mapping is a part of; no copy if it is not known.
  Entry Find(const Mapping& mapping) const ABSL_LOCKS_EXCLUDED(mutex_);
  // What the process has mapped; adds what is not known.
  std::vector<Entry> MappedBy(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Empty if the cookie is unknown.
  std::string PathOf(uint64_t cookie) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  std::deque<LibraryCopy> copies_ ABSL_GUARDED_BY(mutex_);
  const size_t scanned_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_KNOWN_LIBRARIES_H_
