#include "tests/simrocm/sdk/dispatch_records.h"

#include <hsa/hsa_ext_amd.h>

#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/counting.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/dispatch_log.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/scratch_memory.h"
#include "tests/simrocm/sdk/serializer.h"
#include "tests/simrocm/sdk/turns.h"

namespace simrocm::sdk {
namespace {

struct Queue {
  uint32_t in_flight = 0;
};

struct State {
  std::mutex mutex;
  std::condition_variable completed;
  std::unordered_map<const hsa_queue_t*, Queue> queues;
  uint64_t next_dispatch = 1;
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

// Adds the contexts that are interested in the dispatch.
void CaptureContexts(Dispatch* dispatch) {
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
    dispatch->serialize |= CaptureCounting(context, dispatch);
  }
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

}  // namespace

bool Describe(const hsa_queue_t* queue, hsa_agent_t agent,
              const hsa_kernel_dispatch_packet_t& packet, Dispatch* dispatch) {
  // Checked first, because no lock may be taken in a forked child.
  const rocattach_sdk_agent* sdk_agent = FiniStatus() == 0 ? AgentOf(agent) : nullptr;
  if (sdk_agent == nullptr) return false;
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
  info.queue_id.handle = queue->id;
  {
    std::lock_guard lock(Get().mutex);
    info.dispatch_id = Get().next_dispatch++;
  }
  AllocateScratch(queue, info.agent_id);
  CaptureContexts(dispatch);
  return !dispatch->captures.empty() || dispatch->serialize ||
         (!DevicesAreObserved() && DeviceIsCounted(sdk_agent->id));
}

void CallEnqueued(const Dispatch& dispatch) {
  for (const Capture& capture : dispatch.captures) {
    if (capture.callback_tracing == nullptr) continue;
    rocattach_sdk_user_data user_data = capture.user_data;
    InvokeTracing(*capture.callback_tracing, *capture.context, dispatch,
                  ROCATTACH_SDK_DISPATCH_ENQUEUE, ROCATTACH_SDK_PHASE_EXIT, &user_data);
  }
}

void Deliver(Dispatch* dispatch, hsa_signal_t signal) {
  hsa_amd_profiling_dispatch_time_t time{};
  AmdExt().hsa_amd_profiling_get_dispatch_time_fn(dispatch->agent, signal, &time);
  dispatch->data.start_timestamp = time.start;
  dispatch->data.end_timestamp = time.end;
  if (FiniStatus() > 0) return;
  if (!DevicesAreObserved()) {
    CountOnDevice(dispatch->data.dispatch_info.agent_id,
                  ShapeOf(dispatch->data.dispatch_info));
  }
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

void BeginDispatch(const hsa_queue_t* queue) {
  std::lock_guard lock(Get().mutex);
  ++Get().queues[queue].in_flight;
  ++Get().in_flight;
}

void EndDispatch(const hsa_queue_t* queue) {
  State& state = Get();
  std::lock_guard lock(state.mutex);
  auto found = state.queues.find(queue);
  // A dispatch that was given up with its queue is no longer counted.
  if (found == state.queues.end() || found->second.in_flight == 0) return;
  --found->second.in_flight;
  --state.in_flight;
  state.completed.notify_all();
}

std::map<const hsa_queue_t*, uint32_t> DispatchesUnderWay() {
  State& state = Get();
  std::lock_guard lock(state.mutex);
  std::map<const hsa_queue_t*, uint32_t> under_way;
  for (const auto& [queue, known] : state.queues) {
    if (known.in_flight != 0) under_way[queue] = known.in_flight;
  }
  return under_way;
}

void WaitForLess(const hsa_queue_t* queue, uint32_t limit,
                 std::chrono::milliseconds patience) {
  State& state = Get();
  std::unique_lock lock(state.mutex);
  Queue& known = state.queues[queue];
  state.completed.wait_for(lock, patience, [&] { return known.in_flight < limit; });
}

void OnQueueDestroyed(const hsa_queue_t* hsa_queue) {
  if (FiniStatus() > 0) return;
  FreeScratch(hsa_queue);
  State& state = Get();
  std::unique_lock lock(state.mutex);
  auto found = state.queues.find(hsa_queue);
  if (found == state.queues.end()) return;
  Queue& queue = found->second;
  if (!state.completed.wait_for(lock, std::chrono::seconds(2),
                                [&] { return queue.in_flight == 0; })) {
    // The runtime drops the packets left in the queue: they never complete.
    Log("sdk.dispatches_lost count=%u", queue.in_flight);
    state.in_flight -= queue.in_flight;
  }
  state.queues.erase(hsa_queue);
  lock.unlock();
  ForgetBarriersOf(hsa_queue);
  ForgetTurnsOf(hsa_queue);
}

bool DrainDispatches() {
  State& state = Get();
  std::unique_lock lock(state.mutex);
  return state.completed.wait_for(lock, std::chrono::seconds(2),
                                  [&] { return state.in_flight == 0; });
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
