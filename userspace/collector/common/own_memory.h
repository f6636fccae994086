// Reads memory of this process that may be unmapped at any time.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_OWN_MEMORY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_OWN_MEMORY_H_

#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>

namespace rocattach::collector {

// Has the kernel copy it. False if not all of it is mapped, and where the kernel cannot
// copy: from device memory, and in a process whose seccomp filters forbid the call.
inline bool CopyOwnMemory(const volatile void* from, void* to, size_t bytes) {
  iovec ours = {to, bytes};
  iovec theirs = {const_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0) ==
         static_cast<ssize_t>(bytes);
}

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_OWN_MEMORY_H_
