// Signals for the SDK's own use, destroyed when nobody needs them any more. The SDK of
// 2025 makes one for each dispatch and copy and destroys it afterwards; newer ones keep
// a pool and use them again.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_SIGNALS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_SIGNALS_H_

#include <hsa/hsa.h>

#include <memory>

namespace simrocm::sdk {

// Whether signals are used again; must be said before the first is acquired.
void PoolSignals(bool pool);

// Value 1, and no handler. The last reference destroys it or gives it back for another
// use: whoever makes the GPU wait for it must hold one until the GPU has done so.
using SignalReference = std::shared_ptr<hsa_signal_t>;
SignalReference AcquireSignal();

// The runtime is about to end, and all signals with it: destroys those that are free.
void DestroyFreeSignals();

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_SIGNALS_H_
