// A function call on a waiting thread of a real process, whose attacher may fail or
// die.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/injector/runner_process.h"
#include "tests/integration/injector/target_process.h"
#include "tests/integration/random_instants.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

// Starts the attacher in a process of its own.
RunnerProcess Runner(const TargetProcess& target, const std::string& tool,
                     const std::string& fault = "",
                     const std::string& kibibytes = "0") {
  return RunnerProcess({ROCATTACH_TEST_RUNNER, std::to_string(target.pid()),
                        std::to_string(target.tid()), tool, kibibytes},
                       fault);
}

bool Start(TargetProcess& target, const std::string& mode = "plain") {
  return target.Start({ROCATTACH_TEST_LISTENER, mode, nullptr}) &&
         target.WaitForState('S');
}

std::string Call(const TargetProcess& target, const std::string& tool,
                 const std::string& fault = "", const std::string& kibibytes = "0") {
  return Runner(target, tool, fault, kibibytes).Wait().output;
}

void ExpectIntact(TargetProcess& target, const std::string& what) {
  EXPECT_TRUE(target.RunsAgain()) << what;
  EXPECT_TRUE(target.WaitForState('S')) << what;
  target.Finish();
  EXPECT_TRUE(target.Intact())
      << what << ": " << target.output() << " status " << target.status();
}

// Native control: without a call the target finds its state intact as well.
TEST(RemoteCallTest, WithoutACallNothingChanges) {
  TargetProcess target;
  ASSERT_TRUE(Start(target));
  ExpectIntact(target, "native");
  EXPECT_EQ(target.Report(), "");
}

TEST(RemoteCallTest, TheFunctionGetsItsArgumentsAndNothingIsLeft) {
  for (const std::string mode : {"plain", "timed", "busy"}) {
    TargetProcess target;
    ASSERT_TRUE(Start(target, mode));
    // The other threads of a busy target change it all the time.
    const bool still = mode != "busy";
    const TargetSnapshot before = still ? target.Snapshot() : TargetSnapshot();
    for (const char* kibibytes : {"0", "4", "200"}) {
      EXPECT_THAT(Call(target, "plain", "", kibibytes),
                  HasSubstr("state=0 result=0 cleared=1"));
    }
    EXPECT_THAT(Call(target, "return=6"), HasSubstr("state=0 result=6 cleared=1"));
    EXPECT_THAT(Call(target, "deep"), HasSubstr("state=0 result=0 cleared=1"));
    // The function sleeps, and so uses the kernel's state for interrupted waits.
    EXPECT_THAT(Call(target, "slow"), HasSubstr("state=0 result=0 cleared=1"));
    EXPECT_EQ(target.Report(),
              "attach 1 6 plain aligned=1\ndone\nattach 1 4102 plain aligned=1\ndone\n"
              "attach 1 204806 plain aligned=1\ndone\n"
              "attach 1 6 return=6 aligned=1\nattach 1 6 deep aligned=1\ndone\n"
              "attach 1 6 slow aligned=1\ndone\n");
    if (still) {
      const TargetSnapshot after = target.Snapshot();
      EXPECT_EQ(before.descriptors, after.descriptors);
      EXPECT_EQ(before.signals, after.signals);
      EXPECT_EQ(before.mappings, after.mappings);
      EXPECT_EQ(before.code, after.code);
    }
    ExpectIntact(target, mode);
  }
}

TEST(RemoteCallTest, DeathBeforeTheRedirectChangesNothing) {
  for (const std::string step :
       {"seize", "interrupt", "stopped", "stack", "stub", "half", "redirect"}) {
    TargetProcess target;
    ASSERT_TRUE(Start(target));
    RunnerResult result = Runner(target, "plain", "die-call-" + step).Wait();
    EXPECT_TRUE(WIFSIGNALED(result.status)) << step << ": " << result.output;
    EXPECT_EQ(target.Report(), "") << step;
    // The remains do not disturb the next attacher.
    EXPECT_TRUE(target.RunsAgain() && target.WaitForState('S')) << step;
    EXPECT_THAT(Call(target, "plain"), HasSubstr("result=0 cleared=1")) << step;
    ExpectIntact(target, step);
  }
}

TEST(RemoteCallTest, DeathAfterTheRedirectCompletesTheCall) {
  for (const std::string step : {"redirected", "released"}) {
    for (const std::string tool : {"plain", "slow"}) {
      TargetProcess target;
      ASSERT_TRUE(Start(target));
      RunnerResult result = Runner(target, tool, "die-call-" + step).Wait();
      EXPECT_TRUE(WIFSIGNALED(result.status)) << step << ": " << result.output;
      for (int i = 0; i < 3000 && target.Report().find("done") == std::string::npos;
           ++i) {
        usleep(1000);
      }
      EXPECT_EQ(target.Report(), "attach 1 6 " + tool + " aligned=1\ndone\n");
      ExpectIntact(target, step);
    }
  }
}

// Arguments and stub stay; the thread waits as before.
TEST(RemoteCallTest, DeathOrFailureWhileItIsRemovedEndsTheCallAsWell) {
  for (const std::string mode : {"plain", "timed"}) {
    for (const std::string step : {"die-clear-seize", "die-clear-stopped",
                                   "fail-clear-seize", "fail-clear-stopped"}) {
      TargetProcess target;
      ASSERT_TRUE(Start(target, mode));
      const RunnerResult result = Runner(target, "plain", step).Wait();
      EXPECT_EQ(WIFSIGNALED(result.status), step.starts_with("die")) << step;
      if (step.starts_with("fail")) {
        EXPECT_THAT(result.output, HasSubstr("state=0 result=0 cleared=0")) << step;
      }
      EXPECT_EQ(target.Report(), "attach 1 6 plain aligned=1\ndone\n");
      EXPECT_TRUE(target.RunsAgain() && target.WaitForState('S')) << step;
      EXPECT_THAT(Call(target, "plain"), HasSubstr("result=0 cleared=1")) << step;
      ExpectIntact(target, mode + " " + step);
    }
  }
}

TEST(RemoteCallTest, AFailingStepIsReportedAndUndone) {
  for (const std::string step :
       {"seize", "interrupt", "stopped", "stack", "stub", "half", "redirect"}) {
    TargetProcess target;
    ASSERT_TRUE(Start(target));
    const TargetSnapshot before = target.Snapshot();
    EXPECT_THAT(Call(target, "plain", "fail-call-" + step),
                HasSubstr("failed reason=internal"))
        << step;
    EXPECT_TRUE(target.RunsAgain() && target.WaitForState('S')) << step;
    EXPECT_EQ(before.code, target.Snapshot().code) << step;
    EXPECT_EQ(target.Report(), "") << step;
    ExpectIntact(target, step);
  }
}

// A second call while one is under way would run on top of it.
TEST(RemoteCallTest, AThreadInACallIsLeftAlone) {
  TargetProcess target;
  ASSERT_TRUE(Start(target));
  EXPECT_THAT(Call(target, "hang"), HasSubstr("state=1 "));
  EXPECT_THAT(Call(target, "plain"), HasSubstr("reason=unsafe-context"));
  EXPECT_EQ(target.Report(), "attach 1 6 hang aligned=1\n");
  target.ClearReport();
  EXPECT_EQ(target.WaitForReport(), "done\n");
  EXPECT_TRUE(target.WaitForState('S'));
  EXPECT_THAT(Call(target, "plain"), HasSubstr("result=0 cleared=1"));
  ExpectIntact(target, "after a hanging call");
}

TEST(RemoteCallTest, Refusals) {
  {
    TargetProcess target;
    ASSERT_TRUE(Start(target, "small-stack"));
    EXPECT_THAT(Call(target, "plain"), HasSubstr("bytes of stack left"));
    ExpectIntact(target, "small stack");
  }
  TargetProcess target;
  ASSERT_TRUE(Start(target));
  EXPECT_THAT(Call(target, "plain", "", "300"), HasSubstr("reason=resource-limit"));
  ASSERT_EQ(ptrace(PTRACE_SEIZE, target.tid(), nullptr, nullptr), 0);
  EXPECT_THAT(Call(target, "plain"), HasSubstr("reason=already-traced"));
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, target.tid(), nullptr, nullptr), 0);
  ASSERT_EQ(waitpid(target.tid(), nullptr, __WALL), target.tid());
  ASSERT_EQ(ptrace(PTRACE_DETACH, target.tid(), nullptr, nullptr), 0);
  EXPECT_EQ(target.Report(), "");
  ExpectIntact(target, "traced");
}

TEST(RemoteCallTest, TheProcessEndsInTheCallOrBeforeIt) {
  TargetProcess target;
  ASSERT_TRUE(Start(target));
  EXPECT_THAT(Call(target, "die"), HasSubstr("state=2 "));
  target.Collect();
  EXPECT_TRUE(WIFEXITED(target.status()) && WEXITSTATUS(target.status()) == 3);
  // Here the target exits by itself, at various instants.
  for (int i = 0; i < 20; ++i) {
    TargetProcess ending;
    ASSERT_TRUE(Start(ending, "exit"));
    usleep(static_cast<useconds_t>(i) * 1500);
    const std::string output = Call(ending, "slow");
    EXPECT_TRUE(output.find("state=2") != std::string::npos ||
                output.find("reason=target-exited") != std::string::npos ||
                output.find("result=0") != std::string::npos || output.empty())
        << output;
    ending.Collect();
    EXPECT_TRUE(WIFEXITED(ending.status()) && WEXITSTATUS(ending.status()) == 7);
  }
}

// Sends SIGKILL from outside at random instants; the environment sets the rounds.
TEST(RemoteCallTest, TheAttacherMayBeKilledAtAnyInstant) {
  const char* wanted = getenv("ROCATTACH_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? atoi(wanted) : 120;
  std::mt19937 random(7);
  RandomInstants instants;
  int calls = 0;
  for (int i = 0; i < rounds || (instants.OneSided() && i < 10 * rounds); ++i) {
    TargetProcess target;
    ASSERT_TRUE(Start(target, i % 3 == 0 ? "busy" : "plain"));
    RunnerProcess runner = Runner(target, "plain");
    runner.WaitForBegin();
    std::this_thread::sleep_for(instants.Next(&random));
    runner.Kill();
    runner.Wait();
    EXPECT_TRUE(target.RunsAgain()) << target.State();
    // The call is complete, or was never made.
    EXPECT_TRUE(target.WaitForState('S'));
    ExpectIntact(target, "killed");
    const std::string report = target.Report();
    EXPECT_TRUE(report.empty() || report == "attach 1 6 plain aligned=1\ndone\n")
        << report;
    calls += report.empty() ? 0 : 1;
    instants.Add(/*late=*/!report.empty());
  }
  EXPECT_FALSE(instants.OneSided()) << calls << " calls";
}

}  // namespace
}  // namespace rocattach
