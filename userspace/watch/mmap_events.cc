#include "userspace/watch/mmap_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"

namespace rocattach {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kDataBytes = 64 * kPageBytes;

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

int OpenSideBand(int cpu) {
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.mmap = 1;
  attr.mmap2 = 1;
  // Side-band records do not wake a reader that waits for a number of events; only a
  // watermark in bytes does.
  attr.watermark = 1;
  attr.wakeup_watermark = 1;
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
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

absl::StatusOr<std::unique_ptr<MmapEvents>> MmapEvents::Open() {
  auto events = std::unique_ptr<MmapEvents>(new MmapEvents());
  long cpus = sysconf(_SC_NPROCESSORS_CONF);
  for (int cpu = 0; cpu < cpus; ++cpu) {
    int fd = OpenSideBand(cpu);
    if (fd < 0 && errno == ENODEV) continue;  // an offline CPU
    if (fd < 0) {
      return ErrnoStatus(errno, absl::StrCat("perf_event_open(mmap2, cpu ", cpu,
                                             ") failed; it needs CAP_PERFMON or root"));
    }
    Ring ring;
    ring.fd.reset(fd);
    void* base = mmap(nullptr, kPageBytes + kDataBytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
      return ErrnoStatus(errno, absl::StrCat("mmap(perf ring, cpu ", cpu, ") failed"));
    }
    ring.base = static_cast<uint8_t*>(base);
    events->rings_.push_back(std::move(ring));
  }
  return events;
}

MmapEvents::~MmapEvents() {
  for (Ring& ring : rings_) munmap(ring.base, kPageBytes + kDataBytes);
}

std::vector<int> MmapEvents::fds() const {
  std::vector<int> fds;
  for (const Ring& ring : rings_) fds.push_back(ring.fd.get());
  return fds;
}

void MmapEvents::Read(const std::function<void(const MmapEvent&)>& visit) {
  for (const Ring& ring : rings_) ReadRing(ring, visit);
}

void MmapEvents::ReadRing(const Ring& ring,
                          const std::function<void(const MmapEvent&)>& visit) {
  auto* page = reinterpret_cast<perf_event_mmap_page*>(ring.base);
  const uint8_t* data = ring.base + kPageBytes;
  uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
  uint64_t tail = page->data_tail;
  while (tail < head) {
    perf_event_header header;
    // A header never wraps: records are multiples of eight bytes.
    memcpy(&header, data + tail % kDataBytes, sizeof(header));
    if (header.size < sizeof(header) || header.size > head - tail) break;
    record_.resize(header.size);
    size_t first = std::min<size_t>(header.size, kDataBytes - tail % kDataBytes);
    memcpy(record_.data(), data + tail % kDataBytes, first);
    memcpy(record_.data() + first, data, header.size - first);
    tail += header.size;
    MmapEvent event;
    if (header.type == PERF_RECORD_LOST && header.size >= sizeof(LostRecord)) {
      LostRecord lost;
      memcpy(&lost, record_.data(), sizeof(lost));
      lost_ += lost.lost;
    } else if (ParseMmapRecord(record_, &event)) {
      visit(event);
    }
  }
  __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}

}  // namespace rocattach
