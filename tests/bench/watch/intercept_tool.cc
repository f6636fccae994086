// For comparison: the usual way to time dispatches, an HSA tool
// without optimizations. Every queue becomes an intercept queue;
// every dispatch without a completion signal gets one of the tool's;
// an asynchronous handler reads the times and stores them under a mutex.
// At exit one line is written to the file that BENCH_TOOL_OUTPUT names.
//
// The runtime of ROCm up to 5.7 stops the program when an intercept queue's hardware
// queue is full. Like any tool that has to work with these versions, this one limits
// the packets in flight in each queue.
#include <hsa/hsa_api_trace.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <mutex>
#include <vector>

namespace {

struct Record {
  uint64_t kernel_object, start, end;
};

struct TracedQueue {
  hsa_agent_t agent;
  uint32_t limit;
  std::atomic<uint32_t> in_flight{0};
};

struct TracedDispatch {
  TracedQueue* queue;
  hsa_signal_t signal;
  uint64_t kernel_object;
};

struct Tool {
  CoreApiTable core;
  AmdExtTable amd;
  std::mutex mutex;
  std::vector<Record> records;
  std::vector<hsa_signal_t> free_signals;
};

// Never destroyed: handlers run until the very end of the process.
Tool& tool() {
  static auto* instance = new Tool;
  return *instance;
}

hsa_signal_t AcquireSignal() {
  Tool& t = tool();
  {
    std::lock_guard<std::mutex> lock(t.mutex);
    if (!t.free_signals.empty()) {
      hsa_signal_t signal = t.free_signals.back();
      t.free_signals.pop_back();
      return signal;
    }
  }
  hsa_signal_t signal = {0};
  (void)t.core.hsa_signal_create_fn(1, 0, nullptr, &signal);
  return signal;
}

bool OnComplete(hsa_signal_value_t, void* argument) {
  Tool& t = tool();
  auto* dispatch = static_cast<TracedDispatch*>(argument);
  hsa_amd_profiling_dispatch_time_t time = {};
  t.amd.hsa_amd_profiling_get_dispatch_time_fn(dispatch->queue->agent, dispatch->signal,
                                               &time);
  t.core.hsa_signal_store_relaxed_fn(dispatch->signal, 1);
  {
    std::lock_guard<std::mutex> lock(t.mutex);
    t.records.push_back({dispatch->kernel_object, time.start, time.end});
    t.free_signals.push_back(dispatch->signal);
  }
  dispatch->queue->in_flight--;
  delete dispatch;
  return false;
}

void OnSubmit(const void* packets, uint64_t count, uint64_t, void* data,
              hsa_amd_queue_intercept_packet_writer write) {
  Tool& t = tool();
  auto* queue = static_cast<TracedQueue*>(data);
  const auto* in = static_cast<const hsa_kernel_dispatch_packet_t*>(packets);
  for (uint64_t i = 0; i < count; ++i) {
    hsa_kernel_dispatch_packet_t packet = in[i];
    const int type = (packet.header >> HSA_PACKET_HEADER_TYPE) & 0xff;
    if (type == HSA_PACKET_TYPE_KERNEL_DISPATCH &&
        packet.completion_signal.handle == 0) {
      while (queue->in_flight >= queue->limit) sched_yield();
      queue->in_flight++;
      packet.completion_signal = AcquireSignal();
      auto* dispatch =
          new TracedDispatch{queue, packet.completion_signal, packet.kernel_object};
      t.amd.hsa_amd_signal_async_handler_fn(
          packet.completion_signal, HSA_SIGNAL_CONDITION_LT, 1, OnComplete, dispatch);
    }
    write(&packet, 1);
  }
}

hsa_status_t CreateQueue(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                         void (*callback)(hsa_status_t, hsa_queue_t*, void*),
                         void* data, uint32_t private_bytes, uint32_t group_bytes,
                         hsa_queue_t** queue) {
  Tool& t = tool();
  hsa_status_t status = t.amd.hsa_amd_queue_intercept_create_fn(
      agent, size, type, callback, data, private_bytes, group_bytes, queue);
  if (status != HSA_STATUS_SUCCESS) return status;
  t.amd.hsa_amd_profiling_set_profiler_enabled_fn(*queue, 1);
  auto* traced = new TracedQueue;
  traced->agent = agent;
  traced->limit = size / 4;
  return t.amd.hsa_amd_queue_intercept_register_fn(*queue, OnSubmit, traced);
}

void WriteSummary() {
  const char* path = getenv("BENCH_TOOL_OUTPUT");
  if (path == nullptr) return;
  FILE* file = fopen(path, "we");
  if (file == nullptr) return;
  Tool& t = tool();
  std::lock_guard<std::mutex> lock(t.mutex);
  uint64_t timed = 0;
  for (const Record& record : t.records)
    timed += record.start != 0 && record.end >= record.start;
  fprintf(file, "dispatches=%zu timed=%llu\n", t.records.size(),
          static_cast<unsigned long long>(timed));
  fclose(file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool OnLoad(HsaApiTable* table,
                                                              uint64_t, uint64_t,
                                                              const char* const*) {
  tool().core = *table->core_;
  tool().amd = *table->amd_ext_;
  tool().records.reserve(1 << 20);
  table->core_->hsa_queue_create_fn = CreateQueue;
  atexit(WriteSummary);
  return true;
}
