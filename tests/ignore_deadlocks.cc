// Part of every test where Abseil's search for deadlocks cannot be relied on.
#include "absl/synchronization/mutex.h"

namespace {

[[maybe_unused]] const bool ignored = [] {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return true;
}();

}  // namespace
