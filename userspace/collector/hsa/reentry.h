// Brings the collector in again when a runtime that has shut down starts once more.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_REENTRY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_REENTRY_H_

#include <stdint.h>

#include "userspace/collector/common/process.h"

namespace rocattach::collector {

// Where our functions are not in the live table, the runtime finds us by the
// environment each time that it starts. Orders the installations of the variables, by
// several threads, and their end.
class Reentry {
 public:
  // The service has started us again: from here on until OnLoad. 0 or an errno value.
  int Install();
  // Around the runtime's own hsa_init, which would not look for tools without the
  // variables.
  void BeginInit();
  void EndInit();
  // Threads that entered hsa_init before our hook was there may load the runtime anew:
  // the variables are there for a moment.
  void InstallForWaitingThreads();
  // Ends an installation for waiting threads that nobody has made use of in time. How
  // long it still has, in ms; 0 if there is none.
  uint32_t Expire();

 private:
  TinyLock lock_;
  uint32_t inits_under_way_ = 0;  // threads inside BeginInit and EndInit
  uint64_t until_ns_ = 0;         // the installation for waiting threads ends
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_REENTRY_H_
