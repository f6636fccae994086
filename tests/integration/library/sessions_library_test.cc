// The C API from the installed tree: programs get true values.
#include <sstream>

#include "tests/integration/library/sessions_library_fixture.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;

TEST_F(SessionsLibraryTest, OnlyTheApiIsExported) {
  const Finished symbols =
      Child({"nm", "-D", "--defined-only", Find("librocattach-sessions.so")}).Wait();
  ASSERT_TRUE(symbols.exited_with(0)) << symbols.errors;
  std::istringstream lines(symbols.output);
  int functions = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(line.rfind(' ') + 1);
    if (name.starts_with("ROCATTACH_SESSIONS_0")) continue;  // the version itself
    EXPECT_TRUE(name.starts_with("rocattach_")) << line;
    ++functions;
  }
  EXPECT_GE(functions, 25);
  const Finished dynamic =
      Child({"readelf", "-d", Find("librocattach-sessions.so")}).Wait();
  EXPECT_THAT(dynamic.output, HasSubstr("soname: [librocattach-sessions.so.0]"));
}

TEST_F(SessionsLibraryTest, TheCMakePackageNeedsNoVariable) {
  const std::string folder = installed_->path() + "/project";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/CMakeLists.txt")
      << "cmake_minimum_required(VERSION 3.20)\nproject(user C)\n"
         "find_package(rocattach REQUIRED)\n"
         "add_executable(user \"" ROCATTACH_TEST_SOURCES
         "/integration/library/program.c\")\n"
         "target_link_libraries(user rocattach::sessions m)\n";
  const Finished built =
      Child({"sh", "-c",
             std::string(ROCATTACH_TEST_CMAKE) + " -S '" + folder + "' -B '" + folder +
                 "/build' -DCMAKE_PREFIX_PATH='" + Prefix() + "' && " +
                 ROCATTACH_TEST_CMAKE + " --build '" + folder + "/build'"})
          .Wait();
  ASSERT_TRUE(built.exited_with(0)) << built.output << built.errors;
  const Finished nobody =
      Child({folder + "/build/user", "errors", "1"}, Environment()).Wait();
  EXPECT_TRUE(nobody.exited_with(1));
  EXPECT_THAT(nobody.errors, HasSubstr("no answer at " + Socket()));
}

TEST_F(SessionsLibraryTest, RecordsAreTheTruth) {
  const auto [program, process] = RunBeside("counters", "300");
  EXPECT_GT(Reported(program.output, "records"), 100);
  EXPECT_EQ(Reported(program.output, "wrong"), 0);
  // The records that the program got are in the recording as well.
  EXPECT_EQ(process.dispatches.size(), 6000u);
  EXPECT_EQ(process.counters.size(),
            2 * static_cast<size_t>(Reported(program.output, "records")));
  EXPECT_EQ(process.sessions.size(), 4u) << "two starts, two stops";
}

TEST_F(SessionsLibraryTest, DeviceCountersAreTheTruth) {
  EXPECT_THAT(RunBeside("device", "300").program.output, HasSubstr("SQ_WAVES="));
}

TEST_F(SessionsLibraryTest, ASamplerOmitsItsDelayButNotItsLastSpan) {
  EXPECT_EQ(Reported(RunBeside("sampler", "600").program.output, "samples"), 1);
}

// A program that just exits does not hang, and the service ends its session.
TEST_F(SessionsLibraryTest, ExitWithoutFinalizeEndsTheSession) {
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  Child target(Target("300"));
  const Finished run = Run("leave", target.pid());
  EXPECT_TRUE(run.exited_with(0)) << run.output << run.errors;
  EXPECT_GT(Reported(run.output, "records"), 0);
  ExpectSessionOver();
  ExpectEnd(&target, &watcher);
}

TEST_F(SessionsLibraryTest, ChildrenThatExitDoNotDisturbTheParent) {
  const auto [program, process] = RunBeside("forks", "300");
  EXPECT_EQ(Reported(program.output, "wrong"), 0);
  EXPECT_EQ(process.counters.size(),
            2 * static_cast<size_t>(Reported(program.output, "records")));
  EXPECT_EQ(process.sessions.size(), 2u) << "one start, one stop";
}

TEST_F(SessionsLibraryTest, ErrorsHaveTheirDocumentedNumbers) {
  const Finished nobody = Run("errors", 1);
  EXPECT_TRUE(nobody.exited_with(1));
  EXPECT_THAT(nobody.errors, HasSubstr("no answer at " + Socket()));
  (void)RunBeside("errors", "300");
}

TEST_F(SessionsLibraryTest, ASessionEndsWithItsProgramOrItsService) {
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  Child target(Target("600"));
  const std::string pid = std::to_string(target.pid());
  {
    Child program({Program(), "forever", pid}, Environment());
    ASSERT_TRUE(Eventually([&] { return !program.PollOutput().empty(); }));
    ASSERT_THAT(program.PollOutput(), HasSubstr("started"));
    EXPECT_EQ(Status()["sessions"].back()["active"], true);
    program.Signal(SIGKILL);
    program.Wait();
  }
  ExpectSessionOver();
  // The next program has the process to itself, until the service ends.
  Child program({Program(), "forever", pid}, Environment());
  ASSERT_TRUE(Eventually([&] { return !program.PollOutput().empty(); }));
  ASSERT_THAT(program.PollOutput(), HasSubstr("started"));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  program.Signal(SIGTERM);
  const Finished ended = program.Wait();
  EXPECT_THAT(ended.output, HasSubstr("terminate=-1"));
  EXPECT_TRUE(ended.exited_with(0)) << ended.errors;
  EXPECT_TRUE(target.Wait().exited_with(0));
}

}  // namespace
}  // namespace rocattach::testing_support
