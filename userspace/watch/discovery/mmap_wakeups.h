// Wake-ups by the kernel for mappings of files that are named like the HSA runtime.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_MMAP_WAKEUPS_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_MMAP_WAKEUPS_H_

#include <memory>

#include "absl/status/statusor.h"

namespace rocattach {

// Owns the program bpf/mapped.bpf.c, which is attached as long as this object exists.
class MmapWakeups {
 public:
  // Fails if the kernel cannot attach a program to the end of perf_event_mmap(), as
  // before Linux 5.5, without function tracing, or when it is locked down.
  static absl::StatusOr<std::unique_ptr<MmapWakeups>> Open();
  virtual ~MmapWakeups() = default;

  // Readable from when such a mapping's record has been written until Clear().
  virtual int fd() const = 0;
  virtual void Clear() = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_MMAP_WAKEUPS_H_
