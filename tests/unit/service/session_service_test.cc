// Sessions that start and stop, and targets that interfere with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/await.h"
#include "tests/unit/service/session_service_fixture.h"

namespace rocattach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(SessionServiceTest, StartsStopsAndStartsAgain) {
  FakeCollector fake;
  fake.AddKernel(1, "vadd");
  Player player(&fake);
  Arrive(&fake);
  for (int round = 1; round <= 3; ++round) {
    auto session = service_->Start({.filters = {Counters({"SQ_WAVES", "GRBM_COUNT"})}});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ(player.plan()->counters, 2u);
    const uint64_t generation = player.Generation();
    PublishCounted(&fake, static_cast<uint64_t>(round), {10.0 * round, 7}, generation);
    ASSERT_TRUE(service_->Stop(*session).ok());
    EXPECT_EQ(player.plan()->record_kinds, 0u);
    EXPECT_GT(player.Generation(), generation);
  }
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.values.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(seen.values[i].operation, i / 2 + 1);
    EXPECT_EQ(seen.values[i].sum, i % 2 ? 7 : 10.0 * (i / 2 + 1));
    EXPECT_EQ(seen.values[i].kernel_id, 1u);
    EXPECT_EQ(seen.values[i].instances, 4u);
  }
  EXPECT_EQ(seen.plans.size(), 1u) << "the same plan is told once";
  ASSERT_EQ(seen.events.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(seen.events[i].what(),
              i % 2 ? v1::SessionEvent::STOPPED : v1::SessionEvent::STARTED);
  }
  EXPECT_EQ(seen.dispatches.size(), 3u);
  EXPECT_EQ(seen.dispatches[0].flags, 0) << "the tag stays between us and the target";
  EXPECT_EQ(seen.account.counted_seen(), 3u);
  EXPECT_EQ(seen.account.counted_delivered(), 3u);
  EXPECT_EQ(seen.account.counted_dropped(), 0u);
}

TEST_F(SessionServiceTest, TheCollectorsRefusalIsReported) {
  FakeCollector fake;
  Player player(&fake, ROCATTACH_PLAN_ERROR_NO_COUNTER);
  Arrive(&fake);
  auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_FALSE(session.ok());
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("no ? SQ_WAVES"));
  // The process is free for the next session.
  EXPECT_FALSE(service_->needs_sdk());
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.events.size(), 1u);
  EXPECT_EQ(seen.events[0].what(), v1::SessionEvent::REFUSED);
  EXPECT_THAT(seen.events[0].detail(),
              AllOf(HasSubstr("SQ_WAVES"), Not(HasSubstr("NOT_FOUND: "))));
}

TEST_F(SessionServiceTest, AProcessWithoutTheSdkIsRefusedByNameAndTheOthersGoOn) {
  FakeCollector without, with;
  Player first(&without), second(&with);
  auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(session.ok()) << "nobody is there yet: " << session.status();
  EXPECT_TRUE(service_->holds_arrivals());
  EXPECT_TRUE(service_->needs_sdk());
  Arrive(&without, 0, ROCATTACH_PLAN_RECORD_DISPATCHES, /*acknowledged=*/false);
  Arrive(&with, 1);
  for (int i = 0; i < 1000; ++i) {
    if (second.Generation() != 0 &&
        __atomic_load_n(&without.control()->service_mapped, __ATOMIC_ACQUIRE) != 0) {
      break;
    }
    usleep(1000);
  }
  EXPECT_EQ(without.control()->service_mapped, 1u) << "it is let go all the same";
  EXPECT_EQ(first.Generation(), 0u);
  EXPECT_NE(second.Generation(), 0u);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_THAT(refused_, HasSubstr("cannot give hardware counters"));
  }
  const std::vector<SessionInfo> list = service_->List();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].running, (std::vector<pid_t>{5'000'001}));
  EXPECT_EQ(list[0].refused.size(), 1u);
  Exit(0);
  Exit(1);
}

TEST_F(SessionServiceTest, AProcessThatDiesDuringAStartDoesNotBlockIt) {
  FakeCollector fake;  // without a Player nothing is answered
  Arrive(&fake);
  std::thread killer([&] {
    // Wait until its plan has been written.
    const auto is_written = [&] {
      return __atomic_load_n(&fake.plan()->generation, __ATOMIC_ACQUIRE) != 0;
    };
    testing_support::Await(is_written, "the plan");
    Exit();
  });
  auto session = service_->Start(
      {.targets = {{.pid = 5'000'000}}, .filters = {Counters({"SQ_WAVES"})}});
  killer.join();
  EXPECT_FALSE(session.ok());
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("ended"));
  const Seen seen = Finish();
  ASSERT_GE(seen.events.size(), 1u);
  EXPECT_EQ(seen.events[0].what(), v1::SessionEvent::LOST);
}

// A process counts as served once it has answered, whatever the answer.
TEST_F(SessionServiceTest, ProcessesCountAsServedOnceTheyHaveAnswered) {
  FakeCollector with, without;
  Player accepts(&with), refuses(&without, ROCATTACH_PLAN_ERROR_NO_COUNTER);
  std::vector<std::pair<uint64_t, size_t>> served;
  service_->SetOnServed([&] {
    const SessionInfo session = service_->List().at(0);
    std::lock_guard<std::mutex> lock(mutex_);
    served.emplace_back(service_->served(),
                        session.running.size() + session.refused.size());
  });
  ASSERT_TRUE(service_->Start({.filters = {Counters({"SQ_WAVES"})}}).ok());
  EXPECT_EQ(service_->served(), 0u);
  Arrive(&with);
  Arrive(&without, 1);
  for (int i = 0; i < 10'000 && service_->served() < 2; ++i) usleep(1000);
  service_->Close();
  EXPECT_EQ(served, (std::vector<std::pair<uint64_t, size_t>>{{1, 1}, {2, 2}}));
}

TEST_F(SessionServiceTest, ASilentCollectorIsAbandonedInTime) {
  FakeCollector fake;
  Arrive(&fake);
  auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_FALSE(session.ok());
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("did not answer"));
  EXPECT_EQ(fake.plan()->record_kinds, 0u) << "the plan is taken back";
  Exit();
}

// One process of a session answers when the session ends, and another one does not. If
// the silence of the second is reported as a refusal, the end has waited for it.
class SilentTargetTest : public SessionServiceTest {
 protected:
  void ExpectNotWaitedFor() {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_THAT(refused_, Not(HasSubstr("did not answer")));
  }
  static void AwaitPlan(FakeCollector* fake) {
    testing_support::Await([fake] { return fake->plan()->record_kinds != 0; },
                           "a process's plan");
  }
  static void AwaitPlanTakenBack(FakeCollector* fake) {
    testing_support::Await([fake] { return fake->plan()->record_kinds == 0; },
                           "a process's plan to be taken back");
  }

  FakeCollector good_, silent_;
  Player player_{&good_};
};

TEST_F(SilentTargetTest, DoesNotHoldTheEndOfASession) {
  Arrive(&good_);
  Arrive(&silent_, 1);
  const auto session = service_->Start(
      {.filters = {Counters({"SQ_WAVES"})}, .duration_ns = 300'000'000});
  // On a very busy machine the session may have begun in neither process.
  if (!session.ok()) {
    EXPECT_THAT(std::string(session.status().message()), HasSubstr("session"));
  }
  AwaitPlanTakenBack(&good_);
  ExpectNotWaitedFor();
  AwaitPlanTakenBack(&silent_);
}

TEST_F(SilentTargetTest, DoesNotHoldTheEndOfAPeriod) {
  const auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})},
                                        .periods = {{0, 300'000'000, 1}},
                                        .from_first_process = true});
  ASSERT_TRUE(session.ok()) << session.status();
  Arrive(&good_);
  Arrive(&silent_, 1);
  testing_support::Await([&] { return service_->List().at(0).over; },
                         "the end of the session");
  ExpectNotWaitedFor();
  AwaitPlanTakenBack(&good_);
}

TEST_F(SilentTargetTest, DoesNotHoldAStop) {
  const auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(session.ok()) << session.status();
  Arrive(&good_);
  AwaitPlan(&good_);
  Arrive(&silent_, 1);
  AwaitPlan(&silent_);
  EXPECT_TRUE(service_->Stop(*session).ok());
  ExpectNotWaitedFor();
  AwaitPlanTakenBack(&good_);
}

TEST_F(SilentTargetTest, DoesNotHoldTheEndOfTheService) {
  const auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(session.ok()) << session.status();
  Arrive(&silent_);
  AwaitPlan(&silent_);
  service_->Close();
  ExpectNotWaitedFor();
  AwaitPlanTakenBack(&silent_);
}

TEST_F(SessionServiceTest, HostileRecordsAreCountedNotBelieved) {
  FakeCollector fake;
  fake.AddKernel(1, "vadd");
  Player player(&fake);
  Arrive(&fake);
  auto session = service_->Start({.filters = {Counters({"SQ_WAVES", "GRBM_COUNT"})}});
  ASSERT_TRUE(session.ok());
  const uint64_t generation = player.Generation();
  // Values of another dispatch, of another plan, cut off, and with counters, passes and
  // numbers of values or instances that the plan does not allow.
  std::vector<rocattach_values> all(7, Values(1, generation, 0, 1));
  all[0].correlation_id = 99;
  all[1].plan_generation = generation + 2;
  all[2].slots = 40;
  all[3].value[0].counter = 2;
  all[4].pass = 1;
  all[5].count = 3;
  all[6].value[0].instances = 0;
  for (const rocattach_values& values : all) {
    rocattach_dispatch record = FakeCollector::Dispatch(1);
    record.agent_id = 1;
    record.flags = static_cast<uint16_t>(ROCATTACH_DISPATCH_COUNTED |
                                         ROCATTACH_DISPATCH_FOR_COUNTERS |
                                         ROCATTACH_PLAN_TAG(generation) << 9);
    fake.Publish(0, &record);
    fake.Publish(0, &values);
    AwaitDrained(&fake);
  }
  rocattach_values alone = Values(1, generation, 0, 1);
  fake.Publish(1, &alone);
  rocattach_sample sample = {};
  sample.kind = ROCATTACH_RECORD_SAMPLE;
  sample.plan_generation = 4711;
  sample.slots = 1;
  fake.Publish(1, &sample);
  rocattach_api_call call = {};
  call.kind = ROCATTACH_RECORD_API;
  call.domain = 77;
  fake.Publish(1, &call);
  AwaitDrained(&fake);
  // Valid values still count after the target has overwritten its plan.
  player.Scribble();
  PublishCounted(&fake, 50, {3, 4}, generation);
  AwaitDrained(&fake);
  EXPECT_TRUE(service_->Stop(*session).ok());
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.values.size(), 2u);
  EXPECT_EQ(seen.values[0].operation, 50u);
  EXPECT_TRUE(seen.samples.empty());
  EXPECT_TRUE(seen.calls.empty());
  EXPECT_EQ(seen.account.counted_dropped(), 7u);
  EXPECT_EQ(seen.account.samples_dropped(), 1u);
  EXPECT_EQ(seen.account.api_calls_dropped(), 1u);
}

TEST_F(SessionServiceTest, KernelNamesDecideWhatTheTargetCannot) {
  FakeCollector fake;
  fake.AddKernel(1, "vadd");
  fake.AddKernel(2, "scale");
  Player player(&fake);
  Arrive(&fake);
  FilterSpec spec = Counters({"SQ_WAVES"});
  spec.selection.kernel_include = {"^va"};
  auto session = service_->Start({.filters = {spec}});
  ASSERT_TRUE(session.ok()) << session.status();
  const rocattach_plan_selection& selection =
      player.plan()->selections[ROCATTACH_PLAN_SELECTION_COUNTERS];
  EXPECT_EQ(selection.kernels_decided, 3u);
  EXPECT_EQ(selection.kernels[0], 2u);
  fake.AddKernel(3, "vadd<double>");
  const auto decided = [&] {
    return __atomic_load_n(&selection.kernels_decided, __ATOMIC_ACQUIRE) >= 4;
  };
  testing_support::Await(decided, "the decision about the third kernel");
  EXPECT_EQ(selection.kernels[0], 2u | 8u);
  // Dispatches recorded before the decision was known.
  for (uint32_t kernel = 2; kernel <= 3; ++kernel) {
    rocattach_dispatch record = FakeCollector::Dispatch(kernel);
    record.kernel_id = kernel;
    record.agent_id = 1;
    record.flags = static_cast<uint16_t>(ROCATTACH_DISPATCH_COUNTED |
                                         ROCATTACH_DISPATCH_FOR_COUNTERS |
                                         ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED |
                                         ROCATTACH_PLAN_TAG(player.Generation()) << 9);
    fake.ring(0)->counted_seen += 1;
    fake.Publish(0, &record);
    rocattach_values values = Values(kernel, player.Generation(), 0, 1);
    fake.Publish(0, &values);
  }
  AwaitDrained(&fake);
  EXPECT_TRUE(service_->Stop(*session).ok());
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.values.size(), 1u);
  EXPECT_EQ(seen.values[0].kernel_id, 3u);
  ASSERT_EQ(seen.dispatches.size(), 1u);
  EXPECT_EQ(seen.account.dispatches_seen(), 1u);
  EXPECT_EQ(seen.account.counted_seen(), 1u);
}

// The constants that metrics may use for the counted GPU, from its plan in the stream.
std::map<std::string, double> Constants(const v1::SessionPlan& plan) {
  std::map<std::string, double> constants;
  for (const v1::AgentConstant& constant : plan.agents(0).constants()) {
    constants[constant.name()] = constant.value();
  }
  return constants;
}

struct Dies {
  const char* architecture;
  uint32_t told;
  double expected;  // 0: no value
};

class SessionDiesTest : public SessionServiceTest,
                        public testing::WithParamInterface<Dies> {};

TEST_P(SessionDiesTest, MetricsUseTheNumberOfDiesFromTheSdk) {
  architecture_ = GetParam().architecture;
  xccs_ = GetParam().told;
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(service_->Stop(*session).ok());
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.plans.size(), 1u);
  ASSERT_EQ(seen.plans[0].agents_size(), 1);
  const std::map<std::string, double> constants = Constants(seen.plans[0]);
  EXPECT_EQ(constants.at("CU_NUM"), 104);
  if (GetParam().expected == 0) {
    EXPECT_FALSE(constants.contains("XCC_NUM"))
        << "the partition mode decides: a guess would be a wrong metric";
  } else {
    EXPECT_EQ(constants.at("XCC_NUM"), GetParam().expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, SessionDiesTest,
                         testing::Values(Dies{"gfx906", 0, 1}, Dies{"gfx90a", 0, 1},
                                         Dies{"gfx90a", 1, 1}, Dies{"gfx942", 0, 0},
                                         Dies{"gfx942", 6, 6}, Dies{"gfx940", 8, 8}));

// Frequent changes of sessions must not make the service grow.
TEST_F(SessionServiceTest, TheNumberOfRememberedPlansIsBounded) {
  constexpr size_t kRemembered = 64;
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  std::vector<std::string> names;
  const ArchitectureCounters* known = service_->catalog().Find(architecture_);
  for (const HardwareCounter& counter : known->counters()) {
    const uint32_t room = known->FindBlock(counter.block)->counters;
    if (!counter.follows && counter.slots <= room) names.push_back(counter.name);
  }
  ASSERT_GT(names.size(), kRemembered + 1);
  const auto run = [&](size_t number) {
    auto session = service_->Start({.filters = {Counters({names[number]})}});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(service_->Stop(*session).ok());
  };
  for (size_t number = 1; number <= kRemembered; ++number) run(number);
  run(1);                // remembered: written once
  run(kRemembered + 1);  // one too many: all but the last are forgotten
  run(kRemembered + 1);
  run(1);  // forgotten: written again, under a new number
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.plans.size(), kRemembered + 2);
  std::set<uint32_t> numbers;
  for (const v1::SessionPlan& plan : seen.plans) numbers.insert(plan.id());
  EXPECT_EQ(numbers.size(), seen.plans.size()) << "no number stands for two plans";
  EXPECT_EQ(seen.plans.front().description(), seen.plans.back().description());
}

}  // namespace
}  // namespace rocattach
