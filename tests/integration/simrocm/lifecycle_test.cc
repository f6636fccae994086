// Loading, attach, detach and end of tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/simrocm/simrocm_session.h"
#include "tests/places.h"
#include "userspace/collector/sdk/abi.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kSteps = {
    "register.attach", "register.detach", "tool.configure", "tool.configure_attach",
    "tool.initialize", "tool.attach",     "tool.detach",    "tool.finalize"};

TEST(Attach, InitialSequenceStepByStep) {
  SessionResult result = RunSession({.plan = "idle buffer counters=SQ_WAVES",
                                     .run_options = {"--attachable"},
                                     .command = {},
                                     .steps = {"dispatch:10", "attach:" + ToolPath(),
                                               "dispatch:20", "detach", "dispatch:30"},
                                     .environment = {},
                                     .load_tool = false});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_EQ(result.printed["attach"], "0,0");
  EXPECT_EQ(result.printed["environment"], "yes");
  // The order in the documentation of process attachment, section initial attachment.
  EXPECT_THAT(result.LogOrder(kSteps),
              ElementsAre("register.attach", "tool.configure", "tool.configure_attach",
                          "tool.initialize", "tool.attach", "register.detach",
                          "tool.detach", "tool.finalize"));
  // The queue from before the attach is counted, but only between attach and detach.
  EXPECT_EQ(result.Tool("counted").size(), 20u);
  // The names of kernels from before the attach are known as well.
  EXPECT_GE(result.Tool("kernel").size(), 1u);
  ASSERT_EQ(result.Tool("attach").size(), 1u);
  EXPECT_EQ(result.Tool("attach")[0].Number("contexts"), 4u);
  EXPECT_EQ(result.Tool("attach")[0].Number("detach"), 0u);
  EXPECT_EQ(result.Tool("attach")[0].Number("data"), 5678u);
}

TEST(Attach, ReattachCallsOnlyAttach) {
  SessionResult result = RunSession(
      {.plan = "idle buffer trace=copy counters=SQ_WAVES",
       .run_options = {"--attachable"},
       .command = {},
       .steps = {"attach:" + ToolPath(), "dispatch:5", "detach", "dispatch:7",
                 "attach:" + ToolPath(), "dispatch:11", "copy:2", "detach",
                 "dispatch:13", "attach:" + ToolPath(), "dispatch:17", "detach"},
       .environment = {},
       .load_tool = false});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_EQ(result.printed["attach"], "0,0,0,0,0,0");
  EXPECT_THAT(result.LogOrder(kSteps),
              ElementsAre("register.attach", "tool.configure", "tool.configure_attach",
                          "tool.initialize", "tool.attach", "register.detach",
                          "tool.detach",  //
                          "register.attach", "tool.attach", "register.detach",
                          "tool.detach",  //
                          "register.attach", "tool.attach", "register.detach",
                          "tool.detach",  //
                          "tool.finalize"));
  EXPECT_EQ(result.Tool("counted").size(), 5u + 11 + 17);
  EXPECT_EQ(result.Tool("copy").size(), 2u);
  EXPECT_THAT(result.Tool("failed"), testing::IsEmpty());
}

TEST(Attach, RefusesWithTheDocumentedStatuses) {
  SessionResult result =
      RunSession({.plan = "idle",
                  .run_options = {"--attachable"},
                  .command = {},
                  .steps = {"detach", "attach:", "attach:" + ToolPath(),
                            "attach:/another/path.so", "detach"},
                  .environment = {},
                  .load_tool = false});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_EQ(result.printed["attach"],
            std::to_string(ROCATTACH_REGISTER_NO_TOOLS) + "," +
                std::to_string(ROCATTACH_REGISTER_INVALID_ARGUMENT) + ",0," +
                std::to_string(ROCATTACH_REGISTER_INVALID_ARGUMENT) + ",0");
}

TEST(Attach, IsNotAvailableWithoutOptIn) {
  SessionResult result =
      RunSession({.plan = "",
                  .run_options = {},
                  .command = {},
                  .steps = {"attach:" + ToolPath(), "detach", "dispatch:3"},
                  .environment = {},
                  .load_tool = false});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_EQ(result.printed["attach"], "9,9");
  EXPECT_EQ(result.printed["environment"], "unset");
  EXPECT_TRUE(result.tool.empty());
}

TEST(Loading, ThroughToolLibrariesInOrder) {
  SessionResult result = RunSession({.plan = "trace=dispatch",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"dispatch:3"},
                                     .environment = {}});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_THAT(
      result.LogOrder({"sdk.loaded", "sdk.set_api_table", "tool.configure",
                       "tool.configure_attach", "tool.initialize", "sdk.hsa",
                       "register.library_api_table", "bridge.tools_skipped",
                       "tool.attach", "sdk.finalize", "tool.finalize",
                       "sdk.scan_link_map"}),
      ElementsAre("sdk.loaded", "sdk.set_api_table", "tool.configure",
                  "tool.configure_attach", "tool.initialize", "sdk.hsa", "sdk.hsa",
                  "sdk.hsa", "sdk.hsa", "sdk.hsa", "sdk.hsa", "sdk.hsa", "sdk.hsa",
                  "sdk.hsa", "sdk.hsa", "register.library_api_table",
                  "bridge.tools_skipped", "sdk.finalize", "tool.finalize"));
  std::vector<std::string> steps;
  for (const Event& event : result.log) {
    if (event.name == "sdk.hsa") steps.push_back(event.Text("step"));
  }
  EXPECT_THAT(
      steps,
      ElementsAre("copy_tables", "agent_cache", "code_object", "queue_controller",
                  "device_counting", "async_copy", "memory_allocation", "api_wrappers",
                  "runtime_initialization", "intercept_table_callbacks"));
  ASSERT_EQ(result.Tool("configure").size(), 1u);
  EXPECT_EQ(result.Tool("configure")[0].Number("version"), 10305u);
  EXPECT_EQ(result.Tool("configure")[0].Number("priority"), 0u);
}

TEST(Loading, AVisibleSymbolIsLoadedForAllLibraries) {
  SessionResult result = RunSession(
      {.plan = "trace=dispatch",
       .run_options = {},
       .command = {},
       .steps = {"dispatch:3"},
       .environment = {{"LD_PRELOAD", testing_support::WithoutBlanks(ToolPath())}},
       .load_tool = false});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_THAT(result.LogOrder({"sdk.scan_link_map", "tool.configure"}),
              ElementsAre("sdk.scan_link_map", "tool.configure"));
  EXPECT_EQ(result.Tool("traced").size(), 3u);
}

TEST(Loading, AToolMayDeclineOrFail) {
  for (const char* plan : {"decline", "fail trace=dispatch"}) {
    SessionResult result = RunSession({.plan = plan,
                                       .run_options = {},
                                       .command = {},
                                       .steps = {"dispatch:3"},
                                       .environment = {}});
    ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
    EXPECT_TRUE(result.Tool("finalize").empty());
    EXPECT_TRUE(result.Tool("traced").empty());
  }
}

TEST(Loading, AbortsAsTheRealOneDoes) {
  struct Case {
    std::vector<std::string> run_options;
    std::map<std::string, std::string> environment;
    const char* text;
  };
  const Case cases[] = {
      {{"--without-sdk"}, {}, "rocprofiler_set_api_table was not found"},
      {{"--tool", "/no/such/tool.so"}, {}, "cannot open the tool library"},
      {{},
       {{"SIMROCM_NO_TOPOLOGY", "1"}},
       "Found 0 rocprofiler agents and 2 HSA agents"},
      {{}, {{"ROCPROFILER_REGISTER_LIBRARY", "/no/sdk.so"}}, "no /no/sdk.so"},
  };
  for (const Case& fatal : cases) {
    SessionResult result = RunSession({.plan = "trace=dispatch",
                                       .run_options = fatal.run_options,
                                       .command = {},
                                       .steps = {"dispatch:1"},
                                       .environment = fatal.environment});
    EXPECT_EQ(result.program.signal, SIGABRT);
    EXPECT_THAT(result.program.errors, HasSubstr(fatal.text));
  }
}

TEST(Loading, WithoutAToolNothingIsLoaded) {
  SessionResult result = RunSession({.plan = "",
                                     .run_options = {"--without-sdk"},
                                     .command = {},
                                     .steps = {"dispatch:3"},
                                     .environment = {},
                                     .load_tool = false});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_THAT(result.LogOrder({"register.library_api_table", "sdk.loaded"}),
              ElementsAre("register.library_api_table"));
}

// If the SDK is loaded, tools in HSA_TOOLS_LIB are not, unless a variable demands it.
TEST(HsaTools, AreLeftOutOnceTheSdkIsIn) {
  struct Case {
    bool sdk;
    std::map<std::string, std::string> environment;
    size_t loaded;
  };
  const Case cases[] = {
      {false, {}, 1},
      {true, {}, 0},
      {true, {{"HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1"}}, 1},
      {true, {{"HSA_TOOLS_DISABLE_REGISTER", "1"}}, 1},
  };
  for (const Case& example : cases) {
    auto environment = example.environment;
    environment["HSA_TOOLS_LIB"] =
        "/no/such/tool.so " + testing_support::WithoutBlanks(HSA_TOOL);
    SessionResult result = RunSession({.plan = "trace=dispatch",
                                       .run_options = {},
                                       .command = {},
                                       .steps = {"dispatch:3"},
                                       .environment = environment,
                                       .load_tool = example.sdk});
    ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
    const bool disabled = environment.count("HSA_TOOLS_DISABLE_REGISTER") != 0;
    EXPECT_EQ(result.Tool("traced").size(), example.sdk && !disabled ? 3u : 0u);
    ASSERT_EQ(result.Tool("on_load").size(), example.loaded);
    EXPECT_EQ(result.Tool("on_unload").size(), example.loaded);
    if (example.loaded == 0) continue;
    EXPECT_EQ(result.Tool("on_load")[0].Number("table"), 1u);
    EXPECT_EQ(result.Tool("on_load")[0].Number("failed"), 1u);
  }
}

TEST(Ending, EveryOrderlyEndDeliversAllRecords) {
  for (const char* way : {"shutdown", "return", "exit"}) {
    SessionResult result = RunSession({.plan = "trace=dispatch",
                                       .run_options = {},
                                       .command = {},
                                       .steps = {"--exit", way, "dispatch:100"},
                                       .environment = {}});
    ASSERT_EQ(result.program.exit_status, 0) << way << result.program.errors;
    EXPECT_EQ(result.Tool("traced").size(), 100u) << way;
    EXPECT_EQ(result.Tool("finalize").size(), 1u) << way;
  }
  SessionResult result = RunSession({.plan = "trace=dispatch",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"--exit", "_exit", "dispatch:100"},
                                     .environment = {}});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_TRUE(result.Tool("finalize").empty());
}

TEST(Ending, AForkedChildIsLeftAlone) {
  SessionResult result = RunSession({.plan = "trace=dispatch",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"dispatch:10", "fork", "dispatch:10"},
                                     .environment = {}});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_EQ(result.Tool("traced").size(), 20u);
  EXPECT_EQ(result.Tool("finalize").size(), 1u);
}

// As with SDK 1.0.
TEST(Ending, HsaThatStartsAgainEndsTheProcess) {
  SessionResult result = RunSession({.plan = "trace=dispatch",
                                     .run_options = {},
                                     .command = {HSA_REINIT},
                                     .steps = {},
                                     .environment = {}});
  EXPECT_EQ(result.program.signal, SIGABRT);
  EXPECT_THAT(result.program.errors, HasSubstr("Could not find agent"));
}

TEST(Ending, AChildOfACountingProcessDoesNotEnd) {
  SessionResult result = RunSession({.plan = "callback counters=SQ_WAVES",
                                     .run_options = {},
                                     .command = {},
                                     .steps = {"dispatch:10", "fork"},
                                     .environment = {}});
  EXPECT_EQ(result.program.exit_status, 1);
  EXPECT_THAT(result.program.errors, HasSubstr("the child does not end"));
}

TEST(Ending, HsaMayStartAgain) {
  SessionResult result = RunSession({.plan = "trace=dispatch",
                                     .run_options = {"--restartable"},
                                     .command = {HSA_REINIT},
                                     .steps = {},
                                     .environment = {}});
  ASSERT_EQ(result.program.exit_status, 0) << result.program.errors;
  EXPECT_EQ(std::to_string(result.Tool("traced").size()), result.printed["dispatches"]);
  // The library registers at each start, the tool is configured once.
  EXPECT_THAT(result.LogOrder({"tool.configure"}).size(), 1u);
  EXPECT_GE(result.LogOrder({"register.library_api_table"}).size(), 2u);
}

}  // namespace
}  // namespace rocattach
