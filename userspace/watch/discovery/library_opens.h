// The kernel's notifications that a process opens one of certain files (fanotify). They
// affect nothing else on the machine.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_OPENS_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_OPENS_H_

#include <sys/types.h>

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/discovery/checked_file.h"

namespace rocattach {

// Calls `visit` with the processes of some notifications, given in the kernel's format.
// False if the kernel could not store others: processes may have gone unseen.
bool VisitOpens(absl::Span<const char> notifications,
                const std::function<void(pid_t)>& visit);

class LibraryOpens {
 public:
  // Needs CAP_SYS_ADMIN.
  LibraryOpens();
  // Uses another source than the kernel, for tests; it must not block.
  explicit LibraryOpens(UniqueFd notifications) : fd_(std::move(notifications)) {}
  // Why there are no notifications.
  absl::Status status() const { return status_; }

  // Any thread. The file stays added until the end, or until it is deleted.
  absl::Status Add(const CheckedFile& file);
  // Readable when notifications are pending; -1: there are none.
  int fd() const { return fd_.get(); }
  // Reads some of them; others that are left keep fd() readable. As VisitOpens().
  bool Read(const std::function<void(pid_t)>& visit) const;

 private:
  UniqueFd fd_;
  absl::Status status_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_OPENS_H_
