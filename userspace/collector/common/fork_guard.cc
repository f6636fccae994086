#include "userspace/collector/common/fork_guard.h"

#include <sys/mman.h>

#include "userspace/collector/common/memory.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace rocattach::collector {

int ForkGuard::Arm() {
  void* page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return Failed(ROCATTACH_SETUP_MMAP, errno);
  // Linux 4.14. The service needs 5.8 and more, so there is no fallback.
  if (madvise(page, 4096, MADV_WIPEONFORK) != 0) {
    int error = errno;
    munmap(page, 4096);
    return Failed(ROCATTACH_SETUP_MADVISE, error);
  }
  page_ = static_cast<uint32_t*>(page);
  StoreRelaxed(page_, 1u);
  return 0;
}

}  // namespace rocattach::collector
