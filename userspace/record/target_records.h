// The records of one process on their way from its rings into its stream.
#ifndef ROCATTACH_USERSPACE_RECORD_TARGET_RECORDS_H_
#define ROCATTACH_USERSPACE_RECORD_TARGET_RECORDS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "userspace/record/collector_memory.h"
#include "userspace/record/operation_counts.h"
#include "userspace/record/output_set.h"
#include "userspace/record/sampling_history.h"
#include "userspace/record/target_dictionary.h"
#include "userspace/record/target_meter.h"
#include "userspace/record/target_session.h"
#include "userspace/record/thread_names.h"
#include "userspace/stream/launch_order.h"

namespace rocattach {

// Checks every field that a record refers with, passes it through the sessions' filters
// and writes it in batches.
class TargetRecords {
 public:
  struct Counts {
    OperationCounts operations;  // taken
    uint64_t invalid = 0;        // dispatches and copies with impossible contents
    uint64_t malformed = 0;      // records of unknown kind
    uint64_t untimed = 0, unfinished = 0;
    uint64_t times_not_believable = 0;  // dispatches with the times of others
    uint64_t others = 0;                // neither dispatches nor copies
  };

  // All must outlive it. `process`: whose threads the records name.
  TargetRecords(const v1::Process& process, ProcessOutput output, OutputSet* output_set,
                TargetSession* session, const TargetDictionary* dictionary,
                uint32_t rings);

  // Takes slots of one ring, which may still be in it, and writes them. Returns their
  // cost, in dispatches.
  uint64_t Take(uint32_t ring, absl::Span<const RecordSlot> slots);
  // From here on, each operation is taken once, whether it comes as a record or as
  // unfinished; before each part of the table of operations in flight is read.
  // `most_unfinished`: the size of the table. A process that runs on, and publishes much
  // more than could be in flight, is not recorded any further.
  void BeginEnd(size_t most_unfinished);
  // Takes the record of an operation that was in flight when its process ended, or when
  // recording stopped. After BeginEnd().
  void TakeUnfinished(RecordSlot slot);
  // Writes what TakeUnfinished() has collected.
  void Write();

  const Counts& counts() const { return counts_; }
  // Of the dispatches that are submitted from `since_ns` on (CLOCK_BOOTTIME), those that
  // no session has selected are sampled.
  void SetSampling(uint64_t since_ns, const SamplingLevel& level) {
    sampling_.Change(since_ns, level);
  }
  // Is told of all records that are written; may be null.
  void set_meter(TargetMeter* meter) { meter_ = meter; }

 private:
  void TakeOne(uint32_t ring, const RecordSlot& slot);
  // During the end: whether it is an operation that has been taken.
  bool WasTaken(const RecordSlot& slot);
  // Takes the dispatch that `slots` begin with, and returns how many of the slots behind
  // it were taken as its values.
  size_t TakeDispatchSlot(uint32_t ring, absl::Span<const RecordSlot> slots);
  // Whether the dispatch is possible; clears what is impossible in it.
  bool CheckDispatch(rocattach_dispatch* record);
  void TakeCopy(rocattach_copy record);
  void TakeMemory(uint32_t ring, rocattach_memory record);
  void TakeClock(const rocattach_clock& record);
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
  size_t most_taken_ = 0;                // operations during the end
  absl::flat_hash_set<uint64_t> taken_;  // their numbers
  std::vector<rocattach_dispatch> dispatch_batch_;
  LaunchOrder launch_order_;
  SamplingHistory sampling_;
  std::vector<uint32_t> weights_;  // of dispatch_batch_, once anything was sampled
  std::vector<rocattach_copy> copy_batch_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_TARGET_RECORDS_H_
