#include "injector/prepared_target.h"

#include <utility>

namespace rocattach {

StepResult PreparedTarget::Set(TargetFacts facts) {
  MemorySamples samples;
  absl::Status status = samples.AddFunctions(facts.functions, *facts.memory);
  if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  samples.Add(facts.cave.address, facts.cave.before);
  samples_ = std::move(samples);
  facts_ = std::move(facts);
  return StepOk();
}

TargetFacts PreparedTarget::Take() {
  samples_.clear();
  return std::exchange(facts_, {});
}

}  // namespace rocattach
