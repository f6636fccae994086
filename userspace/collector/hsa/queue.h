// The collector's state of one HSA queue.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_QUEUE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_QUEUE_H_

#include <hsa/amd_hsa_queue.h>
#include <stdint.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/common/clock_map.h"
#include "userspace/collector/common/op.h"
#include "userspace/collector/common/patience.h"
#include "userspace/collector/hsa/agents.h"

namespace rocattach::collector {

// The thread that rang for a packet; kept for the last kRingers packets.
struct Ringer {
  uint32_t index;  // low bits of the packet index, plus one
  uint32_t tid;
};

struct Queue {
  static constexpr uint32_t kRingers = 64;
  static constexpr uint64_t kNotWatched = UINT64_MAX;
  static constexpr uint32_t kIdled = 1;

  // Set when the queue is created, constant until it is destroyed.
  amd_queue_t* amd = nullptr;  // nullptr: no queue behind this entry
  bool reserved = false;       // set by the registry: the entry is taken
  hsa_signal_t doorbell = {};
  uint8_t* packets = nullptr;
  uint32_t mask = 0;    // packets in the ring, minus one
  uint32_t id = 0;      // dictionary id
  uint64_t hsa_id = 0;  // the runtime's own number
  Agent agent = {};
  bool intercepted = false;
  // Several threads may ring for it, with values in any order.
  bool many_producers = false;
  // The ring is in device memory: reads of it cross the bus.
  bool in_device = false;
  // A second ring holds the event of each packet's signal: the packet processor would
  // not know the event of a signal that we add (PREFETCH_METADATA_RING_BUFFER).
  bool has_metadata = false;

  // Packets [0, rung) have been rung for by the application while recording; grows. Not
  // on the lock's cache line: every producer writes it.
  alignas(64) uint64_t rung = 0;
  uint64_t idle_end = 0;  // the same while we neither recorded nor watched
  Ringer ringers[kRingers] = {};

  // Read by every producer, written rarely. Not 0 if rung while we neither recorded nor
  // watched: kIdled, or the value of Process::self_stopped if recording was requested
  // and we had stopped by ourselves.
  alignas(64) uint32_t idled = 0;
  uint32_t deferred = 0;  // 1: a doorbell waits for an earlier packet to become valid
  uint64_t resumed = 0;   // the first packet since recording resumed
  // Packets from here on were rung for while we watched: only their signals matter.
  uint64_t watched = kNotWatched;

  // Guards all below, and the packets between `next` and what the GPU may see.
  alignas(64) TinyLock lock;
  Patience patience;  // for threads that have seen an operation end
  // Being destroyed: `amd` must not be accessed. Read without the lock as well.
  bool closing = false;
  // Calls may have bypassed us: it is not known whether the queue still exists, and
  // only operations with our signals are followed. Read without the lock as well.
  bool lost = false;
  bool profiled = false;   // the GPU writes timestamps
  uint64_t looked = 0;     // value of `rung` when packets were last checked
  uint64_t next = 0;       // first packet that has not been captured
  uint64_t forwarded = 0;  // packets [0, forwarded) have been rung for by us
  uint64_t harvested = 0;  // value of `next` when a ring last published
  OpList ops;
  ClockMap clock;

  // Intercepted queues of runtimes that must not overflow (intercept.cc); guarded by
  // the runtime's own lock of the queue, which is held when it calls us.
  static constexpr uint32_t kMarkers = 16;
  struct Marker {
    uint32_t op;   // the marker packet decrements its signal
    uint64_t end;  // value of `submitted` after it
  };
  uint32_t batch_packets = 0;
  uint8_t* batch = nullptr;  // room for a whole queue of packets and their markers
  uint64_t submitted = 0;    // packets given to the hardware queue
  uint64_t confirmed = 0;    // packets that the hardware has certainly consumed
  uint64_t marked = 0;       // value of `submitted` after the newest marker
  uint32_t marker_count = 0;
  Marker markers[kMarkers] = {};  // pending ones, oldest first
};

inline uint64_t ReadIndex(const Queue& q) {
  return __atomic_load_n(const_cast<const uint64_t*>(&q.amd->read_dispatch_id),
                         __ATOMIC_ACQUIRE);
}
inline uint64_t WriteIndex(const Queue& q) {
  return __atomic_load_n(const_cast<const uint64_t*>(&q.amd->write_dispatch_id),
                         __ATOMIC_ACQUIRE);
}

// True if `now` is still that queue: HSA requires that no number is ever given twice.
bool IsSame(const Queue& q, const amd_queue_t& now);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_QUEUE_H_
