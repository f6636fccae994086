// The kernel's notifications that a process opens one of some files (fanotify). Nothing
// else on the machine is affected.
#ifndef ROCATTACH_USERSPACE_WATCH_LIBRARY_OPENS_H_
#define ROCATTACH_USERSPACE_WATCH_LIBRARY_OPENS_H_

#include <sys/types.h>

#include <functional>

#include "absl/status/status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/checked_file.h"

namespace rocattach {

class LibraryOpens {
 public:
  // Needs CAP_SYS_ADMIN.
  LibraryOpens();
  // Why there are none.
  absl::Status status() const { return status_; }

  // Any thread. Until the end; a file that is deleted needs no removal.
  absl::Status Add(const CheckedFile& file);
  // Readable when some wait; -1: there are none.
  int fd() const { return fd_.get(); }
  // Passes the processes to `visit`; those of a queue that was full are lost.
  void Read(const std::function<void(pid_t)>& visit);

 private:
  UniqueFd fd_;
  absl::Status status_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LIBRARY_OPENS_H_
