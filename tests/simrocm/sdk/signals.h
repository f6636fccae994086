// Signals for the SDK's own use, released when they are no longer needed. The SDK of
// 2025 makes one for each dispatch and copy and destroys it afterwards; newer ones keep
// a pool and reuse them.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_SIGNALS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_SIGNALS_H_

#include <hsa/hsa.h>

#include <memory>

namespace simrocm::sdk {

// Sets whether signals are reused; call before the first is acquired.
void PoolSignals(bool pool);

// A signal with value 1 and no handler. The last reference destroys it or returns it to
// the pool: code that makes the GPU wait for it must hold one until the wait is over.
using SignalReference = std::shared_ptr<hsa_signal_t>;
SignalReference AcquireSignal();

// Call before the runtime ends, and all signals with it: destroys those that are free.
void DestroyFreeSignals();

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_SIGNALS_H_
