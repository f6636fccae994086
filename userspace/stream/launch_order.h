// Checks whether the times of dispatches are possible for their packets.
#ifndef ROCATTACH_USERSPACE_STREAM_LAUNCH_ORDER_H_
#define ROCATTACH_USERSPACE_STREAM_LAUNCH_ORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "userspace/abi/shared_memory.h"

namespace rocattach {

// A packet processor launches the packets of a queue in order, with or without barrier
// bits (HSA Platform System Architecture, "Packet process flow"): several may run at
// once, and end in any order, but none starts before an earlier one of its queue has
// started, nor before it was submitted. So two kinds of dispatches have impossible
// times: those that start later than a later packet of their queue, and those that
// start before their submission.
//
// GPU ticks are converted to nanoseconds from pairs of clock readings, which on a busy
// machine are some time apart; so differences below kJitterNs are ignored.
//
// An object checks the dispatches of one process. They need not come in the order of
// their packets; each is compared with those near it.
class LaunchOrder {
 public:
  static constexpr uint64_t kJitterNs = 1'000'000;
  // Minimum number of dispatches that are remembered for each queue.
  static constexpr size_t kRemembered = 128;
  // Further queues are not checked: a process may claim any number of them.
  static constexpr uint32_t kMostQueues = 1024;

  // Returns the number of dispatches, this one or earlier ones, whose times this one
  // shows to be impossible. None is counted twice.
  uint32_t Add(const rocattach_dispatch& record);

 private:
  struct Start {
    uint64_t packet = 0;
    uint64_t start_ns = 0;
    bool counted = false;
  };
  struct Queue {
    std::vector<Start> starts;  // in the order of their packets
    uint64_t latest_ns = 0;     // the latest start among these
  };

  static uint32_t Insert(Queue* queue, Start start);

  std::vector<std::unique_ptr<Queue>> queues_;  // by number; null: none seen yet
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_LAUNCH_ORDER_H_
