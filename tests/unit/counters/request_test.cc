#include "userspace/counters/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/base/session_status.h"
#include "userspace/counters/pass_planner.h"

namespace rocattach {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CounterRequestTest : public ::testing::Test {
 protected:
  CounterCatalog catalog_ = *CounterCatalog::Builtin();
  const ArchitectureCounters& gpu_ = *catalog_.Find("gfx90a");
};

TEST_F(CounterRequestTest, OneGroupPerOption) {
  auto groups =
      ResolveCounters(gpu_, {.pmc = {{"SQ_WAVES", "GRBM_COUNT"}, {"TCC_HIT,TCC_MISS"}},
                             .sets = {},
                             .blocks = {}});
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_THAT(*groups, ElementsAre(ElementsAre("SQ_WAVES", "GRBM_COUNT"),
                                   ElementsAre("TCC_HIT", "TCC_MISS")));
}

TEST_F(CounterRequestTest, SetsAndBlocks) {
  auto groups = ResolveCounters(
      gpu_, {.pmc = {}, .sets = {"launch_stats"}, .blocks = {"TA", "5,5.1"}});
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 4u);
  EXPECT_THAT((*groups)[0], Contains("SPI_CSN_WAVE"));
  EXPECT_THAT((*groups)[1], Contains("TA_TA_BUSY"));
  EXPECT_THAT((*groups)[1], Not(Contains("TD_TD_BUSY")));
  EXPECT_THAT((*groups)[2], Contains("CPC_CPC_STAT_BUSY"));
  EXPECT_THAT((*groups)[3], Contains("CPF_CPF_STAT_BUSY"));
  EXPECT_THAT((*groups)[3], Not(Contains("CPC_CPC_STAT_BUSY")));
}

TEST_F(CounterRequestTest, AMetricHasItsOwnCounters) {
  auto of = [&](const std::string& architecture, const std::string& block) {
    auto groups = ResolveCounters(*catalog_.Find(architecture),
                                  {.pmc = {}, .sets = {}, .blocks = {block}});
    EXPECT_TRUE(groups.ok()) << groups.status();
    return groups.ok() ? groups->front() : CounterNames();
  };
  for (const char* architecture : {"gfx90a", "gfx942", "gfx950"}) {
    EXPECT_THAT(of(architecture, "3.1.1"), ElementsAre("SQ_WAVE_CYCLES", "SQ_WAVES"));
    EXPECT_THAT(of(architecture, "4.1.1"), ElementsAre("SQ_INSTS_VALU_MFMA_MOPS_F64"));
    EXPECT_THAT(of(architecture, "5.1.1"),
                ElementsAre("CPF_CPF_STAT_STALL", "CPF_CPF_STAT_BUSY"));
    const auto plan = PlanPasses(*catalog_.Find(architecture),
                                 {of(architecture, "3.1.1"), of(architecture, "4.1.1"),
                                  of(architecture, "5.1.1")},
                                 {.single_pass = true, .keep_groups = false});
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
  EXPECT_THAT(of("gfx908", "3.1.1"), ElementsAre("SQ_WAVE_CYCLES", "SQ_WAVES"));
  // A table consists of all of its metrics, and of none of another table.
  EXPECT_THAT(of("gfx90a", "3.1"), Contains("SQ_INSTS_VALU"));
  EXPECT_THAT(of("gfx90a", "4.2"), Not(Contains("SQ_INSTS_VALU_MFMA_MOPS_I8")));
  EXPECT_THAT(of("gfx90a", "4.1"), Contains("SQ_INSTS_VALU_MFMA_MOPS_I8"));
}

TEST_F(CounterRequestTest, AMetricThatIsNotKnownStandsForItsSection) {
  auto of = [&](const std::string& block) {
    return ResolveCounters(gpu_, {.pmc = {}, .sets = {}, .blocks = {block}});
  };
  for (const auto& [metric, section] : {std::pair("3.1.0", "3"),
                                        {"4.1.99", "4"},
                                        {"5.1.99", "5.1"},
                                        {"17.2.3", "17"}}) {
    const auto groups = of(metric);
    ASSERT_TRUE(groups.ok()) << groups.status();
    EXPECT_EQ(*groups, *of(section)) << metric;
  }
  EXPECT_FALSE(of("99.1.1").ok()) << "no such section";
  EXPECT_FALSE(of("5.9.1").ok()) << "section 5 has tables, but not this one";
  EXPECT_FALSE(of("5.1.x").ok());
  EXPECT_FALSE(of("17.1").ok()) << "a table, of which nothing is known";
}

// ROCm's compute profiler treats parts of the SQ as blocks of their own.
TEST_F(CounterRequestTest, BlocksOfTheComputeProfiler) {
  for (const char* name : {"gfx908", "gfx90a", "gfx942", "gfx950"}) {
    const ArchitectureCounters& gpu = *catalog_.Find(name);
    for (const auto& [block, counter] : {std::pair("LDS", "SQ_LDS_BANK_CONFLICT"),
                                         std::pair("SQC", "SQC_ICACHE_REQ")}) {
      CounterOptions options;
      options.blocks = {block};
      const auto groups = ResolveCounters(gpu, options);
      ASSERT_TRUE(groups.ok()) << groups.status();
      EXPECT_THAT((*groups)[0], testing::Contains(counter)) << name;
    }
  }
}

TEST_F(CounterRequestTest, UnknownNamesNameTheNearest) {
  auto expect = [&](const CounterOptions& options, const char* hint) {
    auto groups = ResolveCounters(gpu_, options);
    EXPECT_EQ(SessionStatusOf(groups.status()), SessionStatus::kCounterNotFound);
    EXPECT_THAT(std::string(groups.status().message()), HasSubstr(hint));
    const absl::Status checked = CheckCounters(catalog_, options);
    EXPECT_EQ(SessionStatusOf(checked), SessionStatus::kCounterNotFound);
    EXPECT_THAT(std::string(checked.message()), HasSubstr(hint));
  };
  expect({.pmc = {{"SQ_WAEVS"}}, .sets = {}, .blocks = {}}, "SQ_WAVES");
  expect({.pmc = {}, .sets = {"launch_stat"}, .blocks = {}}, "launch_stats");
  expect({.pmc = {}, .sets = {}, .blocks = {"TCQ"}}, "TC");
}

TEST_F(CounterRequestTest, CheckAcceptsCountersOfAnyGpu) {
  EXPECT_TRUE(CheckCounters(catalog_, {.pmc = {{"TCC_EA0_RDREQ", "TCC_EA_RDREQ"}},
                                       .sets = {"mem_thruput"},
                                       .blocks = {"17"}})
                  .ok());
}

}  // namespace
}  // namespace rocattach
