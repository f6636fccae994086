// While dispatches are counted they run one after the other on each GPU, in the order
// in which they reach the heads of their queues, as with upstream's serializer: the
// completion of a packet in front of a dispatch shows that it is ready, and then it
// waits for its turn. An order fixed at submission would not work: of two threads that
// share a queue, one submits the other's packets, later than the other took places in
// the order, and the program would hang.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_TURNS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_TURNS_H_

#include <hsa/hsa.h>

#include <cstdint>

#include "tests/simrocm/sdk/signals.h"

namespace simrocm::sdk {

// One dispatch's. It must live until PassTurn() or ForgetTurnsOf().
struct Turn {
  uint64_t agent = 0;
  const hsa_queue_t* queue = nullptr;
  // The GPU completes `ready` in front of the dispatch, and then waits for `granted`.
  SignalReference ready, granted;
};

// Makes the turn's signals and sees to it that it is granted after it is ready.
void AwaitTurn(hsa_agent_t agent, const hsa_queue_t* queue, Turn* turn);

// The dispatch is over: the next one may run.
void PassTurn(const Turn* turn);

// The queue is gone, or all queues are (nullptr), and with them the dispatches that
// waited for their turns.
void ForgetTurnsOf(const hsa_queue_t* queue);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_TURNS_H_
