// The records that a target publishes for its sessions.
#ifndef ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_RECORDS_H_
#define ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "userspace/record/drain/collector_memory.h"
#include "userspace/record/drain/kernel_names.h"
#include "userspace/record/drain/value_slots.h"
#include "userspace/record/output/output_set.h"
#include "userspace/record/sessions/active_plan.h"
#include "userspace/record/target_meter.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

// Counts of the records that sessions requested.
struct SessionCounts {
  uint64_t counted = 0;  // dispatches with values, delivered
  uint64_t samples = 0;
  uint64_t api_calls = 0;
  uint64_t memory = 0;
  uint64_t counted_invalid = 0, samples_invalid = 0, api_calls_invalid = 0;
  uint64_t memory_invalid = 0;
  // Rejected by the exact filter: dispatches, and values of dispatches.
  uint64_t filtered = 0, counted_filtered = 0;
};

// Checks records against the plan that was written, never against the target's copy of
// it, and passes them to the stream and to the session's sink. On the recorder's
// thread.
class SessionRecords {
 public:
  // All arguments must outlive it.
  SessionRecords(ProcessId id, ProcessOutput output, OutputSet* output_set,
                 const RecentPlans* plans, KernelNames* kernels)
      : id_(id),
        output_(output),
        output_set_(output_set),
        plans_(plans),
        kernels_(kernels) {}

  // Consumes a dispatch whose fields have been checked, and removes flags that are only
  // for sessions. Returns true if it goes into the stream.
  bool ConsumeDispatch(uint32_t ring, rocattach_dispatch* record);
  bool ConsumeCopy(rocattach_copy* record);
  void ConsumeSample(uint32_t ring, const RecordSlot& slot);
  void ConsumeValues(uint32_t ring, const RecordSlot& slot);
  // Consumes a dispatch, whose fields have been checked, with all of its values, if
  // they come next in `slots` (which may be in the ring) and look like those of a
  // dispatch that was consumed before. Returns the number of their slots; 0: nothing
  // was consumed, use the other functions. The dispatch goes into the stream.
  size_t ConsumeCounted(uint32_t ring, rocattach_dispatch* record,
                        absl::Span<const RecordSlot> slots);
  void ConsumeInstances(uint32_t ring, const RecordSlot& slot);
  // False if the call is invalid.
  bool ConsumeApiCall(uint32_t ring, const RecordSlot& slot);
  // Consumes memory whose agent and queue have been checked; false if the rest is
  // invalid.
  bool ConsumeMemory(uint32_t ring, const rocattach_memory& record);
  // Consumes a part of the message of the ring's last API call.
  void ConsumeText(uint32_t ring, const RecordSlot& slot);
  // Call this for any record that does not continue the values of an operation, or the
  // text of a call.
  void EndValues(uint32_t ring);
  // Writes the collected values to the stream.
  void Write();

  // The process is gone and its memory drained: incomplete operations remain so.
  void End();

  const SessionCounts& counts() const { return counts_; }
  // `meter` receives the counters of dispatches, and samples; may be null.
  void set_meter(TargetMeter* meter) { meter_ = meter; }

 private:
  // Flags of a dispatch or copy in the stream; the rest are internal to target and
  // service.
  static constexpr uint16_t kStreamFlags = ROCATTACH_DISPATCH_UNTIMED |
                                           ROCATTACH_DISPATCH_APP_SIGNAL |
                                           ROCATTACH_DISPATCH_UNFINISHED;

  // An operation whose values are being read.
  struct Pending {
    enum class Of { kNothing, kDispatch, kSample } of = Of::kNothing;
    rocattach_dispatch dispatch = {};
    rocattach_sample sample = {};
    bool for_timestamps = false, for_counters = false;
    std::shared_ptr<ActivePlan> active;
    uint16_t pass = 0, slots = 0, next = 0;
    std::vector<rocattach_counter_value> values;
    uint16_t instance_slots = 0, next_instances = 0;
    std::vector<rocattach_instance_value> instances;
  };

  // Limits, for all rings together, of instance values and text bytes that wait for the
  // rest of their operation, whose slots are written one after the other. Beyond them
  // the operation is invalid, or its text is cut. The last one limits the room for
  // instances that a buffer keeps.
  static constexpr size_t kMostPendingInstances =
      4 * ROCATTACH_MAX_INSTANCE_SLOTS * ROCATTACH_INSTANCES_PER_SLOT;
  static constexpr size_t kMostPendingTextBytes = 1 << 20;
  static constexpr size_t kMostKeptInstances = 4096;

  // A call whose text is being read.
  struct PendingCall {
    ApiCallRecord record;
    std::shared_ptr<ActivePlan> active;  // null: there is none
    uint16_t slots = 0, next = 0;
  };

  // A dispatch and its values, which are those of one pass.
  struct CountedDispatch {
    const ActivePlan& active;
    const rocattach_dispatch& dispatch;
    uint32_t pass;
    absl::Span<const rocattach_counter_value> values;
  };

  // True if values or text that belong to the last record of a ring are awaited.
  bool IsPending(uint32_t ring) const;
  // Ring numbers are trusted: how many rings there are was fixed by the mapping.
  Pending& PendingOf(uint32_t ring) {
    return ring < pending_.size() ? pending_[ring] : NewPending(ring);
  }
  Pending& NewPending(uint32_t ring);
  bool Selects(ActivePlan* active, uint32_t selection,
               const rocattach_dispatch& record);
  bool Continues(const Pending& pending, const rocattach_values& values) const;
  // The same for the head only: the values themselves are not read.
  bool HeadContinues(const Pending& pending, const rocattach_values& values) const;
  void DropInstances(Pending* pending);
  void Complete(Pending* pending);
  void CompleteDispatch(const Pending& pending);
  void CompleteSample(const Pending& pending);
  void CompleteCall(PendingCall* pending);
  bool ContinuesInstances(const Pending& pending,
                          const rocattach_instances& instances) const;
  static void AppendRecords(CounterRecord record, const Pending& pending,
                            std::vector<CounterRecord>* batch);
  // Makes `active` the plan that the next events belong to.
  void UseEventsOf(const std::shared_ptr<ActivePlan>& active);
  // Queues a dispatch for the sink of `events_of_`, or for being counted there.
  void AddEvent(const CountedDispatch& counted, bool for_timestamps, bool for_counters);
  void PassEvents();
  void CountValues(const CountedDispatch& counted);
  // A dispatch that is selected for its counters, without instances.
  void AddCounted(const CountedDispatch& counted);
  // Room for values behind those of `operations_`.
  rocattach_counter_value* RoomFor(size_t values);
  // The common part of the records of its values.
  static CounterRecord RecordOf(const Pending& pending);
  void CountInvalid(const Pending& pending);

  const ProcessId id_;
  const ProcessOutput output_;
  OutputSet* const output_set_;
  const RecentPlans* const plans_;
  KernelNames* const kernels_;
  std::vector<Pending> pending_;            // by ring
  std::vector<PendingCall> pending_calls_;  // likewise
  size_t pending_instances_ = 0;            // values, of all rings
  size_t pending_text_bytes_ = 0;           // likewise
  // Dispatches without values of instances, and the values of all of them.
  std::vector<CounterOperation> operations_;
  std::vector<rocattach_counter_value> values_;  // never shrinks
  size_t values_used_ = 0;
  // Head of the first value slot of the last valid dispatch without instances: one that
  // differs only in the correlation id needs no look at the plan.
  ValueSlotHead good_head_;
  // Values of dispatches with instances, and values of samples.
  std::vector<CounterRecord> counter_batch_, sample_batch_;
  // The plan of all `events_`. Their readings are in `readings_`, and begin there at
  // the positions in `event_readings_`.
  std::shared_ptr<ActivePlan> events_of_;
  uint64_t unread_for_timestamps_ = 0, unread_for_counters_ = 0;  // only counted
  std::vector<DispatchEvent> events_;
  std::vector<size_t> event_readings_;
  std::vector<rocattach_counter_value> readings_;
  std::vector<ApiCallRecord> api_batch_;
  std::vector<MemoryRecord> memory_batch_;
  SessionCounts counts_;
  TargetMeter* meter_ = nullptr;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_RECORDS_H_
