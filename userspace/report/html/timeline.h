// A timeline that a page can draw at any zoom, built in one pass and bounded memory.
#ifndef ROCATTACH_USERSPACE_REPORT_HTML_TIMELINE_H_
#define ROCATTACH_USERSPACE_REPORT_HTML_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace rocattach {

// Each lane is a row of buckets of equal width, which doubles whenever an operation
// lies outside them. In addition, single operations are kept: all of them while there
// is room, then the longest ones. A page draws buckets when it shows a long span, and
// operations when it shows a short one.
class Timeline {
 public:
  static constexpr size_t kBuckets = 4096;
  static constexpr size_t kMaxLanes = 256;
  static constexpr size_t kMaxOperations = 400'000;
  // Operations that would exceed this span are in no lane: their clock must be wrong.
  static constexpr int64_t kMaxSpanNs = int64_t{30} * 24 * 3600 * 1'000'000'000;
  static constexpr uint32_t kNoItem = UINT32_MAX;

  enum class LaneKind { kQueue, kCopies };
  struct LaneKey {
    uint32_t process = 0;  // chosen by the caller
    LaneKind kind = LaneKind::kQueue;
    uint32_t id = 0;  // the queue's id, or a v1::CopyDirection
    auto operator<=>(const LaneKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const LaneKey& key) {
      return H::combine(std::move(h), key.process, key.kind, key.id);
    }
  };

  struct Bucket {
    uint64_t busy_ns = 0;     // sum over its operations; may exceed its width
    uint32_t operations = 0;  // that begin in it
    // The item that fills more than half of it, if one does; otherwise a good guess.
    uint32_t item = kNoItem;
    uint64_t lead_ns = 0;
  };
  struct Lane {
    LaneKey key;
    std::vector<Bucket> buckets;
  };
  struct Operation {
    int64_t start_ns;
    uint64_t duration_ns;
    uint32_t lane;
    uint32_t item;  // chosen by the caller: a kernel
  };

  explicit Timeline(size_t max_operations = kMaxOperations)
      : max_operations_(max_operations) {}

  void Add(const LaneKey& lane, uint32_t item, int64_t start_ns, uint64_t duration_ns);
  // Sorts operations by lane and start. Call after the last Add.
  void Finish();

  bool empty() const { return lanes_.empty(); }
  const std::vector<Lane>& lanes() const { return lanes_; }
  const std::vector<Operation>& operations() const { return operations_; }
  // True if every operation of the lanes is in operations().
  bool complete() const { return left_out_ == 0; }
  // The start of the first bucket, and the width of each.
  int64_t origin_ns() const { return origin_ns_; }
  uint64_t width_ns() const { return uint64_t{1} << shift_; }
  // From the first start to the last end.
  int64_t first_ns() const { return first_ns_; }
  int64_t last_ns() const { return last_ns_; }
  // Operations that are in no lane: too many lanes, or implausible times.
  uint64_t without_lane() const { return without_lane_; }

 private:
  uint32_t LaneOf(const LaneKey& key);
  // Makes buckets wide enough for the times.
  void Cover(int64_t start_ns, int64_t end_ns);
  // Doubles the width; `below` moves the existing buckets into the upper half.
  void Widen(bool below);
  void AddToBuckets(Lane* lane, uint32_t item, int64_t start_ns, int64_t end_ns);
  void KeepOperation(const Operation& operation);
  // Sort key by importance, which is the duration; spreads ties evenly over time.
  static std::pair<uint64_t, uint64_t> Rank(const Operation& operation);

  const size_t max_operations_;
  std::vector<Lane> lanes_;
  absl::flat_hash_map<LaneKey, uint32_t> lane_of_;
  std::vector<Operation> operations_;
  std::pair<uint64_t, uint64_t> least_rank_ = {0, 0};
  uint64_t left_out_ = 0, without_lane_ = 0, touched_buckets_ = 0;
  bool begun_ = false;
  int64_t origin_ns_ = 0, first_ns_ = 0, last_ns_ = 0;
  unsigned shift_ = 4;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_HTML_TIMELINE_H_
