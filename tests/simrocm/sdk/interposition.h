// Inline queue interposition, the way in which SDKs since 2026 see queues that they
// only trace: no intercept queues, but a virtual write index for each queue.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_INTERPOSITION_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_INTERPOSITION_H_

#include <hsa/hsa_api_trace.h>

#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {

// Whether queues are seen this way: the simulated SDK is new enough
// (SIMROCM_QUEUE_INTERPOSITION=1), ROCPROFILER_QUEUE_INTERPOSITION does not say no, and
// no context wants more of dispatches than tracing. Decided when it is first asked,
// once clients have made their contexts.
bool UsesInterposition();

// Wraps the creation and destruction of queues, the 12 functions of the write index and
// the 4 stores to signals; the last to be installed. What is in the table by then is
// what the wrappers call.
void InstallInterposition(CoreApiTable* core);

// A context that traces dispatches has become active, or is so no longer. While there
// is none the wrappers hand calls on. Queues may be busy.
void StartInterposition(const Context& context);
void StopInterposition(const Context& context);

// The runtime is about to end, and all queues with it.
void ForgetInterposedQueues();

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_INTERPOSITION_H_
