// Busy time, idle gaps and overlap (several queues busy at once) of a GPU, computed
// from dispatches in any order, in bounded memory.
#ifndef ROCATTACH_USERSPACE_REPORT_GPU_ACTIVITY_H_
#define ROCATTACH_USERSPACE_REPORT_GPU_ACTIVITY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "userspace/base/duration_histogram.h"

namespace rocattach {

// Records arrive after operations have ended, thread by thread. So some are kept until
// all that began earlier must have arrived; a dispatch that arrives even later counts
// only from the time up to which the others have been accounted for.
class GpuActivity {
 public:
  // Maximum intervals kept for one GPU, and for all of a report, at 24 bytes each.
  static constexpr size_t kMaxKept = 128 << 10;
  static constexpr size_t kMaxKeptOfAll = 4 << 20;

  // `kept_of_all` counts the kept intervals of all GPUs; it is not used after Finish().
  explicit GpuActivity(size_t* kept_of_all, size_t max_kept = kMaxKept)
      : kept_of_all_(kept_of_all), max_kept_(max_kept) {}

  void Add(uint32_t queue, uint64_t start_ns, uint64_t end_ns);
  // Call after the last Add; the results are complete then.
  void Finish();

  // From the first start to the last end.
  uint64_t span_ns() const { return last_ns_ - first_ns_; }
  uint64_t busy_ns() const { return busy_ns_; }
  // The part of busy_ns in which at least two queues were busy.
  uint64_t overlap_ns() const { return overlap_ns_; }
  // The idle gaps between the first start and the last end.
  const DurationHistogram& gaps() const { return gaps_; }
  // Number of dispatches that came too late to count in full: if there are any, busy_ns
  // and overlap_ns are lower bounds.
  uint64_t late() const { return late_; }

 private:
  struct Interval {
    uint64_t start_ns, end_ns;
    uint32_t queue;
  };

  void PlaceOldest(size_t count);
  void Place(const Interval& interval);
  // Accounts for the time up to `to`.
  void Advance(uint64_t to);
  void Occupy(uint32_t queue, uint64_t end_ns);

  size_t* kept_of_all_;
  const size_t max_kept_;
  std::vector<Interval> kept_;
  // Time is accounted for up to now_. From there on queue_ is busy longest, until
  // end_ns_, and another queue until second_end_ns_. A dispatch that ends before both
  // changes neither result.
  uint64_t now_ = 0;
  uint64_t end_ns_ = 0, second_end_ns_ = 0;
  uint32_t queue_ = 0;
  bool started_ = false;
  uint64_t first_ns_ = 0, last_ns_ = 0;
  uint64_t busy_ns_ = 0, overlap_ns_ = 0, late_ = 0;
  DurationHistogram gaps_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_GPU_ACTIVITY_H_
