// The service's view of the memory that a collector shares: checked, mapped, drained.
// Every byte of it is written by an untrusted process, so only the geometry that the
// service has configured is accepted. Records, entries and operations in flight are
// read through the descriptor: a hole reads as zeros and stays a hole, what is read is
// not charged to our memory, and reads cannot fault. Only busy rings, and what both
// sides change concurrently, are mapped, and guarded.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_COLLECTOR_MEMORY_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_COLLECTOR_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "userspace/abi/geometry.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/unique_fd.h"
#include "userspace/record/drain/collector_account.h"
#include "userspace/record/drain/collector_control.h"
#include "userspace/record/drain/fault_guard.h"
#include "userspace/record/drain/record_slot.h"
#include "userspace/record/drain/ring_pages.h"
#include "userspace/record/drain/ring_views.h"

namespace rocattach {

class CollectorMemory {
 public:
  // Maps [address, address + bytes) of process `pid`, which the target reports as its
  // collector's memory. Accepts only a sealed memfd with exactly the geometry of
  // `config`. May wait for the target, as OpenTargetMemfd() does, so it must not be
  // called on a thread that others wait for.
  static absl::StatusOr<std::unique_ptr<CollectorMemory>> Map(
      pid_t pid, uint64_t address, uint64_t bytes,
      const rocattach_collector_config& config);
  // The same for an already opened memfd, which the caller keeps.
  static absl::StatusOr<std::unique_ptr<CollectorMemory>> MapFd(
      int fd, const rocattach_collector_config& config);
  ~CollectorMemory();
  CollectorMemory(const CollectorMemory&) = delete;
  CollectorMemory& operator=(const CollectorMemory&) = delete;

  // Takes over a collector that another service has left in the process: only what is
  // recorded from now on is read and counted. FAILED_PRECONDITION if that service still
  // reads it. After the death of that service this succeeds at once; if it is stopped,
  // only when it has not drained for some seconds.
  absl::Status TakeOver(uint64_t now_ns);
  bool taken_over() const { return taken_over_; }
  // ID of the collector's process, in that process's own PID namespace, as it was when
  // the memory was mapped here.
  pid_t owner() const { return owner_; }
  // Lets another service take over at once.
  void Release();

  // What the service tells the collector, and what that answers.
  CollectorControl& control() { return control_; }
  const CollectorControl& control() const { return control_; }
  // Tells the collector that the service has drained. A collector that is not drained
  // for some seconds stops by itself; one that may have stopped is told to continue.
  void Heartbeat(uint64_t now_ns);

  uint64_t window_id() const { return window_id_; }
  // The account, since the take-over if any, of the rings in use at the snapshot. After
  // a take-over, a few more operations may count as seen than there were, never fewer.
  // While the rings cannot be mapped, it is the last account that was read.
  CollectorAccount Account() const;
  // The same without that excess, as far as it shows in the numbers of operations that
  // were `taken` (read by the service), lost or sampled out.
  CollectorAccount SettledAccount(uint64_t taken) const;

  // False once a read of the memory has failed; all of it counts as zeros then.
  bool intact() const { return readable_ && !guard_->broken(); }

  // Reads the positions of all rings, then the size of the dictionary: an entry that a
  // record refers to was committed before the record was published. Later reads do not
  // go beyond these positions. Rings that cannot be mapped at the moment are read at a
  // later snapshot.
  void Snapshot();
  // True if there is something new since the snapshot: an entry, a ring in use, or more
  // than `most_records` newly published records in a ring.
  bool HasNews(uint64_t most_records) const;
  // Copies out dictionary entries that have not been copied out before: up to
  // `most_bytes` of them, but at least one. An entry that cannot be parsed ends the
  // dictionary for good; dictionary_ok() is false then.
  std::vector<std::vector<uint8_t>> NewEntries(size_t most_bytes = SIZE_MAX);
  // True if all entries up to the snapshot have been copied out.
  bool dictionary_read() const {
    return !dictionary_ok_ || dictionary_read_ >= dictionary_used_;
  }
  bool dictionary_ok() const { return dictionary_ok_; }
  // True if the collector had named its backend at the snapshot, and all entries up to
  // there have been copied out. Its agents are among them, since it commits them first.
  bool agents_read() const { return backend_named_ && dictionary_read(); }
  // As of Snapshot(): the runtime has called the collector, which has chosen its
  // backend.
  bool backend_named() const { return backend_named_; }

  // Copies up to `out.size()` slots of ring `index`, but none after the snapshot.
  // Returns their number; the collector may use these slots again.
  size_t Drain(uint32_t index, absl::Span<RecordSlot> out);
  // From now on, busy rings and the positions of all rings are mapped as far as
  // `views`, which must outlive this object, has room. Call this before the first view.
  void ViewWith(RingViews* views);
  // Ends all reading of the rings and unmaps them, once the current view, if any, has
  // ended. What they occupied of `views` is available to others again.
  void StopReading();
  // Takes up to `most` slots of ring `index` in place, none after the snapshot. Empty
  // if the ring is not mapped, or if there is a view already: taking records may run a
  // program's code, which may drain again. The target can change the slots at any time,
  // so no word may be read twice.
  absl::Span<const RecordSlot> View(uint32_t index, size_t most);
  // Ends the view; the collector may use its slots again.
  void EndView();
  uint32_t ring_count() const { return geometry_.ring_count; }
  uint32_t ring_slots() const { return geometry_.ring_slots; }
  // Rings from this number on had no record at the snapshot.
  uint32_t rings_used() const { return pages_.used(); }
  // True if the last account covers all rings that have a record by now.
  bool all_rings_read() const;
  // Highest fill level of any ring at a snapshot since the last call: 0 to 1.
  double TakeRingFill() {
    return static_cast<double>(std::exchange(most_waiting_, 0)) /
           static_cast<double>(geometry_.ring_slots);
  }
  // Number of operations that fit into the rings and the in-flight table.
  uint64_t room() const {
    return uint64_t{geometry_.ring_count} * geometry_.ring_slots +
           geometry_.inflight_count;
  }

  // Operations that were captured but never published, among the `count` entries of the
  // in-flight table from `first` on; it has inflight_count() entries. Only for a target
  // that is dead, or in which recording has been stopped.
  std::vector<RecordSlot> UnfinishedRecords(uint32_t first, uint32_t count) const;
  uint32_t inflight_count() const { return geometry_.inflight_count; }

 private:
  CollectorMemory(UniqueFd fd, uint8_t* base, const collector::Geometry& geometry)
      : fd_(std::move(fd)),
        base_(base),
        geometry_(geometry),
        control_(block(),
                 reinterpret_cast<rocattach_plan*>(base + geometry.plan_offset)),
        pages_(fd_.get(), base, geometry),
        positions_(geometry.ring_count) {
    guard_.emplace(base, geometry.total_bytes);
  }
  static absl::StatusOr<std::unique_ptr<CollectorMemory>> MapOwn(
      UniqueFd fd, const collector::Geometry& geometry);
  absl::Status CheckControl();
  // Locks the memory for as long as this service lives; false if another one has it.
  bool TryLock();
  // Maps whole pages of the memory at their place after `base_`.
  absl::Status MapPart(uint64_t offset, uint64_t bytes);
  // Reads through the descriptor. False if that fails; then nothing is read any more.
  bool Read(uint64_t offset, void* to, size_t bytes) const;
  // Maps a ring that has become busy, or unmaps one that no longer is.
  void UpdateMapping(uint32_t index);
  void Unmap(uint32_t index);
  // Frees the taken slots for the collector, unless they are being viewed.
  void FreeTaken(uint32_t index);
  // Makes positions and accounts of the rings accessible, until another memory does so.
  bool Reach() const;
  // Begins a take-over: what is published from now on is read and counted.
  bool BeginFromHere();
  // Offset of the first slot of a ring.
  uint64_t SlotsOffset(uint32_t index) const;
  CollectorAccount TotalAccount() const;
  // The block at the beginning of the memory.
  const rocattach_control* block() const {
    return reinterpret_cast<const rocattach_control*>(base_);
  }
  rocattach_control* block() { return reinterpret_cast<rocattach_control*>(base_); }
  rocattach_ring* ring(uint32_t index) const;

  UniqueFd fd_;
  // Address space for the whole memory. Mapped in it are the control block, the plan,
  // the first page of each ring in use, and busy rings as a whole.
  uint8_t* base_;
  const collector::Geometry geometry_;
  std::optional<FaultGuard> guard_;  // always has a value; ends before the mapping
  CollectorControl control_;
  mutable RingPages pages_;
  mutable bool readable_ = true;
  bool stopped_ = false;  // see StopReading()
  uint64_t dictionary_used_ = 0;
  bool backend_named_ = false;
  uint64_t heartbeat_ns_ = 0;  // the last one; 0: none yet
  uint64_t dictionary_read_ = 0;
  uint64_t window_id_ = 0;
  bool dictionary_ok_ = true;
  struct Position {
    uint64_t head = 0;
    uint64_t tail = 0;
    bool corrupt = false;
    bool mapped = false;    // the whole ring; its bytes are taken from `views_`
    bool viewable = false;  // mapped, and its holes are kept
    bool owed = false;      // taken slots are not free for the collector yet
    uint8_t quiet = 0;      // consecutive snapshots that found few records
  };
  std::vector<Position> positions_;
  RingViews* views_ = nullptr;
  std::optional<uint32_t> viewed_ring_;  // the ring that has a view
  uint64_t most_waiting_ = 0;            // records in any ring, see TakeRingFill()
  bool taken_over_ = false;
  bool locked_ = false;  // by this service: no other live service reads it
  pid_t owner_ = 0;
  CollectorAccount before_;  // the baseline of the take-over
  // Maximum number of operations that wrongly count as seen since the take-over.
  mutable uint64_t unsure_ = 0;
  mutable CollectorAccount last_account_;  // before `before_` is subtracted
  mutable bool account_is_current_ = true;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_COLLECTOR_MEMORY_H_
