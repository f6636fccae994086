#include "userspace/watch/late/awaited_call.h"

#include <gtest/gtest.h>

#include <memory>

namespace rocattach {
namespace {

class AwaitedCallTest : public testing::Test {
 protected:
  // Notes a call as the kernel side does.
  void See(uint32_t tid) {
    ASSERT_EQ(place_.state, uint32_t{ROCATTACH_CALL_AWAITED});
    place_.tid = tid;
    place_.cpu = 1;
    place_.ip = 0x1000;
    place_.sp = 0x2000;
    place_.state = ROCATTACH_CALL_SEEN;
  }
  void Stop() {
    ASSERT_EQ(place_.state, uint32_t{ROCATTACH_CALL_ARMED});
    place_.hit_ns = 42;
    place_.state = ROCATTACH_CALL_STOPPING;
  }

  rocattach_call place_ = {};
  int given_back_ = 0;
  std::unique_ptr<AwaitedCall> call_ =
      std::make_unique<AwaitedCall>(&place_, [this] { ++given_back_; });
};

TEST_F(AwaitedCallTest, FromTheCallToTheStop) {
  EXPECT_TRUE(call_->IsAwaited());
  EXPECT_FALSE(call_->Seen().has_value());
  See(7);
  const auto seen = call_->Seen();
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->tid, 7);
  EXPECT_EQ(seen->cpu, 1);
  EXPECT_EQ(seen->ip, 0x1000u);
  EXPECT_EQ(seen->stack_pointer, 0x2000u);
  EXPECT_FALSE(call_->IsStopping());
  call_->Arm();
  EXPECT_FALSE(call_->IsStopping());
  Stop();
  EXPECT_TRUE(call_->IsStopping());
  EXPECT_EQ(call_->hit_ns(), 42u);
  EXPECT_FALSE(call_->Disarm()) << "it has stopped";
  call_->Arm();
  Stop();
}

TEST_F(AwaitedCallTest, WhenDisarmedNoThreadIsStopped) {
  See(7);
  call_->Arm();
  EXPECT_TRUE(call_->Disarm());
  EXPECT_EQ(place_.state, uint32_t{ROCATTACH_CALL_SEEN});
  EXPECT_TRUE(call_->Disarm());
  call_->Await();
  EXPECT_FALSE(call_->Seen().has_value());
  See(8);
}

TEST_F(AwaitedCallTest, AClosedPlaceStaysClosed) {
  See(7);
  // The kernel side does this when the process executes another program.
  place_.state = ROCATTACH_CALL_OFF;
  EXPECT_FALSE(call_->IsAwaited());
  EXPECT_FALSE(call_->Seen().has_value());
  call_->Arm();
  call_->Await();
  EXPECT_TRUE(call_->Disarm());
  EXPECT_EQ(place_.state, uint32_t{ROCATTACH_CALL_OFF});
}

TEST_F(AwaitedCallTest, ItsDestructorClosesThePlaceAndReturnsIt) {
  See(7);
  call_->Arm();
  call_.reset();
  EXPECT_EQ(place_.state, uint32_t{ROCATTACH_CALL_OFF});
  EXPECT_EQ(given_back_, 1);
}

}  // namespace
}  // namespace rocattach
