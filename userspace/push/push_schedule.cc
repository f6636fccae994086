#include "userspace/push/push_schedule.h"

#include <algorithm>

namespace rocattach {

PushResult ResultOfHttpStatus(long status) {
  if (status >= 200 && status < 300) return PushResult::kAccepted;
  switch (status) {
    case 429:  // too many requests
    case 502:
    case 503:
    case 504:
      return PushResult::kRetry;
    default:
      return PushResult::kRefused;
  }
}

uint64_t PushSchedule::NextDelayMsec(std::optional<uint64_t> retry_after_seconds) {
  const uint32_t doublings = std::min(failures_++, 16u);
  const uint64_t base = std::min(kFirstDelayMsec << doublings, kLongestDelayMsec);
  if (retry_after_seconds.has_value()) {
    const uint64_t asked =
        std::min(*retry_after_seconds, kLongestRetryAfterMsec / 1000) * 1000;
    // Never earlier than requested, and later by up to a second.
    return asked + std::uniform_int_distribution<uint64_t>(0, 1000)(random_);
  }
  return std::uniform_int_distribution<uint64_t>(base / 2, base)(random_);
}

}  // namespace rocattach
