// Applications' completion signals that operations in flight depend on.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_APP_SIGNALS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_APP_SIGNALS_H_

#include <hsa/amd_hsa_signal.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/common/op.h"
#include "userspace/collector/hsa/functions.h"

namespace rocattach::collector {

// We never replace an application's signal and never write to it. A dispatch has
// finished once the signal's timestamps differ from those at capture: GPU ticks never
// repeat. They must be read before the signal serves another packet and before it is
// destroyed, and its memory must not be read after that: therefore this index from
// signals to operations, and the calls on reuse and destruction.
class AppSignals {
 public:
  void Init(Op* ops, const HsaFunctions* hsa) {
    ops_ = ops;
    hsa_ = hsa;
    tracked_ = 0;
    for (Shard& shard : shards_) shard.head = kNoOp;
  }

  // Starts to follow `ops[index].signal`. Reads the signal, so it must be alive, and
  // must not be visible to the GPU yet. If another operation still waits for the same
  // signal, times could no longer be distinguished: both get none.
  void Track(uint32_t index);

  // Checks whether the operation has finished. True if nothing more can be learned.
  bool Poll(uint32_t index);

  // Ends the tracking of one operation, finished or not.
  void Abandon(uint32_t index);

  // The signal is about to be used for something that we do not track.
  void Reused(uint64_t signal) {
    if (LoadRelaxed(&tracked_) != 0) ResolveAll(signal);
  }
  // hsa_signal_destroy is about to run.
  void Destroying(uint64_t signal) { Reused(signal); }

  uint32_t tracked() const { return LoadRelaxed(&tracked_); }

 private:
  struct Shard {
    TinyLock lock;
    uint32_t head = kNoOp;
  };
  static constexpr uint32_t kShards = 256;

  Shard& ShardOf(uint64_t signal) {
    // Signals are 64-byte aligned, and often allocated contiguously.
    return shards_[((signal >> 6) ^ (signal >> 14)) % kShards];
  }
  void ResolveAll(uint64_t signal);
  bool TryResolve(Op* op, bool signal_ends);
  void Unlink(Shard* shard, uint32_t index);

  Op* ops_ = nullptr;
  const HsaFunctions* hsa_ = nullptr;
  uint32_t tracked_ = 0;
  Shard shards_[kShards];
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_APP_SIGNALS_H_
