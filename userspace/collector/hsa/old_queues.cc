#include "userspace/collector/hsa/old_queues.h"

#include "userspace/collector/hsa/backend.h"

namespace rocattach::collector {

constinit OldQueues g_old_queues;

namespace {

const amd_queue_t* Raw(const hsa_queue_t* queue) {
  return reinterpret_cast<const amd_queue_t*>(queue);
}

uint64_t Load(const volatile uint64_t* index) {
  return __atomic_load_n(const_cast<const uint64_t*>(index), __ATOMIC_SEQ_CST);
}

}  // namespace

// The queue that the packet processor reads. A handle of a counted queue is a copy of
// the parts that its user needs, without the indices.
const hsa_queue_t* OldQueues::Hardware(const hsa_queue_t* queue) {
  const auto* doorbell =
      reinterpret_cast<const amd_signal_t*>(queue->doorbell_signal.handle);
  if (doorbell == nullptr || !IsDoorbell(*doorbell) || doorbell->queue_ptr == nullptr) {
    return queue;
  }
  const auto* hardware = reinterpret_cast<const hsa_queue_t*>(doorbell->queue_ptr);
  return hardware->doorbell_signal.handle == queue->doorbell_signal.handle ? hardware
                                                                           : queue;
}

uint64_t OldQueues::WriteIndexOf(const hsa_queue_t* queue) {
  return Load(&Raw(Hardware(queue))->write_dispatch_id);
}

// Queues of copy engines are sized in bytes, and their indices count bytes. They lack
// the flag that HSA has for queues that take dispatches.
bool OldQueues::HasPackets(const hsa_queue_t* queue) {
  return (queue->features & HSA_QUEUE_FEATURE_KERNEL_DISPATCH) != 0 &&
         queue->base_address != nullptr && queue->size != 0 &&
         (queue->size & (queue->size - 1)) == 0;
}

OldQueues::Pending* OldQueues::FindPending(const hsa_queue_t* queue) {
  for (uint32_t i = 0; i < pending_count_; ++i) {
    if (pending_[i].queue == queue) return &pending_[i];
  }
  return nullptr;
}

OldQueues::Pending* OldQueues::AddPending(const hsa_queue_t* queue) {
  if (pending_count_ == kMaxPending) return nullptr;
  Pending* pending = &pending_[pending_count_];
  const auto* raw = Raw(queue);
  *pending = {queue, queue->doorbell_signal.handle,
              Load(late_ ? &raw->write_dispatch_id : &raw->read_dispatch_id)};
  StoreRelaxed(&pending_count_, pending_count_ + 1);
  return pending;
}

void OldQueues::RemovePending(Pending* pending) {
  StoreRelaxed(&pending_count_, pending_count_ - 1);
  *pending = pending_[pending_count_];
}

void OldQueues::See(const hsa_queue_t* handle) {
  const hsa_queue_t* queue = Hardware(handle);
  if (queue != handle && IsKnown(queue)) return;
  if (g_hsa.live.MayBeBypassed()) return;
  g_hsa.Regain(queue);
  TinyLockHolder hold(lock_);
  // The registry has the queues that were created since, and those that are tracked.
  if (HasPackets(queue) && g_hsa.queues.FindByHandle(queue) == nullptr &&
      FindPending(queue) == nullptr && AddPending(queue) == nullptr) {
    return;
  }
  StoreRelease(&known_[Hash(queue)], queue);
}

OldQueues::Pending* OldQueues::PendingByDoorbell(hsa_signal_t signal) {
  for (uint32_t i = 0; i < pending_count_; ++i) {
    if (pending_[i].doorbell == signal.handle) return &pending_[i];
  }
  const auto& raw = *reinterpret_cast<const amd_signal_t*>(signal.handle);
  if (!IsDoorbell(raw) || raw.queue_ptr == nullptr) return nullptr;
  const auto* queue = reinterpret_cast<const hsa_queue_t*>(raw.queue_ptr);
  if (queue->doorbell_signal.handle != signal.handle || IsExcluded(signal.handle) ||
      !HasPackets(queue)) {
    return nullptr;
  }
  return AddPending(queue);
}

void OldQueues::Exclude(hsa_signal_t doorbell) {
  TinyLockHolder hold(lock_);
  for (uint64_t& excluded : excluded_) {
    if (excluded != 0 && excluded != doorbell.handle) continue;
    excluded = doorbell.handle;
    return;
  }
}

bool OldQueues::IsExcluded(uint64_t doorbell) const {
  for (uint64_t excluded : excluded_) {
    if (excluded == doorbell) return true;
  }
  return false;
}

// A program rings only for packets that it has reserved and written.
bool OldQueues::IsPacket(const hsa_queue_t* queue, uint64_t last) {
  if (last >= Load(&Raw(queue)->write_dispatch_id)) return false;
  const auto* packets = static_cast<const AqlPacket*>(queue->base_address);
  const uint8_t type = PacketView(packets[last % queue->size]).type();
  return type != HSA_PACKET_TYPE_INVALID && type <= HSA_PACKET_TYPE_BARRIER_OR;
}

// Older runtimes do not tell a queue's agent. If there are several GPUs, it is then the
// agent of the dispatched kernel: each GPU has its own copy of a kernel.
const Agent* OldQueues::FindAgent(Pending* pending, uint64_t last) {
  const Agents& agents = g_hsa.agents;
  const auto query = g_hsa.functions.queue_get_info;
  uint64_t agent[8] = {};  // more than any attribute has
  if (query != nullptr && query(const_cast<hsa_queue_t*>(pending->queue),
                                kQueueInfoAgent, agent) == HSA_STATUS_SUCCESS) {
    const Agent* found = agents.Find({agent[0]});
    if (found != nullptr) return found->gpu ? found : nullptr;
  }
  const Agent* gpu = nullptr;
  uint32_t gpus = 0;
  for (uint32_t i = 0; i < agents.count(); ++i) {
    if (!agents.at(i).gpu) continue;
    gpu = &agents.at(i);
    ++gpus;
  }
  if (gpus == 1) return gpu;
  const auto* packets = static_cast<const AqlPacket*>(pending->queue->base_address);
  for (uint64_t index = pending->first; index <= last; ++index) {
    const PacketView packet = packets[index % pending->queue->size];
    if (packet.type() == HSA_PACKET_TYPE_INVALID) return nullptr;
    // No other code examines this packet if the queue cannot be tracked yet.
    g_hsa.capture.Barrier(packet);
    const PacketKind kind = packet.kind();
    if (kind == PacketKind::kDispatch || kind == PacketKind::kExtDispatch) {
      return g_hsa.executables.AgentOf(packet->dispatch.kernel_object);
    }
    pending->first = index + 1;
  }
  return nullptr;
}

Queue* OldQueues::FindByDoorbell(hsa_signal_t signal, hsa_signal_value_t value,
                                 RingHandle* ring) {
  if (!MayBeDoorbell(signal) || g_hsa.live.MayBeBypassed()) return nullptr;
  HsaBackend& h = g_hsa;
  const auto& raw = *reinterpret_cast<const amd_signal_t*>(signal.handle);
  if (IsDoorbell(raw)) h.Regain(reinterpret_cast<const hsa_queue_t*>(raw.queue_ptr));
  TinyLockHolder hold(lock_);
  if (Queue* q = h.queues.Find(signal.handle); q != nullptr) return q;
  Pending* pending = PendingByDoorbell(signal);
  if (pending == nullptr) return nullptr;
  const auto last = static_cast<uint64_t>(value);
  // Reserved earlier, or not the index of a packet.
  if (last < pending->first || last - pending->first > 2 * pending->queue->size ||
      !IsPacket(pending->queue, last)) {
    return nullptr;
  }
  const Agent* agent = FindAgent(pending, last);
  if (agent == nullptr) {
    if (pending->first <= last) {
      ring->Count(&rocattach_ring::packets_unseen, last - pending->first + 1);
      pending->first = last + 1;
    }
    return nullptr;
  }
  Queue* q = h.queues.Add();
  if (q == nullptr) return nullptr;
  h.Track(q, const_cast<hsa_queue_t*>(pending->queue), *agent, /*intercepted=*/false,
          /*profiled=*/false, pending->first);
  RemovePending(pending);
  return q;
}

void OldQueues::Destroying(const hsa_queue_t* queue) {
  if (!active()) return;
  TinyLockHolder hold(lock_);
  if (Pending* pending = FindPending(queue); pending != nullptr) RemovePending(pending);
  for (uint64_t& excluded : excluded_) {
    if (queue != nullptr && excluded == queue->doorbell_signal.handle) excluded = 0;
  }
  const hsa_queue_t*& known = known_[Hash(queue)];
  if (known == queue) StoreRelaxed(&known, static_cast<const hsa_queue_t*>(nullptr));
}

void OldQueues::Forget() {
  TinyLockHolder hold(lock_);
  StoreRelaxed(&pending_count_, 0u);
  for (const hsa_queue_t*& known : known_) {
    StoreRelaxed(&known, static_cast<const hsa_queue_t*>(nullptr));
  }
  for (uint64_t& excluded : excluded_) excluded = 0;
}

}  // namespace rocattach::collector
