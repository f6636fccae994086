#include "tests/simrocm/queue_proxies.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace simrocm {
namespace {

struct Interceptor {
  simrocm_write_interceptor function;
  void* data;
};

// One per queue, given to the runtime; never freed, because a doorbell may still be
// in progress when the queue is destroyed.
struct Proxy {
  hsa_queue_t* queue;
  hsa_agent_t agent;
};

struct State {
  std::atomic<Interceptor*> interceptor{nullptr};
  std::atomic<void (*)(const hsa_queue_t*)> destroyed{nullptr};
  decltype(hsa_queue_create)* create_queue = nullptr;
  decltype(hsa_queue_destroy)* destroy_queue = nullptr;
  AmdExtTable amd_ext;
  std::mutex mutex;
  std::unordered_set<const hsa_queue_t*> queues;
};

State& Get() {
  static auto* state = new State;
  return *state;
}

void OnPackets(const void* packets, uint64_t count, uint64_t, void* data,
               hsa_amd_queue_intercept_packet_writer writer) {
  const auto* proxy = static_cast<const Proxy*>(data);
  const Interceptor* interceptor = Get().interceptor.load(std::memory_order_acquire);
  if (interceptor == nullptr) {
    writer(packets, count);
    return;
  }
  interceptor->function(proxy->queue, proxy->agent, packets, count, writer,
                        interceptor->data);
}

hsa_status_t CreateQueue(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                         void (*callback)(hsa_status_t, hsa_queue_t*, void*),
                         void* data, uint32_t private_segment_size,
                         uint32_t group_segment_size, hsa_queue_t** queue) {
  State& state = Get();
  hsa_status_t status = state.amd_ext.hsa_amd_queue_intercept_create_fn(
      agent, size, type, callback, data, private_segment_size, group_segment_size,
      queue);
  if (status != HSA_STATUS_SUCCESS) return status;
  // Without this the GPU does not write a dispatch's times into its signal.
  status = state.amd_ext.hsa_amd_profiling_set_profiler_enabled_fn(*queue, 1);
  // The runtime passes it to OnPackets until the end of the process.
  std::unique_ptr<Proxy> proxy(new Proxy{*queue, agent});
  if (status == HSA_STATUS_SUCCESS) {
    status = state.amd_ext.hsa_amd_queue_intercept_register_fn(*queue, OnPackets,
                                                               proxy.get());
  }
  if (status != HSA_STATUS_SUCCESS) {
    state.destroy_queue(*queue);
    return status;
  }
  (void)proxy.release();
  std::lock_guard lock(state.mutex);
  state.queues.insert(*queue);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t DestroyQueue(hsa_queue_t* queue) {
  State& state = Get();
  bool ours = false;
  {
    std::lock_guard lock(state.mutex);
    ours = state.queues.erase(queue) > 0;
  }
  auto destroyed = state.destroyed.load();
  if (ours && destroyed != nullptr) destroyed(queue);
  return state.destroy_queue(queue);
}

}  // namespace

void InstallQueueProxies(CoreApiTable* core, AmdExtTable* amd_ext) {
  State& state = Get();
  if (core->hsa_queue_create_fn == &CreateQueue) return;
  state.create_queue = core->hsa_queue_create_fn;
  state.destroy_queue = core->hsa_queue_destroy_fn;
  state.amd_ext = *amd_ext;
  core->hsa_queue_create_fn = &CreateQueue;
  core->hsa_queue_destroy_fn = &DestroyQueue;
}

void SetWriteInterceptor(simrocm_write_interceptor interceptor, void* data) {
  // The old one is not freed: a thread may be in it.
  Get().interceptor.store(
      interceptor != nullptr ? new Interceptor{interceptor, data} : nullptr,
      std::memory_order_release);
}

void SetQueueDestroyed(void (*callback)(const hsa_queue_t* queue)) {
  Get().destroyed.store(callback);
}

}  // namespace simrocm
