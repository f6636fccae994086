// A thread that is seized, runs on, and is stopped at a call for as long as it takes to
// redirect it.
#include "injector/call_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <thread>

#include "injector/process/maps.h"
#include "injector/process/thread_status.h"
#include "tests/integration/injector/signal_storm.h"
#include "tests/integration/injector/target_process.h"
#include "tests/integration/injector/urgent_call.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

SeenCall CallOf(const TargetProcess& target) {
  SeenCall call;
  call.tid = target.tid();
  call.ip = target.window();
  // Any address in its stack that leaves enough room.
  const auto maps = Maps::Read(target.pid());
  EXPECT_TRUE(maps.ok()) << maps.status();
  for (const Mapping& mapping : maps->mappings()) {
    if (mapping.path == "[stack]") call.stack_pointer = mapping.end.value() - 4096;
  }
  return call;
}

// Attaches on a thread that has ended when this returns.
AttachOutcome Enter(const TargetProcess& target, UrgentCall* call) {
  EXPECT_TRUE(call->usable());
  AttachOutcome outcome;
  std::thread([&] {
    outcome = AttachAtCall(target.Request(), *call->Seen(), nullptr, call);
  }).join();
  return outcome;
}

void ExpectUntraced(const TargetProcess& target) {
  for (int i = 0; i < 1000; ++i) {
    auto status = ReadThreadStatus(target.pid(), target.tid());
    ASSERT_TRUE(status.ok()) << status.status();
    if (status->tracer == 0) return;
    std::this_thread::yield();
  }
  FAIL() << "the thread is still traced";
}

TEST(CallTest, TheThreadIsEnteredWhereItStops) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  UrgentCall call(CallOf(target));
  const AttachOutcome outcome = Enter(target, &call);
  ASSERT_TRUE(outcome.ok()) << outcome.detail;
  EXPECT_EQ(call.armed(), 1);
  EXPECT_GE(outcome.released_ns, outcome.stopped_ns);
  EXPECT_GE(outcome.stopped_ns, outcome.seized_ns);
  EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  ExpectUntraced(target);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
}

// SIGALRM arrives all the time, and the target adds up queued signals.
TEST(CallTest, SignalsOnTheWayAreDelivered) {
  for (int i = 0; i < 5; ++i) {
    TargetProcess target;
    ASSERT_TRUE(target.Start("timer"));
    SignalStorm storm(target.pid());
    AttachOutcome outcome;
    // In a handler the thread is not at the call, and a probe would not stop it there.
    for (int n = 0; n < 1000 && !outcome.ok(); ++n) {
      UrgentCall call(CallOf(target));
      outcome = Enter(target, &call);
    }
    storm.Join();
    ASSERT_TRUE(outcome.ok()) << outcome.detail;
    EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
    target.Finish();
    EXPECT_TRUE(target.Intact()) << target.output();
    EXPECT_THAT(target.output(), HasSubstr(SignalStorm::Sum()));
  }
}

void ExpectAsBefore(TargetProcess& target, const TargetSnapshot& before) {
  ExpectUntraced(target);
  EXPECT_TRUE(target.RunsAgain());
  const TargetSnapshot after = target.Snapshot();
  EXPECT_EQ(before.descriptors, after.descriptors);
  EXPECT_EQ(before.mappings, after.mappings);
  EXPECT_EQ(before.signals, after.signals);
  EXPECT_EQ(before.code, after.code);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
  EXPECT_EQ(target.Report(), "");
}

TEST(CallTest, AThreadThatMakesNoOtherCallIsLeftAsItWas) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  const TargetSnapshot before = target.Snapshot();
  UrgentCall call(CallOf(target));
  call.EndCalls();
  const AttachOutcome outcome = Enter(target, &call);
  EXPECT_EQ(outcome.reason, AttachReason::kNoSafePoint) << outcome.detail;
  EXPECT_TRUE(outcome.retryable);
  EXPECT_EQ(call.armed(), 1);
  ExpectAsBefore(target, before);
}

// The kernel sends the signal, but not because of the call.
TEST(CallTest, TheSameSignalFromElsewhereStopsNothing) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  const TargetSnapshot before = target.Snapshot();
  UrgentCall call(CallOf(target));
  call.EndCalls();
  std::thread sender([&call] {
    for (int i = 0; i < 200; ++i) {
      call.SendSignal();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  const AttachOutcome outcome = Enter(target, &call);
  sender.join();
  EXPECT_EQ(outcome.reason, AttachReason::kNoSafePoint) << outcome.detail;
  ExpectAsBefore(target, before);
}

TEST(CallTest, AStopElsewhereIsNotUsed) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  const TargetSnapshot before = target.Snapshot();
  SeenCall elsewhere = CallOf(target);
  elsewhere.ip -= 64;
  UrgentCall call(elsewhere);
  const AttachOutcome outcome = Enter(target, &call);
  EXPECT_EQ(outcome.reason, AttachReason::kNotAtWindow) << outcome.detail;
  EXPECT_GT(call.armed(), 1) << "the next call may be the right one";
  ExpectAsBefore(target, before);
}

TEST(CallTest, AThreadOfAnotherProcessIsNotEntered) {
  TargetProcess target, other;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  ASSERT_TRUE(other.Start("plain") && other.WaitAtWindow());
  const TargetSnapshot before = target.Snapshot(), others = other.Snapshot();
  SeenCall foreign = CallOf(target);
  foreign.tid = other.tid();
  UrgentCall call(foreign);
  const AttachOutcome outcome = Enter(target, &call);
  EXPECT_FALSE(outcome.ok());
  EXPECT_EQ(call.armed(), 0);
  ExpectAsBefore(target, before);
  ExpectAsBefore(other, others);
}

}  // namespace
}  // namespace rocattach
