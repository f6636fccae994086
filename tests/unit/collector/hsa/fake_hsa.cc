#include "tests/unit/collector/hsa/fake_hsa.h"

#include <map>

namespace rocattach::collector {
namespace {

// Maps a doorbell's handle to its GPU, for the functions of the runtime's table.
std::map<uint64_t, FakeGpu*>& Gpus() {
  static auto* gpus = new std::map<uint64_t, FakeGpu*>;
  return *gpus;
}

void FakeStore(hsa_signal_t signal, hsa_signal_value_t value) {
  Gpus().at(signal.handle)->Rung(static_cast<uint64_t>(value));
}

hsa_status_t FakeSetProfiler(hsa_queue_t* queue, int enable) {
  auto* amd = reinterpret_cast<amd_queue_t*>(queue);
  AMD_HSA_BITS_SET(amd->queue_properties, AMD_QUEUE_PROPERTIES_ENABLE_PROFILING,
                   enable ? 1 : 0);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t FakeConvertTick(hsa_agent_t, uint64_t tick, uint64_t* system) {
  *system = tick + 1'000'000'000;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t FakeSystemInfo(hsa_system_info_t attribute, void* value) {
  *static_cast<uint64_t*>(value) =
      attribute == HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY ? 1'000'000'000 : BootNs();
  return HSA_STATUS_SUCCESS;
}

}  // namespace

HsaFunctions FakeHsaFunctions() {
  HsaFunctions hsa = {};
  hsa.signal_store_relaxed = FakeStore;
  hsa.signal_store_screlease = FakeStore;
  hsa.set_profiler_enabled = FakeSetProfiler;
  hsa.convert_tick = FakeConvertTick;
  hsa.system_get_info = FakeSystemInfo;
  return hsa;
}

FakeGpu::FakeGpu(uint32_t packets) : packets_(packets) {
  for (auto& p : packets_) p.header = HSA_PACKET_TYPE_INVALID;
  doorbell_.kind = AMD_SIGNAL_KIND_DOORBELL;
  doorbell_.queue_ptr = &amd_;
  amd_.hsa_queue.base_address = packets_.data();
  amd_.hsa_queue.size = packets;
  amd_.hsa_queue.doorbell_signal.handle = reinterpret_cast<uint64_t>(&doorbell_);
  queue_.amd = &amd_;
  queue_.doorbell = amd_.hsa_queue.doorbell_signal;
  queue_.packets = reinterpret_cast<uint8_t*>(packets_.data());
  queue_.mask = packets - 1;
  queue_.id = 1;
  queue_.many_producers = true;
  queue_.agent.gpu = true;
  queue_.agent.id = 2;
  Gpus()[queue_.doorbell.handle] = this;
}

void FakeGpu::Write(uint64_t index, uint64_t kernel, amd_signal_t* completion) {
  constexpr uint32_t kSetup = 1;
  const uint32_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH |
                          (barriers_ ? 1u : 0u) << HSA_PACKET_HEADER_BARRIER;
  hsa_kernel_dispatch_packet_t& p = packet(index);
  p.workgroup_size_x = 64;
  p.workgroup_size_y = p.workgroup_size_z = 1;
  p.grid_size_x = 1024;
  p.grid_size_y = p.grid_size_z = 1;
  p.group_segment_size = 16;
  p.private_segment_size = 32;
  p.kernel_object = kernel;
  p.completion_signal.handle = reinterpret_cast<uint64_t>(completion);
  // Header and setup at once, as HIP writes them: other producers' rings may read them.
  __atomic_store_n(&reinterpret_cast<AqlPacket&>(p).first, header | kSetup << 16,
                   __ATOMIC_RELEASE);
}

void FakeGpu::WriteBarrier(uint64_t index, amd_signal_t* completion) {
  auto& p = reinterpret_cast<hsa_barrier_and_packet_t&>(packet(index));
  p = {};
  p.completion_signal.handle = reinterpret_cast<uint64_t>(completion);
  __atomic_store_n(&p.header, HSA_PACKET_TYPE_BARRIER_AND, __ATOMIC_RELEASE);
}

void FakeGpu::WritePacket(uint64_t index, AqlPacket packet) {
  auto& p = reinterpret_cast<AqlPacket&>(this->packet(index));
  const uint16_t header = packet.any.header;
  packet.any.header = HSA_PACKET_TYPE_INVALID;
  p = packet;
  __atomic_store_n(&p.any.header, header, __ATOMIC_RELEASE);
}

void FakeGpu::Rung(uint64_t value) {
  std::lock_guard<std::mutex> lock(rings_mutex_);
  rings_.push_back(value);
  if (value + 1 > rung_) rung_ = value + 1;
}

bool FakeGpu::RunOne() {
  uint64_t index = amd_.read_dispatch_id;
  hsa_kernel_dispatch_packet_t& p = packet(index);
  if (index >= LoadAcquire(&write_index()) ||
      PacketType(LoadAcquire(&p.header)) == HSA_PACKET_TYPE_INVALID) {
    return false;
  }
  auto* signal = reinterpret_cast<amd_signal_t*>(p.completion_signal.handle);
  __atomic_store_n(&p.header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
  __atomic_store_n(const_cast<uint64_t*>(&amd_.read_dispatch_id), index + 1,
                   __ATOMIC_RELEASE);
  clock_ += 5000;
  if (signal != nullptr) {
    if (AMD_HSA_BITS_GET(amd_.queue_properties,
                         AMD_QUEUE_PROPERTIES_ENABLE_PROFILING)) {
      signal->start_ts = clock_ - 5000;
      signal->end_ts = clock_;
    }
    __atomic_fetch_sub(const_cast<int64_t*>(&signal->value), 1, __ATOMIC_RELEASE);
  }
  return true;
}

uint64_t FakeGpu::Run(uint64_t limit) {
  uint64_t count = 0;
  while (amd_.read_dispatch_id < rung_ && amd_.read_dispatch_id < limit && RunOne()) {
    ++count;
  }
  return count;
}

uint64_t FakeGpu::RunUnrung() {
  uint64_t count = 0;
  while (RunOne()) ++count;
  return count;
}

CaptureFixture::CaptureFixture(rocattach_collector_config config)
    : hsa(FakeHsaFunctions()), pool(config.inflight_count) {
  if (memory.Create(config) != 0 || rings.Init(&memory) != 0 ||
      tracker.Init(&memory, &hsa) != 0) {
    abort();
  }
  tracker.signals().Adopt(pool.data());
  tracker.clocks().Init(&hsa);
  capture.Init(&tracker, &kernels);
  doorbell.Init(&capture, &hsa);
}

CaptureFixture::~CaptureFixture() {
  rings.Forget();
  memory.Discard();
}

}  // namespace rocattach::collector
