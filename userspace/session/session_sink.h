// Turns what a backend delivers into records of a session's buffers.
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
#include "userspace/session/record_buffer.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Where the records of each filter go; nullptr: nowhere.
struct SessionRoutes {
  std::shared_ptr<RecordBuffer> timestamps, counters, api, sampler;
  SyncCallback sync;
};

// One per start of a session; used by the backend from any thread.
class SessionSink : public RecordSink {
 public:
  // `ended` runs when a target has ended and its buffers have been flushed.
  SessionSink(SessionId session, std::vector<std::string> counter_names,
              std::vector<std::string> sampler_names,
              std::function<void(TargetId)> ended);

  // Before the backend starts that target.
  void AddTarget(TargetId target, std::shared_ptr<const CompiledPlan> plan);
  // Takes effect with the next event.
  void SetRoutes(SessionRoutes routes);
  // No `ended` any more.
  void Detach();

  // Records that had no buffer to go to. What buffers dropped, they count themselves.
  uint64_t unrouted() const;

  void OnDispatches(TargetId target, absl::Span<const DispatchEvent> events) override;
  void OnCopies(TargetId target, absl::Span<const rocattach_copy> copies) override;
  void OnApiCalls(TargetId target, absl::Span<const ApiEvent> events) override;
  void OnSamples(TargetId target, absl::Span<const SampleEvent> events) override;
  void OnTargetEnded(TargetId target) override;

 private:
  struct Now {
    SessionRoutes routes;
    std::shared_ptr<const CompiledPlan> plan;  // nullptr: not one of our targets
  };
  Now Look(TargetId target) const;
  void Put(const std::shared_ptr<RecordBuffer>& buffer,
           const rocattach_record_header_t* header);
  void PutTracer(const Now& now, const rocattach_record_tracer_t& record);

  const SessionId session_;
  const std::vector<std::string> counter_names_, sampler_names_;
  mutable std::mutex mutex_;
  std::function<void(TargetId)> ended_;
  std::map<TargetId, std::shared_ptr<const CompiledPlan>> plans_;
  SessionRoutes routes_;
  uint64_t unrouted_ = 0;
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
