// The functions that replace the runtime's own in its tables.
//
// Each one forwards the call at once if there is nothing to do: no session records, or
// this is a forked child. None keeps state across the runtime's own call except what
// its object's lock guards.
#include "userspace/collector/hsa/hooks.h"

#include "userspace/collector/common/own_stack.h"
#include "userspace/collector/hsa/backend.h"

namespace rocattach::collector {
namespace {

// One ring out of this many is timed, to account for our own cost.
constexpr uint32_t kCostSample = 64;

using SignalStore = decltype(&::hsa_signal_store_relaxed);

void Ring(Queue* q, hsa_signal_value_t value, bool recording) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (Unlikely(!recording)) {
    RingHandle ring = p.rings.Mine();
    h.doorbell.Watch(q, value, &ring);
    return p.worker.Nudge();
  }
  if (Unlikely(!h.tracker.signals().ready())) h.PreparePoolOnOwnStack();
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
  HsaBackend& h = g_hsa;
  // Several threads may make the first rings of a queue. One of them makes the pool;
  // the others wait, since what they dispatch without it would have no times.
  if (h.recording.Dispatches() && !h.tracker.signals().ready()) {
    ErrnoKeeper keep_errno;
    h.PreparePoolOnOwnStack();
    for (int i = 0; i < 1000 && !h.tracker.signals().ready() && !h.pool_failed; ++i) {
      const timespec nap = {0, 100'000};
      nanosleep(&nap, nullptr);
    }
  }
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
  const bool recording = h.recording.Dispatches();
  // While an operation depends on a signal of the application, packets are looked at:
  // one of them may use the signal again.
  if (recording || Unlikely(h.tracker.app_signals().tracked() != 0)) {
    return Ring(q, value, recording);
  }
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

// The application has seen that something has ended. Everything that has ended by then
// is published now, because the process may end at any time without exit handlers: by
// `_exit`, as Python's worker processes do, or by SIGKILL. While a signal is polled
// its value is greater than 0.
inline hsa_signal_value_t Seen(hsa_signal_value_t value) {
  if (value <= 0 && g_process.Live()) g_hsa.PublishSeen();
  return value;
}

template <auto kLoad>
hsa_signal_value_t HookSignalLoad(hsa_signal_t signal) {
  return Seen((g_hsa.functions.*kLoad)(signal));
}

template <auto kWait>
hsa_signal_value_t HookSignalWait(hsa_signal_t signal, hsa_signal_condition_t condition,
                                  hsa_signal_value_t compare, uint64_t timeout,
                                  hsa_wait_state_t state) {
  return Seen((g_hsa.functions.*kWait)(signal, condition, compare, timeout, state));
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
  // The queue still exists.
  if (Unlikely(LoadRelaxed(&q->lost))) StoreRelaxed(&q->lost, false);
  bool recording = h.recording.Dispatches();
  if (!h.tracker.signals().ready()) h.PreparePoolOnOwnStack();
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
  if (p.guard.Ours()) h.live.Arm();
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
    h.PreparePoolOnOwnStack();
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

// True if programs call our function directly, and not through another tool. Such a
// tool relies on the kind of queue that the runtime creates: rocprofiler-sdk with
// inline queue interposition counts the packets of every queue, but recognises
// doorbells by their kind. It would never ring the doorbell of an intercept queue, and
// the program would wait forever.
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

// The runtime's function is called first: it keeps what it could create of a batch. A
// queue that is not understood here is found at its first ring, if it has packets.
hsa_status_t HookAmdQueueCreate(hsa_agent_t agent, QueueDescriptor* descriptors,
                                uint32_t count) {
  HsaBackend& h = g_hsa;
  const hsa_status_t status = h.functions.amd_queue_create(agent, descriptors, count);
  // After an error it is not known whether the runtime has read all descriptors, nor
  // whether it has written them. Queues that exist nevertheless are found later.
  if (status != HSA_STATUS_SUCCESS || descriptors == nullptr) return status;
  for (uint32_t i = 0; i < count; ++i) {
    QueueDescriptor& d = descriptors[i];
    if (!DescribesQueue(d)) continue;
    if (d.engine_type != QueueDescriptor::kCompute) {
      h.old_queues.Exclude(d.queue->doorbell_signal);
      continue;
    }
    MakeQueue(agent, &d.queue, [&](Queue* q, bool*) {
      if (q != nullptr) q->in_device = (d.flags & QueueDescriptor::kRingInDevice) != 0;
      return HSA_STATUS_SUCCESS;
    });
  }
  return status;
}

hsa_status_t HookQueueDestroy(hsa_queue_t* queue) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (p.Live()) h.Regain(queue);
  Queue* q = p.Live() ? h.queues.FindByHandle(queue) : nullptr;
  if (p.Live()) h.old_queues.Destroying(queue);
  if (q == nullptr) return h.functions.queue_destroy(queue);
  RingHandle ring = p.rings.Mine();
  h.queues.Hide(q);
  q->lock.Lock();
  // A ring that found the lock held by the worker still has to be served. And the
  // packet processor may have been rung without us.
  if (!q->intercepted) {
    h.doorbell.CountInterrupted(q, &ring);
    h.doorbell.ServeNew(q, &ring);
    if (h.recording.Dispatches()) h.doorbell.CatchUp(q, &ring);
  }
  StoreRelaxed(&q->closing, true);
  h.tracker.Harvest(&q->ops, h.capture.Context(q, &ring), UINT32_MAX, UINT32_MAX);
  q->lock.Unlock();
  hsa_status_t status = h.functions.queue_destroy(queue);
  q->lock.Lock();
  if (status == HSA_STATUS_SUCCESS) {
    // The packet processor has stopped: what is unfinished now will never finish.
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
  if (p.Live()) h.Regain(queue);
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
  if (p.guard.Ours()) h.live.Arm();
  if (status == HSA_STATUS_SUCCESS && p.Live()) {
    const auto read = [executable] { g_hsa.executables.Frozen(executable); };
    if (!OnOwnStack(read)) read();
  } else if (status == HSA_STATUS_SUCCESS && h.live.IsBeingArmed()) {
    h.live.LoseKernels();  // the thread that arms may have read the kernels already
  }
  return status;
}

hsa_status_t HookExecutableDestroy(hsa_executable_t executable) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  // No executable is destroyed while kernels from before are being read.
  if (p.guard.Ours()) h.live.ArmIfLate();
  if (p.Live()) {
    const auto read = [executable] { g_hsa.executables.Destroying(executable); };
    if (!OnOwnStack(read)) read();
  }
  return h.functions.executable_destroy(executable);
}

// hsa_init and hsa_shut_down need more stack than any other call. What we do before and
// after them is in functions of their own, so that hardly anything of ours is on the
// stack while the runtime's own function runs.
enum class Way : uint32_t { kForeign, kToolsLib, kLive, kLiveNested };

__attribute__((noinline)) Way BeginInit() {
  HsaBackend& h = g_hsa;
  if (!g_process.guard.Ours()) return Way::kForeign;
  if (h.live.installed()) return h.live.Enter() ? Way::kLive : Way::kLiveNested;
  h.reentry.BeginInit();
  return Way::kToolsLib;
}

__attribute__((noinline)) void EndInit(Way way, hsa_status_t status) {
  if (way == Way::kLive) g_hsa.live.LeaveInit(status);
  if (way == Way::kToolsLib) g_hsa.reentry.EndInit();
}

hsa_status_t HookInit() {
  const Way way = BeginInit();
  const hsa_status_t status = g_hsa.functions.init();
  EndInit(way, status);
  return status;
}

__attribute__((noinline)) Way BeginShutDown() {
  HsaBackend& h = g_hsa;
  if (!g_process.guard.Ours()) return Way::kForeign;
  if (!h.live.installed()) return Way::kToolsLib;
  return h.live.EnterShutDown() ? Way::kLive : Way::kLiveNested;
}

__attribute__((noinline)) void EndShutDown(Way way, hsa_status_t status) {
  if (way == Way::kLive) return g_hsa.live.LeaveShutDown(status);
  if (way == Way::kToolsLib && LoadAcquire(&g_process.phase) == kPhaseUnloaded) {
    HookRuntimeInit();
  }
}

hsa_status_t HookShutDown() {
  const Way way = BeginShutDown();
  const hsa_status_t status = g_hsa.functions.shut_down();
  EndShutDown(way, status);
  return status;
}

}  // namespace

bool HooksInPlace(const ApiTableRoot* root) {
  return root->core->slots[kCoreQueueCreate] ==
         reinterpret_cast<void*>(&HookQueueCreate);
}

bool IsOurQueueDestroy(const void* function) {
  return function == reinterpret_cast<void*>(&HookQueueDestroy);
}

void ReplaceEntry(ApiTable* table, uint32_t slot, void* hook) {
  if (slot == kNoSlot) return;
  void** entry = &table->slots[slot];
  if (g_hsa.live.installed() && !g_hsa.live.IsBelowUs(LoadAcquire(entry))) return;
  StoreRelease(entry, hook);
}

void InstallHooks(ApiTableRoot* root, const AmdSlots& slots) {
  ApiTable* core = root->core;
  ApiTable* amd = root->amd_ext;
  ReplaceEntry(core, kCoreQueueCreate, &HookQueueCreate);
  ReplaceEntry(core, kCoreQueueDestroy, &HookQueueDestroy);
  using F = HsaFunctions;
  ReplaceEntry(core, kCoreSignalLoadRelaxed, &HookSignalLoad<&F::signal_load_relaxed>);
  ReplaceEntry(core, kCoreSignalLoadScacquire,
               &HookSignalLoad<&F::signal_load_scacquire>);
  ReplaceEntry(core, kCoreSignalWaitRelaxed, &HookSignalWait<&F::signal_wait_relaxed>);
  ReplaceEntry(core, kCoreSignalWaitScacquire,
               &HookSignalWait<&F::signal_wait_scacquire>);
  ReplaceEntry(core, kCoreSignalStoreRelaxed, &HookSignalStoreRelaxed);
  ReplaceEntry(core, kCoreSignalStoreScrelease, &HookSignalStoreScrelease);
  ReplaceEntry(core, kCoreSignalSilentStoreRelaxed, &HookSignalSilentStoreRelaxed);
  ReplaceEntry(core, kCoreSignalSilentStoreScrelease, &HookSignalSilentStoreScrelease);
  ReplaceEntry(core, kCoreSignalDestroy, &HookSignalDestroy);
  ReplaceEntry(core, kCoreExecutableFreeze, &HookExecutableFreeze);
  ReplaceEntry(core, kCoreExecutableDestroy, &HookExecutableDestroy);
  ReplaceEntry(core, kCoreShutDown, &HookShutDown);
  ReplaceEntry(amd, slots.profiling_set_profiler_enabled, &HookSetProfilerEnabled);
  ReplaceEntry(amd, slots.queue_intercept_create, &HookInterceptCreate);
  ReplaceEntry(amd, slots.queue_create, &HookAmdQueueCreate);
  InstallCopyHooks(root, slots);
  InstallMemoryHooks(root, slots);
}

void HookRuntimeInit() {
  HsaBackend& h = g_hsa;
  // The runtime resets its table on unloading; the memory is static and remains.
  if (h.core_table != nullptr) ReplaceEntry(h.core_table, kCoreInit, &HookInit);
}

void UnhookInit(ApiTable* core) {
  if (core->slots[kCoreInit] == reinterpret_cast<void*>(&HookInit)) {
    StoreRelease(&core->slots[kCoreInit],
                 reinterpret_cast<void*>(g_hsa.functions.init));
  }
}

// Hooks for the functions that copy memory.

namespace {

// Calls `submit`, and begins to track the copy before it.
template <typename Submit>
hsa_status_t TrackCopy(hsa_agent_t dst_agent, hsa_agent_t src_agent, const void* dst,
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

// True if a copy is to be recorded. A copy or a batch that passes before the collector
// is armed counts as one unseen packet.
bool RecordCopies() {
  HsaBackend& h = g_hsa;
  if (g_process.guard.Ours()) h.live.Arm();
  if (g_process.Live()) return h.recording.Copies();
  if (h.live.IsBeingArmed() && h.recording.Copies()) {
    RingHandle ring = g_process.rings.Mine();
    ring.Count(&rocattach_ring::packets_unseen, uint64_t{1});
  }
  return false;
}

// The same for a copy that is about to use a signal.
bool RecordAsyncCopy(hsa_signal_t completion) {
  if (RecordCopies()) return true;
  if (g_process.Live()) g_hsa.tracker.app_signals().Reused(completion.handle);
  return false;
}

hsa_status_t HookAsyncCopy(void* dst, hsa_agent_t dst_agent, const void* src,
                           hsa_agent_t src_agent, size_t size, uint32_t num_deps,
                           const hsa_signal_t* deps, hsa_signal_t completion) {
  auto submit = [&] {
    return g_hsa.functions.memory_async_copy(dst, dst_agent, src, src_agent, size,
                                             num_deps, deps, completion);
  };
  if (!RecordAsyncCopy(completion)) return submit();
  return TrackCopy(dst_agent, src_agent, dst, src, size, ROCATTACH_COPY_UNKNOWN,
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
  if (!RecordAsyncCopy(completion)) return submit();
  return TrackCopy(dst_agent, src_agent, dst, src, size, ROCATTACH_COPY_UNKNOWN,
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
  if (!RecordAsyncCopy(completion) || dst == nullptr || src == nullptr ||
      range == nullptr) {
    return submit();
  }
  // The runtime's directions count from 0, ours from 1, in the same order.
  uint32_t known = static_cast<uint32_t>(direction) + 1;
  bool from_device = direction == hsaDeviceToHost || direction == hsaDeviceToDevice;
  bool to_device = direction == hsaHostToDevice || direction == hsaDeviceToDevice;
  hsa_agent_t none = {};
  uint64_t bytes = uint64_t{range->x} * range->y * range->z;
  return TrackCopy(
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

hsa_status_t HookAsyncBatchCopy(const CopyOp* ops, uint32_t count, uint32_t num_deps,
                                const hsa_signal_t* deps) {
  const auto submit = [&] {
    return g_hsa.functions.memory_async_batch_copy(ops, count, num_deps, deps);
  };
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (!RecordCopies()) {
    for (uint32_t i = 0, n = p.Live() ? h.copies.KnownOps(ops, count) : 0; i < n; ++i) {
      h.tracker.app_signals().Reused(ops[i].completion.handle);
    }
    return submit();
  }
  RingHandle ring = p.rings.Mine();
  Copies::Batch batch;
  batch.ops = ops;
  batch.count = count;
  h.copies.BeginBatch(&batch, &ring);
  const hsa_status_t status = submit();
  h.copies.BatchSubmitted(batch, status, &ring);
  p.worker.Nudge();
  return status;
}

}  // namespace

void InstallCopyHooks(ApiTableRoot* root, const AmdSlots& slots) {
  ApiTable* amd = root->amd_ext;
  ReplaceEntry(root->core, kCoreMemoryCopy, &HookMemoryCopy);
  ReplaceEntry(amd, slots.profiling_async_copy_enable, &HookAsyncCopyEnable);
  ReplaceEntry(amd, slots.memory_async_copy, &HookAsyncCopy);
  ReplaceEntry(amd, slots.memory_async_copy_on_engine, &HookAsyncCopyOnEngine);
  ReplaceEntry(amd, slots.memory_async_copy_rect, &HookAsyncCopyRect);
  ReplaceEntry(amd, slots.memory_async_batch_copy, &HookAsyncBatchCopy);
}

// Hooks for allocating and freeing memory, which record it while a plan asks for it.

namespace {

// The plan that records memory; nullptr if there is none. Does not arm the collector:
// that is left to calls that submit work.
const PlanState* Wanted() {
  if (!g_process.Live() || !g_hsa.recording.Planned(ROCATTACH_PLAN_RECORD_MEMORY)) {
    return nullptr;
  }
  return g_hsa.recording.plan();
}

void Publish(const PlanState* plan, rocattach_memory* record) {
  ErrnoKeeper keep_errno;
  const uint64_t generation = LoadAcquire(&plan->generation);
  if (generation == 0) return;
  RingHandle ring = g_process.rings.Mine();
  record->kind = ROCATTACH_RECORD_MEMORY;
  record->tid = ring.tid();
  record->plan_tag = ROCATTACH_PLAN_TAG(generation);
  record->correlation_id =
      __atomic_add_fetch(&g_hsa.memory_operations, 1u, __ATOMIC_RELAXED);
  ring.Count(&rocattach_ring::memory_seen, uint64_t{1});
  if (!ring.Push(record)) ring.Count(&rocattach_ring::memory_dropped, uint64_t{1});
}

template <typename Allocate>
hsa_status_t RecordAllocation(size_t bytes, void** address, Allocate allocate) {
  const PlanState* plan = Wanted();
  if (plan == nullptr) return allocate();
  rocattach_memory record = {};
  record.start_ns = BootNs();
  const hsa_status_t status = allocate();
  record.end_ns = BootNs();
  if (status != HSA_STATUS_SUCCESS || address == nullptr) return status;
  record.operation = ROCATTACH_MEMORY_ALLOCATE;
  record.address = reinterpret_cast<uint64_t>(*address);
  record.bytes = bytes;
  hsa_amd_pointer_info_t info = {};
  info.size = sizeof(info);
  if (g_hsa.functions.pointer_info(*address, &info, nullptr, nullptr, nullptr) ==
          HSA_STATUS_SUCCESS &&
      info.type != HSA_EXT_POINTER_TYPE_UNKNOWN) {
    const Agent* owner = g_hsa.agents.Find(info.agentOwner);
    if (owner != nullptr) record.agent_id = owner->id;
  }
  Publish(plan, &record);
  return status;
}

template <typename Free>
hsa_status_t RecordFree(void* address, Free free) {
  const PlanState* plan = Wanted();
  if (plan == nullptr) return free();
  rocattach_memory record = {};
  record.operation = ROCATTACH_MEMORY_FREE;
  record.address = reinterpret_cast<uint64_t>(address);
  record.start_ns = BootNs();
  const hsa_status_t status = free();
  record.end_ns = BootNs();
  if (status == HSA_STATUS_SUCCESS && address != nullptr) Publish(plan, &record);
  return status;
}

hsa_status_t HookPoolAllocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
                              void** address) {
  return RecordAllocation(size, address, [&] {
    return g_hsa.functions.memory_pool_allocate(pool, size, flags, address);
  });
}

hsa_status_t HookPoolFree(void* address) {
  return RecordFree(address, [&] { return g_hsa.functions.memory_pool_free(address); });
}

hsa_status_t HookMemoryAllocate(hsa_region_t region, size_t size, void** address) {
  return RecordAllocation(size, address, [&] {
    return g_hsa.functions.memory_allocate(region, size, address);
  });
}

hsa_status_t HookMemoryFree(void* address) {
  return RecordFree(address, [&] { return g_hsa.functions.memory_free(address); });
}

}  // namespace

void InstallMemoryHooks(ApiTableRoot* root, const AmdSlots& slots) {
  ReplaceEntry(root->core, kCoreMemoryAllocate, &HookMemoryAllocate);
  ReplaceEntry(root->core, kCoreMemoryFree, &HookMemoryFree);
  ReplaceEntry(root->amd_ext, slots.memory_pool_allocate, &HookPoolAllocate);
  ReplaceEntry(root->amd_ext, slots.memory_pool_free, &HookPoolFree);
}

// The functions that reserve packets: replaced in a late attach only, to find queues
// that were created before it.

namespace {

// The application is about to reserve packets. False if the call passes before the
// collector is armed: then the packets count as unseen.
inline bool BeforeReserve(const hsa_queue_t* queue) {
  HsaBackend& h = g_hsa;
  if (Unlikely(!h.live.IsReady())) {
    if (h.live.IsBeingArmed()) return false;
    // Otherwise the collector may just have been armed.
    if (!g_process.Live() || h.live.KernelsAreLost()) return true;
  }
  if (h.old_queues.active()) h.old_queues.BeforeReserve(queue);
  return true;
}

__attribute__((noinline)) void CountPassed(uint64_t packets) {
  if (!g_hsa.recording.Dispatches()) return;
  RingHandle ring = g_process.rings.Mine();
  ring.Count(&rocattach_ring::packets_unseen, packets);
}

template <auto kFunction>
uint64_t HookAdd(const hsa_queue_t* queue, uint64_t count) {
  if (Unlikely(!BeforeReserve(queue))) CountPassed(count);
  return (g_hsa.functions.*kFunction)(queue, count);
}

template <auto kFunction>
uint64_t HookCas(const hsa_queue_t* queue, uint64_t expected, uint64_t value) {
  const bool seen = BeforeReserve(queue);
  const uint64_t before = (g_hsa.functions.*kFunction)(queue, expected, value);
  if (Unlikely(!seen) && before == expected) CountPassed(value - expected);
  return before;
}

template <auto kFunction>
void HookStore(const hsa_queue_t* queue, uint64_t value) {
  if (Unlikely(!BeforeReserve(queue))) {
    const uint64_t before = OldQueues::WriteIndexOf(queue);
    if (value > before) CountPassed(value - before);
  }
  (g_hsa.functions.*kFunction)(queue, value);
}

}  // namespace

void InstallOldQueueHooks(ApiTable* core) {
  using F = HsaFunctions;
  ReplaceEntry(core, kCoreQueueStoreWriteIndexRelaxed,
               &HookStore<&F::queue_store_write_index_relaxed>);
  ReplaceEntry(core, kCoreQueueStoreWriteIndexScrelease,
               &HookStore<&F::queue_store_write_index_screlease>);
  ReplaceEntry(core, kCoreQueueCasWriteIndexScacqScrel,
               &HookCas<&F::queue_cas_write_index_scacq_screl>);
  ReplaceEntry(core, kCoreQueueCasWriteIndexScacquire,
               &HookCas<&F::queue_cas_write_index_scacquire>);
  ReplaceEntry(core, kCoreQueueCasWriteIndexRelaxed,
               &HookCas<&F::queue_cas_write_index_relaxed>);
  ReplaceEntry(core, kCoreQueueCasWriteIndexScrelease,
               &HookCas<&F::queue_cas_write_index_screlease>);
  ReplaceEntry(core, kCoreQueueAddWriteIndexScacqScrel,
               &HookAdd<&F::queue_add_write_index_scacq_screl>);
  ReplaceEntry(core, kCoreQueueAddWriteIndexScacquire,
               &HookAdd<&F::queue_add_write_index_scacquire>);
  ReplaceEntry(core, kCoreQueueAddWriteIndexRelaxed,
               &HookAdd<&F::queue_add_write_index_relaxed>);
  ReplaceEntry(core, kCoreQueueAddWriteIndexScrelease,
               &HookAdd<&F::queue_add_write_index_screlease>);
}

}  // namespace rocattach::collector
