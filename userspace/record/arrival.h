// The report of a collector that has been started in a process.
#ifndef ROCATTACH_USERSPACE_RECORD_ARRIVAL_H_
#define ROCATTACH_USERSPACE_RECORD_ARRIVAL_H_

#include <memory>
#include <optional>

#include "bpf/watch_events.h"
#include "injector/failure.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/record/drain/collector_memory.h"

namespace rocattach {

// The result of a READY event: readable memory, or the reason why there is none.
struct Arrival {
  rocattach_event event = {};
  std::unique_ptr<CollectorMemory> memory;  // null: `failure` is the reason
  bool acknowledged = false;  // the collector knows that its memory is mapped
  std::optional<AttachFailure> failure;
};

// Maps the memory that `event` reports. The process may be waiting for this in its
// hsa_init: the mapping is acknowledged at once, unless `hold` is set; then the
// receiver of the arrival must acknowledge it.
Arrival MapArrival(const rocattach_event& event,
                   const rocattach_collector_config& config, bool hold);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_ARRIVAL_H_
