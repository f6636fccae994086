// Signals for the SDK's own use, given back when nobody needs them any more.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_SIGNALS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_SIGNALS_H_

#include <hsa/hsa.h>

#include <memory>

namespace simrocm::sdk {

// Value 1, and no handler. The last reference gives it back for another use: whoever
// makes the GPU wait for it must hold one until the GPU has done so.
using SignalReference = std::shared_ptr<hsa_signal_t>;
SignalReference AcquireSignal();

// The runtime is about to end, and all signals with it: destroys those that are free.
void DestroyFreeSignals();

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_SIGNALS_H_
