// Reads and writes of one target's memory through /proc/PID/task/TID/mem.
#ifndef ROCATTACH_INJECTOR_PROCESS_TARGET_MEMORY_H_
#define ROCATTACH_INJECTOR_PROCESS_TARGET_MEMORY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "injector/stub/remote_address.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Refers to the address space that the target had when this was opened: after an exec,
// transfers fail instead of reaching the new program.
class TargetMemory {
 public:
  // No transfer is longer than this.
  static constexpr size_t kMaxTransfer = 1 << 20;

  // Opens the file of the traced thread, not the process's: kernels that restrict
  // forced writes to the tracer (proc_mem.force_override=ptrace) check that thread.
  // Errors carry the errno's meaning (NOT_FOUND: gone, PERMISSION_DENIED).
  static absl::StatusOr<TargetMemory> Open(pid_t pid, pid_t tid);

  // Fills all of `buffer` or fails: a partly mapped range is an error.
  absl::Status Read(RemoteAddress address, void* buffer, size_t bytes) const;

  // Reads what can be read at the beginning of a range, and returns the number of
  // bytes; fails if there are none. A mapping may have pages that cannot be read: glibc
  // since 2.42 keeps the guards of its threads' stacks in the mappings of the stacks.
  absl::StatusOr<size_t> ReadFront(RemoteAddress address, void* buffer,
                                   size_t bytes) const;

  // Read() for a few ranges, with one call where the kernel allows that.
  struct Part {
    RemoteAddress address;
    void* buffer;
    size_t bytes;
  };
  static constexpr size_t kMaxParts = 4;
  absl::Status ReadParts(absl::Span<const Part> parts) const;

  // Writes all of `buffer` or fails. Read-only private mappings are written too: the
  // page is copied, the file stays as it was. Sets errno on failure.
  absl::Status Write(RemoteAddress address, const void* buffer, size_t bytes) const;

 private:
  TargetMemory(UniqueFd fd, pid_t tid) : fd_(std::move(fd)), tid_(tid) {}
  UniqueFd fd_;
  pid_t tid_;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_TARGET_MEMORY_H_
