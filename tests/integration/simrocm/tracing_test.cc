// Tracing of dispatches, copies and calls; buffers; code objects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/integration/simrocm/simrocm_session.h"

namespace rocattach {
namespace {

void ExpectCleanRun(const SessionResult& result) {
  ASSERT_EQ(result.program.exit_status, 0)
      << result.program.errors << result.program.output;
  ASSERT_EQ(result.printed.at("result"), "ok");
  EXPECT_THAT(result.Tool("failed"), testing::IsEmpty());
}

TEST(Tracing, DispatchesHaveTimesAndNames) {
  SessionResult result = RunSession({.plan = "trace=dispatch",
                                     .run_options = {"--count", "2"},
                                     .command = {},
                                     .steps = {"-t", "4", "dispatch:100"},
                                     .environment = {}});
  ExpectCleanRun(result);
  std::map<uint64_t, std::string> names;
  for (const Event& kernel : result.Tool("kernel")) {
    if (kernel.Text("phase") == "load")
      names[kernel.Number("id")] = kernel.Text("name");
  }
  std::set<uint64_t> ids, queues, correlations;
  for (const Event& dispatch : result.Tool("traced")) {
    ids.insert(dispatch.Number("id"));
    queues.insert(dispatch.Number("queue"));
    correlations.insert(dispatch.Number("correlation"));
    EXPECT_EQ(names[dispatch.Number("kernel")], "increment.kd");
    EXPECT_NEAR(static_cast<double>(dispatch.Number("end") - dispatch.Number("start")),
                5000, 200);
  }
  EXPECT_EQ(ids.size(), 800u);
  EXPECT_EQ(*ids.begin(), 1u);
  EXPECT_EQ(*ids.rbegin(), 800u);
  EXPECT_EQ(queues.size(), 8u);
  EXPECT_EQ(correlations.size(), 800u);
}

TEST(Tracing, CopiesHaveDirectionsAndTimes) {
  SessionResult result = RunSession({.plan = "trace=copy",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"copy:10"},
                                     .environment = {}});
  ExpectCleanRun(result);
  std::map<std::string, int> directions;
  for (const Event& copy : result.Tool("copy")) {
    ++directions[copy.Text("direction")];
    EXPECT_EQ(copy.Number("bytes"), 65536u);
    EXPECT_LT(copy.Number("start"), copy.Number("end"));
  }
  EXPECT_EQ(directions,
            (std::map<std::string, int>{{"MEMORY_COPY_HOST_TO_DEVICE", 5},
                                        {"MEMORY_COPY_DEVICE_TO_HOST", 5}}));
}

TEST(Tracing, CallsEncloseTheirDispatches) {
  SessionResult result = RunSession({.plan = "trace=core,amd,dispatch",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"dispatch:20", "copy:2"},
                                     .environment = {}});
  ExpectCleanRun(result);
  std::map<std::string, int> calls;
  std::map<uint64_t, Event> by_correlation;
  for (const Event& call : result.Tool("api")) {
    ++calls[call.Text("name")];
    EXPECT_LE(call.Number("start"), call.Number("end"));
    by_correlation[call.Number("correlation")] = call;
  }
  EXPECT_EQ(calls["hsa_queue_create"], 1);
  EXPECT_EQ(calls["hsa_executable_freeze"], 1);
  EXPECT_EQ(calls["hsa_amd_memory_async_copy"], 2);
  EXPECT_EQ(calls["?"], 0);
  std::vector<Event> dispatches = result.Tool("traced");
  ASSERT_EQ(dispatches.size(), 20u);
  for (const Event& dispatch : dispatches) {
    // A dispatch belongs to the call that rang the doorbell.
    ASSERT_EQ(by_correlation.count(dispatch.Number("correlation")), 1u);
    EXPECT_THAT(by_correlation[dispatch.Number("correlation")].Text("name"),
                testing::HasSubstr("hsa_signal_store"));
  }
}

TEST(Tracing, DispatchCallbacksComeInTheirPhases) {
  SessionResult result = RunSession({.plan = "trace=dispatch_callback",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"dispatch:5"},
                                     .environment = {}});
  ExpectCleanRun(result);
  std::map<uint64_t, std::multiset<std::string>> phases;
  for (const Event& event : result.Tool("dispatch_callback")) {
    phases[event.Number("id")].insert(event.Text("operation") + "/" +
                                      event.Text("phase"));
    EXPECT_EQ(event.Number("user"), 4711u);
    EXPECT_EQ(event.Number("start") != 0, event.Number("operation") == 2);
  }
  ASSERT_EQ(phases.size(), 5u);
  for (const auto& [id, seen] : phases) {
    EXPECT_EQ(seen, (std::multiset<std::string>{"1/1", "1/2", "2/0"}));
  }
}

TEST(Tracing, CodeObjectsComeAndGo) {
  SessionResult result = RunSession({.plan = "trace=dispatch",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"dispatch:3", "load", "dispatch:4"},
                                     .environment = {}});
  ExpectCleanRun(result);
  std::vector<std::string> phases;
  for (const Event& object : result.Tool("code_object")) {
    phases.push_back(object.Text("phase"));
  }
  EXPECT_EQ(phases, (std::vector<std::string>{"load", "unload", "load", "unload"}));
  std::set<uint64_t> kernels;
  for (const Event& dispatch : result.Tool("traced")) {
    kernels.insert(dispatch.Number("kernel"));
    EXPECT_NE(dispatch.Number("kernel"), 0u);
  }
  EXPECT_EQ(kernels.size(), 2u);  // a kernel that is loaded again is another one
}

TEST(Buffers, DropAndCountWhenConfiguredTo) {
  // Three records fit into one half of the buffer; nothing is delivered before the end.
  SessionResult result =
      RunSession({.plan = "trace=dispatch size=600 watermark=100000 discard",
                  .run_options = {},
                  .command = {},
                  .steps = {"dispatch:50"},
                  .environment = {}});
  ExpectCleanRun(result);
  ASSERT_EQ(result.Tool("delivery").size(), 1u);
  EXPECT_EQ(result.Tool("traced").size(), 3u);
  EXPECT_EQ(result.Tool("delivery")[0].Number("dropped"), 47u);
}

// After each delivery by the watermark there is no room at all, and no drop is counted.
TEST(Buffers, DiscardingOnesHaveRoomInEverySecondDeliveryOnly) {
  // The first half has room for all: were it full before the callback thread ran, the
  // drops would be counted. The pause lets that thread run, which then takes the half.
  SessionResult result =
      RunSession({.plan = "trace=dispatch size=60000 watermark=600 discard",
                  .run_options = {},
                  .command = {},
                  .steps = {"dispatch:10", "sleep:500", "dispatch:40"},
                  .environment = {}});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_LT(result.Tool("traced").size(), 50u);
  EXPECT_THAT(result.program.errors, testing::HasSubstr("too small (size=0)"));
  for (const Event& delivery : result.Tool("delivery")) {
    EXPECT_EQ(delivery.Number("dropped"), 0u);
  }
}

TEST(Buffers, LoseNothingWhenConfiguredTo) {
  SessionResult result = RunSession({.plan = "trace=dispatch size=600 watermark=100000",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"-t", "4", "dispatch:50"},
                                     .environment = {}});
  ExpectCleanRun(result);
  EXPECT_EQ(result.Tool("traced").size(), 200u);
  EXPECT_GE(result.Tool("delivery").size(), 200u / 3);
  for (const Event& delivery : result.Tool("delivery")) {
    EXPECT_EQ(delivery.Number("dropped"), 0u);
  }
}

TEST(Buffers, WatermarkZeroDeliversByItselfAndOnOneThread) {
  SessionResult result = RunSession(
      {.plan = "trace=dispatch watermark=0 thread",
       .run_options = {},
       .command = {},
       .steps = {"dispatch:1", "sleep:300", "dispatch:1", "sleep:300", "dispatch:20"},
       .environment = {}});
  ExpectCleanRun(result);
  EXPECT_EQ(result.Tool("traced").size(), 22u);
  std::set<uint64_t> threads;
  for (const Event& delivery : result.Tool("delivery")) {
    threads.insert(delivery.Number("thread"));
  }
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_GT(result.Tool("delivery").size(), 1u);
}

}  // namespace
}  // namespace rocattach
