// When a push is tried again.
#ifndef ROCATTACH_USERSPACE_PUSH_PUSH_SCHEDULE_H_
#define ROCATTACH_USERSPACE_PUSH_PUSH_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <random>

namespace rocattach {

// What a collector's answer means, by the specification of OTLP/HTTP.
enum class PushResult {
  kAccepted,
  kRetry,    // it may accept the same a moment later
  kRefused,  // it never will
};

PushResult ResultOfHttpStatus(long status);

// Exponential back-off with jitter, so that a thousand services do not come back at the
// same moment. Not thread-safe.
class PushSchedule {
 public:
  static constexpr uint64_t kFirstDelayMsec = 1000;
  static constexpr uint64_t kLongestDelayMsec = 30'000;
  // A collector that asks for more is asked again after this.
  static constexpr uint64_t kLongestRetryAfterMsec = 600'000;

  explicit PushSchedule(uint64_t seed) : random_(seed) {}

  // After a failure: how long to wait. `retry_after_seconds` is what the collector
  // asked for, if anything.
  uint64_t NextDelayMsec(std::optional<uint64_t> retry_after_seconds);
  // After a success.
  void Reset() { failures_ = 0; }

 private:
  std::mt19937_64 random_;
  uint32_t failures_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PUSH_SCHEDULE_H_
