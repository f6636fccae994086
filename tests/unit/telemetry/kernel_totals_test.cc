#include "userspace/telemetry/kernel_totals.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

std::string NameOf(uint32_t kernel) {
  return kernel == 0 ? "" : absl::StrCat("kernel", kernel);
}

struct Totals {
  std::map<std::string, OperationTotals> named;
  OperationTotals other, sum;
};

Totals TotalsOf(KernelTotals* kernels, SeriesBudget* budget) {
  kernels->Select(budget);
  std::vector<KernelSnapshot> named;
  Totals all;
  kernels->GetTotals(&named, &all.other);
  all.sum = all.other;
  for (const KernelSnapshot& kernel : named) {
    all.named[kernel.name] = kernel.totals;
    all.sum.dispatches += kernel.totals.dispatches;
    all.sum.time_ns += kernel.totals.time_ns;
  }
  return all;
}

TEST(KernelTotalsTest, TheBusiestAreNamed) {
  SeriesBudget budget(1000);
  KernelTotals kernels(2, NameOf);
  for (uint32_t kernel = 1; kernel <= 4; ++kernel) kernels.Add(kernel, 100 * kernel);
  const Totals all = TotalsOf(&kernels, &budget);
  ASSERT_EQ(all.named.size(), 2u);
  EXPECT_EQ(all.named.at("kernel4").time_ns, 400u);
  EXPECT_EQ(all.named.at("kernel3").time_ns, 300u);
  EXPECT_EQ(all.other.time_ns, 300u);
  EXPECT_EQ(all.other.dispatches, 2u);
  EXPECT_EQ(budget.used(), 2 * kKernelSeries);
}

TEST(KernelTotalsTest, TheSameNameIsOneKernel) {
  SeriesBudget budget(1000);
  KernelTotals kernels(2, [](uint32_t) { return "same"; });
  kernels.Add(1, 10);
  kernels.Add(7, 20);
  const Totals all = TotalsOf(&kernels, &budget);
  EXPECT_EQ(all.named.at("same").time_ns, 30u);
  EXPECT_EQ(all.named.at("same").dispatches, 2u);
}

// However the set of busiest kernels changes, no series decreases, and the increases of
// all series add up to the true total: nothing is counted twice or left out.
TEST(KernelTotalsTest, IncreasesAddUpWhileTheBusiestChange) {
  SeriesBudget budget(1000);
  KernelTotals kernels(3, NameOf);
  std::mt19937 random(7);
  uint64_t true_ns = 0, true_dispatches = 0, increase_ns = 0;
  std::map<std::string, uint64_t> last;
  uint64_t last_other = 0;
  int changes = 0;
  for (int round = 0; round < 200; ++round) {
    // The program enters another phase every ten rounds.
    const uint32_t phase = 1 + static_cast<uint32_t>(round / 10) * 5;
    for (int i = 0; i < 50; ++i) {
      const uint64_t ns = random() % 1000;
      kernels.Add(phase + random() % 8, ns);
      true_ns += ns;
      ++true_dispatches;
    }
    const Totals all = TotalsOf(&kernels, &budget);
    EXPECT_LE(all.named.size(), 3u);
    ASSERT_GE(all.other.time_ns, last_other);
    increase_ns += all.other.time_ns - last_other;
    last_other = all.other.time_ns;
    for (const auto& [name, totals] : all.named) {
      ASSERT_GE(totals.time_ns, last[name]);
      if (last[name] == 0) ++changes;
      increase_ns += totals.time_ns - last[name];
      last[name] = totals.time_ns;
    }
    EXPECT_EQ(budget.used(), all.named.size() * kKernelSeries);
  }
  EXPECT_GT(changes, 10) << "the busiest did not change: no test";
  EXPECT_EQ(increase_ns, true_ns);
  kernels.Release(&budget);
  EXPECT_EQ(budget.used(), 0u);
}

TEST(KernelTotalsTest, AMillionNamesAreBounded) {
  SeriesBudget budget(1000);
  KernelTotals kernels(10, [](uint32_t kernel) {
    return absl::StrCat(kernel, std::string(10'000, 'x'));
  });
  for (uint32_t kernel = 1; kernel <= 1'000'000; ++kernel) kernels.Add(kernel, 1);
  const Totals all = TotalsOf(&kernels, &budget);
  EXPECT_EQ(all.named.size(), 10u);
  for (const auto& [name, totals] : all.named) {
    EXPECT_LE(name.size(), KernelTotals::kMostNameBytes);
  }
  EXPECT_EQ(all.sum.dispatches, 1'000'000u);
}

TEST(KernelTotalsTest, WithoutRoomEverythingIsOther) {
  SeriesBudget budget(kKernelSeries);
  KernelTotals kernels(10, NameOf);
  kernels.Add(1, 10);
  kernels.Add(2, 20);
  const Totals all = TotalsOf(&kernels, &budget);
  EXPECT_EQ(all.named.size(), 1u);
  EXPECT_EQ(all.sum.time_ns, 30u);
  EXPECT_EQ(budget.refused(), kKernelSeries);
}

TEST(KernelTotalsTest, AKernelWithoutTimesOrNameIsNamedToo) {
  SeriesBudget budget(1000);
  KernelTotals kernels(10, NameOf);
  kernels.Add(0, 0);
  const Totals all = TotalsOf(&kernels, &budget);
  EXPECT_EQ(all.named.at("(no name)").dispatches, 1u);
}

}  // namespace
}  // namespace rocattach
