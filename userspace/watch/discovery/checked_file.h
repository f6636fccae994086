// A file that is guaranteed to be the same when it is checked and when it is used.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_CHECKED_FILE_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_CHECKED_FILE_H_

#include <sys/stat.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Opens the file once and keeps it open. Users that may rename files in a directory of
// the path can replace the file between two opens, so the path is not used again.
// Copies share the descriptor.
class CheckedFile {
 public:
  CheckedFile() = default;
  // Accepts regular files only. Does not wait for a file's owner (a lease, a FIFO).
  static absl::StatusOr<CheckedFile> Open(const std::string& path);

  bool valid() const { return fd_ != nullptr; }
  int fd() const { return fd_ == nullptr ? -1 : fd_->get(); }
  dev_t device() const { return info_.st_dev; }
  ino_t inode() const { return info_.st_ino; }
  uid_t owner() const { return info_.st_uid; }
  // A path for calls that need one, such as a uprobe's: leads to this very file even if
  // it was moved, replaced or deleted.
  std::string ProbePath() const;
  // FAILED_PRECONDITION if it was written to, or its times set, since it was opened.
  absl::Status CheckUnchanged() const;
  // The users besides root who may write to it, in words: "user 1000", "group 100",
  // "everybody"; empty: none.
  std::string Writers() const;

 private:
  std::shared_ptr<UniqueFd> fd_;
  struct stat info_ = {};
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_CHECKED_FILE_H_
