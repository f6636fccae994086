// What every counted run must satisfy.
#ifndef ROCATTACH_TESTS_INTEGRATION_COLLECTOR_SDK_CHECKS_H_
#define ROCATTACH_TESTS_INTEGRATION_COLLECTOR_SDK_CHECKS_H_

#include <cstddef>

#include "tests/integration/collector/sdk_run.h"

namespace rocattach {

// The program ran as without us, and nothing that it did was lost.
void ExpectCleanRun(const SdkResult& result);

// Every counted dispatch has each counter of its pass once, with the simulator's truth
// summed up and its smallest and largest instance. Returns the number of values.
size_t ExpectTrueValues(const CollectorResult& run, const CompiledPlan& plan,
                        uint64_t generation);

// How many dispatches have the flag.
size_t CountFlag(const CollectorResult& run, uint32_t flag);

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_COLLECTOR_SDK_CHECKS_H_
