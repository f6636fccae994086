// The kernel's records of executable file mappings, system-wide: perf's MMAP2 side
// band. Costs time only when an executable mapping is made.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_MMAP_EVENTS_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_MMAP_EVENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/discovery/mmap_wakeups.h"

namespace rocattach {

// An executable mapping of a part of a file, made by a process.
struct MmapEvent {
  pid_t pid = 0;
  pid_t tid = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t file_offset = 0;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;
  std::string path;  // in the process's mount namespace
};

// Parses one PERF_RECORD_MMAP2 (header included); false if it is another record or
// malformed.
bool ParseMmapRecord(absl::Span<const uint8_t> record, MmapEvent* event);

// Calls `visit` with the mappings among the records between two positions of a ring,
// and adds the number of records that the kernel could not store to `lost`. The size of
// `ring` is a multiple of eight. Reading ends at anything that no kernel writes.
void ReadMmapRecords(absl::Span<const uint8_t> ring, uint64_t tail, uint64_t head,
                     const std::function<void(const MmapEvent&)>& visit,
                     uint64_t* lost);

// One ring for each processor that is online. Not thread-safe.
class MmapEvents {
 public:
  static constexpr size_t kDataBytes = 64 * 4096;  // per ring, after its first page

  struct Functions {
    // Opens one processor's records: a descriptor that is readable when this many bytes
    // are pending, or negative with errno, which is ENODEV for an offline processor.
    std::function<int(int cpu, uint32_t bytes)> open;
    std::function<std::vector<int>()> online;
  };
  // Needs CAP_PERFMON (or root). If the kernel can tell which mappings are of a file
  // named like the HSA runtime, only these make fds() readable, or a ring that is half
  // full: all others wait until then.
  static absl::StatusOr<std::unique_ptr<MmapEvents>> Open();
  // `wakeups` may be null: then each mapping makes fds() readable.
  static absl::StatusOr<std::unique_ptr<MmapEvents>> OpenWith(
      Functions functions, std::unique_ptr<MmapWakeups> wakeups = nullptr);
  ~MmapEvents();
  MmapEvents(const MmapEvents&) = delete;
  MmapEvents& operator=(const MmapEvents&) = delete;

  // Readable when records are pending: a descriptor per processor, and the wake-ups'.
  std::vector<int> fds() const;
  // Follows processors that went online or offline; true if fds() has changed. What was
  // mapped on a new one before this call is not known. The first error is returned
  // after all have been tried.
  absl::StatusOr<bool> FollowProcessors();
  // Calls `visit` with the records since the last call.
  void Read(const std::function<void(const MmapEvent&)>& visit);
  // Number of records that the kernel could not store: processes may have gone unseen.
  uint64_t lost() const { return lost_; }

 private:
  struct Ring {
    UniqueFd fd;
    uint8_t* base = nullptr;
  };
  MmapEvents(Functions functions, std::unique_ptr<MmapWakeups> wakeups)
      : functions_(std::move(functions)), wakeups_(std::move(wakeups)) {}
  // False if the processor is offline.
  absl::StatusOr<bool> Add(int cpu);
  void ReadRing(const Ring& ring, const std::function<void(const MmapEvent&)>& visit);

  const Functions functions_;
  const std::unique_ptr<MmapWakeups> wakeups_;  // may be null
  std::map<int, Ring> rings_;                   // by processor
  uint64_t lost_ = 0;
};

// Parses the kernel's list of processors, "0-3,8,10-11", in ascending order. Unset if
// it is malformed, or names processors that Linux cannot have.
std::optional<std::vector<int>> ParseCpuList(absl::string_view text);

// The processors that are online, from sysfs. If that cannot be read, all processors
// that are configured.
std::vector<int> ReadOnlineCpus();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_MMAP_EVENTS_H_
