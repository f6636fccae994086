// Dispatches that rocprofiler-sdk has announced and not yet completed.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_OPS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_OPS_H_

#include <stdint.h>

#include "userspace/collector/common/memory.h"
#include "userspace/collector/common/op.h"
#include "userspace/collector/common/plan_set.h"

namespace rocattach::collector {

// Data that only the collector needs besides the shared record; same index.
struct SdkOp {
  uint64_t dispatch_id;   // the SDK's; 0: free
  const PlanState* plan;  // counts it and is kept for it; nullptr: not counted
  uint64_t generation;    // the plan's
  uint64_t config_handle;
  uint32_t next;        // free list
  uint32_t config;      // index in SdkConfigs, if counted
  uint16_t pass;        // index in rocattach_plan.pass
  uint16_t first_pass;  // index of its architecture's first pass
  uint32_t counted;     // 1: its values, and with them its record, are still to come
};

// The in-flight table. Services that see the same dispatch find the same entry.
class SdkOps {
 public:
  // 0 or an errno value.
  int Init(Memory* memory) {
    memory_ = memory;
    count_ = memory->geometry().inflight_count;
    ops_ = static_cast<SdkOp*>(AllocatePrivate(count_ * sizeof(SdkOp)));
    seen_ = static_cast<Seen*>(AllocatePrivate(kSeen * sizeof(Seen)));
    return ops_ == nullptr || seen_ == nullptr ? ENOMEM : 0;
  }

  // kNoOp when the table is full.
  uint32_t Take() {
    TinyLockHolder hold(lock_);
    if (free_head_ != kNoOp) {
      uint32_t index = free_head_;
      free_head_ = ops_[index].next;
      return index;
    }
    if (never_used_ == count_ || !memory_->CommitInflight(never_used_)) return kNoOp;
    return never_used_++;
  }
  // The thread that completes a dispatch claims it first; false if another one has.
  bool Claim(uint32_t index, uint64_t dispatch_id) {
    return dispatch_id != 0 && __atomic_compare_exchange_n(
                                   &ops_[index].dispatch_id, &dispatch_id, uint64_t{0},
                                   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
  // Removes it from the in-flight table that the service sees. After Claim().
  void Clear(uint32_t index) {
    StoreRelease(&shared(index)->kind, uint16_t{ROCATTACH_RECORD_NONE});
  }
  // Frees the entry, and releases its plan. After Claim().
  void Give(uint32_t index) {
    Clear(index);
    if (ops_[index].plan != nullptr) PlanSet::Release(ops_[index].plan);
    TinyLockHolder hold(lock_);
    ops_[index].next = free_head_;
    free_head_ = index;
  }

  SdkOp& at(uint32_t index) { return ops_[index]; }
  rocattach_inflight* shared(uint32_t index) { return memory_->inflight(index); }
  uint32_t used() const { return LoadRelaxed(&never_used_); }

  // The entry of a dispatch, which a callback's user data names; kNoOp if it has none.
  // It is not documented for every service that user data survives from the enqueue to
  // the completion, so there is a second way.
  uint32_t Find(uint64_t user_data, uint64_t dispatch_id) const {
    uint64_t index = user_data - 1;
    if (Likely(index < count_ &&
               LoadAcquire(&ops_[index].dispatch_id) == dispatch_id)) {
      return static_cast<uint32_t>(index);
    }
    uint32_t stored = kNoOp;
    if (!LoadIndex(dispatch_id, &stored) || stored >= count_) return kNoOp;
    return LoadAcquire(&ops_[stored].dispatch_id) == dispatch_id ? stored : kNoOp;
  }

  // Several services announce a dispatch, one after the other on one thread. The first
  // one decides and stores the result: an entry, or kNoOp.
  void StoreIndex(uint64_t dispatch_id, uint32_t index) {
    Seen& seen = seen_[dispatch_id % kSeen];
    StoreRelaxed(&seen.index, index);
    StoreRelease(&seen.dispatch_id, dispatch_id);
  }
  bool LoadIndex(uint64_t dispatch_id, uint32_t* index) const {
    const Seen& seen = seen_[dispatch_id % kSeen];
    if (dispatch_id == 0 || LoadAcquire(&seen.dispatch_id) != dispatch_id) return false;
    *index = LoadRelaxed(&seen.index);
    return true;
  }

 private:
  struct Seen {
    uint64_t dispatch_id;
    uint32_t index;
  };
  // More than are in flight at one time.
  static constexpr uint32_t kSeen = 65536;

  Memory* memory_ = nullptr;
  SdkOp* ops_ = nullptr;
  Seen* seen_ = nullptr;
  uint32_t count_ = 0;
  TinyLock lock_;
  uint32_t free_head_ = kNoOp;
  uint32_t never_used_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_OPS_H_
