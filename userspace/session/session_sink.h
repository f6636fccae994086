// Turns what a backend delivers into records of a session.
#ifndef ROCATTACH_USERSPACE_SESSION_SESSION_SINK_H_
#define ROCATTACH_USERSPACE_SESSION_SESSION_SINK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/requested_values.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_end.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Counts of what arrived for a session from its processes, read or not.
struct CollectedCounts {
  uint64_t dispatches = 0, counted = 0, samples = 0, api_calls = 0, copies = 0;
  uint64_t memory = 0;
  void Add(const CollectedCounts& more);
};

// One per start of a session on this program's processes; used by the backend from any
// thread.
class SessionSink : public RecordSink {
 public:
  // `consumer` may be null: records are only counted then. `ended` runs when a target
  // has ended and the consumer has all of its records.
  SessionSink(std::shared_ptr<RecordConsumer> consumer,
              const std::vector<FilterSpec>& filters,
              std::shared_ptr<const SessionEnd> end,
              std::function<void(ProcessId)> ended);

  // Call this before the backend starts that target.
  void AddTarget(ProcessId target, std::shared_ptr<const CompiledPlan> plan);

  void OnDispatches(ProcessId target, absl::Span<const DispatchEvent> events) override;
  bool ReadsDispatches() const override { return consumer_ != nullptr; }
  void CountDispatches(uint64_t for_timestamps, uint64_t for_counters) override;
  void OnCopies(ProcessId target, absl::Span<const rocattach_copy> copies) override;
  void OnApiCalls(ProcessId target, absl::Span<const ApiEvent> events) override;
  void OnSamples(ProcessId target, absl::Span<const SampleEvent> events) override;
  void OnMemory(ProcessId target, uint64_t count) override;
  uint64_t ends_ns() const override { return end_->ns(); }
  void OnTargetEnded(ProcessId target) override;

  CollectedCounts collected() const;

 private:
  // Data that is needed for each record of a process.
  struct Target {
    std::shared_ptr<const CompiledPlan> plan;
    // By index of plan->architectures.
    std::vector<RequestedValues> dispatch, sampler;
    // Kept so that a record needs no allocation: calls for one target come one at a
    // time.
    std::vector<RecordValue> values;
    std::vector<uint64_t> records;
  };

  void Count(const CollectedCounts& more);
  // nullptr if it is not one of this sink's targets, or nobody reads its records.
  std::shared_ptr<Target> FindRead(ProcessId target) const;
  // Fills target->values from readings of the GPU.
  static void Request(const std::vector<RequestedValues>& requested, uint32_t agent_id,
                      uint32_t pass, absl::Span<const rocattach_counter_value> readings,
                      Target* target);
  // Adds `fixed`, followed by target->values.
  template <typename Fixed>
  void AddRecord(const Fixed& fixed, Target* target);
  // The same, followed by the text of a marker.
  void AddRecord(TraceRecord fixed, absl::string_view text, Target* target);
  // Adds a record of this size, in 8-byte aligned memory.
  uint64_t* AddBytes(size_t bytes, Target* target);
  void PassOn(Target* target);

  const std::shared_ptr<RecordConsumer> consumer_;
  std::vector<std::string> counter_names_, sampler_names_;
  const std::shared_ptr<const SessionEnd> end_;
  const std::function<void(ProcessId)> ended_;
  mutable absl::Mutex mutex_;
  CollectedCounts collected_ ABSL_GUARDED_BY(mutex_);
  std::map<ProcessId, std::shared_ptr<Target>> targets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_SESSION_SINK_H_
