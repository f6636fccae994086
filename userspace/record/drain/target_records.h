// The records of one process on their way from its rings into its stream.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_TARGET_RECORDS_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_TARGET_RECORDS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "userspace/record/drain/collector_memory.h"
#include "userspace/record/drain/operation_counts.h"
#include "userspace/record/drain/target_dictionary.h"
#include "userspace/record/drain/thread_names.h"
#include "userspace/record/output/output_set.h"
#include "userspace/record/sampling_history.h"
#include "userspace/record/sessions/target_session.h"
#include "userspace/record/target_meter.h"
#include "userspace/stream/launch_order.h"

namespace rocattach {

// Checks every reference in a record, passes the record through the sessions' filters,
// and writes it in batches.
class TargetRecords {
 public:
  struct Counts {
    OperationCounts operations;  // consumed
    uint64_t invalid = 0;        // dispatches and copies with impossible contents
    uint64_t malformed = 0;      // records of unknown kind
    uint64_t untimed = 0, unfinished = 0;
    uint64_t times_not_believable = 0;  // dispatches with the times of others
    uint64_t others = 0;                // neither dispatches nor copies
  };

  // All must outlive it. `process` is the one whose threads the records name.
  TargetRecords(const v1::Process& process, ProcessOutput output, OutputSet* output_set,
                TargetSession* session, const TargetDictionary* dictionary,
                uint32_t rings);

  // Consumes slots of one ring, which may still be in it, and writes them. Returns
  // their cost, in dispatches.
  uint64_t Consume(uint32_t ring, absl::Span<const RecordSlot> slots);
  // From here on, each operation is consumed once, whether it comes as a record or as
  // unfinished. Call this before each part of the in-flight table is read.
  // `most_unfinished`: the size of the table. A process that runs on, and publishes
  // much more than could be in flight, is not recorded any further.
  void BeginEnd(size_t most_unfinished);
  // Consumes the record of an operation that was in flight when its process ended, or
  // when recording stopped. After BeginEnd().
  void ConsumeUnfinished(RecordSlot slot);
  // Writes what ConsumeUnfinished() has collected.
  void Write();

  const Counts& counts() const { return counts_; }
  // Sets the sampling level of dispatches that are submitted from `since_ns` on
  // (CLOCK_BOOTTIME) and that no session has selected.
  void SetSampling(uint64_t since_ns, const SamplingLevel& level) {
    sampling_.Change(since_ns, level);
  }
  // `meter` receives all records that are written; may be null.
  void set_meter(TargetMeter* meter) { meter_ = meter; }

 private:
  void ConsumeOne(uint32_t ring, const RecordSlot& slot);
  // During the end: true if it is an operation that has already been consumed.
  bool WasConsumed(const RecordSlot& slot);
  // Consumes the dispatch that `slots` begin with, and returns the number of slots
  // behind it that were consumed as its values.
  size_t ConsumeDispatchSlot(uint32_t ring, absl::Span<const RecordSlot> slots);
  // Returns true if the dispatch is plausible; clears impossible values in it.
  bool CheckDispatch(rocattach_dispatch* record);
  void ConsumeCopy(rocattach_copy record);
  void ConsumeMemory(uint32_t ring, rocattach_memory record);
  void ConsumeClock(const rocattach_clock& record);
  // Clears impossible times and counts. `Record`: rocattach_dispatch or rocattach_copy.
  template <typename Record>
  void CheckTimes(Record* record);

  const ProcessOutput output_;
  OutputSet* const output_set_;
  TargetSession* const session_;
  const TargetDictionary* const dictionary_;
  ThreadNames threads_;
  Counts counts_;
  TargetMeter* meter_ = nullptr;
  std::vector<uint64_t> last_correlation_;  // the last operation of each ring
  bool ending_ = false;
  size_t most_consumed_ = 0;  // maximum number of operations during the end
  absl::flat_hash_set<uint64_t> consumed_;  // their correlation ids
  std::vector<rocattach_dispatch> dispatch_batch_;
  LaunchOrder launch_order_;
  SamplingHistory sampling_;
  std::vector<uint32_t> weights_;  // of dispatch_batch_, once anything was sampled
  std::vector<rocattach_copy> copy_batch_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_TARGET_RECORDS_H_
