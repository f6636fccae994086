#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/unit/simgpu/core.h"

namespace {

simgpu_buffer Buffer(simgpu_memory_kind kind, uint64_t address, uint64_t bytes) {
  simgpu_buffer buffer = {};
  buffer.kind = kind;
  buffer.gpu = 1;
  buffer.address = address;
  buffer.bytes = bytes;
  return buffer;
}

uint64_t Allocate(simgpu_buffer buffer) {
  uint64_t handle = 0;
  EXPECT_EQ(simgpu_memory_allocate(&buffer, &handle), 0);
  EXPECT_NE(handle, 0u);
  return handle;
}

TEST(SimgpuMemory, FindsTheBufferAroundAnAddress) {
  const uint64_t handle = Allocate(Buffer(SIMGPU_MEMORY_HOST, 0x10000000, 8192));
  uint64_t start = 0, size = 0;
  ASSERT_TRUE(simgpu_memory_find(0x10000000 + 8191, &start, &size));
  EXPECT_EQ(start, 0x10000000u);
  EXPECT_EQ(size, 8192u);
  EXPECT_FALSE(simgpu_memory_find(0x10000000 + 8192, &start, &size));
  EXPECT_FALSE(simgpu_memory_find(0x10000000 - 1, &start, &size));
  const uint64_t generation = simgpu_memory_generation();
  EXPECT_EQ(simgpu_memory_free(handle), 0);
  EXPECT_NE(simgpu_memory_generation(), generation);
  EXPECT_FALSE(simgpu_memory_find(0x10000000, &start, &size));
  EXPECT_NE(simgpu_memory_free(handle), 0) << "twice";
  EXPECT_NE(simgpu_memory_free(0), 0);
  EXPECT_NE(simgpu_memory_free(UINT64_MAX), 0);
}

TEST(SimgpuMemory, RefusesImpossibleSizes) {
  for (const uint64_t bytes : {uint64_t{0}, UINT64_MAX, uint64_t{1} << 44}) {
    simgpu_buffer buffer = Buffer(SIMGPU_MEMORY_HOST, 0, bytes);
    uint64_t handle;
    EXPECT_NE(simgpu_memory_allocate(&buffer, &handle), 0) << bytes;
  }
}

TEST(SimgpuMemory, CountsAGpusOwnMemory) {
  const uint64_t used = simgpu_memory_used(1);
  const uint64_t device = Allocate(Buffer(SIMGPU_MEMORY_DEVICE, 0, 4096));
  const uint64_t visible = Allocate(Buffer(SIMGPU_MEMORY_VISIBLE, 0, 8192));
  const uint64_t host = Allocate(Buffer(SIMGPU_MEMORY_HOST, 0, 16384));
  EXPECT_EQ(simgpu_memory_used(1), used + 12288);
  EXPECT_EQ(simgpu_memory_used(0), 0u) << "the other GPU's";
  for (const uint64_t handle : {device, visible, host}) simgpu_memory_free(handle);
  EXPECT_EQ(simgpu_memory_used(1), used);
}

// Two mappings of one buffer share their memory, those of different buffers do not.
TEST(SimgpuMemory, BuffersArePartsOfOneFile) {
  simgpu_buffer buffer = Buffer(SIMGPU_MEMORY_DEVICE, 0, 4096);
  uint64_t first, second;
  ASSERT_EQ(simgpu_memory_allocate(&buffer, &first), 0);
  char* mapped = static_cast<char*>(simgpu_file_map(buffer.offset, 4096));
  ASSERT_NE(mapped, nullptr);
  memset(mapped, 7, 4096);
  char* again = static_cast<char*>(simgpu_file_map(buffer.offset, 4096));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again[4095], 7);
  simgpu_memory_free(first);
  EXPECT_EQ(again[0], 0) << "what was in it is gone";
  const uint64_t offset = buffer.offset;
  ASSERT_EQ(simgpu_memory_allocate(&buffer, &second), 0);
  EXPECT_NE(buffer.offset, offset);
  simgpu_memory_free(second);
}

TEST(SimgpuMemory, RegisteredMemoryMayLieElsewhere) {
  EXPECT_FALSE(simgpu_memory_any_moved());
  alignas(4096) static char host[8192];
  simgpu_buffer buffer = Buffer(SIMGPU_MEMORY_USER, 0x20000000, sizeof(host));
  buffer.host = reinterpret_cast<uintptr_t>(host);
  const uint64_t handle = Allocate(buffer);
  EXPECT_TRUE(simgpu_memory_any_moved());
  EXPECT_EQ(simgpu_memory_host(0x20000000 + 5000), host + 5000);
  EXPECT_EQ(simgpu_memory_host(0x20000000 + 8192),
            reinterpret_cast<void*>(0x20000000 + 8192));
  simgpu_memory_free(handle);
  EXPECT_FALSE(simgpu_memory_any_moved());
}

TEST(SimgpuMemory, ManyBuffers) {
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < 1000; i++) {
    all.push_back(Allocate(Buffer(SIMGPU_MEMORY_HOST, 0x40000000 + i * 8192, 4096)));
  }
  for (uint64_t i = 0; i < 1000; i++) {
    uint64_t start, size;
    ASSERT_TRUE(simgpu_memory_find(0x40000000 + i * 8192 + 100, &start, &size));
    EXPECT_EQ(start, 0x40000000 + i * 8192);
    EXPECT_EQ(size, 4096u);
  }
  for (const uint64_t handle : all) EXPECT_EQ(simgpu_memory_free(handle), 0);
}

}  // namespace
