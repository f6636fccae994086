// Tools that hang, crash and fail, and attachers and targets that end during a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "tests/integration/library/listener_fixture.h"
#include "tests/integration/random_instants.h"

namespace rocattach::testing_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ListenerFaultsTest = ListenerTest;

TEST_F(ListenerFaultsTest, AStoppedProcess) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  target.child().Signal(SIGSTOP);
  const Attached attached =
      Attach(target, "", ROCATTACH_TEST_LISTENER_TOOL, {"--tool-timeout-msec", "300"});
  EXPECT_EQ(attached.Reason(), "call-timeout") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr("the process is stopped"));
  EXPECT_THAT(target.Log(kSteps), IsEmpty());
  target.child().Signal(SIGCONT);
  // The refused attach does not happen later, and a second try works.
  EXPECT_TRUE(Eventually([&] { return Attach(target).run.exited_with(0); }));
  EXPECT_EQ(target.Log({"register.attach_done"}).size(), 1u);
  target.ExpectEnd();
}

TEST_F(ListenerFaultsTest, ATracedProcess) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const pid_t listener = target.Listener();
  ASSERT_EQ(ptrace(PTRACE_SEIZE, listener, nullptr, nullptr), 0);
  const Attached attached = Attach(target);
  EXPECT_EQ(attached.Reason(), "already-traced") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr(std::to_string(getpid())));
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, listener, nullptr, nullptr), 0);
  ASSERT_EQ(waitpid(listener, nullptr, __WALL), listener);
  ASSERT_EQ(ptrace(PTRACE_DETACH, listener, nullptr, nullptr), 0);
  ExpectAttached(Attach(target));
  target.ExpectEnd();
}

TEST_F(ListenerFaultsTest, OneSessionAtATime) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  Child first(Command(target.text(), ROCATTACH_TEST_LISTENER_TOOL),
              {.environment = target.Environment()});
  ASSERT_TRUE(Eventually(
      [&] { return first.PollOutput().find("ready") != std::string::npos; }));
  EXPECT_EQ(Attach(target).Reason(), "already-attached");
  first.Signal(SIGINT);
  ExpectAttached(Finish(&first));
  ExpectAttached(Attach(target));
  target.ExpectEnd();
}

// A tool hangs: the status is clear and comes in time, and the target runs on.
TEST_F(ListenerFaultsTest, AToolThatHangs) {
  for (const std::string step : {"constructor", "init", "attach"}) {
    ListenerTarget target;
    ASSERT_TRUE(target.ready());
    const std::vector<std::string> limit = {"--tool-timeout-msec", "300"};
    const Attached attached =
        Attach(target, step + ":hang", ROCATTACH_TEST_LISTENER_TOOL, limit);
    EXPECT_EQ(attached.Reason(), "call-timeout") << attached.run.output;
    EXPECT_THAT(attached.Detail(), HasSubstr("within 300 ms"));
    EXPECT_TRUE(attached.Event("not_attached").value("target_modified", false));
    EXPECT_EQ(Attach(target, "", ROCATTACH_TEST_LISTENER_TOOL, limit).Reason(),
              "listener-busy");
    EXPECT_TRUE(target.Runs());
    target.ReleaseTool();
    ASSERT_TRUE(
        Eventually([&] { return !target.Log({"register.attach_done"}).empty(); }));
    // The tool is attached by now, and only the next session can detach it.
    EXPECT_TRUE(Eventually([&] { return Attach(target).run.exited_with(0); }));
    target.ExpectEnd();
    EXPECT_THAT(target.Tool(),
                ElementsAre("constructor", "configure", "configure_attach", "init",
                            "attach", "detach", "attach", "detach", "fini"))
        << step;
  }
}

TEST_F(ListenerFaultsTest, AToolThatHangsInItsDetach) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const Attached attached = Attach(target, "detach:hang", ROCATTACH_TEST_LISTENER_TOOL,
                                   {"--tool-timeout-msec", "300"});
  EXPECT_TRUE(attached.run.exited_with(1));
  EXPECT_EQ(attached.Event("result").value("status", ""), "not-detached");
  EXPECT_THAT(attached.Event("end").value("output_error", ""),
              HasSubstr("rocprofiler_register_detach has not returned"));
  target.ReleaseTool();
  target.ExpectEnd();
}

// A process that does not answer its attach does not delay the detach of another one.
TEST_F(ListenerFaultsTest, TheDetachDoesNotWaitForOtherProcesses) {
  ListenerTarget target, silent;
  ASSERT_TRUE(target.ready() && silent.ready());
  silent.child().Signal(SIGSTOP);
  Child attacher(Command(target.text(), ROCATTACH_TEST_LISTENER_TOOL,
                         {"-p", silent.text(), "--attach-duration-msec", "100"}),
                 {.environment = target.Environment()});
  EXPECT_TRUE(Eventually([&] {
    const std::vector<std::string> calls = target.Tool();
    return !calls.empty() && calls.back() == "detach";
  }));
  // The attach to the other process is still under way.
  EXPECT_EQ(attacher.PollOutput().find("ready"), std::string::npos);
  silent.child().Signal(SIGCONT);
  const Attached attached = Finish(&attacher);
  EXPECT_TRUE(attached.run.exited_with(0)) << attached.run.output;
  for (const nlohmann::json& event : attached.events) {
    if (event.value("event", "") != "result") continue;
    EXPECT_EQ(event.value("status", ""), "detached") << event;
  }
  target.ExpectEnd();
  silent.ExpectEnd();
}

TEST_F(ListenerFaultsTest, AToolThatCrashesOrEndsTheProcess) {
  for (const std::string behavior :
       {"constructor:crash", "attach:crash", "attach:exit"}) {
    ListenerTarget target;
    ASSERT_TRUE(target.ready());
    const Attached attached = Attach(target, behavior);
    EXPECT_EQ(attached.Reason(), "died-during-attach") << attached.run.output;
    const Finished end = target.child().Wait();
    if (behavior == "attach:exit") {
      EXPECT_TRUE(end.exited_with(0));
    } else {
      EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGSEGV)
          << behavior;
    }
  }
}

TEST_F(ListenerFaultsTest, AToolThatFailsIsReported) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const Attached attached = Attach(target, "init:fail");
  EXPECT_EQ(attached.Reason(), "tool-refused") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr("returned 6"));
  target.ExpectEnd();
}

// The target is killed while the tool hangs.
TEST_F(ListenerFaultsTest, TheTargetEndsDuringTheCall) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  Child child(Command(target.text(), ROCATTACH_TEST_LISTENER_TOOL),
              {.environment = target.Environment("attach:hang")});
  ASSERT_TRUE(Eventually([&] { return !target.Log({"tool.attach"}).empty(); }));
  target.child().Signal(SIGKILL);
  const Attached attached = Finish(&child);
  EXPECT_EQ(attached.Reason(), "died-during-attach") << attached.run.output;
}

TEST_F(ListenerFaultsTest, TheTargetEndsWhileItIsAttached) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  Child child(Command(target.text(), ROCATTACH_TEST_LISTENER_TOOL),
              {.environment = target.Environment()});
  ASSERT_TRUE(Eventually(
      [&] { return child.PollOutput().find("ready") != std::string::npos; }));
  target.ExpectEnd();
  const Attached attached = Finish(&child);
  EXPECT_TRUE(attached.run.exited_with(0)) << attached.run.output;
  EXPECT_EQ(attached.Event("result").value("status", ""), "ended");
  EXPECT_EQ(target.Tool().back(), "fini");
}

// SIGKILL at random instants of the whole sequence, all on the same target: it runs on,
// and the tool never sees two attaches without a detach between them.
TEST_F(ListenerFaultsTest, TheAttacherMayBeKilledAtAnyInstant) {
  const char* wanted = getenv("ROCATTACH_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? atoi(wanted) : 120;
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const std::string position = target.ListenerPosition();
  std::mt19937 random(11);
  RandomInstants instants(30'000);
  for (int i = 0; i < rounds || (instants.OneSided() && i < 5 * rounds); ++i) {
    const size_t calls = target.Log({"register.attach"}).size();
    Child child(Command(target.text(), ROCATTACH_TEST_LISTENER_TOOL,
                        {"--attach-duration-msec", "5"}),
                {.environment = target.Environment()});
    std::this_thread::sleep_for(instants.Next(&random));
    child.Signal(SIGKILL);
    child.Wait();
    ASSERT_TRUE(target.Runs());
    // A call that has begun is completed.
    ASSERT_TRUE(Eventually([&] { return target.ListenerPosition() == position; }));
    instants.Add(/*late=*/target.Log({"register.attach"}).size() > calls);
  }
  EXPECT_FALSE(instants.OneSided());
  ExpectAttached(Attach(target));
  target.ExpectEnd();
  bool attached = false;
  for (const std::string& step : target.Log({"tool.attach", "tool.detach"})) {
    if (step == "tool.attach") {
      EXPECT_FALSE(attached) << "two attaches without a detach";
    }
    attached = step == "tool.attach";
  }
  EXPECT_FALSE(attached);
}

}  // namespace
}  // namespace rocattach::testing_support
