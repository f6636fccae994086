// Counter values compared with the truth, and requests that the SDK refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/integration/simrocm/simrocm_session.h"
#include "userspace/collector/sdk/abi.h"

namespace rocattach {
namespace {

using simrocm::CounterValue;

// Checks everything about a run but its values.
void ExpectCleanRun(const SessionResult& result) {
  ASSERT_EQ(result.program.exit_status, 0)
      << result.program.errors << result.program.output;
  EXPECT_EQ(result.program.errors, "");
  ASSERT_EQ(result.printed.at("result"), "ok");
  EXPECT_THAT(result.Tool("failed"), testing::IsEmpty());
  EXPECT_EQ(result.Tool("finalize").size(), 1u);
}

// Every counted dispatch has each instance of each counter of its group once, with the
// right value. Returns the number of values.
size_t ExpectTrueValues(const SessionResult& result) {
  std::map<uint64_t, Event> dispatches;
  for (const Event& event : result.Tool("counted")) {
    EXPECT_TRUE(dispatches.emplace(event.Number("id"), event).second)
        << "dispatch " << event.Number("id") << " twice";
  }
  std::map<uint64_t, uint64_t> values_of_dispatch;
  std::set<std::string> seen;
  size_t wrong = 0;
  for (const Event& value : result.Tool("value")) {
    uint64_t id = value.Number("dispatch");
    EXPECT_EQ(dispatches.count(id), 1u) << "value of dispatch " << id;
    if (dispatches.count(id) == 0) return 0;
    uint64_t expected =
        CounterValue(value.Text("counter"), ShapeOf(dispatches[id]),
                     value.Number("instance"), value.Number("instances"));
    wrong += value.Real("value") != static_cast<double>(expected);
    EXPECT_EQ(value.Number("agent"), dispatches[id].Number("agent"));
    ++values_of_dispatch[id];
    EXPECT_TRUE(seen.insert(value.Text("counter") + "/" + value.Text("dispatch") + "/" +
                            value.Text("instance"))
                    .second);
  }
  EXPECT_EQ(wrong, 0u);
  for (const auto& [id, dispatch] : dispatches) {
    EXPECT_EQ(values_of_dispatch[id], dispatch.Number("records")) << "dispatch " << id;
  }
  return seen.size();
}

struct Form {
  const char* word;
  const char* arch;
};

class DispatchCounting : public testing::TestWithParam<Form> {};

TEST_P(DispatchCounting, ValuesAreTheTruth) {
  SessionResult result = RunSession(
      {.plan = std::string(GetParam().word) +
               " counters=SQ_WAVES,SQ_INSTS_VALU,GRBM_COUNT,TCC_HIT,CPC_CPC_STAT_BUSY",
       .run_options = {"--arch", GetParam().arch},
       .command = {},
       .steps = {"dispatch:60"},
       .environment = {}});
  ExpectCleanRun(result);
  EXPECT_EQ(result.Tool("counted").size(), 60u);
  const bool gfx90a = std::string(GetParam().arch) == "gfx90a";
  const size_t engines = gfx90a ? 8 : 4, channels = gfx90a ? 32 : 16;
  EXPECT_EQ(ExpectTrueValues(result), 60 * (2 * engines + 1 + channels + 1));
}

TEST_P(DispatchCounting, SeveralGpusThreadsAndGroups) {
  SessionResult result =
      RunSession({.plan = std::string(GetParam().word) +
                          " thread watermark=4096 counters=SQ_WAVES,GRBM_GUI_ACTIVE;"
                          "SQ_CYCLES,TCC_MISS;CPF_CPF_STAT_BUSY",
                  .run_options = {"--count", "3", "--arch", GetParam().arch},
                  .command = {},
                  .steps = {"-t", "4", "dispatch:40"},
                  .environment = {}});
  ExpectCleanRun(result);
  EXPECT_EQ(result.Tool("counted").size(), 3u * 4 * 40);
  EXPECT_GT(ExpectTrueValues(result), 0u);
  // Groups are multiplexed on each GPU, so that each is counted equally often.
  std::map<std::string, std::set<uint64_t>> dispatches_of_counter;
  for (const Event& value : result.Tool("value")) {
    dispatches_of_counter[value.Text("counter")].insert(value.Number("dispatch"));
  }
  // 160 dispatches on each of 3 GPUs, in cycles of 3.
  EXPECT_EQ(dispatches_of_counter["SQ_WAVES"].size(), 3u * 54);
  EXPECT_EQ(dispatches_of_counter["TCC_MISS"].size(), 3u * 53);
  EXPECT_EQ(dispatches_of_counter["CPF_CPF_STAT_BUSY"].size(), 3u * 53);
}

INSTANTIATE_TEST_SUITE_P(Forms, DispatchCounting,
                         testing::Values(Form{"buffer", "gfx90a"},
                                         Form{"callback", "gfx90a"},
                                         Form{"buffer", "gfx906"}),
                         [](const auto& form) {
                           return std::string(form.param.word) + "_" + form.param.arch;
                         });

TEST(Counting, DispatchesOfAGpuRunOneAfterTheOther) {
  SessionResult result = RunSession({.plan = "buffer counters=SQ_WAVES",
                                     .run_options = {"--count", "2"},
                                     .command = {},
                                     .steps = {"-t", "3", "dispatch:40"},
                                     .environment = {}});
  ExpectCleanRun(result);
  std::map<uint64_t, std::map<uint64_t, uint64_t>> by_agent;  // start -> end
  for (const Event& event : result.Tool("counted")) {
    ASSERT_LT(event.Number("start"), event.Number("end"));
    by_agent[event.Number("agent")][event.Number("start")] = event.Number("end");
  }
  ASSERT_EQ(by_agent.size(), 2u);
  for (const auto& [agent, times] : by_agent) {
    ASSERT_EQ(times.size(), 120u);
    uint64_t before = 0;
    for (const auto& [start, end] : times) {
      EXPECT_LE(before, start);
      before = end;
    }
  }
}

TEST(Counting, DerivedCountersFollowFromTheirParts) {
  SessionResult result =
      RunSession({.plan = "buffer counters=Wavefronts,VALUInsts,CU_NUM,TA_BUSY_max",
                  .run_options = {},
                  .command = {},
                  .steps = {"dispatch:9"},
                  .environment = {}});
  ExpectCleanRun(result);
  std::map<uint64_t, Event> dispatches;
  for (const Event& event : result.Tool("counted")) {
    dispatches[event.Number("id")] = event;
    EXPECT_EQ(event.Number("records"), 4u);
  }
  ASSERT_EQ(dispatches.size(), 9u);
  for (const Event& value : result.Tool("value")) {
    auto shape = ShapeOf(dispatches[value.Number("dispatch")]);
    auto waves = static_cast<double>(simrocm::Waves(shape));
    const std::string name = value.Text("counter");
    if (name == "Wavefronts") {
      EXPECT_EQ(value.Real("value"), waves);
    } else if (name == "VALUInsts") {
      EXPECT_EQ(
          value.Real("value"),
          static_cast<double>(simrocm::CounterTotal("SQ_INSTS_VALU", shape)) / waves);
    } else if (name == "CU_NUM") {
      EXPECT_EQ(value.Real("value"), 104);
    } else {
      EXPECT_EQ(value.Real("value"),
                static_cast<double>(CounterValue("TA_TA_BUSY", shape, 0, 8 * 16)));
    }
  }
}

// Counters are sorted by their ids, whatever the order of the request: SQ_LEVEL_WAVES
// is just before the accumulator, and SQ_WAVES is far from it.
TEST(Counting, AnAccumulatorDoesNotFollowTheCounterBeforeItInARequest) {
  SessionResult result =
      RunSession({.plan = "buffer counters=SQ_WAVES,SQ_ACCUM_PREV_HIRES,SQ_LEVEL_WAVES",
                  .run_options = {},
                  .command = {},
                  .steps = {"dispatch:9"},
                  .environment = {}});
  ExpectCleanRun(result);
  std::map<uint64_t, Event> dispatches;
  for (const Event& event : result.Tool("counted")) {
    dispatches[event.Number("id")] = event;
  }
  size_t seen = 0;
  for (const Event& value : result.Tool("value")) {
    if (value.Text("counter") != "SQ_ACCUM_PREV_HIRES") continue;
    ++seen;
    const uint64_t before =
        CounterValue("SQ_LEVEL_WAVES", ShapeOf(dispatches[value.Number("dispatch")]),
                     value.Number("instance"), value.Number("instances"));
    EXPECT_EQ(value.Real("value"),
              static_cast<double>(before * simrocm::kAccumulatedHighRes));
  }
  EXPECT_EQ(seen, 9u * 8);
}

// SDK 1.0.0 gives a counter and the same counter accumulated the sum of both if they
// are counted together; a newer SDK does not.
TEST(Counting, ACounterAndItsAccumulationAreMixedUpInOneConfig) {
  for (const bool one_dot_zero : {true, false}) {
    SessionResult result = RunSession(
        {.plan = "buffer accumulate=SQ_LEVEL_WAVES "
                 "counters=SQ_LEVEL_WAVES,SQ_LEVEL_WAVES_ADDED,SQ_WAVES;"
                 "SQ_LEVEL_WAVES_ADDED",
         .run_options = {},
         .command = {},
         .steps = {"dispatch:8"},
         .environment = {{"SIMROCM_CREATE_COUNTER", one_dot_zero ? "0" : "1"}}});
    ExpectCleanRun(result);
    std::map<uint64_t, Event> dispatches;
    for (const Event& event : result.Tool("counted")) {
      dispatches[event.Number("id")] = event;
    }
    std::map<uint64_t, size_t> counters;  // by dispatch
    for (const Event& value : result.Tool("value")) {
      if (value.Number("instance") == 0) ++counters[value.Number("dispatch")];
    }
    std::map<std::string, size_t> seen;
    for (const Event& value : result.Tool("value")) {
      const std::string counter = value.Text("counter");
      const uint64_t dispatch = value.Number("dispatch");
      const auto plain = static_cast<double>(
          CounterValue(counter == "SQ_WAVES" ? counter : "SQ_LEVEL_WAVES",
                       ShapeOf(dispatches[dispatch]), value.Number("instance"),
                       value.Number("instances")));
      const double added = plain * simrocm::kAccumulatedHighRes;
      const bool mixed = one_dot_zero && counters[dispatch] == 3;
      ++seen[counter];
      if (counter == "SQ_WAVES") {
        EXPECT_EQ(value.Real("value"), plain);
      } else if (mixed) {
        EXPECT_EQ(value.Real("value"), plain + added) << counter;
      } else {
        EXPECT_EQ(value.Real("value"), counter == "SQ_LEVEL_WAVES" ? plain : added);
      }
    }
    EXPECT_EQ(seen["SQ_LEVEL_WAVES"], 4u * 8);
    EXPECT_EQ(seen["SQ_LEVEL_WAVES_ADDED"], 8u * 8);
    EXPECT_EQ(seen["SQ_WAVES"], 4u * 8);
  }
}

TEST(Counting, CountsFortyCountersInTwoPasses) {
  // Each group fills a block: 8 of SQ, 4 of TCP and TCC, 2 of each of the others.
  SessionResult result = RunSession(
      {.plan = "buffer counters="
               "SQ_WAVES,SQ_CYCLES,SQ_BUSY_CYCLES,SQ_INSTS,SQ_INSTS_VALU,SQ_INSTS_SALU,"
               "SQ_INSTS_VMEM,SQ_INSTS_LDS,TCC_HIT,TCC_MISS,TCC_REQ,TCC_READ,"
               "GRBM_COUNT,GRBM_GUI_ACTIVE,CPC_CPC_STAT_BUSY,CPC_CPC_STAT_IDLE,"
               "CPF_CPF_STAT_BUSY,CPF_CPF_STAT_IDLE,SPI_CSN_WAVE,SPI_CSN_BUSY;"
               "TCP_TOTAL_READ,TCP_TOTAL_WRITE,TCP_TOTAL_ACCESSES,TCP_TCC_READ_REQ,"
               "TA_TA_BUSY,TA_TOTAL_WAVEFRONTS,TD_TD_BUSY,TD_TC_STALL,"
               "SQC_ICACHE_REQ,SQC_ICACHE_HITS,SQC_ICACHE_MISSES,SQC_DCACHE_REQ,"
               "SQ_INSTS_MFMA,SQ_INSTS_VALU_FMA_F64,SQ_WAIT_ANY,SQ_IFETCH,"
               "SPI_CSN_NUM_THREADGROUPS,SPI_SWC_CSC_WR,GRBM_TA_BUSY,GRBM_EA_BUSY",
       .run_options = {},
       .command = {},
       .steps = {"dispatch:20"},
       .environment = {}});
  ExpectCleanRun(result);
  for (const Event& config : result.Tool("config"))
    EXPECT_EQ(config.Number("status"), 0u);
  EXPECT_EQ(result.Tool("counted").size(), 20u);
  EXPECT_GT(ExpectTrueValues(result), 0u);
  std::set<std::string> counters;
  for (const Event& value : result.Tool("value"))
    counters.insert(value.Text("counter"));
  EXPECT_EQ(counters.size(), 40u);
}

TEST(Counting, DeviceSamplesAddUpToTheDispatches) {
  SessionResult result = RunSession(
      {.plan = "device trace=dispatch counters=SQ_WAVES,TCC_HIT,SQ_INSTS_LDS",
       .run_options = {},
       .command = {},
       .steps = {"dispatch:100", "sleep:100", "dispatch:50", "sleep:200"},
       .environment = {}});
  ExpectCleanRun(result);
  // Started before HSA: refused at first, and counting once HSA is there.
  ASSERT_EQ(result.Tool("device_start").size(), 1u);
  EXPECT_EQ(result.Tool("device_start")[0].Number("status"),
            static_cast<uint64_t>(ROCATTACH_SDK_STATUS_ERROR_HSA_NOT_LOADED));
  ASSERT_EQ(result.Tool("device_config").size(), 1u);
  EXPECT_EQ(result.Tool("device_config")[0].Number("status"), 0u);
  std::map<std::string, double> last;
  for (const Event& value : result.Tool("value")) {
    double& before = last[value.Text("counter") + "/" + value.Text("instance")];
    EXPECT_GE(value.Real("value"), before);
    EXPECT_EQ(value.Number("dispatch"), 0u);
    before = value.Real("value");
  }
  std::vector<Event> traced = result.Tool("traced");
  ASSERT_EQ(traced.size(), 150u);
  EXPECT_EQ(last.size(), 8u + 32u + 8u);
  for (const auto& [key, value] : last) {
    size_t slash = key.find('/');
    std::string counter = key.substr(0, slash);
    double expected = 0;
    for (const Event& dispatch : traced) {
      expected += static_cast<double>(CounterValue(counter, ShapeOf(dispatch),
                                                   std::stoul(key.substr(slash + 1)),
                                                   counter == "TCC_HIT" ? 32 : 8));
    }
    EXPECT_EQ(value, expected) << key;
  }
}

TEST(Counting, RefusesInvalidCalls) {
  SessionResult result = RunSession({.plan = "checks counters=SQ_WAVES",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"dispatch:1"},
                                     .environment = {{"SIMROCM_CREATE_COUNTER", "1"}}});
  ExpectCleanRun(result);
  const std::map<std::string, int> expected = {
      {"context_id_not_zero", ROCATTACH_SDK_STATUS_ERROR_CONTEXT_ID_NOT_ZERO},
      {"start_unknown_context", ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND},
      {"stop_inactive_context", ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND},
      {"flush_unknown_buffer", ROCATTACH_SDK_STATUS_ERROR_BUFFER_NOT_FOUND},
      {"trace_unknown_kind", ROCATTACH_SDK_STATUS_ERROR_KIND_NOT_FOUND},
      {"trace_unknown_buffer", ROCATTACH_SDK_STATUS_ERROR_BUFFER_NOT_FOUND},
      {"trace_twice", ROCATTACH_SDK_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED},
      {"device_after_dispatch", ROCATTACH_SDK_STATUS_ERROR_AGENT_DISPATCH_CONFLICT},
      {"start", ROCATTACH_SDK_STATUS_SUCCESS},
      {"start_again", ROCATTACH_SDK_STATUS_SUCCESS},
      {"start_conflicting", ROCATTACH_SDK_STATUS_ERROR_CONTEXT_CONFLICT},
      {"stop", ROCATTACH_SDK_STATUS_SUCCESS},
      {"sample_without_start", ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_STARTED},
      {"agent_too_large", ROCATTACH_SDK_STATUS_ERROR_INCOMPATIBLE_ABI},
      {"agent_version", ROCATTACH_SDK_STATUS_ERROR_INVALID_ARGUMENT},
      {"assign_unknown_thread", ROCATTACH_SDK_STATUS_ERROR_THREAD_NOT_FOUND},
      {"is_initialized", -1},
      {"nine_of_eight", ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT},
      {"eight_of_eight", ROCATTACH_SDK_STATUS_SUCCESS},
      {"duplicate_is_one", ROCATTACH_SDK_STATUS_SUCCESS},
      {"eight_and_derived_of_the_same", ROCATTACH_SDK_STATUS_SUCCESS},
      {"three_of_two", ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT},
      {"constants_are_free", ROCATTACH_SDK_STATUS_SUCCESS},
      {"unknown_counter", ROCATTACH_SDK_STATUS_ERROR_COUNTER_NOT_FOUND},
      {"unknown_agent", ROCATTACH_SDK_STATUS_ERROR_AGENT_NOT_FOUND},
      {"create_counter", ROCATTACH_SDK_STATUS_SUCCESS},
      {"create_counter_malformed", ROCATTACH_SDK_STATUS_ERROR_AST_GENERATION_FAILED},
      {"late_create_context", ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED},
      {"late_create_buffer", ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED},
      {"late_create_thread", ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED},
      {"late_trace", ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED},
      {"late_dispatch_counting", ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED},
      {"late_device_counting", ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED},
      {"late_intercept", ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED},
      {"start_while_finalizing", ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED},
      {"is_finalized", -1},
  };
  EXPECT_EQ(result.Tool("check").size(), expected.size());
  for (const auto& [name, status] : expected) {
    bool there = false;
    for (const Event& event : result.Tool("check")) {
      there |= event.Text("name") == name;
    }
    EXPECT_TRUE(there) << name;
    EXPECT_EQ(result.Check(name), status) << name;
  }
}

TEST(Counting, ACounterOfAnotherArchitecture) {
  SessionResult result = RunSession({.plan = "buffer counters=SQ_WAVES;SQ_INSTS_MFMA",
                                     .run_options = {"--arch", "gfx906"},
                                     .command = {},
                                     .steps = {"dispatch:4"},
                                     .environment = {}});
  ExpectCleanRun(result);
  // Its name is unknown on this GPU: the tool could not even find its id.
  ASSERT_EQ(result.Tool("config").size(), 2u);
  EXPECT_EQ(result.Tool("config")[0].Number("status"), 0u);
  EXPECT_EQ(result.Tool("config")[1].Number("status"),
            static_cast<uint64_t>(ROCATTACH_SDK_STATUS_ERROR_COUNTER_NOT_FOUND));
  EXPECT_EQ(result.Tool("counted").size(), 4u);
  EXPECT_EQ(ExpectTrueValues(result), 4u * 4);
}

}  // namespace
}  // namespace rocattach
