// Hardware counters through the SDK backend: values compared with the simulator's,
// filters, and plans that cannot be carried out.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/collector/sdk_checks.h"
#include "tests/integration/collector/sdk_run.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

class SdkTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_TARGETS_CAN_BE_MAPPED(); }
};

struct Size {
  size_t counters;
  int gpus, threads;
  int dispatches;  // by each thread on each GPU
};

class SdkCounting : public SdkTest, public testing::WithParamInterface<Size> {};

TEST_P(SdkCounting, ValuesAreTheTruth) {
  const Size& size = GetParam();
  const std::vector<std::string> names = KnownCounters(size.counters);
  ASSERT_EQ(names.size(), size.counters);
  SdkResult result = RunSdk({.gpus = size.gpus,
                             .threads = size.threads,
                             .steps = {"dispatch:" + std::to_string(size.dispatches)},
                             .filters = {CountersFilter(names)}});
  EXPECT_EQ(result.backend.backend, static_cast<uint32_t>(ROCATTACH_BACKEND_SDK))
      << result.backend.text;
  EXPECT_EQ(result.answer.generation, result.generation);
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ExpectCleanRun(result);
  const auto total = static_cast<size_t>(size.gpus) *
                     static_cast<size_t>(size.threads) *
                     static_cast<size_t>(size.dispatches);
  EXPECT_EQ(result.run.dispatches.size(), total);
  EXPECT_EQ(CountFlag(result.run, ROCATTACH_DISPATCH_COUNTED), total);
  EXPECT_EQ(result.run.account.counted_seen, total);
  EXPECT_GT(ExpectTrueValues(result.run, *result.plan, result.generation), 0u);
  // Passes are multiplexed across the dispatches of each kernel.
  const uint32_t passes = result.plan->image->architecture[0].dispatch_passes;
  std::map<uint32_t, std::set<uint32_t>> iterations_of_kernel;
  for (const auto& dispatch : result.run.dispatches) {
    EXPECT_TRUE(
        iterations_of_kernel[dispatch.kernel_id].insert(dispatch.iteration).second);
    EXPECT_EQ(result.run.values.at(dispatch.correlation_id).front().pass,
              (dispatch.iteration - 1) % passes);
    EXPECT_EQ(result.run.kernels.at(dispatch.kernel_id).name, "increment");
  }
  EXPECT_EQ(iterations_of_kernel.size(), static_cast<size_t>(size.gpus));
  for (const auto& [kernel, iterations] : iterations_of_kernel) {
    EXPECT_EQ(*iterations.rbegin(), total / static_cast<size_t>(size.gpus));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SdkCounting,
                         testing::Values(Size{1, 1, 1, 60}, Size{8, 1, 1, 60},
                                         Size{40, 1, 1, 60}, Size{200, 1, 1, 120},
                                         Size{1, 8, 1, 20}, Size{8, 1, 16, 20},
                                         Size{40, 8, 1, 40}, Size{40, 1, 16, 20},
                                         Size{200, 8, 1, 100}, Size{200, 8, 16, 8}),
                         [](const auto& p) {
                           return std::to_string(p.param.counters) + "Counters" +
                                  std::to_string(p.param.gpus) + "Gpus" +
                                  std::to_string(p.param.threads) + "Threads";
                         });

using SdkInstances = SdkTest;

// Each instance is at its place in the hardware, with the simulator's value.
TEST_F(SdkInstances, HaveHardwarePositionsAndTrueValues) {
  const std::vector<std::string> names = {
      "SQ_WAVES", "TCC_HIT", "TCP_ATOMIC_TAGCONFLICT_STALL_CYCLES", "GRBM_COUNT"};
  FilterSpec filter = CountersFilter(names);
  filter.instances = true;
  SdkResult result = RunSdk({.gpus = 2,
                             .threads = 2,
                             .steps = {"dispatch:25"},
                             .filters = {filter},
                             .environment = {"SIMROCM_XCCS=2"}});
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ExpectCleanRun(result);
  EXPECT_GT(ExpectTrueValues(result.run, *result.plan, result.generation), 0u);
  size_t compared = 0;
  std::set<std::string> seen;
  for (const auto& dispatch : result.run.dispatches) {
    const auto found = result.run.instances.find(dispatch.correlation_id);
    ASSERT_NE(found, result.run.instances.end());
    std::map<uint32_t, rocattach_counter_value> reduced;
    for (const auto& slot : result.run.values.at(dispatch.correlation_id)) {
      EXPECT_EQ(slot.instance_slots, found->second.size());
      for (uint32_t i = 0; i < slot.count; ++i) {
        reduced[slot.value[i].counter] = slot.value[i];
      }
    }
    std::map<uint32_t, std::map<uint64_t, double>> of_counter;
    for (size_t i = 0; i < found->second.size(); ++i) {
      const rocattach_instances& slot = found->second[i];
      EXPECT_EQ(slot.slot, i);
      for (uint32_t k = 0; k < slot.count; ++k) {
        const uint64_t instance = slot.value[k].instance;
        const auto counter =
            static_cast<uint32_t>(instance >> ROCATTACH_INSTANCE_COUNTER_SHIFT);
        EXPECT_TRUE(
            of_counter[counter]
                .emplace(ROCATTACH_INSTANCE_POSITION(instance), slot.value[k].value)
                .second)
            << "twice at one place";
      }
    }
    ASSERT_EQ(of_counter.size(), reduced.size());
    for (const auto& [counter, instances] : of_counter) {
      const std::string& name = result.plan->counter_names.at(counter);
      seen.insert(name);
      ASSERT_EQ(instances.size(), reduced[counter].instances) << name;
      // In the order of positions, instances are numbered as in the simulator: by XCC
      // first, by the instance in its block last.
      uint64_t number = 0;
      for (const auto& [position, value] : instances) {
        ASSERT_EQ(value, static_cast<double>(simrocm::CounterValue(
                             name, ShapeOf(dispatch), number++, instances.size())))
            << name << " at " << position;
        ++compared;
      }
      const uint64_t last = instances.rbegin()->first;
      EXPECT_EQ(last >> ROCATTACH_INSTANCE_XCC_SHIFT, 1u) << name << " of two dies";
      EXPECT_EQ((last & 0xffff) == 0, name == "SQ_WAVES" || name == "GRBM_COUNT");
    }
  }
  EXPECT_GT(compared, 1000u);
  EXPECT_EQ(seen, std::set<std::string>(names.begin(), names.end()));
}

using SdkFilters = SdkTest;

TEST_F(SdkFilters, RangesOfDispatchesAndIterations) {
  FilterSpec spec = CountersFilter({"SQ_WAVES", "GRBM_COUNT"});
  spec.selection.dispatches = {{11, 20}, {31, 40}};
  spec.selection.iterations = {{1, 35}};
  SdkResult result = RunSdk({.steps = {"dispatch:60"}, .filters = {spec}});
  ExpectCleanRun(result);
  std::set<uint64_t> ids;
  for (const auto& dispatch : result.run.dispatches) ids.insert(dispatch.dispatch_id);
  std::set<uint64_t> expected;
  for (uint64_t i = 11; i <= 20; ++i) expected.insert(i);
  for (uint64_t i = 31; i <= 35; ++i) expected.insert(i);
  EXPECT_EQ(ids, expected);
  EXPECT_EQ(ExpectTrueValues(result.run, *result.plan, result.generation), 30u);
}

// The service selects kernels by name; until it has decided, dispatches are recorded
// and marked.
TEST_F(SdkFilters, KernelsAreUndecidedUntilTheServiceSaysSo) {
  FilterSpec spec = CountersFilter({"SQ_WAVES"});
  spec.selection.kernel_include = {"no such kernel"};
  bool decided = false;
  std::string go = testing::TempDir() + "sdk_filters_go_" + std::to_string(getpid());
  SdkResult result = RunSdk(
      {.steps = {"dispatch:20", "until:" + go, "dispatch:20"},
       .filters = {spec},
       .step = [&](SdkTarget& target) {
         if (target.result.kernels.empty() || target.result.dispatches.size() < 20)
           return;
         if (!decided) {
           decided = true;
           // No bit is set: no kernel is selected.
           __atomic_store_n(
               &target.memory.control().plan()->selections[1].kernels_decided, 100u,
               __ATOMIC_RELEASE);
           close(open(go.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
         }
       }});
  unlink(go.c_str());
  ExpectCleanRun(result);
  EXPECT_GE(result.run.dispatches.size(), 20u);
  EXPECT_EQ(CountFlag(result.run, ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED),
            result.run.dispatches.size());
  EXPECT_LT(result.run.dispatches.size(),
            static_cast<size_t>(result.run.Printed("dispatches")));
}

TEST_F(SdkFilters, OneGpuOfSeveral) {
  FilterSpec spec = CountersFilter({"SQ_WAVES"});
  // The GPUs are all alike: selects the second one by its number.
  spec.selection.gpus = {"1"};
  uint32_t chosen = 0;
  uint64_t generation = 0;
  const SdkResult result = RunSdk(
      {.gpus = 3, .steps = {"wait", "dispatch:10"}, .step = [&](SdkTarget& target) {
         PlanAnswer answer;
         if (generation != 0) {
           if (target.Answered(generation, &answer)) target.Continue();
           return;
         }
         if (target.result.agents.size() < 4) return;
         generation = target.Write({spec});
         chosen = target.result.agents[2].entry.id;
       }});
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 10u);
  for (const auto& d : result.run.dispatches) EXPECT_EQ(d.agent_id, chosen);
}

// Passes can be multiplexed over time instead, for all kernels at once.
TEST_F(SdkFilters, PassesAreMultiplexedOverTime) {
  constexpr uint64_t kInterval = 50'000'000, kSlack = 10'000'000;
  FilterSpec spec = CountersFilter(KnownCounters(40));
  spec.rotation_ns = kInterval;
  // On a busy machine some dispatches are a whole cycle of passes apart, but not all.
  std::vector<std::string> steps;
  for (int i = 0; i < 20; ++i) {
    steps.insert(steps.end(), {"dispatch:3", "sleep:30"});
  }
  uint64_t start = 0;
  const SdkResult result =
      RunSdk({.steps = steps, .filters = {spec}, .step = [&](SdkTarget& target) {
                if (start == 0) start = target.memory.control().plan()->start_ns;
              }});
  ExpectCleanRun(result);
  ASSERT_NE(start, 0u);
  EXPECT_EQ(result.run.dispatches.size(), 60u);
  EXPECT_GT(ExpectTrueValues(result.run, *result.plan, result.generation), 0u);
  const rocattach_plan& plan = *result.plan->image;
  const uint32_t passes = plan.architecture[0].dispatch_passes;
  ASSERT_GT(passes, 1u);
  std::set<uint64_t> seen;
  for (const auto& dispatch : result.run.dispatches) {
    const uint64_t pass = result.run.values.at(dispatch.correlation_id).front().pass;
    const auto due = [&](uint64_t ns) { return (ns - start) / kInterval % passes; };
    // The process may have slept between choosing the pass and reading the clock.
    EXPECT_TRUE(pass == due(dispatch.enqueue_ns) ||
                pass == due(dispatch.enqueue_ns - kSlack) ||
                pass == due(dispatch.enqueue_ns + kSlack))
        << "pass " << pass << " at " << dispatch.enqueue_ns - start << " ns";
    seen.insert(pass);
  }
  EXPECT_GT(seen.size(), 1u);
}

// Counters for some dispatches and times for all give one record per dispatch.
TEST_F(SdkFilters, CountersBesideTimestampsAndBaseline) {
  FilterSpec counters = CountersFilter({"SQ_WAVES", "TCC_HIT", "SQ_INSTS"});
  counters.selection.dispatches = {{1, 7}};
  FilterSpec times;
  times.kind = FilterKind::kDispatchTimestamps;
  times.selection.dispatches = {{1, 30}};
  SdkResult result = RunSdk(
      {.steps = {"dispatch:50"}, .filters = {counters, times}, .recording = true});
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 50u);
  EXPECT_EQ(CountFlag(result.run, ROCATTACH_DISPATCH_BASELINE), 50u);
  EXPECT_EQ(CountFlag(result.run, ROCATTACH_DISPATCH_SELECTED), 30u);
  EXPECT_EQ(CountFlag(result.run, ROCATTACH_DISPATCH_FOR_COUNTERS), 7u);
  EXPECT_EQ(CountFlag(result.run, ROCATTACH_DISPATCH_COUNTED), 7u);
  EXPECT_EQ(ExpectTrueValues(result.run, *result.plan, result.generation), 21u);
  for (const auto& dispatch : result.run.dispatches) {
    EXPECT_EQ(ROCATTACH_DISPATCH_PLAN_TAG(dispatch.flags),
              ROCATTACH_PLAN_TAG(result.generation));
  }
}

using SdkRefusals = SdkTest;

// Writes a plan that the planner would never make.
SdkResult RunWithImage(const std::function<void(rocattach_plan*)>& change,
                       PlanAnswer* answer) {
  uint64_t generation = 0;
  return RunSdk(
      {.steps = {"dispatch:5", "wait"}, .step = [&, change, answer](SdkTarget& target) {
         if (generation == 0) {
           target.Write({CountersFilter({"SQ_WAVES"})});
           auto image = std::make_unique<rocattach_plan>();
           *image = *target.plan->image;
           change(image.get());
           generation = target.memory.control().WritePlan(*image);
         }
         PlanAnswer now;
         if (!target.Answered(generation, &now)) return;
         *answer = now;
         target.Continue();
       }});
}

TEST_F(SdkRefusals, TooManyCountersForOnePassAreNamed) {
  PlanAnswer answer;
  SdkResult result = RunWithImage(
      [](rocattach_plan* plan) {
        const char* names[] = {"TCC_HIT", "TCC_MISS", "TCC_REQ", "TCC_READ",
                               "TCC_WRITE"};
        plan->counters = plan->pass_counters_used = plan->pass[0].counters = 5;
        for (uint16_t i = 0; i < 5; ++i) {
          snprintf(plan->counter_name[i], sizeof(plan->counter_name[i]), "%s",
                   names[i]);
          plan->pass_counters[i] = i;
        }
      },
      &answer);
  EXPECT_EQ(answer.error, static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_HW_LIMIT));
  EXPECT_THAT(answer.text, HasSubstr("gfx90a"));
  EXPECT_THAT(answer.text, HasSubstr("TCC_HIT TCC_MISS TCC_REQ TCC_READ TCC_WRITE"));
  ExpectCleanRun(result);
  EXPECT_TRUE(result.run.dispatches.empty());
}

TEST_F(SdkRefusals, UnknownCounterIsNamed) {
  PlanAnswer answer;
  SdkResult result = RunWithImage(
      [](rocattach_plan* plan) { strcpy(plan->counter_name[0], "SQ_WAVEZ"); }, &answer);
  EXPECT_EQ(answer.error, static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_NO_COUNTER));
  EXPECT_THAT(answer.text, HasSubstr("SQ_WAVEZ"));
  ExpectCleanRun(result);
}

TEST_F(SdkRefusals, APlanForOtherGpus) {
  PlanAnswer answer;
  SdkResult result = RunWithImage(
      [](rocattach_plan* plan) { strcpy(plan->architecture[0].name, "gfx942"); },
      &answer);
  EXPECT_EQ(answer.error, static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_NO_COUNTER));
  ExpectCleanRun(result);
}

TEST_F(SdkRefusals, MalformedPlans) {
  using Change = void (*)(rocattach_plan*);
  const Change changes[] = {
      [](rocattach_plan* plan) { plan->magic = 1; },
      [](rocattach_plan* plan) { plan->bytes = 1; },
      [](rocattach_plan* plan) { plan->passes = 257; },
      [](rocattach_plan* plan) { plan->pass[0].counters = 60000; },
      [](rocattach_plan* plan) { plan->pass_counters[0] = 1; },
      [](rocattach_plan* plan) { plan->architecture[0].dispatch_passes = 2; },
      [](rocattach_plan* plan) { memset(plan->counter_name[0], 'x', 64); },
  };
  for (Change change : changes) {
    PlanAnswer answer;
    SdkResult result = RunWithImage(change, &answer);
    EXPECT_EQ(answer.error, static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_MALFORMED));
    ExpectCleanRun(result);
  }
}

// Filters for kinds that were not configured at load are refused by name.
TEST_F(SdkRefusals, KindsThatWereNotConfiguredAtLoad) {
  FilterSpec api;
  api.kind = FilterKind::kApiTrace;
  api.api_domains = {TraceDomain::kHsaApi};
  SdkResult result = RunSdk({.steps = {"dispatch:3", "sleep:100"},
                             .filters = {api},
                             .environment = {"COLLECTOR_TEST_KINDS=3"}});
  EXPECT_EQ(result.backend.record_kinds,
            ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COUNTERS);
  EXPECT_EQ(result.answer.error,
            static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_UNSUPPORTED));
  EXPECT_THAT(result.answer.text, HasSubstr("API calls"));
  ExpectCleanRun(result);
}

// The HSA tools backend refuses counters with a reason, and never reports zeros.
TEST_F(SdkRefusals, TheHsaToolsBackendHasNoCounters) {
  SdkResult result = RunSdk({.steps = {"dispatch:20", "sleep:100"},
                             .filters = {CountersFilter({"SQ_WAVES"})},
                             .backend = ROCATTACH_BACKEND_NONE});
  EXPECT_EQ(result.backend.backend, static_cast<uint32_t>(ROCATTACH_BACKEND_HSA_TOOLS));
  EXPECT_EQ(result.backend.reason,
            static_cast<uint32_t>(ROCATTACH_BACKEND_REASON_DEFAULT));
  EXPECT_EQ(result.answer.error,
            static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_UNSUPPORTED));
  EXPECT_THAT(result.answer.text, HasSubstr("hardware counters"));
  EXPECT_THAT(result.answer.text, HasSubstr("rocprofiler-sdk"));
  ExpectCleanRun(result);
  EXPECT_TRUE(result.run.dispatches.empty());
}

}  // namespace
}  // namespace rocattach
