#include "userspace/counters/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/base/session_status.h"
#include "userspace/counters/pass_planner.h"

namespace rocattach {
namespace {

TEST(CatalogVersionsTest, NamesHaveAFirstVersion) {
  const CounterCatalog catalog = *CounterCatalog::Builtin();
  EXPECT_EQ(catalog.Find("gfx90a")->Since("SQ_WAVES"), "1.0");
  EXPECT_EQ(catalog.Find("gfx90a")->Since("L2CacheHit"), "1.0");
  const ArchitectureCounters& newest = *catalog.Find("gfx1201");
  EXPECT_EQ(newest.Since("SQ_WAVES"), "1.0");
  for (const char* name : {"SQ_INST_CYCLES_VALU", "SQ_INSTS_VEC32_LEVEL_LDS",
                           "SQC_ICACHE_REQ", "SQC_ICACHE_HITS", "SQC_ICACHE_MISSES",
                           "TCP_REQ", "TCP_REQ_MISS", "GL2C_MC_WRREQ_STALL"}) {
    EXPECT_EQ(newest.Since(name), "1.1") << name;
  }
  EXPECT_EQ(newest.Since("L0CacheHit"), "1.1") << "a metric of them";
  EXPECT_EQ(newest.Since("L2CacheHit"), "1.0");
  EXPECT_EQ(catalog.Find("gfx1150")->Since("SQ_WAVES"), "1.1");
  EXPECT_EQ(catalog.Find("gfx1100")->Since("SQ_WAVES"), "1.0");
  EXPECT_EQ(catalog.Find("gfx90a")->FindBlock("SPI")->counters, 6u);
}

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

CounterCatalog Builtin() {
  auto catalog = CounterCatalog::Builtin();
  EXPECT_TRUE(catalog.ok()) << catalog.status();
  return *std::move(catalog);
}

constexpr char kSmall[] = R"(
architectures: [gfx1]
blocks: {SQ: {counters: 2}}
counters: {A: {block: SQ}, B: {block: SQ}}
metrics: {M: {expression: A / B}, N: {expression: 2 * M + CU_NUM}}
)";

// Returns "SQ" for "SQ_WAVES" and for "SQC_TC_REQ".
std::string BlockOfName(const std::string& counter) {
  const std::string block = counter.substr(0, counter.find('_'));
  return block == "SQC" ? "SQ" : block;
}

TEST(CounterCatalog, ShipsGfx9AndRdna) {
  const CounterCatalog catalog = Builtin();
  EXPECT_THAT(
      catalog.Architectures(),
      ElementsAre("gfx1010", "gfx1030", "gfx1031", "gfx1032", "gfx1100", "gfx1101",
                  "gfx1102", "gfx1150", "gfx1151", "gfx1200", "gfx1201", "gfx906",
                  "gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"));
  for (const std::string& name : catalog.Architectures()) {
    SCOPED_TRACE(name);
    const ArchitectureCounters* architecture = catalog.Find(name);
    for (const char* metric : {"Wavefronts", "GPUBusy", "L2CacheHit", "FETCH_SIZE",
                               "MemUnitBusy", "WriteUnitStalled"}) {
      EXPECT_NE(architecture->FindMetric(metric), nullptr) << metric;
    }
    for (const CounterBlock& block : architecture->blocks()) {
      EXPECT_GT(block.counters, 0u) << block.name;
      EXPECT_FALSE(block.description.empty()) << block.name;
    }
    for (const HardwareCounter& counter : architecture->counters()) {
      EXPECT_FALSE(counter.description.empty()) << counter.name;
      EXPECT_EQ(counter.block, BlockOfName(counter.name));
      EXPECT_NE(architecture->FindBlock(counter.block), nullptr) << counter.name;
    }
    for (const DerivedMetric& metric : architecture->metrics()) {
      EXPECT_FALSE(metric.description.empty()) << metric.name;
      EXPECT_FALSE(metric.counters.empty()) << metric.name;
    }
  }
  EXPECT_GE(catalog.Find("gfx90a")->counters().size(), 260u);
  EXPECT_GE(catalog.Find("gfx950")->counters().size(), 400u);
}

TEST(CounterCatalog, PlansEveryMetricAndGroup) {
  const CounterCatalog catalog = Builtin();
  for (const std::string& name : catalog.Architectures()) {
    SCOPED_TRACE(name);
    const ArchitectureCounters& gpu = *catalog.Find(name);
    for (const DerivedMetric& metric : gpu.metrics()) {
      auto plan = PlanPasses(gpu, {{metric.name}}, {});
      ASSERT_TRUE(plan.ok()) << metric.name << plan.status();
      EXPECT_FALSE(plan->passes.empty()) << metric.name;
    }
    for (const auto* groups : {&gpu.sets(), &gpu.sections()}) {
      EXPECT_FALSE(groups->empty());
      for (const CounterGroup& group : *groups) {
        auto members = gpu.Members(group);
        ASSERT_TRUE(members.ok()) << group.name << members.status();
        ASSERT_FALSE(members->empty()) << group.name;
        auto plan = PlanPasses(gpu, {*members}, {});
        ASSERT_TRUE(plan.ok()) << group.name << plan.status();
        EXPECT_EQ(plan->values.size(), members->size()) << group.name;
      }
    }
    for (const HardwareCounter& counter : gpu.counters()) {
      if (counter.follows) continue;
      auto plan = PlanPasses(gpu, {{counter.name}}, {.single_pass = true});
      EXPECT_TRUE(plan.ok()) << counter.name << plan.status();
    }
  }
}

// Every counter reads 100, and every property of the GPU is 4: the value of each metric
// is a number, and percentages are plausible.
TEST(CounterCatalog, EvaluatesEveryMetric) {
  const CounterCatalog catalog = Builtin();
  for (const std::string& name : catalog.Architectures()) {
    const ArchitectureCounters& gpu = *catalog.Find(name);
    for (const DerivedMetric& metric : gpu.metrics()) {
      // It divides by the difference of two counters.
      if (metric.name == "LdsBankConflict") continue;
      const auto value =
          gpu.Evaluate(metric, [&](const std::string& counter, Reduction) {
            const bool hardware = gpu.FindCounter(counter) != nullptr;
            return std::optional<double>(hardware ? 100 : 4);
          });
      EXPECT_TRUE(value.has_value()) << name << " " << metric.name;
    }
  }
  const ArchitectureCounters& rdna = *catalog.Find("gfx1151");
  auto value = [&](const char* metric) {
    return rdna.Evaluate(
        *rdna.FindMetric(metric),
        [](const std::string& counter, Reduction reduction) -> std::optional<double> {
          if (counter == "SQ_WAVE_CYCLES") return 64000;
          if (counter == "GRBM_GUI_ACTIVE") {
            return reduction == Reduction::kMaximum ? 1000 : 0;
          }
          if (counter == "CU_NUM") return 4;
          if (counter == "GL2C_EA_RDREQ_128B") return 80;
          if (counter == "GL2C_EA_RDREQ_64B") return 32;
          return 0;
        });
  };
  EXPECT_EQ(value("OccupancyPercent"), 50);
  EXPECT_EQ(value("MeanOccupancyPerCU"), 16);
  EXPECT_EQ(value("FETCH_SIZE"), 12);
  EXPECT_EQ(value("L2CacheHit"), std::nullopt);  // 0 of 0 accesses
}

TEST(CounterCatalog, KeepsMembersOfAFamilyApart) {
  const CounterCatalog catalog = Builtin();
  struct {
    const char* counter;
    const char* has;
    const char* lacks;
  } const expected[] = {
      {"SQ_WAIT_ANY", "gfx1100", "gfx1150"},
      {"GRBM_GL2CC_BUSY", "gfx1030", "gfx1100"},
      {"TCP_REQ_MISS", "gfx1201", "gfx1102"},
      {"SQ_INSTS_VALU_MFMA_F32", "gfx90a", "gfx908"},
      {"TCC_EA0_RDREQ_LEVEL", "gfx908", "gfx90a"},
      {"SQ_INSTS_FLAT_LDS_ONLY", "gfx90a", "gfx942"},
      {"TCC_EA0_RDREQ_128B", "gfx950", "gfx942"},
  };
  for (const auto& [counter, has, lacks] : expected) {
    EXPECT_NE(catalog.Find(has)->FindCounter(counter), nullptr) << counter;
    EXPECT_EQ(catalog.Find(lacks)->FindCounter(counter), nullptr) << counter;
  }
  // The meaning of a set differs, too.
  const CounterGroup* lds = catalog.Find("gfx1102")->FindSet("lds");
  ASSERT_NE(lds, nullptr);
  EXPECT_THAT(lds->members, Contains("ALUStalledByLDS"));
  lds = catalog.Find("gfx1151")->FindSet("lds");
  ASSERT_NE(lds, nullptr);
  EXPECT_THAT(lds->members, Not(Contains("ALUStalledByLDS")));
}

TEST(CounterCatalog, KeepsArchitecturesApart) {
  const CounterCatalog catalog = Builtin();
  EXPECT_NE(catalog.Find("gfx90a")->FindCounter("TCC_EA_RDREQ"), nullptr);
  EXPECT_EQ(catalog.Find("gfx942")->FindCounter("TCC_EA_RDREQ"), nullptr);
  EXPECT_NE(catalog.Find("gfx942")->FindCounter("TCC_EA0_RDREQ"), nullptr);
  EXPECT_EQ(catalog.Find("gfx90a:sramecc+:xnack-"), catalog.Find("gfx90a"));
  EXPECT_EQ(catalog.Find("gfx9999"), nullptr);
}

TEST(CounterCatalog, NamesTheNearestOfUnknownCounters) {
  const CounterCatalog catalog = Builtin();
  const absl::Status status = catalog.Find("gfx90a")->UnknownCounter("SQ_WAVEZ");
  EXPECT_EQ(SessionStatusOf(status), SessionStatus::kCounterNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("SQ_WAVES"));
  EXPECT_TRUE(catalog.CheckKnown("TCC_EA0_RDREQ").ok());
  EXPECT_THAT(std::string(catalog.CheckKnown("TCC_HITS").message()),
              HasSubstr("TCC_HIT"));
  // Nothing rules out that there is such a counter.
  EXPECT_THAT(std::string(catalog.CheckKnown("GdsLatency").message()),
              HasSubstr("\"GdsLatency\" is not in the catalogue of counters and "
                        "metrics (a file given with --extra-counters adds to it)"));
}

TEST(CounterCatalog, EvaluatesMetricsThroughMetrics) {
  CounterCatalog catalog;
  ASSERT_TRUE(catalog.Add(kSmall, "small").ok());
  const ArchitectureCounters* gpu = catalog.Find("gfx1");
  const DerivedMetric* metric = gpu->FindMetric("N");
  ASSERT_NE(metric, nullptr);
  EXPECT_THAT(metric->counters, ElementsAre("A", "B"));
  const auto value = gpu->Evaluate(
      *metric, [](const std::string& name, Reduction) -> std::optional<double> {
        if (name == "A") return 6;
        if (name == "B") return 3;
        return name == "CU_NUM" ? std::optional<double>(100) : std::nullopt;
      });
  EXPECT_EQ(value, 104);
}

TEST(CounterCatalog, MetricsOnMetricsStayCheap) {
  // Each level mentions both metrics of the level below: 2^30 evaluations if repeated.
  std::string text =
      "architectures: [gfx1]\nblocks: {SQ: {counters: 2}}\n"
      "counters: {A: {block: SQ}}\nmetrics:\n"
      "  P0: {expression: A}\n  Q0: {expression: A}\n";
  for (int i = 1; i < 30; ++i) {
    for (const char* name : {"P", "Q"}) {
      text += "  " + std::string(name) + std::to_string(i) + ": {expression: (P" +
              std::to_string(i - 1) + " + Q" + std::to_string(i - 1) + ") / 2}\n";
    }
  }
  CounterCatalog catalog;
  ASSERT_TRUE(catalog.Add(text, "deep").ok());
  const ArchitectureCounters* gpu = catalog.Find("gfx1");
  int lookups = 0;
  const auto value =
      gpu->Evaluate(*gpu->FindMetric("P29"), [&](const std::string&, Reduction) {
        ++lookups;
        return std::optional<double>(5);
      });
  EXPECT_EQ(value, 5);
  EXPECT_EQ(lookups, 2);
}

TEST(CounterCatalog, UserFilesExtendAndOverride) {
  CounterCatalog catalog = Builtin();
  ASSERT_TRUE(catalog
                  .Add("architectures: [gfx90a]\n"
                       "blocks: {SQ: {counters: 4}}\n"
                       "counters: {MY_OWN: {block: SQ}}\n"
                       "metrics: {MyShare: {expression: MY_OWN / SQ_WAVES}}\n"
                       "sets: {mine: {counters: [MyShare, TA]}}\n",
                       "user")
                  .ok());
  const ArchitectureCounters* gpu = catalog.Find("gfx90a");
  EXPECT_EQ(gpu->FindBlock("SQ")->counters, 4u);
  EXPECT_NE(gpu->FindCounter("SQ_WAVES"), nullptr);
  auto members = gpu->Members(*gpu->FindSet("mine"));
  ASSERT_TRUE(members.ok());
  EXPECT_THAT(*members, Contains("MyShare"));
  EXPECT_THAT(*members, Contains("TA_TA_BUSY"));
  EXPECT_THAT(*members, Not(Contains("TD_TD_BUSY")));
}

TEST(CounterCatalog, ReadsExtraCountersOfRocprofv3) {
  CounterCatalog catalog = Builtin();
  const absl::Status added = catalog.Add(R"(
rocprofiler-sdk:
  counters:
    - name: GRBM_GUI_ACTIVE_SHARE
      description: share
      properties: []
      definitions:
        - architectures: [gfx942, gfx90a]
          expression: reduce(GRBM_GUI_ACTIVE,max)/reduce(GRBM_COUNT,max)
    - name: SQ_SPECIAL
      description: raw
      definitions:
        - architectures: [gfx90a]
          block: SQ
          event: 77
)",
                                         "extra.yaml");
  ASSERT_TRUE(added.ok()) << added;
  EXPECT_NE(catalog.Find("gfx942")->FindMetric("GRBM_GUI_ACTIVE_SHARE"), nullptr);
  EXPECT_NE(catalog.Find("gfx90a")->FindCounter("SQ_SPECIAL"), nullptr);
  EXPECT_EQ(catalog.Find("gfx906")->FindCounter("SQ_SPECIAL"), nullptr);
}

TEST(CounterCatalog, RefusesBadFilesAndStaysAsItWas) {
  CounterCatalog catalog;
  ASSERT_TRUE(catalog.Add(kSmall, "small").ok());
  const char* bad[] = {
      "counters: {A: {block: SQ}}",
      "architectures: [gfx1]\ncounters: {A: {block: XX}}",
      "architectures: [gfx1]\ncounters: {A: {blok: SQ}}",
      "architectures: [gfx1]\ncounters: {A: {block: SQ, slots: 3}}",
      "architectures: [gfx1]\ncounters: {A: {block: SQ, slots: 0}}",
      "architectures: [gfx1]\ncounters: {\"A B\": {block: SQ}}",
      "architectures: [gfx1]\nmetrics: {A: {expression: 1}}",
      "architectures: [gfx1]\nmetrics: {X: {expression: Y}, Y: {expression: X}}",
      "architectures: [gfx1]\nmetrics: {X: {expression: X + 1}}",
      "architectures: [gfx1]\nmetrics: {X: {expression: NOPE}}",
      "architectures: [gfx1]\nmetrics: {X: {expression: A +}}",
      "architectures: [gfx1]\nsets: {s: {counters: [NOPE]}}",
      "architectures: [gfx1]\nsets: {s: {counters: []}}",
      "architectures: [x86]\n",
      "architectures: gfx1\n",
      "[1, 2]",
      "architectures: [gfx1]\nfoo: 1",
  };
  for (const char* text : bad) {
    EXPECT_FALSE(catalog.Add(text, "bad").ok()) << text;
  }
  EXPECT_THAT(catalog.Architectures(), ElementsAre("gfx1"));
  EXPECT_THAT(catalog.Find("gfx1")->Names(), ElementsAre("A", "B", "M", "N"));
}

}  // namespace
}  // namespace rocattach
