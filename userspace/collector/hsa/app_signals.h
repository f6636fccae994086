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
// signals to operations, and the calls on reuse and destruction. They are needed for as
// long as anything is tracked, whether or not anything is recorded:
//   1. A dispatch is captured, and recording stops.
//   2. It ends. The application waits for it, sets its signal to 1 again and dispatches
//      the next kernel with it, which ends as well.
//   3. The worker, which had no CPU meanwhile, would take the second one's times.
//
// A signal has room for the times of one operation, and does not say whose they are. So
// an operation gets times only if no other one that we follow is in flight with its signal.
// One without times is followed all the same, for as long as it or one before it may be in
// flight, so that the next one does not get their times.
class AppSignals {
 public:
  void Init(Op* ops, const HsaFunctions* hsa) {
    ops_ = ops;
    hsa_ = hsa;
    tracked_ = 0;
    stopped_ = 0;
    for (Shard& shard : shards_) shard.head = kNoOp;
  }

  // Starts to follow `ops[index].signal`. Reads the signal, so it must be alive, and the
  // operation must not be visible to the GPU yet. Operations of one `group`, if it is not
  // 0, begin and end together, and count as one: all get the signal's times.
  void Track(uint32_t index, uint64_t group = 0);

  // Checks whether the operation has finished. True if nothing more can be learned.
  bool Poll(uint32_t index);

  // Ends the tracking of one operation, finished or not.
  void Abandon(uint32_t index);

  // The signal is about to be used for something that we do not track.
  void Reused(uint64_t signal) {
    if (LoadRelaxed(&tracked_) != 0) Share(signal);
  }
  // The signal may have been used again already: operations that depend on it get no
  // times.
  void Lost(uint64_t signal) {
    if (LoadRelaxed(&tracked_) != 0) ResolveAll(signal, /*read=*/false);
  }
  // Signals may have been destroyed without our knowledge: the same for all of them.
  void LoseAll();
  // hsa_signal_destroy is about to run.
  void Destroying(uint64_t signal) {
    if (LoadRelaxed(&tracked_) != 0) ResolveAll(signal, /*read=*/true);
  }

  // From here on nobody says which signals are reused or destroyed, so none is read.
  void StopReading() { StoreRelease(&stopped_, 1u); }

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
  // With the shard's lock, as all that follow.
  void Link(Shard* shard, uint32_t index);
  void Unlink(Shard* shard, uint32_t index);
  // Calls `use` with each operation that is followed on the signal.
  template <typename Use>
  void ForEach(Shard* shard, uint64_t signal, Use use);
  // Whether no operation from before is in flight with the signal of `op`, which is used
  // next. Ends the tracking of all of them, and fills in `op->seen` and `op->last`.
  bool EndEarlier(Shard* shard, Op* op);
  // The signal, which is still alive, is used next for something else: whether the
  // operation, and all before it, have ended. Takes the times if they are its own.
  bool HasEnded(Op* op);
  // The same for an operation that shares the signal with others. Nothing tells which of
  // them has ended; this is about all of them.
  static bool AllEnded(const Op& op, int64_t value);
  // Fills in the times if the operation, which has the signal for itself, has ended.
  // `reused`: as for HasEnded().
  bool TakeTimes(Op* op, bool reused);
  bool TakeCopyTimes(Op* op, bool reused);

  // Without the lock.
  void Share(uint64_t signal);
  void ResolveAll(uint64_t signal, bool read);

  Op* ops_ = nullptr;
  const HsaFunctions* hsa_ = nullptr;
  uint32_t tracked_ = 0;
  uint32_t stopped_ = 0;
  Shard shards_[kShards];
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_APP_SIGNALS_H_
