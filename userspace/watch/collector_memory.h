// The service's view of the memory that a collector shares: mapped, checked, drained.
// Every byte in there is written by a process that we do not trust: geometry is read
// once and kept, records are copied out once and the copies are validated.
#ifndef ROCATTACH_USERSPACE_WATCH_COLLECTOR_MEMORY_H_
#define ROCATTACH_USERSPACE_WATCH_COLLECTOR_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schemas/stream.pb.h"
#include "userspace/collector/shared_memory.h"

namespace rocattach {

// Raw 96-byte slot; which record it is, its first 16 bits say.
struct RecordSlot {
  alignas(8) uint8_t bytes[ROCATTACH_SLOT_BYTES];
  uint16_t kind() const;
};

// What was produced and lost inside the target so far.
struct CollectorAccount {
  uint64_t produced = 0;      // records published in all rings
  uint64_t delivered = 0;     // … read by us
  uint64_t ring_dropped = 0;  // records that found their ring full
  uint64_t other_dropped = 0;
  uint64_t dispatches_seen = 0;
  uint64_t copies_seen = 0;
  uint64_t dispatches_untimed = 0;
  uint64_t packets_unseen = 0;
  uint64_t inflight = 0;
  uint64_t dictionary_dropped = 0;
  uint64_t counted_seen = 0;     // dispatches that were to have counter values
  uint64_t counted_dropped = 0;  // … that found no room with them
  uint64_t values_dropped = 0;   // … whose values never came
  uint64_t samples_seen = 0;
  uint64_t samples_dropped = 0;
  uint64_t api_calls_seen = 0;
  uint64_t api_calls_dropped = 0;
  uint64_t own_ns = 0;         // what the collector's own code took, from samples
  uint64_t corrupt_rings = 0;  // rings whose positions made no sense: no longer read
};

// What the collector said to the plan that it looked at last. Numbers are unchecked.
struct PlanAnswer {
  uint64_t generation = 0;  // 0: none yet
  uint32_t error = 0;       // enum rocattach_plan_error
  int32_t code = 0;
  std::string text;  // bounded and printable
};

// Through which interface the collector works. Numbers are unchecked.
struct BackendFacts {
  uint32_t backend = 0;  // enum rocattach_backend; 0: the runtime has not called yet
  uint32_t reason = 0;   // enum rocattach_backend_reason
  uint32_t record_kinds = 0;
  uint32_t api_domains = 0;
  uint32_t sdk_version = 0;
  std::string text;  // bounded and printable
};

class CollectorMemory {
 public:
  // Maps [address, address + bytes) of process `pid`, which the target says is its
  // collector's memory. Refuses what is not a sealed memfd of sensible size and layout.
  static absl::StatusOr<std::unique_ptr<CollectorMemory>> Map(pid_t pid,
                                                              uint64_t address,
                                                              uint64_t bytes);
  // The same for an already opened memfd.
  static absl::StatusOr<std::unique_ptr<CollectorMemory>> MapFd(int fd);
  ~CollectorMemory();
  CollectorMemory(const CollectorMemory&) = delete;
  CollectorMemory& operator=(const CollectorMemory&) = delete;

  // Tells the collector, which may be waiting for it, that its memory is being read.
  void AcknowledgeMapped();
  // Starts or stops recording; takes effect in the target within microseconds, or with
  // its next operation.
  void SetRecording(bool recording);
  // Puts a plan before the collector and wakes it; `image` is complete but for the
  // generation, which is returned, and for start_ns, which is set to now if it is 0.
  uint64_t WritePlan(const rocattach_plan& image);
  // Sets the bits of `kernels` in one selection of the plan in force; from then on all
  // kernels below `decided` count as decided.
  void DecideKernels(uint32_t selection, absl::Span<const uint32_t> kernels,
                     uint32_t decided);
  // The plan in the memory. It is the target's as well: never read back what was
  // written.
  rocattach_plan* plan();
  PlanAnswer plan_answer() const;
  uint64_t answered_generation() const;
  BackendFacts backend() const;
  // Notes that we have drained; a collector whose service is gone stops by itself.
  void Beat(uint64_t now_ns);

  uint32_t state() const;    // enum rocattach_collector_state, unchecked
  uint32_t reason() const;   // enum rocattach_collector_reason, unchecked
  std::string text() const;  // refusal in words, bounded and printable
  uint64_t window_id() const { return window_id_; }
  uint64_t armed_ns() const;
  // What the collector says of itself, for the stream.
  v1::Collector Describe() const;
  CollectorAccount Account() const;

  // Copies out the dictionary entries that have come since the last call; an entry that
  // does not parse ends the dictionary for good (false from dictionary_ok()).
  std::vector<std::vector<uint8_t>> NewEntries();
  bool dictionary_ok() const { return dictionary_ok_; }

  // Reads positions of all rings. Call before NewEntries(): an entry that a record
  // refers to was committed before the record was published.
  void SnapshotHeads();
  // Copies up to `out.size()` slots of ring `index`, but none behind the snapshot.
  // Returns how many; the slots are free for the collector again.
  size_t Drain(uint32_t index, absl::Span<RecordSlot> out);
  uint32_t ring_count() const { return ring_count_; }

  // Operations that were captured and never published. Only when the target is dead.
  std::vector<RecordSlot> UnfinishedRecords() const;

 private:
  CollectorMemory(uint8_t* base, uint64_t bytes) : base_(base), bytes_(bytes) {}
  absl::Status ReadGeometry();
  const rocattach_control* control() const;
  rocattach_control* control();
  rocattach_ring* ring(uint32_t index) const;

  uint8_t* base_;
  uint64_t bytes_;
  uint64_t rings_offset_ = 0;
  uint64_t ring_stride_ = 0;
  uint32_t ring_count_ = 0;
  uint32_t ring_slots_ = 0;
  uint64_t inflight_offset_ = 0;
  uint32_t inflight_count_ = 0;
  uint64_t dictionary_offset_ = 0;
  uint64_t dictionary_bytes_ = 0;
  uint64_t plan_offset_ = 0;
  uint64_t plan_generation_ = 0;  // of the last plan written; even
  uint64_t dictionary_read_ = 0;
  uint64_t window_id_ = 0;
  bool dictionary_ok_ = true;
  struct Position {
    uint64_t head = 0;
    uint64_t tail = 0;
    bool corrupt = false;
  };
  std::vector<Position> positions_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_COLLECTOR_MEMORY_H_
