// The C API from the installed tree: a C program, built against nothing but that, with
// a running watcher and a process on the simulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;

class SessionsLibraryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    installed_ = new ExecutableDirectory;
    const Finished install = Child({ROCATTACH_TEST_CMAKE, "--install",
                                    ROCATTACH_TEST_BUILD, "--prefix", Prefix()})
                                 .Wait();
    ASSERT_TRUE(install.exited_with(0)) << install.errors;
    const std::string packages = Find("rocattach-sessions.pc");
    ASSERT_NE(packages, "");
    // A sanitized library needs a program that brings the sanitizer.
    const std::string sanitize = ROCATTACH_TEST_SANITIZE;
    const std::string flags = sanitize.empty() ? "" : "-fsanitize=" + sanitize + " ";
    // As a user's makefile does it.
    const Finished compiled =
        Child({"sh", "-c",
               "PKG_CONFIG_PATH='" +
                   std::filesystem::path(packages).parent_path().string() +
                   "' && export PKG_CONFIG_PATH && cc -std=c11 -Wall -Wextra -Werror " +
                   flags + "-o '" + Program() +
                   "' '" ROCATTACH_TEST_PROGRAM
                   "' $(pkg-config --cflags --libs rocattach-sessions) -lm"})
            .Wait();
    ASSERT_TRUE(compiled.exited_with(0)) << compiled.errors;
  }
  static void TearDownTestSuite() {
    delete installed_;
    installed_ = nullptr;
  }

  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    // What a real driver would show in /sys.
    const std::string node = directory_.path() + "/nodes/1";
    std::filesystem::create_directories(node);
    std::ofstream(node + "/properties") << "cpu_cores_count 0\nsimd_count 416\n";
  }

  static std::string Prefix() { return installed_->path() + "/tree"; }
  static std::string Program() { return installed_->path() + "/program"; }
  static std::string Find(const std::string& name) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Prefix())) {
      if (entry.path().filename() == name) return entry.path().string();
    }
    return "";
  }

  std::string Socket() const { return directory_.path() + "/control.sock"; }

  std::vector<std::string> Watch() const {
    return {"--auto", "--kfd-topology", directory_.path(), "--backend",
            "sdk",    "--socket",       Socket()};
  }

  static std::vector<std::string> Target(const char* rounds) {
    return {SimrocmRunPath(),
            TargetPath("hsa_dispatch"),
            "-n",
            "20",
            "--rounds",
            rounds,
            "--sleep-msec",
            "5"};
  }

  Child::Options Environment() const {
    Child::Options options;
    const std::filesystem::path library = Find("librocattach-sessions.so");
    options.environment = {"LD_LIBRARY_PATH=" + library.parent_path().string(),
                           "ROCATTACH_SOCKET=" + Socket()};
    return options;
  }

  Finished Run(const char* what, pid_t pid) const {
    return Child({Program(), what, std::to_string(pid)}, Environment()).Wait();
  }

  // The program in this mode, with a service and a process that it uses.
  struct Outcome {
    Finished program;
    RecordedProcess process;
  };
  Outcome RunBeside(const char* what, const char* rounds) {
    Outcome outcome;
    WatcherProcess watcher(Watch());
    EXPECT_TRUE(watcher.ready());
    Child target(Target(rounds));
    const pid_t pid = target.pid();
    outcome.program = Run(what, pid);
    EXPECT_TRUE(outcome.program.exited_with(0))
        << outcome.program.output << outcome.program.errors;
    ExpectEnd(&target, &watcher);
    outcome.process = ReadRecording(watcher.recording()).Process(pid);
    return outcome;
  }
  static void ExpectEnd(Child* target, WatcherProcess* watcher) {
    const Finished result = target->Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_TRUE(watcher->Stop().exited_with(0));
  }
  // Waits until the last session is over.
  void ExpectSessionOver() const {
    nlohmann::json status;
    for (int i = 0; i < 100; ++i) {
      status = Status();
      if (status["sessions"].back()["over"] == true) return;
      usleep(20'000);
    }
    ADD_FAILURE() << status;
  }

  nlohmann::json Status() const {
    const Finished status =
        Child({ClientPath(), "session", "status", "--socket", Socket(), "--json"})
            .Wait();
    return nlohmann::json::parse(status.output, nullptr, false);
  }

  static ExecutableDirectory* installed_;
  ExecutableDirectory directory_;
};
ExecutableDirectory* SessionsLibraryTest::installed_ = nullptr;

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

TEST_F(SessionsLibraryTest, RecordsAreTheTruth) {
  const auto [program, process] = RunBeside("counters", "300");
  EXPECT_GT(Reported(program.output, "records"), 100);
  EXPECT_EQ(Reported(program.output, "wrong"), 0);
  // What the program was given is in the recording as well.
  EXPECT_EQ(process.dispatches.size(), 6000u);
  EXPECT_EQ(process.counters.size(),
            2 * static_cast<size_t>(Reported(program.output, "records")));
  EXPECT_EQ(process.sessions.size(), 4u) << "two starts, two stops";
}

TEST_F(SessionsLibraryTest, DeviceCountersAreTheTruth) {
  EXPECT_THAT(RunBeside("device", "300").program.output, HasSubstr("SQ_WAVES="));
}

TEST_F(SessionsLibraryTest, ASamplersDelayIsLeftOutAndItsLastSpanIsNot) {
  EXPECT_EQ(Reported(RunBeside("sampler", "600").program.output, "samples"), 1);
}

// A program that just exits: no hang, and the service takes the session back.
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

TEST_F(SessionsLibraryTest, ChildrenThatExitHarmNobody) {
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
    for (int i = 0; i < 500 && program.PollOutput().empty(); ++i) usleep(20'000);
    ASSERT_THAT(program.PollOutput(), HasSubstr("started"));
    EXPECT_EQ(Status()["sessions"].back()["active"], true);
    program.Signal(SIGKILL);
    program.Wait();
  }
  ExpectSessionOver();
  // The next one has the process for itself, until the service goes away.
  Child program({Program(), "forever", pid}, Environment());
  for (int i = 0; i < 500 && program.PollOutput().empty(); ++i) usleep(20'000);
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
