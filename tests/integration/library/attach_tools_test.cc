// librocattach as other programs use it: from the installed tree, by the tools that
// ROCm's documents describe, and from Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "tests/integration/library/attach_fixture.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;

class AttachToolsTest : public AttachLibraryTest {};

// Undocumented names must not collide with names of the program.
TEST_F(AttachToolsTest, OnlyTheApiIsExported) {
  const auto names = [](const char* library) {
    const Finished symbols = Child({"nm", "-D", "--defined-only", library}).Wait();
    EXPECT_TRUE(symbols.exited_with(0)) << symbols.errors;
    std::istringstream lines(symbols.output);
    std::set<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      found.insert(line.substr(line.rfind(' ') + 1));
    }
    return found;
  };
  std::set<std::string> api = {
      "rocattach_attach",          "rocattach_attach_tree",
      "rocattach_detach",          "rocattach_detach_tree",
      "rocattach_get_status_name", "rocattach_get_status_string",
      "rocattach_get_version",     "rocattach_get_version_triplet"};
  EXPECT_EQ(names(ROCATTACH_TEST_LIBRARY), api);
  EXPECT_EQ(names(ROCATTACH_TEST_OLD_LIBRARY),
            (std::set<std::string>{"attach", "detach"}));
  api.insert({"attach", "detach"});
  EXPECT_EQ(names(ROCATTACH_TEST_NEW_LIBRARY), api);
  const auto soname = [](const char* library) {
    return Child({"readelf", "-d", library}).Wait().output;
  };
  EXPECT_THAT(soname(ROCATTACH_TEST_LIBRARY), HasSubstr("soname: [librocattach.so.0]"));
  EXPECT_THAT(soname(ROCATTACH_TEST_NEW_LIBRARY),
              HasSubstr("soname: [librocprofiler-sdk-rocattach.so.1]"));
}

// Builds and runs a program as a user would.
TEST_F(AttachToolsTest, TheInstalledTree) {
  const std::string prefix = directory_.path() + "/tree";
  const Finished install = Child({ROCATTACH_TEST_CMAKE, "--install",
                                  ROCATTACH_TEST_BUILD, "--prefix", prefix})
                               .Wait();
  ASSERT_TRUE(install.exited_with(0)) << install.errors;
  std::string packages;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix)) {
    if (entry.path().filename() == "rocattach.pc")
      packages = entry.path().parent_path();
  }
  ASSERT_NE(packages, "");
  const std::string sanitize = ROCATTACH_TEST_SANITIZE;
  const std::string program = directory_.path() + "/program";
  const Finished compiled =
      Child({"sh", "-c",
             "export PKG_CONFIG_PATH='" + packages +
                 "' && cc -std=c11 -Wall -Wextra "
                 "-Werror " +
                 (sanitize.empty() ? "" : "-fsanitize=" + sanitize) + " -o '" +
                 program +
                 "' '" ROCATTACH_TEST_PROGRAM
                 "' $(pkg-config --cflags --libs rocattach) -pthread"})
          .Wait();
  ASSERT_TRUE(compiled.exited_with(0)) << compiled.errors;
  LateTarget target;
  ASSERT_TRUE(target.ready());
  const Finished run =
      Child({program, "attach=" + target.text(), "detach=" + target.text()},
            Environment({"LD_LIBRARY_PATH=" +
                         std::filesystem::path(packages).parent_path().string()}))
          .Wait();
  EXPECT_THAT(run.output, HasSubstr("attach " + target.text() + ": 0")) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("detach " + target.text() + ": 0")) << run.errors;
  EXPECT_TRUE(std::filesystem::exists(File()));
  target.ExpectEnd();
}

// The tools of ROCm's documents, which open a library by its bare name.
struct SampleTool {
  const char* tool;
  const char* library;
};
class SampleToolTest : public AttachLibraryTest,
                       public testing::WithParamInterface<SampleTool> {};

// Longer than the target runs on a busy machine once it has been attached to.
constexpr int kAttachedMsec = 6000;

TEST_P(SampleToolTest, FindsItsOutputWhereItSaid) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  TemporaryDirectory working;
  Child::Options options;
  options.environment = {
      "ROCATTACH_LOG_LEVEL=info",
      "LD_LIBRARY_PATH=" +
          std::filesystem::path(ROCATTACH_TEST_OLD_LIBRARY).parent_path().string()};
  const auto& [tool, opened_by_it] = GetParam();
  const bool python = std::string(tool).ends_with(".py");
  std::vector<std::string> command = {tool, opened_by_it, target.text(),
                                      std::to_string(kAttachedMsec)};
  if (python) command.insert(command.begin(), "/usr/bin/python3");
  // Runs in that folder.
  command.insert(command.begin(), {"env", "-C", working.path()});
  Child running(command, options);
  EXPECT_TRUE(Eventually([&] { return !running.PollOutput().empty(); }));
  target.ExpectEnd();
  const Finished run = running.Wait();
  EXPECT_TRUE(run.exited_with(0)) << run.errors;
  EXPECT_EQ(run.output, "attached\ndetached\n");
  EXPECT_THAT(run.errors, HasSubstr("what it cannot give")) << "HIP calls";
  ExpectEveryLaterDispatch(working.path() + "/attachment-output/attached_profile.rwa",
                           target.pid(), LateTarget::kAfter);
}
INSTANTIATE_TEST_SUITE_P(
    Documents, SampleToolTest,
    testing::Values(
        SampleTool{ROCATTACH_TEST_ATTACH_TOOL, "librocprofv3-attach.so"},
        SampleTool{ROCATTACH_TEST_ATTACH_TOOL, "librocprofiler-sdk-rocattach.so"},
        SampleTool{ROCATTACH_TEST_ATTACH_TOOL_PYTHON, "librocprofv3-attach.so"},
        SampleTool{ROCATTACH_TEST_ATTACH_TOOL_PYTHON,
                   "librocprofiler-sdk-rocattach.so"}));

// Without a duration the tool stays until the process ends.
TEST_F(AttachToolsTest, TheSampleToolWaitsForTheEnd) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  Child tool({ROCATTACH_TEST_ATTACH_TOOL, ROCATTACH_TEST_NEW_LIBRARY, target.text()},
             Environment());
  EXPECT_TRUE(Eventually([&] { return !tool.PollOutput().empty(); }));
  target.ExpectEnd();
  const Finished run = tool.Wait();
  EXPECT_TRUE(run.exited_with(0)) << run.errors;
  ExpectEveryLaterDispatch(File(), target.pid(), LateTarget::kAfter);
}

TEST_F(AttachToolsTest, PythonModule) {
  LateTarget target;
  ASSERT_TRUE(target.ready());
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"/usr/bin/python3", "-m", "rocattach_attach"});
    return Child(words, Environment({"PYTHONPATH=" ROCATTACH_TEST_PYTHON})).Wait();
  };
  const Finished timed = run({"-p", target.text(), "-d", "300"});
  EXPECT_TRUE(timed.exited_with(0)) << timed.errors;
  const Finished nobody = run({"-p", "4194303", "-d", "300"});
  EXPECT_TRUE(nobody.exited_with(1)) << nobody.errors;
  EXPECT_THAT(nobody.errors, HasSubstr("no such process"));
  const Finished usage = run({});
  EXPECT_TRUE(usage.exited_with(2)) << usage.errors;
  // Stays until the process ends.
  Child endless({"sh", "-c",
                 "exec /usr/bin/python3 -c 'import rocattach_attach; "
                 "rocattach_attach.main()' 2>&1"},
                Environment({"PYTHONPATH=" ROCATTACH_TEST_PYTHON,
                             "ROCPROF_ATTACH_PID=" + target.text()}));
  EXPECT_TRUE(Eventually(
      [&] { return endless.PollOutput().find("attached to") != std::string::npos; }));
  target.ExpectEnd();
  EXPECT_TRUE(endless.Wait().exited_with(0));
  ExpectEveryLaterDispatch(File("-1"), target.pid(), LateTarget::kAfter);
}

}  // namespace
}  // namespace rocattach::testing_support
