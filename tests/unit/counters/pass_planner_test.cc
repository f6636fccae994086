#include "userspace/counters/pass_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "userspace/base/session_status.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const CounterCatalog& Catalog() {
  static const CounterCatalog* catalog = new CounterCatalog(*CounterCatalog::Builtin());
  return *catalog;
}

const ArchitectureCounters& Gpu(const char* name = "gfx90a") {
  return *Catalog().Find(name);
}

PassAssignment Plan(const std::vector<CounterNames>& groups, PassOptions options = {}) {
  auto plan = PlanPasses(Gpu(), groups, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : PassAssignment();
}

// Checks what holds for every plan, whatever was requested.
void CheckPlan(const ArchitectureCounters& gpu, const std::vector<CounterNames>& groups,
               const PassAssignment& plan) {
  for (const CounterPass& pass : plan.passes) {
    std::map<std::string, uint32_t> used;
    std::set<std::string> names;
    for (size_t i = 0; i < pass.counters.size(); ++i) {
      const HardwareCounter* counter = gpu.FindCounter(pass.counters[i]);
      ASSERT_NE(counter, nullptr) << pass.counters[i];
      EXPECT_TRUE(names.insert(counter->name).second) << counter->name << " twice";
      used[counter->block] += counter->slots;
      if (counter->follows) {
        ASSERT_GT(i, 0u);
        EXPECT_EQ(gpu.FindCounter(pass.counters[i - 1])->block, counter->block);
      }
    }
    for (const auto& [block, slots] : used) {
      EXPECT_LE(slots, gpu.FindBlock(block)->counters) << block;
    }
    EXPECT_FALSE(pass.counters.empty());
    // If both are in one pass, the SDK gives each the sum of the two.
    for (const std::string& name : names) {
      EXPECT_FALSE(names.contains(absl::StrCat(name, "_ACCUM")) &&
                   gpu.FindCounter(absl::StrCat(name, "_ACCUM"))->made)
          << name;
    }
  }
  std::set<std::string> measured;
  for (const CounterPass& pass : plan.passes) {
    measured.insert(pass.counters.begin(), pass.counters.end());
  }
  size_t distinct = 0;
  std::set<std::string> seen;
  for (const CounterNames& group : groups) {
    for (const std::string& name : group) {
      if (!seen.insert(name).second) continue;
      ASSERT_LT(distinct, plan.values.size());
      EXPECT_EQ(plan.values[distinct++].name, name);
      const DerivedMetric* metric = gpu.FindMetric(name);
      if (metric == nullptr) {
        EXPECT_TRUE(measured.count(name)) << name;
        continue;
      }
      for (const std::string& counter : metric->counters) {
        EXPECT_TRUE(measured.count(counter)) << name << " lacks " << counter;
      }
    }
  }
  EXPECT_EQ(distinct, plan.values.size());
  for (const PlannedValue& value : plan.values) {
    EXPECT_EQ(value.metric, gpu.FindMetric(value.name) != nullptr);
    const CounterNames needs =
        value.metric ? gpu.FindMetric(value.name)->counters : CounterNames{value.name};
    for (size_t pass : value.passes) {
      ASSERT_LT(pass, plan.passes.size());
      for (const std::string& need : needs) {
        EXPECT_TRUE(std::count(plan.passes[pass].counters.begin(),
                               plan.passes[pass].counters.end(), need));
      }
    }
    if (!value.metric) {
      EXPECT_FALSE(value.mixed()) << value.name;
    }
  }
}

TEST(PassPlanner, ACounterIsMeasuredApartFromItsAccumulation) {
  const std::vector<CounterNames> groups = {
      {"SQ_LEVEL_WAVES", "SQ_LEVEL_WAVES_ACCUM", "SQ_WAVES"}};
  const PassAssignment plan = Plan(groups);
  EXPECT_EQ(plan.passes.size(), 2u);
  CheckPlan(Gpu(), groups, plan);
}

TEST(PassPlanner, OnePassWhenItFits) {
  const std::vector<CounterNames> groups = {{"SQ_WAVES", "GRBM_COUNT"}};
  const PassAssignment plan = Plan(groups);
  CheckPlan(Gpu(), groups, plan);
  ASSERT_EQ(plan.passes.size(), 1u);
  EXPECT_THAT(plan.passes[0].counters, ElementsAre("SQ_WAVES", "GRBM_COUNT"));
}

TEST(PassPlanner, EmptyRequestEmptyPlan) {
  EXPECT_TRUE(Plan({}).passes.empty());
  EXPECT_TRUE(Plan({{}}).passes.empty());
}

TEST(PassPlanner, UsesOnlyThePassesThatTheFullestBlockNeeds) {
  CounterNames sq, all;
  for (const HardwareCounter& counter : Gpu().counters()) {
    if (counter.follows) continue;
    all.push_back(counter.name);
    if (counter.block == "SQ" && sq.size() < 17) sq.push_back(counter.name);
  }
  EXPECT_EQ(Plan({sq}).passes.size(), 3u);  // 17 counters, 8 a pass
  std::map<std::string, size_t> count;
  for (const std::string& name : all) {
    const HardwareCounter& counter = *Gpu().FindCounter(name);
    count[counter.block] += counter.slots;
  }
  size_t bound = 0;
  for (const auto& [block, n] : count) {
    const size_t limit = Gpu().FindBlock(block)->counters;
    bound = std::max(bound, (n + limit - 1) / limit);
  }
  const PassAssignment plan = Plan({all});
  CheckPlan(Gpu(), {all}, plan);
  EXPECT_EQ(plan.passes.size(), bound);
}

TEST(PassPlanner, KeepsMetricsWhole) {
  // 3 passes of SQ; every metric fits one pass, and room is left to repeat GRBM.
  const std::vector<CounterNames> groups = {
      {"VALUUtilization", "VALUBusy", "SALUBusy", "L2CacheHit", "LDSBankConflict",
       "MemUnitBusy", "FlatVMemInsts", "LDSInsts", "VALUInsts", "SALUInsts",
       "SFetchInsts", "GDSInsts", "SQ_CYCLES", "SQ_ITEMS", "SQ_INSTS", "SQ_IFETCH"}};
  const PassAssignment plan = Plan(groups);
  CheckPlan(Gpu(), groups, plan);
  for (const PlannedValue& value : plan.values) {
    EXPECT_FALSE(value.mixed()) << value.name;
  }
}

TEST(PassPlanner, MarksMetricsThatNoPassHolds) {
  CounterCatalog catalog;
  ASSERT_TRUE(catalog
                  .Add("architectures: [gfx1]\nblocks: {X: {counters: 2}}\n"
                       "counters: {A: {block: X}, B: {block: X}, C: {block: X}}\n"
                       "metrics: {M: {expression: A + B + C}}\n",
                       "t")
                  .ok());
  auto plan = PlanPasses(*catalog.Find("gfx1"), {{"M"}}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->passes.size(), 2u);
  ASSERT_EQ(plan->values.size(), 1u);
  EXPECT_TRUE(plan->values[0].mixed());
  auto single = PlanPasses(*catalog.Find("gfx1"), {{"M"}}, {.single_pass = true});
  ASSERT_FALSE(single.ok());
  EXPECT_THAT(std::string(single.status().message()), HasSubstr("2 passes"));
}

TEST(PassPlanner, GluesAccumulatorsToTheirLeaders) {
  const std::vector<CounterNames> groups = {
      {"SQ_LEVEL_WAVES", "SQ_ACCUM_PREV_HIRES", "SQ_INST_LEVEL_VMEM",
       "SQ_ACCUM_PREV_HIRES", "SQ_LEVEL_WAVES", "SQ_WAVES"}};
  auto plan = PlanPasses(Gpu(), groups, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  CheckPlan(Gpu(), groups, *plan);
  ASSERT_EQ(plan->passes.size(), 2u);  // one accumulator of a name in a pass
  for (const CounterPass& pass : plan->passes) {
    auto at =
        std::find(pass.counters.begin(), pass.counters.end(), "SQ_ACCUM_PREV_HIRES");
    ASSERT_NE(at, pass.counters.end());
    ASSERT_NE(at, pass.counters.begin());
    EXPECT_THAT(*(at - 1), HasSubstr("LEVEL"));
  }
  for (const CounterNames& bad : {CounterNames{"SQ_ACCUM_PREV_HIRES"},
                                  CounterNames{"TCC_HIT", "SQ_ACCUM_PREV_HIRES"}}) {
    auto refused = PlanPasses(Gpu(), {bad}, {});
    EXPECT_EQ(SessionStatusOf(refused.status()),
              SessionStatus::kCounterInformationMissing);
  }
}

TEST(PassPlanner, RefusesUnknownAndImpossibleCounters) {
  auto unknown = PlanPasses(Gpu(), {{"SQ_WAVEZ"}}, {});
  EXPECT_EQ(SessionStatusOf(unknown.status()), SessionStatus::kCounterNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("SQ_WAVES"));
  CounterCatalog catalog;
  ASSERT_TRUE(catalog
                  .Add("architectures: [gfx1]\nblocks: {X: {counters: 2}, Y: {}}\n"
                       "counters: {BIG: {block: X, slots: 4}, LOST: {block: Y}}\n",
                       "t")
                  .ok());
  for (const char* name : {"BIG", "LOST"}) {
    auto plan = PlanPasses(*catalog.Find("gfx1"), {{name}}, {});
    EXPECT_EQ(SessionStatusOf(plan.status()), SessionStatus::kCounterInformationMissing)
        << name;
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(name));
  }
}

TEST(PassPlanner, SinglePassErrorNamesTheLimitingBlock) {
  auto plan = PlanPasses(Gpu(), {{"GRBM_COUNT", "GRBM_GUI_ACTIVE", "GRBM_CP_BUSY"}},
                         {.single_pass = true});
  EXPECT_EQ(SessionStatusOf(plan.status()), SessionStatus::kInvalidArguments);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("GRBM has 2"));
}

TEST(PassPlanner, KeepsGroupsApartWhenAsked) {
  const std::vector<CounterNames> groups = {{"SQ_WAVES"}, {"GRBM_COUNT"}, {"SQ_WAVES"}};
  EXPECT_EQ(Plan(groups).passes.size(), 1u);
  const PassAssignment plan = Plan(groups, {.keep_groups = true});
  ASSERT_EQ(plan.passes.size(), 3u);
  EXPECT_THAT(plan.passes[2].counters, ElementsAre("SQ_WAVES"));
  EXPECT_THAT(plan.values[0].passes, ElementsAre(0, 2));
}

// The smallest number of bins for these sizes, found by exhaustive search.
size_t BruteForce(std::vector<uint32_t> sizes, uint32_t capacity) {
  std::sort(sizes.rbegin(), sizes.rend());
  size_t best = sizes.size();
  std::vector<uint32_t> bins;
  std::function<void(size_t)> place = [&](size_t i) {
    if (bins.size() >= best) return;
    if (i == sizes.size()) {
      best = bins.size();
      return;
    }
    for (size_t b = 0; b < bins.size(); ++b) {
      if (bins[b] + sizes[i] > capacity) continue;
      bins[b] += sizes[i];
      place(i + 1);
      bins[b] -= sizes[i];
    }
    bins.push_back(sizes[i]);
    place(i + 1);
    bins.pop_back();
  };
  place(0);
  return best;
}

TEST(PassPlanner, IsMinimalForAnySizes) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::string blocks, counters;
    std::map<std::string, std::vector<uint32_t>> sizes;
    std::map<std::string, uint32_t> limits;
    CounterNames names;
    const size_t block_count = 1 + random() % 3;
    for (size_t b = 0; b < block_count; ++b) {
      const std::string block = absl::StrCat("B", b);
      limits[block] = 1 + random() % 9;
      absl::StrAppend(&blocks, "  ", block, ": {counters: ", limits[block], "}\n");
      const size_t count = random() % 9;
      for (size_t c = 0; c < count; ++c) {
        uint32_t size = 1u << (random() % 4);
        while (size > limits[block]) size /= 2;
        sizes[block].push_back(size);
        names.push_back(absl::StrCat(block, "_", c));
        absl::StrAppend(&counters, "  ", names.back(), ": {block: ", block,
                        ", slots: ", size, "}\n");
      }
    }
    if (names.empty()) continue;
    CounterCatalog catalog;
    ASSERT_TRUE(
        catalog
            .Add("architectures: [gfx1]\nblocks:\n" + blocks + "counters:\n" + counters,
                 "t")
            .ok());
    std::shuffle(names.begin(), names.end(), random);
    auto plan = PlanPasses(*catalog.Find("gfx1"), {names}, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    CheckPlan(*catalog.Find("gfx1"), {names}, *plan);
    size_t least = 1;
    for (const auto& [block, list] : sizes) {
      least = std::max(least, BruteForce(list, limits[block]));
    }
    EXPECT_EQ(plan->passes.size(), least) << blocks << counters;
  }
}

TEST(PassPlanner, AnyRequestGetsAValidPlan) {
  std::mt19937 random(11);
  for (const char* name : {"gfx906", "gfx90a", "gfx942"}) {
    const std::vector<std::string> all = Gpu(name).Names();
    for (int round = 0; round < 60; ++round) {
      std::vector<CounterNames> groups(1 + random() % 4);
      for (CounterNames& group : groups) {
        const size_t count = random() % 40;
        for (size_t i = 0; i < count; ++i) {
          const std::string& pick = all[random() % all.size()];
          const HardwareCounter* counter = Gpu(name).FindCounter(pick);
          if (counter == nullptr || !counter->follows) group.push_back(pick);
        }
      }
      for (bool keep : {false, true}) {
        auto plan = PlanPasses(Gpu(name), groups, {.keep_groups = keep});
        ASSERT_TRUE(plan.ok()) << plan.status();
        CheckPlan(Gpu(name), groups, *plan);
        if (keep) continue;
        std::map<std::string, std::set<std::string>> needed;
        for (const CounterPass& pass : plan->passes) {
          for (const std::string& counter : pass.counters) {
            needed[Gpu(name).FindCounter(counter)->block].insert(counter);
          }
        }
        size_t least = 0;
        for (const auto& [block, counters] : needed) {
          const size_t limit = Gpu(name).FindBlock(block)->counters;
          size_t slots = 0;
          for (const std::string& counter : counters) {
            slots += Gpu(name).FindCounter(counter)->slots;
          }
          least = std::max(least, (slots + limit - 1) / limit);
        }
        EXPECT_EQ(plan->passes.size(), least);
      }
    }
  }
}

}  // namespace
}  // namespace rocattach
