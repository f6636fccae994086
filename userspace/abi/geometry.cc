#include "userspace/abi/geometry.h"

#include <string.h>

namespace rocattach::collector {
namespace {

uint64_t PageUp(uint64_t bytes) {
  return (bytes + 4095) & ~uint64_t{4095};
}

bool Between(uint32_t value, uint32_t low, uint32_t high) {
  return value >= low && value <= high;
}

}  // namespace

bool ComputeGeometry(const rocattach_collector_config& config, Geometry* geometry) {
  if (config.size != sizeof(config) || config.version != ROCATTACH_SHM_VERSION) {
    return false;
  }
  if (config.backend > ROCATTACH_BACKEND_SDK_ATTACH) return false;
  size_t path_bytes = strnlen(config.collector_path, sizeof(config.collector_path));
  if (path_bytes == 0 || path_bytes == sizeof(config.collector_path)) return false;
  // The upper bounds keep every product below within 64 bits.
  if (!Between(config.ring_count, 1, 1024) ||
      !Between(config.ring_slots, 16, 1u << 20) ||
      (config.ring_slots & (config.ring_slots - 1)) != 0 ||
      !Between(config.inflight_count, 16, 1u << 20) ||
      !Between(config.dictionary_bytes, 4096, 64u << 20)) {
    return false;
  }
  Geometry g;
  g.ring_count = config.ring_count;
  g.ring_slots = config.ring_slots;
  g.inflight_count = config.inflight_count;
  g.dictionary_bytes = static_cast<uint32_t>(PageUp(config.dictionary_bytes));
  g.rings_offset = PageUp(sizeof(rocattach_control));
  g.ring_stride = PageUp(ROCATTACH_RING_HEADER_BYTES +
                         uint64_t{g.ring_slots} * ROCATTACH_SLOT_BYTES);
  g.inflight_offset = g.rings_offset + g.ring_stride * g.ring_count;
  g.dictionary_offset = PageUp(g.inflight_offset +
                               uint64_t{g.inflight_count} * sizeof(rocattach_inflight));
  g.plan_offset = g.dictionary_offset + g.dictionary_bytes;
  g.total_bytes = g.plan_offset + PageUp(sizeof(rocattach_plan));
  if (g.total_bytes > ROCATTACH_SHM_MAX_BYTES) return false;
  *geometry = g;
  return true;
}

}  // namespace rocattach::collector
