#include "userspace/watch/discovery/library_watch.h"

#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace rocattach {

LibraryWatch::LibraryWatch() : fd_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

void LibraryWatch::Add(size_t number, const CheckedFile& file) {
  if (!fd_.valid() || !file.valid()) return;
  absl::MutexLock lock(&mutex_);
  const int watch = inotify_add_watch(fd_.get(), file.ProbePath().c_str(), IN_MODIFY);
  if (watch >= 0) numbers_[watch] = number;
}

void LibraryWatch::Remove(size_t number) {
  absl::MutexLock lock(&mutex_);
  for (auto it = numbers_.begin(); it != numbers_.end(); ++it) {
    if (it->second != number) continue;
    (void)inotify_rm_watch(fd_.get(), it->first);
    numbers_.erase(it);
    return;
  }
}

std::vector<size_t> LibraryWatch::Written() {
  absl::MutexLock lock(&mutex_);
  std::vector<size_t> written;
  char buffer[4096];
  for (;;) {
    const ssize_t bytes = read(fd_.get(), buffer, sizeof(buffer));
    if (bytes <= 0) return written;
    for (ssize_t at = 0; at + static_cast<ssize_t>(sizeof(inotify_event)) <= bytes;) {
      inotify_event event;
      memcpy(&event, buffer + at, sizeof(event));
      at += static_cast<ssize_t>(sizeof(event) + event.len);
      auto found = numbers_.find(event.wd);
      if (found == numbers_.end()) continue;
      written.push_back(found->second);
      (void)inotify_rm_watch(fd_.get(), event.wd);
      numbers_.erase(found);
    }
  }
}

}  // namespace rocattach
