#include "userspace/watch/late/awaited_reports.h"

#include <algorithm>

namespace rocattach {

void AwaitedReports::Add(uint64_t window_id, uint64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  if (windows_.size() >= kMost) {
    const uint64_t oldest = now_ns - std::min(now_ns, kPatienceNs);
    absl::erase_if(windows_, [oldest](uint64_t id) { return id < oldest; });
  }
  windows_.insert(window_id);
}

bool AwaitedReports::Remove(uint64_t window_id) {
  absl::MutexLock lock(&mutex_);
  return windows_.erase(window_id) != 0;
}

}  // namespace rocattach
