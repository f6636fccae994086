#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/unit/simgpu/core.h"

namespace {

class SimgpuOptions : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : kNames) unsetenv(name);
    EXPECT_TRUE(simgpu_options_load());
  }
  static constexpr const char* kNames[] = {"SIMGPU_ARCH", "SIMGPU_COUNT",
                                           "SIMGPU_KERNEL_NS", "SIMGPU_COPY_MBPS",
                                           "SIMGPU_STATS"};
};

TEST_F(SimgpuOptions, Defaults) {
  ASSERT_TRUE(simgpu_options_load());
  EXPECT_EQ(simgpu_options_get()->arch, SIMGPU_ARCH_GFX90A);
  EXPECT_EQ(simgpu_options_get()->gpu_count, 1u);
  EXPECT_EQ(simgpu_options_get()->kernel_ns, 5000u);
}

TEST_F(SimgpuOptions, ReadsTheEnvironment) {
  setenv("SIMGPU_ARCH", "gfx906", 1);
  setenv("SIMGPU_COUNT", "8", 1);
  setenv("SIMGPU_KERNEL_NS", "0", 1);
  setenv("SIMGPU_COPY_MBPS", "123", 1);
  setenv("SIMGPU_STATS", "/dev/null", 1);
  ASSERT_TRUE(simgpu_options_load());
  EXPECT_EQ(simgpu_options_get()->arch, SIMGPU_ARCH_GFX906);
  EXPECT_EQ(simgpu_options_get()->gpu_count, 8u);
  EXPECT_EQ(simgpu_options_get()->kernel_ns, 0u);
  EXPECT_EQ(simgpu_options_get()->copy_mbps, 123u);
  EXPECT_STREQ(simgpu_options_get()->stats_path, "/dev/null");
}

TEST_F(SimgpuOptions, RefusesBadValuesByName) {
  const struct {
    const char* name;
    const char* value;
  } bad[] = {{"SIMGPU_ARCH", "gfx1100"}, {"SIMGPU_COUNT", "0"},
             {"SIMGPU_COUNT", "9"},      {"SIMGPU_COUNT", "two"},
             {"SIMGPU_KERNEL_NS", "-1"}, {"SIMGPU_KERNEL_NS", "5us"},
             {"SIMGPU_COPY_MBPS", "0"}};
  for (const auto& each : bad) {
    setenv(each.name, each.value, 1);
    testing::internal::CaptureStderr();
    EXPECT_FALSE(simgpu_options_load()) << each.name << "=" << each.value;
    EXPECT_NE(testing::internal::GetCapturedStderr().find(each.name),
              std::string::npos);
    unsetenv(each.name);
  }
}

}  // namespace
