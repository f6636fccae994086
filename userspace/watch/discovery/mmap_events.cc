#include "userspace/watch/discovery/mmap_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kHeaderBytes = 4096;

// Layout of PERF_RECORD_MMAP2 without build ids: perf_event_open(2).
struct Mmap2Record {
  perf_event_header header;
  uint32_t pid, tid;
  uint64_t address, bytes, file_offset;
  uint32_t device_major, device_minor;
  uint64_t inode, inode_generation;
  uint32_t protection, flags;
};

struct LostRecord {
  perf_event_header header;
  uint64_t id, lost;
};

int OpenSideBand(int cpu, uint32_t bytes) {
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.mmap = 1;
  attr.mmap2 = 1;
  // Side-band records do not wake a reader that waits for a number of events; only a
  // watermark in bytes does.
  attr.watermark = 1;
  attr.wakeup_watermark = bytes;
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

constexpr char kOnline[] = "/sys/devices/system/cpu/online";
constexpr size_t kMostBytes = 64 << 10;
// The largest CONFIG_NR_CPUS.
constexpr int kMostCpus = 8192;

bool ParseNumber(absl::string_view text, int* number) {
  return !text.empty() && absl::SimpleAtoi(text, number) && *number >= 0 &&
         *number < kMostCpus;
}

}  // namespace

bool ParseMmapRecord(absl::Span<const uint8_t> record, MmapEvent* event) {
  Mmap2Record fixed;
  if (record.size() < sizeof(fixed)) return false;
  memcpy(&fixed, record.data(), sizeof(fixed));
  if (fixed.header.type != PERF_RECORD_MMAP2 || fixed.header.size != record.size() ||
      (fixed.header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) != 0) {
    return false;
  }
  event->pid = static_cast<pid_t>(fixed.pid);
  event->tid = static_cast<pid_t>(fixed.tid);
  event->address = fixed.address;
  event->bytes = fixed.bytes;
  event->file_offset = fixed.file_offset;
  event->device_major = fixed.device_major;
  event->device_minor = fixed.device_minor;
  event->inode = fixed.inode;
  const char* name = reinterpret_cast<const char*>(record.data()) + sizeof(fixed);
  event->path.assign(name, strnlen(name, record.size() - sizeof(fixed)));
  return true;
}

void ReadMmapRecords(absl::Span<const uint8_t> ring, uint64_t tail, uint64_t head,
                     const std::function<void(const MmapEvent&)>& visit,
                     uint64_t* lost) {
  std::vector<uint8_t> record;
  while (tail < head) {
    perf_event_header header;
    // A header never wraps: records are multiples of eight bytes.
    memcpy(&header, ring.data() + tail % ring.size(), sizeof(header));
    if (header.size < sizeof(header) || header.size % 8 != 0 ||
        header.size > head - tail || header.size > ring.size()) {
      return;
    }
    record.resize(header.size);
    const size_t at = tail % ring.size();
    const size_t first = std::min<size_t>(header.size, ring.size() - at);
    memcpy(record.data(), ring.data() + at, first);
    memcpy(record.data() + first, ring.data(), header.size - first);
    tail += header.size;
    MmapEvent event;
    if (header.type == PERF_RECORD_LOST && header.size >= sizeof(LostRecord)) {
      LostRecord said;
      memcpy(&said, record.data(), sizeof(said));
      *lost += said.lost;
    } else if (ParseMmapRecord(record, &event)) {
      visit(event);
    }
  }
}

absl::StatusOr<std::unique_ptr<MmapEvents>> MmapEvents::Open() {
  // Without wake-ups, the kernel has to wake this process for each mapping.
  absl::StatusOr<std::unique_ptr<MmapWakeups>> wakeups = MmapWakeups::Open();
  return OpenWith({.open = OpenSideBand, .online = ReadOnlineCpus},
                  wakeups.ok() ? *std::move(wakeups) : nullptr);
}

absl::StatusOr<std::unique_ptr<MmapEvents>> MmapEvents::OpenWith(
    Functions functions, std::unique_ptr<MmapWakeups> wakeups) {
  auto events = std::unique_ptr<MmapEvents>(
      new MmapEvents(std::move(functions), std::move(wakeups)));
  RETURN_IF_ERROR(events->FollowProcessors().status());
  return events;
}

absl::StatusOr<bool> MmapEvents::Add(int cpu) {
  Ring ring;
  ring.fd.reset(functions_.open(cpu, wakeups_ == nullptr ? 1 : kDataBytes / 2));
  if (!ring.fd.valid() && errno == ENODEV) return false;
  if (!ring.fd.valid()) {
    return ErrnoStatus(errno, absl::StrCat("perf_event_open(mmap2, cpu ", cpu,
                                           ") failed; it needs CAP_PERFMON or root"));
  }
  void* base = mmap(nullptr, kHeaderBytes + kDataBytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED, ring.fd.get(), 0);
  if (base == MAP_FAILED) {
    return ErrnoStatus(errno, absl::StrCat("mmap(perf ring, cpu ", cpu, ") failed"));
  }
  ring.base = static_cast<uint8_t*>(base);
  rings_[cpu] = std::move(ring);
  return true;
}

absl::StatusOr<bool> MmapEvents::FollowProcessors() {
  const std::vector<int> online = functions_.online();
  bool changed = false;
  // The kernel removes the events of a processor that stops, and does not bring them
  // back.
  for (auto ring = rings_.begin(); ring != rings_.end();) {
    if (std::binary_search(online.begin(), online.end(), ring->first)) {
      ++ring;
      continue;
    }
    munmap(ring->second.base, kHeaderBytes + kDataBytes);
    ring = rings_.erase(ring);
    changed = true;
  }
  absl::Status first_error;
  for (int cpu : online) {
    if (rings_.count(cpu) > 0) continue;
    const absl::StatusOr<bool> added = Add(cpu);
    first_error.Update(added.status());
    changed |= added.value_or(false);
  }
  RETURN_IF_ERROR(first_error);
  return changed;
}

MmapEvents::~MmapEvents() {
  for (auto& [cpu, ring] : rings_) munmap(ring.base, kHeaderBytes + kDataBytes);
}

std::vector<int> MmapEvents::fds() const {
  std::vector<int> fds;
  for (const auto& [cpu, ring] : rings_) fds.push_back(ring.fd.get());
  if (wakeups_ != nullptr) fds.push_back(wakeups_->fd());
  return fds;
}

void MmapEvents::Read(const std::function<void(const MmapEvent&)>& visit) {
  // First: a later wake-up may be for a record that is not read here any more.
  if (wakeups_ != nullptr) wakeups_->Clear();
  for (const auto& [cpu, ring] : rings_) ReadRing(ring, visit);
}

void MmapEvents::ReadRing(const Ring& ring,
                          const std::function<void(const MmapEvent&)>& visit) {
  auto* page = reinterpret_cast<perf_event_mmap_page*>(ring.base);
  const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
  ReadMmapRecords(absl::MakeConstSpan(ring.base + kHeaderBytes, kDataBytes),
                  page->data_tail, head, visit, &lost_);
  __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}

std::optional<std::vector<int>> ParseCpuList(absl::string_view text) {
  (void)absl::ConsumeSuffix(&text, "\n");
  std::vector<int> cpus;
  int next = 0;
  for (absl::string_view range : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0;
    if (!ParseNumber(ends.first, &first) || first < next) return std::nullopt;
    int last = first;
    if (range.size() != ends.first.size() &&
        (!ParseNumber(ends.second, &last) || last < first)) {
      return std::nullopt;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    next = last + 1;
  }
  return cpus;
}

std::vector<int> ReadOnlineCpus() {
  if (const auto text = ReadFile(kOnline, kMostBytes); text.ok()) {
    if (auto cpus = ParseCpuList(*text); cpus.has_value()) return *std::move(cpus);
  }
  std::vector<int> all(std::max(0L, sysconf(_SC_NPROCESSORS_CONF)));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace rocattach
