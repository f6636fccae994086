// A target of which everything has been drained is not read again before it has
// something new.
#include <gtest/gtest.h>

#include "tests/unit/record/target_fixture.h"

namespace rocattach {
namespace {

constexpr uint64_t kRestNow = 10'000'000'000;
constexpr uint64_t kUntil = kRestNow + 1000;

class TargetRestTest : public TargetTest {
 protected:
  void SetUp() override {
    TargetTest::SetUp();
    target_ = NewTarget(Attached());
    EXPECT_FALSE(target_->Rests(kRestNow));  // it has not reported in
    Report(fake_, target_.get());
    target_->Drain(kRestNow);
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

TEST_F(TargetRestTest, OnlyAfterRestUntil) {
  EXPECT_FALSE(target_->Rests(kRestNow));
  target_->RestUntil(kUntil);
  EXPECT_TRUE(target_->Rests(kRestNow));
  EXPECT_TRUE(target_->Rests(kUntil - 1));
  EXPECT_FALSE(target_->Rests(kUntil));
}

TEST_F(TargetRestTest, UntilARingFills) {
  target_->RestUntil(kUntil);
  // A sixteenth of a ring may wait.
  Publish(1, FakeCollector::kSlots / 16);
  EXPECT_TRUE(target_->Rests(kRestNow));
  Publish(0, FakeCollector::kSlots / 16);
  EXPECT_TRUE(target_->Rests(kRestNow));
  Publish(1, 1);
  EXPECT_FALSE(target_->Rests(kRestNow));
  EXPECT_EQ(target_->Drain(kRestNow), correlation_);
  EXPECT_TRUE(target_->Rests(kRestNow));
}

TEST_F(TargetRestTest, UntilItUsesAnotherRing) {
  FakeCollector fake;
  fake.control()->rings_used = 1;
  auto target = NewTarget(Attached(1));
  Report(fake, target.get());
  target->Drain(kRestNow);
  target->RestUntil(kUntil);
  EXPECT_TRUE(target->Rests(kRestNow));
  fake.control()->rings_used = 2;
  EXPECT_FALSE(target->Rests(kRestNow));
}

TEST_F(TargetRestTest, UntilItsDictionaryGrows) {
  target_->RestUntil(kUntil);
  fake_.control()->dictionary_used += 64;
  EXPECT_FALSE(target_->Rests(kRestNow));
}

// Whatever a target writes there, it only causes a check, as for any other target.
TEST_F(TargetRestTest, ARingThatWentBackIsLookedAt) {
  Publish(0, 3);
  target_->Drain(kRestNow);
  target_->RestUntil(kUntil);
  fake_.ring(0)->head = 1;
  EXPECT_FALSE(target_->Rests(kRestNow));
  target_->Drain(kRestNow);  // not read any more
  EXPECT_TRUE(target_->Rests(kRestNow));
}

TEST_F(TargetRestTest, UntilAnotherWindowOpens) {
  target_->RestUntil(kUntil);
  target_->Reopen(Attached());
  EXPECT_FALSE(target_->Rests(kRestNow));
}

TEST_F(TargetRestTest, UntilADrainIsAwaited) {
  target_->RestUntil(kUntil);
  bool done = false;
  target_->session()->AfterDrain([&](const absl::Status&) { done = true; });
  EXPECT_FALSE(target_->Rests(kRestNow));
  for (int i = 0; i < 3 && !done; ++i) target_->Drain(kRestNow);
  EXPECT_TRUE(done);
  EXPECT_TRUE(target_->Rests(kRestNow));
}

}  // namespace
}  // namespace rocattach
