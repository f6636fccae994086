// Turns AQL packets into operations in flight.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_CAPTURE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_CAPTURE_H_

#include <hsa/hsa.h>

#include "userspace/collector/common/kernel_table.h"
#include "userspace/collector/common/process.h"
#include "userspace/collector/hsa/op_tracker.h"
#include "userspace/collector/hsa/packet.h"
#include "userspace/collector/hsa/queue.h"

namespace rocattach::collector {

// The reasons for recording a dispatch; zeros if no plan decides.
struct DispatchOwners {
  uint16_t flags = 0;  // rocattach_dispatch.flags
  uint32_t iteration = 0;
  uint64_t dispatch_id = 0;
};

// Shared by both ways of capture (doorbell.h, intercept.h). Called under the queue's
// lock.
class Capture {
 public:
  // Without a process and its plan, everything is recorded.
  void Init(OpTracker* tracker, const KernelTable* kernels,
            Process* process = nullptr) {
    tracker_ = tracker;
    kernels_ = kernels;
    process_ = process;
  }
  OpTracker& tracker() { return *tracker_; }

  // Records a kernel dispatch that the GPU cannot see yet. A packet without a
  // completion signal gets one of ours.
  void Dispatch(Queue* q, hsa_kernel_dispatch_packet_t* packet, uint64_t index,
                uint64_t now_ns, uint32_t tid, RingHandle* ring);

  // Handles a packet of any type that is not recorded: it reuses its completion signal,
  // if it has one, on which an earlier operation may depend.
  void Barrier(const PacketView& packet) {
    packet.ForEachCompletionSignal([this](uint64_t signal) { Reuse(signal); });
  }

  // Handles a packet that passes while nothing is recorded.
  void Passing(const PacketView& packet, RingHandle* ring) {
    Barrier(packet);
    if (Likely(process_ == nullptr || LoadRelaxed(&process_->self_stopped) == 0))
      return;
    if (packet.kind() != PacketKind::kOther) {
      ring->Count(&rocattach_ring::packets_unseen, uint64_t{1});
    }
  }

  // Handles a packet that is not recorded either, and may have run already.
  void Lost(const PacketView& packet) {
    packet.ForEachCompletionSignal([this](uint64_t signal) {
      if (signal != 0) tracker_->app_signals().Lost(signal);
    });
  }

  // Handles a packet that is not a dispatch, while dispatches are recorded.
  void Other(const PacketView& packet, RingHandle* ring) {
    if (Unlikely(packet.kind() == PacketKind::kOpaque)) {
      ring->Count(&rocattach_ring::packets_unseen, uint64_t{1});
    }
    Barrier(packet);
  }

  // Records packet `index`, which the GPU has consumed already: its header is gone, but
  // its body may be intact. With a known kernel object it is a dispatch; packets that
  // look like one with an unknown kernel are only counted. `named` false: the kernels
  // known now may not be those of that time, so each packet is only counted.
  void Consumed(Queue* q, uint64_t index, uint64_t now_ns, RingHandle* ring,
                bool named = true);

  HarvestContext Context(Queue* q, RingHandle* ring) {
    return {&q->agent, &q->clock, ring};
  }

 private:
  void Reuse(uint64_t signal) {
    if (signal != 0) tracker_->app_signals().Reused(signal);
  }
  // Writes an entry of the in-flight table, except for its kind.
  void Fill(const Queue& q, const hsa_kernel_dispatch_packet_t& packet, uint64_t index,
            uint64_t now_ns, uint32_t tid, const DispatchOwners& owners,
            rocattach_inflight* entry);
  // True if a dispatch is to be recorded. Fills in `owners` if there is a plan.
  bool Selected(const Queue& q, const hsa_kernel_dispatch_packet_t& packet,
                DispatchOwners* owners);
  // Counts a dispatch that is to be recorded as seen. True if it is left out because of
  // the service's budget; dispatches that a session has selected never are.
  bool SampledOut(const DispatchOwners& owners, RingHandle* ring) {
    constexpr uint32_t kOfPlan =
        ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_FOR_COUNTERS;
    const bool all = process_ == nullptr || (owners.flags & kOfPlan) != 0;
    return ring->CountSeen(all ? ROCATTACH_SAMPLING_EVERY : process_->Sampling());
  }
  const PlanState* plan() const {
    return process_ != nullptr ? process_->plans.active() : nullptr;
  }

  OpTracker* tracker_ = nullptr;
  const KernelTable* kernels_ = nullptr;
  Process* process_ = nullptr;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_CAPTURE_H_
