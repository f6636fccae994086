// Provides the points of clock maps.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_CLOCK_SOURCE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_CLOCK_SOURCE_H_

#include <stdint.h>

#include "userspace/collector/common/clock_map.h"
#include "userspace/collector/common/ring.h"
#include "userspace/collector/hsa/agents.h"
#include "userspace/collector/hsa/functions.h"

namespace rocattach::collector {

// Relates the runtime's system domain to CLOCK_BOOTTIME, and GPU ticks to the system
// domain. ROCr's system domain is boottime nanoseconds; other domains of nanoseconds
// (CLOCK_MONOTONIC, say) are recognised by their offset.
class ClockSource {
 public:
  // Samples the runtime's system clock against ours.
  void Init(const HsaFunctions* hsa);

  // Makes `map` cover `ticks` of `agent`. False if the runtime's answers are
  // implausible.
  bool Refresh(const Agent& agent, uint64_t ticks, ClockMap* map) const;

  // System domain -> CLOCK_BOOTTIME of the service.
  uint64_t SystemToBoot(uint64_t system) const {
    return ToServiceNs(scale_shift_ == 0 ? system + static_cast<uint64_t>(offset_ns_)
                                         : ScaleSystem(system));
  }

  // Publishes the map's relation as a record, once a second per agent at most.
  void Publish(const Agent& agent, const ClockMap& map, RingHandle* ring);

 private:
  uint64_t ScaleSystem(uint64_t system) const;
  int64_t SystemOffset() const;

  const HsaFunctions* hsa_ = nullptr;
  uint64_t frequency_ = 1'000'000'000;
  int64_t offset_ns_ = 0;
  int scale_shift_ = 0;  // 0: the system domain counts nanoseconds
  uint64_t published_ns_[Agents::kMax + 1] = {};
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_CLOCK_SOURCE_H_
