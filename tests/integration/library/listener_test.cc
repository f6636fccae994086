// Tools of others in processes that were started with ROCP_TOOL_ATTACH=1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/integration/library/listener_fixture.h"
#include "tests/integration/random_instants.h"
#include "tests/places.h"

namespace rocattach::testing_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kSteps = {
    "register.attach", "register.detach", "tool.configure", "tool.configure_attach",
    "tool.initialize", "tool.attach",     "tool.detach",    "tool.finalize"};

struct Attached {
  Finished run;
  std::vector<nlohmann::json> events;

  // The first event of this name; empty without one.
  nlohmann::json Event(const std::string& name) const {
    for (const nlohmann::json& event : events) {
      if (event.value("event", "") == name) return event;
    }
    return nlohmann::json::object();
  }
  std::string Reason() const { return Event("not_attached").value("reason", ""); }
  std::string Detail() const { return Event("not_attached").value("detail", ""); }
};

class ListenerTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  static std::vector<std::string> Command(const std::string& pid,
                                          const std::string& tool,
                                          std::vector<std::string> more = {}) {
    std::vector<std::string> words = {ClientPath(), "attach", "--json", "-p",
                                      pid,          "-t",     tool};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Attached Finish(Child* child) {
    Attached result;
    result.run = child->Wait();
    std::istringstream lines(result.run.output);
    for (std::string line; std::getline(lines, line);) {
      result.events.push_back(nlohmann::json::parse(line, nullptr, false));
    }
    return result;
  }
  // Attaches, stays for 100 ms, and detaches.
  static Attached Attach(const ListenerTarget& target, const std::string& wish = "",
                         const std::string& tool = ROCATTACH_TEST_LISTENER_TOOL,
                         std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--attach-duration-msec", "100"});
    Child child(Command(target.text(), tool, std::move(more)),
                {.environment = target.Environment(wish)});
    return Finish(&child);
  }
  static void ExpectAttached(const Attached& attached) {
    EXPECT_TRUE(attached.run.exited_with(0))
        << attached.run.output << attached.run.errors;
    EXPECT_EQ(attached.Event("attached").value("entry", ""), "listener");
    EXPECT_EQ(attached.Event("result").value("status", ""), "detached");
  }
};

// Native control.
TEST_F(ListenerTest, WithoutAnAttachNothingIsCalled) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  EXPECT_NE(target.Listener(), 0);
  target.ExpectEnd();
  EXPECT_THAT(target.Log(kSteps), IsEmpty());
  EXPECT_THAT(target.Tool(), IsEmpty());
}

// The twelve documented steps; the attacher's own four frame the others.
TEST_F(ListenerTest, InitialSequenceStepByStep) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const std::string before = target.ListenerPosition();
  const Attached attached = Attach(target);
  ExpectAttached(attached);
  EXPECT_EQ(attached.Event("attached").value("tool", ""), ROCATTACH_TEST_LISTENER_TOOL);
  EXPECT_FALSE(attached.Event("ready").empty());
  EXPECT_TRUE(attached.Event("end").value("complete", false));
  EXPECT_TRUE(Eventually([&] { return target.ListenerPosition() == before; }));
  target.ExpectEnd();
  EXPECT_THAT(target.Log(kSteps),
              ElementsAre("register.attach", "tool.configure", "tool.configure_attach",
                          "tool.initialize", "tool.attach", "register.detach",
                          "tool.detach", "tool.finalize"));
  EXPECT_THAT(target.Tool(), ElementsAre("constructor", "configure", "configure_attach",
                                         "init", "attach", "detach", "fini"));
}

TEST_F(ListenerTest, ReattachSequenceStepByStep) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  for (int i = 0; i < 4; ++i) ExpectAttached(Attach(target));
  target.ExpectEnd();
  EXPECT_THAT(
      target.Log(kSteps),
      ElementsAre("register.attach", "tool.configure", "tool.configure_attach",
                  "tool.initialize", "tool.attach", "register.detach", "tool.detach",
                  "register.attach", "tool.attach", "register.detach", "tool.detach",
                  "register.attach", "tool.attach", "register.detach", "tool.detach",
                  "register.attach", "tool.attach", "register.detach", "tool.detach",
                  "tool.finalize"));
}

// The data that a tool is attached for.
TEST_F(ListenerTest, AToolCountsWhatIsLaunchedWhileItIsAttached) {
  TemporaryDirectory directory;
  ListenerTarget target({"--attachable"},
                        {"SIMROCM_TOOL=idle buffer counters=SQ_WAVES",
                         "SIMROCM_TOOL_OUTPUT=" + directory / "counted"});
  ASSERT_TRUE(target.ready());
  Child child(Command(target.text(), ROCATTACH_TEST_COUNTING_TOOL),
              {.environment = target.Environment()});
  ASSERT_TRUE(Eventually(
      [&] { return child.PollOutput().find("ready") != std::string::npos; }));
  target.ExpectEnd();
  const Attached attached = Finish(&child);
  EXPECT_TRUE(attached.run.exited_with(0)) << attached.run.output;
  EXPECT_EQ(attached.Event("result").value("status", ""), "ended");
  size_t counted = 0;
  for (const std::string& line : LinesOf(directory / "counted")) {
    counted += line.rfind("counted ", 0) == 0 ? 1 : 0;
  }
  EXPECT_EQ(counted, 50u);
}

// Ours and theirs see the same dispatches, whichever came first.
TEST_F(ListenerTest, BesideARecordingOfOurs) {
  for (const bool tool_first : {true, false}) {
    TemporaryDirectory directory;
    ListenerTarget target({"--attachable"},
                          {"SIMROCM_TOOL=idle buffer counters=SQ_WAVES",
                           "SIMROCM_TOOL_OUTPUT=" + directory / "counted"});
    ASSERT_TRUE(target.ready());
    const auto start = [&](bool tool) {
      std::vector<std::string> words = {ClientPath(), "attach", "--json", "-p",
                                        target.text()};
      const std::vector<std::string> rest =
          tool ? std::vector<std::string>{"-t", ROCATTACH_TEST_COUNTING_TOOL}
               : std::vector<std::string>{"-d", directory.path(), "-o", "run"};
      words.insert(words.end(), rest.begin(), rest.end());
      auto child = std::make_unique<Child>(words);
      EXPECT_TRUE(Eventually(
          [&] { return child->PollOutput().find("ready") != std::string::npos; }));
      return child;
    };
    auto first = start(tool_first), second = start(!tool_first);
    target.ExpectEnd();
    const Attached one = Finish(first.get()), two = Finish(second.get());
    const Attached& ours = tool_first ? two : one;
    EXPECT_EQ(ours.Event("result").value("dispatches", 0), 50) << ours.run.output;
    EXPECT_EQ(ours.Event("result").value("lost", 1), 0);
    size_t counted = 0;
    for (const std::string& line : LinesOf(directory / "counted")) {
      counted += line.rfind("counted ", 0) == 0 ? 1 : 0;
    }
    EXPECT_EQ(counted, 50u) << tool_first;
  }
}

// Only the right to trace the process is needed, which its own user has.
TEST_F(ListenerTest, ProcessesOfTheSameUserNeedNoPrivileges) {
  if (!EverybodyReaches(ROCATTACH_TEST_LISTENER_TOOL) ||
      !EverybodyReaches(ClientPath())) {
    GTEST_SKIP() << "the build cannot be reached by other users";
  }
  struct statfs file_system;
  ASSERT_EQ(statfs(ROCATTACH_TEST_LISTENER_TOOL, &file_system), 0);
  if (file_system.f_type == OVERLAYFS_SUPER_MAGIC) {
    GTEST_SKIP() << "what is mapped cannot be told there without privileges";
  }
  constexpr uid_t kNobody = 65534;
  TemporaryDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
  Child target({SimrocmRunPath(), "--attachable", TargetPath("hip_late"), "-m", "50",
                "--idle", "--until", directory / "go", "--ready", directory / "ready"},
               {.uid = kNobody});
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(directory / "ready"); }));
  ListenerTarget foreign;
  ASSERT_TRUE(foreign.ready());
  const std::vector<std::string> more = {"--attach-duration-msec", "10"};
  Child own(
      Command(std::to_string(target.pid()), ROCATTACH_TEST_LISTENER_TOOL, more),
      {.environment = {"ROCPROF_TEST_LOG=" + directory / "tool"}, .uid = kNobody});
  ExpectAttached(Finish(&own));
  Child other(Command(foreign.text(), ROCATTACH_TEST_LISTENER_TOOL, more),
              {.uid = kNobody});
  EXPECT_EQ(Finish(&other).Reason(), "not-permitted");
  std::ofstream(directory / "go");
  EXPECT_TRUE(target.Wait().exited_with(0));
  EXPECT_EQ(LinesOf(directory / "tool").back(), "fini");
  foreign.ExpectEnd();
}

TEST_F(ListenerTest, VariablesOfTheAttacherReachTheTool) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  for (const std::string mark : {"1", "=two words", ""}) {
    std::vector<std::string> environment = target.Environment();
    environment.push_back("ROCPROF_TEST_MARK=" + mark);
    environment.push_back("ROCP_TOOL_LIBRARIES=/nonexistent.so");
    Child child(Command(target.text(), ROCATTACH_TEST_LISTENER_TOOL,
                        {"--attach-duration-msec", "1"}),
                {.environment = environment});
    ExpectAttached(Finish(&child));
  }
  target.ExpectEnd();
  EXPECT_THAT(target.Tool(),
              ElementsAre("constructor1", "configure1", "configure_attach1", "init1",
                          "attach1", "detach1", "attach=two words", "detach=two words",
                          "attach", "detach", "fini"));
}

TEST_F(ListenerTest, AToolIsFoundByNameAsTheTargetFindsIt) {
  const std::filesystem::path tool(ROCATTACH_TEST_LISTENER_TOOL);
  ListenerTarget target({"--attachable"},
                        {"LD_LIBRARY_PATH=" + tool.parent_path().string()});
  ASSERT_TRUE(target.ready());
  ExpectAttached(Attach(target, "", tool.filename()));
  EXPECT_EQ(Attach(target, "", "libnosuchtool.so").Reason(), "tool-invalid");
  target.ExpectEnd();
}

TEST_F(ListenerTest, ToolsThatCannotBeLoadedAreRefusedBeforehand) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const TemporaryDirectory directory;
  const auto with = [&](const std::string& tool) {
    const Attached attached = Attach(target, "", tool);
    EXPECT_TRUE(attached.run.exited_with(1)) << tool;
    EXPECT_EQ(attached.Reason(), "tool-invalid") << attached.run.output;
    EXPECT_FALSE(attached.Event("not_attached").value("target_modified", true));
    return attached.Detail();
  };
  EXPECT_THAT(with("/nonexistent.so"), HasSubstr("No such file"));
  EXPECT_THAT(with(directory.path()), HasSubstr("not a regular file"));
  std::ofstream(directory / "text.so") << "text";
  EXPECT_THAT(with(directory / "text.so"), HasSubstr("not an ELF file"));
  std::ifstream file(ROCATTACH_TEST_LISTENER_TOOL, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::string foreign = bytes;
  foreign[18] = '\xb7';  // e_machine: aarch64
  std::ofstream(directory / "foreign.so") << foreign;
  EXPECT_THAT(with(directory / "foreign.so"), HasSubstr("not a shared object for x86"));
  std::ofstream(directory / "cut.so") << bytes.substr(0, 4000);
  with(directory / "cut.so");
  EXPECT_THAT(with("libm.so.6"), HasSubstr("it has no rocprofiler_configure"));
  EXPECT_THAT(with(ROCATTACH_TEST_NEEDY_TOOL), HasSubstr("libmissing.so"));
  // A version that no glibc has.
  std::string newer = bytes;
  for (size_t at = newer.find("GLIBC_2.2.5"); at != std::string::npos;
       at = newer.find("GLIBC_2.2.5", at + 1)) {
    newer.replace(at, 11, "GLIBC_2.9.9");
  }
  std::ofstream(directory / "newer.so") << newer;
  EXPECT_THAT(with(directory / "newer.so"), HasSubstr("needs version GLIBC_2.9.9"));
  EXPECT_THAT(with(std::string(ROCATTACH_TEST_LISTENER_TOOL) + ":/nonexistent.so"),
              HasSubstr("No such file"));
  EXPECT_THAT(target.Log(kSteps), IsEmpty());
  target.ExpectEnd();
}

// Another tool would need a process of its own; the first one still works.
TEST_F(ListenerTest, AnotherToolThanBeforeIsRefused) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  ExpectAttached(Attach(target));
  const std::string other = target.directory() / "other.so";
  std::filesystem::copy_file(ROCATTACH_TEST_LISTENER_TOOL, other);
  const Attached refused = Attach(target, "", other);
  EXPECT_EQ(refused.Reason(), "tool-refused");
  EXPECT_THAT(refused.Detail(), HasSubstr("another tool"));
  ExpectAttached(Attach(target));
  target.ExpectEnd();
}

// ROCm 7.2 takes a list, and ends the program if one of them cannot be loaded.
TEST_F(ListenerTest, OlderReleases) {
  ListenerTarget target({"--attachable", "--old-attach"});
  ASSERT_TRUE(target.ready());
  EXPECT_EQ(Attach(target, "", "/nonexistent.so").Reason(), "tool-invalid");
  EXPECT_EQ(Attach(target, "", "libnosuchtool.so").Reason(), "tool-invalid");
  const std::string other = target.directory() / "other.so";
  std::filesystem::copy_file(ROCATTACH_TEST_LISTENER_TOOL, other);
  const std::string list = std::string(ROCATTACH_TEST_LISTENER_TOOL) + ":" + other;
  for (int i = 0; i < 3; ++i) ExpectAttached(Attach(target, "", list));
  target.ExpectEnd();
  EXPECT_THAT(
      target.Log({"tool.configure", "tool.initialize", "tool.attach", "tool.detach",
                  "tool.finalize"}),
      ElementsAre("tool.configure", "tool.configure", "tool.initialize",
                  "tool.initialize", "tool.attach", "tool.attach", "tool.detach",
                  "tool.detach", "tool.attach", "tool.attach", "tool.detach",
                  "tool.detach", "tool.attach", "tool.attach", "tool.detach",
                  "tool.detach", "tool.finalize", "tool.finalize"));
}

// Newer ones take one.
TEST_F(ListenerTest, AListIsRefusedByNewerReleases) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const std::string other = target.directory() / "other.so";
  std::filesystem::copy_file(ROCATTACH_TEST_LISTENER_TOOL, other);
  const Attached attached =
      Attach(target, "", std::string(ROCATTACH_TEST_LISTENER_TOOL) + ":" + other);
  EXPECT_EQ(attached.Reason(), "tool-refused") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr("one tool library only"));
  EXPECT_FALSE(attached.Event("not_attached").value("target_modified", true));
  target.ExpectEnd();
}

TEST_F(ListenerTest, AStoppedProcess) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  target.child().Signal(SIGSTOP);
  const Attached attached =
      Attach(target, "", ROCATTACH_TEST_LISTENER_TOOL, {"--tool-timeout-msec", "300"});
  EXPECT_EQ(attached.Reason(), "call-timeout") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr("the process is stopped"));
  EXPECT_THAT(target.Log(kSteps), IsEmpty());
  target.child().Signal(SIGCONT);
  EXPECT_TRUE(
      Eventually([&] { return !target.Log({"register.attach_done"}).empty(); }));
  EXPECT_TRUE(Eventually([&] { return Attach(target).run.exited_with(0); }));
  target.ExpectEnd();
}

TEST_F(ListenerTest, ProcessesWithoutAListener) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, {"--without-sdk"}}) {
    ListenerTarget target(options);
    ASSERT_TRUE(target.ready());
    const Attached attached = Attach(target);
    EXPECT_EQ(attached.Reason(), "no-listener") << attached.run.output;
    EXPECT_THAT(attached.Detail(), HasSubstr("ROCP_TOOL_ATTACH=1"));
    EXPECT_THAT(attached.Detail(), HasSubstr("Without a tool library"));
    EXPECT_TRUE(attached.run.exited_with(1));
    target.ExpectEnd();
  }
}

TEST_F(ListenerTest, AThreadThatOnlyHasTheName) {
  ListenerTarget none;  // for its variables
  Child named({"python3", "-c",
               "import time; open('/proc/self/comm', 'w').write('rocp-bg-attach'); "
               "print('ready', flush=True); time.sleep(1000)"});
  ASSERT_TRUE(Eventually([&] { return !named.PollOutput().empty(); }));
  Child child(Command(std::to_string(named.pid()), ROCATTACH_TEST_LISTENER_TOOL),
              {.environment = none.Environment()});
  const Attached attached = Finish(&child);
  EXPECT_EQ(attached.Reason(), "unsupported") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr("librocprofiler-register.so"));
  EXPECT_EQ(kill(named.pid(), 0), 0);
  named.Signal(SIGKILL);
  none.ExpectEnd();
}

TEST_F(ListenerTest, TwoCopiesOfRegister) {
  ListenerTarget target({"--attachable", "--preload", ROCATTACH_TEST_SECOND_REGISTER});
  ASSERT_TRUE(target.ready());
  const Attached attached = Attach(target);
  EXPECT_EQ(attached.Reason(), "unsupported") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr("rocprofiler-register twice"));
  EXPECT_THAT(target.Log(kSteps), IsEmpty());
  target.ExpectEnd();
}

// Some releases of rocprofiler-register abort the process when they do not find it.
TEST_F(ListenerTest, AMissingSdkIsNoticedBeforehand) {
  const TemporaryDirectory directory;
  const std::filesystem::path attach(ROCATTACH_TEST_ATTACH_LIBRARY);
  std::filesystem::copy_file(attach, directory / attach.filename().string());
  ListenerTarget target({"--attachable", "--without-sdk"},
                        {"LD_LIBRARY_PATH=" + directory.path()});
  ASSERT_TRUE(target.ready());
  ASSERT_NE(target.Listener(), 0);
  const Attached attached = Attach(target);
  EXPECT_EQ(attached.Reason(), "tool-refused") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr("would not find librocprofiler-sdk.so"));
  EXPECT_THAT(target.Log(kSteps), IsEmpty());
  target.ExpectEnd();
}

TEST_F(ListenerTest, ATracedProcess) {
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

TEST_F(ListenerTest, OneSessionAtATime) {
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

// A tool that hangs: a clear status in time, and a target that runs on.
TEST_F(ListenerTest, AToolThatHangs) {
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
    // It is attached by now, with nobody to detach it but the next session.
    EXPECT_TRUE(Eventually([&] { return Attach(target).run.exited_with(0); }));
    target.ExpectEnd();
    EXPECT_THAT(target.Tool(),
                ElementsAre("constructor", "configure", "configure_attach", "init",
                            "attach", "detach", "attach", "detach", "fini"))
        << step;
  }
}

TEST_F(ListenerTest, AToolThatHangsInItsDetach) {
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

TEST_F(ListenerTest, AToolThatCrashesOrEndsTheProcess) {
  for (const std::string wish : {"constructor:crash", "attach:crash", "attach:exit"}) {
    ListenerTarget target;
    ASSERT_TRUE(target.ready());
    const Attached attached = Attach(target, wish);
    EXPECT_EQ(attached.Reason(), "died-during-attach") << attached.run.output;
    const Finished end = target.child().Wait();
    if (wish == "attach:exit") {
      EXPECT_TRUE(end.exited_with(0));
    } else {
      EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGSEGV) << wish;
    }
  }
}

TEST_F(ListenerTest, AToolThatFailsIsReported) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const Attached attached = Attach(target, "init:fail");
  EXPECT_EQ(attached.Reason(), "tool-refused") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr("returned 6"));
  target.ExpectEnd();
}

// The target ends by itself while the tool takes its time.
TEST_F(ListenerTest, TheTargetEndsDuringTheCall) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  Child child(Command(target.text(), ROCATTACH_TEST_LISTENER_TOOL),
              {.environment = target.Environment("attach:hang")});
  ASSERT_TRUE(Eventually([&] { return !target.Log({"tool.attach"}).empty(); }));
  target.child().Signal(SIGKILL);
  const Attached attached = Finish(&child);
  EXPECT_EQ(attached.Reason(), "died-during-attach") << attached.run.output;
}

TEST_F(ListenerTest, TheTargetEndsWhileItIsAttached) {
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
TEST_F(ListenerTest, TheAttacherMayBeKilledAtAnyInstant) {
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
    // What was begun is completed.
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

// librocattach: the same through the functions of ROCm's library.
class ListenerLibraryTest : public ListenerTest {
 protected:
  static Finished Run(const ListenerTarget& target, std::vector<std::string> words,
                      const std::string& tool = ROCATTACH_TEST_LISTENER_TOOL,
                      const std::string& wish = "") {
    std::vector<std::string> environment = target.Environment(wish);
    environment.push_back("ROCPROF_ATTACH_TOOL_LIBRARY=" + tool);
    environment.push_back("ROCPROF_OUTPUT_PATH=" + target.directory() / "out");
    environment.push_back("PYTHONPATH=" ROCATTACH_TEST_PYTHON);
    return Child(words, {.environment = environment}).Wait();
  }
  // What a call of rocattach_attach() prints.
  static std::string StatusOfAttach(const ListenerTarget& target,
                                    const std::string& tool,
                                    const std::string& wish = "") {
    return Run(target, {ROCATTACH_TEST_ATTACH_PROGRAM, "attach=" + target.text()}, tool,
               wish)
        .output;
  }
  const std::vector<std::string> kOnce = {
      "constructor", "configure", "configure_attach", "init", "attach",
      "detach",      "fini"};
};

TEST_F(ListenerLibraryTest, AttachesAndReattaches) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const std::string attach = "attach=" + target.text(),
                    detach = "detach=" + target.text();
  const Finished run = Run(target, {ROCATTACH_TEST_ATTACH_PROGRAM, attach, attach,
                                    detach, detach, attach, detach});
  std::vector<int> statuses;
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);) {
    statuses.push_back(atoi(line.c_str() + line.find(": ") + 2));
  }
  EXPECT_THAT(statuses, ElementsAre(0, 2, 0, 2, 0, 0)) << run.errors;
  target.ExpectEnd();
  EXPECT_THAT(target.Tool(),
              ElementsAre("constructor", "configure", "configure_attach", "init",
                          "attach", "detach", "attach", "detach", "fini"));
  EXPECT_FALSE(std::filesystem::exists(target.directory() / "out")) << "the tool's";
}

// The root, a child that waits for tools as well, and one that has nothing to do with
// it.
TEST_F(ListenerLibraryTest, ATree) {
  ListenerTarget variables;
  const TemporaryDirectory& files = variables.directory();
  const auto late = [&](const std::string& ready) {
    return Quoted(TargetPath("hip_late")) + " --idle -m 50 --until " + files / "go" +
           " --ready " + files / ready;
  };
  Child root(
      {SimrocmRunPath(), "--attachable", "sh", "-c",
       "sleep 1000 & echo $!; { " + late("a") + " >/dev/null & }; exec " + late("b")});
  ASSERT_TRUE(Eventually([&] {
    return std::filesystem::exists(files / "a") && std::filesystem::exists(files / "b");
  }));
  const pid_t idle = atoi(root.PollOutput().c_str());
  const std::string pid = std::to_string(root.pid());
  const Finished run = Run(
      variables, {ROCATTACH_TEST_ATTACH_PROGRAM, "tree=" + pid, "detach-tree=" + pid});
  EXPECT_THAT(run.output, HasSubstr("tree " + pid + ": 0 ")) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("detach-tree " + pid + ": 0 ")) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("it is left out"));
  kill(idle, SIGKILL);
  variables.ExpectEnd();
  EXPECT_TRUE(root.Wait().exited_with(0));
  const std::vector<std::string> steps = variables.Tool();
  for (const std::string& step : kOnce) {
    EXPECT_EQ(std::count(steps.begin(), steps.end(), step), 2) << step;
  }
}

TEST_F(ListenerLibraryTest, StatusValues) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  EXPECT_THAT(StatusOfAttach(target, "/nonexistent.so"), HasSubstr(": 2 "));
  EXPECT_THAT(StatusOfAttach(target, "libnosuchtool.so"), HasSubstr(": 2 "));
  EXPECT_THAT(StatusOfAttach(target, ROCATTACH_TEST_LISTENER_TOOL, "init:fail"),
              HasSubstr(": 1 "));
  target.ExpectEnd();
  ListenerTarget unprepared{{}};
  ASSERT_TRUE(unprepared.ready());
  const Finished run =
      Run(unprepared, {ROCATTACH_TEST_ATTACH_PROGRAM, "attach=" + unprepared.text()});
  EXPECT_THAT(run.output, HasSubstr(": 1 ROCATTACH_STATUS_ERROR"));
  EXPECT_THAT(run.errors, HasSubstr("ROCP_TOOL_ATTACH=1"));
  unprepared.ExpectEnd();
  ListenerTarget crashing;
  ASSERT_TRUE(crashing.ready());
  EXPECT_THAT(
      StatusOfAttach(crashing, ROCATTACH_TEST_LISTENER_TOOL, "constructor:crash"),
      HasSubstr(": 6 "));
}

// A program that dies without a detach: the tool is detached nevertheless.
TEST_F(ListenerLibraryTest, TheHostDies) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  const Finished run =
      Run(target, {ROCATTACH_TEST_ATTACH_PROGRAM, "attach=" + target.text(), "abort"});
  EXPECT_THAT(run.output, HasSubstr(": 0 "));
  EXPECT_TRUE(Eventually(
      [&] { return target.Tool().size() == 6 && target.Tool().back() == "detach"; }));
  target.ExpectEnd();
  EXPECT_EQ(target.Tool(), kOnce);
}

TEST_F(ListenerLibraryTest, TheOlderNamesAndPython) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {ROCATTACH_TEST_ATTACH_TOOL, ROCATTACH_TEST_OLD_LIBRARY, "PID", "100"},
           {"/usr/bin/python3", "-m", "rocattach_attach", "-p", "PID", "-d", "100"},
           {"/usr/bin/python3", "-m", "rocattach_attach", "-p", "PID", "-d", "100",
            "--attach-children=0", "-t", ROCATTACH_TEST_LISTENER_TOOL}}) {
    ListenerTarget target;
    ASSERT_TRUE(target.ready());
    std::vector<std::string> command = words;
    for (std::string& word : command) word = word == "PID" ? target.text() : word;
    const Finished run = Run(target, command);
    EXPECT_TRUE(run.exited_with(0)) << command[0] << run.output << run.errors;
    target.ExpectEnd();
    EXPECT_EQ(target.Tool(), kOnce) << run.errors;
  }
}

TEST_F(ListenerTest, OptionsOfARecordingAreRefused) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  for (const std::string option :
       {"--pmc=SQ_WAVES", "--output-file=x", "--hip-trace"}) {
    Child child(Command(target.text(), ROCATTACH_TEST_LISTENER_TOOL, {option}));
    const Finished run = child.Wait();
    EXPECT_TRUE(run.exited_with(2)) << option;
    EXPECT_THAT(run.errors, HasSubstr("has no effect with --attach-tool-library"));
  }
  target.ExpectEnd();
}

}  // namespace
}  // namespace rocattach::testing_support
