// Decides when a failed push is tried again.
#ifndef ROCATTACH_USERSPACE_PUSH_PUSH_SCHEDULE_H_
#define ROCATTACH_USERSPACE_PUSH_PUSH_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <random>

namespace rocattach {

// The meaning of a collector's answer, by the specification of OTLP/HTTP.
enum class PushResult {
  kAccepted,
  kRetry,    // the same request may be accepted later
  kRefused,  // it never will be
};

PushResult ResultOfHttpStatus(long status);

// Exponential back-off with jitter, so that a thousand services do not retry at the
// same moment. Not thread-safe.
class PushSchedule {
 public:
  static constexpr uint64_t kFirstDelayMsec = 1000;
  static constexpr uint64_t kLongestDelayMsec = 30'000;
  // Limit on the delay that a collector can request.
  static constexpr uint64_t kLongestRetryAfterMsec = 600'000;

  explicit PushSchedule(uint64_t seed) : random_(seed) {}

  // Call after a failure; returns the time to wait. `retry_after_seconds` is the delay
  // that the collector requested, if any.
  uint64_t NextDelayMsec(std::optional<uint64_t> retry_after_seconds);
  // Call after a success.
  void Reset() { failures_ = 0; }

 private:
  std::mt19937_64 random_;
  uint32_t failures_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PUSH_SCHEDULE_H_
