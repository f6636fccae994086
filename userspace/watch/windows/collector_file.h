// The collector's file as targets load it.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_COLLECTOR_FILE_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_COLLECTOR_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "injector/elf/file_identity.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Overwriting a library crashes the processes that use it, and an upgraded library no
// longer fits the service. So targets load a copy of the collector, made at the start,
// that only the service's user can change, and that all users can read even if the
// original is in a private directory. A process that does not see the copy (in a
// container) loads the original, if that is still the file that was copied.
//
// The copy is in its own directory under /run, or under the first of /dev/shm, /var/tmp
// and /tmp that is not mounted noexec. It is removed at the end; the copy of a killed
// service is removed by the next one. If there is no place for a copy, the original is
// used.
//
// A process that sees neither is sent a descriptor of a sealed memfd with the same
// contents, or of one of the two files if the kernel forbids executable memfds.
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
  // Descriptor of the memfd; -1 without one.
  int memfd() const { return memfd_.get(); }
  // The descriptor that is sent.
  int sent_fd() const;

 private:
  CollectorFile() = default;
  // False if there is no place for it below `base`.
  bool CopyTo(const std::string& base);
  void CopyToMemory();

  Choice original_, copy_;
  UniqueFd original_fd_, copy_fd_, memfd_;
  std::string directory_;  // the copy's
};

// Finds the collector's file: as given, next to this program, in the build tree, or
// installed.
absl::StatusOr<std::string> FindCollector(const std::string& given);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_COLLECTOR_FILE_H_
