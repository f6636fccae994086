// Turns what a backend delivers into records of a session.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_SINK_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_SINK_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "userspace/session/compiled_plan.h"
#include "userspace/session/record_router.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// One per start of a session on this program's processes; used by the backend from any
// thread.
class SessionSink : public RecordSink {
 public:
  // `ended` runs when a target has ended and its buffers have been flushed.
  SessionSink(std::shared_ptr<RecordRouter> router,
              const std::vector<FilterSpec>& filters,
              std::function<void(TargetId)> ended);

  // Before the backend starts that target.
  void AddTarget(TargetId target, std::shared_ptr<const CompiledPlan> plan);

  void OnDispatches(TargetId target, absl::Span<const DispatchEvent> events) override;
  void OnCopies(TargetId target, absl::Span<const rocattach_copy> copies) override;
  void OnApiCalls(TargetId target, absl::Span<const ApiEvent> events) override;
  void OnSamples(TargetId target, absl::Span<const SampleEvent> events) override;
  void OnTargetEnded(TargetId target) override;

 private:
  // nullptr: not one of our targets.
  std::shared_ptr<const CompiledPlan> PlanOf(TargetId target) const;

  const std::shared_ptr<RecordRouter> router_;
  std::vector<std::string> counter_names_, sampler_names_;
  const std::function<void(TargetId)> ended_;
  mutable std::mutex mutex_;
  std::map<TargetId, std::shared_ptr<const CompiledPlan>> plans_;
};

// One of kAgentConstants; nullopt when the GPU's property is not known.
std::optional<double> AgentConstant(const TargetGpu& gpu, const std::string& name);

// The values that a pass gives for the names of a request: hardware counters as sums,
// metrics where the pass measured all of their counters.
std::vector<rocattach_record_counter_t> RequestedValues(
    const CompiledPlan& plan, const PlanArchitecture& architecture,
    const PassPlan& passes, const TargetGpu& gpu, const std::vector<std::string>& names,
    uint32_t pass, absl::Span<const CounterReading> readings);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_SINK_H_
