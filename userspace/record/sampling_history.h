// At which level the dispatches of one process were sampled, by the time of their
// submission: records arrive later than the level changes.
#ifndef ROCATTACH_USERSPACE_RECORD_SAMPLING_HISTORY_H_
#define ROCATTACH_USERSPACE_RECORD_SAMPLING_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "userspace/record/sampling_level.h"

namespace rocattach {

class SamplingHistory {
 public:
  // From `since_ns` on, which is later than that of the call before.
  void Change(uint64_t since_ns, const SamplingLevel& level) {
    // Levels last for seconds, records in flight hardly ever do: the oldest may go.
    for (size_t i = spans_.size() - 1; i > 0; --i) spans_[i] = spans_[i - 1];
    spans_[0] = {since_ns, level};
    ever_ = true;
  }

  // How many dispatches a recorded one that was submitted then stands for; at least 1.
  uint32_t WeightAt(uint64_t submitted_ns) const {
    if (!ever_) return 1;
    for (const Span& span : spans_) {
      if (submitted_ns >= span.since_ns) {
        // The record of one that was only to be counted was begun just before.
        return span.level.counts_only() ? 1 : span.level.divisor();
      }
    }
    return 1;
  }
  // The level has ever changed.
  bool ever() const { return ever_; }

 private:
  struct Span {
    uint64_t since_ns = 0;
    SamplingLevel level = SamplingLevel::Every();
  };
  std::array<Span, 8> spans_;  // the last one first
  bool ever_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SAMPLING_HISTORY_H_
