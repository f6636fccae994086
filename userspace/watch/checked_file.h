// A file that is looked at and used, and is the same file both times.
#ifndef ROCATTACH_USERSPACE_WATCH_CHECKED_FILE_H_
#define ROCATTACH_USERSPACE_WATCH_CHECKED_FILE_H_

#include <sys/stat.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Keeps the file open that it has opened once. Who may rename files in a directory on a
// path can put another file there between two looks; so nothing uses the path again.
// Copies share the descriptor.
class CheckedFile {
 public:
  CheckedFile() = default;
  // Refuses what is no regular file. Does not wait for a file's owner (a lease, a
  // FIFO).
  static absl::StatusOr<CheckedFile> Open(const std::string& path);

  bool valid() const { return fd_ != nullptr; }
  int fd() const { return fd_ == nullptr ? -1 : fd_->get(); }
  dev_t device() const { return info_.st_dev; }
  ino_t inode() const { return info_.st_ino; }
  uid_t owner() const { return info_.st_uid; }
  // For calls that take a path, such as a uprobe's: leads to this very file, wherever
  // it lies, whatever stands at its name by now, and if it was deleted.
  std::string ProbePath() const;
  // FAILED_PRECONDITION if it has been written, or its times set, since it was opened.
  absl::Status CheckUnchanged() const;
  // Who beside root may write it, in words: "user 1000", "group 100", "everybody";
  // empty: nobody.
  std::string Writers() const;

 private:
  std::shared_ptr<UniqueFd> fd_;
  struct stat info_ = {};
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_CHECKED_FILE_H_
