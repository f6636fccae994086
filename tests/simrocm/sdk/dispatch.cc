#include "tests/simrocm/sdk/dispatch.h"

#include <hsa/hsa_ext_amd.h>

#include <memory>
#include <vector>

#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/dispatch_records.h"
#include "tests/simrocm/sdk/handlers.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/serializer.h"
#include "tests/simrocm/sdk/signals.h"
#include "tests/simrocm/sdk/turns.h"

namespace simrocm::sdk {
namespace {

// A dispatch that went through an intercept queue.
struct Intercepted : Dispatch {
  SignalReference signal;
  // The turn and the barriers that it waits for, kept while it may still wait.
  Turn turn;
  std::vector<SignalReference> barriers;
};

// Called on the runtime's thread for asynchronous handlers, once the GPU has finished.
bool OnComplete(hsa_signal_value_t, void* argument) {
  std::unique_ptr<Intercepted> dispatch(static_cast<Intercepted*>(argument));
  Deliver(dispatch.get(), *dispatch->signal);
  const hsa_queue_t* queue = dispatch->queue;
  PassTurn(&dispatch->turn);
  PassBarriers(queue);
  // Release the signals first: a waiter for the last dispatch may end the runtime.
  dispatch.reset();
  EndDispatch(queue);
  return false;  // the handler is used up
}

// Waits for room: a runtime of ROCm 5.7 or older fails an assertion when the queue
// behind an intercept queue overflows. The wait is limited, for programs that would
// deadlock here because they open a gate only later.
void WaitForRoom(const hsa_queue_t* queue) {
  WaitForLess(queue, queue->size / 8 > 1 ? queue->size / 8 : 1,
              std::chrono::seconds(5));
}

hsa_barrier_and_packet_t BarrierPacket() {
  hsa_barrier_and_packet_t barrier{};
  barrier.header = HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE |
                   1 << HSA_PACKET_HEADER_BARRIER |
                   HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                   HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
  return barrier;
}

// Submits the packets of one dispatch to the GPU: if needed, barriers that wait for a
// start or stop of counting and for the dispatch's turn; the dispatch with our signal;
// and, if the application gave it a signal, a barrier that completes that signal.
void Submit(std::unique_ptr<Intercepted> dispatch, hsa_kernel_dispatch_packet_t packet,
            hsa_amd_queue_intercept_packet_writer writer) {
  union Packet {
    hsa_kernel_dispatch_packet_t dispatch;
    hsa_barrier_and_packet_t barrier;
  };
  std::vector<Packet> packets;
  const hsa_signal_t app_signal = packet.completion_signal;
  dispatch->signal = AcquireSignal();
  dispatch->barriers = BarriersInFrontOf(dispatch->queue);
  auto wait_for = [&](const SignalReference& awaited) {
    packets.push_back({.barrier = BarrierPacket()});
    packets.back().barrier.dep_signal[0] = *awaited;
  };
  for (const SignalReference& barrier : dispatch->barriers) wait_for(barrier);
  if (dispatch->serialize) {
    AwaitTurn(dispatch->agent, dispatch->queue, &dispatch->turn);
    packets.push_back({.barrier = BarrierPacket()});
    packets.back().barrier.completion_signal = *dispatch->turn.ready;
    wait_for(dispatch->turn.granted);
  }
  packet.completion_signal = *dispatch->signal;
  if (dispatch->serialize) packet.header |= 1 << HSA_PACKET_HEADER_BARRIER;
  packets.push_back({.dispatch = packet});
  if (app_signal.handle != 0) {
    packets.push_back({.barrier = BarrierPacket()});
    packets.back().barrier.completion_signal = app_signal;
  }
  hsa_signal_t signal = *dispatch->signal;
  HandleCompletion(signal, OnComplete, dispatch.release());
  writer(packets.data(), packets.size());
}

void OnDispatch(const hsa_queue_t* queue, hsa_agent_t agent,
                const hsa_kernel_dispatch_packet_t& packet,
                hsa_amd_queue_intercept_packet_writer writer) {
  // After finalization there is nothing to do; a forked child must not take a lock.
  if (FiniStatus() != 0) {
    writer(&packet, 1);
    return;
  }
  WaitForRoom(queue);
  auto dispatch = std::make_unique<Intercepted>();
  // As upstream: before tools are asked, and before the packets are made.
  BeginDispatch(queue);
  if (!Describe(queue, agent, packet, dispatch.get())) {
    PassBarriers(queue);
    EndDispatch(queue);
    writer(&packet, 1);
    return;
  }
  // The EXIT callbacks come after the submission, when the dispatch may have ended.
  const Dispatch copy = *dispatch;
  Submit(std::move(dispatch), packet, writer);
  CallEnqueued(copy);
}

}  // namespace

void OnPackets(const hsa_queue_t* queue, hsa_agent_t agent, const void* packets,
               uint64_t count, hsa_amd_queue_intercept_packet_writer writer, void*) {
  const auto* packet = static_cast<const hsa_kernel_dispatch_packet_t*>(packets);
  for (uint64_t i = 0; i < count; ++i) {
    if (PacketType(packet[i].header) == HSA_PACKET_TYPE_KERNEL_DISPATCH) {
      OnDispatch(queue, agent, packet[i], writer);
    } else {
      writer(&packet[i], 1);
    }
  }
}

}  // namespace simrocm::sdk

using namespace simrocm::sdk;

namespace {

rocattach_sdk_status ConfigureDispatch(rocattach_sdk_context_id id,
                                       const DispatchCounting& counting) {
  if (InitStatus() > -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  Context* context = FindContext(id);
  if (context == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_INVALID;
  if (!context->device_counting.empty()) {
    return ROCATTACH_SDK_STATUS_ERROR_AGENT_DISPATCH_CONFLICT;
  }
  context->dispatch_counting.push_back(counting);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

}  // namespace

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_configure_buffer_dispatch_counting_service(
    rocattach_sdk_context_id context, rocattach_sdk_buffer_id buffer_id,
    rocattach_sdk_dispatch_cb callback, void* callback_data) {
  Buffer* buffer = FindBuffer(buffer_id);
  if (buffer == nullptr) return ROCATTACH_SDK_STATUS_ERROR_BUFFER_NOT_FOUND;
  return ConfigureDispatch(context,
                           {callback, callback_data, buffer, nullptr, nullptr});
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_configure_callback_dispatch_counting_service(
    rocattach_sdk_context_id context, rocattach_sdk_dispatch_cb dispatch_callback,
    void* dispatch_data, rocattach_sdk_dispatch_record_cb record_callback,
    void* record_data) {
  return ConfigureDispatch(context, {dispatch_callback, dispatch_data, nullptr,
                                     record_callback, record_data});
}
