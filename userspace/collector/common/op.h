// An operation in flight: what only the collector needs besides the shared record.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_OP_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_OP_H_

#include <stdint.h>

namespace rocattach::collector {

constexpr uint32_t kNoOp = UINT32_MAX;

enum class OpKind : uint32_t {
  kOwnSignal,  // dispatch that completes on the pool's signal of the same index
  kAppSignal,  // dispatch with the application's signal
  kCopy,       // copy with the application's signal
};

// One per entry of the shared in-flight table, same index; guarded by the queue's lock.
// Small, since there may be thousands in flight: most operations need only this.
struct OpLink {
  uint32_t next;  // in the queue's list, or in the free list
  OpKind kind : 2;
  uint32_t barrier : 1;  // the packet begins when all before it have ended
  uint32_t packet : 29;  // low bits of a dispatch's packet index

  void SetPacket(uint64_t index) {
    constexpr uint32_t kBits = (1u << 29) - 1;
    packet = static_cast<uint32_t>(index) & kBits;
  }
  // True if the packet processor has passed the packet. Queues are far shorter than the
  // stored bits can count.
  bool Consumed(uint64_t read_index) const {
    uint32_t ahead = (static_cast<uint32_t>(read_index) - packet) << 3;
    return ahead != 0 && ahead < 1u << 31;
  }
};
static_assert(sizeof(OpLink) == 8, "there are thousands");

// For operations that depend on an application's signal, same index; guarded by the
// lock of the signal's shard (app_signals.h).
struct Op {
  uint32_t signal_next;  // next in the chain of AppSignals
  bool copy;             // OpKind::kCopy, else kAppSignal
  bool resolved;         // nothing more can be learned from the signal
  bool timed;            // start and end are known
  bool alone;            // no other operation uses the signal: its times are this one's
  uint64_t signal;       // the signal's handle
  uint64_t group;        // operations of one group end together; 0: no group
  int64_t seen;          // lowest value of the signal that was seen
  int64_t last;          // its value once this operation and all before it have ended
  uint64_t old_start;    // the signal's times at capture, GPU ticks
  uint64_t old_end;
  uint64_t start;  // GPU ticks; system domain for a copy
  uint64_t end;
};

// Operations of one queue, oldest first, and a cache of free entries, so that the
// common case takes only the queue's lock.
struct OpList {
  uint32_t head = kNoOp;
  uint32_t tail = kNoOp;
  uint32_t count = 0;  // operations that are not published; also read without the lock
  uint32_t free_head = kNoOp;
  uint32_t free_count = 0;
  uint64_t all_ended = 0;  // all packets below this index have ended
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_OP_H_
