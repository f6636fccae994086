// Targets whose processes have ended and whose memory is still being drained.
#ifndef ROCATTACH_USERSPACE_RECORD_ENDING_TARGETS_H_
#define ROCATTACH_USERSPACE_RECORD_ENDING_TARGETS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/functional/function_ref.h"
#include "schemas/stream.pb.h"
#include "userspace/record/drain/drain_shares.h"
#include "userspace/record/drain/operation_counts.h"
#include "userspace/record/target.h"

namespace rocattach {

// They are drained in rounds like all others, so that a ring full of garbage does not
// keep the recorder from serving the others. Not thread-safe.
class EndingTargets {
 public:
  // Limit per user. Beyond it, what is left in the user's oldest one counts as lost.
  static constexpr size_t kMaxPerUser = 64;
  // Called with a target that is drained, or out of time, and with its end.
  using Close = absl::FunctionRef<void(Target*, const v1::ProcessEnd&)>;

  void Add(std::unique_ptr<Target> target, const v1::ProcessEnd& end, Close close);
  // Drains each within its share.
  void Drain(uint64_t now_ns, const DrainShares& shares, Close close);
  void CloseAll(Close close);

  bool empty() const { return entries_.empty(); }
  // The target of this process if it is here and has a collector, or null.
  Target* Find(ProcessId id);
  void AddTo(DrainShares* shares) const;
  void ForEach(absl::FunctionRef<void(Target*)> visit) const;
  // Updates what each adds to the totals (Target::published), and returns the sum.
  OperationCounts Publish();

 private:
  struct Entry {
    std::unique_ptr<Target> target;
    v1::ProcessEnd end;
  };
  std::deque<Entry> entries_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_ENDING_TARGETS_H_
