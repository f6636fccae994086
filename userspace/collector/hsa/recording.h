// Determines what the HSA backend currently records.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_RECORDING_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_RECORDING_H_

#include <stdint.h>

#include "userspace/collector/common/process.h"

namespace rocattach::collector {

// Records are requested by the baseline, which is on or off for a whole target, and by
// the active plan.
class HsaRecording {
 public:
  void Init(const Process* process) { process_ = process; }

  // Values of ROCATTACH_PLAN_RECORD_*; 0: no plan.
  void SetPlanKinds(uint32_t kinds) { StoreRelaxed(&plan_kinds_, kinds); }
  uint32_t plan_kinds() const { return LoadRelaxed(&plan_kinds_); }

  bool Baseline(uint64_t flag) const { return process_->Baseline(flag); }
  bool Planned(uint32_t record_kind) const {
    return (plan_kinds() & record_kind) != 0 &&
           LoadRelaxed(&process_->self_stopped) == 0;
  }
  // Either of the two.
  bool Dispatches() const {
    return Baseline(ROCATTACH_RECORDING_DISPATCHES) ||
           Planned(ROCATTACH_PLAN_RECORD_DISPATCHES);
  }
  bool Copies() const {
    return Baseline(ROCATTACH_RECORDING_COPIES) ||
           Planned(ROCATTACH_PLAN_RECORD_COPIES);
  }

  // Number of the current stop, or 0. During a stop recording is requested, but nothing
  // drains the rings: what passes meanwhile is lost.
  uint32_t Interruption() const { return LoadRelaxed(&process_->self_stopped); }
  // True if what passed during that stop counts as missed.
  bool IsMissed(uint32_t stop) const {
    return stop >= Process::kFirstStop && stop > LoadRelaxed(&process_->forgotten_stop);
  }

  // The plan that decides; nullptr if there is none.
  const PlanState* plan() const { return process_->plans.active(); }

 private:
  const Process* process_ = nullptr;
  uint32_t plan_kinds_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_RECORDING_H_
