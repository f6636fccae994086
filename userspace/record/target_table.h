// All targets of a recorder, from their windows until they are closed.
#ifndef ROCATTACH_USERSPACE_RECORD_TARGET_TABLE_H_
#define ROCATTACH_USERSPACE_RECORD_TARGET_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "schemas/stream.pb.h"
#include "userspace/base/process.h"
#include "userspace/record/drain/drain_shares.h"
#include "userspace/record/drain/operation_counts.h"
#include "userspace/record/ending_targets.h"
#include "userspace/record/target.h"

namespace rocattach {

// Owns the targets, and divides the cost of draining among them. Not thread-safe.
class TargetTable {
 public:
  using Targets = absl::flat_hash_map<ProcessId, std::unique_ptr<Target>>;
  // Called with a target that has ended, and is drained or out of time, before it is
  // destroyed.
  using Close = std::function<void(Target*, const v1::ProcessEnd&)>;

  explicit TargetTable(Close close) : close_(std::move(close)) {}

  // Adds the target of a process that has no living one.
  Target* Add(const ProcessId& process, std::unique_ptr<Target> target);
  // Targets whose processes live, as far as is known.
  const Targets& living() const { return living_; }
  // The living target of a process, or null.
  Target* FindLiving(const ProcessId& process) const;
  // A target that has ended and has a collector, or null.
  Target* FindEnding(const ProcessId& process) { return ending_.Find(process); }
  // A target of either kind that has a collector, or null.
  Target* FindWithMemory(const ProcessId& process);
  bool has_ending() const { return !ending_.empty(); }
  // Tells the meters of all targets what is not in the records.
  void UpdateMeters() const;
  // Numbers of living targets by verdict ("open": none yet), and of "ending" ones.
  std::map<std::string, uint64_t> CountByState() const;
  // True if every living target has its verdict.
  bool AllSettled() const;

  // Memory that the targets of this user share.
  std::shared_ptr<UserMemory> MemoryOfUser(uint32_t uid);

  // Begins a round of draining: gives targets that are behind their shares of it.
  void ShareOut();
  // Drains a living target within its share; see Target::Drain.
  uint64_t Drain(Target* target, uint64_t now_ns) const;
  // Drains ended targets, each within its share, and closes those that are done.
  void DrainEnding(uint64_t now_ns);
  // Updates what ended targets add to the totals, and returns the sum.
  OperationCounts PublishEnding() { return ending_.Publish(); }

  // The process has ended: its target is no longer living; it is closed when drained.
  void End(const ProcessId& process, const v1::ProcessEnd& end);
  // Processes that have ended, and that the last call already found ended: no event
  // will come.
  std::vector<ProcessId> FindLost();

  // Nothing is recorded any more; does not wait.
  void EndRecording();
  // Stops recording, and drains until what is in flight has finished, for at most
  // `timeout_ns`.
  void Quiesce(uint64_t timeout_ns);
  // The run is over: drains all for a limited time, and closes them.
  void EndAll();

 private:
  const Close close_;
  Targets living_;
  EndingTargets ending_;
  DrainShares shares_;
  absl::flat_hash_map<uint32_t, std::weak_ptr<UserMemory>> user_memory_;
  absl::flat_hash_set<ProcessId> suspected_gone_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_TARGET_TABLE_H_
