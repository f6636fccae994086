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

bool ComputeLayout(const rocattach_collector_config& config, Layout* layout) {
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
  Layout l;
  l.ring_count = config.ring_count;
  l.ring_slots = config.ring_slots;
  l.inflight_count = config.inflight_count;
  l.dictionary_bytes = static_cast<uint32_t>(PageUp(config.dictionary_bytes));
  l.rings_offset = PageUp(sizeof(rocattach_control));
  l.ring_stride = PageUp(ROCATTACH_RING_HEADER_BYTES +
                         uint64_t{l.ring_slots} * ROCATTACH_SLOT_BYTES);
  l.inflight_offset = l.rings_offset + l.ring_stride * l.ring_count;
  l.dictionary_offset = PageUp(l.inflight_offset +
                               uint64_t{l.inflight_count} * sizeof(rocattach_inflight));
  l.plan_offset = l.dictionary_offset + l.dictionary_bytes;
  l.total_bytes = l.plan_offset + PageUp(sizeof(rocattach_plan));
  if (l.total_bytes > ROCATTACH_SHM_MAX_BYTES) return false;
  *layout = l;
  return true;
}

}  // namespace rocattach::collector
