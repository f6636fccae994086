#include "userspace/collector/hsa/queue_registry.h"

#include "userspace/collector/common/memory.h"

namespace rocattach::collector {

bool IsSame(const Queue& q, const amd_queue_t& now) {
  const hsa_queue_t& queue = now.hsa_queue;
  return queue.id == q.hsa_id && queue.base_address == q.packets &&
         queue.doorbell_signal.handle == q.doorbell.handle && queue.size == q.mask + 1;
}

Queue* QueueRegistry::Add() {
  TinyLockHolder hold(lock_);
  for (uint32_t i = 0; i < count_; ++i) {
    if (queues_[i]->reserved) continue;
    queues_[i]->reserved = true;
    queues_[i]->in_device = queues_[i]->has_metadata = queues_[i]->lost = false;
    return queues_[i];
  }
  if (count_ == kMax) return nullptr;
  void* memory = AllocatePrivate(sizeof(Queue));
  if (memory == nullptr) return nullptr;
  // Sets the few members that are not initially zero in the zeroed page.
  auto* queue = static_cast<Queue*>(memory);
  queue->ops = OpList();
  queue->reserved = true;
  queues_[count_] = queue;
  StoreRelease(&count_, count_ + 1);
  return queue;
}

void QueueRegistry::Publish(Queue* queue) {
  TinyLockHolder hold(lock_);
  uint64_t doorbell = queue->doorbell.handle;
  for (uint32_t i = Hash(doorbell);; ++i) {
    Slot& slot = slots_[i % kSlots];
    if (slot.doorbell != doorbell && slot.queue != nullptr) continue;
    // The queue is stored first: a reader that finds the doorbell finds it.
    StoreRelaxed(&slot.queue, queue);
    StoreRelease(&slot.doorbell, doorbell);
    return;
  }
}

void QueueRegistry::Hide(Queue* queue) {
  TinyLockHolder hold(lock_);
  const uint32_t first = Hash(queue->doorbell.handle);
  for (uint32_t i = first; i != first + kSlots; ++i) {
    Slot& slot = slots_[i % kSlots];
    if (slot.doorbell == 0) return;
    if (slot.queue != queue) continue;
    StoreRelaxed(&slot.queue, static_cast<Queue*>(nullptr));
    return;
  }
}

void QueueRegistry::Free(Queue* queue) {
  TinyLockHolder hold(lock_);
  StoreRelease(&queue->amd, static_cast<amd_queue_t*>(nullptr));
  queue->reserved = false;
}

Queue* QueueRegistry::FindByHandle(const hsa_queue_t* handle) const {
  for (uint32_t i = 0; i < count(); ++i) {
    Queue* queue = queues_[i];
    // 1. A destroys its queue, and is preempted on its way from the runtime to Free().
    // 2. B creates a queue, at the same address, and destroys it: it must not find A's
    //    entry, or its own would remain with freed memory.
    if (LoadRelaxed(&queue->closing) || LoadRelaxed(&queue->lost)) continue;
    if (reinterpret_cast<const hsa_queue_t*>(LoadRelaxed(&queue->amd)) == handle) {
      return queue;
    }
  }
  return nullptr;
}

}  // namespace rocattach::collector
