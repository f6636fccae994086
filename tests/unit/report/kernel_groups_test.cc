#include "userspace/report/kernel_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "userspace/base/file.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

// A file with this text, which exists until the end of the scope.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    const int fd = mkstemps(name_, 5);
    EXPECT_GE(fd, 0);
    EXPECT_TRUE(WriteAll(fd, text).ok());
    close(fd);
  }
  ~TextFile() { unlink(name_); }
  std::string name() const { return name_; }

 private:
  char name_[32] = "/tmp/groups.XXXXXX.yaml";
};

KernelReport Kernel(const std::string& name, uint64_t ns) {
  KernelReport kernel;
  kernel.name = name;
  kernel.count = 2;
  kernel.durations.Add(ns);
  return kernel;
}

TEST(KernelGroups, TheFirstMatchDecides) {
  const TextFile mine("mine: ['special_gemm']\n");
  const TextFile common(
      "attention: ['attn']\nGEMM: ['gemm', '^Cijk_']\nmine: ['x9']\n");
  KernelGroups groups;
  ASSERT_TRUE(groups.AddFile(mine.name()).ok());
  ASSERT_TRUE(groups.AddFile(common.name()).ok());
  EXPECT_EQ(groups.Find("special_gemm_f16", ""), "mine");
  EXPECT_EQ(groups.Find("my_gemm", ""), "GEMM");
  EXPECT_EQ(groups.Find("Cijk_Ailk", ""), "GEMM");
  EXPECT_EQ(groups.Find("ns::f(int)", "_Z9flashattnv"), "attention") << "mangled too";
  EXPECT_EQ(groups.Find("x9", ""), "mine") << "a group gets further expressions";
  EXPECT_EQ(groups.Find("a_Cijk_", ""), "");
}

TEST(KernelGroups, SumsUp) {
  const TextFile file("GEMM: ['gemm']\n");
  KernelGroups groups;
  ASSERT_TRUE(groups.AddFile(file.name()).ok());
  const std::vector<GroupReport> list = GroupKernels(
      {Kernel("gemm_a", 100), Kernel("other", 1000), Kernel("gemm_b", 300)}, groups);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "");
  EXPECT_EQ(list[0].durations.sum(), 1000u);
  EXPECT_EQ(list[1].name, "GEMM");
  EXPECT_EQ(list[1].kernels, 2u);
  EXPECT_EQ(list[1].count, 4u);
  EXPECT_EQ(list[1].durations.sum(), 400u);
}

TEST(KernelGroups, BadFilesAreNamed) {
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"- a\n", "expected groups"},
           {"a: b\n", "group a: expected a list"},
           {"a: [1]\n", "put it between single quotes"},
           {"a: ['(']\n", "expression \"(\""},
           {"a: ['x'\n", ".yaml"}}) {
    const TextFile file(text);
    KernelGroups groups;
    const absl::Status status = groups.AddFile(file.name());
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), HasSubstr(file.name()));
  }
  KernelGroups groups;
  EXPECT_FALSE(groups.AddFile("/does/not/exist.yaml").ok());
}

// The installed example, with kernel names as libraries choose them.
TEST(KernelGroups, TheExampleKnowsCommonKernels) {
  KernelGroups groups;
  const absl::Status status = groups.AddFile(ROCATTACH_GROUPS);
  ASSERT_TRUE(status.ok()) << status;
  for (const auto& [name, group] : std::vector<std::pair<std::string, std::string>>{
           {"Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_SE_1LDSB0", "GEMM"},
           {"void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm>(int)", "GEMM"},
           {"_ZN7ck_tile6kentryINS_13FmhaFwdKernelI", "attention"},
           {"attn_fwd", "attention"},
           {"void flash_fwd_splitkv_kernel(Flash_fwd_params)", "attention"},
           {"void paged_attention_ll4mi_QKV_mfma16_kernel<int>(int)", "attention"},
           {"ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "collectives"},
           {"void vllm::cross_device_reduce_1stage<float, 8>(int)", "collectives"},
           {"void vllm::rms_norm_kernel<c10::Half>(int)", "normalisation"},
           {"void at::native::vectorized_elementwise_kernel<4>(int)", "elementwise"},
           {"__amd_rocclr_fillBufferAligned", "elementwise"},
           {"void at::native::reduce_kernel<512, 1>(int)", "reduction"},
           {"void f<at::native::(anonymous)::{lambda()#1}>(int)", ""},
           {"vadd(float*, float*, int)", ""}}) {
    EXPECT_EQ(groups.Find(name, name), group) << name;
  }
}

}  // namespace
}  // namespace rocattach
