#include "tests/simrocm/sdk/dispatch.h"

#include <hsa/hsa_ext_amd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <unordered_map>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/counter_config.h"
#include "tests/simrocm/sdk/counting.h"
#include "tests/simrocm/sdk/dispatch_log.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/signals.h"

namespace simrocm::sdk {
namespace {

// A context's interest in a dispatch, captured when it was enqueued.
struct Capture {
  Context* context;
  const BufferTracing* buffer_tracing;
  const CallbackTracing* callback_tracing;
  const DispatchCounting* counting;
  std::shared_ptr<const CounterConfig> config;
  rocattach_sdk_user_data user_data;
};

struct Queue {
  uint64_t id = 0;
  uint32_t size = 0;
  uint32_t in_flight = 0;
};

struct Dispatch {
  rocattach_sdk_dispatch_data data{};
  uint64_t thread_id = 0;
  std::vector<Capture> captures;
  hsa_agent_t agent{0};
  const hsa_queue_t* queue = nullptr;
  SignalReference signal;
  SignalReference predecessor;  // what it waits for, while it may still do so
};

struct State {
  std::mutex mutex;
  std::condition_variable completed;
  std::unordered_map<const hsa_queue_t*, Queue> queues;
  // While dispatches are counted they run one after the other on each GPU.
  std::unordered_map<uint64_t, SignalReference> last_of_agent;
  uint64_t next_queue = 1, next_dispatch = 1;
  uint64_t in_flight = 0;
};

State& Get() {
  static auto* state = new State;
  return *state;
}

DispatchShape ShapeOf(const rocattach_sdk_dispatch_info& info) {
  return {{info.grid_size.x, info.grid_size.y, info.grid_size.z},
          {info.workgroup_size.x, info.workgroup_size.y, info.workgroup_size.z},
          info.dispatch_id};
}

uint8_t PacketType(const hsa_kernel_dispatch_packet_t& packet) {
  return static_cast<uint8_t>((packet.header >> HSA_PACKET_HEADER_TYPE) &
                              ((1u << HSA_PACKET_HEADER_WIDTH_TYPE) - 1));
}

void InvokeTracing(const CallbackTracing& tracing, const Context& context,
                   const Dispatch& dispatch, int32_t operation, int32_t phase,
                   rocattach_sdk_user_data* user_data) {
  rocattach_sdk_callback_kernel_dispatch payload{
      sizeof(payload), dispatch.data.start_timestamp, dispatch.data.end_timestamp,
      dispatch.data.dispatch_info};
  rocattach_sdk_callback_record record{};
  record.context_id = context.id;
  record.thread_id = dispatch.thread_id;
  record.correlation_id.internal = dispatch.data.correlation_id.internal;
  record.correlation_id.external = dispatch.data.correlation_id.external;
  record.kind = ROCATTACH_SDK_CALLBACK_KERNEL_DISPATCH;
  record.operation = operation;
  record.phase = phase;
  record.payload = &payload;
  tracing.callback(record, user_data, tracing.data);
}

// Asks every counting service of the context for counters. True if it has any service.
bool CaptureCounting(Context* context, Dispatch* dispatch) {
  for (const DispatchCounting& counting : context->dispatch_counting) {
    rocattach_sdk_counter_config_id config{0};
    rocattach_sdk_user_data user_data{};
    counting.dispatch_callback(dispatch->data, &config, &user_data,
                               counting.dispatch_data);
    if (config.handle == 0) continue;
    auto found = FindConfig(config);
    if (found == nullptr ||
        found->agent.handle != dispatch->data.dispatch_info.agent_id.handle) {
      Log("sdk.dispatch_config_refused config=%llu",
          static_cast<unsigned long long>(config.handle));
      continue;
    }
    dispatch->captures.push_back(
        {context, nullptr, nullptr, &counting, std::move(found), user_data});
  }
  return !context->dispatch_counting.empty();
}

// Fills what is known at enqueue and who wants to know. True if it must run alone.
bool CaptureContexts(Dispatch* dispatch) {
  bool serialize = false;
  auto active = ActiveContexts();
  for (Context* context : *active) {
    const BufferTracing* buffered = context->FindBufferTracing(
        ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH, ROCATTACH_SDK_DISPATCH_COMPLETE);
    const CallbackTracing* called = context->FindCallbackTracing(
        ROCATTACH_SDK_CALLBACK_KERNEL_DISPATCH, ROCATTACH_SDK_DISPATCH_ENQUEUE);
    if (buffered != nullptr || called != nullptr) {
      Capture capture{context, buffered, called, nullptr, nullptr, {}};
      if (called != nullptr) {
        InvokeTracing(*called, *context, *dispatch, ROCATTACH_SDK_DISPATCH_ENQUEUE,
                      ROCATTACH_SDK_PHASE_ENTER, &capture.user_data);
      }
      dispatch->captures.push_back(std::move(capture));
    }
    serialize |= CaptureCounting(context, dispatch);
  }
  return serialize;
}

void DeliverTracing(const Capture& capture, const Dispatch& dispatch) {
  if (capture.callback_tracing != nullptr) {
    rocattach_sdk_user_data user_data = capture.user_data;
    InvokeTracing(*capture.callback_tracing, *capture.context, dispatch,
                  ROCATTACH_SDK_DISPATCH_COMPLETE, ROCATTACH_SDK_PHASE_NONE,
                  &user_data);
  }
  if (capture.buffer_tracing == nullptr) return;
  rocattach_sdk_kernel_dispatch_record record{};
  record.size = sizeof(record);
  record.kind = ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH;
  record.operation = ROCATTACH_SDK_DISPATCH_COMPLETE;
  record.correlation_id = dispatch.data.correlation_id;
  record.thread_id = dispatch.thread_id;
  record.start_timestamp = dispatch.data.start_timestamp;
  record.end_timestamp = dispatch.data.end_timestamp;
  record.dispatch_info = dispatch.data.dispatch_info;
  capture.buffer_tracing->buffer->Emplace(ROCATTACH_SDK_CATEGORY_TRACING,
                                          ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH, &record,
                                          sizeof(record));
}

void DeliverCounters(const Capture& capture, const Dispatch& dispatch) {
  const DispatchShape shape = ShapeOf(dispatch.data.dispatch_info);
  auto records = MakeRecords(
      *capture.config,
      [&](const Counter& counter) {
        std::vector<double> values(counter.instances);
        for (size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<double>(
              CounterValue(counter.name, shape, i, counter.instances));
        }
        return values;
      },
      shape.dispatch_id, capture.user_data);
  const DispatchCounting& counting = *capture.counting;
  if (counting.record_callback != nullptr) {
    counting.record_callback(dispatch.data, records.data(), records.size(),
                             capture.user_data, counting.record_data);
    return;
  }
  if (counting.buffer == nullptr) return;
  rocattach_sdk_dispatch_count_record header{};
  header.size = sizeof(header);
  header.num_records = records.size();
  header.correlation_id = dispatch.data.correlation_id;
  header.start_timestamp = dispatch.data.start_timestamp;
  header.end_timestamp = dispatch.data.end_timestamp;
  header.dispatch_info = dispatch.data.dispatch_info;
  counting.buffer->Emplace(ROCATTACH_SDK_CATEGORY_COUNTERS,
                           ROCATTACH_SDK_COUNTER_RECORD_DISPATCH_HEADER, &header,
                           sizeof(header));
  for (const auto& record : records) {
    counting.buffer->Emplace(ROCATTACH_SDK_CATEGORY_COUNTERS,
                             ROCATTACH_SDK_COUNTER_RECORD_VALUE, &record,
                             sizeof(record));
  }
}

// On the runtime's thread for asynchronous handlers, once the GPU has finished.
bool OnComplete(hsa_signal_value_t, void* argument) {
  std::unique_ptr<Dispatch> dispatch(static_cast<Dispatch*>(argument));
  hsa_amd_profiling_dispatch_time_t time{};
  AmdExt().hsa_amd_profiling_get_dispatch_time_fn(dispatch->agent, *dispatch->signal,
                                                  &time);
  dispatch->data.start_timestamp = time.start;
  dispatch->data.end_timestamp = time.end;
  if (FiniStatus() <= 0) {
    CountOnDevice(dispatch->data.dispatch_info.agent_id,
                  ShapeOf(dispatch->data.dispatch_info));
    bool counted = false;
    for (const Capture& capture : dispatch->captures) {
      counted |= capture.counting != nullptr;
    }
    LogDispatch(dispatch->data, counted);
    for (const Capture& capture : dispatch->captures) {
      if (capture.counting != nullptr) {
        DeliverCounters(capture, *dispatch);
      } else {
        DeliverTracing(capture, *dispatch);
      }
    }
  }
  State& state = Get();
  std::lock_guard lock(state.mutex);
  auto queue = state.queues.find(dispatch->queue);
  if (queue != state.queues.end() && queue->second.in_flight > 0) {
    --queue->second.in_flight;
  }
  --state.in_flight;
  state.completed.notify_all();
  return false;  // the handler is used up
}

// Waits for room: a runtime of ROCm 5.7 or older fails an assertion when the queue
// behind an intercept queue overflows. A program that would deadlock here, because it
// opens a gate only later, goes on after a while.
void WaitForRoom(const hsa_queue_t* hsa_queue) {
  State& state = Get();
  std::unique_lock lock(state.mutex);
  Queue& queue = state.queues[hsa_queue];
  if (queue.id == 0) {
    queue.id = state.next_queue++;
    queue.size = hsa_queue->size;
  }
  const uint32_t limit = queue.size / 8 > 1 ? queue.size / 8 : 1;
  state.completed.wait_for(lock, std::chrono::seconds(5),
                           [&] { return queue.in_flight < limit; });
}

hsa_barrier_and_packet_t BarrierPacket() {
  hsa_barrier_and_packet_t barrier{};
  barrier.header = HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE |
                   1 << HSA_PACKET_HEADER_BARRIER |
                   HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                   HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
  return barrier;
}

// Gives the packets of one dispatch to the GPU: perhaps a barrier that waits for the
// GPU's previous dispatch, the dispatch with our signal, and, if the application gave
// it a signal, a barrier that completes that one.
void Submit(std::unique_ptr<Dispatch> dispatch, hsa_kernel_dispatch_packet_t packet,
            bool serialize, hsa_amd_queue_intercept_packet_writer writer) {
  union Packet {
    hsa_kernel_dispatch_packet_t dispatch;
    hsa_barrier_and_packet_t barrier;
  } packets[3];
  uint64_t count = 0;
  State& state = Get();
  const hsa_signal_t app_signal = packet.completion_signal;
  dispatch->signal = AcquireSignal();
  {
    std::lock_guard lock(state.mutex);
    SignalReference& last = state.last_of_agent[dispatch->agent.handle];
    if (serialize && last != nullptr) dispatch->predecessor = last;
    last = serialize ? dispatch->signal : nullptr;
    ++state.queues[dispatch->queue].in_flight;
    ++state.in_flight;
  }
  if (dispatch->predecessor != nullptr) {
    packets[count].barrier = BarrierPacket();
    packets[count++].barrier.dep_signal[0] = *dispatch->predecessor;
  }
  packet.completion_signal = *dispatch->signal;
  if (serialize) packet.header |= 1 << HSA_PACKET_HEADER_BARRIER;
  packets[count++].dispatch = packet;
  if (app_signal.handle != 0) {
    packets[count].barrier = BarrierPacket();
    packets[count++].barrier.completion_signal = app_signal;
  }
  hsa_signal_t signal = *dispatch->signal;
  AmdExt().hsa_amd_signal_async_handler_fn(signal, HSA_SIGNAL_CONDITION_LT, 1,
                                           OnComplete, dispatch.release());
  writer(packets, count);
}

void OnDispatch(const hsa_queue_t* queue, hsa_agent_t agent,
                const hsa_kernel_dispatch_packet_t& packet,
                hsa_amd_queue_intercept_packet_writer writer) {
  // First of all, because no lock may be taken in a forked child.
  const rocattach_sdk_agent* sdk_agent = FiniStatus() == 0 ? AgentOf(agent) : nullptr;
  if (sdk_agent == nullptr) {
    writer(&packet, 1);
    return;
  }
  WaitForRoom(queue);
  auto dispatch = std::make_unique<Dispatch>();
  dispatch->agent = agent;
  dispatch->queue = queue;
  dispatch->thread_id = ThreadId();
  dispatch->data.size = sizeof(dispatch->data);
  dispatch->data.correlation_id.internal =
      CurrentCall() != 0 ? CurrentCall() : NextCorrelation();
  auto& info = dispatch->data.dispatch_info;
  info.size = offsetof(rocattach_sdk_dispatch_info, reserved_padding);
  info.agent_id = sdk_agent->id;
  info.kernel_id = KernelOfObject(packet.kernel_object);
  info.private_segment_size = packet.private_segment_size;
  info.group_segment_size = packet.group_segment_size;
  info.workgroup_size = {packet.workgroup_size_x, packet.workgroup_size_y,
                         packet.workgroup_size_z};
  info.grid_size = {packet.grid_size_x, packet.grid_size_y, packet.grid_size_z};
  {
    std::lock_guard lock(Get().mutex);
    info.queue_id.handle = Get().queues[queue].id;
    info.dispatch_id = Get().next_dispatch++;
  }
  bool serialize = CaptureContexts(dispatch.get());
  if (dispatch->captures.empty() && !serialize && !DeviceIsCounted(sdk_agent->id)) {
    writer(&packet, 1);
    return;
  }
  // EXIT callbacks, after the submission, see the same dispatch: keep what they need.
  std::vector<Capture> called;
  for (const Capture& capture : dispatch->captures) {
    if (capture.callback_tracing != nullptr) called.push_back(capture);
  }
  Dispatch copy;
  copy.data = dispatch->data;
  copy.thread_id = dispatch->thread_id;
  Submit(std::move(dispatch), packet, serialize, writer);
  for (Capture& capture : called) {
    InvokeTracing(*capture.callback_tracing, *capture.context, copy,
                  ROCATTACH_SDK_DISPATCH_ENQUEUE, ROCATTACH_SDK_PHASE_EXIT,
                  &capture.user_data);
  }
}

}  // namespace

void OnPackets(const hsa_queue_t* queue, hsa_agent_t agent, const void* packets,
               uint64_t count, hsa_amd_queue_intercept_packet_writer writer, void*) {
  const auto* packet = static_cast<const hsa_kernel_dispatch_packet_t*>(packets);
  for (uint64_t i = 0; i < count; ++i) {
    if (PacketType(packet[i]) == HSA_PACKET_TYPE_KERNEL_DISPATCH) {
      OnDispatch(queue, agent, packet[i], writer);
    } else {
      writer(&packet[i], 1);
    }
  }
}

void OnQueueDestroyed(const hsa_queue_t* hsa_queue) {
  if (FiniStatus() > 0) return;
  State& state = Get();
  std::unique_lock lock(state.mutex);
  auto found = state.queues.find(hsa_queue);
  if (found == state.queues.end()) return;
  Queue& queue = found->second;
  if (!state.completed.wait_for(lock, std::chrono::seconds(2),
                                [&] { return queue.in_flight == 0; })) {
    // The runtime drops what is left in the queue: those never complete.
    Log("sdk.dispatches_lost count=%u", queue.in_flight);
    state.in_flight -= queue.in_flight;
  }
  state.queues.erase(hsa_queue);
}

bool DrainDispatches() {
  State& state = Get();
  std::unique_lock lock(state.mutex);
  return state.completed.wait_for(lock, std::chrono::seconds(2),
                                  [&] { return state.in_flight == 0; });
}

void ForgetOrder() {
  std::lock_guard lock(Get().mutex);
  Get().last_of_agent.clear();
}

uint64_t& CurrentCall() {
  static thread_local uint64_t call = 0;
  return call;
}

uint64_t NextCorrelation() {
  static std::atomic<uint64_t> next{1};
  return next++;
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
