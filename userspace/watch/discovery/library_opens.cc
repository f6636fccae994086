#include "userspace/watch/discovery/library_opens.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"

namespace rocattach {

// Notifications contain no descriptors, because these would keep a file system from
// being unmounted until they are read.
LibraryOpens::LibraryOpens()
    : fd_(fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC | FAN_NONBLOCK,
                        O_RDONLY)) {
  if (!fd_.valid()) {
    status_ = ErrnoStatus(errno, "fanotify_init() failed; it needs CAP_SYS_ADMIN");
  }
}

absl::Status LibraryOpens::Add(const CheckedFile& file) {
  if (!fd_.valid()) return status_;
  if (fanotify_mark(fd_.get(), FAN_MARK_ADD, FAN_OPEN, AT_FDCWD,
                    file.ProbePath().c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fanotify_mark(", file.fd(), ") failed"));
  }
  return absl::OkStatus();
}

bool LibraryOpens::Read(const std::function<void(pid_t)>& visit) const {
  alignas(fanotify_event_metadata) char buffer[8192];
  const ssize_t bytes = read(fd_.get(), buffer, sizeof(buffer));
  return bytes <= 0 || VisitOpens({buffer, static_cast<size_t>(bytes)}, visit);
}

bool VisitOpens(absl::Span<const char> notifications,
                const std::function<void(pid_t)>& visit) {
  bool all = true;
  size_t left = notifications.size();
  const auto* event =
      reinterpret_cast<const fanotify_event_metadata*>(notifications.data());
  for (; FAN_EVENT_OK(event, left); event = FAN_EVENT_NEXT(event, left)) {
    if (event->vers != FANOTIFY_METADATA_VERSION) return false;
    if ((event->mask & FAN_Q_OVERFLOW) != 0) all = false;
    if ((event->mask & FAN_OPEN) != 0 && event->pid > 0) visit(event->pid);
  }
  return all;
}

}  // namespace rocattach
