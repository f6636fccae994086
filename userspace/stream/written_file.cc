#include "userspace/stream/written_file.h"

#include <sys/file.h>

namespace rocattach {

void MarkAsWritten(int fd) {
  (void)flock(fd, LOCK_SH | LOCK_NB);
}

bool IsBeingWritten(int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return true;
  (void)flock(fd, LOCK_UN);
  return false;
}

}  // namespace rocattach
