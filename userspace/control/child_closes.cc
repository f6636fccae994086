#include "userspace/control/child_closes.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

namespace rocattach {
namespace {

struct Descriptor {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;

  bool IsSame() const {
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_dev == device && now.st_ino == inode;
  }
};

// Handlers of fork() have no argument. Not absl::Mutex: what a child finds locked, it
// must be able to initialise again.
struct Closes {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::vector<Descriptor> descriptors;  // guarded by mutex
};
Closes& TheCloses() {
  static Closes* closes = new Closes;  // never destroyed: children of exiting programs
  return *closes;
}

// The list must not be changing in the instant that the child's copy shows.
void BeforeFork() {
  pthread_mutex_lock(&TheCloses().mutex);
}
void AfterForkInParent() {
  pthread_mutex_unlock(&TheCloses().mutex);
}
void AfterForkInChild() {
  Closes& closes = TheCloses();
  pthread_mutex_init(&closes.mutex, nullptr);
  for (const Descriptor& descriptor : closes.descriptors) {
    if (descriptor.IsSame()) close(descriptor.fd);
  }
  closes.descriptors.clear();  // its own children have nothing to close
}

}  // namespace

void CloseInChildren(int fd) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    TheCloses();
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  });
  struct stat info;
  if (fstat(fd, &info) != 0) return;
  Closes& closes = TheCloses();
  pthread_mutex_lock(&closes.mutex);
  std::erase_if(closes.descriptors,
                [](const Descriptor& descriptor) { return !descriptor.IsSame(); });
  closes.descriptors.push_back({fd, info.st_dev, info.st_ino});
  pthread_mutex_unlock(&closes.mutex);
}

}  // namespace rocattach
