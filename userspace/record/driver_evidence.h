// Whether a process uses GPUs in ways that its collector does not see, by what the kernel
// driver says of it.
#ifndef ROCATTACH_USERSPACE_RECORD_DRIVER_EVIDENCE_H_
#define ROCATTACH_USERSPACE_RECORD_DRIVER_EVIDENCE_H_

#include <cstdint>
#include <string>

namespace rocattach {

// What the driver says of one process at one time, over all GPUs.
struct DriverReading {
  bool computes = false;  // compute units run waves of it
  uint64_t sdma_us = 0;   // time of the copy engines, so far
};

// What a collector has seen by then.
struct CollectorReading {
  bool dispatches_on = false, copies_on = false;  // what it is to see
  uint64_t dispatches = 0, copies = 0, unseen = 0;
  uint64_t inflight = 0;  // seen, and not over yet
  // Dispatches that were seen and not followed to their ends: they may run for long.
  uint64_t not_followed = 0;
};

// Compares one reading with the one before. A process that computes at both, although no
// dispatch was seen between them and none was in flight, has others; the same for copies.
class DriverEvidence {
 public:
  // Empty, or what was found, for users.
  std::string Compare(const DriverReading& driver, const CollectorReading& collector);

 private:
  bool first_ = true;
  DriverReading driver_;
  CollectorReading collector_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRIVER_EVIDENCE_H_
