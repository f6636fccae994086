// The SDK's handlers of signals, which a thread of the runtime calls.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_HANDLERS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_HANDLERS_H_

#include <hsa/hsa_api_trace.h>

namespace simrocm::sdk {

// Registers `handler`, to be called with `argument` once the signal is less than 1.
//
// With SIMROCM_LOSE_WAKEUPS=N the runtime's thread misses every Nth of these
// registrations, as that of HSA runtime 1.18 sometimes does: it finds the handler only
// when something else wakes it, which is the next registration by any caller.
void HandleCompletion(hsa_signal_t signal, hsa_amd_signal_handler handler,
                      void* argument);

// With SIMROCM_LOSE_WAKEUPS: intercepts registrations that are not the SDK's.
void InstallHandlers(HsaApiTable* table);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_HANDLERS_H_
