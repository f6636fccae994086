// A short-lived cache of whether any user may load the collector, per file system view.
#ifndef ROCATTACH_INJECTOR_PROCESS_FILESYSTEM_VIEW_CACHE_H_
#define ROCATTACH_INJECTOR_PROCESS_FILESYSTEM_VIEW_CACHE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "injector/elf/file_identity.h"

namespace rocattach {

// Checking each directory of the collector's path takes a good part of an attach, with
// nearly always the same result: all processes of a mount namespace with one root see
// the same files, and a properly installed collector can be read by all users.
// Thread-safe. An answer is valid for a second; an outdated one costs a dlopen that
// fails cleanly.
class FilesystemViewCache {
 public:
  // True if any user may load `path` as process `pid` sees it, and it is `file`;
  // `view_id` is the same for processes with the same mount namespace and root. False
  // means unknown. A path that users other than root could change is not remembered.
  bool EverybodyMayLoad(pid_t pid, uint64_t view_id, const std::string& path,
                        const FileIdentity& file);

 private:
  static constexpr size_t kMaxViews = 1024;
  static constexpr uint64_t kLifeNs = 1'000'000'000;

  struct Answer {
    uint64_t time_ns = 0;
    std::string path;
    bool everybody = false;
  };

  absl::Mutex mutex_;
  std::map<uint64_t, Answer> answers_ ABSL_GUARDED_BY(mutex_);  // by view_id
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_FILESYSTEM_VIEW_CACHE_H_
