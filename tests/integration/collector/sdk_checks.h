// Checks that every counted run must pass.
#ifndef ROCATTACH_TESTS_INTEGRATION_COLLECTOR_SDK_CHECKS_H_
#define ROCATTACH_TESTS_INTEGRATION_COLLECTOR_SDK_CHECKS_H_

#include <cstddef>

#include "tests/integration/collector/sdk_run.h"

namespace rocattach {

// The program ran as it does without the collector, and no operation of it was lost.
void ExpectCleanRun(const SdkResult& result);

// Every counted dispatch has each counter of its pass once, with the simulator's true
// sum and its smallest and largest instance. Returns the number of values.
size_t ExpectTrueValues(const CollectorResult& run, const CompiledPlan& plan,
                        uint64_t generation);

// Returns the number of dispatches that have the flag.
size_t CountFlag(const CollectorResult& run, uint32_t flag);

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_COLLECTOR_SDK_CHECKS_H_
