// What an attach to a running process finds out before it stops a thread.
#ifndef ROCATTACH_INJECTOR_PREPARED_TARGET_H_
#define ROCATTACH_INJECTOR_PREPARED_TARGET_H_

#include "injector/failure.h"
#include "injector/memory_samples.h"
#include "injector/target_facts.h"

namespace rocattach {

// The process runs on between the preparation and the stop, and may unmap libraries or
// replace its program, so all of this has to be confirmed once the thread has stopped.
class PreparedTarget {
 public:
  bool ready() const { return !samples_.empty(); }
  const TargetFacts& facts() const { return facts_; }

  // Takes over the facts, all of which are set, and what StillHolds compares.
  StepResult Set(TargetFacts facts);
  // Whether the functions and the cave are in memory as they were.
  bool StillHolds() const { return samples_.StillHold(*facts_.memory); }
  // The facts, once.
  TargetFacts Take();

 private:
  TargetFacts facts_;  // `maps` has the whole process
  MemorySamples samples_;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PREPARED_TARGET_H_
