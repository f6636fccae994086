#include "userspace/report/html/timeline.h"

#include <algorithm>
#include <bit>

namespace rocattach {
namespace {

// Each bucket that an operation covers costs a step, which adds up where many overlap;
// beyond this many steps, operations count only in the bucket in which they begin.
constexpr uint64_t kMaxTouchedBuckets = 2'000'000'000;

// Mixes all bits, so that the choice among equal durations is even.
uint64_t Mix(uint64_t value) {
  value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
  value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
  return value ^ value >> 33;
}

// Boyer and Moore's vote, with durations as weights.
void Vote(uint32_t item, uint64_t ns, Timeline::Bucket* bucket) {
  if (bucket->item == item) {
    bucket->lead_ns += ns;
  } else if (bucket->lead_ns >= ns) {
    bucket->lead_ns -= ns;
  } else {
    bucket->item = item;
    bucket->lead_ns = ns - bucket->lead_ns;
  }
}

void Join(const Timeline::Bucket& from, Timeline::Bucket* into) {
  into->busy_ns += from.busy_ns;
  into->operations += from.operations;
  if (from.item != Timeline::kNoItem) Vote(from.item, from.lead_ns, into);
}

}  // namespace

void Timeline::Add(const LaneKey& key, uint32_t item, int64_t start_ns,
                   uint64_t duration_ns) {
  if (!begun_) {
    begun_ = true;
    origin_ns_ = first_ns_ = last_ns_ = start_ns;
  }
  // In this order nothing overflows: first and last are less than the span apart.
  const bool near = duration_ns < static_cast<uint64_t>(kMaxSpanNs) &&
                    start_ns > last_ns_ - kMaxSpanNs &&
                    start_ns < first_ns_ + kMaxSpanNs;
  const int64_t end_ns = near ? start_ns + static_cast<int64_t>(duration_ns) : 0;
  const bool fits =
      near && std::max(end_ns, last_ns_) - std::min(start_ns, first_ns_) < kMaxSpanNs;
  const uint32_t lane = fits ? LaneOf(key) : kMaxLanes;
  if (lane == kMaxLanes) {
    ++without_lane_;
    return;
  }
  Cover(start_ns, end_ns);
  AddToBuckets(&lanes_[lane], item, start_ns, end_ns);
  KeepOperation({start_ns, duration_ns, lane, item});
}

void Timeline::Finish() {
  std::sort(operations_.begin(), operations_.end(),
            [](const Operation& a, const Operation& b) {
              return std::tie(a.lane, a.start_ns, a.duration_ns, a.item) <
                     std::tie(b.lane, b.start_ns, b.duration_ns, b.item);
            });
}

uint32_t Timeline::LaneOf(const LaneKey& key) {
  const auto known = lane_of_.find(key);
  if (known != lane_of_.end()) return known->second;
  if (lanes_.size() == kMaxLanes) return kMaxLanes;
  const uint32_t lane = static_cast<uint32_t>(lanes_.size());
  lanes_.push_back({key, std::vector<Bucket>(kBuckets)});
  lane_of_[key] = lane;
  return lane;
}

void Timeline::Cover(int64_t start_ns, int64_t end_ns) {
  while (start_ns < origin_ns_) Widen(/*below=*/true);
  while ((end_ns - origin_ns_) >> shift_ >= static_cast<int64_t>(kBuckets)) {
    Widen(/*below=*/false);
  }
  first_ns_ = std::min(first_ns_, start_ns);
  last_ns_ = std::max(last_ns_, end_ns);
}

void Timeline::Widen(bool below) {
  const size_t into = below ? kBuckets / 2 : 0;
  for (Lane& lane : lanes_) {
    std::vector<Bucket> wide(kBuckets);
    for (size_t i = 0; i < kBuckets; ++i) {
      Join(lane.buckets[i], &wide[into + i / 2]);
    }
    lane.buckets = std::move(wide);
  }
  if (below) origin_ns_ -= static_cast<int64_t>(kBuckets) << shift_;
  ++shift_;
}

void Timeline::AddToBuckets(Lane* lane, uint32_t item, int64_t start_ns,
                            int64_t end_ns) {
  size_t bucket = static_cast<size_t>((start_ns - origin_ns_) >> shift_);
  ++lane->buckets[bucket].operations;
  for (int64_t at = start_ns; at < end_ns; ++bucket) {
    const int64_t next =
        std::min(end_ns, origin_ns_ + (static_cast<int64_t>(bucket + 1) << shift_));
    const uint64_t ns = static_cast<uint64_t>(next - at);
    lane->buckets[bucket].busy_ns += ns;
    Vote(item, ns, &lane->buckets[bucket]);
    at = next;
    if (++touched_buckets_ > kMaxTouchedBuckets) return;
  }
}

std::pair<uint64_t, uint64_t> Timeline::Rank(const Operation& operation) {
  return {operation.duration_ns, Mix(static_cast<uint64_t>(operation.start_ns))};
}

void Timeline::KeepOperation(const Operation& operation) {
  if (left_out_ > 0 && Rank(operation) <= least_rank_) {
    ++left_out_;
    return;
  }
  operations_.push_back(operation);
  if (operations_.size() <= max_operations_) return;
  // Drop the lower-ranked half; later operations that rank as low are not kept either.
  const auto middle =
      operations_.begin() + static_cast<ptrdiff_t>(operations_.size() / 2);
  std::nth_element(
      operations_.begin(), middle, operations_.end(),
      [](const Operation& a, const Operation& b) { return Rank(a) > Rank(b); });
  least_rank_ = Rank(*middle);
  left_out_ += static_cast<uint64_t>(operations_.end() - middle);
  operations_.erase(middle, operations_.end());
}

}  // namespace rocattach
