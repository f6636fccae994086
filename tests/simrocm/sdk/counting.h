// Device counting, for use by contexts and dispatches.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_COUNTING_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_COUNTING_H_

#include "tests/simrocm/counter_truth.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {

// Asks the tool for the counters and starts from zero. HSA_NOT_LOADED before the first
// table; the context starts counting with that. SUCCESS if it has no such service.
rocattach_sdk_status StartDeviceCounting(Context* context);
void StopDeviceCounting(Context* context);

// Call when HSA is loaded: starts device counting that was requested too early.
void StartDeferredDeviceCounting();

// True if any context has such a service.
bool AnyContextCountsDevices();
// Has the simulated GPUs themselves report every dispatch, for device counting without
// intercept queues. Traced dispatches are then not counted a second time.
void ObserveDevices();
std::atomic<bool>& DevicesAreObserved();

// True if any active context counts on this GPU.
bool DeviceIsCounted(rocattach_sdk_agent_id agent);
// Counts a dispatch that has completed on this GPU.
void CountOnDevice(rocattach_sdk_agent_id agent, const DispatchShape& shape);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_COUNTING_H_
