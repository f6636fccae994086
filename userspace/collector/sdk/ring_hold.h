// Holds the application's doorbells for the time of a switch.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_RING_HOLD_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_RING_HOLD_H_

#include <stdio.h>
#include <string.h>

#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/hsa/ring_gate.h"

namespace rocattach::collector {

class RingHold {
 public:
  explicit RingHold(RingGate* gate) : gate_(gate) {}
  ~RingHold() { End(); }
  RingHold(const RingHold&) = delete;
  RingHold& operator=(const RingHold&) = delete;

  // See RingGate::HoldRings().
  bool Begin(uint64_t limit_ns) {
    begin_ns_ = BootNs();
    held_ = gate_->HoldRings(limit_ns, &unfinished_);
    quiet_ns_ = BootNs();
    return held_;
  }
  void End() {
    if (!held_) return;
    held_ = false;
    gate_->OpenRings();
    end_ns_ = BootNs();
  }
  // Leaves the gate closed: the caller opens it later.
  void Keep() { held_ = false; }
  uint32_t unfinished() const { return unfinished_; }

  // Ends the hold, and adds to the text of the plan's answer for how
  // long dispatches were held.
  void Describe(PlanResult* result) {
    if (!held_) return;
    End();
    const size_t length = strlen(result->text);
    snprintf(result->text + length, sizeof(result->text) - length,
             "%sdispatches were held for %llu us, %llu us of it until all had finished",
             length == 0 ? "" : "; ",
             static_cast<unsigned long long>((end_ns_ - begin_ns_) / 1000),
             static_cast<unsigned long long>((quiet_ns_ - begin_ns_) / 1000));
  }

 private:
  RingGate* gate_;
  bool held_ = false;
  uint32_t unfinished_ = 0;
  uint64_t begin_ns_ = 0, quiet_ns_ = 0, end_ns_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_RING_HOLD_H_
