// The sampling levels of one process's dispatches, by the time of their submission:
// records may arrive after the level has changed.
#ifndef ROCATTACH_USERSPACE_RECORD_SAMPLING_HISTORY_H_
#define ROCATTACH_USERSPACE_RECORD_SAMPLING_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "userspace/record/sampling_level.h"

namespace rocattach {

class SamplingHistory {
 public:
  // Sets the level from `since_ns` on, which is later than that of the previous call.
  void Change(uint64_t since_ns, const SamplingLevel& level) {
    // Levels last for seconds, records are rarely in flight that long: drop the oldest.
    for (size_t i = spans_.size() - 1; i > 0; --i) spans_[i] = spans_[i - 1];
    spans_[0] = {since_ns, level};
    ever_ = true;
  }

  // Number of dispatches that a recorded one, submitted then, stands for; at least 1.
  uint32_t WeightAt(uint64_t submitted_ns) const {
    if (!ever_) return 1;
    for (const Span& span : spans_) {
      if (submitted_ns >= span.since_ns) {
        // A record at the level of counting only was begun just before that level.
        return span.level.counts_only() ? 1 : span.level.divisor();
      }
    }
    return 1;
  }
  // True if the level has ever changed.
  bool ever() const { return ever_; }

 private:
  struct Span {
    uint64_t since_ns = 0;
    SamplingLevel level = SamplingLevel::Every();
  };
  std::array<Span, 8> spans_;  // latest first
  bool ever_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SAMPLING_HISTORY_H_
