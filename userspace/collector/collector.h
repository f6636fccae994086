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
  // rocprofiler-sdk added alongside the HSA backend: device counting and API calls.
  LateSdk late;
  TinyLock plan_lock;
};

extern Collector g_collector;

// Implementations of the entry points.
int Start(const rocattach_collector_config* config);
bool Load(ApiTableRoot* root);
void Unload();
// Called at exit.
void End();

// Applies a plan with the HSA backend, if one is pending. `ring` is the calling
// thread's; null while the runtime starts.
void ApplyHsaPlan(RingHandle* ring);

// Body of the collector's own thread, the worker.
void RunWorker();

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COLLECTOR_H_
