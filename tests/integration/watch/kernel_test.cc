// Kernels that lack a feature.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/integration/watch/harness.h"
#include "userspace/watch/kernel_probe.h"

namespace rocattach::testing_support {
namespace {

TEST(KernelTest, WithoutTypeInformationItSaysWhatIsMissing) {
  SKIP_WITHOUT_PRIVILEGES();
  ExecutableDirectory directory;
  // A mount namespace in which /sys/kernel/btf is empty.
  Child watcher({"unshare", "--mount", "sh", "-c",
                 "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"", "sh",
                 WatcherPath(), "--auto", "--collector", CollectorPath(), "-d",
                 directory.path(), "--duration-msec", "2000"});
  const Finished finished = watcher.Wait();
  if (finished.exited_with(0)) {
    GTEST_SKIP() << "this machine's kernel image is installed, with its BTF";
  }
  EXPECT_TRUE(finished.exited_with(3)) << finished.status << finished.errors;
  EXPECT_NE(finished.errors.find("/sys/kernel/btf/vmlinux"), std::string::npos)
      << finished.errors;
  EXPECT_NE(finished.errors.find("CONFIG_DEBUG_INFO_BTF"), std::string::npos);
  // One message, not the library's own thoughts about it.
  EXPECT_EQ(finished.errors.find("libbpf"), std::string::npos) << finished.errors;
  EXPECT_EQ(finished.errors.find("No such process"), std::string::npos);
}

// The features without which this kernel has to do in any case are missing as well.
absl::StatusOr<std::unique_ptr<KernelProbe>> LoadWithout(
    std::initializer_list<KernelFeature> lacking) {
  KernelProbeOptions options;
  for (KernelFeature feature : lacking) options.lacking.Add(feature);
  return KernelProbe::Load(options);
}

bool Misses(const KernelProbe& probe, KernelFeature feature) {
  const auto& missing = probe.missing_features();
  return std::any_of(missing.begin(), missing.end(), [feature](const auto& one) {
    return one.feature == feature && !one.reason.empty();
  });
}

TEST(KernelTest, WhatIsMissingCostsThatFeatureOnly) {
  SKIP_WITHOUT_PRIVILEGES();
  auto whole = LoadWithout({});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ((*whole)->hold_mode(), HoldMode::kYielding) << (*whole)->hold_mode_reason();
  for (KernelFeature lacking :
       {KernelFeature::kLayouts, KernelFeature::kCookies, KernelFeature::kServiceEnd}) {
    auto probe = LoadWithout({lacking});
    ASSERT_TRUE(probe.ok()) << probe.status();
    EXPECT_EQ((*probe)->hold_mode(), HoldMode::kYielding)
        << (*probe)->hold_mode_reason();
    EXPECT_TRUE(Misses(**probe, lacking)) << DescribeFeature(lacking).name;
    for (KernelFeature feature : kKernelFeatures) {
      EXPECT_EQ((*probe)->features().Has(feature),
                feature != lacking && (*whole)->features().Has(feature))
          << DescribeFeature(feature).name << " without "
          << DescribeFeature(lacking).name;
    }
  }
}

TEST(KernelTest, WithoutTheYieldingHoldTheOtherOneIsInForce) {
  SKIP_WITHOUT_PRIVILEGES();
  auto probe = LoadWithout({KernelFeature::kYieldingHold, KernelFeature::kCookies});
  ASSERT_TRUE(probe.ok()) << probe.status();
  EXPECT_EQ((*probe)->hold_mode(), HoldMode::kSignal);
  EXPECT_NE((*probe)->hold_mode_reason(), "");
  EXPECT_TRUE(Misses(**probe, KernelFeature::kYieldingHold));
  EXPECT_TRUE(Misses(**probe, KernelFeature::kCookies));
  EXPECT_TRUE((*probe)->features().Has(KernelFeature::kServiceEnd));

  auto none = LoadWithout({KernelFeature::kYieldingHold, KernelFeature::kSignalHold});
  EXPECT_FALSE(none.ok());
}

}  // namespace
}  // namespace rocattach::testing_support
