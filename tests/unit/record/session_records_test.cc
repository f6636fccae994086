// The sessions to which the records of a target belong.
#include "userspace/record/sessions/session_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/record/session_records_fixture.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(SessionRecordsTest, ADispatchThatNoSessionSelectedIsStillRecorded) {
  rocattach_dispatch record = Dispatch(1, ROCATTACH_DISPATCH_UNFINISHED);
  EXPECT_TRUE(records_->ConsumeDispatch(0, &record));
  EXPECT_EQ(record.flags, ROCATTACH_DISPATCH_UNFINISHED);
  EXPECT_THAT(Delivered(), IsEmpty());
}

TEST_F(SessionRecordsTest, TheStreamHasNoFlagsOfPlansAndSelections) {
  rocattach_dispatch record = Dispatch(1, 0x1ff);
  record.flags &= static_cast<uint16_t>(~ROCATTACH_DISPATCH_COUNTED);
  EXPECT_TRUE(records_->ConsumeDispatch(0, &record));
  EXPECT_EQ(record.flags, ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_APP_SIGNAL |
                              ROCATTACH_DISPATCH_UNFINISHED);
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_EQ(Delivered()[0].record.flags, record.flags);
}

TEST_F(SessionRecordsTest, ADispatchThatTheTargetSelectedIsDelivered) {
  // Kernel 2 would not have matched.
  EXPECT_TRUE(Consume(Dispatch(1, ROCATTACH_DISPATCH_SELECTED, 2)));
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_TRUE(Delivered()[0].for_timestamps);
  EXPECT_FALSE(Delivered()[0].for_counters);
  EXPECT_EQ(counts().filtered, 0u);
}

TEST_F(SessionRecordsTest, DispatchesThatTheTargetCouldNotDecideAreDecidedExactly) {
  constexpr uint16_t kUndecided =
      ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_SELECTED_UNDECIDED;
  EXPECT_TRUE(Consume(Dispatch(1, kUndecided, 1)));
  // Rejected by the kernel's name, for lack of a name, and by the agent.
  EXPECT_FALSE(Consume(Dispatch(2, kUndecided, 2)));
  EXPECT_FALSE(Consume(Dispatch(3, kUndecided, 99)));
  rocattach_dispatch elsewhere = Dispatch(4, kUndecided, 1);
  elsewhere.agent_id = 2;
  EXPECT_FALSE(Consume(elsewhere));
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_EQ(Delivered()[0].record.correlation_id, 1u);
  EXPECT_EQ(counts().filtered, 3u);
  // The recording wants all of them, the session still does not.
  EXPECT_TRUE(Consume(Dispatch(5, kUndecided | ROCATTACH_DISPATCH_BASELINE, 2)));
  EXPECT_EQ(Delivered().size(), 1u);
  EXPECT_EQ(counts().filtered, 3u);
}

TEST_F(SessionRecordsTest, EachSelectionIsDecidedByItself) {
  EXPECT_TRUE(
      Consume(Dispatch(1,
                       ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_FOR_COUNTERS |
                           ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED,
                       2)));
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_TRUE(Delivered()[0].for_timestamps);
  EXPECT_FALSE(Delivered()[0].for_counters);
}

TEST_F(SessionRecordsTest, ADispatchThatAForgottenPlanSelectedReachesNoSession) {
  rocattach_dispatch record = Dispatch(1, ROCATTACH_DISPATCH_SELECTED);
  record.flags = ROCATTACH_DISPATCH_SELECTED | TagOf(kGeneration + 2);
  EXPECT_FALSE(Consume(record));
  EXPECT_EQ(counts().filtered, 1u);
  record.flags |= ROCATTACH_DISPATCH_BASELINE;
  EXPECT_TRUE(Consume(record));
  EXPECT_THAT(Delivered(), IsEmpty());
}

TEST_F(SessionRecordsTest, ALateDispatchGoesToThePlanThatSelectedIt) {
  auto next = std::make_shared<KeepingSink>();
  AddPlan(kGeneration + 2, next);
  EXPECT_TRUE(Consume(Dispatch(1, ROCATTACH_DISPATCH_SELECTED)));
  EXPECT_EQ(Delivered().size(), 1u);
  EXPECT_THAT(next->dispatches, IsEmpty());
}

TEST_F(SessionRecordsTest, CopiesGoToTheSessionThatSelectedThem) {
  rocattach_copy copy = {};
  copy.kind = ROCATTACH_RECORD_COPY;
  copy.correlation_id = 1;
  copy.flags = ROCATTACH_COPY_BASELINE | TagOf(kGeneration);
  EXPECT_TRUE(records_->ConsumeCopy(&copy));
  EXPECT_THAT(sink_->copies, IsEmpty());
  copy.correlation_id = 2;
  copy.flags =
      ROCATTACH_COPY_SELECTED | ROCATTACH_DISPATCH_UNTIMED | TagOf(kGeneration);
  EXPECT_TRUE(records_->ConsumeCopy(&copy));
  EXPECT_THAT(sink_->copies, ElementsAre(2));
  EXPECT_EQ(copy.flags, ROCATTACH_DISPATCH_UNTIMED);
  copy.correlation_id = 3;
  copy.flags = ROCATTACH_COPY_SELECTED | TagOf(kGeneration + 2);
  EXPECT_TRUE(records_->ConsumeCopy(&copy));
  EXPECT_THAT(sink_->copies, ElementsAre(2));
}

}  // namespace
}  // namespace rocattach
