// Third-party tools through librocattach, its older names and the Python module.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/integration/library/listener_fixture.h"
#include "tests/places.h"

namespace rocattach::testing_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The same through librocattach, which has the functions of ROCm's library.
class ListenerLibraryTest : public ListenerTest {
 protected:
  static Finished Run(const ListenerTarget& target, std::vector<std::string> words,
                      const std::string& tool = ROCATTACH_TEST_LISTENER_TOOL,
                      const std::string& behavior = "") {
    std::vector<std::string> environment = target.Environment(behavior);
    environment.push_back("ROCPROF_ATTACH_TOOL_LIBRARY=" + tool);
    environment.push_back("ROCPROF_OUTPUT_PATH=" + target.directory() / "out");
    environment.push_back("PYTHONPATH=" ROCATTACH_TEST_PYTHON);
    return Child(words, {.environment = environment}).Wait();
  }
  // Returns what the attach program prints for a call of rocattach_attach().
  static std::string StatusOfAttach(const ListenerTarget& target,
                                    const std::string& tool,
                                    const std::string& behavior = "") {
    return Run(target, {ROCATTACH_TEST_ATTACH_PROGRAM, "attach=" + target.text()}, tool,
               behavior)
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
// tools.
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

// A program dies without a detach: the tool is detached nevertheless.
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

}  // namespace
}  // namespace rocattach::testing_support
