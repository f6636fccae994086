// Memory and copies through the real HSA runtime.
#include <gtest/gtest.h>
#include <string.h>

#include <memory>

#include "tests/integration/simgpu/hsa_session.h"

namespace rocattach {
namespace {

std::vector<uint8_t> Pattern(size_t bytes, int seed) {
  std::vector<uint8_t> pattern(bytes);
  for (size_t i = 0; i < bytes; i++) {
    pattern[i] = static_cast<uint8_t>(i * 31 + i / 256 + static_cast<size_t>(seed));
  }
  return pattern;
}

// Copy engines, and the shaders that the runtime uses in their place.
class SimgpuMemory : public testing::TestWithParam<const char*> {
 protected:
  SimgpuMemory()
      : session_(Environment{{"HSA_ENABLE_SDMA", GetParam()}, {"SIMGPU_COUNT", "2"}}) {}

  void Copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
            size_t bytes) {
    hsa_signal_t signal = create_signal(1);
    check(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, bytes, 0, nullptr,
                                    signal),
          "hsa_amd_memory_async_copy");
    wait_for_zero(signal);
    hsa_signal_destroy(signal);
  }

  HsaSession session_;
};

TEST_P(SimgpuMemory, CopiesOfAwkwardSizesComeBackTheSame) {
  const machine& m = session_.gpu();
  for (size_t bytes : {1u, 3u, 64u, 4095u, 65537u, 1000003u, 20000001u}) {
    std::vector<uint8_t> pattern = Pattern(bytes, 1);
    auto* host = session_.Allocate<uint8_t>(m.host, bytes + 16);
    auto* device = session_.Allocate<uint8_t>(m.device, bytes + 16);
    auto* again = session_.Allocate<uint8_t>(m.device, bytes + 16);
    memcpy(host, pattern.data(), bytes);
    Copy(device + 1, m.gpu, host, m.cpu, bytes);
    Copy(again + 2, m.gpu, device + 1, m.gpu, bytes);
    memset(host, 0, bytes + 16);
    Copy(host + 3, m.cpu, again + 2, m.gpu, bytes);
    EXPECT_EQ(memcmp(host + 3, pattern.data(), bytes), 0) << bytes;
    EXPECT_EQ(host[2], 0);
    EXPECT_EQ(host[bytes + 3], 0);
  }
}

TEST_P(SimgpuMemory, FillsAndSynchronousCopies) {
  const machine& m = session_.gpu();
  auto* device = session_.Allocate<uint32_t>(m.device, 10001);
  check(hsa_amd_memory_fill(device, 0xdeadbeef, 10000), "hsa_amd_memory_fill");
  std::vector<uint32_t> host(10001, 1);
  check(hsa_memory_copy(host.data(), device, 10001 * 4), "hsa_memory_copy");
  EXPECT_EQ(host[0], 0xdeadbeefu);
  EXPECT_EQ(host[9999], 0xdeadbeefu);
  EXPECT_EQ(host[10000], 0u);
}

TEST_P(SimgpuMemory, CopiesWaitForTheirDependencies) {
  const machine& m = session_.gpu();
  auto* host = session_.Allocate<uint8_t>(m.host, 4096);
  auto* device = session_.Allocate<uint8_t>(m.device, 4096);
  hsa_signal_t gate = create_signal(1), done = create_signal(1);
  host[0] = 1;
  check(hsa_amd_memory_async_copy(device, m.gpu, host, m.cpu, 4096, 1, &gate, done),
        "hsa_amd_memory_async_copy");
  host[0] = 2;
  EXPECT_EQ(hsa_signal_load_scacquire(done), 1);
  hsa_signal_store_screlease(gate, 0);
  wait_for_zero(done);
  EXPECT_EQ(device[0], 2);
  hsa_signal_destroy(gate);
  hsa_signal_destroy(done);
}

TEST_P(SimgpuMemory, PeersCopyBetweenEachOther) {
  std::vector<hsa_agent_t> gpus = GpuAgents();
  ASSERT_EQ(gpus.size(), 2u);
  const machine& m = session_.gpu();
  hsa_amd_memory_pool_t other_pool = {};
  auto visit = [](hsa_amd_memory_pool_t pool, void* data) {
    *static_cast<hsa_amd_memory_pool_t*>(data) = pool;
    return HSA_STATUS_INFO_BREAK;
  };
  check(hsa_amd_agent_iterate_memory_pools(gpus[1], visit, &other_pool),
        "iterate pools");
  std::vector<uint8_t> pattern = Pattern(100000, 2);
  auto* first = session_.Allocate<uint8_t>(m.device, pattern.size());
  auto* second = session_.Allocate<uint8_t>(other_pool, pattern.size());
  check(hsa_amd_agents_allow_access(2, gpus.data(), nullptr, first), "allow_access");
  check(hsa_amd_agents_allow_access(2, gpus.data(), nullptr, second), "allow_access");
  check(hsa_memory_copy(first, pattern.data(), pattern.size()), "hsa_memory_copy");
  Copy(second, gpus[1], first, gpus[0], pattern.size());
  std::vector<uint8_t> back(pattern.size());
  check(hsa_memory_copy(back.data(), second, back.size()), "hsa_memory_copy");
  EXPECT_EQ(back, pattern);
}

INSTANTIATE_TEST_SUITE_P(Engines, SimgpuMemory, testing::Values("1", "0"),
                         [](const auto& engine) {
                           return engine.param[0] == '1' ? "Sdma" : "Shaders";
                         });

TEST(SimgpuMemoryRuntime, CopyTimesFollowTheRate) {
  HsaSession session(
      Environment{{"SIMGPU_COPY_MBPS", "1000"}, {"SIMGPU_COPY_LATENCY_NS", "0"}});
  const machine& m = session.gpu();
  check(hsa_amd_profiling_async_copy_enable(true), "async_copy_enable");
  constexpr size_t kBytes = 2'000'000;  // 2 ms at 1 byte per ns
  auto* host = session.Allocate<uint8_t>(m.host, kBytes);
  auto* device = session.Allocate<uint8_t>(m.device, kBytes);
  hsa_signal_t signal = create_signal(1);
  uint64_t before = SystemTimestamp();
  check(
      hsa_amd_memory_async_copy(device, m.gpu, host, m.cpu, kBytes, 0, nullptr, signal),
      "hsa_amd_memory_async_copy");
  wait_for_zero(signal);
  uint64_t after = SystemTimestamp();
  hsa_amd_profiling_async_copy_time_t time = {};
  check(hsa_amd_profiling_get_async_copy_time(signal, &time), "get_async_copy_time");
  EXPECT_GE(time.end - time.start, kBytes - 2000);
  EXPECT_GE(time.start + 100'000, before);
  EXPECT_LE(time.end, after + 100'000);
  hsa_signal_destroy(signal);
}

TEST(SimgpuMemoryRuntime, RectanglesAreCopied) {
  HsaSession session;
  const machine& m = session.gpu();
  constexpr uint32_t kPitch = 64, kRows = 16;
  auto* host = session.Allocate<uint8_t>(m.host, kPitch * kRows);
  auto* device = session.Allocate<uint8_t>(m.device, kPitch * kRows);
  for (uint32_t i = 0; i < kPitch * kRows; i++) host[i] = static_cast<uint8_t>(i);
  memset(device, 0, kPitch * kRows);
  hsa_pitched_ptr_t from = {host, kPitch, kPitch * kRows};
  hsa_pitched_ptr_t to = {device, kPitch, kPitch * kRows};
  hsa_dim3_t from_offset = {8, 2, 0}, to_offset = {16, 4, 0}, range = {24, 5, 1};
  hsa_signal_t signal = create_signal(1);
  check(hsa_amd_memory_async_copy_rect(&to, &to_offset, &from, &from_offset, &range,
                                       m.gpu, hsaHostToDevice, 0, nullptr, signal),
        "hsa_amd_memory_async_copy_rect");
  wait_for_zero(signal);
  for (uint32_t y = 0; y < kRows; y++) {
    for (uint32_t x = 0; x < kPitch; x++) {
      bool inside = y >= 4 && y < 9 && x >= 16 && x < 40;
      uint8_t expected = inside ? host[(y - 2) * kPitch + x - 8] : 0;
      ASSERT_EQ(device[y * kPitch + x], expected) << x << "," << y;
    }
  }
  hsa_signal_destroy(signal);
}

TEST(SimgpuMemoryRuntime, PointersAreKnown) {
  HsaSession session;
  const machine& m = session.gpu();
  auto* device = session.Allocate<uint8_t>(m.device, 100000);
  hsa_amd_pointer_info_t info = {};
  info.size = sizeof(info);
  check(hsa_amd_pointer_info(device + 5000, &info, nullptr, nullptr, nullptr),
        "hsa_amd_pointer_info");
  EXPECT_EQ(info.type, HSA_EXT_POINTER_TYPE_HSA);
  EXPECT_EQ(info.agentBaseAddress, device);
  EXPECT_GE(info.sizeInBytes, 100000u);
  EXPECT_EQ(info.agentOwner.handle, m.gpu.handle);

  auto own = std::make_unique<uint8_t[]>(10000);
  void* locked = nullptr;
  hsa_agent_t gpu = m.gpu;
  check(hsa_amd_memory_lock(own.get(), 10000, &gpu, 1, &locked), "hsa_amd_memory_lock");
  check(hsa_amd_pointer_info(own.get() + 1, &info, nullptr, nullptr, nullptr),
        "hsa_amd_pointer_info");
  EXPECT_EQ(info.type, HSA_EXT_POINTER_TYPE_LOCKED);
  check(hsa_amd_memory_unlock(own.get()), "hsa_amd_memory_unlock");
  check(hsa_amd_pointer_info(own.get() + 1, &info, nullptr, nullptr, nullptr),
        "hsa_amd_pointer_info");
  EXPECT_EQ(info.type, HSA_EXT_POINTER_TYPE_UNKNOWN);
}

}  // namespace
}  // namespace rocattach
