// Evidence, from the kernel driver, that a process uses GPUs in ways that its collector
// does not see.
#ifndef ROCATTACH_USERSPACE_RECORD_DRIVER_EVIDENCE_H_
#define ROCATTACH_USERSPACE_RECORD_DRIVER_EVIDENCE_H_

#include <cstdint>
#include <string>

namespace rocattach {

// The driver's numbers for one process at one time, over all GPUs.
struct DriverReading {
  bool computes = false;  // its waves run on compute units
  uint64_t sdma_us = 0;   // total time of copy engines so far
};

// The collector's numbers at that time.
struct CollectorReading {
  bool dispatches_on = false, copies_on = false;  // these are being recorded
  uint64_t dispatches = 0, copies = 0, unseen = 0;
  uint64_t inflight = 0;  // seen, and not finished yet
  // Dispatches that were seen but not followed to their ends: they may run for long.
  uint64_t not_followed = 0;
};

// Compares each reading with the previous one. If the process computes at both, and no
// dispatch was seen in between or in flight, it has unseen ones; the same for copies.
class DriverEvidence {
 public:
  // Returns what was found, as a text for users; empty if nothing was.
  std::string Compare(const DriverReading& driver, const CollectorReading& collector);

 private:
  bool first_ = true;
  DriverReading driver_;
  CollectorReading collector_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRIVER_EVIDENCE_H_
