// Dispatches of sessions: who gets them, and the values that follow them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <functional>
#include <memory>
#include <vector>

#include "tests/unit/record/session_records_fixture.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(SessionRecordsTest, ADispatchThatNobodyAskedForIsTheRecordings) {
  rocattach_dispatch record = Dispatch(1, ROCATTACH_DISPATCH_UNFINISHED);
  EXPECT_TRUE(records_->TakeDispatch(0, &record));
  EXPECT_EQ(record.flags, ROCATTACH_DISPATCH_UNFINISHED);
  EXPECT_THAT(sink_->dispatches, IsEmpty());
}

TEST_F(SessionRecordsTest, TheStreamHearsNothingOfPlansAndSelections) {
  rocattach_dispatch record = Dispatch(1, 0x1ff);
  record.flags &= static_cast<uint16_t>(~ROCATTACH_DISPATCH_COUNTED);
  EXPECT_TRUE(records_->TakeDispatch(0, &record));
  EXPECT_EQ(record.flags, ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_APP_SIGNAL |
                              ROCATTACH_DISPATCH_UNFINISHED);
  ASSERT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_EQ(sink_->dispatches[0].record.flags, record.flags);
}

TEST_F(SessionRecordsTest, WhatTheTargetHasDecidedIsDelivered) {
  // Kernel 2 would not have matched.
  EXPECT_TRUE(Take(Dispatch(1, ROCATTACH_DISPATCH_SELECTED, 2)));
  ASSERT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_TRUE(sink_->dispatches[0].for_timestamps);
  EXPECT_FALSE(sink_->dispatches[0].for_counters);
  EXPECT_EQ(counts().filtered, 0u);
}

TEST_F(SessionRecordsTest, WhatTheTargetCouldNotDecideIsDecidedExactly) {
  constexpr uint16_t kUndecided =
      ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_SELECTED_UNDECIDED;
  EXPECT_TRUE(Take(Dispatch(1, kUndecided, 1)));
  // By its name, without one, and by its agent.
  EXPECT_FALSE(Take(Dispatch(2, kUndecided, 2)));
  EXPECT_FALSE(Take(Dispatch(3, kUndecided, 99)));
  rocattach_dispatch elsewhere = Dispatch(4, kUndecided, 1);
  elsewhere.agent_id = 2;
  EXPECT_FALSE(Take(elsewhere));
  ASSERT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_EQ(sink_->dispatches[0].record.correlation_id, 1u);
  EXPECT_EQ(counts().filtered, 3u);
  // The recording wants all of them, the session still does not.
  EXPECT_TRUE(Take(Dispatch(5, kUndecided | ROCATTACH_DISPATCH_BASELINE, 2)));
  EXPECT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_EQ(counts().filtered, 3u);
}

TEST_F(SessionRecordsTest, EachSelectionIsDecidedByItself) {
  EXPECT_TRUE(
      Take(Dispatch(1,
                    ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_FOR_COUNTERS |
                        ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED,
                    2)));
  ASSERT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_TRUE(sink_->dispatches[0].for_timestamps);
  EXPECT_FALSE(sink_->dispatches[0].for_counters);
}

TEST_F(SessionRecordsTest, WhatAForgottenPlanSelectedReachesNoSession) {
  rocattach_dispatch record = Dispatch(1, ROCATTACH_DISPATCH_SELECTED);
  record.flags = ROCATTACH_DISPATCH_SELECTED | TagOf(kGeneration + 2);
  EXPECT_FALSE(Take(record));
  EXPECT_EQ(counts().filtered, 1u);
  record.flags |= ROCATTACH_DISPATCH_BASELINE;
  EXPECT_TRUE(Take(record));
  EXPECT_THAT(sink_->dispatches, IsEmpty());
}

TEST_F(SessionRecordsTest, ALateDispatchGoesToThePlanThatSelectedIt) {
  auto next = std::make_shared<KeepingSink>();
  AddPlan(kGeneration + 2, next);
  EXPECT_TRUE(Take(Dispatch(1, ROCATTACH_DISPATCH_SELECTED)));
  EXPECT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_THAT(next->dispatches, IsEmpty());
}

TEST_F(SessionRecordsTest, ADispatchWaitsForItsValues) {
  EXPECT_TRUE(TakeCounted(1));
  Take(Values(1, 0));
  EXPECT_THAT(sink_->dispatches, IsEmpty());
  Take(Values(1, 1));
  ASSERT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_TRUE(sink_->dispatches[0].for_counters);
  EXPECT_EQ(sink_->dispatches[0].record.correlation_id, 1u);
  EXPECT_THAT(sink_->dispatches[0].sums, ElementsAre(10, 20, 30));
  EXPECT_EQ(counts().counted, 1u);
  EXPECT_EQ(counts().counted_invalid, 0u);
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.counters.size(), 3u);
  for (uint16_t i = 0; i < 3; ++i) {
    const CounterRecord& record = written.counters[i];
    EXPECT_EQ(record.session, kSession);
    EXPECT_EQ(record.plan, kPlanId);
    EXPECT_EQ(record.operation, 1u);
    EXPECT_EQ(record.kernel_id, 1u);
    EXPECT_EQ(record.agent_id, kAgent);
    EXPECT_EQ(record.counter, i);
    EXPECT_EQ(record.instances, 4u);
    EXPECT_EQ(record.sum, 10 * (i + 1));
    EXPECT_EQ(record.minimum, 1);
    EXPECT_EQ(record.maximum, 9);
  }
}

TEST_F(SessionRecordsTest, ValuesBelongToTheirRing) {
  TakeCounted(1, 0);
  TakeCounted(2, 5);
  Take(Values(1, 0), 0);
  TakeValuesOf(2, 5);
  Take(Values(1, 1), 0);
  ASSERT_EQ(sink_->dispatches.size(), 2u);
  EXPECT_EQ(sink_->dispatches[0].record.correlation_id, 2u);
  EXPECT_EQ(sink_->dispatches[1].record.correlation_id, 1u);
  EXPECT_EQ(counts().counted, 2u);
}

TEST_F(SessionRecordsTest, ValuesOfAnotherPassAreThatPasss) {
  TakeCounted(1);
  rocattach_values values = Values(1, 0);
  values.pass = 1;
  values.slots = 1;
  values.count = 1;
  Take(values);
  ASSERT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_EQ(sink_->dispatches[0].pass, 1u);
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.counters.size(), 1u);
  EXPECT_EQ(written.counters[0].pass, 1u);
}

// Whatever the target's memory says: what the plan did not ask for is not believed.
TEST_F(SessionRecordsTest, ValuesThatThePlanCannotHaveAreInvalid) {
  const std::vector<std::function<void(rocattach_values*)>> changes = {
      [](auto* v) { v->correlation_id = 2; },
      [](auto* v) { v->agent_id = 2; },
      [](auto* v) { v->plan_generation += 2; },
      [](auto* v) { v->slot = 1; },
      [](auto* v) { v->slots = 0; },
      [](auto* v) { v->slots = 4; },
      [](auto* v) { v->count = 0; },
      [](auto* v) { v->count = ROCATTACH_VALUES_PER_SLOT + 1; },
      [](auto* v) { v->of = ROCATTACH_RECORD_SAMPLE; },
      [](auto* v) { v->pass = 2; },
      [](auto* v) { v->value[1].counter = 3; },
      [](auto* v) { v->value[1].instances = 0; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    TakeCounted(1);
    rocattach_values values = Values(1, 0);
    changes[i](&values);
    Take(values);
    EXPECT_EQ(counts().counted_invalid, i + 1) << i;
    // Once, however many follow.
    Take(Values(1, 1));
    EXPECT_EQ(counts().counted_invalid, i + 1) << i;
  }
  EXPECT_THAT(sink_->dispatches, IsEmpty());
  EXPECT_EQ(counts().counted, 0u);
}

TEST_F(SessionRecordsTest, ValuesMustNotChangeFromSlotToSlot) {
  TakeCounted(1);
  Take(Values(1, 0));
  rocattach_values values = Values(1, 1);
  values.slots = 3;
  Take(values);
  EXPECT_EQ(counts().counted_invalid, 1u);
  TakeCounted(2);
  Take(Values(2, 0));
  values = Values(2, 1);
  values.pass = 1;
  Take(values);
  EXPECT_EQ(counts().counted_invalid, 2u);
  TakeCounted(3);
  Take(Values(3, 0));
  Take(Values(3, 0));
  EXPECT_EQ(counts().counted_invalid, 3u);
  EXPECT_THAT(sink_->dispatches, IsEmpty());
}

TEST_F(SessionRecordsTest, WhatInterruptsValuesMakesThemInvalid) {
  TakeCounted(1);
  Take(Values(1, 0));
  TakeCounted(2);
  Take(Values(1, 1));
  EXPECT_EQ(counts().counted_invalid, 2u);
  // At the end, too.
  TakeCounted(3, 1);
  records_->End();
  EXPECT_EQ(counts().counted_invalid, 3u);
  EXPECT_EQ(counts().counted, 0u);
  EXPECT_THAT(sink_->dispatches, IsEmpty());
}

TEST_F(SessionRecordsTest, NothingIsLeftOfInterruptedValues) {
  TakeCounted(1);
  Take(Values(1, 0));
  TakeCounted(2);
  TakeValuesOf(2);
  ASSERT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_THAT(sink_->dispatches[0].sums, ElementsAre(10, 20, 30));
  TakeCounted(3);
  Take(Values(3, 0));
  Take(Sample(1));
  ASSERT_EQ(sink_->samples.size(), 1u);
  EXPECT_THAT(sink_->samples[0].sums, ElementsAre(10, 20));
  EXPECT_EQ(counts().counted_invalid, 2u);
  EXPECT_EQ(counts().counted, 1u);
}

// The target counted a kernel that it could not decide about.
TEST_F(SessionRecordsTest, ValuesThatTheFilterDidNotWantAreLeftOut) {
  constexpr uint16_t kCounted = ROCATTACH_DISPATCH_COUNTED |
                                ROCATTACH_DISPATCH_FOR_COUNTERS |
                                ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED;
  EXPECT_FALSE(Take(Dispatch(1, kCounted, 2)));
  TakeValuesOf(1);
  EXPECT_THAT(sink_->dispatches, IsEmpty());
  EXPECT_EQ(counts().counted_filtered, 1u);
  EXPECT_EQ(counts().filtered, 1u);
  // Another filter of the session wants its times.
  EXPECT_TRUE(Take(Dispatch(2, kCounted | ROCATTACH_DISPATCH_SELECTED, 2)));
  TakeValuesOf(2);
  ASSERT_EQ(sink_->dispatches.size(), 1u);
  EXPECT_TRUE(sink_->dispatches[0].for_timestamps);
  EXPECT_FALSE(sink_->dispatches[0].for_counters);
  EXPECT_EQ(counts().counted_filtered, 2u);
  EXPECT_EQ(counts().filtered, 1u);
  EXPECT_EQ(counts().counted, 0u);
  EXPECT_THAT(Finish().counters, IsEmpty());
}

}  // namespace
}  // namespace rocattach
