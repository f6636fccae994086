// Whether the times of dispatches can be those of their packets.
#ifndef ROCATTACH_USERSPACE_STREAM_LAUNCH_ORDER_H_
#define ROCATTACH_USERSPACE_STREAM_LAUNCH_ORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "userspace/abi/shared_memory.h"

namespace rocattach {

// A packet processor launches the packets of a queue in their order, with or without
// barrier bits (HSA Platform System Architecture, "Packet process flow"): several may run
// at once, and end in any order, but none starts before an earlier one of its queue has
// started, nor before it was submitted. So two kinds of dispatches have times that are not theirs:
// those that start later than a later packet of their queue, and those that start
// before their submission.
//
// GPU ticks become nanoseconds by relations of two clocks, which on a busy machine are
// read some time apart; differences below kJitterNs mean nothing.
//
// For the dispatches of one process, which may come in another order than that of their
// packets; each is compared with those near it.
class LaunchOrder {
 public:
  static constexpr uint64_t kJitterNs = 1'000'000;
  // Dispatches of a queue that are remembered, at least.
  static constexpr size_t kRemembered = 128;
  // Further queues are not checked: a process may claim to have any number.
  static constexpr uint32_t kMostQueues = 1024;

  // Returns how many dispatches have times that cannot be theirs, of this one and of
  // those before, as far as that follows from this one. None is returned twice.
  uint32_t Add(const rocattach_dispatch& record);

 private:
  struct Start {
    uint64_t packet = 0;
    uint64_t start_ns = 0;
    bool counted = false;
  };
  struct Queue {
    std::vector<Start> starts;  // in the order of their packets
    uint64_t latest_ns = 0;     // of these
  };

  static uint32_t Insert(Queue* queue, Start start);

  std::vector<std::unique_ptr<Queue>> queues_;  // by number; null: none seen yet
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_LAUNCH_ORDER_H_
