#include "userspace/service/watcher_options.h"

#include "userspace/abi/geometry.h"

namespace rocattach {

rocattach_collector_config CollectorConfigOf(const WatcherOptions& options) {
  rocattach_collector_config config = {};
  config.size = sizeof(config);
  config.version = ROCATTACH_SHM_VERSION;
  config.recording_flags = options.recording_flags;
  config.recording = options.recording ? 1 : 0;
  config.ring_count = 64;
  config.ring_slots = options.ring_slots;
  config.inflight_count = 65536;
  config.dictionary_bytes = 32 << 20;
  config.map_wait_msec = options.session_wait_msec;
  return config;
}

uint64_t CollectorMemoryBytes(rocattach_collector_config config) {
  config.collector_path[0] = '/';  // any path: without one the config is invalid
  collector::Geometry geometry;
  return collector::ComputeGeometry(config, &geometry) ? geometry.total_bytes : 0;
}

}  // namespace rocattach
