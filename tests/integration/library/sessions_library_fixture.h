// The C API from the installed tree: C programs, built against that tree only, with a
// running service and processes on the simulated GPU.
#ifndef ROCATTACH_TESTS_INTEGRATION_LIBRARY_SESSIONS_LIBRARY_FIXTURE_H_
#define ROCATTACH_TESTS_INTEGRATION_LIBRARY_SESSIONS_LIBRARY_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

class SessionsLibraryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    installed_ = new ExecutableDirectory;
    const Finished install = Child({ROCATTACH_TEST_CMAKE, "--install",
                                    ROCATTACH_TEST_BUILD, "--prefix", Prefix()})
                                 .Wait();
    ASSERT_TRUE(install.exited_with(0)) << install.errors;
  }
  static void TearDownTestSuite() {
    delete installed_;
    installed_ = nullptr;
  }

  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    // Compiles the program now, so that no process waits for the compiler later.
    ASSERT_NE(Program(), "");
    // Files that a real driver would show in /sys.
    const std::string node = directory_.path() + "/nodes/1";
    std::filesystem::create_directories(node);
    std::ofstream(node + "/properties") << "cpu_cores_count 0\nsimd_count 416\n";
  }

  static std::string Prefix() { return installed_->path() + "/tree"; }
  // Compiles a source below tests/ as a user's makefile would. Empty if that failed.
  static std::string Compile(const std::string& source) {
    std::string program = installed_->path() + "/" + source;
    if (std::filesystem::exists(program)) return program;
    std::filesystem::create_directories(std::filesystem::path(program).parent_path());
    const std::string packages =
        std::filesystem::path(Find("rocattach-sessions.pc")).parent_path().string();
    // A program that uses a sanitized library must be linked with the sanitizer.
    const std::string sanitize = ROCATTACH_TEST_SANITIZE;
    const std::string flags = sanitize.empty() ? "" : "-fsanitize=" + sanitize + " ";
    // The way to port a program for ROCProfiler.
    const std::string port =
        "sed 's/rocprofiler_/rocattach_/g; s/ROCPROFILER_/ROCATTACH_/g; "
        "s|<rocprofiler/v2/rocprofiler.h>|<rocattach/rocattach_sessions.h>|'";
    const Finished compiled =
        Child({"sh", "-c",
               "export PKG_CONFIG_PATH='" + packages + "' && " + port +
                   " '" ROCATTACH_TEST_SOURCES "/" + source +
                   "' | cc -std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Werror " + flags +
                   "-o '" + program +
                   "' -x c - -x none $(pkg-config --cflags --libs rocattach-sessions) "
                   "-lm -pthread"})
            .Wait();
    EXPECT_TRUE(compiled.exited_with(0)) << compiled.errors;
    return compiled.exited_with(0) ? program : "";
  }
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
    // No LD_LIBRARY_PATH: programs find the library where it was when they were linked.
    options.environment = {"ROCATTACH_SOCKET=" + Socket()};
    return options;
  }

  // The program that most tests run.
  virtual std::string Program() const {
    return Compile("integration/library/program.c");
  }

  Finished Run(const char* what, pid_t pid) const {
    return Child({Program(), what, std::to_string(pid)}, Environment()).Wait();
  }

  // Output of the program in one mode, and the recorded process that it has used.
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

  static inline ExecutableDirectory* installed_ = nullptr;
  ExecutableDirectory directory_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_LIBRARY_SESSIONS_LIBRARY_FIXTURE_H_
