// Switching the SDK's counting and copies where that is not possible at once, and
// records that the SDK does not deliver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "tests/integration/collector/sdk_checks.h"
#include "tests/integration/collector/sdk_run.h"
#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

class SdkSwitch : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_TARGETS_CAN_BE_MAPPED(); }
};

// A session is to start while a kernel of four seconds runs.
TEST_F(SdkSwitch, AStartIsRefusedWhileADispatchDoesNotFinish) {
  uint64_t first = 0, second = 0;
  PlanAnswer refused, accepted;
  SdkResult result =
      RunSdk({.steps = {"begin", "wait"},
              .recording = true,
              .environment = {"SIMGPU_KERNEL_NS=4000000000"},
              .step = [&](SdkTarget& target) {
                PlanAnswer answer;
                if (first == 0) {
                  // Waits until the dispatch runs.
                  if (target.memory.Account().dispatches_seen == 0) return;
                  first = target.Write({CountersFilter({"SQ_WAVES"})});
                } else if (refused.generation == 0) {
                  if (target.Answered(first, &answer)) refused = answer;
                } else if (second == 0) {
                  if (target.result.dispatches.empty()) return;
                  second = target.Write({CountersFilter({"SQ_WAVES", "GRBM_COUNT"})});
                } else if (target.Answered(second, &answer)) {
                  accepted = answer;
                  target.Continue();
                }
              }});
  EXPECT_EQ(refused.error, static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_CONFLICT));
  EXPECT_THAT(refused.text, HasSubstr("had not finished after 1500 ms"));
  ASSERT_NE(accepted.generation, 0u);
  EXPECT_EQ(accepted.error, 0u) << accepted.text;
  EXPECT_THAT(accepted.text, HasSubstr("dispatches were held for"));
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 1u);
}

// A child is forked during a long dispatch, so counting cannot be stopped for the fork.
// The child ends nevertheless.
TEST_F(SdkSwitch, AChildEndsAlthoughCountingCouldNotBeStopped) {
  SdkResult result = RunSdk({.steps = {"begin", "fork"},
                             .filters = {CountersFilter({"SQ_WAVES"})},
                             .environment = {"SIMGPU_KERNEL_NS=3000000000"}});
  ASSERT_EQ(result.run.exit_status, 0) << result.run.errors << result.run.output;
  EXPECT_EQ(result.run.errors, "");
  EXPECT_THAT(result.LogOrder({"sdk.stop_context_in_child"}), testing::IsEmpty());
}

// Children of a busy process whose dispatches are counted all the time.
TEST_F(SdkSwitch, ChildrenEndAndEveryDispatchIsCounted) {
  SdkResult result = RunSdk({.threads = 8,
                             .steps = {"dispatch:100", "fork", "dispatch:100", "fork",
                                       "fork", "dispatch:100"},
                             .filters = {CountersFilter({"SQ_WAVES", "TCC_HIT"})}});
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 2400u);
  EXPECT_EQ(CountFlag(result.run, ROCATTACH_DISPATCH_COUNTED), 2400u);
  EXPECT_EQ(ExpectTrueValues(result.run, *result.plan, result.generation), 4800u);
  EXPECT_THAT(result.LogOrder({"sdk.stop_context_in_child"}), testing::IsEmpty());
}

// Copies without a record are counted as dropped.
TEST_F(SdkSwitch, CopiesThatTheSdkDoesNotDeliverAreLost) {
  SdkResult result = RunSdk({.steps = {"copy:40"},
                             .recording = true,
                             .environment = {"SIMROCM_LOSE_COPIES=10"}});
  ASSERT_EQ(result.run.exit_status, 0) << result.run.errors;
  EXPECT_EQ(result.run.copies.size(), 36u);
  EXPECT_EQ(result.run.account.copies_seen, 40u);
  EXPECT_EQ(result.run.account.other_dropped, 4u);
}

// The runtime's thread sleeps through handlers of the SDK, and nothing else wakes it:
// the program would wait for a copy that has long ended.
TEST_F(SdkSwitch, CopiesGoOnWhereTheRuntimeSleepsThroughAHandler) {
  SdkResult result = RunSdk({.steps = {"copy:40"},
                             .recording = true,
                             .environment = {"SIMROCM_LOSE_WAKEUPS=5"}});
  ASSERT_EQ(result.run.exit_status, 0) << result.run.errors << result.run.output;
  EXPECT_EQ(result.run.copies.size(), 40u);
  EXPECT_EQ(result.run.account.copies_seen, 40u);
  EXPECT_EQ(result.run.account.other_dropped, 0u);
}

// The same with handlers of dispatches, both counted and only traced.
TEST_F(SdkSwitch, DispatchesGoOnWhereTheRuntimeSleepsThroughAHandler) {
  SdkResult counted = RunSdk({.steps = {"dispatch:40"},
                              .filters = {CountersFilter({"SQ_WAVES"})},
                              .environment = {"SIMROCM_LOSE_WAKEUPS=5"}});
  ExpectCleanRun(counted);
  EXPECT_EQ(CountFlag(counted.run, ROCATTACH_DISPATCH_COUNTED), 40u);
  EXPECT_EQ(ExpectTrueValues(counted.run, *counted.plan, counted.generation), 40u);
  SdkResult traced = RunSdk({.steps = {"dispatch:40"},
                             .recording = true,
                             .environment = {"SIMROCM_LOSE_WAKEUPS=5"}});
  ExpectCleanRun(traced);
  EXPECT_EQ(traced.run.dispatches.size(), 40u);
}

// Switching counting does not wait for the sleeping thread either.
TEST_F(SdkSwitch, CountingIsSwitchedWhereTheRuntimeSleepsThroughAHandler) {
  uint64_t first = 0, second = 0;
  PlanAnswer accepted;
  SdkResult result =
      RunSdk({.threads = 2,
              .steps = {"dispatch:100", "wait", "dispatch:100"},
              .recording = true,
              .environment = {"SIMROCM_LOSE_WAKEUPS=2"},
              .step = [&](SdkTarget& target) {
                PlanAnswer answer;
                if (first == 0) {
                  if (target.memory.Account().dispatches_seen < 50) return;
                  first = target.Write({CountersFilter({"SQ_WAVES"})});
                } else if (second == 0 && target.Answered(first, &answer)) {
                  EXPECT_EQ(answer.error, 0u) << answer.text;
                  second = target.Write({CountersFilter({"SQ_WAVES", "GRBM_COUNT"})});
                } else if (second != 0 && target.Answered(second, &answer)) {
                  accepted = answer;
                  target.Continue();
                }
              }});
  ASSERT_NE(accepted.generation, 0u);
  EXPECT_EQ(accepted.error, 0u) << accepted.text;
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 400u);
}

// An SDK that can create counters on demand, and SDK 1.0, which gets their definitions
// while it starts.
class SdkAccumulators : public SdkSwitch, public testing::WithParamInterface<bool> {
 protected:
  std::vector<std::string> Environment() const {
    return {absl::StrCat("SIMROCM_CREATE_COUNTER=", GetParam() ? 1 : 0)};
  }
  // Number of times that definitions were passed to the SDK.
  static size_t Definitions(const SdkResult& result) {
    return result.LogOrder({"sdk.load_counter_definition"}).size();
  }
};
INSTANTIATE_TEST_SUITE_P(Sdks, SdkAccumulators, testing::Bool(), [](const auto& sdk) {
  return sdk.param ? "ThatMakesCounters" : "OneDotZero";
});

// The SDK sorts counters, so the hardware's accumulator would follow another counter.
TEST_P(SdkAccumulators, AccumulatorsFollowTheirCounter) {
  const std::map<std::string, std::string> leaders = {
      {"SQ_ACCUM_PREV_HIRES", "SQ_WAVES"}, {"SQ_ACCUM_PREV", "SQ_INST_LEVEL_LDS"}};
  SdkResult result = RunSdk(
      {.steps = {"dispatch:20"},
       .filters = {CountersFilter({"SQ_WAVES", "SQ_ACCUM_PREV_HIRES", "SQ_IFETCH_LEVEL",
                                   "SQ_INST_LEVEL_LDS", "SQ_ACCUM_PREV"})},
       .environment = Environment()});
  EXPECT_EQ(Definitions(result), GetParam() ? 0u : 1u);
  if (!GetParam()) {
    // SDK 1.0 would give a counter and its accumulation the sum of both.
    EXPECT_EQ(result.answer.error, uint32_t{ROCATTACH_PLAN_ERROR_NO_COUNTER});
    EXPECT_THAT(result.answer.text, HasSubstr("gives wrong values of SQ_"));
    EXPECT_EQ(result.run.exit_status, 0) << result.run.errors;
    return;
  }
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ASSERT_EQ(result.run.exit_status, 0) << result.run.errors;
  ASSERT_EQ(result.run.dispatches.size(), 20u);
  size_t seen = 0;
  for (const rocattach_dispatch& dispatch : result.run.dispatches) {
    for (const rocattach_values& slot : result.run.values.at(dispatch.correlation_id)) {
      for (uint32_t i = 0; i < slot.count; ++i) {
        std::string name = result.plan->counter_names.at(slot.value[i].counter);
        uint64_t factor = 1;
        if (const auto leader = leaders.find(name); leader != leaders.end()) {
          factor = name == "SQ_ACCUM_PREV" ? simrocm::kAccumulatedLowRes
                                           : simrocm::kAccumulatedHighRes;
          name = leader->second;
        }
        EXPECT_EQ(slot.value[i].sum,
                  static_cast<double>(factor *
                                      simrocm::CounterTotal(name, ShapeOf(dispatch))))
            << name;
        ++seen;
      }
    }
  }
  EXPECT_EQ(seen, 100u);
}

// Metrics of latency and occupancy need accumulated counters; the SDK creates them.
TEST_P(SdkAccumulators, AccumulatedCountersAreMade) {
  SdkResult result =
      RunSdk({.steps = {"dispatch:20"},
              .filters = {CountersFilter({"LdsLatency", "MeanOccupancyPerCU"})},
              .environment = Environment()});
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ASSERT_EQ(result.run.exit_status, 0) << result.run.errors;
  size_t seen = 0;
  for (const rocattach_dispatch& dispatch : result.run.dispatches) {
    for (const rocattach_values& slot : result.run.values.at(dispatch.correlation_id)) {
      for (uint32_t i = 0; i < slot.count; ++i) {
        const std::string& name = result.plan->counter_names.at(slot.value[i].counter);
        const size_t end = name.find("_ACCUM");
        if (end == std::string::npos) continue;
        ++seen;
        EXPECT_EQ(slot.value[i].sum,
                  static_cast<double>(
                      simrocm::kAccumulatedHighRes *
                      simrocm::CounterTotal(name.substr(0, end), ShapeOf(dispatch))))
            << name;
      }
    }
  }
  EXPECT_EQ(seen, 40u) << "both in one pass";
}

// An expression with a counter that the SDK lacks would end the process.
TEST_F(SdkSwitch, OnlyCountersOfTheSdksOwnFileAreAccumulated) {
  const testing_support::TemporaryDirectory folder;
  std::ofstream(folder / "counter_defs.yaml")
      << "rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n"
         "  - name: SQ_LEVEL_WAVES\n    description: x\n    definitions:\n"
         "    - architectures:\n      - gfx90a\n      block: SQ\n";
  const std::vector<std::string> environment = {
      absl::StrCat("ROCPROFILER_METRICS_PATH=", folder.path())};
  SdkResult waves = RunSdk({.steps = {"dispatch:5"},
                            .filters = {CountersFilter({"SQ_LEVEL_WAVES_ACCUM"})},
                            .environment = environment});
  EXPECT_EQ(waves.answer.error, 0u) << waves.answer.text;
  EXPECT_EQ(waves.run.exit_status, 0) << waves.run.errors;
  SdkResult other = RunSdk({.steps = {"dispatch:5"},
                            .filters = {CountersFilter({"SQ_INST_LEVEL_LDS_ACCUM"})},
                            .environment = environment});
  EXPECT_EQ(other.answer.error, uint32_t{ROCATTACH_PLAN_ERROR_NO_COUNTER});
  EXPECT_THAT(other.answer.text, testing::HasSubstr("cannot add up SQ_INST_LEVEL_LDS"));
  EXPECT_EQ(other.run.exit_status, 0) << other.run.errors;
}

}  // namespace
}  // namespace rocattach
