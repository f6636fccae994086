// Memory that another process can take away: a fault on it costs that memory only.
#ifndef ROCATTACH_USERSPACE_RECORD_FAULT_GUARD_H_
#define ROCATTACH_USERSPACE_RECORD_FAULT_GUARD_H_

#include <cstddef>
#include <cstdint>

namespace rocattach {

// While it exists, a SIGBUS inside [base, base + bytes) does not end the process. The
// whole region becomes private zeros instead, the access that faulted is repeated, and
// broken() is true from then on. So readers need no check of their own: they find zeros
// where they have to expect anything.
//
// The kernel sends SIGBUS where a page of a mapped file cannot be had: behind the end
// of the file, in a hole that no page is left for, on a bad disk or memory cell. What
// is mapped from a process that we do not trust may become so at any time.
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
  void* place_;  // in the table that the signal's handler reads
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_FAULT_GUARD_H_
