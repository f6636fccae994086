// State that registration and attachment share.
#ifndef ROCATTACH_TESTS_SIMROCM_REGISTER_REGISTER_H_
#define ROCATTACH_TESTS_SIMROCM_REGISTER_REGISTER_H_

#include "tests/simrocm/register/checked_lock.h"
#include "tests/simrocm/register/registry.h"

namespace simrocm {

// Held during every registration and propagation, including the SDK's work in it.
CheckedMutex& RegistrationMutex();
// Guarded by RegistrationMutex().
Registry& TheRegistry();

// If attachment is on (ROCP_TOOL_ATTACH), loads the attach library, which registers
// itself and, for "hsa", tracks queues and code objects from then on. Call with
// the lock held.
void PrepareAttachment(const Registration& registration);

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_REGISTER_REGISTER_H_
