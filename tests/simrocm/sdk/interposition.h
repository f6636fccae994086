// Inline queue interposition, by which SDKs since 2026 observe queues that they only
// trace: no intercept queues, but a virtual write index for each queue.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_INTERPOSITION_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_INTERPOSITION_H_

#include <hsa/hsa_api_trace.h>

#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {

// True if queues are observed in this way: the simulated SDK is new enough
// (SIMROCM_QUEUE_INTERPOSITION=1), ROCPROFILER_QUEUE_INTERPOSITION does not disable it,
// and no context needs more of dispatches than tracing. Decided at the first call, when
// clients have made their contexts.
bool UsesInterposition();

// Wraps the creation and destruction of queues, the 12 functions of the write index and
// the 4 stores to signals. Must be installed last: the wrappers call the functions that
// are in the table at that time.
void InstallInterposition(CoreApiTable* core);

// Call when a context has become active or inactive; those that trace dispatches count.
// While there are none, the wrappers pass calls on. Queues may be busy.
void StartInterposition(const Context& context);
void StopInterposition(const Context& context);

// Call when the runtime is about to end, and all queues with it.
void ForgetInterposedQueues();

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_INTERPOSITION_H_
