// Counters that add up others over time, for an SDK that cannot make counters later:
// their definitions are handed to it while the tool is initialised.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_ACCUMULATORS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_ACCUMULATORS_H_

#include <stddef.h>
#include <stdint.h>

#include "userspace/abi/plan.h"
#include "userspace/collector/sdk/agents.h"
#include "userspace/collector/sdk/functions.h"

namespace rocattach::collector {

// The architectures of which counters are defined, without duplicates.
struct Architectures {
  static constexpr uint32_t kMax = 8;
  const char* name[kMax];
  uint32_t count;
};

// Writes one definition for each resolution and each SQ counter that `known` defines
// for one of `architectures`, and returns the bytes written, without the final NUL; 0 if
// there is no such counter. What does not fit is left out. `known` is text of the
// SDK's own file, in the form in which it is installed; what is written otherwise is
// not understood, and skipped.
size_t WriteAccumulators(const char* known, size_t bytes,
                         const Architectures& architectures, char* out, size_t room);

// Call while the tool is initialised, before any counter is looked up. Does nothing if
// the SDK can make counters later, or if it has no functions for definitions. An
// expression that names a counter which the SDK lacks would end the process, so only
// those are defined whose counters are in the file that the SDK is about to read.
void DefineAccumulators(const rocattach_sdk_functions& sdk, const SdkAgents& agents);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_ACCUMULATORS_H_
