// A target of which everything has been drained is not looked at again before it has
// something to say.
#include <gtest/gtest.h>

#include "tests/unit/record/target_fixture.h"

namespace rocattach {
namespace {

constexpr uint64_t kNow = 10'000'000'000;
constexpr uint64_t kUntil = kNow + 1000;

class TargetRestTest : public TargetTest {
 protected:
  void SetUp() override {
    TargetTest::SetUp();
    target_ = NewTarget(Attached());
    EXPECT_FALSE(target_->Rests(kNow));  // it has not reported in
    Report(fake_, target_.get());
    target_->Drain(kNow);
  }
  void Publish(uint32_t ring, int count) {
    for (int i = 0; i < count; ++i) {
      const rocattach_dispatch dispatch = FakeCollector::Dispatch(++correlation_);
      fake_.Publish(ring, &dispatch);
    }
  }

  FakeCollector fake_;
  std::unique_ptr<Target> target_;
  uint64_t correlation_ = 0;
};

TEST_F(TargetRestTest, OnlyAfterItIsToldTo) {
  EXPECT_FALSE(target_->Rests(kNow));
  target_->RestUntil(kUntil);
  EXPECT_TRUE(target_->Rests(kNow));
  EXPECT_TRUE(target_->Rests(kUntil - 1));
  EXPECT_FALSE(target_->Rests(kUntil));
}

TEST_F(TargetRestTest, UntilARingFills) {
  target_->RestUntil(kUntil);
  // A sixteenth of a ring may wait.
  Publish(1, FakeCollector::kSlots / 16);
  EXPECT_TRUE(target_->Rests(kNow));
  Publish(0, FakeCollector::kSlots / 16);
  EXPECT_TRUE(target_->Rests(kNow));
  Publish(1, 1);
  EXPECT_FALSE(target_->Rests(kNow));
  EXPECT_EQ(target_->Drain(kNow), correlation_);
  EXPECT_TRUE(target_->Rests(kNow));
}

TEST_F(TargetRestTest, UntilItUsesAnotherRing) {
  FakeCollector fake;
  fake.control()->rings_used = 1;
  auto target = NewTarget(Attached(1));
  Report(fake, target.get());
  target->Drain(kNow);
  target->RestUntil(kUntil);
  EXPECT_TRUE(target->Rests(kNow));
  fake.control()->rings_used = 2;
  EXPECT_FALSE(target->Rests(kNow));
}

TEST_F(TargetRestTest, UntilItNamesSomething) {
  target_->RestUntil(kUntil);
  fake_.control()->dictionary_used += 64;
  EXPECT_FALSE(target_->Rests(kNow));
}

// Whatever a target writes there, it only costs the look that others cost as well.
TEST_F(TargetRestTest, ARingThatWentBackIsLookedAt) {
  Publish(0, 3);
  target_->Drain(kNow);
  target_->RestUntil(kUntil);
  fake_.ring(0)->head = 1;
  EXPECT_FALSE(target_->Rests(kNow));
  target_->Drain(kNow);  // not read any more
  EXPECT_TRUE(target_->Rests(kNow));
}

TEST_F(TargetRestTest, UntilAnotherWindowOpens) {
  target_->RestUntil(kUntil);
  target_->Reopen(Attached());
  EXPECT_FALSE(target_->Rests(kNow));
}

TEST_F(TargetRestTest, UntilSomebodyWaitsForIt) {
  target_->RestUntil(kUntil);
  bool done = false;
  target_->session()->AfterDrain([&](const absl::Status&) { done = true; });
  EXPECT_FALSE(target_->Rests(kNow));
  for (int i = 0; i < 3 && !done; ++i) target_->Drain(kNow);
  EXPECT_TRUE(done);
  EXPECT_TRUE(target_->Rests(kNow));
}

}  // namespace
}  // namespace rocattach
