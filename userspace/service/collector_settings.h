// What a service's options are for its collectors.
#ifndef ROCATTACH_USERSPACE_SERVICE_COLLECTOR_SETTINGS_H_
#define ROCATTACH_USERSPACE_SERVICE_COLLECTOR_SETTINGS_H_

#include <cstdint>

#include "userspace/abi/shared_memory.h"
#include "userspace/service/watcher_options.h"

namespace rocattach {

// What collectors are started with, but for the path of the library. Their memory is
// sparse: only what is used of it costs anything.
rocattach_collector_config CollectorConfigOf(const WatcherOptions& options);

// The size of the memory that a collector creates; 0 if the configuration is invalid.
uint64_t CollectorMemoryBytes(rocattach_collector_config config);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_COLLECTOR_SETTINGS_H_
