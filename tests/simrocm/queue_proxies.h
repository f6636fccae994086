// Replaces queues of the application by the runtime's intercept queues, so that every
// packet can be seen and changed before the GPU gets it. There is one set per library
// that links this: the attach library makes them if attachment is on, the SDK if not.
#ifndef ROCATTACH_TESTS_SIMROCM_QUEUE_PROXIES_H_
#define ROCATTACH_TESTS_SIMROCM_QUEUE_PROXIES_H_

#include "tests/simrocm/attach/attach_table.h"

namespace simrocm {

// Replaces hsa_queue_create and hsa_queue_destroy in the tables. Queues that exist
// already are not covered.
void InstallQueueProxies(CoreApiTable* core, AmdExtTable* amd_ext);

// Sets the interceptor, at any time; nullptr: packets pass unchanged.
void SetWriteInterceptor(simrocm_write_interceptor interceptor, void* data);

// Sets the function to call before a proxied queue is destroyed; nullptr: none.
void SetQueueDestroyed(void (*callback)(const hsa_queue_t* queue));

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_QUEUE_PROXIES_H_
