// Loads the collector again when a runtime that has shut down starts again.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_REENTRY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_REENTRY_H_

#include <stdint.h>

#include "userspace/collector/common/process.h"

namespace rocattach::collector {

// If our functions are not in the live table, the runtime finds us through the
// environment each time it starts. Coordinates the installation and removal of the
// variables by several threads.
class Reentry {
 public:
  // The service has started us again: installs the variables until OnLoad. 0 or an
  // errno value.
  int Install();
  // Called before and after the runtime's own hsa_init, which would not look for
  // tools without the variables.
  void BeginInit();
  void EndInit();
  // Threads that entered hsa_init before our hook was in place may start the runtime
  // again: installs the variables briefly.
  void InstallForWaitingThreads();
  // Ends an installation for waiting threads that was not used in time. Returns the
  // time that is left for it, in ms; 0 if there is none.
  uint32_t Expire();

 private:
  TinyLock lock_;
  uint32_t inits_under_way_ = 0;  // threads between BeginInit and EndInit
  uint64_t until_ns_ = 0;         // end of the installation for waiting threads
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_REENTRY_H_
