// Memory copies.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_COPIES_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_COPIES_H_

#include "userspace/collector/common/patience.h"
#include "userspace/collector/hsa/agents.h"
#include "userspace/collector/hsa/batch_copy.h"
#include "userspace/collector/hsa/op_tracker.h"
#include "userspace/collector/hsa/recording.h"

namespace rocattach::collector {

// Asynchronous copies become operations in flight that end with the application's
// signal; synchronous ones are recorded with host times.
class Copies {
 public:
  void Init(OpTracker* tracker, const Agents* agents, const HsaFunctions* hsa,
            const HsaRecording* recording) {
    tracker_ = tracker;
    agents_ = agents;
    hsa_ = hsa;
    recording_ = recording;
    profiled_ = false;
  }

  // Describes a copy; ids are 0 where an agent is unknown.
  rocattach_copy Describe(hsa_agent_t dst_agent, hsa_agent_t src_agent, const void* dst,
                          const void* src, uint64_t bytes, RingHandle* ring);
  // Finds which agents own the memory of two pointers, with one runtime call each.
  void DescribePointers(const void* dst, const void* src, rocattach_copy* copy);

  // Before the runtime is called: makes it record the times of copies, and tracks
  // the copy. Returns the operation, or kNoOp when the copy will not be timed.
  uint32_t Begin(const rocattach_copy& copy, hsa_signal_t completion, RingHandle* ring);
  // After the runtime has returned `status`; a copy that it refused is discarded.
  void Submitted(uint32_t op, hsa_status_t status, const rocattach_copy& copy,
                 RingHandle* ring);
  // Records a copy that has ended already.
  void Done(rocattach_copy* copy, RingHandle* ring);

  // The copies of a batch.
  struct Batch {
    const CopyOp* ops = nullptr;
    uint32_t count = 0;
    uint32_t known = 0;  // operations that we understand, at the front
    // Number of tracked copies: the first ones of those that have a signal.
    uint64_t tracked = 0;
    bool full = false;  // there was no room to track more of them
    uint64_t first_group = 0, last_group = 0;
  };
  // Number of operations at the front of a batch that are understood.
  uint32_t KnownOps(const CopyOp* ops, uint32_t count) const;
  // Like Begin() and Submitted(). The copies of one operation share a completion
  // signal, and get the same times. Operations in an unknown layout are only counted.
  void BeginBatch(Batch* batch, RingHandle* ring);
  void BatchSubmitted(const Batch& batch, hsa_status_t status, RingHandle* ring);

  // Publishes finished copies, unless another thread is doing so.
  void Harvest(RingHandle* ring);
  // The same when the application has seen a copy end: waits for such a thread.
  void HarvestSeen(RingHandle* ring);
  // Exit paths: publishes all finished copies, and then the unfinished ones, which are
  // no longer polled.
  void HarvestAll(RingHandle* ring);
  void PublishUnfinished(RingHandle* ring);
  bool Pending() const { return LoadAcquire(&list_.count) != 0; }

  // The runtime is gone, and its profiling switch with it.
  void RuntimeGone() { profiled_ = false; }
  // The profiling switch may have been changed without our knowledge: the next recorded
  // copy sets it again. Otherwise a copy would get the times of an earlier one.
  void LoseProfiling();
  // The application switches copy profiling; true if the call may be forwarded.
  bool AppEnables(bool enable, bool recording);

 private:
  HarvestContext Context(RingHandle* ring) { return {nullptr, nullptr, ring}; }
  // With the lock: the copy becomes an operation in flight; kNoOp if there is no room.
  uint32_t Track(const rocattach_copy& copy, hsa_signal_t completion, uint64_t group,
                 RingHandle* ring);
  // With the lock: the same for all copies of one operation of a batch, and for one
  // copy. `group` is the group of the operation's copies, 0 before the first one.
  void TrackOp(const CopyOp& op, Batch* batch, RingHandle* ring);
  bool TrackEntry(const CopyOp& op, const CopyEntry& entry, uint64_t* group,
                  Batch* batch, RingHandle* ring);
  void PublishUntimed(const rocattach_copy& copy, RingHandle* ring);

  OpTracker* tracker_ = nullptr;
  const Agents* agents_ = nullptr;
  const HsaFunctions* hsa_ = nullptr;
  const HsaRecording* recording_ = nullptr;
  TinyLock lock_;
  Patience patience_;  // for threads that have seen a copy end
  OpList list_;
  bool profiled_ = false;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_COPIES_H_
