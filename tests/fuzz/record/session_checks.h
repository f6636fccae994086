// Plans of sessions, and checks of what sinks and meters get, whatever a target does.
#ifndef ROCATTACH_TESTS_FUZZ_RECORD_SESSION_CHECKS_H_
#define ROCATTACH_TESTS_FUZZ_RECORD_SESSION_CHECKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "userspace/record/target_meter.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

// The plan with this number, see commands.h. It counts on agent 1, in passes of three
// counters and of one, and samples in one pass of two.
std::shared_ptr<const CompiledPlan> FuzzPlan(uint8_t number);

// Checks the records that a session receives against its plan.
class CheckingSink : public RecordSink {
 public:
  // `on_call` is called first in each call. Without `reads`, dispatches are only counted.
  CheckingSink(std::shared_ptr<const CompiledPlan> plan, bool reads,
               std::function<void()> on_call)
      : plan_(std::move(plan)), reads_(reads), on_call_(std::move(on_call)) {}

  void OnDispatches(ProcessId target, absl::Span<const DispatchEvent> events) override;
  bool ReadsDispatches() const override { return reads_; }
  void OnCopies(ProcessId target, absl::Span<const rocattach_copy> copies) override;
  void OnApiCalls(ProcessId target, absl::Span<const ApiEvent> events) override;
  void OnSamples(ProcessId target, absl::Span<const SampleEvent> events) override;
  void OnMemory(ProcessId target, uint64_t count) override;
  void OnTargetEnded(ProcessId target) override;

 private:
  void BeginCall();
  void CheckReadings(const std::vector<CounterPass>& passes, uint32_t pass,
                     absl::Span<const rocattach_counter_value> readings) const;

  const std::shared_ptr<const CompiledPlan> plan_;
  const bool reads_;
  const std::function<void()> on_call_;
  bool ended_ = false;
};

// Adds up what it receives.
class CheckingMeter : public TargetMeter {
 public:
  uint64_t dispatches = 0, copies = 0;
  bool ended = false;

  void AddDispatches(absl::Span<const rocattach_dispatch> records) override;
  void AddSampled(absl::Span<const rocattach_dispatch> records,
                  absl::Span<const uint32_t> weights) override;
  void AddCopies(absl::Span<const rocattach_copy> records) override;
  void AddCounters(uint32_t agent_id, const std::vector<std::string>& names,
                   absl::Span<const rocattach_counter_value> readings) override;
  void AddSample(uint32_t agent_id, const std::vector<std::string>& names,
                 absl::Span<const rocattach_counter_value> readings,
                 uint64_t span_ns) override;
  void Update(const TargetStanding& standing) override;
  void End() override;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_FUZZ_RECORD_SESSION_CHECKS_H_
