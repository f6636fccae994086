// Counting is switched only while no dispatch is in flight.
#include "userspace/collector/sdk/counting.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/await.h"
#include "tests/unit/collector/hsa/gated_runtime.h"
#include "tests/unit/collector/sdk/fake_contexts.h"

namespace rocattach::collector {
namespace {

constexpr uint64_t kQueue = 3;

class SdkCountingTest : public GatedRuntime {
 protected:
  void SetUp() override {
    GatedRuntime::SetUp();
    UseContexts(&contexts_, &sdk_);
    counting_.Init(&sdk_, &plans_);
  }

  PlanResult Start() {
    RingHold hold(&g_ring_gate);
    return counting_.Start(&hold);
  }
  // Begins a dispatch that does not finish; waits for it are abandoned.
  static void BeginDispatch() {
    g_ring_gate.DispatchBegun(kQueue);
    g_ring_gate.Abandon(true);
  }
  static void EndDispatch() {
    g_ring_gate.Abandon(false);
    g_ring_gate.DispatchOver(kQueue);
  }

  FakeContexts contexts_;
  rocattach_sdk_functions sdk_ = {};
  PlanSet plans_;
  SdkCounting counting_;
};

TEST_F(SdkCountingTest, StartsWhileDispatchesAreHeld) {
  std::thread ringer;
  {
    RingHold hold(&g_ring_gate);
    const PlanResult result = counting_.Start(&hold);
    EXPECT_TRUE(result.ok()) << result.text;
    EXPECT_TRUE(counting_.on());
    EXPECT_EQ(contexts_.starts, 1);
    std::atomic<bool> begun{false};
    ringer = std::thread([&] {
      begun = true;
      Ring(kDoorbell);
    });
    testing_support::Await([&] { return begun.load(); }, "the thread to begin");
    EXPECT_EQ(runtime_.stores, 0);
    PlanResult described;
    hold.Describe(&described);
    EXPECT_NE(strstr(described.text, "dispatches were held for"), nullptr)
        << described.text;
  }
  ringer.join();
  EXPECT_EQ(runtime_.stores, 1);
}

TEST_F(SdkCountingTest, ASecondStartHoldsNothing) {
  ASSERT_TRUE(Start().ok());
  RingHold hold(&g_ring_gate);
  EXPECT_TRUE(counting_.Start(&hold).ok());
  EXPECT_EQ(contexts_.starts, 1);
  PlanResult described;
  hold.Describe(&described);
  EXPECT_STREQ(described.text, "");
}

TEST_F(SdkCountingTest, WithDispatchesInFlightNothingIsStarted) {
  BeginDispatch();
  const PlanResult result = Start();
  EXPECT_EQ(result.error, ROCATTACH_PLAN_ERROR_CONFLICT);
  EXPECT_EQ(result.code, EBUSY);
  EXPECT_NE(strstr(result.text, "1 dispatches had not finished"), nullptr)
      << result.text;
  EXPECT_FALSE(counting_.on());
  EXPECT_EQ(contexts_.starts, 0);
  EndDispatch();
  EXPECT_TRUE(Start().ok());
  EXPECT_TRUE(counting_.on());
}

TEST_F(SdkCountingTest, ARefusalOfTheSdkIsTheAnswer) {
  contexts_.start_status = ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT;
  const PlanResult result = Start();
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.code, ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT);
  EXPECT_NE(strstr(result.text, "dispatch counting does not start"), nullptr)
      << result.text;
  EXPECT_FALSE(counting_.on());
  Ring(kDoorbell);  // the gate is open
  EXPECT_EQ(runtime_.stores, 1);
}

TEST_F(SdkCountingTest, StopsOnce) {
  counting_.Stop();
  EXPECT_EQ(contexts_.stops, 0) << "it is not on";
  ASSERT_TRUE(Start().ok());
  counting_.Stop();
  EXPECT_FALSE(counting_.on());
  EXPECT_FALSE(counting_.retries());
  counting_.Stop();
  EXPECT_EQ(contexts_.stops, 1);
  Ring(kDoorbell);
  EXPECT_EQ(runtime_.stores, 1);
}

TEST_F(SdkCountingTest, AStopThatIsNotPossibleIsRetried) {
  ASSERT_TRUE(Start().ok());
  BeginDispatch();
  counting_.Stop();
  EXPECT_TRUE(counting_.retries());
  EXPECT_TRUE(counting_.on());
  EXPECT_EQ(contexts_.stops, 0);
  EndDispatch();
  const auto stopped = [&] {
    counting_.Stop();
    return !counting_.retries();
  };
  testing_support::Await(stopped, "a stop that is possible");
  EXPECT_FALSE(counting_.on());
  EXPECT_EQ(contexts_.stops, 1);
}

TEST_F(SdkCountingTest, AStartEndsTheRetries) {
  ASSERT_TRUE(Start().ok());
  BeginDispatch();
  counting_.Stop();
  ASSERT_TRUE(counting_.retries());
  EXPECT_TRUE(Start().ok()) << "it is still on, and nothing has to be held";
  EXPECT_FALSE(counting_.retries());
  EXPECT_TRUE(counting_.on());
  EXPECT_EQ(contexts_.starts, 1);
}

// The SDK stops its contexts at a detach.
TEST_F(SdkCountingTest, AContextThatTheSdkHasStoppedIsNotStoppedAgain) {
  ASSERT_TRUE(Start().ok());
  contexts_.active = 0;
  counting_.Stop();
  EXPECT_FALSE(counting_.on());
  EXPECT_EQ(contexts_.stops, 0);
}

TEST_F(SdkCountingTest, AContextOfUnknownStateIsStopped) {
  ASSERT_TRUE(Start().ok());
  contexts_.active = 0;
  sdk_.context_is_active = nullptr;
  counting_.Stop();
  EXPECT_FALSE(counting_.on());
  EXPECT_EQ(contexts_.stops, 1);
}

TEST_F(SdkCountingTest, TheEndOfTheProcessStopsIt) {
  counting_.StopAtExit();
  EXPECT_EQ(contexts_.stops, 0) << "it is not on";
  ASSERT_TRUE(Start().ok());
  PlanState plan = {};
  plans_.Activate(&plan);
  counting_.StopAtExit();
  EXPECT_EQ(plans_.active(), nullptr);
  EXPECT_FALSE(counting_.on());
  EXPECT_EQ(contexts_.stops, 1);
}

// If counting were stopped now, the SDK would wait for them forever.
TEST_F(SdkCountingTest, AtTheEndOfTheProcessDispatchesInFlightAreLeftAlone) {
  ASSERT_TRUE(Start().ok());
  BeginDispatch();
  counting_.StopAtExit();
  EXPECT_FALSE(counting_.on());
  EXPECT_EQ(contexts_.stops, 0);
}

TEST_F(SdkCountingTest, IsOffInTheInstantOfAFork) {
  ASSERT_TRUE(Start().ok());
  counting_.SaveStateForFork();
  EXPECT_TRUE(counting_.on_at_fork());
  counting_.PauseForFork();
  EXPECT_FALSE(counting_.on_at_fork());
  EXPECT_FALSE(counting_.on());
  EXPECT_EQ(contexts_.stops, 1);
  counting_.ResumeAfterFork();
  EXPECT_TRUE(counting_.on());
  EXPECT_EQ(contexts_.starts, 2);
  Ring(kDoorbell);  // the gate is open again
  EXPECT_EQ(runtime_.stores, 1);
  counting_.ResumeAfterFork();
  EXPECT_EQ(contexts_.starts, 2) << "it resumes once";
}

TEST_F(SdkCountingTest, AForkWithDispatchesInFlightFindsItOn) {
  ASSERT_TRUE(Start().ok());
  BeginDispatch();
  counting_.SaveStateForFork();
  counting_.PauseForFork();
  EXPECT_TRUE(counting_.on_at_fork());
  EXPECT_EQ(contexts_.stops, 0);
  counting_.ResumeAfterFork();
  EXPECT_EQ(contexts_.starts, 1);
  EXPECT_TRUE(counting_.on());
}

TEST_F(SdkCountingTest, CountingThatIsOffIsNeitherPausedNorResumed) {
  counting_.SaveStateForFork();
  EXPECT_FALSE(counting_.on_at_fork());
  counting_.PauseForFork();
  counting_.ResumeAfterFork();
  EXPECT_EQ(contexts_.starts, 0);
  EXPECT_EQ(contexts_.stops, 0);
}

}  // namespace
}  // namespace rocattach::collector
