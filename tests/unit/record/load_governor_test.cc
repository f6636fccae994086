#include "userspace/record/load_governor.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace rocattach {
namespace {

// A service whose load follows the share that is recorded, second by second.
class GovernedService {
 public:
  explicit GovernedService(LoadBudget budget) : governor_(budget) { Step(0, 0); }

  // A second with this use of resources. Returns true if the level changed.
  bool Step(double cpu_percent, uint64_t disk_bytes) {
    reading_.now_ns += 1'000'000'000;
    reading_.cpu_ns += static_cast<uint64_t>(cpu_percent * 1e7);
    reading_.disk_bytes += disk_bytes;
    return governor_.Update(reading_);
  }
  // A second of a program that costs `cpu_percent` if everything is recorded.
  bool Run(double cpu_percent, double fixed_percent = 0) {
    return Step(fixed_percent + cpu_percent * governor_.level().ratio(), 0);
  }
  void SetAttached(bool attached) { reading_.attached = attached; }
  LoadGovernor& governor() { return governor_; }
  const SamplingLevel& level() const { return governor_.level(); }

 private:
  LoadGovernor governor_;
  LoadReading reading_ = {.now_ns = 5'000'000'000};
};

TEST(LoadGovernorTest, WithoutABudgetEverythingIsRecorded) {
  GovernedService service({});
  EXPECT_FALSE(service.governor().limited());
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(service.Step(800, 1 << 30));
  EXPECT_TRUE(service.level().every());
}

TEST(LoadGovernorTest, WithinItsBudgetNothingChanges) {
  GovernedService service({.cpu_percent = 10, .disk_bytes_per_second = 1000});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(service.Step(9.9, 999));
  EXPECT_TRUE(service.level().every());
}

TEST(LoadGovernorTest, NothingIsShedWithoutAProcess) {
  GovernedService service({.cpu_percent = 10});
  service.SetAttached(false);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(service.Step(90, 0));
  EXPECT_TRUE(service.level().every());
  service.SetAttached(true);
  EXPECT_TRUE(service.Step(90, 0));
  EXPECT_FALSE(service.level().every());
}

TEST(LoadGovernorTest, ChoosesALevelAtWhichTheBudgetHolds) {
  GovernedService service({.cpu_percent = 10});
  EXPECT_TRUE(service.Run(60));
  EXPECT_EQ(service.level(), SamplingLevel::OneIn(16));
  EXPECT_EQ(service.governor().reason(), "processor 60.0% of 10%");
  // 3.75 %: there is room for twice as much, but not for long enough yet.
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(service.Run(60));
  EXPECT_TRUE(service.Run(60));
  EXPECT_EQ(service.level(), SamplingLevel::OneIn(8));
  // 7.5 %: it stays there.
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(service.Run(60));
}

TEST(LoadGovernorTest, TheDiskHasABudgetOfItsOwn) {
  GovernedService service({.cpu_percent = 10, .disk_bytes_per_second = 1000});
  EXPECT_TRUE(service.Step(1, 2500));
  EXPECT_EQ(service.level(), SamplingLevel::OneIn(4));
  EXPECT_EQ(service.governor().reason(),
            "processor 1.0% of 10%, output 2500 of 1000 bytes/s");
}

TEST(LoadGovernorTest, WhereSamplingDoesNotHelpDispatchesAreOnlyCounted) {
  GovernedService service({.cpu_percent = 1});
  int changes = 0;
  for (int i = 0; i < 20 && !service.level().counts_only(); ++i) {
    changes += service.Run(100, /*fixed_percent=*/20) ? 1 : 0;
  }
  EXPECT_TRUE(service.level().counts_only());
  EXPECT_EQ(service.level().ratio(), 0);
  EXPECT_EQ(changes, 3);  // 1/16, 1/256, none
  // The service itself needs more than the budget: there is nothing left to shed.
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(service.Run(100, 20));
}

TEST(LoadGovernorTest, RecoversStepByStepUpToEveryDispatch) {
  GovernedService service({.cpu_percent = 10});
  for (int i = 0; i < 20; ++i) service.Run(100'000);
  ASSERT_FALSE(service.level().every());
  uint32_t before = service.level().counts_only() ? 2048 : service.level().divisor();
  int seconds = 0;
  while (!service.level().every()) {
    ASSERT_LT(++seconds, 1000);
    if (!service.Run(1)) continue;
    EXPECT_EQ(service.level().divisor(), before / 2);
    before = service.level().divisor();
  }
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(service.Run(1));
}

// Load that is too high at one level and low at the next: attempts to record more
// become less and less frequent.
TEST(LoadGovernorTest, DoesNotSwingBetweenTwoLevels) {
  GovernedService service({.cpu_percent = 10});
  const auto load = [&] { return service.level().every() ? 30.0 : 1.0; };
  int first = 0, second = 0;
  for (int i = 0; i < 200; ++i) first += service.Step(load(), 0) ? 1 : 0;
  for (int i = 0; i < 2000; ++i) second += service.Step(load(), 0) ? 1 : 0;
  EXPECT_GT(first, 3);
  EXPECT_LT(second, 2000 / 160 * 4);
}

TEST(LoadGovernorTest, IsNotAskedMoreOftenThanOnceASecond) {
  LoadGovernor governor({.cpu_percent = 10});
  EXPECT_FALSE(governor.Update({.now_ns = 1'000'000'000}));
  EXPECT_FALSE(governor.Update({.now_ns = 1'004'000'000, .cpu_ns = 4'000'000}));
  EXPECT_FALSE(governor.Update({.now_ns = 1'999'999'999, .cpu_ns = 990'000'000}));
  EXPECT_TRUE(governor.Update({.now_ns = 2'000'000'000, .cpu_ns = 990'000'000}));
}

// Totals that decrease, as with a clock that jumps, are no load.
TEST(LoadGovernorTest, TotalsThatGoBackAreNoLoad) {
  LoadGovernor governor({.cpu_percent = 10, .disk_bytes_per_second = 10});
  EXPECT_FALSE(governor.Update(
      {.now_ns = 9'000'000'000, .cpu_ns = 5'000'000'000, .disk_bytes = 1000}));
  EXPECT_FALSE(governor.Update({.now_ns = 1'000'000'000}));
  EXPECT_FALSE(governor.Update({.now_ns = 11'000'000'000}));
  EXPECT_TRUE(governor.level().every());
}

}  // namespace
}  // namespace rocattach
