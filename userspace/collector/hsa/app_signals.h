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
// destroyed, and its memory must not be read after that. This is why there is an index
// from signals to operations, and why reuse and destruction are reported. Both are
// needed as long as anything is tracked, whether or not anything is recorded:
//   1. A dispatch is captured, and recording stops.
//   2. It ends. The application waits for it, sets its signal to 1 again and dispatches
//      the next kernel with it, which ends as well.
//   3. The worker, which had no CPU meanwhile, would take the second one's times.
//
// A signal has room for the times of one operation, and does not identify the
// operation. So an operation gets times only if no other tracked operation is in flight
// with its signal. An operation without times is tracked all the same, for as long as
// it or an earlier one may be in flight, so that the next one does not get their times.
class AppSignals {
 public:
  void Init(Op* ops, const HsaFunctions* hsa) {
    ops_ = ops;
    hsa_ = hsa;
    tracked_ = 0;
    stopped_ = 0;
    for (Shard& shard : shards_) shard.head = kNoOp;
  }

  // Starts to track `ops[index].signal`. Reads the signal, so it must be alive, and the
  // operation must not be visible to the GPU yet. Operations of one `group`, if it is
  // not 0, begin and end together, and count as one: all get the signal's times.
  void Track(uint32_t index, uint64_t group = 0);

  // Checks whether the operation has finished. True if there is nothing more to learn.
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
  // The same for all signals, which may have been destroyed without our knowledge.
  void LoseAll();
  // hsa_signal_destroy is about to run.
  void Destroying(uint64_t signal) {
    if (LoadRelaxed(&tracked_) != 0) ResolveAll(signal, /*read=*/true);
  }

  // From here on reuse and destruction of signals go unnoticed, so no signal is read.
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
  // Called with the shard's lock, like all functions that follow.
  void Link(Shard* shard, uint32_t index);
  void Unlink(Shard* shard, uint32_t index);
  // Calls `use` with each operation that is tracked on the signal.
  template <typename Use>
  void ForEach(Shard* shard, uint64_t signal, Use use);
  // `op` is about to use its signal: true if no earlier operation is in flight with it.
  // Ends the tracking of all earlier ones, and fills in `op->seen` and `op->last`.
  bool EndEarlier(Shard* shard, Op* op);
  // The signal is still alive and about to be used for something else. True if the
  // operation and all before it have ended. Reads the times if they are its own.
  bool HasEnded(Op* op);
  // The same for an operation that shares the signal with others. It is not known which
  // of them have ended: true only if all have.
  static bool AllEnded(const Op& op, int64_t value);
  // Fills in the times if the operation, the only one with the signal, has ended.
  // `reused`: the signal is about to be used again, as for HasEnded().
  bool ReadTimes(Op* op, bool reused);
  bool ReadCopyTimes(Op* op, bool reused);

  // Called without the lock.
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
