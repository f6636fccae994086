// Limits the wait for a lock whose holder has lost its CPU.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_PATIENCE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_PATIENCE_H_

#include <stdint.h>

#include "userspace/abi/atomics.h"

namespace rocattach::collector {

// Lets the program's threads wait for one of the collector's locks. The lock's holder
// has little to do and only needs a CPU, which it soon gets unless stopped or starved:
// once a thread has waited in vain, no other waits until the lock has been free again.
class Patience {
 public:
  bool Lock(TinyLock* lock) {
    if (Unlikely(!lock->TryLock()) && !Wait(lock)) return false;
    if (Unlikely(LoadRelaxed(&in_vain_))) StoreRelaxed(&in_vain_, false);
    return true;
  }

 private:
  static constexpr uint32_t kMsec = 100;

  bool Wait(TinyLock* lock) {
    if (LoadRelaxed(&in_vain_)) return false;
    if (lock->LockFor(kMsec)) return true;
    StoreRelaxed(&in_vain_, true);
    return false;
  }

  bool in_vain_ = false;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_PATIENCE_H_
