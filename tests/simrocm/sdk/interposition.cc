// How the real implementation works, as far as others can see it:
// - hsa_queue_create makes an ordinary queue; then times are enabled for the queue.
// - While interposition is active, applications use a virtual write index. The GPU's
//   write index is stored directly, bypassing the API, at the doorbell.
// - At the doorbell each available packet is copied, its header is made invalid, and
//   the packet is written again, with a signal of the SDK if it had none; a signal of
//   the application stays, and its value is raised by one until the record is made.
//   Then the GPU's write index is advanced, and the store to the doorbell is passed on
//   with the last packet's index.
// - Nothing is added to the queue: virtual and real indices refer to the same packets.
// - A doorbell without new packets is passed on unchanged.
#include "tests/simrocm/sdk/interposition.h"

#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/completions.h"
#include "tests/simrocm/sdk/counting.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/dispatch_records.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/signals.h"

namespace simrocm::sdk {
namespace {

using Packet = hsa_kernel_dispatch_packet_t;
using SignalStore = void (*)(hsa_signal_t, hsa_signal_value_t);

struct VirtualQueue {
  const hsa_queue_t* queue;
  hsa_agent_t agent;

  // One doorbell at a time.
  std::mutex doorbell;
  uint64_t submitted = 0;  // packets the GPU was notified of; guarded by `doorbell`

  // Guards the choice between the two indices, and their changes. Upstream does this
  // without a lock, and wrongly if it begins or ends on a busy queue.
  std::mutex index;
  bool active = false;         // changed with both locks held
  uint64_t virtual_write = 0;  // guarded by `index`

  Packet* At(uint64_t position) const {
    return static_cast<Packet*>(queue->base_address) + position % queue->size;
  }
  volatile uint64_t* RealWriteIndex() const {
    auto* amd = reinterpret_cast<const amd_queue_t*>(queue);
    return const_cast<volatile uint64_t*>(&amd->write_dispatch_id);
  }
};

using QueueReference = std::shared_ptr<VirtualQueue>;

struct State {
  CoreApiTable next{};
  std::shared_mutex mutex;
  std::unordered_map<const hsa_queue_t*, QueueReference> queues;
  // Taken before any lock of a queue: serializes beginnings and ends of interposition.
  std::mutex transition;
  int consumers = 0;
  bool installed = false;
};

State& Get() {
  static auto* state = new State;
  return *state;
}

const CoreApiTable& Next() {
  return Get().next;
}

QueueReference Find(const hsa_queue_t* queue) {
  // In a forked child no lock may be taken.
  if (FiniStatus() > 0) return nullptr;
  std::shared_lock lock(Get().mutex);
  auto found = Get().queues.find(queue);
  return found != Get().queues.end() ? found->second : nullptr;
}

QueueReference FindByDoorbell(hsa_signal_t signal) {
  auto* amd = reinterpret_cast<const amd_signal_t*>(signal.handle);  // NOLINT
  if (amd->kind != AMD_SIGNAL_KIND_DOORBELL &&
      amd->kind != AMD_SIGNAL_KIND_LEGACY_DOORBELL) {
    return nullptr;
  }
  return Find(reinterpret_cast<const hsa_queue_t*>(amd->queue_ptr));
}

// --- The write index ---

template <auto kMember>
uint64_t Load(const hsa_queue_t* queue) {
  if (QueueReference known = Find(queue)) {
    std::lock_guard lock(known->index);
    if (known->active) return known->virtual_write;
  }
  return (Next().*kMember)(queue);
}

template <auto kMember>
void Store(const hsa_queue_t* queue, uint64_t value) {
  if (QueueReference known = Find(queue)) {
    std::lock_guard lock(known->index);
    if (known->active) {
      known->virtual_write = value;
    } else {
      (Next().*kMember)(queue, value);
    }
    return;
  }
  (Next().*kMember)(queue, value);
}

template <auto kMember>
uint64_t Add(const hsa_queue_t* queue, uint64_t value) {
  if (QueueReference known = Find(queue)) {
    std::lock_guard lock(known->index);
    if (!known->active) return (Next().*kMember)(queue, value);
    const uint64_t before = known->virtual_write;
    known->virtual_write += value;
    return before;
  }
  return (Next().*kMember)(queue, value);
}

template <auto kMember>
uint64_t CompareAndSwap(const hsa_queue_t* queue, uint64_t expected, uint64_t value) {
  if (QueueReference known = Find(queue)) {
    std::lock_guard lock(known->index);
    if (!known->active) return (Next().*kMember)(queue, expected, value);
    const uint64_t before = known->virtual_write;
    if (before == expected) known->virtual_write = value;
    return before;
  }
  return (Next().*kMember)(queue, expected, value);
}

// --- The doorbell ---

// If the dispatch is needed: describes it and gives it a signal.
void Instrument(const VirtualQueue& queue, Packet* packet,
                std::vector<Completion>* batch) {
  auto dispatch = std::make_unique<Dispatch>();
  if (!Describe(queue.queue, queue.agent, *packet, dispatch.get())) return;
  Completion completion;
  if (packet->completion_signal.handle != 0) {
    completion.signal = packet->completion_signal;
    Core().hsa_signal_add_scacq_screl_fn(completion.signal, 1);
    completion.value = Core().hsa_signal_load_scacquire_fn(completion.signal);
  } else {
    completion.own = AcquireSignal();
    completion.signal = *completion.own;
    packet->completion_signal = completion.signal;
  }
  BeginDispatch(queue.queue);
  completion.dispatch = std::move(dispatch);
  batch->push_back(std::move(completion));
}

// Takes the available packets out of the queue and puts them back in. False if there
// were none.
bool Submit(VirtualQueue* queue, std::vector<Completion>* batch) {
  uint64_t end;
  {
    std::lock_guard lock(queue->index);
    end = queue->virtual_write;
  }
  uint64_t position = queue->submitted;
  std::vector<Packet> taken;
  for (; position < end; ++position) {
    Packet* slot = queue->At(position);
    Packet packet;
    packet.header = __atomic_load_n(&slot->header, __ATOMIC_ACQUIRE);
    // Its producer has not written it yet, and will ring the doorbell for it.
    if (PacketType(packet.header) == HSA_PACKET_TYPE_INVALID) break;
    const uint16_t header = packet.header;
    memcpy(&packet, slot, sizeof(packet));
    packet.header = header;
    __atomic_store_n(&slot->header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
    taken.push_back(packet);
  }
  position = queue->submitted;
  for (Packet& packet : taken) {
    if (PacketType(packet.header) == HSA_PACKET_TYPE_KERNEL_DISPATCH) {
      Instrument(*queue, &packet, batch);
    }
    // There is room: the application waited for that before it wrote the packet.
    Packet* slot = queue->At(position++);
    memcpy(reinterpret_cast<char*>(slot) + sizeof(slot->header),
           reinterpret_cast<const char*>(&packet) + sizeof(packet.header),
           sizeof(packet) - sizeof(packet.header));
    __atomic_store_n(&slot->header, packet.header, __ATOMIC_RELEASE);
  }
  if (taken.empty()) return false;
  queue->submitted = position;
  __atomic_store_n(queue->RealWriteIndex(), position, __ATOMIC_RELEASE);
  return true;
}

void Ring(VirtualQueue* queue, hsa_signal_value_t value, SignalStore store) {
  const hsa_signal_t doorbell = queue->queue->doorbell_signal;
  std::vector<Completion> batch;
  {
    std::lock_guard lock(queue->doorbell);
    if (!queue->active) {
      store(doorbell, value);
      return;
    }
    if (!Submit(queue, &batch) && static_cast<uint64_t>(value) < queue->submitted) {
      // A slow producer from before interposition began, or one whose packet was
      // submitted with another one's doorbell.
      store(doorbell, value);
    } else if (queue->submitted != 0) {
      store(doorbell, static_cast<hsa_signal_value_t>(queue->submitted - 1));
    }
  }
  for (Completion& completion : batch) {
    // The exit callbacks come after the submission, when the dispatch may have ended.
    const Dispatch copy = *completion.dispatch;
    AwaitCompletion(std::move(completion));
    CallEnqueued(copy);
  }
}

template <auto kMember>
void SignalWrite(hsa_signal_t signal, hsa_signal_value_t value) {
  if (QueueReference known = FindByDoorbell(signal)) {
    Ring(known.get(), value, Next().*kMember);
  } else {
    (Next().*kMember)(signal, value);
  }
}

// --- Queues ---

// Call with the transition's lock held.
void SetActive(VirtualQueue* queue, bool active) {
  std::lock_guard doorbell(queue->doorbell);
  std::lock_guard index(queue->index);
  if (queue->active == active) return;
  volatile uint64_t* real = queue->RealWriteIndex();
  if (active) {
    // Packets that were reserved before this are submitted by their own doorbells.
    queue->submitted = __atomic_load_n(real, __ATOMIC_ACQUIRE);
    queue->virtual_write = queue->submitted;
  } else {
    // Reserved packets keep their places.
    __atomic_store_n(real, queue->virtual_write, __ATOMIC_RELEASE);
  }
  queue->active = active;
}

void SetAllActive(bool active) {
  std::vector<QueueReference> queues;
  {
    std::shared_lock lock(Get().mutex);
    for (const auto& [queue, known] : Get().queues) queues.push_back(known);
  }
  for (const QueueReference& queue : queues) SetActive(queue.get(), active);
}

hsa_status_t CreateQueue(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                         void (*callback)(hsa_status_t, hsa_queue_t*, void*),
                         void* data, uint32_t private_segment_size,
                         uint32_t group_segment_size, hsa_queue_t** queue) {
  hsa_status_t status =
      Next().hsa_queue_create_fn(agent, size, type, callback, data,
                                 private_segment_size, group_segment_size, queue);
  if (status != HSA_STATUS_SUCCESS || FiniStatus() > 0) return status;
  AmdExt().hsa_amd_profiling_set_profiler_enabled_fn(*queue, 1);
  auto known = std::make_shared<VirtualQueue>();
  known->queue = *queue;
  known->agent = agent;
  State& state = Get();
  std::lock_guard transition(state.transition);
  SetActive(known.get(), state.consumers > 0);
  std::unique_lock lock(state.mutex);
  state.queues[*queue] = std::move(known);
  return status;
}

hsa_status_t DestroyQueue(hsa_queue_t* queue) {
  if (FiniStatus() <= 0) {
    OnQueueDestroyed(queue);
    AbandonCompletions(queue);
    std::lock_guard transition(Get().transition);
    QueueReference known = Find(queue);
    if (known != nullptr) SetActive(known.get(), false);
    std::unique_lock lock(Get().mutex);
    Get().queues.erase(queue);
  }
  return Next().hsa_queue_destroy_fn(queue);
}

bool TracesDispatches(const Context& context) {
  return context.buffer_tracing.count(ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH) != 0 ||
         context.callback_tracing.count(ROCATTACH_SDK_CALLBACK_KERNEL_DISPATCH) != 0;
}

void AddConsumers(int more) {
  State& state = Get();
  std::lock_guard transition(state.transition);
  const bool before = state.consumers > 0;
  state.consumers += more;
  const bool now = state.consumers > 0;
  if (before == now || !state.installed) return;
  SetAllActive(now);
  Log("sdk.queue_interposition active=%d", now);
}

}  // namespace

bool UsesInterposition() {
  // Decided once: existing queues cannot be switched when another client is added.
  static const bool uses = [] {
    if (!GetBool("SIMROCM_QUEUE_INTERPOSITION", false) ||
        !GetBool("ROCPROFILER_QUEUE_INTERPOSITION", true)) {
      return false;
    }
    for (const Context* context : AllContexts()) {
      if (!context->dispatch_counting.empty()) return false;
    }
    return AnyContextNeedsQueues();
  }();
  return uses;
}

void InstallInterposition(CoreApiTable* core) {
  State& state = Get();
  std::lock_guard transition(state.transition);
  state.installed = true;
  PoolSignals(true);
  state.next = *core;
  core->hsa_queue_create_fn = &CreateQueue;
  core->hsa_queue_destroy_fn = &DestroyQueue;
// NOLINTBEGIN(bugprone-macro-parentheses): parts of a template's argument
#define SIMROCM_WRAP(name, wrapper) \
  core->name##_fn = &(wrapper<&CoreApiTable::name##_fn>)
  // NOLINTEND(bugprone-macro-parentheses)
  SIMROCM_WRAP(hsa_queue_load_write_index_scacquire, Load);
  SIMROCM_WRAP(hsa_queue_load_write_index_relaxed, Load);
  SIMROCM_WRAP(hsa_queue_store_write_index_relaxed, Store);
  SIMROCM_WRAP(hsa_queue_store_write_index_screlease, Store);
  SIMROCM_WRAP(hsa_queue_cas_write_index_scacq_screl, CompareAndSwap);
  SIMROCM_WRAP(hsa_queue_cas_write_index_scacquire, CompareAndSwap);
  SIMROCM_WRAP(hsa_queue_cas_write_index_relaxed, CompareAndSwap);
  SIMROCM_WRAP(hsa_queue_cas_write_index_screlease, CompareAndSwap);
  SIMROCM_WRAP(hsa_queue_add_write_index_scacq_screl, Add);
  SIMROCM_WRAP(hsa_queue_add_write_index_scacquire, Add);
  SIMROCM_WRAP(hsa_queue_add_write_index_relaxed, Add);
  SIMROCM_WRAP(hsa_queue_add_write_index_screlease, Add);
  SIMROCM_WRAP(hsa_signal_store_relaxed, SignalWrite);
  SIMROCM_WRAP(hsa_signal_store_screlease, SignalWrite);
  SIMROCM_WRAP(hsa_signal_silent_store_relaxed, SignalWrite);
  SIMROCM_WRAP(hsa_signal_silent_store_screlease, SignalWrite);
#undef SIMROCM_WRAP
  Log("sdk.hsa step=queue_interposition");
}

void StartInterposition(const Context& context) {
  if (TracesDispatches(context)) AddConsumers(1);
}

void StopInterposition(const Context& context) {
  if (TracesDispatches(context)) AddConsumers(-1);
}

void ForgetInterposedQueues() {
  AbandonCompletions(nullptr);
  std::unique_lock lock(Get().mutex);
  Get().queues.clear();
}

}  // namespace simrocm::sdk
