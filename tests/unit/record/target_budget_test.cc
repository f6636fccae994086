// Limits on the cost of one round of draining, whatever a target has written.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/unit/record/target_fixture.h"
#include "userspace/session/compiled_plan.h"

namespace rocattach {
namespace {

constexpr uint64_t kNow = 10'000'000'000;

class TargetBudgetTest : public TargetTest {
 protected:
  void SetUp() override {
    TargetTest::SetUp();
    target_ = NewTarget(Attached());
    Report(fake_, target_.get());
  }

  FakeCollector fake_;
  std::unique_ptr<Target> target_;
};

TEST_F(TargetBudgetTest, LongNamesCostMoreThanShortOnes) {
  constexpr uint32_t kNames = 7;
  for (uint32_t id = 1; id <= kNames; ++id) fake_.AddKernel(id, std::string(500, 'k'));
  target_->Drain(kNow, 65);
  EXPECT_FALSE(target_->memory()->dictionary_read());
  EXPECT_TRUE(target_->behind());
  int rounds = 1;
  while (target_->behind() && rounds < 100) {
    target_->Drain(kNow, 65);
    ++rounds;
  }
  EXPECT_TRUE(target_->memory()->dictionary_read());
  EXPECT_GE(rounds, 3);
}

TEST_F(TargetBudgetTest, TheNumberOfShortNamesInARoundIsLimited) {
  for (uint32_t id = 1; id <= 60; ++id) fake_.AddKernel(id, "k");
  target_->Drain(kNow, 256);
  EXPECT_FALSE(target_->memory()->dictionary_read());
}

TEST_F(TargetBudgetTest, TheNumberOfExpensiveRecordsInARoundIsLimited) {
  rocattach_clock clock = {};
  clock.kind = ROCATTACH_RECORD_CLOCK;
  for (uint32_t i = 0; i < FakeCollector::kSlots; ++i) fake_.Publish(0, &clock);
  EXPECT_LE(target_->Drain(kNow, 256), 16u);
  EXPECT_TRUE(target_->behind());
  // Records that cost little are still read in a single round.
  rocattach_dispatch dispatch = FakeCollector::Dispatch(1);
  for (int rounds = 0; target_->behind(); ++rounds) {
    ASSERT_LT(rounds, 1000) << "the clocks are never all read";
    target_->Drain(kNow);
  }
  for (uint32_t i = 0; i < FakeCollector::kSlots; ++i) fake_.Publish(0, &dispatch);
  EXPECT_EQ(target_->Drain(kNow, 256), FakeCollector::kSlots);
}

// Callers would otherwise wait until the process ends.
TEST_F(TargetBudgetTest, NoCallerWaitsForATargetThatIsNotRead) {
  const rocattach_dispatch dispatch = FakeCollector::Dispatch(1);
  fake_.Publish(0, &dispatch);
  target_->Drain(kNow);
  int answers = 0;
  const auto answer = [&answers](absl::Status) { ++answers; };
  target_->session()->AfterDrain(answer);
  fake_.ring(0)->head = 0;  // goes back
  target_->Drain(kNow);
  ASSERT_NE(target_->not_believable(), "");
  EXPECT_EQ(answers, 1);
  target_->session()->Settle(answer);
  target_->Drain(kNow);
  EXPECT_EQ(answers, 2);
  EXPECT_FALSE(target_->session()->awaited());
}

// This would take minutes if each kernel cost as much as all those before it.
TEST_F(TargetBudgetTest, TheMaximumNumberOfKernelsCanComeDuringASession) {
  auto plan = std::make_shared<CompiledPlan>();
  plan->image = std::make_unique<rocattach_plan>();
  plan->selections[0].wanted = true;
  plan->selections[0].kernels = *KernelFilter::Create({"k7"}, {});
  target_->session()->Start(std::move(plan), nullptr, 42, [](absl::Status) {});
  v1::Kernel kernel;
  for (uint32_t id = 1; id < ROCATTACH_PLAN_MAX_KERNELS; ++id) {
    kernel.set_id(id);
    kernel.set_name("k" + std::to_string(id));
    target_->session()->AddKernel(kernel);
  }
  EXPECT_EQ(fake_.plan()->selections[0].kernels_decided,
            uint32_t{ROCATTACH_PLAN_MAX_KERNELS});
  target_->session()->Stop();
}

}  // namespace
}  // namespace rocattach
