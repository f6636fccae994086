// The collector's own work per record and per dispatch, without a runtime.
#include <benchmark/benchmark.h>
#include <hsa/amd_hsa_queue.h>

#include <vector>

#include "userspace/collector/hsa/doorbell.h"

namespace rocattach::collector {
namespace {

rocattach_collector_config Config() {
  rocattach_collector_config config = {};
  config.size = sizeof(config);
  config.version = ROCATTACH_SHM_VERSION;
  config.recording = 1;
  config.recording_flags = ROCATTACH_RECORDING_DISPATCHES;
  config.ring_count = 4;
  config.ring_slots = 1u << 15;
  config.inflight_count = 1u << 14;
  config.dictionary_bytes = 1u << 20;
  strcpy(config.collector_path, "/nowhere");
  return config;
}

// Takes all records in the rings, as the service does in a round.
void Consume(Memory& memory) {
  for (uint32_t i = 0; i < memory.geometry().ring_count; ++i) {
    StoreRelease(&memory.ring(i)->tail, LoadAcquire(&memory.ring(i)->head));
  }
}

void BM_RingPush(benchmark::State& state) {
  Memory memory;
  RingSet rings;
  if (memory.Create(Config()) != 0 || rings.Init(&memory) != 0) abort();
  rocattach_dispatch record = {};
  record.kind = ROCATTACH_RECORD_DISPATCH;
  uint64_t n = 0;
  for (auto _ : state) {
    RingHandle ring = rings.Mine();
    record.correlation_id = ++n;
    benchmark::DoNotOptimize(ring.Push(&record));
    if ((n & 8191) == 0) Consume(memory);
  }
  if (rings.Dropped() != 0) state.SkipWithError("records were dropped");
  state.SetItemsProcessed(state.iterations());
  rings.Forget();
  memory.Discard();
}
BENCHMARK(BM_RingPush);

// The runtime's part is empty: what remains is our own code and reading the clock.
void NoStore(hsa_signal_t, hsa_signal_value_t) {}
hsa_status_t NoProfiler(hsa_queue_t*, int) {
  return HSA_STATUS_SUCCESS;
}
hsa_status_t SameTick(hsa_agent_t, uint64_t tick, uint64_t* system) {
  *system = tick;
  return HSA_STATUS_SUCCESS;
}
hsa_status_t SystemInfo(hsa_system_info_t attribute, void* value) {
  *static_cast<uint64_t*>(value) =
      attribute == HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY ? 1'000'000'000 : BootNs();
  return HSA_STATUS_SUCCESS;
}

// From doorbell hook to published record: capture, own signal, completion, times, ring.
void BM_DispatchThroughTheDoorbell(benchmark::State& state) {
  Memory memory;
  RingSet rings;
  HsaFunctions hsa = {};
  hsa.signal_store_screlease = NoStore;
  hsa.set_profiler_enabled = NoProfiler;
  hsa.convert_tick = SameTick;
  hsa.system_get_info = SystemInfo;
  OpTracker tracker;
  KernelTable kernels;
  Capture capture;
  DoorbellCapture doorbell;
  if (memory.Create(Config()) != 0 || rings.Init(&memory) != 0 ||
      tracker.Init(&memory, &hsa) != 0) {
    abort();
  }
  std::vector<amd_signal_t> pool(memory.geometry().inflight_count);
  tracker.signals().Adopt(pool.data());
  tracker.clocks().Init(&hsa);
  capture.Init(&tracker, &kernels);
  doorbell.Init(&capture, &hsa);
  kernels.Insert(0x1000, 1);

  constexpr uint32_t kPackets = 1024;
  std::vector<hsa_kernel_dispatch_packet_t> packets(kPackets);
  amd_queue_t amd = {};
  Queue q;
  q.amd = &amd;
  q.packets = reinterpret_cast<uint8_t*>(packets.data());
  q.mask = kPackets - 1;
  hsa_kernel_dispatch_packet_t packet = {};
  packet.header = HSA_PACKET_TYPE_KERNEL_DISPATCH;
  packet.grid_size_x = packet.workgroup_size_x = 64;
  packet.kernel_object = 0x1000;
  uint64_t ticks = 1'000'000'000;
  uint64_t n = 0;
  for (auto _ : state) {
    auto& slot = packets[n & (kPackets - 1)];
    slot = packet;
    const_cast<uint64_t&>(amd.write_dispatch_id) = n + 1;
    RingHandle ring = rings.Mine();
    doorbell.Ring(&q, static_cast<int64_t>(n), &ring);
    // The GPU's part, on the same core.
    auto* signal = reinterpret_cast<amd_signal_t*>(slot.completion_signal.handle);
    signal->start_ts = ticks;
    signal->end_ts = ticks += 10;
    signal->value = 0;
    const_cast<uint64_t&>(amd.read_dispatch_id) = n + 1;
    if ((++n & 8191) == 0) Consume(memory);
  }
  if (rings.Dropped() != 0) state.SkipWithError("records were dropped");
  state.SetItemsProcessed(state.iterations());
  rings.Forget();
  memory.Discard();
}
BENCHMARK(BM_DispatchThroughTheDoorbell);

// The overhead of an armed collector for a doorbell while no session records: the
// lookup and a read of the control block.
void BM_IdleRing(benchmark::State& state) {
  Memory memory;
  if (memory.Create(Config()) != 0) abort();
  DoorbellCapture doorbell;
  HsaFunctions hsa = {};
  doorbell.Init(nullptr, &hsa);
  Queue q;
  int64_t n = 0;
  for (auto _ : state) {
    if (LoadRelaxed(&memory.control()->recording) != 0)
      doorbell.RingIdle(&q, n++, NoStore);
  }
  memory.Discard();
}
BENCHMARK(BM_IdleRing);

void BM_ReadingTheClock(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(BootNs());
}
BENCHMARK(BM_ReadingTheClock);

}  // namespace
}  // namespace rocattach::collector

BENCHMARK_MAIN();
