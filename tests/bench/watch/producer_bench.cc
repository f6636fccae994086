// The cost of a record for its producer, compared with the usual vector behind a mutex.
// The target's other costs (the replaced call, the packet's way to the GPU) are part of
// the launch rate.
#include <benchmark/benchmark.h>

#include <mutex>
#include <vector>

#include "tests/unit/collector/hsa/fake_hsa.h"
#include "userspace/collector/common/ring.h"

namespace rocattach::collector {
namespace {

constexpr uint64_t kKernel = 0x7f0000001000;

rocattach_collector_config Config() {
  rocattach_collector_config config = SmallConfig();
  config.ring_slots = 8192;
  config.ring_count = 16;
  config.inflight_count = 4096;
  return config;
}

// Stands in for the service: drains everything whenever a ring is half full.
void DrainIfNeeded(rocattach_ring* ring, uint32_t slots) {
  uint64_t head = LoadRelaxed(&ring->head);
  if (head - LoadRelaxed(&ring->tail) > slots / 2) StoreRelease(&ring->tail, head);
}

// Pushes one finished record into the thread's own ring.
void BM_RingPush(benchmark::State& state) {
  Memory memory;
  RingSet rings;
  if (memory.Create(Config()) != 0 || rings.Init(&memory) != 0) {
    state.SkipWithError("no memory");
    return;
  }
  rocattach_ring* shared = memory.ring(0);
  rocattach_dispatch record = {};
  record.kind = ROCATTACH_RECORD_DISPATCH;
  for (auto _ : state) {
    ++record.correlation_id;
    RingHandle ring = rings.Mine();
    if (!ring.Push(&record)) state.SkipWithError("dropped");
    DrainIfNeeded(shared, 8192);
  }
  state.SetItemsProcessed(state.iterations());
  rings.Forget();
  memory.Discard();
}
BENCHMARK(BM_RingPush);

// From the packet to the finished record: capture, a signal and an in-flight entry,
// then the harvest with converted times.
void BM_CaptureAndHarvest(benchmark::State& state) {
  CaptureFixture fixture(Config());
  FakeGpu gpu(64);
  fixture.kernels.Insert(kKernel, 5);
  Queue& queue = gpu.queue();
  RingHandle ring = fixture.rings.Mine();
  gpu.Write(0, kKernel);
  hsa_kernel_dispatch_packet_t& packet = gpu.packet(0);
  uint64_t index = 0, ticks = 10'000'000;
  for (auto _ : state) {
    packet.completion_signal.handle = 0;
    fixture.capture.Dispatch(&queue, &packet, index++, BootNs(), ring.tid(), &ring);
    auto* signal = reinterpret_cast<amd_signal_t*>(packet.completion_signal.handle);
    signal->start_ts = ticks;
    signal->end_ts = ticks += 50;
    __atomic_store_n(const_cast<int64_t*>(&signal->value), 0, __ATOMIC_RELEASE);
    fixture.tracker.Harvest(&queue.ops, fixture.capture.Context(&queue, &ring), 3, 0);
    DrainIfNeeded(fixture.memory.ring(0), 8192);
  }
  if (fixture.Sum(&rocattach_ring::dropped) != 0 ||
      fixture.Sum(&rocattach_ring::dispatches_untimed) != 0) {
    state.SkipWithError("records dropped or without times");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_CaptureAndHarvest);

// For comparison. With one thread the mutex is never contended; with two it is.
std::mutex vector_mutex;
std::vector<rocattach_dispatch> vector_records;

void BM_MutexVector(benchmark::State& state) {
  rocattach_dispatch record = {};
  record.kind = ROCATTACH_RECORD_DISPATCH;
  for (auto _ : state) {
    ++record.correlation_id;
    std::lock_guard<std::mutex> lock(vector_mutex);
    if (vector_records.size() >= 8192) vector_records.clear();
    vector_records.push_back(record);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_MutexVector)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace rocattach::collector

BENCHMARK_MAIN();
