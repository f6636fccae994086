// The collector as a whole: the process, the two backends, and their connection.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COLLECTOR_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COLLECTOR_H_

#include <stdint.h>

#include "userspace/collector/common/process.h"
#include "userspace/collector/hsa/backend.h"
#include "userspace/collector/sdk/backend.h"
#include "userspace/collector/sdk/late_sdk.h"

namespace rocattach::collector {

// Like Process, trivially constructed and never destroyed.
struct Collector {
  Process& process = g_process;
  HsaBackend& hsa = g_hsa;
  SdkBackend sdk;
  // Counters of whole GPUs alongside the HSA backend.
  LateSdk late;
  TinyLock plan_lock;
};

extern Collector g_collector;

// Implementations of the entry points.
int Start(const rocattach_collector_config* config);
bool Load(ApiTableRoot* root);
void Unload();
// At exit.
void End();

// Executes a plan with the HSA backend, if one is pending (hsa_plan.cc). `ring` is the
// calling thread's; null while the runtime starts.
void TakeHsaPlan(RingHandle* ring);

// What the collector's thread does (worker_rounds.cc).
void RunWorker();

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COLLECTOR_H_
