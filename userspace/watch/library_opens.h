// The kernel's notifications that a process opens one of some files (fanotify). Nothing
// else on the machine is affected.
#ifndef ROCATTACH_USERSPACE_WATCH_LIBRARY_OPENS_H_
#define ROCATTACH_USERSPACE_WATCH_LIBRARY_OPENS_H_

#include <sys/types.h>

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/checked_file.h"

namespace rocattach {

// Passes the processes of some notifications, as the kernel writes them, to `visit`.
// False if it could not store others: processes may have gone unseen.
bool VisitOpens(absl::Span<const char> notifications,
                const std::function<void(pid_t)>& visit);

class LibraryOpens {
 public:
  // Needs CAP_SYS_ADMIN.
  LibraryOpens();
  // Of another source than the kernel, for tests; it must not block.
  explicit LibraryOpens(UniqueFd notifications) : fd_(std::move(notifications)) {}
  // Why there are none.
  absl::Status status() const { return status_; }

  // Any thread. Until the end; a file that is deleted needs no removal.
  absl::Status Add(const CheckedFile& file);
  // Readable when some wait; -1: there are none.
  int fd() const { return fd_.get(); }
  // Reads some of them; what else waits keeps fd() readable. As VisitOpens().
  bool Read(const std::function<void(pid_t)>& visit) const;

 private:
  UniqueFd fd_;
  absl::Status status_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LIBRARY_OPENS_H_
