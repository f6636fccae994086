// Life cycle of the SDK backend: loading and fallback, start and stop, attach and
// detach, and what it leaves behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/collector/sdk_checks.h"
#include "tests/integration/collector/sdk_run.h"
#include "tests/places.h"
#include "userspace/base/file.h"
#include "userspace/collector/sdk/abi.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Splits the dispatches of a run, which must all be counted, by plan generation.
std::map<uint64_t, CollectorResult> ByGeneration(const CollectorResult& run) {
  std::map<uint64_t, CollectorResult> parts;
  for (const auto& dispatch : run.dispatches) {
    EXPECT_TRUE(dispatch.flags & ROCATTACH_DISPATCH_COUNTED);
    const auto values = run.values.find(dispatch.correlation_id);
    if (values == run.values.end()) {
      ADD_FAILURE() << "no values of dispatch " << dispatch.correlation_id;
      continue;
    }
    CollectorResult& part = parts[values->second.front().plan_generation];
    part.dispatches.push_back(dispatch);
    part.values[dispatch.correlation_id] = values->second;
  }
  return parts;
}

class SdkLife : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_TARGETS_CAN_BE_MAPPED(); }
  // Returns the path of a file that the step "until:" waits for.
  std::string Gate(const char* name) {
    gate_ = absl::StrCat(testing::TempDir(), "sdk_life_", name, "_", getpid());
    unlink(gate_.c_str());
    return gate_;
  }
  void OpenGate() const {
    close(open(gate_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  }
  void TearDown() override {
    if (!gate_.empty()) unlink(gate_.c_str());
  }

 private:
  std::string gate_;
};

TEST_F(SdkLife, IsFoundWithoutAScanAndLeavesChildrenAlone) {
  SdkResult result = RunSdk({.steps = {"dispatch:5", "environment"},
                             .filters = {CountersFilter({"SQ_WAVES"})}});
  ExpectCleanRun(result);
  EXPECT_EQ(result.backend.reason,
            static_cast<uint32_t>(ROCATTACH_BACKEND_REASON_REQUESTED));
  EXPECT_GE(result.backend.sdk_version, 10000u);
  EXPECT_EQ(result.backend.record_kinds, 511u);
  EXPECT_EQ(result.run.state, static_cast<uint32_t>(ROCATTACH_STATE_ENDED));
  EXPECT_THAT(result.run.output, Not(HasSubstr("child: ")));
  // The SDK reads every mapped library if a tool is in the global scope.
  EXPECT_THAT(result.LogOrder({"sdk.scan_link_map", "fatal"}), testing::IsEmpty());
  EXPECT_THAT(result.LogOrder({"tool.configure", "tool.configure_attach",
                               "tool.initialize", "tool.attach", "tool.finalize"}),
              ElementsAre("tool.configure", "tool.configure_attach", "tool.initialize",
                          "tool.finalize"));
  // Contexts have stopped before the SDK itself ends.
  std::vector<std::string> order =
      result.LogOrder({"sdk.stop_context", "sdk.finalize"});
  ASSERT_FALSE(order.empty());
  EXPECT_EQ(order.front(), "sdk.stop_context");
}

// Children see the user's variables, as they do without the collector.
TEST_F(SdkLife, KeepsTheUsersToolsOfBothKinds) {
  const std::string tool = testing_support::WithoutBlanks(HSA_TOOL_PATH);
  SdkResult result = RunSdk({.steps = {"dispatch:5", "environment"},
                             .filters = {CountersFilter({"SQ_WAVES"})},
                             .environment = {"HSA_TOOLS_LIB=" + tool}});
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 5u);
  EXPECT_THAT(result.run.output, HasSubstr("child: HSA_TOOLS_LIB=" + tool + "\n"));
  bool called = false;
  for (const LogEvent& event : result.log) {
    called |= event.name == "bridge.tool" && event.Field("name") == tool &&
              event.Field("loaded") == "1";
  }
  EXPECT_TRUE(called) << "the user's HSA tool was left out";
}

// As in a PyTorch process: another tool is already a client of the SDK.
TEST_F(SdkLife, WorksBesideAnotherTool) {
  SdkResult result = RunSdk({.steps = {"dispatch:9"},
                             .filters = {CountersFilter({"SQ_WAVES", "TCC_HIT"})},
                             .environment = {"ROCP_TOOL_LIBRARIES=" TEST_TOOL_PATH,
                                             "SIMROCM_TOOL=trace=dispatch",
                                             "SIMROCM_TOOL_OUTPUT=/dev/null"}});
  ExpectCleanRun(result);
  EXPECT_EQ(ExpectTrueValues(result.run, *result.plan, result.generation), 18u);
  std::vector<std::string> priorities;
  for (const LogEvent& event : result.log) {
    if (event.name == "tool.configure") priorities.push_back(event.Field("priority"));
  }
  EXPECT_THAT(priorities, ElementsAre("0", "1"));
}

TEST_F(SdkLife, ReportsThatAnotherToolCounts) {
  SdkResult result =
      RunSdk({.steps = {"dispatch:9", "wait"},
              .filters = {CountersFilter({"SQ_WAVES"})},
              .environment = {"ROCP_TOOL_LIBRARIES=" TEST_TOOL_PATH,
                              "SIMROCM_TOOL=buffer counters=SQ_WAVES",
                              "SIMROCM_TOOL_OUTPUT=/dev/null"},
              .step = [](SdkTarget& target) {
                if (target.memory.control().plan_answer().generation != 0) {
                  target.Continue();
                }
              }});
  EXPECT_EQ(result.answer.error, static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_CONFLICT));
  EXPECT_THAT(result.answer.text, HasSubstr("CONFLICT"));
  ExpectCleanRun(result);
  EXPECT_TRUE(result.run.dispatches.empty());
}

// The SDK is requested, but the runtime has none: dispatches are recorded anyway, and
// the backend says why there are no counters.
TEST_F(SdkLife, FallsBackWithoutAnSdk) {
  SdkResult result = RunSdk(
      {.steps = {"dispatch:30", "environment"},
       .recording = true,
       .environment = {
           "LD_LIBRARY_PATH=",
           "LD_PRELOAD=" + testing_support::WithoutBlanks(COLLECTOR_PRELOAD_PATH) +
               ":" + testing_support::WithoutBlanks(SIMGPU_LIBRARY_PATH)}});
  EXPECT_EQ(result.backend.backend, static_cast<uint32_t>(ROCATTACH_BACKEND_HSA_TOOLS));
  EXPECT_EQ(result.backend.reason,
            static_cast<uint32_t>(ROCATTACH_BACKEND_REASON_NO_REGISTER));
  EXPECT_NE(result.backend.text, "");
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 30u);
  EXPECT_THAT(result.run.output, Not(HasSubstr("child: ")));
}

struct Footprint {
  size_t resident_pages = 0, descriptors = 0, mappings = 0;
};

Footprint Measure(pid_t pid) {
  Footprint now;
  const std::string folder = absl::StrCat("/proc/", pid);
  auto statm = ReadFile(folder + "/statm", 4096);
  auto maps = ReadFile(folder + "/maps", 16 << 20);
  if (!statm.ok() || !maps.ok()) return now;
  std::vector<std::string> words = absl::StrSplit(*statm, ' ');
  now.resident_pages = std::stoul(words[1]) - std::stoul(words[2]);  // not shared
  now.mappings = static_cast<size_t>(std::count(maps->begin(), maps->end(), '\n'));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/fd", error)) {
    (void)entry;
    ++now.descriptors;
  }
  return now;
}

// Starts and stops sessions, each with different counters.
class ManySessions {
 public:
  static constexpr int kCycles = 1000;

  // Called repeatedly while the target runs; calls `finished` when all are done.
  void Step(SdkTarget& target, const std::function<void()>& finished) {
    if (waiting_for_ != 0) {
      PlanAnswer answer;
      if (!target.Answered(waiting_for_, &answer)) return;
      refused += answer.error != 0;
      waiting_for_ = 0;
      before_ = target.result.dispatches.size();
      if (!running_ && cycle_ == 100) early = Measure(target.result.pid);
      if (!running_ && cycle_ == kCycles) {
        late = Measure(target.result.pid);
        finished();
      }
    } else if (!running_ && cycle_ < kCycles) {
      std::vector<std::string> some;
      for (int i = 0; i < 1 + cycle_ % 7; ++i) {
        some.push_back(names_[static_cast<size_t>(cycle_ * 5 + i * 7) % 60]);
      }
      waiting_for_ = target.Write({CountersFilter(some)});
      plans[waiting_for_] = target.plan;
      running_ = true;
    } else if (running_ && target.result.dispatches.size() > before_) {
      waiting_for_ = target.WriteEmpty();
      running_ = false;
      ++cycle_;
    }
  }

  // Plans by generation.
  std::map<uint64_t, std::shared_ptr<const CompiledPlan>> plans;
  Footprint early, late;
  int refused = 0;

 private:
  const std::vector<std::string> names_ = KnownCounters(60);
  uint64_t waiting_for_ = 0;
  int cycle_ = 0;
  bool running_ = false;
  size_t before_ = 0;
};

// All sessions are in one process, which dispatches all the time.
TEST_F(SdkLife, AThousandSessionsOnOneProcess) {
  constexpr size_t kCycles = ManySessions::kCycles;
  const std::string gate = Gate("thousand");
  ManySessions sessions;
  SdkResult result = RunSdk(
      {.threads = 2,
       .steps = {"until:" + gate, "dispatch:1"},
       .step = [&](SdkTarget& target) { sessions.Step(target, [&] { OpenGate(); }); },
       .timeout_seconds = 200});
  ExpectCleanRun(result);
  EXPECT_EQ(sessions.refused, 0);
  EXPECT_EQ(sessions.plans.size(), kCycles);
  // Every counted dispatch was counted by the plan in force, with true values.
  const auto by_generation = ByGeneration(result.run);
  EXPECT_EQ(by_generation.size(), kCycles);
  for (const auto& [generation, part] : by_generation) {
    ASSERT_EQ(sessions.plans.count(generation), 1u);
    EXPECT_GT(ExpectTrueValues(part, *sessions.plans[generation], generation), 0u);
    if (HasFailure()) return;
  }
  EXPECT_LT(result.run.dispatches.size(),
            static_cast<size_t>(result.run.Printed("dispatches")));
  ASSERT_NE(sessions.early.mappings, 0u);
  EXPECT_EQ(sessions.late.descriptors, sessions.early.descriptors);
  EXPECT_LE(sessions.late.mappings, sessions.early.mappings + 2);
  // The simulator's own memory of configs grows a little.
  EXPECT_LE(sessions.late.resident_pages, sessions.early.resident_pages + 400);
}

// Plans replace each other while 32 threads dispatch on two GPUs, faster than a
// dispatch completes.
TEST_F(SdkLife, PlansInQuickSuccession) {
  const std::vector<std::string> names = KnownCounters(40);
  const std::string gate = Gate("succession");
  std::map<uint64_t, std::shared_ptr<const CompiledPlan>> plans;
  uint64_t last = 0;
  SdkResult result = RunSdk({.gpus = 2,
                             .threads = 16,
                             .steps = {"until:" + gate},
                             .step = [&](SdkTarget& target) {
                               PlanAnswer answer;
                               if (plans.size() < 300) {
                                 std::vector<std::string> some;
                                 for (size_t i = 0; i < 1 + plans.size() % 5; ++i) {
                                   some.push_back(names[(plans.size() * 3 + i) % 40]);
                                 }
                                 last = target.Write({CountersFilter(some)});
                                 plans[last] = target.plan;
                               } else if (target.Answered(last, &answer)) {
                                 EXPECT_EQ(answer.error, 0u) << answer.text;
                                 OpenGate();
                               }
                             }});
  ExpectCleanRun(result);
  const auto by_generation = ByGeneration(result.run);
  EXPECT_GT(by_generation.size(), 10u);
  for (const auto& [generation, part] : by_generation) {
    ASSERT_EQ(plans.count(generation), 1u);
    ExpectTrueValues(part, *plans[generation], generation);
    if (HasFailure()) return;
  }
}

// The target can write to the memory too. Whatever is in the place of the plan, the
// program runs on, and the next valid plan works.
TEST_F(SdkLife, GarbageInsteadOfAPlanDoesNoHarm) {
  const std::string gate = Gate("garbage");
  std::mt19937_64 random(11);
  int rounds = 0;
  uint64_t good = 0;
  std::shared_ptr<const CompiledPlan> plan;
  SdkResult result =
      RunSdk({.threads = 4, .steps = {"until:" + gate}, .step = [&](SdkTarget& target) {
                PlanAnswer answer;
                if (rounds < 300) {
                  // A valid plan with some words changed: most of it passes the first
                  // checks.
                  target.Write({CountersFilter({"SQ_WAVES", "TCC_HIT"})});
                  auto image = std::make_unique<rocattach_plan>();
                  *image = *target.plan->image;
                  auto* words = reinterpret_cast<uint32_t*>(image.get());
                  for (int i = 0; i < 1 + rounds % 40; ++i) {
                    const size_t end = rounds % 2 == 0 ? 2048 : sizeof(*image) / 4;
                    words[8 + random() % (end - 8)] = static_cast<uint32_t>(random());
                  }
                  target.memory.control().WritePlan(*image);
                  ++rounds;
                } else if (good == 0) {
                  good = target.Write({CountersFilter({"SQ_WAVES", "TCC_HIT"})});
                  plan = target.plan;
                } else if (target.Answered(good, &answer)) {
                  EXPECT_EQ(answer.error, 0u) << answer.text;
                  size_t counted = 0;
                  for (const auto& [id, values] : target.result.values) {
                    counted += values.front().plan_generation == good;
                  }
                  if (counted > 50) OpenGate();
                }
              }});
  ASSERT_EQ(result.run.exit_status, 0) << result.run.errors;
  EXPECT_THAT(result.run.output, HasSubstr("result=ok"));
  CollectorResult part;
  for (const auto& dispatch : result.run.dispatches) {
    auto values = result.run.values.find(dispatch.correlation_id);
    if (values == result.run.values.end() ||
        values->second.front().plan_generation != good) {
      continue;
    }
    part.dispatches.push_back(dispatch);
    part.values[dispatch.correlation_id] = values->second;
  }
  EXPECT_GT(ExpectTrueValues(part, *plan, good), 100u);
}

// The runtime is shut down and initialised again; the plan stays in force.
TEST_F(SdkLife, TheRuntimeStartsAgain) {
  SdkResult result = RunSdk({.command = {HSA_REINIT_PATH, "-r", "3", "-n", "40"},
                             .filters = {CountersFilter({"SQ_WAVES", "TCC_HIT"})},
                             .environment = {"COLLECTOR_TEST_EVERY=1"}});
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 120u);
  EXPECT_EQ(ExpectTrueValues(result.run, *result.plan, result.generation), 240u);
}

const std::vector<std::string> kAttachSteps = {
    "register.attach", "register.detach", "tool.configure", "tool.configure_attach",
    "tool.initialize", "tool.attach",     "tool.detach",    "tool.finalize"};

// The sequence documented in "Implementing process attachment": the attacher does 1 and
// 2; 3 configure, 4 configure_attach, 5 tool_init, 6 tool_attach, 7 profiling, 9
// detach, 10 tool_detach, 12 tool_fini.
TEST_F(SdkLife, InitialAttachAndReattachStepByStep) {
  const std::string attach = "attach:" + CollectorPath();
  SdkResult result =
      RunSdk({.steps = {"dispatch:10", "collector", attach, "dispatch:20", "detach",
                        "dispatch:30", attach, "dispatch:40", "detach", "dispatch:50"},
              .filters = {CountersFilter({"SQ_WAVES", "GRBM_COUNT"})},
              .backend = ROCATTACH_BACKEND_SDK_ATTACH,
              .environment = {"ROCP_TOOL_ATTACH=1", "COLLECTOR_TEST_LATE=1"}});
  ExpectCleanRun(result);
  EXPECT_THAT(result.run.output, HasSubstr("attach=0,0,0,0"));
  EXPECT_THAT(result.LogOrder(kAttachSteps),
              ElementsAre("register.attach", "tool.configure", "tool.configure_attach",
                          "tool.initialize", "tool.attach", "register.detach",
                          "tool.detach",  //
                          "register.attach", "tool.attach", "register.detach",
                          "tool.detach",  //
                          "tool.finalize"));
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  // Contexts run only between attach and detach, and an older queue is counted too.
  EXPECT_EQ(result.run.dispatches.size(), 60u);
  EXPECT_EQ(ExpectTrueValues(result.run, *result.plan, result.generation), 120u);
  for (const auto& dispatch : result.run.dispatches) {
    EXPECT_EQ(result.run.kernels.at(dispatch.kernel_id).name, "increment");
  }
  // Contexts of plans are off between the tool's initialisation and its attach.
  std::vector<std::string> order = result.LogOrder(
      {"tool.initialize", "tool.attach", "tool.detach", "sdk.start_context"});
  ASSERT_GE(order.size(), 4u);
  EXPECT_EQ(order[0], "tool.initialize");
  EXPECT_EQ(order[1], "sdk.start_context");  // context for names, always on
  EXPECT_EQ(order[2], "tool.attach");
}

class SdkExit : public SdkLife, public testing::WithParamInterface<const char*> {};

TEST_P(SdkExit, NothingIsLost) {
  SdkResult result =
      RunSdk({.threads = 2,
              .steps = {"dispatch:40", "copy:6", "fork", "dispatch:20"},
              .exit = GetParam(),
              .filters = {CountersFilter({"SQ_WAVES", "TCC_HIT", "SQ_INSTS"})}});
  ASSERT_EQ(result.run.exit_status, 0) << result.run.errors;
  EXPECT_EQ(result.run.errors, "");
  EXPECT_EQ(result.run.account.ring_dropped, 0u);
  EXPECT_EQ(result.run.dispatches.size() + result.run.unfinished.size(), 120u);
  if (std::string(GetParam()) != "_exit") {
    EXPECT_TRUE(result.run.unfinished.empty());
  }
  ExpectTrueValues(result.run, *result.plan, result.generation);
}

INSTANTIATE_TEST_SUITE_P(Ways, SdkExit,
                         testing::Values("shutdown", "return", "exit", "_exit"));

TEST_F(SdkLife, KilledProcessLeavesItsPublishedRecords) {
  SdkResult result = RunSdk({.steps = {"until:/no/such/file"},
                             .filters = {CountersFilter({"SQ_WAVES", "SQ_INSTS"})},
                             .step = [&](SdkTarget& target) {
                               if (target.result.dispatches.size() > 200) {
                                 kill(target.result.pid, SIGKILL);
                               }
                             }});
  ASSERT_TRUE(WIFSIGNALED(result.run.exit_status));
  const CollectorAccount& account = result.run.account;
  EXPECT_EQ(account.produced, account.delivered);
  EXPECT_GT(result.run.dispatches.size(), 200u);
  // Except for the operation that each thread was in the middle of.
  EXPECT_LE(account.dispatches_seen,
            result.run.dispatches.size() + result.run.unfinished.size() + 2);
  EXPECT_GE(account.dispatches_seen + 2,
            result.run.dispatches.size() + result.run.unfinished.size());
  ExpectTrueValues(result.run, *result.plan, result.generation);
}

}  // namespace
}  // namespace rocattach
