#include "userspace/session/counter_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/session/session_status.h"

namespace rocattach {
namespace {

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

TEST(CounterCatalog, ShipsTheGfx9Family) {
  const CounterCatalog catalog = Builtin();
  for (const char* name : {"gfx906", "gfx90a", "gfx942"}) {
    const ArchitectureCounters* architecture = catalog.Find(name);
    ASSERT_NE(architecture, nullptr) << name;
    for (const char* counter : {"SQ_WAVES", "GRBM_COUNT", "TCC_HIT"}) {
      EXPECT_NE(architecture->FindCounter(counter), nullptr) << name << " " << counter;
    }
    for (const char* metric : {"VALUUtilization", "L2CacheHit", "FETCH_SIZE"}) {
      EXPECT_NE(architecture->FindMetric(metric), nullptr) << name << " " << metric;
    }
    for (const HardwareCounter& counter : architecture->counters()) {
      EXPECT_FALSE(counter.description.empty()) << counter.name;
      EXPECT_NE(architecture->FindBlock(counter.block), nullptr) << counter.name;
    }
    for (const CounterGroup& set : architecture->sets()) {
      auto members = architecture->Members(set);
      ASSERT_TRUE(members.ok()) << set.name << members.status();
      EXPECT_FALSE(members->empty());
    }
  }
  EXPECT_GT(catalog.Find("gfx90a")->counters().size(), 230u);
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
  // There may be such a counter: nobody says that there is none.
  EXPECT_THAT(std::string(catalog.CheckKnown("OccupancyPercent").message()),
              HasSubstr("\"OccupancyPercent\" is not in the catalogue of counters and "
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
