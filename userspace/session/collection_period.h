// Collection periods: wait, collect, repeat.
#ifndef ROCATTACH_USERSPACE_SESSION_COLLECTION_PERIOD_H_
#define ROCATTACH_USERSPACE_SESSION_COLLECTION_PERIOD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// About nine years: sums of such times stay far below the limit of 64 bits.
inline constexpr uint64_t kLongestTimeNs = 300'000'000'000'000'000;

// Repeated `repeat` times: nothing for `delay_ns`, then collecting for `duration_ns`.
struct CollectionPeriod {
  uint64_t delay_ns = 0;
  uint64_t duration_ns = 0;  // never 0
  uint64_t repeat = 1;       // 0: forever
  bool operator==(const CollectionPeriod&) const = default;
};

// Nanoseconds of one unit: hour, min, sec, msec, usec, nsec, and h, m, s, ms, us, ns.
absl::StatusOr<uint64_t> UnitNs(absl::string_view unit);

// rocprofv3's "delay:duration:repeat", in `unit`; a number may have its own unit as a
// suffix ("100ms:2s:0"), and decimals.
absl::StatusOr<CollectionPeriod> ParseCollectionPeriod(absl::string_view text,
                                                       absl::string_view unit = "sec");

// Several periods, one after the other. A period that repeats forever is the last one.
class CollectionSchedule {
 public:
  // No periods: always collecting.
  explicit CollectionSchedule(std::vector<CollectionPeriod> periods)
      : periods_(std::move(periods)) {}

  struct Step {
    bool collect = false;
    // Time of the next change, since the beginning; UINT64_MAX: never.
    uint64_t until_ns = UINT64_MAX;
    bool over = false;  // nothing more will be collected
  };
  Step At(uint64_t elapsed_ns) const;
  // The end of the uninterrupted collecting that `elapsed_ns` lies in; `elapsed_ns`
  // itself if it does not collect then, UINT64_MAX: never.
  uint64_t CollectsUntil(uint64_t elapsed_ns) const;
  // Number of times that collecting has started by then.
  uint64_t Begun(uint64_t elapsed_ns) const;

 private:
  std::vector<CollectionPeriod> periods_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_COLLECTION_PERIOD_H_
