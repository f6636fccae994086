#include "userspace/record/ring_views.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// Linux 5.11; this header may be older.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace rocattach {
namespace {

UniqueFd OpenUserfaultfd() {
  // Enough for reads by the program itself, and every user may have it.
  for (const int mode : {UFFD_USER_MODE_ONLY, 0}) {
    UniqueFd fd(
        static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | mode)));
    uffdio_api api = {};
    api.api = UFFD_API;
    api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM;
    if (fd.valid() && ioctl(fd.get(), UFFDIO_API, &api) == 0) return fd;
  }
  return UniqueFd();
}

}  // namespace

RingViews::RingViews(uint64_t most_bytes)
    : left_(most_bytes), holes_(OpenUserfaultfd()) {}

bool RingViews::KeepHoles(void* at, uint64_t bytes) const {
  uffdio_register range = {};
  range.range.start = reinterpret_cast<uintptr_t>(at);
  range.range.len = bytes;
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  return ioctl(holes_.get(), UFFDIO_REGISTER, &range) == 0;
}

}  // namespace rocattach
