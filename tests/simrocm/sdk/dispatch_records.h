// A dispatch from its enqueueing to its records, however its queue is observed.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_RECORDS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_RECORDS_H_

#include <hsa/hsa.h>

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "tests/simrocm/sdk/counter_config.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {

// A context's interest in a dispatch, captured when it was enqueued.
struct Capture {
  Context* context;
  const BufferTracing* buffer_tracing;
  const CallbackTracing* callback_tracing;
  const DispatchCounting* counting;
  std::shared_ptr<const CounterConfig> config;
  rocattach_sdk_user_data user_data;
};

struct Dispatch {
  rocattach_sdk_dispatch_data data{};
  uint64_t thread_id = 0;
  std::vector<Capture> captures;
  bool serialize = false;  // must run alone on its GPU
  hsa_agent_t agent{0};
  const hsa_queue_t* queue = nullptr;
};

inline uint8_t PacketType(uint16_t header) {
  return static_cast<uint8_t>((header >> HSA_PACKET_HEADER_TYPE) &
                              ((1u << HSA_PACKET_HEADER_WIDTH_TYPE) - 1));
}

// Describes a packet that is about to be enqueued, captures the interested contexts,
// and calls the enter callbacks of its enqueueing. False if nothing needs the dispatch.
bool Describe(const hsa_queue_t* queue, hsa_agent_t agent,
              const hsa_kernel_dispatch_packet_t& packet, Dispatch* dispatch);

// Calls the exit callbacks of its enqueueing.
void CallEnqueued(const Dispatch& dispatch);

// Delivers the records of a dispatch that has completed; `signal` has its times.
void Deliver(Dispatch* dispatch, hsa_signal_t signal);

// Count the described dispatches in flight, for functions that wait for them. The queue
// may have been destroyed when EndDispatch() is called.
void BeginDispatch(const hsa_queue_t* queue);
void EndDispatch(const hsa_queue_t* queue);
// Number of dispatches in flight on each queue that has any.
std::map<const hsa_queue_t*, uint32_t> DispatchesUnderWay();
// Waits until fewer than `limit` are in flight on the queue, at most for `patience`.
void WaitForLess(const hsa_queue_t* queue, uint32_t limit,
                 std::chrono::milliseconds patience);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_DISPATCH_RECORDS_H_
