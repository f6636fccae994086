// The collector's file as targets load it.
#ifndef ROCATTACH_USERSPACE_WATCH_COLLECTOR_FILE_H_
#define ROCATTACH_USERSPACE_WATCH_COLLECTOR_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "injector/file_identity.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// A library that is overwritten takes its users with it, and one that is upgraded does
// not fit the service any more. So targets load a copy of the collector, made at the
// start, that nobody but the service's user can touch, and everybody can read even
// where the original lies in a private directory. A process that does not see the copy
// (a container) loads the original, if that is still the file that was copied.
//
// The copy lies in a directory of its own under /run, or the first of /dev/shm,
// /var/tmp and /tmp that is not mounted noexec. It is removed at the end; that of a
// service that was killed is removed by the next one. Without a place for it there is
// only the original.
class CollectorFile {
 public:
  struct Choice {
    std::string path;
    FileIdentity file;
  };

  // Opens the collector at `path`, which is absolute, and copies it.
  static absl::StatusOr<std::unique_ptr<CollectorFile>> Open(const std::string& path);
  ~CollectorFile();
  CollectorFile(const CollectorFile&) = delete;
  CollectorFile& operator=(const CollectorFile&) = delete;

  const Choice& original() const { return original_; }
  // Descriptor of the original, open for reading.
  int original_fd() const { return original_fd_.get(); }
  // Null without a copy.
  const Choice* copy() const { return copy_fd_.valid() ? &copy_ : nullptr; }
  int copy_fd() const { return copy_fd_.get(); }

 private:
  CollectorFile() = default;
  // False if there is no place for it below `base`.
  bool CopyTo(const std::string& base);

  Choice original_, copy_;
  UniqueFd original_fd_, copy_fd_;
  std::string directory_;  // of the copy
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_COLLECTOR_FILE_H_
