#include "userspace/record/collector_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/abi/sampling.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/convert.h"
#include "userspace/record/target_memfd.h"

namespace rocattach {
namespace {

// A service that lives and has not drained for this long is as good as gone.
constexpr uint64_t kServiceGoneNs = 3'000'000'000;
// A collector stops by itself when nothing has been drained for five seconds.
constexpr uint64_t kMayHaveStoppedNs = 4'000'000'000;

// An entry has at most 64 KiB of text, and little besides.
constexpr size_t kMaxEntryBytes = 128 << 10;

template <typename T>
T Load(const T* field) {
  return __atomic_load_n(field, __ATOMIC_RELAXED);
}
template <typename T>
T LoadAcquire(const T* field) {
  return __atomic_load_n(field, __ATOMIC_ACQUIRE);
}

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
  // The path is checked as well, and only the stub fills it in.
  if (sizes.collector_path[0] == '\0') sizes.collector_path[0] = '/';
  collector::Geometry geometry;
  if (!collector::ComputeGeometry(sizes, &geometry)) {
    return absl::InternalError("the collector's configuration has no valid geometry");
  }
  return geometry;
}

void FutexWake(uint32_t* word) {
  // Not FUTEX_PRIVATE: the waiter maps the same memfd in another process.
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Copies a text of the target exactly once.
std::string Printable(const char* from, size_t room) {
  std::string text(from, room);
  text.resize(strnlen(text.data(), room));
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return text;
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
// take it too: it then delays the next service that takes over, as it could by a false
// heartbeat.
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

const rocattach_control* CollectorMemory::control() const {
  return reinterpret_cast<const rocattach_control*>(base_);
}
rocattach_control* CollectorMemory::control() {
  return reinterpret_cast<rocattach_control*>(base_);
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
  // More than was configured would cost us, and so all other targets, time and memory.
  if (!SameGeometry(c, geometry_)) {
    return absl::DataLossError(
        "the collector's memory does not have the sizes that were configured");
  }
  // An earlier service may have written one.
  uint64_t generation = 0;
  if (!Read(geometry_.plan_offset + offsetof(rocattach_plan, generation), &generation,
            sizeof(generation))) {
    return absl::DataLossError("the collector's memory cannot be read");
  }
  plan_generation_ = generation + (generation & 1);
  window_id_ = c.window_id;
  owner_ = c.pid;
  return absl::OkStatus();
}

absl::Status CollectorMemory::TakeOver(uint64_t now_ns) {
  uint64_t* heartbeat = &control()->service_heartbeat_ns;
  uint64_t seen_ns = __atomic_load_n(heartbeat, __ATOMIC_RELAXED);
  const bool recent =
      seen_ns != 0 && seen_ns <= now_ns && now_ns - seen_ns < kServiceGoneNs;
  if (!locked_) locked_ = TryLock();
  // Of two services that try at the same time, one wins.
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
  __atomic_add_fetch(&control()->takeovers, 1u, __ATOMIC_RELEASE);
  // The other service may have been killed during a session.
  const rocattach_plan none = {};
  WritePlan(none);
  // Or while it was over its budget.
  SetSampling(ROCATTACH_SAMPLING_EVERY);
  return absl::OkStatus();
}

void CollectorMemory::Release() {
  __atomic_store_n(&control()->service_heartbeat_ns, uint64_t{0}, __ATOMIC_RELAXED);
}

void CollectorMemory::AcknowledgeMapped() {
  __atomic_store_n(&control()->service_mapped, 1u, __ATOMIC_RELEASE);
  FutexWake(&control()->service_mapped);
}

void CollectorMemory::SetRecording(bool recording) {
  __atomic_store_n(&control()->recording, recording ? 1u : 0u, __ATOMIC_RELAXED);
  Command();
}

void CollectorMemory::Command() {
  __atomic_add_fetch(&control()->command, 1u, __ATOMIC_RELEASE);
  FutexWake(&control()->command);
}

uint64_t CollectorMemory::baseline() const {
  if (__atomic_load_n(&control()->recording, __ATOMIC_RELAXED) == 0) return 0;
  return __atomic_load_n(&control()->recording_flags, __ATOMIC_RELAXED);
}

void CollectorMemory::SetSampling(uint32_t sampling) {
  __atomic_store_n(&control()->sampling, sampling, __ATOMIC_RELAXED);
}

rocattach_plan* CollectorMemory::plan() {
  return reinterpret_cast<rocattach_plan*>(base_ + geometry_.plan_offset);
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
  Command();
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

void CollectorMemory::Heartbeat(uint64_t now_ns) {
  // It was that of a service which was stopped and has died since.
  if (!locked_) locked_ = TryLock();
  __atomic_store_n(&control()->service_heartbeat_ns, now_ns, __ATOMIC_RELAXED);
  const bool was_away =
      heartbeat_ns_ != 0 && now_ns > heartbeat_ns_ + kMayHaveStoppedNs;
  heartbeat_ns_ = now_ns;
  if (was_away) Command();
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

bool CollectorMemory::hears_of_init() const {
  const uint32_t entry = Load(&control()->entry);
  return entry == ROCATTACH_ENTRY_PATH_LIVE_TABLE || entry == ROCATTACH_ENTRY_PATH_LATE;
}

bool CollectorMemory::entered_late() const {
  return Load(&control()->entry) == ROCATTACH_ENTRY_PATH_LATE;
}

uint32_t CollectorMemory::init_status() const {
  return Load(&control()->init_status);
}

v1::Collector CollectorMemory::Describe() const {
  rocattach_control copy;
  memcpy(&copy, base_, sizeof(copy));
  return CollectorToProto(copy);
}

std::string CollectorMemory::text() const {
  return Printable(control()->text, sizeof(control()->text));
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

}  // namespace rocattach
