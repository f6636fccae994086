#include "userspace/record/drain/collector_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/abi/atomics.h"
#include "userspace/abi/sampling.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/drain/target_memfd.h"

namespace rocattach {
namespace {

using collector::LoadAcquire;

// A live service that has not drained for this long counts as gone.
constexpr uint64_t kServiceGoneNs = 3'000'000'000;
// A collector stops by itself when nothing has been drained for five seconds.
constexpr uint64_t kMayHaveStoppedNs = 4'000'000'000;

// An entry has at most 64 KiB of text, and little besides.
constexpr size_t kMaxEntryBytes = 128 << 10;

bool SameGeometry(const rocattach_control& c, const collector::Geometry& g) {
  return c.total_bytes == g.total_bytes && c.rings_offset == g.rings_offset &&
         c.ring_stride == g.ring_stride && c.ring_count == g.ring_count &&
         c.ring_slots == g.ring_slots && c.inflight_offset == g.inflight_offset &&
         c.inflight_count == g.inflight_count &&
         c.inflight_bytes == sizeof(rocattach_inflight) &&
         c.dictionary_offset == g.dictionary_offset &&
         c.dictionary_bytes == g.dictionary_bytes && c.plan_offset == g.plan_offset &&
         c.plan_bytes == sizeof(rocattach_plan);
}

absl::StatusOr<collector::Geometry> GeometryOf(
    const rocattach_collector_config& config) {
  rocattach_collector_config sizes = config;
  // ComputeGeometry() checks the path as well, which only the stub fills in.
  if (sizes.collector_path[0] == '\0') sizes.collector_path[0] = '/';
  collector::Geometry geometry;
  if (!collector::ComputeGeometry(sizes, &geometry)) {
    return absl::InternalError("the collector's configuration has no valid geometry");
  }
  return geometry;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CollectorMemory>> CollectorMemory::Map(
    pid_t pid, uint64_t address, uint64_t bytes,
    const rocattach_collector_config& config) {
  ASSIGN_OR_RETURN(const collector::Geometry geometry, GeometryOf(config));
  if (bytes != geometry.total_bytes || address % 4096 != 0 ||
      address + bytes < address) {
    return absl::InvalidArgumentError(
        absl::StrFormat("process %d reports %d bytes at 0x%x where the configuration "
                        "requires %d: not a "
                        "collector's memory",
                        pid, bytes, address, geometry.total_bytes));
  }
  ASSIGN_OR_RETURN(UniqueFd fd, OpenTargetMemfd(pid, address, bytes));
  return MapOwn(std::move(fd), geometry);
}

absl::StatusOr<std::unique_ptr<CollectorMemory>> CollectorMemory::MapFd(
    int fd, const rocattach_collector_config& config) {
  ASSIGN_OR_RETURN(const collector::Geometry geometry, GeometryOf(config));
  RETURN_IF_ERROR(CheckTargetMemfd(fd, geometry.total_bytes));
  RETURN_IF_ERROR(CheckSealed(fd, geometry.total_bytes));
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return ErrnoStatus(errno, "fcntl(F_DUPFD_CLOEXEC) failed");
  return MapOwn(std::move(own), geometry);
}

absl::StatusOr<std::unique_ptr<CollectorMemory>> CollectorMemory::MapOwn(
    UniqueFd fd, const collector::Geometry& geometry) {
  void* base = mmap(nullptr, geometry.total_bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return ErrnoStatus(
        errno, absl::StrCat("mmap(", geometry.total_bytes, ", PROT_NONE) failed"));
  }
  auto memory = std::unique_ptr<CollectorMemory>(
      new CollectorMemory(std::move(fd), static_cast<uint8_t*>(base), geometry));
  RETURN_IF_ERROR(memory->MapPart(0, geometry.rings_offset));
  RETURN_IF_ERROR(memory->MapPart(geometry.plan_offset,
                                  geometry.total_bytes - geometry.plan_offset));
  RETURN_IF_ERROR(memory->CheckControl());
  memory->locked_ = memory->TryLock();
  return memory;
}

// The kernel drops this lock when its holder dies, however that happens. The target can
// take it as well, and so delay the next service that takes over, as it could with a
// false heartbeat.
bool CollectorMemory::TryLock() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0;
}

CollectorMemory::~CollectorMemory() {
  for (const Position& position : positions_) {
    if (position.mapped) views_->Return(geometry_.ring_stride - RingPages::kPageBytes);
  }
  guard_.reset();
  munmap(base_, geometry_.total_bytes);
}

absl::Status CollectorMemory::MapPart(uint64_t offset, uint64_t bytes) {
  if (mmap(base_ + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           fd_.get(), static_cast<off_t>(offset)) == MAP_FAILED) {
    return ErrnoStatus(errno, absl::StrCat("mmap(collector's memory, ", bytes,
                                           " bytes at ", offset, ") failed"));
  }
  return absl::OkStatus();
}

bool CollectorMemory::Read(uint64_t offset, void* to, size_t bytes) const {
  auto* at = static_cast<uint8_t*>(to);
  while (readable_ && bytes > 0) {
    const ssize_t n = pread(fd_.get(), at, bytes, static_cast<off_t>(offset));
    if (n > 0) {
      at += n;
      offset += static_cast<uint64_t>(n);
      bytes -= static_cast<size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      readable_ = false;
    }
  }
  return readable_;
}

rocattach_ring* CollectorMemory::ring(uint32_t index) const {
  return reinterpret_cast<rocattach_ring*>(base_ + geometry_.rings_offset +
                                           index * geometry_.ring_stride);
}

absl::Status CollectorMemory::CheckControl() {
  rocattach_control c;
  memcpy(&c, base_, sizeof(c));
  if (c.magic != ROCATTACH_SHM_MAGIC || c.version != ROCATTACH_SHM_VERSION) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the collector's memory has magic 0x%x version %u; this "
                        "service knows version %u",
                        c.magic, c.version, ROCATTACH_SHM_VERSION));
  }
  // Larger sizes would cost the service, and so all other targets, time and memory.
  if (!SameGeometry(c, geometry_)) {
    return absl::DataLossError(
        "the collector's memory does not have the sizes that were configured");
  }
  // An earlier service may have written a plan.
  uint64_t generation = 0;
  if (!Read(geometry_.plan_offset + offsetof(rocattach_plan, generation), &generation,
            sizeof(generation))) {
    return absl::DataLossError("the collector's memory cannot be read");
  }
  control_.ContinueAfter(generation);
  window_id_ = c.window_id;
  owner_ = c.pid;
  return absl::OkStatus();
}

absl::Status CollectorMemory::TakeOver(uint64_t now_ns) {
  uint64_t* heartbeat = &block()->service_heartbeat_ns;
  uint64_t seen_ns = __atomic_load_n(heartbeat, __ATOMIC_RELAXED);
  const bool recent =
      seen_ns != 0 && seen_ns <= now_ns && now_ns - seen_ns < kServiceGoneNs;
  if (!locked_) locked_ = TryLock();
  // If two services try at the same time, only one succeeds.
  if ((recent && !locked_) ||
      !__atomic_compare_exchange_n(heartbeat, &seen_ns, now_ns, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED)) {
    return absl::FailedPreconditionError(
        "another rocattach service records this process; use 'rocattach session' with "
        "that service's socket, or stop it");
  }
  if (!BeginFromHere()) {
    Release();
    return absl::ResourceExhaustedError(
        "the rings of the collector's memory cannot be mapped; try again");
  }
  taken_over_ = true;
  __atomic_add_fetch(&block()->takeovers, 1u, __ATOMIC_RELEASE);
  // The other service may have been killed during a session.
  const rocattach_plan none = {};
  control_.WritePlan(none);
  // It may also have been killed while it was over its budget.
  control_.SetSampling(ROCATTACH_SAMPLING_EVERY);
  return absl::OkStatus();
}

void CollectorMemory::Release() {
  __atomic_store_n(&block()->service_heartbeat_ns, uint64_t{0}, __ATOMIC_RELAXED);
}

void CollectorMemory::Heartbeat(uint64_t now_ns) {
  // The lock may have been that of a stopped service that has died since.
  if (!locked_) locked_ = TryLock();
  __atomic_store_n(&block()->service_heartbeat_ns, now_ns, __ATOMIC_RELAXED);
  const bool was_away =
      heartbeat_ns_ != 0 && now_ns > heartbeat_ns_ + kMayHaveStoppedNs;
  heartbeat_ns_ = now_ns;
  if (was_away) control_.Wake();
}

std::vector<std::vector<uint8_t>> CollectorMemory::NewEntries(size_t most_bytes) {
  std::vector<std::vector<uint8_t>> entries;
  std::vector<uint8_t> chunk;
  for (size_t taken = 0; !dictionary_read() && (taken == 0 || taken < most_bytes);) {
    chunk.resize(
        std::min<uint64_t>(dictionary_used_ - dictionary_read_, kMaxEntryBytes));
    if (!Read(geometry_.dictionary_offset + dictionary_read_, chunk.data(),
              chunk.size())) {
      dictionary_ok_ = false;
      break;
    }
    const size_t before = taken;
    for (size_t at = 0; at < chunk.size() && (taken == 0 || taken < most_bytes);) {
      rocattach_entry head;
      const size_t left = chunk.size() - at;
      if (left >= sizeof(head)) memcpy(&head, &chunk[at], sizeof(head));
      if (left < sizeof(head) || head.bytes > left)
        break;  // truncated by the end of the chunk
      if (head.bytes < sizeof(head) || head.bytes % 8 != 0) {
        dictionary_ok_ = false;
        return entries;
      }
      entries.emplace_back(chunk.begin() + static_cast<ptrdiff_t>(at),
                           chunk.begin() + static_cast<ptrdiff_t>(at + head.bytes));
      at += head.bytes;
      taken += head.bytes;
      dictionary_read_ += head.bytes;
    }
    // Any valid entry fits into a chunk that begins with it.
    if (taken == before) dictionary_ok_ = false;
  }
  return entries;
}

std::vector<RecordSlot> CollectorMemory::UnfinishedRecords(uint32_t first,
                                                           uint32_t count) const {
  std::vector<RecordSlot> records;
  if (first >= geometry_.inflight_count) return records;
  std::vector<rocattach_inflight> entries(
      std::min(count, geometry_.inflight_count - first));
  if (!Read(geometry_.inflight_offset + uint64_t{first} * sizeof(rocattach_inflight),
            entries.data(), entries.size() * sizeof(rocattach_inflight))) {
    return records;
  }
  for (const rocattach_inflight& entry : entries) {
    if (entry.kind == ROCATTACH_RECORD_DISPATCH ||
        entry.kind == ROCATTACH_RECORD_COPY) {
      records.push_back(SlotOfUnfinished(entry));
    }
  }
  return records;
}

// CollectorMemory: the rings.

namespace {

// A ring is busy if at least this many records wait in it, or if it is half full: its
// records are then read in place. It is no longer busy after this many consecutive
// snapshots at which less than a quarter of that number waited.
constexpr uint64_t kBusyRecords = 512;
constexpr uint8_t kQuietSnapshots = 64;

constexpr uint64_t kPage = RingPages::kPageBytes;

}  // namespace

bool CollectorMemory::all_rings_read() const {
  return account_is_current_ && std::min(LoadAcquire(&block()->rings_used),
                                         geometry_.ring_count) <= pages_.used();
}

bool CollectorMemory::Reach() const {
  return !stopped_ && intact() && pages_.Reach();
}

void CollectorMemory::ViewWith(RingViews* views) {
  views_ = views;
  pages_.ShareWith(views);
}

void CollectorMemory::Snapshot() {
  backend_named_ = LoadAcquire(&block()->backend) != ROCATTACH_BACKEND_NONE;
  const uint32_t used =
      std::min(LoadAcquire(&block()->rings_used), geometry_.ring_count);
  if (intact() && !stopped_ && !pages_.Use(used)) readable_ = false;
  const uint32_t reached = Reach() ? pages_.used() : 0;
  for (uint32_t i = 0; i < reached; ++i) {
    Position& position = positions_[i];
    if (position.corrupt) continue;
    uint64_t head = LoadAcquire(&ring(i)->head);
    if (head < position.head || head - position.tail > geometry_.ring_slots) {
      position.corrupt = true;
      continue;
    }
    position.head = head;
    if (position.owed) FreeTaken(i);
    most_waiting_ = std::max(most_waiting_, head - position.tail);
    if (i < pages_.standing()) UpdateMapping(i);
  }
  dictionary_used_ = std::min<uint64_t>(LoadAcquire(&block()->dictionary_used),
                                        geometry_.dictionary_bytes);
}

bool CollectorMemory::HasNews(uint64_t most_records) const {
  const rocattach_control& c = *block();
  // Limits the numbers as Snapshot() does: the target may have written anything.
  if (std::min(LoadAcquire(&c.rings_used), geometry_.ring_count) > pages_.used() ||
      std::min<uint64_t>(LoadAcquire(&c.dictionary_used), geometry_.dictionary_bytes) !=
          dictionary_used_) {
    return true;
  }
  if (!Reach()) return pages_.used() != 0;
  for (uint32_t i = 0; i < pages_.used(); ++i) {
    const Position& position = positions_[i];
    // A head that has moved back makes the difference wrap around, and counts as news.
    if (!position.corrupt &&
        LoadAcquire(&ring(i)->head) - position.head > most_records) {
      return true;
    }
  }
  return false;
}

uint64_t CollectorMemory::SlotsOffset(uint32_t index) const {
  return geometry_.rings_offset + index * geometry_.ring_stride +
         ROCATTACH_RING_HEADER_BYTES;
}

void CollectorMemory::UpdateMapping(uint32_t index) {
  Position& position = positions_[index];
  const uint64_t waiting = position.head - position.tail;
  const uint64_t busy = std::min<uint64_t>(kBusyRecords, geometry_.ring_slots / 2);
  if (position.mapped) {
    position.quiet =
        waiting < busy / 4 ? static_cast<uint8_t>(position.quiet + 1) : uint8_t{0};
    if (position.quiet >= kQuietSnapshots || !position.viewable) Unmap(index);
    return;
  }
  const uint64_t bytes = geometry_.ring_stride - kPage;
  if (waiting < busy || bytes == 0 || !views_->Reserve(bytes)) return;
  const uint64_t offset =
      geometry_.rings_offset + index * geometry_.ring_stride + kPage;
  position.mapped = MapPart(offset, bytes).ok();
  position.quiet = 0;
  if (!position.mapped) {
    views_->Return(bytes);
    return;
  }
  position.viewable = views_->KeepHoles(base_ + offset, bytes);
  if (!position.viewable) Unmap(index);
}

void CollectorMemory::Unmap(uint32_t index) {
  if (viewed_ring_ == index) return;  // unmapped later
  positions_[index].viewable = false;
  const uint64_t bytes = geometry_.ring_stride - kPage;
  uint8_t* const at =
      base_ + geometry_.rings_offset + index * geometry_.ring_stride + kPage;
  // If that fails, the pages stay mapped, and are not returned.
  if (mmap(at, bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
           0) == MAP_FAILED) {
    return;
  }
  positions_[index].mapped = false;
  views_->Return(bytes);
}

void CollectorMemory::StopReading() {
  stopped_ = true;
  if (viewed_ring_.has_value()) return;  // EndView() calls this again
  for (uint32_t i = 0; i < pages_.used(); ++i) {
    if (positions_[i].mapped) Unmap(i);
  }
  pages_.Unmap();
}

absl::Span<const RecordSlot> CollectorMemory::View(uint32_t index, size_t most) {
  Position& position = positions_[index];
  if (position.corrupt || stopped_ || !position.viewable || viewed_ring_.has_value())
    return {};
  const uint64_t first = position.tail & (geometry_.ring_slots - 1);
  const uint64_t count = std::min<uint64_t>(
      {position.head - position.tail, most, geometry_.ring_slots - first});
  if (count == 0) return {};
  position.tail += count;
  viewed_ring_ = index;
  return {reinterpret_cast<const RecordSlot*>(base_ + SlotsOffset(index)) + first,
          count};
}

void CollectorMemory::EndView() {
  if (!viewed_ring_.has_value()) return;
  const uint32_t index = *viewed_ring_;
  viewed_ring_.reset();
  FreeTaken(index);
  if (stopped_) StopReading();
}

void CollectorMemory::FreeTaken(uint32_t index) {
  if (viewed_ring_ == index) return;
  Position& position = positions_[index];
  position.owed = !Reach();
  if (position.owed) return;  // freed at a later snapshot
  __atomic_store_n(&ring(index)->tail, position.tail, __ATOMIC_RELEASE);
}

size_t CollectorMemory::Drain(uint32_t index, absl::Span<RecordSlot> out) {
  Position& position = positions_[index];
  if (position.corrupt || stopped_) return 0;
  uint64_t waiting = position.head - position.tail;
  size_t count = std::min<uint64_t>(waiting, out.size());
  if (count == 0) return 0;
  const uint64_t slots = SlotsOffset(index);
  uint64_t first = position.tail & (geometry_.ring_slots - 1);
  size_t run = std::min<uint64_t>(count, geometry_.ring_slots - first);
  if (!Read(slots + first * ROCATTACH_SLOT_BYTES, out.data(),
            run * ROCATTACH_SLOT_BYTES) ||
      !Read(slots, out.data() + run, (count - run) * ROCATTACH_SLOT_BYTES)) {
    position.corrupt = true;
    return 0;
  }
  position.tail += count;
  FreeTaken(index);
  return count;
}

// CollectorMemory: accounts, and their baseline after a take-over.

namespace {

// Maximum number of attempts to read a baseline while the process is busy.
constexpr int kBaselineTries = 8;

// Subtracts up to `count` operations from those seen, dispatches first.
void Unsee(uint64_t count, CollectorAccount* account) {
  const uint64_t dispatches = std::min(count, account->dispatches_seen);
  account->dispatches_seen -= dispatches;
  account->copies_seen -= std::min(count - dispatches, account->copies_seen);
}

// `seen` was read before `lost`, so operations in between count only as seen.
CollectorAccount Combine(const CollectorAccount& seen, const CollectorAccount& lost) {
  CollectorAccount account = lost;
  account.dispatches_seen = seen.dispatches_seen;
  account.copies_seen = seen.copies_seen;
  account.counted_seen = seen.counted_seen;
  account.samples_seen = seen.samples_seen;
  account.api_calls_seen = seen.api_calls_seen;
  account.memory_seen = seen.memory_seen;
  account.inflight = seen.inflight;
  return account;
}

}  // namespace

// From here on, the operations taken, lost or sampled out must never exceed those seen,
// or the process would count as implausible for good. It runs on while its accounts are
// read, so the baseline must err in the other direction:
// 1. Seen counts are read before the heads, lost and sampled-out counts after them: an
//    operation in between counts as seen, and as nothing else.
// 2. Operations in flight have been seen and are published later, so they are not part
//    of the baseline. Their number is a sum of differences, too small by those
//    captured while it was read. The accounts before and after show how many these are.
// 3. A thread may just have counted an operation as seen but not yet as in flight, or
//    the reverse: an allowance of one of each per ring.
bool CollectorMemory::BeginFromHere() {
  Snapshot();
  std::vector<uint64_t> heads(pages_.used()), best_heads;
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < kBaselineTries && least != 0; ++i) {
    const CollectorAccount first = TotalAccount();
    const CollectorAccount seen = TotalAccount();
    if (!Reach()) return false;
    for (uint32_t r = 0; r < heads.size(); ++r) {
      heads[r] = LoadAcquire(&ring(r)->head);
    }
    const CollectorAccount lost = TotalAccount();
    if (!account_is_current_) return false;
    const CollectorAccount moved = lost.Since(first);
    const uint64_t count = moved.dispatches_seen + moved.copies_seen + moved.produced;
    if (count >= least) continue;
    least = count;
    best_heads = heads;
    before_ = Combine(seen, lost);
  }
  before_.produced = before_.delivered = 0;
  for (uint32_t r = 0; r < heads.size(); ++r) {
    Position& position = positions_[r];
    position.head = position.tail = best_heads[r];
    position.corrupt = false;
    before_.produced += best_heads[r];
    before_.delivered += best_heads[r];
    FreeTaken(r);
  }
  const uint64_t threads = 2 * uint64_t{pages_.used()};
  Unsee(before_.inflight + least + threads, &before_);
  unsure_ = 2 * least + threads;
  before_.inflight = 0;
  // The dictionary is read from its beginning.
  before_.dictionary_dropped = 0;
  return true;
}

CollectorAccount CollectorMemory::Account() const {
  return taken_over_ ? TotalAccount().Since(before_) : TotalAccount();
}

CollectorAccount CollectorMemory::SettledAccount(uint64_t taken) const {
  CollectorAccount account = Account();
  if (unsure_ == 0) return account;
  const uint64_t seen = account.dispatches_seen + account.copies_seen;
  const uint64_t known = taken + account.ring_dropped + account.other_dropped +
                         account.sampled_out + account.inflight;
  // The excess is at most the smallest one observed; operations beyond it are lost.
  unsure_ = std::min(unsure_, seen - std::min(known, seen));
  Unsee(unsure_, &account);
  return account;
}

CollectorAccount CollectorMemory::TotalAccount() const {
  account_is_current_ = pages_.used() == 0 || Reach();
  if (!account_is_current_) return last_account_;
  std::vector<const rocattach_ring*> rings;
  rings.reserve(pages_.used());
  for (uint32_t i = 0; i < pages_.used(); ++i) rings.push_back(ring(i));
  last_account_ = ReadAccount(*block(), rings);
  for (uint32_t i = 0; i < pages_.used(); ++i) {
    last_account_.delivered += positions_[i].tail;
    last_account_.corrupt_rings += positions_[i].corrupt ? 1 : 0;
  }
  return last_account_;
}

}  // namespace rocattach
