// Detects that the service is gone.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_SERVICE_WATCH_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_SERVICE_WATCH_H_

#include <stdint.h>

#include "userspace/collector/common/process.h"

namespace rocattach::collector {

// If rings are full and nothing drains them, further recording would cost the
// application time in vain. So we stop by ourselves, until the service's next command.
class ServiceWatch {
 public:
  // Called in each of the worker's rounds. Changes Process::self_stopped.
  void Check(Process* process, bool recording);

 private:
  uint64_t dropped_ = 0;     // as of the last check
  uint64_t full_since_ = 0;  // start of drops without a drain by the service
  uint32_t stopped_command_ = 0;
  uint32_t stopped_takeovers_ = 0;
  uint32_t next_stop_ = Process::kFirstStop;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_SERVICE_WATCH_H_
