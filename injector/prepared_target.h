// The facts that an attach to a running process finds before it stops a thread.
#ifndef ROCATTACH_INJECTOR_PREPARED_TARGET_H_
#define ROCATTACH_INJECTOR_PREPARED_TARGET_H_

#include "injector/failure.h"
#include "injector/process/memory_samples.h"
#include "injector/process/target_facts.h"

namespace rocattach {

// The process runs on between the preparation and the stop, and may unmap libraries or
// replace its program, so all of this has to be confirmed once the thread has stopped.
class PreparedTarget {
 public:
  bool ready() const { return !samples_.empty(); }
  const TargetFacts& facts() const { return facts_; }

  // Takes the facts, all of which must be set, and samples the memory for StillHolds.
  StepResult Set(TargetFacts facts);
  // True if the functions and the cave are in memory as they were.
  bool StillHolds() const { return samples_.StillHold(*facts_.memory); }
  // Moves the facts out, once.
  TargetFacts Take();

 private:
  TargetFacts facts_;  // `maps` covers the whole process
  MemorySamples samples_;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PREPARED_TARGET_H_
