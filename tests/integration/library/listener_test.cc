// Third-party tools in processes that were started with ROCP_TOOL_ATTACH=1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/integration/library/listener_fixture.h"
#include "tests/places.h"

namespace rocattach::testing_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Native control.
TEST_F(ListenerTest, WithoutAnAttachNothingIsCalled) {
  ListenerTarget target;
  ASSERT_TRUE(target.ready());
  EXPECT_NE(target.Listener(), 0);
  target.ExpectEnd();
  EXPECT_THAT(target.Log(kSteps), IsEmpty());
  EXPECT_THAT(target.Tool(), IsEmpty());
}

// The twelve documented steps; the attacher's own four enclose the others.
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

// The tool collects data while it is attached.
TEST_F(ListenerTest, AToolCountsDispatchesWhileItIsAttached) {
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

// The collector and the tool see the same dispatches, whichever came first.
TEST_F(ListenerTest, AToolWorksBesideARecording) {
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
  for (const std::string mark : {"1", "", "=two words"}) {
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
                          "attach1", "detach1", "attach", "detach", "attach=two words",
                          "detach=two words", "fini"))
      << "the last is without a mark: the variables are gone";
}

TEST_F(ListenerTest, VariablesOfTheProgramAreRestored) {
  ListenerTarget target({"--attachable"}, {"ROCPROF_TEST_MARK=its own"});
  ASSERT_TRUE(target.ready());
  for (int round = 0; round < 2; ++round) {
    std::vector<std::string> environment = target.Environment();
    environment.push_back("ROCPROF_TEST_MARK=" + std::string(9000, 'x'));
    Child child(Command(target.text(), ROCATTACH_TEST_LISTENER_TOOL,
                        {"--attach-duration-msec", "1"}),
                {.environment = environment});
    const Attached attached = Finish(&child);
    ExpectAttached(attached);
    EXPECT_EQ(attached.Event("result").value("variables_kept", "?"), "");
  }
  target.ExpectEnd();
  EXPECT_EQ(target.Tool().back(), "finiits own");
  EXPECT_EQ(target.Tool()[4], "attach" + std::string(9000, 'x'));
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

// Another tool would need another process; the first one still works.
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

// ROCm 7.2 takes a list of tools, and ends the program if one of them cannot be loaded.
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

// Newer releases take one tool only.
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

// The variable is set, so the message does not blame the user for forgetting it.
TEST_F(ListenerTest, ARegisterThatIsTooOld) {
  ListenerTarget target({"--attachable", "--old-register"});
  ASSERT_TRUE(target.ready());
  const Attached attached = Attach(target);
  EXPECT_EQ(attached.Reason(), "unsupported") << attached.run.output;
  EXPECT_THAT(attached.Detail(), HasSubstr("is too old for attaching tool libraries"));
  EXPECT_THAT(attached.Detail(), HasSubstr("rocprofiler_register_attach()"));
  EXPECT_THAT(attached.Detail(), testing::Not(HasSubstr("ROCP_TOOL_ATTACH")));
  EXPECT_TRUE(attached.run.exited_with(1));
  target.ExpectEnd();
}

TEST_F(ListenerTest, AThreadThatOnlyHasTheName) {
  ListenerTarget none;  // for its variables only
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

// Some releases of rocprofiler-register abort the process if they do not find the SDK.
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
