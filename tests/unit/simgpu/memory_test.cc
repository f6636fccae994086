#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/simgpu/core.h"

namespace {

void* Allocate(uint64_t bytes, uint32_t node = 1) {
  HsaMemFlags flags = {};
  void* address = nullptr;
  EXPECT_EQ(simgpu_memory_allocate(node, bytes, flags, &address),
            HSAKMT_STATUS_SUCCESS);
  return address;
}

TEST(SimgpuMemory, QueriesFindTheAllocationAroundAnAddress) {
  char* memory = static_cast<char*>(Allocate(8192, 2));
  memset(memory, 1, 8192);
  int tag = 0;
  ASSERT_EQ(simgpu_memory_set_user_data(memory, &tag), HSAKMT_STATUS_SUCCESS);
  const uint32_t nodes[] = {2, 1};
  ASSERT_EQ(simgpu_memory_map(memory, 2, nodes), HSAKMT_STATUS_SUCCESS);
  HsaPointerInfo info;
  ASSERT_EQ(simgpu_memory_query(memory + 8191, &info), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(info.Type, HSA_POINTER_ALLOCATED);
  EXPECT_EQ(info.Node, 2u);
  // The structure is packed: no reference may be made to its members.
  const void* const address = info.CPUAddress;
  const void* const user_data = info.UserData;
  const uint64_t gpu_address = info.GPUAddress, bytes = info.SizeInBytes;
  EXPECT_EQ(address, memory);
  EXPECT_EQ(gpu_address, reinterpret_cast<uint64_t>(memory));
  EXPECT_EQ(bytes, 8192u);
  EXPECT_EQ(user_data, &tag);
  ASSERT_EQ(info.NMappedNodes, 2u);
  EXPECT_EQ(info.MappedNodes[0], 2u);
  uint64_t generation = simgpu_memory_generation();
  EXPECT_EQ(simgpu_memory_free(memory, 8192), HSAKMT_STATUS_SUCCESS);
  EXPECT_NE(simgpu_memory_generation(), generation);
  EXPECT_NE(simgpu_memory_query(memory, &info), HSAKMT_STATUS_SUCCESS);
}

TEST(SimgpuMemory, RefusesWhatIsNotAnAllocation) {
  HsaMemFlags flags = {};
  void* address = nullptr;
  EXPECT_EQ(simgpu_memory_allocate(1, 0, flags, &address),
            HSAKMT_STATUS_INVALID_PARAMETER);
  EXPECT_EQ(simgpu_memory_allocate(1, 100, flags, &address),
            HSAKMT_STATUS_INVALID_PARAMETER);
  void* memory = Allocate(8192);
  EXPECT_NE(simgpu_memory_free(memory, 4096), HSAKMT_STATUS_SUCCESS);
  EXPECT_NE(simgpu_memory_free(static_cast<char*>(memory) + 4096, 4096),
            HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(simgpu_memory_free(memory, 8192), HSAKMT_STATUS_SUCCESS);
  EXPECT_NE(simgpu_memory_free(memory, 8192), HSAKMT_STATUS_SUCCESS);
}

TEST(SimgpuMemory, FixedAddressesAreHonouredAndNeverReplaceAMapping) {
  void* memory = Allocate(4096);
  HsaMemFlags flags = {};
  flags.ui32.FixedAddress = 1;
  void* same = memory;
  EXPECT_NE(simgpu_memory_allocate(1, 4096, flags, &same), HSAKMT_STATUS_SUCCESS);
  ASSERT_EQ(simgpu_memory_free(memory, 4096), HSAKMT_STATUS_SUCCESS);
  ASSERT_EQ(simgpu_memory_allocate(1, 4096, flags, &same), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(same, memory);
  EXPECT_EQ(simgpu_memory_free(same, 4096), HSAKMT_STATUS_SUCCESS);
}

TEST(SimgpuMemory, AllocationsAreAlignedAndNothingMoreIsKept) {
  const HsaMemFlags flags = {};
  const uint64_t used = simgpu_memory_used(3);
  for (uint64_t alignment = 4096; alignment <= (uint64_t{1} << 30); alignment *= 4) {
    void* address = nullptr;
    ASSERT_EQ(simgpu_memory_allocate_aligned(3, 12288, alignment, flags, &address),
              HSAKMT_STATUS_SUCCESS);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % alignment, 0u) << alignment;
    memset(address, 1, 12288);
    EXPECT_EQ(simgpu_memory_used(3), used + 12288);
    // The pages around it are free again.
    void* behind = static_cast<char*>(address) + 12288;
    HsaMemFlags fixed = {};
    fixed.ui32.FixedAddress = 1;
    if (simgpu_memory_allocate(3, 4096, fixed, &behind) == HSAKMT_STATUS_SUCCESS) {
      EXPECT_EQ(simgpu_memory_free(behind, 4096), HSAKMT_STATUS_SUCCESS);
    } else {
      EXPECT_LT(alignment, 16384u) << "something else lies there";
    }
    EXPECT_EQ(simgpu_memory_free(address, 12288), HSAKMT_STATUS_SUCCESS);
  }
  EXPECT_EQ(simgpu_memory_used(3), used);
  void* address = nullptr;
  for (const uint64_t wrong : {1u, 2048u, 4097u, 12288u}) {
    EXPECT_EQ(simgpu_memory_allocate_aligned(3, 4096, wrong, flags, &address),
              HSAKMT_STATUS_INVALID_PARAMETER)
        << wrong;
  }
  EXPECT_EQ(simgpu_memory_allocate_aligned(3, 4096, uint64_t{1} << 63, flags, &address),
            HSAKMT_STATUS_NO_MEMORY);
}

TEST(SimgpuMemory, ScratchIsAddressSpaceOnly) {
  HsaMemFlags flags = {};
  flags.ui32.Scratch = 1;
  const uint64_t used = simgpu_memory_used(1);
  void* address = nullptr;
  ASSERT_EQ(simgpu_memory_allocate(1, 1 << 30, flags, &address), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(simgpu_memory_used(1), used);
  EXPECT_EQ(simgpu_memory_free(address, 1 << 30), HSAKMT_STATUS_SUCCESS);
}

TEST(SimgpuMemory, RegistrationsOverlapAndCount) {
  static char host[64];
  HsaMemFlags flags = {};
  ASSERT_EQ(simgpu_memory_register(host, 64, flags), HSAKMT_STATUS_SUCCESS);
  ASSERT_EQ(simgpu_memory_register(host, 64, flags), HSAKMT_STATUS_SUCCESS);
  ASSERT_EQ(simgpu_memory_register(host + 16, 8, flags), HSAKMT_STATUS_SUCCESS);
  HsaPointerInfo info;
  ASSERT_EQ(simgpu_memory_query(host + 20, &info), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(info.SizeInBytes, 8u);
  ASSERT_EQ(simgpu_memory_query(host + 40, &info), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(info.SizeInBytes, 64u);
  EXPECT_EQ(info.Type, HSA_POINTER_REGISTERED_USER);
  EXPECT_EQ(simgpu_memory_deregister(host + 16), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(simgpu_memory_deregister(host), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(simgpu_memory_query(host, &info), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(simgpu_memory_deregister(host), HSAKMT_STATUS_SUCCESS);
  EXPECT_NE(simgpu_memory_query(host, &info), HSAKMT_STATUS_SUCCESS);
  EXPECT_NE(simgpu_memory_deregister(host), HSAKMT_STATUS_SUCCESS);
}

TEST(SimgpuMemory, ManyRanges) {
  std::vector<void*> all;
  for (int i = 0; i < 1000; i++) all.push_back(Allocate(4096));
  for (void* memory : all) {
    uintptr_t start;
    uint64_t size;
    ASSERT_TRUE(simgpu_memory_find(static_cast<char*>(memory) + 100, &start, &size));
    EXPECT_EQ(start, reinterpret_cast<uintptr_t>(memory));
    EXPECT_EQ(size, 4096u);
  }
  for (void* memory : all) {
    EXPECT_EQ(simgpu_memory_free(memory, 4096), HSAKMT_STATUS_SUCCESS);
  }
}

}  // namespace
