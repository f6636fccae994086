// Memory that another process can take away: a fault on it costs that memory only.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_FAULT_GUARD_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_FAULT_GUARD_H_

#include <cstddef>
#include <cstdint>

namespace rocattach {

// While it exists, a SIGBUS inside [base, base + bytes) does not end the process. The
// whole region becomes private zeros instead, the access that faulted is repeated, and
// broken() is true from then on. So readers need no extra checks: they read zeros where
// they must expect arbitrary data anyway.
//
// The kernel sends SIGBUS if a page of a mapped file is not available: past the end of
// the file, in a hole when memory is exhausted, on a disk or memory error. Memory that
// is mapped from an untrusted process may fail like this at any time.
//
// Faults elsewhere end the process as if there were no guard.
class FaultGuard {
 public:
  // `base` is page-aligned; the region is unmapped by the owner, after the guard's end.
  FaultGuard(void* base, size_t bytes);
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  bool broken() const;

 private:
  void* place_;  // its entry in the table that the signal handler reads
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_FAULT_GUARD_H_
