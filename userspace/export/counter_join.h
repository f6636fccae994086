// Joins counter values with their dispatches. Both come in batches of their own, the
// dispatches a little before or after the values, so that it is enough to remember the
// latest ones.
#ifndef ROCATTACH_USERSPACE_EXPORT_COUNTER_JOIN_H_
#define ROCATTACH_USERSPACE_EXPORT_COUNTER_JOIN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "userspace/export/common/export_sink.h"
#include "userspace/export/common/launch_links.h"

namespace rocattach {

class CounterJoin {
 public:
  using Emit = std::function<void(const CountedDispatch&)>;

  // `emit` is called from within the calls below, once for each counted dispatch.
  // `own_id`: returns the correlation id of an operation that no call submitted.
  CounterJoin(Emit emit, std::function<uint64_t(uint64_t)> own_id)
      : emit_(std::move(emit)), own_id_(std::move(own_id)) {}

  // Keeps at least the last `dispatches` without values, and up to `values` without a
  // dispatch. A dispatch can have dozens of values, and thousands of instances.
  void set_window(size_t dispatches, size_t values) {
    window_ = dispatches;
    value_window_ = values;
  }

  void Add(const LinkedDispatch& dispatch);
  // Adds the values of whole dispatches.
  void AddValues(absl::Span<const CounterRecord> values);
  // Emits the remaining values without a dispatch.
  void Finish();

  // Number of counted dispatches whose own record was not found.
  uint64_t unmatched() const { return unmatched_; }

 private:
  using Dispatches = absl::flat_hash_map<uint64_t, LinkedDispatch>;

  // The size of waiting values, in units of one value.
  static size_t Size(absl::Span<const CounterRecord> values);
  bool EmitWith(Dispatches* dispatches, absl::Span<const CounterRecord> values);
  void EmitOldest();

  Emit emit_;
  std::function<uint64_t(uint64_t)> own_id_;
  size_t window_ = size_t{1} << 16;
  size_t value_window_ = size_t{1} << 20;
  // Two generations: when the newer one is full, the older one is forgotten.
  Dispatches newer_, older_;
  absl::flat_hash_map<uint64_t, std::vector<CounterRecord>> waiting_;
  std::deque<uint64_t> waiting_order_;  // may contain operations that no longer wait
  size_t waiting_values_ = 0;           // with their instances
  uint64_t unmatched_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COUNTER_JOIN_H_
