// The kernel's records of executable file mappings, system-wide: perf's MMAP2 side
// band. Costs time only when an executable mapping is made.
#ifndef ROCATTACH_USERSPACE_WATCH_MMAP_EVENTS_H_
#define ROCATTACH_USERSPACE_WATCH_MMAP_EVENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/mmap_wakeups.h"

namespace rocattach {

// A process has mapped a part of a file executable.
struct MmapEvent {
  pid_t pid = 0;
  pid_t tid = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t file_offset = 0;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;
  std::string path;  // as the process's mount namespace has it
};

// Parses one PERF_RECORD_MMAP2 (header included); false if it is another record or
// malformed.
bool ParseMmapRecord(absl::Span<const uint8_t> record, MmapEvent* event);

// Passes the mappings among the records between two positions of a ring to `visit`, and
// adds what the kernel says that it could not store to `lost`. `ring` has a multiple of
// eight bytes. What no kernel writes ends the reading.
void ReadMmapRecords(absl::Span<const uint8_t> ring, uint64_t tail, uint64_t head,
                     const std::function<void(const MmapEvent&)>& visit,
                     uint64_t* lost);

// One ring for each processor that runs. Not thread-safe.
class MmapEvents {
 public:
  static constexpr size_t kDataBytes = 64 * 4096;  // of a ring, behind its first page

  struct Functions {
    // A descriptor of the records of one processor, which is readable when so many bytes
    // wait; negative: errno has the reason, ENODEV if the processor does not run.
    std::function<int(int cpu, uint32_t bytes)> open;
    std::function<std::vector<int>()> online;
  };
  // Needs CAP_PERFMON (or root). Where the kernel can tell which mappings are of a file
  // named like the HSA runtime, only those make fds() readable, or a ring that is half
  // full: all others wait until then.
  static absl::StatusOr<std::unique_ptr<MmapEvents>> Open();
  // `wakeups` may be null: then each mapping makes fds() readable.
  static absl::StatusOr<std::unique_ptr<MmapEvents>> OpenWith(
      Functions functions, std::unique_ptr<MmapWakeups> wakeups = nullptr);
  ~MmapEvents();
  MmapEvents(const MmapEvents&) = delete;
  MmapEvents& operator=(const MmapEvents&) = delete;

  // Readable when records wait: one descriptor per processor, and that of the wake-ups.
  std::vector<int> fds() const;
  // Processors have begun or ceased to run: true if fds() has changed. What was mapped
  // on a new one before this call is not known. The first error is returned after all
  // have been tried.
  absl::StatusOr<bool> FollowProcessors();
  // Passes the records since the last call to `visit`.
  void Read(const std::function<void(const MmapEvent&)>& visit);
  // Records that the kernel could not store: processes may have gone unseen.
  uint64_t lost() const { return lost_; }

 private:
  struct Ring {
    UniqueFd fd;
    uint8_t* base = nullptr;
  };
  MmapEvents(Functions functions, std::unique_ptr<MmapWakeups> wakeups)
      : functions_(std::move(functions)), wakeups_(std::move(wakeups)) {}
  // False if it does not run.
  absl::StatusOr<bool> Add(int cpu);
  void ReadRing(const Ring& ring, const std::function<void(const MmapEvent&)>& visit);

  const Functions functions_;
  const std::unique_ptr<MmapWakeups> wakeups_;  // may be null
  std::map<int, Ring> rings_;                   // by processor
  uint64_t lost_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_MMAP_EVENTS_H_
