// All queues that the application has created, found by their doorbell.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_QUEUE_REGISTRY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_QUEUE_REGISTRY_H_

#include <stdint.h>

#include "userspace/collector/hsa/queue.h"

namespace rocattach::collector {

// Entries are never freed, only reused: a doorbell hook may still read an entry while
// it is being removed. Lookup takes no lock.
class QueueRegistry {
 public:
  static constexpr uint32_t kMax = 1024;

  // Finds room for a queue; nullptr if there are too many. Find() does not return the
  // entry yet: fill it in, then Publish().
  Queue* Add();
  void Publish(Queue* queue);
  // Hides the queue from Find(); the caller owns the entry until Free().
  void Hide(Queue* queue);
  void Free(Queue* queue);

  // By doorbell signal handle; nullptr if it is not a tracked queue.
  Queue* Find(uint64_t doorbell) const {
    const uint32_t first = Hash(doorbell);
    for (uint32_t i = first; i != first + kSlots; ++i) {
      const Slot& slot = slots_[i % kSlots];
      uint64_t key = LoadAcquire(&slot.doorbell);
      if (Likely(key == doorbell)) return LoadRelaxed(&slot.queue);
      if (key == 0) break;
    }
    return nullptr;
  }
  // By the application's handle; nullptr if unknown or lost. Not for hot paths.
  Queue* FindByHandle(const hsa_queue_t* handle) const;

  // Entries that have ever been used, for iteration; those with amd == nullptr are
  // free.
  uint32_t count() const { return LoadAcquire(&count_); }
  Queue* at(uint32_t index) const { return queues_[index]; }

 private:
  struct Slot {
    uint64_t doorbell;  // 0: never used
    Queue* queue;       // nullptr: hidden
  };
  // Twice as many slots as queues, so that one is always free or hidden. A
  // hidden slot is reused for another doorbell, since the doorbell of a
  // destroyed queue is no longer looked up.
  static constexpr uint32_t kSlots = 2 * kMax;

  static uint32_t Hash(uint64_t doorbell) {
    return static_cast<uint32_t>((doorbell * 0x9e3779b97f4a7c15u) >> 40);
  }

  TinyLock lock_;
  uint32_t count_ = 0;
  Queue* queues_[kMax] = {};
  Slot slots_[kSlots] = {};
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_QUEUE_REGISTRY_H_
