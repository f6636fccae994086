// Queues of the application replaced by the runtime's intercept queues, so that every
// packet can be seen and changed before the GPU gets it. One set per library that links
// this: the attach library makes them when attachment is on, the SDK otherwise.
#ifndef ROCATTACH_TESTS_SIMROCM_QUEUE_PROXIES_H_
#define ROCATTACH_TESTS_SIMROCM_QUEUE_PROXIES_H_

#include "tests/simrocm/attach/attach_table.h"

namespace simrocm {

// Replaces hsa_queue_create and hsa_queue_destroy in the tables. Queues that exist
// already are not covered.
void InstallQueueProxies(CoreApiTable* core, AmdExtTable* amd_ext);

// Nullptr: packets pass unchanged. May be changed at any time.
void SetWriteInterceptor(simrocm_write_interceptor interceptor, void* data);

// Called before a proxied queue is destroyed; nullptr: not.
void SetQueueDestroyed(void (*callback)(const hsa_queue_t* queue));

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_QUEUE_PROXIES_H_
