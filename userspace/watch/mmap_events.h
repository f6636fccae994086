// The kernel's records of executable file mappings, system-wide: perf's MMAP2 side
// band. Costs time only when an executable mapping is made.
#ifndef ROCATTACH_USERSPACE_WATCH_MMAP_EVENTS_H_
#define ROCATTACH_USERSPACE_WATCH_MMAP_EVENTS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/base/unique_fd.h"

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

// One ring per CPU. Not thread-safe.
class MmapEvents {
 public:
  // Needs CAP_PERFMON (or root).
  static absl::StatusOr<std::unique_ptr<MmapEvents>> Open();
  ~MmapEvents();
  MmapEvents(const MmapEvents&) = delete;
  MmapEvents& operator=(const MmapEvents&) = delete;

  // Readable when records wait: one descriptor per CPU.
  std::vector<int> fds() const;
  // Passes the records since the last call to `visit`.
  void Read(const std::function<void(const MmapEvent&)>& visit);
  // Records that the kernel could not store: processes may have gone unseen.
  uint64_t lost() const { return lost_; }

 private:
  struct Ring {
    UniqueFd fd;
    uint8_t* base = nullptr;
  };
  MmapEvents() = default;
  void ReadRing(const Ring& ring, const std::function<void(const MmapEvent&)>& visit);

  std::vector<Ring> rings_;
  std::vector<uint8_t> record_;
  uint64_t lost_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_MMAP_EVENTS_H_
