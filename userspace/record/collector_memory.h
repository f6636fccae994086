// The service's view of the memory that a collector shares: checked, mapped, drained.
// Every byte of it is written by an untrusted process. So only the geometry that the
// service has configured is accepted. Records, entries and operations in flight are
// read through the descriptor: a hole reads as zeros and stays a hole, what is read is
// not charged to our memory, and reads cannot fault. Only what both sides change
// concurrently is mapped, and guarded.
#ifndef ROCATTACH_USERSPACE_RECORD_COLLECTOR_MEMORY_H_
#define ROCATTACH_USERSPACE_RECORD_COLLECTOR_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schemas/stream.pb.h"
#include "userspace/abi/geometry.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/unique_fd.h"
#include "userspace/record/collector_account.h"
#include "userspace/record/fault_guard.h"
#include "userspace/record/record_slot.h"
#include "userspace/record/ring_pages.h"
#include "userspace/record/ring_views.h"

namespace rocattach {

// The collector's answer to the plan that it read last. Numbers are unchecked.
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
  // Maps [address, address + bytes) of process `pid`, which the target reports as its
  // collector's memory. Accepts only a sealed memfd with exactly the geometry of
  // `config`. Waits for the target, as OpenTargetMemfd() does: not on a thread that
  // others wait for.
  static absl::StatusOr<std::unique_ptr<CollectorMemory>> Map(
      pid_t pid, uint64_t address, uint64_t bytes,
      const rocattach_collector_config& config);
  // The same for an already opened memfd, which the caller keeps.
  static absl::StatusOr<std::unique_ptr<CollectorMemory>> MapFd(
      int fd, const rocattach_collector_config& config);
  ~CollectorMemory();
  CollectorMemory(const CollectorMemory&) = delete;
  CollectorMemory& operator=(const CollectorMemory&) = delete;

  // Takes over a collector that another service has left in the process: what is
  // recorded from now on is read and counted, nothing from before. FAILED_PRECONDITION:
  // that service still reads it. One that has died can be taken over from at once; one
  // that is stopped, when it has not drained for some seconds.
  absl::Status TakeOver(uint64_t now_ns);
  bool taken_over() const { return taken_over_; }
  // The runtime was open already when the collector's functions were stored.
  bool entered_late() const;
  // The process whose collector it is, in that process's own namespace, as it was when
  // the memory was mapped here.
  pid_t owner() const { return owner_; }
  // Lets another service take over at once.
  void Release();

  // Tells the collector, which may be waiting for it, that its memory is being read.
  void AcknowledgeMapped();
  // Starts or stops recording; takes effect in the target within microseconds, or with
  // its next operation.
  void SetRecording(bool recording);
  // What is recorded apart from plans: ROCATTACH_RECORDING_*; 0 while it is stopped.
  uint64_t baseline() const;
  // Which dispatches are recorded from the next one on: userspace/abi/sampling.h.
  void SetSampling(uint32_t sampling);
  // Writes a plan for the collector and wakes it; `image` is complete except for the
  // generation, which is returned, and start_ns, which is set to now if it is 0.
  uint64_t WritePlan(const rocattach_plan& image);
  // Sets the bits of `kernels` in one selection of the active plan; from then on all
  // kernels below `decided` count as decided.
  void DecideKernels(uint32_t selection, absl::Span<const uint32_t> kernels,
                     uint32_t decided);
  // The plan in the memory. The target can write to it as well: never read back what
  // was written.
  rocattach_plan* plan();
  PlanAnswer plan_answer() const;
  uint64_t answered_generation() const;
  BackendFacts backend() const;
  // Records that we have drained. A collector whose service does not do that for some
  // seconds stops by itself; one that may have done so is told to go on.
  void Heartbeat(uint64_t now_ns);

  uint32_t state() const;  // enum rocattach_collector_state, unchecked
  // The collector's functions are in the runtime's tables: it is called by hsa_init.
  bool hears_of_init() const;
  // Status of an hsa_init that failed before any succeeded; 0: none has failed so.
  uint32_t init_status() const;
  uint32_t reason() const;   // enum rocattach_collector_reason, unchecked
  std::string text() const;  // refusal in words, bounded and printable
  uint64_t window_id() const { return window_id_; }
  uint64_t armed_ns() const;
  // The collector's description of itself, for the stream.
  v1::Collector Describe() const;
  // Of the rings that were in use at the snapshot, since the take-over. After a
  // take-over a few more operations may count as seen than were, never fewer. While the
  // rings cannot be mapped: as it was when they last could.
  CollectorAccount Account() const;
  // The same, without those too many: as far as `taken` operations, which were read, and
  // what was lost or left out show that there are any.
  CollectorAccount SettledAccount(uint64_t taken) const;

  // False once the memory could not be read: all of it counts as zeros then.
  bool intact() const { return readable_ && !guard_->broken(); }

  // Reads the positions of all rings, then how much of the dictionary there is: an
  // entry that a record refers to was committed before the record was published. Later
  // reads do not go beyond these positions. Rings that cannot be mapped at the moment
  // are read at a later snapshot.
  void Snapshot();
  // Whether there is something new since the snapshot: an entry, a ring in use, or a
  // ring with more than `most_records` that were published since.
  bool HasNews(uint64_t most_records) const;
  // Copies out entries of the dictionary, up to `most_bytes` of them but at least one,
  // that have not been copied out before. An entry that cannot be parsed ends the
  // dictionary for good (false from dictionary_ok()).
  std::vector<std::vector<uint8_t>> NewEntries(size_t most_bytes = SIZE_MAX);
  // All entries up to the snapshot have been copied out.
  bool dictionary_read() const {
    return !dictionary_ok_ || dictionary_read_ >= dictionary_used_;
  }
  bool dictionary_ok() const { return dictionary_ok_; }
  // The collector had named its backend at the snapshot, and all entries up to there
  // have been copied out: its agents among them, which it commits first.
  bool agents_read() const { return backend_named_ && dictionary_read(); }
  // As of Snapshot(): the collector has seen a call of the runtime and chosen its back
  // end.
  bool backend_named() const { return backend_named_; }

  // Copies up to `out.size()` slots of ring `index`, but none after the snapshot.
  // Returns how many; the slots are free for the collector again.
  size_t Drain(uint32_t index, absl::Span<RecordSlot> out);
  // From now on busy rings, and the positions of all, are mapped, as long as `views`,
  // which must outlive this object, has room for them. Before the first view.
  void ViewWith(RingViews* views);
  // Nothing more is read from the rings, and nothing of them stays mapped, once the view
  // that there may be has ended. What others share is theirs again.
  void StopReading();
  // Takes up to `most` slots of ring `index` where they are, none after the snapshot.
  // Empty if the ring is not mapped, or if there is a view already: whoever takes records
  // may run a program's code, which may drain again. The target can change the slots at
  // any time: whoever reads a word must not read it again.
  absl::Span<const RecordSlot> View(uint32_t index, size_t most);
  // The slots of the view are free for the collector again.
  void EndView();
  uint32_t ring_count() const { return geometry_.ring_count; }
  uint32_t ring_slots() const { return geometry_.ring_slots; }
  // Rings from this number on had no record at the snapshot.
  uint32_t rings_used() const { return pages_.used(); }
  // Those that have one by now, and the last account is of all of them.
  bool all_rings_read() const;
  // The fullest that any ring was at a snapshot since the last call: 0 to 1.
  double TakeRingFill() {
    return static_cast<double>(std::exchange(most_waiting_, 0)) /
           static_cast<double>(geometry_.ring_slots);
  }
  // Operations that fit into the rings and into the table of those in flight.
  uint64_t room() const {
    return uint64_t{geometry_.ring_count} * geometry_.ring_slots +
           geometry_.inflight_count;
  }

  // Operations that were captured and never published, among the `count` entries from
  // `first` of the table on; there are `inflight_count()`. Only when the target is
  // dead.
  std::vector<RecordSlot> UnfinishedRecords(uint32_t first, uint32_t count) const;
  uint32_t inflight_count() const { return geometry_.inflight_count; }

 private:
  CollectorMemory(UniqueFd fd, uint8_t* base, const collector::Geometry& geometry)
      : fd_(std::move(fd)),
        base_(base),
        geometry_(geometry),
        pages_(fd_.get(), base, geometry),
        positions_(geometry.ring_count) {
    guard_.emplace(base, geometry.total_bytes);
  }
  // What has been written for the collector takes effect.
  void Command();
  static absl::StatusOr<std::unique_ptr<CollectorMemory>> MapOwn(
      UniqueFd fd, const collector::Geometry& geometry);
  absl::Status CheckControl();
  // Makes the memory ours as long as we live, unless it is another's.
  bool TryLock();
  // Maps whole pages of the memory at their place after `base_`.
  absl::Status MapPart(uint64_t offset, uint64_t bytes);
  // Reads through the descriptor; false, and never again, if that fails.
  bool Read(uint64_t offset, void* to, size_t bytes) const;
  // Maps a ring that has become busy, or unmaps one that no longer is.
  void UpdateMapping(uint32_t index);
  void Unmap(uint32_t index);
  // What has been taken is free for the collector again, unless it is being viewed.
  void FreeTaken(uint32_t index);
  // Positions and accounts of the rings may be accessed until another memory's are.
  bool Reach() const;
  // Takes over: what is published from now on is read and counted.
  bool BeginFromHere();
  // Where the slots of a ring begin.
  uint64_t SlotsOffset(uint32_t index) const;
  CollectorAccount TotalAccount() const;
  const rocattach_control* control() const;
  rocattach_control* control();
  rocattach_ring* ring(uint32_t index) const;

  UniqueFd fd_;
  // Address space for all of it. In it are the control block, the plan, the first page
  // of rings that are in use, and all of those that are busy.
  uint8_t* base_;
  const collector::Geometry geometry_;
  std::optional<FaultGuard> guard_;  // always there; ends before the mapping
  mutable RingPages pages_;
  mutable bool readable_ = true;
  bool stopped_ = false;  // see StopReading()
  uint64_t dictionary_used_ = 0;
  bool backend_named_ = false;
  uint64_t plan_generation_ = 0;  // of the last plan written; even
  uint64_t heartbeat_ns_ = 0;     // the last one; 0: none yet
  uint64_t dictionary_read_ = 0;
  uint64_t window_id_ = 0;
  bool dictionary_ok_ = true;
  struct Position {
    uint64_t head = 0;
    uint64_t tail = 0;
    bool corrupt = false;
    bool mapped = false;    // all of it, which counts
    bool viewable = false;  // and its holes are kept
    bool owed = false;      // what has been taken is not free for the collector yet
    uint8_t quiet = 0;      // snapshots in a row that found few records
  };
  std::vector<Position> positions_;
  RingViews* views_ = nullptr;
  std::optional<uint32_t> viewed_ring_;  // of which there is a view
  uint64_t most_waiting_ = 0;            // records in any ring, see TakeRingFill()
  bool taken_over_ = false;
  bool locked_ = false;  // by us: no other service is alive that reads it
  pid_t owner_ = 0;
  CollectorAccount before_;  // the take-over
  // So many operations at most count as seen since the take-over, and were not.
  mutable uint64_t unsure_ = 0;
  mutable CollectorAccount last_account_;  // in all
  mutable bool account_is_current_ = true;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_COLLECTOR_MEMORY_H_
