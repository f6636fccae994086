// Sessions and their target processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/library/engine_fixture.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(SessionEngineTest, OneActiveSessionPerProcessAndManyProcesses) {
  const ProcessId second = backend_->AddProcess(200, {MakeGpu(1, "GPU-b")});
  const SessionId a = Ready(Timestamps());
  const SessionId b = Ready(Timestamps());
  const SessionId all = Ready(Timestamps());
  ASSERT_TRUE(engine_.AddSessionTarget(a, target_).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(b, second).ok());
  ASSERT_TRUE(engine_.StartSession(a).ok());
  ASSERT_TRUE(engine_.StartSession(b).ok());
  EXPECT_STATUS(S::kHasActiveSession, engine_.AddSessionTarget(a, second));
  auto refused = engine_.StartSession(all);
  EXPECT_STATUS(S::kHasActiveSession, refused);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("process 100"));
  EXPECT_TRUE(backend_->process(target_).running);
  ASSERT_TRUE(engine_.TerminateSession(a).ok());
  ASSERT_TRUE(engine_.TerminateSession(b).ok());
  ASSERT_TRUE(engine_.StartSession(all).ok());
  EXPECT_TRUE(backend_->process(target_).running);
  EXPECT_TRUE(backend_->process(second).running);
  EXPECT_STATUS(S::kHasActiveSession, engine_.StartSession(a));
}

// Counters of a set or a block may be newer than a process's SDK; counters that the
// user has named must exist.
TEST_F(SessionEngineTest, CountersThatAnSdkLacksAreLeftOutUnlessNamed) {
  FilterSpec filter = Counters({"SQ_WAVES", "TCC_HIT", "TCC_MISS", "L2CacheHit"});
  filter.optional = {"TCC_HIT", "TCC_MISS", "L2CacheHit"};
  backend_->process(target_).sdk_lacks = {"TCC_MISS", "TCC_HIT"};
  const SessionId session = Ready(filter);
  ASSERT_TRUE(engine_.StartSession(session).ok());
  ASSERT_TRUE(backend_->process(target_).running);
  const CompiledPlan& plan = *backend_->process(target_).plan;
  EXPECT_THAT(plan.counter_names, ElementsAre("SQ_WAVES"));
  ASSERT_EQ(plan.left_out.size(), 1u);
  EXPECT_THAT(plan.left_out[0].Text(), HasSubstr("TCC_MISS"));
  EXPECT_THAT(plan.left_out[0].Text(), HasSubstr("TCC_HIT"));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());

  filter.optional = {"TCC_HIT", "L2CacheHit"};
  const SessionId named = Ready(filter);
  const absl::Status refused = engine_.StartSession(named);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no counter TCC_"));
  EXPECT_FALSE(backend_->process(target_).running);
}

TEST_F(SessionEngineTest, AGpuThatCannotBeMeasuredIsLeftOutUnlessNamed) {
  const ProcessId two =
      backend_->AddProcess(200, {MakeGpu(1, "GPU-x"), MakeGpu(2, "GPU-y", "gfx1036")});
  FilterSpec filter = Counters({"SQ_WAVES"});
  const SessionId session = Ready(filter);
  ASSERT_TRUE(engine_.AddSessionTarget(session, two).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  const CompiledPlan& plan = *backend_->process(two).plan;
  EXPECT_THAT(plan.counter_gpus, ElementsAre("GPU-x"));
  ASSERT_EQ(plan.left_out.size(), 1u);
  EXPECT_THAT(plan.left_out[0].Text(), HasSubstr("GPU 1 (gfx1036)"));
  EXPECT_EQ(plan.Architecture(2), nullptr);
  ASSERT_TRUE(engine_.TerminateSession(session).ok());

  filter.selection.gpus = {"0", "1"};
  const SessionId named = Ready(filter);
  ASSERT_TRUE(engine_.AddSessionTarget(named, two).ok());
  EXPECT_THAT(std::string(engine_.StartSession(named).message()), HasSubstr("gfx1036"));
}

TEST_F(SessionEngineTest, ProcessesThatComeLaterAreJoined) {
  const SessionId all = Ready(Timestamps());
  ASSERT_TRUE(engine_.StartSession(all).ok());
  const ProcessId late = backend_->AddProcess(300, {MakeGpu(1, "GPU-a")});
  runner_->Arrived(late);
  EXPECT_TRUE(backend_->process(late).running);
  runner_->Arrived(late);  // the second call does nothing
  EXPECT_EQ(backend_->process(late).starts, 1);
  backend_->Dispatch(late, Dispatch(1, true));
  ASSERT_TRUE(engine_.TerminateSession(all).ok());
  ASSERT_EQ(seen_.size(), 1u);
  EXPECT_EQ(seen_[0].profiler.pid, 300);
  runner_->Arrived(late);
  EXPECT_FALSE(backend_->process(late).running);
}

TEST_F(SessionEngineTest, OneSessionPerGpusCounters) {
  const ProcessId same_gpu = backend_->AddProcess(200, {MakeGpu(1, "GPU-a")});
  const SessionId a = Ready(Counters({"SQ_WAVES"}));
  const SessionId b = Ready(Counters({"GRBM_COUNT"}));
  const SessionId c = Ready(Timestamps());
  ASSERT_TRUE(engine_.AddSessionTarget(a, target_).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(b, same_gpu).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(c, same_gpu).ok());
  ASSERT_TRUE(engine_.StartSession(a).ok());
  auto refused = engine_.StartSession(b);
  EXPECT_STATUS(S::kHasActiveSession, refused);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat(
                  "session ", static_cast<uint64_t>(a) & 0xffffffffff)));  // the owner
  EXPECT_FALSE(backend_->process(same_gpu).running);
  EXPECT_TRUE(engine_.StartSession(c).ok());  // timestamps have no owner
  ASSERT_TRUE(engine_.TerminateSession(c).ok());
  ASSERT_TRUE(engine_.TerminateSession(a).ok());
  EXPECT_TRUE(engine_.StartSession(b).ok());
}

TEST_F(SessionEngineTest, StartSaysWhatAProcessCannotGive) {
  backend_->process(target_).description.record_kinds =
      ROCATTACH_PLAN_RECORD_DISPATCHES;
  auto refused = engine_.StartSession(Ready(Counters({"SQ_WAVES"})));
  EXPECT_STATUS(S::kFilterNotSupported, refused);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("it is a fake"));
  EXPECT_TRUE(engine_.StartSession(Ready(Timestamps())).ok());
}

TEST_F(SessionEngineTest, StartChecksTheGpusOfTheProcess) {
  const ProcessId old = backend_->AddProcess(200, {MakeGpu(1, "GPU-b", "gfx906")});
  const ProcessId odd = backend_->AddProcess(300, {MakeGpu(1, "GPU-c", "gfx1036")});
  auto start = [&](FilterSpec spec, ProcessId target) {
    const SessionId session = Ready(spec);
    EXPECT_TRUE(engine_.AddSessionTarget(session, target).ok());
    const absl::Status status = engine_.StartSession(session);
    EXPECT_TRUE(engine_.DestroySession(session).ok());
    return status;
  };
  EXPECT_STATUS(S::kCounterNotFound, start(Counters({"SQ_INSTS_MFMA"}), old));
  EXPECT_STATUS(S::kCounterInformationMissing, start(Counters({"SQ_WAVES"}), odd));
  FilterSpec spec = Timestamps();
  spec.selection.gpus = {"gfx942"};
  EXPECT_STATUS(S::kAgentNotFound, start(spec, target_));
  spec.selection.gpus = {"MI210"};
  EXPECT_STATUS(S::kSuccess, start(spec, target_));
  spec = Counters({"GRBM_COUNT", "GRBM_GUI_ACTIVE", "GRBM_CP_BUSY"});
  spec.single_pass = true;
  EXPECT_STATUS(S::kInvalidArguments, start(spec, target_));
  spec.single_pass = false;
  EXPECT_STATUS(S::kSuccess, start(spec, target_));
  EXPECT_STATUS(S::kError, start(Timestamps(), ProcessId{999, 1}));  // no longer exists
  backend_->process(target_).start_error = absl::InternalError("no");
  EXPECT_STATUS(S::kError, start(Timestamps(), target_));
}

TEST_F(SessionEngineTest, AProcessWithoutSupportDoesNotExcludeOthers) {
  const ProcessId poor =
      backend_->AddProcess(50, {MakeGpu(1, "GPU-b")}, ROCATTACH_PLAN_RECORD_DISPATCHES);
  const SessionId all = Ready(Counters({"SQ_WAVES"}));
  ASSERT_TRUE(engine_.StartSession(all).ok());
  EXPECT_TRUE(backend_->process(target_).running);
  EXPECT_FALSE(backend_->process(poor).running);
  // Unless it was named as a target.
  ASSERT_TRUE(engine_.TerminateSession(all).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(all, target_).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(all, poor).ok());
  EXPECT_STATUS(S::kFilterNotSupported, engine_.StartSession(all));
  EXPECT_FALSE(backend_->process(target_).running);
}

TEST_F(SessionEngineTest, PlanHoldsThePassesAndRotation) {
  FilterSpec spec =
      Counters({"GRBM_COUNT", "GRBM_GUI_ACTIVE", "GRBM_CP_BUSY", "SQ_WAVES"});
  spec.rotation_iterations = 3;
  const SessionId session = Ready(spec);
  ASSERT_TRUE(engine_.StartSession(session).ok());
  const rocattach_plan& image = *backend_->process(target_).plan->image;
  EXPECT_EQ(image.magic, ROCATTACH_PLAN_MAGIC);
  EXPECT_EQ(image.session_id, static_cast<uint64_t>(session));
  EXPECT_EQ(image.rotation, uint32_t{ROCATTACH_ROTATE_ITERATIONS});
  EXPECT_EQ(image.rotation_interval, 3u);
  ASSERT_EQ(image.architectures, 1u);
  EXPECT_STREQ(image.architecture[0].name, "gfx90a");
  ASSERT_EQ(image.architecture[0].dispatch_passes, 2u);
  std::vector<std::string> names;
  for (uint32_t pass = 0; pass < image.passes; ++pass) {
    for (uint32_t i = 0; i < image.pass[pass].counters; ++i) {
      names.push_back(
          image.counter_name[image.pass_counters[image.pass[pass].first_counter + i]]);
    }
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("GRBM_COUNT", "GRBM_GUI_ACTIVE",
                                                     "GRBM_CP_BUSY", "SQ_WAVES"));
}

}  // namespace
}  // namespace rocattach
