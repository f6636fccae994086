// Logs the simulator's data on each dispatch, for tests that compare it with recordings
// by others.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_LOG_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_LOG_H_

#include "userspace/collector/sdk/abi.h"

namespace simrocm::sdk {

// Appends a line to the file that is named by SIMROCM_DISPATCH_LOG, if that is set, for
// a dispatch that has completed and is traced or counted:
//   id=N node=N start=NS end=NS grid=X,Y,Z workgroup=X,Y,Z counted=0|1
// `node` is the GPU's number in the topology. counter_truth.h computes values from id
// and shape.
void LogDispatch(const rocattach_sdk_dispatch_data& data, bool counted);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_LOG_H_
