// What the simulator knows of each dispatch, for tests that compare it with what others
// recorded.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_LOG_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_LOG_H_

#include "userspace/collector/sdk/abi.h"

namespace simrocm::sdk {

// Appends a line to the file that SIMROCM_DISPATCH_LOG names, if it does, for a
// dispatch that has completed and that somebody traces or counts:
//   id=N node=N start=NS end=NS grid=X,Y,Z workgroup=X,Y,Z counted=0|1
// `node` is the GPU's number in the topology. Id and shape are what counter_truth.h
// makes values of.
void LogDispatch(const rocattach_sdk_dispatch_data& data, bool counted);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_LOG_H_
