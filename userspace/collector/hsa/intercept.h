// Captures dispatches with the runtime's intercept queues.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_INTERCEPT_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_INTERCEPT_H_

#include "userspace/collector/hsa/capture.h"
#include "userspace/collector/hsa/functions.h"

namespace rocattach::collector {

// The fallback for producers that write doorbell registers themselves. The runtime
// passes us each batch of packets before it copies them to the hardware queue. Its
// writer may be called only once for each batch (5.2 crashes on a second call), so a
// batch is first assembled in our own memory.
//
// ROCr up to 5.7 asserts when the hardware queue is full for two batches in a row.
// There we keep count: after every sixteenth of the queue, a barrier packet with one of
// our signals is inserted, whose completion shows the hardware's progress, and a batch
// that would not fit waits until it does, as its producer would without us.
class InterceptCapture {
 public:
  void Init(Capture* capture, const HsaFunctions* hsa, bool bounded) {
    capture_ = capture;
    hsa_ = hsa;
    bounded_ = bounded;
  }

  // Allocates the memory that a queue of `packets` packets needs before it is
  // intercepted. The entry keeps it. False: out of memory.
  static bool Prepare(Queue* q, uint32_t packets);

  // Handles one batch of packets of queue `q`.
  void Handle(Queue* q, const void* packets, uint64_t count, uint64_t user_index,
              InterceptWriter writer, bool recording, RingHandle* ring);

 private:
  void CollectMarkers(Queue* q);
  void WaitForRoom(Queue* q, uint64_t count);
  void Record(Queue* q, AqlPacket* packet, uint64_t index, uint64_t now_ns,
              RingHandle* ring);
  // Writes a marker to `packet` and records it; false if there is no signal left.
  bool MakeMarker(Queue* q, void* packet);

  Capture* capture_ = nullptr;
  const HsaFunctions* hsa_ = nullptr;
  bool bounded_ = false;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_INTERCEPT_H_
