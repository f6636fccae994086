// The functions that replace the runtime's own in its tables.
//
// Each one forwards the call at once if there is nothing to do: no session records, or
// this is a forked child. None keeps state across the runtime's own call except what
// its object's lock guards.
#include "userspace/collector/hsa/hooks.h"

#include "userspace/collector/hsa/backend.h"

namespace rocattach::collector {
namespace {

// One ring out of this many is timed, to account for our own cost.
constexpr uint32_t kCostSample = 64;

using SignalStore = decltype(&::hsa_signal_store_relaxed);

void Ring(Queue* q, hsa_signal_value_t value) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (Unlikely(!h.tracker.signals().ready())) h.PreparePool();
  RingHandle ring = p.rings.Mine();
  uint64_t start = 0;
  bool sample = value % kCostSample == 0;
  if (Unlikely(sample)) start = BootNs();
  h.doorbell.Ring(q, value, &ring);
  if (Unlikely(sample)) {
    __atomic_fetch_add(&p.memory.control()->hook_ns_total,
                       (BootNs() - start) * kCostSample, __ATOMIC_RELAXED);
  }
  p.worker.Nudge();
}

__attribute__((noinline)) Queue* FindOldQueue(hsa_signal_t signal,
                                              hsa_signal_value_t value) {
  RingHandle ring = g_process.rings.Mine();
  return g_hsa.old_queues.FindByDoorbell(signal, value, &ring);
}

inline void Store(hsa_signal_t signal, hsa_signal_value_t value, SignalStore store) {
  HsaBackend& h = g_hsa;
  if (Unlikely(!h.live.IsReady())) return store(signal, value);
  // The registry knows which signals are doorbells. The signal's kind does not show it:
  // those of queues that another tool intercepts look like any other signal.
  Queue* q = h.queues.Find(signal.handle);
  if (q == nullptr && h.old_queues.active() && h.old_queues.MayBeDoorbell(signal)) {
    q = FindOldQueue(signal, value);
  }
  if (q == nullptr) return store(signal, value);
  if (h.recording.Dispatches()) return Ring(q, value);
  h.doorbell.RingIdle(q, value, store);
}

void HookSignalStoreRelaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  Store(signal, value, g_hsa.functions.signal_store_relaxed);
}
void HookSignalStoreScrelease(hsa_signal_t signal, hsa_signal_value_t value) {
  Store(signal, value, g_hsa.functions.signal_store_screlease);
}
void HookSignalSilentStoreRelaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  Store(signal, value, g_hsa.functions.signal_silent_store_relaxed);
}
void HookSignalSilentStoreScrelease(hsa_signal_t signal, hsa_signal_value_t value) {
  Store(signal, value, g_hsa.functions.signal_silent_store_screlease);
}

hsa_status_t HookSignalDestroy(hsa_signal_t signal) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (p.Live()) h.tracker.app_signals().Destroying(signal.handle);
  return h.functions.signal_destroy(signal);
}

void InterceptPackets(const void* packets, uint64_t count, uint64_t user_index,
                      void* data, InterceptWriter writer) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  auto* q = static_cast<Queue*>(data);
  if (!p.Live() || LoadAcquire(&q->amd) == nullptr) return writer(packets, count);
  bool recording = h.recording.Dispatches();
  if (!h.tracker.signals().ready()) h.PreparePool();
  RingHandle ring = p.rings.Mine();
  h.intercept.Handle(q, packets, count, user_index, writer, recording, &ring);
  p.worker.Nudge();
}

hsa_status_t CreateIntercepted(Queue* q, hsa_agent_t agent, uint32_t size,
                               hsa_queue_type32_t type,
                               void (*callback)(hsa_status_t, hsa_queue_t*, void*),
                               void* data, uint32_t private_bytes, uint32_t group_bytes,
                               hsa_queue_t** queue) {
  HsaBackend& h = g_hsa;
  hsa_status_t status = h.functions.queue_intercept_create(
      agent, size, type, callback, data, private_bytes, group_bytes, queue);
  if (status != HSA_STATUS_SUCCESS) return status;
  if (!InterceptCapture::Prepare(q, (*queue)->size)) {
    return HSA_STATUS_SUCCESS;  // an unused proxy works like a queue
  }
  return h.functions.queue_intercept_register(*queue, InterceptPackets, q);
}

// Creates a queue with `create`, and tracks it. `create` returns whether it has become
// an intercept queue; it gets no entry for queues that we do not track.
template <typename Create>
hsa_status_t MakeQueue(hsa_agent_t agent, hsa_queue_t** queue, Create create) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (p.guard.Ours()) h.live.ArmIfOpen();
  const Agent* known = p.Live() ? h.agents.Find(agent) : nullptr;
  Queue* q =
      known != nullptr && known->gpu && queue != nullptr ? h.queues.Add() : nullptr;
  bool intercepted = false;
  hsa_status_t status = create(q, &intercepted);
  if (q == nullptr) return status;
  if (status != HSA_STATUS_SUCCESS) {
    h.queues.Free(q);
    return status;
  }
  StoreRelaxed(&p.memory.control()->capture_mode, intercepted ? 2u : 1u);
  bool recording = h.recording.Dispatches();
  if (recording) {
    // Here rather than at the first ring, which other threads might wait for.
    h.PreparePool();
    h.functions.set_profiler_enabled(*queue, 1);
  }
  h.Track(q, *queue, *known, intercepted, recording, /*first=*/0);
  return status;
}

bool IsCalledDirectly();

hsa_status_t HookQueueCreate(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                             void (*callback)(hsa_status_t, hsa_queue_t*, void*),
                             void* data, uint32_t private_bytes, uint32_t group_bytes,
                             hsa_queue_t** queue) {
  return MakeQueue(agent, queue, [&](Queue* q, bool* intercepted) {
    HsaBackend& h = g_hsa;
    // The runtime has no intercept queues of the cooperative type.
    if (q != nullptr && h.UseIntercept() && IsCalledDirectly() &&
        type <= HSA_QUEUE_TYPE_SINGLE &&
        CreateIntercepted(q, agent, size, type, callback, data, private_bytes,
                          group_bytes, queue) == HSA_STATUS_SUCCESS) {
      *intercepted = true;
      return HSA_STATUS_SUCCESS;
    }
    return h.functions.queue_create(agent, size, type, callback, data, private_bytes,
                                    group_bytes, queue);
  });
}

// Whether programs call our function directly, and not through another tool. Such a
// tool relies on the kind of queue that the runtime creates: rocprofiler-sdk with
// inline queue interposition counts the packets of every queue, but knows doorbells by
// their kind. It would never ring that of an intercept queue, and the program would
// wait forever.
bool IsCalledDirectly() {
  const ApiTable* core = g_hsa.core_table;
  return core == nullptr || LoadRelaxed(&core->slots[kCoreQueueCreate]) ==
                                reinterpret_cast<void*>(&HookQueueCreate);
}

// Another tool makes an intercept queue; rocprofiler-sdk does so for each queue of the
// application while it traces. The handler that was registered last is called first:
// ours, registered before the queue is returned, is the last one before the hardware,
// and sees the final form of the application's packets.
hsa_status_t HookInterceptCreate(hsa_agent_t agent, uint32_t size,
                                 hsa_queue_type32_t type,
                                 void (*callback)(hsa_status_t, hsa_queue_t*, void*),
                                 void* data, uint32_t private_bytes,
                                 uint32_t group_bytes, hsa_queue_t** queue) {
  return MakeQueue(agent, queue, [&](Queue* q, bool* intercepted) {
    *intercepted = true;
    if (q == nullptr) {
      return g_hsa.functions.queue_intercept_create(agent, size, type, callback, data,
                                                    private_bytes, group_bytes, queue);
    }
    return CreateIntercepted(q, agent, size, type, callback, data, private_bytes,
                             group_bytes, queue);
  });
}

hsa_status_t HookQueueDestroy(hsa_queue_t* queue) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  Queue* q = p.Live() ? h.queues.FindByHandle(queue) : nullptr;
  if (p.Live()) h.old_queues.Destroying(queue);
  if (q == nullptr) return h.functions.queue_destroy(queue);
  RingHandle ring = p.rings.Mine();
  h.queues.Hide(q);
  q->lock.Lock();
  // A ring that found the lock held by the worker still has to be served. And the
  // packet processor may have been rung without us.
  if (!q->intercepted) {
    h.doorbell.ServeNew(q, &ring);
    if (h.recording.Dispatches()) h.doorbell.CatchUp(q, &ring);
  }
  StoreRelaxed(&q->closing, true);
  h.tracker.Harvest(&q->ops, h.capture.Context(q, &ring), UINT32_MAX, UINT32_MAX);
  q->lock.Unlock();
  hsa_status_t status = h.functions.queue_destroy(queue);
  q->lock.Lock();
  if (status == HSA_STATUS_SUCCESS) {
    // The packet processor has stopped: what has not finished never will.
    h.tracker.Harvest(&q->ops, h.capture.Context(q, &ring), UINT32_MAX, UINT32_MAX);
    h.tracker.PublishUnfinished(&q->ops, h.capture.Context(q, &ring));
    h.tracker.Retire(&q->ops);
    q->marker_count = 0;
    h.queues.Free(q);
  } else {
    StoreRelaxed(&q->closing, false);
    if (!q->intercepted) h.queues.Publish(q);
  }
  q->lock.Unlock();
  return status;
}

hsa_status_t HookSetProfilerEnabled(hsa_queue_t* queue, int enable) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  Queue* q = p.Live() && enable == 0 ? h.queues.FindByHandle(queue) : nullptr;
  if (q != nullptr) {
    RingHandle ring = p.rings.Mine();
    q->lock.Lock();
    // Timestamps stay on while we need them: the application only sees signals with
    // times that it did not request.
    const bool keep = q->profiled && h.recording.Dispatches();
    hsa_status_t status = HSA_STATUS_SUCCESS;
    if (!keep) {
      q->profiled = false;
      status = h.functions.set_profiler_enabled(queue, enable);
    }
    // Last: a ring that is served on leaving switches the times on again if it needs
    // them.
    h.doorbell.Leave(q, &ring);
    return status;
  }
  return h.functions.set_profiler_enabled(queue, enable);
}

hsa_status_t HookExecutableFreeze(hsa_executable_t executable, const char* options) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  hsa_status_t status = h.functions.executable_freeze(executable, options);
  if (p.guard.Ours()) h.live.ArmIfOpen();
  if (status == HSA_STATUS_SUCCESS && p.Live()) h.executables.Frozen(executable);
  return status;
}

hsa_status_t HookExecutableDestroy(hsa_executable_t executable) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  // While kernels from before are being read, none is destroyed.
  if (p.guard.Ours()) h.live.ArmIfLate();
  if (p.Live()) h.executables.Destroying(executable);
  return h.functions.executable_destroy(executable);
}

// Calls `submit`, and notes the copy before and after it.
template <typename Submit>
hsa_status_t NoteCopy(hsa_agent_t dst_agent, hsa_agent_t src_agent, const void* dst,
                      const void* src, uint64_t bytes, uint16_t direction,
                      hsa_signal_t completion, Submit submit) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  RingHandle ring = p.rings.Mine();
  rocattach_copy copy = h.copies.Describe(dst_agent, src_agent, dst, src, bytes, &ring);
  if (direction != ROCATTACH_COPY_UNKNOWN) copy.direction = direction;
  uint32_t op = h.copies.Begin(copy, completion, &ring);
  hsa_status_t status = submit();
  h.copies.Submitted(op, status, copy, &ring);
  p.worker.Nudge();
  return status;
}

bool RecordCopies() {
  if (g_process.guard.Ours()) g_hsa.live.ArmIfOpen();
  return g_process.Live() && g_hsa.recording.Copies();
}

hsa_status_t HookAsyncCopy(void* dst, hsa_agent_t dst_agent, const void* src,
                           hsa_agent_t src_agent, size_t size, uint32_t num_deps,
                           const hsa_signal_t* deps, hsa_signal_t completion) {
  auto submit = [&] {
    return g_hsa.functions.memory_async_copy(dst, dst_agent, src, src_agent, size,
                                             num_deps, deps, completion);
  };
  if (!RecordCopies()) return submit();
  return NoteCopy(dst_agent, src_agent, dst, src, size, ROCATTACH_COPY_UNKNOWN,
                  completion, submit);
}

hsa_status_t HookAsyncCopyOnEngine(void* dst, hsa_agent_t dst_agent, const void* src,
                                   hsa_agent_t src_agent, size_t size,
                                   uint32_t num_deps, const hsa_signal_t* deps,
                                   hsa_signal_t completion, int engine,
                                   bool force_sdma) {
  auto submit = [&] {
    return g_hsa.functions.memory_async_copy_on_engine(dst, dst_agent, src, src_agent,
                                                       size, num_deps, deps, completion,
                                                       engine, force_sdma);
  };
  if (!RecordCopies()) return submit();
  return NoteCopy(dst_agent, src_agent, dst, src, size, ROCATTACH_COPY_UNKNOWN,
                  completion, submit);
}

hsa_status_t HookAsyncCopyRect(const hsa_pitched_ptr_t* dst,
                               const hsa_dim3_t* dst_offset,
                               const hsa_pitched_ptr_t* src,
                               const hsa_dim3_t* src_offset, const hsa_dim3_t* range,
                               hsa_agent_t agent, hsa_amd_copy_direction_t direction,
                               uint32_t num_deps, const hsa_signal_t* deps,
                               hsa_signal_t completion) {
  auto submit = [&] {
    return g_hsa.functions.memory_async_copy_rect(dst, dst_offset, src, src_offset,
                                                  range, agent, direction, num_deps,
                                                  deps, completion);
  };
  if (!RecordCopies() || dst == nullptr || src == nullptr || range == nullptr) {
    return submit();
  }
  // The runtime's directions count from 0, ours from 1, in the same order.
  uint32_t known = static_cast<uint32_t>(direction) + 1;
  bool from_device = direction == hsaDeviceToHost || direction == hsaDeviceToDevice;
  bool to_device = direction == hsaHostToDevice || direction == hsaDeviceToDevice;
  hsa_agent_t none = {};
  uint64_t bytes = uint64_t{range->x} * range->y * range->z;
  return NoteCopy(
      to_device ? agent : none, from_device ? agent : none, dst->base, src->base, bytes,
      known <= ROCATTACH_COPY_DEVICE_TO_DEVICE ? static_cast<uint16_t>(known)
                                               : uint16_t{0},
      completion, submit);
}

hsa_status_t HookAsyncCopyEnable(bool enable) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (p.Live() && !h.copies.AppEnables(enable, h.recording.Copies())) {
    return HSA_STATUS_SUCCESS;
  }
  return h.functions.async_copy_enable(enable);
}

hsa_status_t HookMemoryCopy(void* dst, const void* src, size_t size) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (!RecordCopies()) return h.functions.memory_copy(dst, src, size);
  RingHandle ring = p.rings.Mine();
  hsa_agent_t none = {};
  rocattach_copy copy = h.copies.Describe(none, none, dst, src, size, &ring);
  h.copies.DescribePointers(dst, src, &copy);
  copy.engine = ROCATTACH_ENGINE_SYNC;
  copy.start_ns = BootNs();
  hsa_status_t status = h.functions.memory_copy(dst, src, size);
  copy.end_ns = BootNs();
  if (status == HSA_STATUS_SUCCESS) h.copies.Done(&copy, &ring);
  return status;
}

hsa_status_t HookInit() {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (!p.guard.Ours()) return h.functions.init();
  if (h.live.installed()) return h.live.Init();
  h.reentry.BeginInit();
  hsa_status_t status = h.functions.init();
  h.reentry.EndInit();
  return status;
}

hsa_status_t HookShutDown() {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (p.guard.Ours() && h.live.installed()) return h.live.ShutDown();
  hsa_status_t status = h.functions.shut_down();
  if (p.guard.Ours() && LoadAcquire(&p.phase) == kPhaseUnloaded) HookRuntimeInit();
  return status;
}

template <typename F>
void Replace(ApiTable* table, uint32_t slot, F hook) {
  if (slot != kNoSlot) StoreRelease(&table->slots[slot], reinterpret_cast<void*>(hook));
}

}  // namespace

bool HooksInPlace(const ApiTableRoot* root) {
  return root->core->slots[kCoreQueueCreate] ==
         reinterpret_cast<void*>(&HookQueueCreate);
}

void InstallHooks(ApiTableRoot* root, const AmdSlots& slots) {
  ApiTable* core = root->core;
  ApiTable* amd = root->amd_ext;
  Replace(core, kCoreQueueCreate, &HookQueueCreate);
  Replace(core, kCoreQueueDestroy, &HookQueueDestroy);
  Replace(core, kCoreSignalStoreRelaxed, &HookSignalStoreRelaxed);
  Replace(core, kCoreSignalStoreScrelease, &HookSignalStoreScrelease);
  Replace(core, kCoreSignalSilentStoreRelaxed, &HookSignalSilentStoreRelaxed);
  Replace(core, kCoreSignalSilentStoreScrelease, &HookSignalSilentStoreScrelease);
  Replace(core, kCoreSignalDestroy, &HookSignalDestroy);
  Replace(core, kCoreExecutableFreeze, &HookExecutableFreeze);
  Replace(core, kCoreExecutableDestroy, &HookExecutableDestroy);
  Replace(core, kCoreMemoryCopy, &HookMemoryCopy);
  Replace(core, kCoreShutDown, &HookShutDown);
  Replace(amd, slots.profiling_set_profiler_enabled, &HookSetProfilerEnabled);
  Replace(amd, slots.profiling_async_copy_enable, &HookAsyncCopyEnable);
  Replace(amd, slots.memory_async_copy, &HookAsyncCopy);
  Replace(amd, slots.memory_async_copy_on_engine, &HookAsyncCopyOnEngine);
  Replace(amd, slots.memory_async_copy_rect, &HookAsyncCopyRect);
  Replace(amd, slots.queue_intercept_create, &HookInterceptCreate);
  InstallMemoryHooks(root, slots);
}

void HookRuntimeInit() {
  HsaBackend& h = g_hsa;
  // The runtime resets its table on unloading; the memory is static and remains.
  if (h.core_table != nullptr) Replace(h.core_table, kCoreInit, &HookInit);
}

void UnhookInit(ApiTable* core) {
  if (core->slots[kCoreInit] == reinterpret_cast<void*>(&HookInit)) {
    Replace(core, kCoreInit, g_hsa.functions.init);
  }
}

}  // namespace rocattach::collector
