#include "userspace/base/deadlock_checks.h"

#include "absl/synchronization/mutex.h"

namespace rocattach {

void IgnorePotentialDeadlocks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace rocattach
