// Counters that add up other counters over time, for an SDK that cannot create counters
// later: it gets their definitions while the tool is initialised.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_ACCUMULATORS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_ACCUMULATORS_H_

#include <stddef.h>
#include <stdint.h>

#include "userspace/abi/plan.h"
#include "userspace/collector/sdk/agents.h"
#include "userspace/collector/sdk/functions.h"

namespace rocattach::collector {

// The architectures for which counters are defined, without duplicates.
struct Architectures {
  static constexpr uint32_t kMax = 8;
  const char* name[kMax];
  uint32_t count;
};

// Writes one definition for each resolution and each SQ counter that `known` defines
// for one of `architectures`, and returns the bytes written, without the final NUL; 0
// if there is no such counter. What does not fit is left out. `known` is the text of
// the SDK's own file in the form in which it is installed; anything written in another
// way is not understood, and skipped.
size_t WriteAccumulators(const char* known, size_t bytes,
                         const Architectures& architectures, char* out, size_t room);

// Call while the tool is initialised, before any counter is looked up. Does nothing if
// the SDK can create counters later, or if it has no functions for definitions. An
// expression that names a counter which the SDK lacks would end the process, so only
// counters in the file that the SDK is about to read are used.
void DefineAccumulators(const rocattach_sdk_functions& sdk, const SdkAgents& agents);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_ACCUMULATORS_H_
