// Front end (b): dispatches captured by the runtime's intercept queues.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_INTERCEPT_H_
#define ROCATTACH_USERSPACE_COLLECTOR_INTERCEPT_H_

#include "userspace/collector/capture.h"
#include "userspace/collector/hsa_functions.h"

namespace rocattach::collector {

// The fallback for producers that write doorbell registers themselves. The runtime
// hands us each batch of packets before it copies them to the hardware queue.
//
// ROCr up to 5.7 asserts when the hardware queue is full for two batches in a row.
// There we keep count: every eighth of the queue a barrier packet with a signal of ours
// is slipped in, whose completion says how far the hardware has come, and a batch that
// would not fit waits until it does, as its producer would without us.
class InterceptCapture {
 public:
  void Init(Capture* capture, const HsaFunctions* hsa, bool bounded) {
    capture_ = capture;
    hsa_ = hsa;
    bounded_ = bounded;
  }

  // What the handler does for one batch of queue `q`.
  void Handle(Queue* q, const void* packets, uint64_t count, uint64_t user_index,
              InterceptWriter writer, bool recording, RingHandle* ring);

 private:
  static constexpr uint32_t kChunk = 32;  // packets copied to the stack at a time

  void Bound(Queue* q, uint64_t count, InterceptWriter writer);
  void CollectMarkers(Queue* q);
  bool PlaceMarker(Queue* q, InterceptWriter writer);

  Capture* capture_ = nullptr;
  const HsaFunctions* hsa_ = nullptr;
  bool bounded_ = false;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_INTERCEPT_H_
