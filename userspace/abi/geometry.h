// Geometry of the shared memory for a given configuration.
#ifndef ROCATTACH_USERSPACE_ABI_GEOMETRY_H_
#define ROCATTACH_USERSPACE_ABI_GEOMETRY_H_

#include <stdint.h>

#include "userspace/abi/shared_memory.h"

namespace rocattach::collector {

// Offsets in bytes from the start of the memory; all multiples of 4096.
struct Geometry {
  uint32_t ring_count = 0;
  uint32_t ring_slots = 0;
  uint32_t inflight_count = 0;
  uint32_t dictionary_bytes = 0;
  uint64_t rings_offset = 0;
  uint64_t ring_stride = 0;
  uint64_t inflight_offset = 0;
  uint64_t dictionary_offset = 0;
  uint64_t plan_offset = 0;
  uint64_t total_bytes = 0;
};

// False if the configuration is malformed, of another version, or asks for more than
// ROCATTACH_SHM_MAX_BYTES.
bool ComputeGeometry(const rocattach_collector_config& config, Geometry* geometry);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_ABI_GEOMETRY_H_
