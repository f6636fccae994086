// Where everybody may load the collector, remembered for a moment.
#ifndef ROCATTACH_INJECTOR_FILESYSTEM_VIEW_CACHE_H_
#define ROCATTACH_INJECTOR_FILESYSTEM_VIEW_CACHE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "injector/file_identity.h"

namespace rocattach {

// Looking at each directory on the way to the collector takes a good part of an attach,
// and nearly always says the same: all processes of a mount namespace with one root see
// the same files, and a collector that is installed well can be read by everybody.
// Thread-safe. An answer lasts a second; one that is out of date costs a dlopen that
// fails cleanly.
class FilesystemViewCache {
 public:
  // True if any user may load `path` as process `pid` sees it, and it is `file`;
  // `view_id` is the same for processes with the same mount namespace and root. False
  // says nothing. A path that somebody else than root could change is not remembered.
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

  std::mutex mutex_;
  std::map<uint64_t, Answer> answers_;  // by view_id
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_FILESYSTEM_VIEW_CACHE_H_
