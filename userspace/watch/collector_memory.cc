#include "userspace/watch/collector_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/unique_fd.h"
#include "userspace/collector/inflight.h"
#include "userspace/stream/convert.h"

namespace rocattach {
namespace {

constexpr uint32_t kMaxRings = 4096;
constexpr uint32_t kMaxRingSlots = 1u << 22;
constexpr uint32_t kMaxInflight = 1u << 22;
constexpr int kNeededSeals = F_SEAL_SHRINK | F_SEAL_GROW;

template <typename T>
T Load(const T* field) {
  return __atomic_load_n(field, __ATOMIC_RELAXED);
}
template <typename T>
T LoadAcquire(const T* field) {
  return __atomic_load_n(field, __ATOMIC_ACQUIRE);
}

// True if [offset, offset + count * stride) lies in [page, total) without overflow.
bool Inside(uint64_t offset, uint64_t count, uint64_t stride, uint64_t total) {
  if (offset < sizeof(rocattach_control) || offset > total || offset % 64 != 0)
    return false;
  return stride == 0 || count <= (total - offset) / stride;
}

// `entry` is our own copy of what the target left.
RecordSlot UnfinishedRecord(const rocattach_inflight& entry) {
  constexpr collector::OperationEnd kNoEnd;
  RecordSlot slot;
  if (entry.kind == ROCATTACH_RECORD_COPY) {
    rocattach_copy record;
    collector::UnpackCopy(entry, kNoEnd, &record);
    memcpy(slot.bytes, &record, sizeof(record));
  } else {
    rocattach_dispatch record;
    collector::UnpackDispatch(entry, kNoEnd, &record);
    memcpy(slot.bytes, &record, sizeof(record));
  }
  return slot;
}

void FutexWake(uint32_t* word) {
  // Not FUTEX_PRIVATE: the waiter maps the same memfd in another process.
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// A text of the target's, copied out once.
std::string Printable(const char* from, size_t room) {
  std::string text(from, room);
  text.resize(strnlen(text.data(), room));
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return text;
}

}  // namespace

uint16_t RecordSlot::kind() const {
  uint16_t value;
  memcpy(&value, bytes, sizeof(value));
  return value;
}

absl::StatusOr<std::unique_ptr<CollectorMemory>> CollectorMemory::Map(pid_t pid,
                                                                      uint64_t address,
                                                                      uint64_t bytes) {
  if (bytes == 0 || bytes > ROCATTACH_SHM_MAX_BYTES || address % 4096 != 0 ||
      address + bytes < address) {
    return absl::InvalidArgumentError(
        absl::StrFormat("process %d reports %d bytes at 0x%x: not a collector's memory",
                        pid, bytes, address));
  }
  uint64_t end = (address + bytes + 4095) & ~uint64_t{4095};
  std::string path = absl::StrFormat("/proc/%d/map_files/%x-%x", pid, address, end);
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDWR));
  return MapFd(fd.get());
}

absl::StatusOr<std::unique_ptr<CollectorMemory>> CollectorMemory::MapFd(int fd) {
  // Without the seals the target could shrink the file under us: SIGBUS.
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return absl::ErrnoToStatus(errno, "fcntl(F_GET_SEALS): not a memfd");
  if ((seals & kNeededSeals) != kNeededSeals) {
    return absl::PermissionDeniedError(
        absl::StrFormat("the collector's memory is not sealed (seals 0x%x)", seals));
  }
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, "fstat(memfd) failed");
  uint64_t bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < 4096 || bytes > ROCATTACH_SHM_MAX_BYTES) {
    return absl::InvalidArgumentError(
        absl::StrCat("the collector's memory has ", bytes, " bytes"));
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("mmap(memfd, ", bytes, ") failed"));
  }
  auto memory = std::unique_ptr<CollectorMemory>(
      new CollectorMemory(static_cast<uint8_t*>(base), bytes));
  RETURN_IF_ERROR(memory->ReadGeometry());
  return memory;
}

CollectorMemory::~CollectorMemory() {
  munmap(base_, bytes_);
}

const rocattach_control* CollectorMemory::control() const {
  return reinterpret_cast<const rocattach_control*>(base_);
}
rocattach_control* CollectorMemory::control() {
  return reinterpret_cast<rocattach_control*>(base_);
}
rocattach_ring* CollectorMemory::ring(uint32_t index) const {
  return reinterpret_cast<rocattach_ring*>(base_ + rings_offset_ +
                                           index * ring_stride_);
}

absl::Status CollectorMemory::ReadGeometry() {
  rocattach_control c;
  memcpy(&c, base_, sizeof(c));
  if (c.magic != ROCATTACH_SHM_MAGIC || c.version != ROCATTACH_SHM_VERSION) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the collector's memory has magic 0x%x version %u; this "
                        "service knows version %u",
                        c.magic, c.version, ROCATTACH_SHM_VERSION));
  }
  uint64_t slots_bytes = uint64_t{c.ring_slots} * ROCATTACH_SLOT_BYTES;
  bool ok =
      c.total_bytes == bytes_ && c.ring_count > 0 && c.ring_count <= kMaxRings &&
      c.ring_slots > 0 && c.ring_slots <= kMaxRingSlots &&
      (c.ring_slots & (c.ring_slots - 1)) == 0 &&
      c.ring_stride >= ROCATTACH_RING_HEADER_BYTES + slots_bytes &&
      c.ring_stride % 64 == 0 && c.inflight_count <= kMaxInflight &&
      c.inflight_bytes == sizeof(rocattach_inflight) &&
      Inside(c.rings_offset, c.ring_count, c.ring_stride, bytes_) &&
      Inside(c.inflight_offset, c.inflight_count, sizeof(rocattach_inflight), bytes_) &&
      Inside(c.dictionary_offset, c.dictionary_bytes, 1, bytes_) &&
      c.plan_bytes == sizeof(rocattach_plan) &&
      Inside(c.plan_offset, c.plan_bytes, 1, bytes_);
  if (!ok)
    return absl::DataLossError("the collector's memory has an impossible layout");
  rings_offset_ = c.rings_offset;
  ring_stride_ = c.ring_stride;
  ring_count_ = c.ring_count;
  ring_slots_ = c.ring_slots;
  inflight_offset_ = c.inflight_offset;
  inflight_count_ = c.inflight_count;
  dictionary_offset_ = c.dictionary_offset;
  dictionary_bytes_ = c.dictionary_bytes;
  plan_offset_ = c.plan_offset;
  // A service before us may have written one.
  uint64_t generation = __atomic_load_n(&plan()->generation, __ATOMIC_RELAXED);
  plan_generation_ = generation + (generation & 1);
  window_id_ = c.window_id;
  positions_.resize(ring_count_);
  return absl::OkStatus();
}

void CollectorMemory::AcknowledgeMapped() {
  __atomic_store_n(&control()->service_mapped, 1u, __ATOMIC_RELEASE);
  FutexWake(&control()->service_mapped);
}

void CollectorMemory::SetRecording(bool recording) {
  __atomic_store_n(&control()->recording, recording ? 1u : 0u, __ATOMIC_RELAXED);
  __atomic_add_fetch(&control()->command, 1u, __ATOMIC_RELEASE);
  FutexWake(&control()->command);
}

rocattach_plan* CollectorMemory::plan() {
  return reinterpret_cast<rocattach_plan*>(base_ + plan_offset_);
}

uint64_t CollectorMemory::WritePlan(const rocattach_plan& image) {
  constexpr size_t kHead = offsetof(rocattach_plan, session_id);
  rocattach_plan* to = plan();
  __atomic_store_n(&to->generation, plan_generation_ + 1, __ATOMIC_RELAXED);
  // What follows must not be seen before the odd generation.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  memcpy(to, &image, offsetof(rocattach_plan, generation));
  memcpy(reinterpret_cast<uint8_t*>(to) + kHead,
         reinterpret_cast<const uint8_t*>(&image) + kHead,
         sizeof(rocattach_plan) - kHead);
  if (image.start_ns == 0) to->start_ns = BootNs();
  plan_generation_ += 2;
  __atomic_store_n(&to->generation, plan_generation_, __ATOMIC_RELEASE);
  __atomic_add_fetch(&control()->command, 1u, __ATOMIC_RELEASE);
  FutexWake(&control()->command);
  return plan_generation_;
}

void CollectorMemory::DecideKernels(uint32_t selection,
                                    absl::Span<const uint32_t> kernels,
                                    uint32_t decided) {
  rocattach_plan_selection& to = plan()->selections[selection];
  for (uint32_t kernel : kernels) {
    if (kernel >= ROCATTACH_PLAN_MAX_KERNELS) continue;
    __atomic_fetch_or(&to.kernels[kernel / 64], uint64_t{1} << (kernel % 64),
                      __ATOMIC_RELAXED);
  }
  __atomic_store_n(&to.kernels_decided, std::min(decided, ROCATTACH_PLAN_MAX_KERNELS),
                   __ATOMIC_RELEASE);
}

uint64_t CollectorMemory::answered_generation() const {
  return LoadAcquire(&control()->plan_acked);
}

PlanAnswer CollectorMemory::plan_answer() const {
  const rocattach_control* c = control();
  PlanAnswer answer;
  answer.generation = LoadAcquire(&c->plan_acked);
  answer.error = Load(&c->plan_error);
  answer.code = Load(&c->plan_error_code);
  answer.text = Printable(c->plan_error_text, sizeof(c->plan_error_text));
  return answer;
}

BackendFacts CollectorMemory::backend() const {
  const rocattach_control* c = control();
  BackendFacts facts;
  facts.backend = LoadAcquire(&c->backend);
  facts.reason = Load(&c->backend_reason);
  facts.record_kinds = Load(&c->record_kinds);
  facts.api_domains = Load(&c->api_domains);
  facts.sdk_version = Load(&c->sdk_version);
  facts.text = Printable(c->backend_text, sizeof(c->backend_text));
  return facts;
}

void CollectorMemory::Beat(uint64_t now_ns) {
  __atomic_store_n(&control()->service_beat_ns, now_ns, __ATOMIC_RELAXED);
}

uint32_t CollectorMemory::state() const {
  return LoadAcquire(&control()->state);
}
uint32_t CollectorMemory::reason() const {
  return Load(&control()->reason);
}
uint64_t CollectorMemory::armed_ns() const {
  return Load(&control()->armed_ns);
}

v1::Collector CollectorMemory::Describe() const {
  rocattach_control copy;
  memcpy(&copy, base_, sizeof(copy));
  return CollectorToProto(copy);
}

std::string CollectorMemory::text() const {
  return Printable(control()->text, sizeof(control()->text));
}

CollectorAccount CollectorMemory::Account() const {
  const rocattach_control* c = control();
  CollectorAccount account;
  // A ring's may be negative: another thread may publish what this one captured.
  int64_t inflight = 0;
  account.other_dropped = Load(&c->other_dropped);
  account.dictionary_dropped = Load(&c->dictionary_dropped);
  account.own_ns = Load(&c->hook_ns_total);
  for (uint32_t i = 0; i < ring_count_; ++i) {
    account.produced += LoadAcquire(&ring(i)->head);
    account.ring_dropped += Load(&ring(i)->dropped);
    // The rings' own counters, not the control block's sums: those are refreshed now
    // and then, these are exact at any instant, that of a SIGKILL included.
    account.dispatches_seen += Load(&ring(i)->dispatches_seen);
    account.copies_seen += Load(&ring(i)->copies_seen);
    account.dispatches_untimed += Load(&ring(i)->dispatches_untimed);
    account.packets_unseen += Load(&ring(i)->packets_unseen);
    inflight += Load(&ring(i)->inflight);
    account.counted_seen += Load(&ring(i)->counted_seen);
    account.counted_dropped += Load(&ring(i)->counted_dropped);
    account.values_dropped += Load(&ring(i)->values_dropped);
    account.samples_seen += Load(&ring(i)->samples_seen);
    account.samples_dropped += Load(&ring(i)->samples_dropped);
    account.api_calls_seen += Load(&ring(i)->api_calls_seen);
    account.api_calls_dropped += Load(&ring(i)->api_calls_dropped);
    account.delivered += positions_[i].tail;
    account.corrupt_rings += positions_[i].corrupt ? 1 : 0;
  }
  account.inflight = inflight > 0 ? static_cast<uint64_t>(inflight) : 0;
  return account;
}

std::vector<std::vector<uint8_t>> CollectorMemory::NewEntries() {
  std::vector<std::vector<uint8_t>> entries;
  uint64_t used = std::min(LoadAcquire(&control()->dictionary_used), dictionary_bytes_);
  while (dictionary_ok_ && dictionary_read_ < used) {
    const uint8_t* at = base_ + dictionary_offset_ + dictionary_read_;
    rocattach_entry head;
    if (used - dictionary_read_ < sizeof(head)) {
      dictionary_ok_ = false;
      break;
    }
    memcpy(&head, at, sizeof(head));
    if (head.bytes < sizeof(head) || head.bytes % 8 != 0 ||
        head.bytes > used - dictionary_read_) {
      dictionary_ok_ = false;
      break;
    }
    std::vector<uint8_t> copy(at, at + head.bytes);
    // The target may have changed the header between the two reads.
    memcpy(copy.data(), &head, sizeof(head));
    entries.push_back(std::move(copy));
    dictionary_read_ += head.bytes;
  }
  return entries;
}

void CollectorMemory::SnapshotHeads() {
  for (uint32_t i = 0; i < ring_count_; ++i) {
    Position& position = positions_[i];
    if (position.corrupt) continue;
    uint64_t head = LoadAcquire(&ring(i)->head);
    if (head < position.head || head - position.tail > ring_slots_) {
      position.corrupt = true;
      continue;
    }
    position.head = head;
  }
}

size_t CollectorMemory::Drain(uint32_t index, absl::Span<RecordSlot> out) {
  Position& position = positions_[index];
  if (position.corrupt) return 0;
  uint64_t waiting = position.head - position.tail;
  size_t count = std::min<uint64_t>(waiting, out.size());
  if (count == 0) return 0;
  const uint8_t* slots =
      reinterpret_cast<const uint8_t*>(ring(index)) + ROCATTACH_RING_HEADER_BYTES;
  uint64_t first = position.tail & (ring_slots_ - 1);
  size_t run = std::min<uint64_t>(count, ring_slots_ - first);
  memcpy(out.data(), slots + first * ROCATTACH_SLOT_BYTES, run * ROCATTACH_SLOT_BYTES);
  memcpy(out.data() + run, slots, (count - run) * ROCATTACH_SLOT_BYTES);
  position.tail += count;
  __atomic_store_n(&ring(index)->tail, position.tail, __ATOMIC_RELEASE);
  return count;
}

std::vector<RecordSlot> CollectorMemory::UnfinishedRecords() const {
  std::vector<RecordSlot> records;
  for (uint32_t i = 0; i < inflight_count_; ++i) {
    const auto* entry = reinterpret_cast<const rocattach_inflight*>(
        base_ + inflight_offset_ + uint64_t{i} * sizeof(rocattach_inflight));
    uint16_t kind = LoadAcquire(&entry->kind);
    if (kind != ROCATTACH_RECORD_DISPATCH && kind != ROCATTACH_RECORD_COPY) continue;
    rocattach_inflight copy;
    memcpy(&copy, entry, sizeof(copy));
    copy.kind = kind;
    records.push_back(UnfinishedRecord(copy));
  }
  return records;
}

}  // namespace rocattach
