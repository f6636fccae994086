// Barriers that separate starts and stops of dispatch counting from the dispatches
// around them, with upstream's race.
//
// A start or a stop sets a barrier. It opens when every dispatch that was counted as
// started by then has ended; until then each queue gets a packet that waits for it, in
// front of the first dispatch that meets it. But a dispatch is counted as started
// before it is checked whether it must wait for a barrier, and is removed from the
// barrier's list before it stops being counted. A barrier that is set in between waits
// for a dispatch that is queued behind it, or for one that has already ended: the
// program hangs forever.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_SERIALIZER_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_SERIALIZER_H_

#include <hsa/hsa.h>

#include <vector>

#include "tests/simrocm/sdk/signals.h"

namespace simrocm::sdk {

// Call when counting starts or stops.
void SetBarrier();

// The barriers that a dispatch of this queue must wait for, each of them once per
// queue. The references must live until the GPU has waited.
std::vector<SignalReference> BarriersInFrontOf(const hsa_queue_t* queue);

// Call when a dispatch that was counted as started has ended.
void PassBarriers(const hsa_queue_t* queue);

// Call when the queue, or all queues (nullptr), are destroyed: nothing waits for them.
void ForgetBarriersOf(const hsa_queue_t* queue);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_SERIALIZER_H_
