// Distinguishes the attached process from its forked children.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_FORK_GUARD_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_FORK_GUARD_H_

#include <stdint.h>

#include "userspace/abi/atomics.h"

namespace rocattach::collector {

// A word on a page with MADV_WIPEONFORK: 1 in this process, 0 in every child, however
// it was created (fork, raw clone), without a handler. A vfork child shares our memory
// and so reads 1, which is harmless: it only execs.
class ForkGuard {
 public:
  // Maps the page. 0 or an errno value.
  int Arm();
  // True in the process that called Arm().
  bool Ours() const {
    return page_ != nullptr && __builtin_expect(LoadRelaxed(page_) != 0, true);
  }
  // True if Arm() has run in this process or in one that it descends from.
  bool armed() const { return page_ != nullptr; }

 private:
  uint32_t* page_ = nullptr;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_FORK_GUARD_H_
