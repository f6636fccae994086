#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/simgpu/core.h"

namespace {

void Execute(simgpu_standin standin, const void* kernarg, uint32_t work_items = 64) {
  ASSERT_NE(standin, nullptr);
  simgpu_launch launch = {kernarg, {work_items, 1, 1}, {64, 1, 1}};
  standin(&launch);
}

struct Copy {
  const void* source;
  void* destination;
  uint64_t source_origin, destination_origin, size;
  uint32_t tail;
};

TEST(SimgpuBlit, OnlyHipsOwnKernelsAreBuiltIn) {
  EXPECT_EQ(simgpu_blit_kernel("copyBuffer"), nullptr);
  EXPECT_EQ(simgpu_blit_kernel("__amd_rocclr_"), nullptr);
  EXPECT_EQ(simgpu_blit_kernel("__amd_rocclr_unknown"), nullptr);
}

TEST(SimgpuBlit, CopyBufferInBytesAndInDwordsWithATail) {
  std::vector<uint8_t> from(64), to(64);
  for (int i = 0; i < 64; i++) from[i] = static_cast<uint8_t>(i + 1);
  Copy bytes = {from.data(), to.data(), 3, 5, 10, 8};
  Execute(simgpu_blit_kernel("__amd_rocclr_copyBuffer"), &bytes);
  EXPECT_EQ(to[4], 0);
  EXPECT_EQ(to[5], 4);
  EXPECT_EQ(to[14], 13);
  EXPECT_EQ(to[15], 0);
  std::fill(to.begin(), to.end(), 0);
  Copy dwords = {from.data(), to.data(), 0, 0, 4, 3};  // 3 dwords and 3 bytes
  Execute(simgpu_blit_kernel("__amd_rocclr_copyBuffer"), &dwords);
  EXPECT_EQ(to[14], 15);
  EXPECT_EQ(to[15], 0);
}

TEST(SimgpuBlit, CopyBufferAlignedCountsElements) {
  std::vector<uint8_t> from(128), to(128);
  for (int i = 0; i < 128; i++) from[i] = static_cast<uint8_t>(i + 1);
  Copy wide = {from.data(), to.data(), 1, 2, 3, 16};
  Execute(simgpu_blit_kernel("__amd_rocclr_copyBufferAligned"), &wide);
  EXPECT_EQ(to[31], 0);
  EXPECT_EQ(to[32], 17);
  EXPECT_EQ(to[79], 64);
  EXPECT_EQ(to[80], 0);
}

struct Fill {
  void *by_1, *by_2, *by_4, *by_8;
  const void* pattern;
  uint32_t pattern_elements;
  uint64_t offset, size, height, pitch;
};

TEST(SimgpuBlit, FillRepeatsThePatternInTheElementsSize) {
  std::vector<uint16_t> to(20, 9);
  const uint16_t pattern[] = {1, 2};
  Fill fill = {nullptr, to.data(), nullptr, nullptr, pattern, 2, 4, 5, 0, 0};
  Execute(simgpu_blit_kernel("__amd_rocclr_fillBufferAligned"), &fill);
  EXPECT_EQ(to[3], 9);
  EXPECT_EQ(to[4], 1);
  EXPECT_EQ(to[13], 2);
  EXPECT_EQ(to[14], 9);
}

TEST(SimgpuBlit, ShadersAreToldApartByTheirArguments) {
  std::vector<uint32_t> from(256), to(256, 0);
  for (uint32_t i = 0; i < 256; i++) from[i] = i;
  auto at = [](const std::vector<uint32_t>& v, size_t byte) {
    return reinterpret_cast<uint64_t>(v.data()) + byte;
  };
  // Begin of four phases and the end, then the number of work-items.
  uint64_t aligned[11] = {
      at(from, 0), at(to, 0),      at(from, 4),  at(to, 4),      at(from, 512),
      at(to, 512), at(from, 1000), at(to, 1000), at(from, 1024), at(to, 1024),
      640};
  Execute(simgpu_blit_shader, aligned, 640);
  EXPECT_EQ(from, to);
  std::fill(to.begin(), to.end(), 0);
  uint64_t misaligned[11] = {at(from, 0),
                             at(to, 0),
                             at(from, 100),
                             at(to, 100),
                             at(from, 1024),
                             at(to, 1024),
                             640,
                             1,
                             2,
                             3,
                             4};
  Execute(simgpu_blit_shader, misaligned, 640);
  EXPECT_EQ(from, to);
  uint64_t fill[11] = {at(to, 0), at(to, 512), at(to, 1024), 7 | 640ull << 32};
  Execute(simgpu_blit_shader, fill, 640);
  EXPECT_EQ(to, std::vector<uint32_t>(256, 7));
}

TEST(SimgpuBlit, AnUnknownShaderChangesNothingAndIsReported) {
  uint64_t nonsense[11] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  testing::internal::CaptureStderr();
  Execute(simgpu_blit_shader, nonsense, 640);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("not recognised"),
            std::string::npos);
}

}  // namespace
