// Queues whose creation the collector has not seen.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_OLD_QUEUES_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_OLD_QUEUES_H_

#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <stdint.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/common/ring.h"
#include "userspace/collector/hsa/queue.h"

namespace rocattach::collector {

// Queues from before a late attach, and queues created in a way that we do not know,
// such as hsa_amd_counted_queue_acquire(), which gives several handles to one queue.
//
// The runtime has no list of its queues, so each one is found when it is used. After a
// late attach, packets reserved earlier may have been rung for and belong to the GPU,
// so recording begins with a packet that certainly has not been rung for:
// 1. A thread is about to reserve packets. Before it does, the write index is read:
//    `first`. All packets from there on are reserved after our functions were in place.
// 2. They are rung for through us. The first such ring starts to track the queue.
// Rings for packets before `first` are forwarded unchanged.
//
// A program may reserve packets without calling the runtime. Then the first ring of the
// queue replaces step 1. If we were present before the first queue was created, that
// ring is for the queue's first packets.
class OldQueues {
 public:
  // From here on the other functions take effect. `late`: the runtime was open before.
  void Begin(bool late) {
    late_ = late;
    StoreRelease(&active_, 1u);
  }
  bool active() const { return LoadRelaxed(&active_) != 0; }

  // The application is about to change the write index of `queue`.
  void BeforeReserve(const hsa_queue_t* queue) {
    if (Likely(IsKnown(queue))) return;
    See(queue);
  }

  // The write index of the hardware queue behind that handle.
  static uint64_t WriteIndexOf(const hsa_queue_t* queue);

  // False for most signals that are stored to, which FindByDoorbell need not check.
  // Doorbells of queues that another tool intercepts can be signals of any kind, so
  // while queues are pending every signal may be one.
  bool MayBeDoorbell(hsa_signal_t signal) const {
    return signal.handle != 0 &&
           (IsDoorbell(*reinterpret_cast<const amd_signal_t*>(signal.handle)) ||
            LoadRelaxed(&pending_count_) != 0);
  }

  // The application stores `value` to a signal that the registry does not know. If it
  // is the doorbell of a queue of which packet `value` is to be recorded, starts to
  // track that queue and returns it; otherwise returns nullptr.
  Queue* FindByDoorbell(hsa_signal_t signal, hsa_signal_value_t value,
                        RingHandle* ring);

  // Excludes the doorbell of a queue whose entries are not AQL packets.
  void Exclude(hsa_signal_t doorbell);
  // hsa_queue_destroy is about to run.
  void Destroying(const hsa_queue_t* queue);
  // The runtime has shut down, or queues may have been destroyed without our knowledge.
  void Forget();

 private:
  static constexpr uint32_t kKnown = 1024;
  static constexpr uint32_t kMaxPending = 256;
  static constexpr uint32_t kMaxExcluded = 64;

  // A queue that has been seen and is not tracked yet.
  struct Pending {
    const hsa_queue_t* queue;
    uint64_t doorbell;
    uint64_t first;
  };

  static bool IsDoorbell(const amd_signal_t& signal) {
    return signal.kind == AMD_SIGNAL_KIND_DOORBELL ||
           signal.kind == AMD_SIGNAL_KIND_LEGACY_DOORBELL;
  }
  static uint32_t Hash(const hsa_queue_t* queue) {
    const auto address = reinterpret_cast<uint64_t>(queue);
    return static_cast<uint32_t>((address * 0x9e3779b97f4a7c15u) >> 40) % kKnown;
  }
  // Acquire: the write index has been read before this queue became known.
  bool IsKnown(const hsa_queue_t* queue) const {
    return LoadAcquire(&known_[Hash(queue)]) == queue;
  }
  static const hsa_queue_t* Hardware(const hsa_queue_t* queue);
  // True if the entries of the queue's ring are AQL packets.
  static bool HasPackets(const hsa_queue_t* queue);
  void See(const hsa_queue_t* handle);
  // The rest is called with the lock.
  Pending* FindPending(const hsa_queue_t* queue);
  Pending* AddPending(const hsa_queue_t* queue);
  Pending* PendingByDoorbell(hsa_signal_t signal);
  void RemovePending(Pending* pending);
  // The GPU that the queue belongs to; nullptr if it cannot be determined yet. Advances
  // `first` past packets up to `last` that are not dispatches.
  const Agent* FindAgent(Pending* pending, uint64_t last);

  bool IsExcluded(uint64_t doorbell) const;
  // True if `last`, which is rung for, is the index of an AQL packet.
  static bool IsPacket(const hsa_queue_t* queue, uint64_t last);

  uint32_t active_ = 0;
  bool late_ = false;
  uint32_t pending_count_ = 0;
  TinyLock lock_;
  Pending pending_[kMaxPending] = {};
  uint64_t excluded_[kMaxExcluded] = {};  // doorbells, 0: free
  // Cache of queues that have been seen, indexed by a hash of their address. Contains
  // only queues that packet processors read, whose destruction we see: other handles
  // of counted queues are released without our knowledge, and their memory may become
  // a handle of another queue.
  const hsa_queue_t* known_[kKnown] = {};
};

// All zero and large, like g_queues.
extern OldQueues g_old_queues;

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_OLD_QUEUES_H_
