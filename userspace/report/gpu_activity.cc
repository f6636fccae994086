#include "userspace/report/gpu_activity.h"

#include <algorithm>

namespace rocattach {

void GpuActivity::Add(uint32_t queue, uint64_t start_ns, uint64_t end_ns) {
  kept_.push_back({start_ns, end_ns, queue});
  ++*kept_of_all_;
  if (kept_.size() >= max_kept_ || *kept_of_all_ >= kMaxKeptOfAll) {
    PlaceOldest((kept_.size() + 1) / 2);
  }
}

void GpuActivity::Finish() {
  PlaceOldest(kept_.size());
  kept_.shrink_to_fit();
  Advance(last_ns_);
  kept_of_all_ = nullptr;
}

void GpuActivity::PlaceOldest(size_t count) {
  auto earlier = [](const Interval& a, const Interval& b) {
    return a.start_ns < b.start_ns;
  };
  if (!std::is_sorted(kept_.begin(), kept_.end(), earlier)) {
    std::sort(kept_.begin(), kept_.end(), earlier);
  }
  const auto end = kept_.begin() + static_cast<ptrdiff_t>(count);
  for (auto it = kept_.begin(); it != end; ++it) Place(*it);
  kept_.erase(kept_.begin(), end);
  *kept_of_all_ -= count;
}

void GpuActivity::Place(const Interval& interval) {
  if (!started_) {
    started_ = true;
    first_ns_ = last_ns_ = now_ = end_ns_ = second_end_ns_ = interval.start_ns;
    queue_ = interval.queue;
  }
  last_ns_ = std::max(last_ns_, interval.end_ns);
  if (interval.start_ns < now_) {
    first_ns_ = std::min(first_ns_, interval.start_ns);
    ++late_;
  } else {
    Advance(interval.start_ns);
  }
  Occupy(interval.queue, interval.end_ns);
}

void GpuActivity::Advance(uint64_t to) {
  if (end_ns_ > now_) busy_ns_ += std::min(end_ns_, to) - now_;
  if (second_end_ns_ > now_) overlap_ns_ += std::min(second_end_ns_, to) - now_;
  const uint64_t idle_from = std::max(end_ns_, now_);
  if (to > idle_from) gaps_.Add(to - idle_from);
  now_ = to;
}

void GpuActivity::Occupy(uint32_t queue, uint64_t end_ns) {
  if (queue == queue_) {
    end_ns_ = std::max(end_ns_, end_ns);
  } else if (end_ns > end_ns_) {
    second_end_ns_ = end_ns_;
    queue_ = queue;
    end_ns_ = end_ns;
  } else if (end_ns > second_end_ns_) {
    second_end_ns_ = end_ns;
  }
}

}  // namespace rocattach
