// The barriers by which starts and stops of dispatch counting are separated from the
// dispatches around them, with upstream's race.
//
// A start or a stop sets a barrier. It opens when every dispatch that had been counted
// as started by then is over; until then each queue gets a packet that waits for it, in
// front of the first dispatch that meets it. But a dispatch is counted as started
// before it is asked whether it must wait for a barrier, and is taken off the list
// before it stops being counted. A barrier that is set in between waits for a dispatch
// that is queued behind it, or for one that is over already: the program stands still
// for good.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_SERIALIZER_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_SERIALIZER_H_

#include <hsa/hsa.h>

#include <vector>

#include "tests/simrocm/sdk/signals.h"

namespace simrocm::sdk {

// Counting starts or stops.
void SetBarrier();

// The barriers that a dispatch of this queue must wait for, each of them once for a
// queue. The references must live until the GPU has waited.
std::vector<SignalReference> BarriersInFrontOf(const hsa_queue_t* queue);

// A dispatch that was counted as started is over.
void PassBarriers(const hsa_queue_t* queue);

// The queue is gone, or all queues are (nullptr): nothing waits for them any more.
void ForgetBarriersOf(const hsa_queue_t* queue);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_SERIALIZER_H_
