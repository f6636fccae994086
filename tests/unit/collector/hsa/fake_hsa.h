// A queue, a packet processor and the few runtime functions that capture needs.
#ifndef ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_FAKE_HSA_H_
#define ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_FAKE_HSA_H_

#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/unit/collector/test_memory.h"
#include "userspace/collector/hsa/capture.h"
#include "userspace/collector/hsa/doorbell.h"
#include "userspace/collector/hsa/queue.h"

namespace rocattach::collector {

// Runtime functions: a doorbell rings the FakeGpu of its queue, one tick is one
// nanosecond, profiling can be switched on.
HsaFunctions FakeHsaFunctions();

// One queue and the GPU behind its doorbell. Packets run only when the test runs
// them.
class FakeGpu {
 public:
  explicit FakeGpu(uint32_t packets);

  Queue& queue() { return queue_; }
  amd_queue_t& amd() { return amd_; }
  hsa_kernel_dispatch_packet_t& packet(uint64_t index) {
    return packets_[index % packets_.size()];
  }

  // Producer: Reserve() reserves a packet, Write() makes it a dispatch of `kernel`.
  uint64_t Reserve() { return __atomic_fetch_add(&write_index(), 1, __ATOMIC_SEQ_CST); }
  void Write(uint64_t index, uint64_t kernel, amd_signal_t* completion = nullptr);
  // True if a dispatch begins only when all before it have ended.
  void set_barriers(bool barriers) { barriers_ = barriers; }
  void WriteBarrier(uint64_t index, amd_signal_t* completion = nullptr);
  // Writes any packet, its header last.
  void WritePacket(uint64_t index, AqlPacket packet);

  // Runs packets that are valid, rung for, and below `limit`. Returns their number.
  uint64_t Run(uint64_t limit = UINT64_MAX);
  // Runs valid packets whether or not they have been rung for.
  uint64_t RunUnrung();

  // All values that reached the doorbell. Must not be called while a thread rings.
  const std::vector<uint64_t>& rings() const { return rings_; }
  void Rung(uint64_t value);
  uint64_t now() const { return clock_; }

 private:
  uint64_t& write_index() { return const_cast<uint64_t&>(amd_.write_dispatch_id); }
  bool RunOne();

  amd_queue_t amd_ = {};
  amd_signal_t doorbell_ = {};
  std::vector<hsa_kernel_dispatch_packet_t> packets_;
  std::mutex rings_mutex_;
  std::vector<uint64_t> rings_;
  std::atomic<uint64_t> rung_ = 0;  // packets below this index may run
  bool barriers_ = false;
  uint64_t clock_ = 10'000'000;
  Queue queue_;
};

// Tracker, capture and shared memory, wired up as in the collector.
class CaptureFixture {
 public:
  explicit CaptureFixture(rocattach_collector_config config = SmallConfig());
  ~CaptureFixture();

  Memory memory;
  RingSet rings;
  HsaFunctions hsa;
  KernelTable kernels;
  OpTracker tracker;
  Capture capture;
  DoorbellCapture doorbell;
  std::vector<amd_signal_t> pool;

  uint64_t Sum(uint64_t rocattach_ring::*field) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < memory.geometry().ring_count; ++i)
      sum += memory.ring(i)->*field;
    return sum;
  }
  int64_t Inflight() const {
    int64_t sum = 0;
    for (uint32_t i = 0; i < memory.geometry().ring_count; ++i) {
      sum += memory.ring(i)->inflight;
    }
    return sum;
  }
  // Publishes all that has finished.
  void Harvest(Queue* q) {
    RingHandle ring = rings.Mine();
    tracker.Harvest(&q->ops, capture.Context(q, &ring), UINT32_MAX, UINT32_MAX);
  }
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_FAKE_HSA_H_
