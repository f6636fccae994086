// Notices writes into probed files.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_WATCH_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_WATCH_H_

#include <cstddef>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/discovery/checked_file.h"

namespace rocattach {

// A probe is at an offset of a file. If the file is overwritten in place, as cp does,
// another instruction may be there, or the middle of one; a process that maps the file
// later would execute the old one. Replacing a file by a rename, as package managers
// do, creates another file and is harmless. Thread-safe.
class LibraryWatch {
 public:
  // Without inotify, nothing is reported.
  LibraryWatch();
  // Watches `file` under this number.
  void Add(size_t number, const CheckedFile& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // Stops watching it.
  void Remove(size_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  // Readable when files have been written; -1 without inotify.
  int fd() const { return fd_.get(); }
  // The numbers of files written since the last call; each file is reported only once.
  std::vector<size_t> Written() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  UniqueFd fd_;
  absl::Mutex mutex_;
  // By the kernel's watch descriptor.
  std::map<int, size_t> numbers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_WATCH_H_
