// Processes that are attached to or passed, and what the documented options do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/watch/harness.h"
#include "tests/places.h"

namespace rocattach::testing_support {
namespace {

class PolicyTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // Runs one target under a service with these arguments; returns its verdict.
  v1::WindowEvent VerdictWith(std::vector<std::string> arguments) {
    WatcherProcess watcher(std::move(arguments));
    EXPECT_TRUE(watcher.ready());
    Child target(OnSimgpu({"hsa_dispatch", "-n", "5"}));
    pid_t pid = target.pid();
    EXPECT_TRUE(target.Wait().exited_with(0));
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
    bool attached = process.verdict.state() == v1::WINDOW_STATE_ATTACHED;
    EXPECT_EQ(process.dispatches.size(), attached ? 5u : 0u);
    return process.verdict;
  }
};

TEST_F(PolicyTest, WithoutAutoWindowsAreOnlyReported) {
  v1::WindowEvent verdict = VerdictWith({});
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_PASSED);
  EXPECT_EQ(verdict.mode(), v1::WINDOW_MODE_REPORTED);
  EXPECT_FALSE(verdict.target_modified());
}

TEST_F(PolicyTest, DryRunTouchesNothing) {
  v1::WindowEvent verdict = VerdictWith({"--auto", "--dry-run"});
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_PASSED);
  EXPECT_EQ(verdict.mode(), v1::WINDOW_MODE_REPORTED);
  EXPECT_NE(verdict.detail().find("would attach"), std::string::npos);
  EXPECT_FALSE(verdict.target_modified());
}

TEST_F(PolicyTest, DryRunReportsThePolicyDecision) {
  v1::WindowEvent verdict = VerdictWith({"--auto", "--dry-run", "--deny", "hsa_*"});
  EXPECT_NE(verdict.detail().find("--deny"), std::string::npos) << verdict.detail();
}

// No process is held, so none is attached to, and the processes are not affected.
TEST_F(PolicyTest, NoHoldAtAll) {
  v1::WindowEvent verdict = VerdictWith({"--auto", "--hold", "none"});
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_MISSED);
  EXPECT_EQ(verdict.mode(), v1::WINDOW_MODE_REPORTED);
  EXPECT_NE(verdict.detail().find("--hold none"), std::string::npos)
      << verdict.detail();
  EXPECT_FALSE(verdict.target_modified());
  WatcherProcess watcher({"--auto", "--hold", "none"});
  ASSERT_TRUE(watcher.ready());
  EXPECT_EQ(watcher.Events("ready").at(0)["hold"], "none");
  EXPECT_EQ(watcher.Events("ready").at(0)["hold_reason"], "");
  ExecutableDirectory directory;
  Finished words = Child({WatcherPath(), "--auto", "--hold-timeout-msec", "10000",
                          "--hold", "none", "--collector", CollectorPath(), "-d",
                          directory.path(), "--duration-msec", "50"})
                       .Wait();
  EXPECT_NE(words.errors.find("no process is held or attached"), std::string::npos)
      << words.errors;
}

TEST_F(PolicyTest, ProcessGlobs) {
  EXPECT_EQ(VerdictWith({"--auto", "-n", "hsa_*"}).state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(VerdictWith({"--auto", "-n", "other"}).state(), v1::WINDOW_STATE_PASSED);
  EXPECT_EQ(
      VerdictWith({"--auto", "-n", "other", "-n", TargetPath("hsa_dispatch")}).state(),
      v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(VerdictWith({"--auto", "-n", "hsa_*", "--deny", "*dispatch"}).state(),
            v1::WINDOW_STATE_PASSED);
}

// -p names a running process, whether its runtime has started or not, and no other one.
TEST_F(PolicyTest, AProcessByItsNumber) {
  const Finished native = RunTarget({"hsa_dispatch", "-n", "30"});
  EXPECT_TRUE(native.exited_with(0)) << native.errors;
  ExecutableDirectory directory;
  const std::string go = directory.path() + "/go";
  Child target(OnSimgpu({"hsa_dispatch", "-n", "30", "--wait-file", go}),
               {.dies_with_us = true});
  // The service's messages can be read as they come.
  Child watcher({"bash", "-c", "exec \"$0\" \"$@\" 2>&1", WatcherPath(), "--auto",
                 "--hold-timeout-msec", "10000", "-p", std::to_string(target.pid()),
                 "--collector", CollectorPath(), "-d", directory.path(), "-o", "run"},
                {.dies_with_us = true});
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(watcher.PollOutput(), "attaching through");
  })) << watcher.PollOutput();
  EXPECT_TRUE(RunTarget({"hsa_dispatch", "-n", "5"}).exited_with(0));
  std::ofstream(go).put('\n');
  const Finished end = target.Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  // The service ends with the last process that it was started for.
  const Finished watched = watcher.Wait();
  EXPECT_TRUE(watched.exited_with(0)) << watched.output;
  const Recording recording = ReadRecording(directory.path() + "/run.rwa");
  EXPECT_EQ(recording.Process(target.pid()).dispatches.size(), 30u);
  EXPECT_NE(watched.output.find("1 attached, 0 passed"), std::string::npos)
      << watched.output;
}

// The service sees the group's processes, and no others.
TEST_F(PolicyTest, OnlyProcessesOfAControlGroup) {
  const char* own = getenv("ROCATTACH_CGROUP");
  if (own == nullptr) GTEST_SKIP() << "needs a writable control group (cgroup v2)";
  const std::string group = absl::StrCat(own, "/gpu");
  ASSERT_EQ(mkdir(group.c_str(), 0755), 0) << strerror(errno);
  const std::string move_and_run =
      absl::StrCat("echo $$ > ", group, "/cgroup.procs && exec \"$@\"");
  const auto inside = [&](std::vector<std::string> target) {
    std::vector<std::string> words = OnSimgpu(std::move(target));
    words.insert(words.begin(), {"sh", "-c", move_and_run, "sh"});
    return words;
  };
  const Finished native = Child(inside({"hsa_dispatch", "-n", "30"})).Wait();
  EXPECT_TRUE(native.exited_with(0)) << native.errors;
  for (const char* hold : {"yielding", "signal"}) {
    WatcherProcess watcher({"--auto", "--hold", hold, "--cgroup", group});
    ASSERT_TRUE(watcher.ready());
    EXPECT_TRUE(RunTarget({"hsa_dispatch", "-n", "5"}).exited_with(0));
    Child target(inside({"hsa_dispatch", "-n", "30", "--wait-msec", kTimeToSeize}));
    const pid_t pid = target.pid();
    const Finished end = target.Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    const Recording recording = ReadRecording(watcher.recording());
    EXPECT_EQ(recording.processes.size(), 1u);
    EXPECT_EQ(recording.Process(pid).verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << recording.Process(pid).verdict.detail();
    EXPECT_EQ(recording.Process(pid).dispatches.size(), 30u);
    EXPECT_EQ(recording.summary->windows_attached(), 1u);
    EXPECT_EQ(recording.summary->probe_windows(), 1u);
  }
  EXPECT_TRUE(Eventually([&] { return rmdir(group.c_str()) == 0; }));
}

TEST_F(PolicyTest, AMissingControlGroupIsAnError) {
  Finished missing = Child({WatcherPath(), "--auto", "--hold-timeout-msec", "10000",
                            "--cgroup", "/no/such/group"})
                         .Wait();
  EXPECT_TRUE(missing.exited_with(2)) << missing.errors;
  EXPECT_NE(missing.errors.find("there is no control group /no/such/group"),
            std::string::npos)
      << missing.errors;
}

TEST_F(PolicyTest, AnExecutableThatCrashesAfterItsAttachIsLeftAlone) {
  auto states = [](std::vector<std::string> options) {
    options.insert(options.begin(), "--auto");
    WatcherProcess watcher(options);
    EXPECT_TRUE(watcher.ready());
    std::vector<v1::WindowEvent> verdicts;
    std::vector<pid_t> pids;
    const std::vector<std::string> programs[] = {
        {"hsa_exit_early", "abort"}, {"hsa_exit_early"}, {"hsa_dispatch", "-n", "5"}};
    for (const std::vector<std::string>& program : programs) {
      Child child(OnSimgpu(program));
      pids.push_back(child.pid());
      const Finished end = child.Wait();
      EXPECT_EQ(end.exited_with(0), program.size() != 2) << end.errors;
    }
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    const Recording recording = ReadRecording(watcher.recording());
    for (pid_t pid : pids) verdicts.push_back(recording.Process(pid).verdict);
    return verdicts;
  };
  std::vector<v1::WindowEvent> verdicts = states({});
  EXPECT_EQ(verdicts[0].state(), v1::WINDOW_STATE_ATTACHED) << verdicts[0].detail();
  EXPECT_EQ(verdicts[1].state(), v1::WINDOW_STATE_PASSED) << verdicts[1].detail();
  EXPECT_NE(verdicts[1].detail().find("was killed by SIGABRT"), std::string::npos)
      << verdicts[1].detail();
  EXPECT_FALSE(verdicts[1].target_modified());
  EXPECT_EQ(verdicts[2].state(), v1::WINDOW_STATE_ATTACHED) << verdicts[2].detail();
  verdicts = states({"--no-crash-breaker"});
  EXPECT_EQ(verdicts[1].state(), v1::WINDOW_STATE_ATTACHED) << verdicts[1].detail();
}

TEST_F(PolicyTest, OneUserOnly) {
  EXPECT_EQ(VerdictWith({"--auto", "--uid", "0"}).state(), v1::WINDOW_STATE_ATTACHED);
  v1::WindowEvent verdict = VerdictWith({"--auto", "--uid", "12345"});
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_PASSED);
  EXPECT_NE(verdict.detail().find("--uid 12345"), std::string::npos)
      << verdict.detail();
  // The kernel side decided this: the process was not held for the service's decision.
  EXPECT_EQ(verdict.mode(), v1::WINDOW_MODE_DENIED);
}

TEST_F(PolicyTest, APlainCommandNameIsDeniedByTheKernel) {
  v1::WindowEvent verdict = VerdictWith({"--auto", "--deny", "hsa_dispatch"});
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_PASSED);
  EXPECT_EQ(verdict.mode(), v1::WINDOW_MODE_DENIED);
  EXPECT_NE(verdict.detail().find("--deny 'hsa_dispatch'"), std::string::npos)
      << verdict.detail();
  verdict = VerdictWith({"--auto", "--deny", "hsa_dispatc"});
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_ATTACHED);
}

// The kernel knows only the real path of an executable.
TEST_F(PolicyTest, APathThroughALinkIsTheSameExecutable) {
  const ExecutableDirectory directory;
  const std::string link = directory.path() + "/link";
  std::filesystem::create_directory_symlink(
      std::filesystem::path(TargetPath("hsa_dispatch")).parent_path(), link);
  const std::string path = link + "/hsa_dispatch";
  EXPECT_EQ(VerdictWith({"--auto", "--deny", path}).state(), v1::WINDOW_STATE_PASSED);
  EXPECT_EQ(VerdictWith({"--auto", "-n", path}).state(), v1::WINDOW_STATE_ATTACHED);
}

TEST_F(PolicyTest, AProcessOfAnotherUserIsAttached) {
  if (!EverybodyReaches(TargetPath("hsa_dispatch"))) {
    GTEST_SKIP() << "needs a build that every user reaches";
  }
  WatcherProcess watcher({"--auto"});
  Child target(OnSimgpu({"hsa_dispatch", "-n", "7"}), {.uid = 65534});
  pid_t pid = target.pid();
  Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  watcher.Stop();
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(process.process.uid(), 65534u);
  EXPECT_EQ(process.dispatches.size(), 7u);
}

// The start of a command line in which the service runs a command, to be appended.
std::vector<std::string> WatchOfCommand(const std::string& directory) {
  return {WatcherPath(),
          "--auto",
          "--hold-timeout-msec",
          "10000",
          "--json",
          "--collector",
          CollectorPath(),
          "-d",
          directory,
          "-o",
          "run",
          "--"};
}

// With a command, only the command's own processes are recorded, whatever else runs on
// the machine: other windows are counted, and reported nowhere else.
TEST_F(PolicyTest, ACommandsOwnProcessesOnly) {
  ExecutableDirectory directory;
  const std::string up = directory.path() + "/up", go = directory.path() + "/go";
  std::vector<std::string> words = WatchOfCommand(directory.path());
  const std::string script = "touch " + up + "; while [ ! -e " + go +
                             " ]; do sleep 0.05; done; " +
                             Quoted(TargetPath("hsa_dispatch")) + " -n 3; " +
                             Quoted(TargetPath("hsa_dispatch")) + " -n 4; exit 7";
  for (const std::string& word : OnSimgpu({"sh", "-c", script})) words.push_back(word);
  Child watcher(words);
  ASSERT_TRUE(Eventually([&] { return access(up.c_str(), F_OK) == 0; }))
      << "the command was not started: " << watcher.PollOutput();
  EXPECT_TRUE(RunTarget({"hsa_dispatch", "-n", "10"}).exited_with(0)) << "a stranger";
  std::ofstream(go) << "go";
  Finished result = watcher.Wait();
  EXPECT_TRUE(result.exited_with(7)) << "the command's own exit status";
  Recording recording = ReadRecording(directory.path() + "/run.rwa");
  ASSERT_EQ(recording.processes.size(), 2u);
  uint64_t dispatches = 0;
  for (const RecordedProcess& process : recording.processes) {
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED);
    dispatches += process.dispatches.size();
  }
  EXPECT_EQ(dispatches, 7u);
  EXPECT_GE(recording.summary->windows_unrelated(), 1u);
  EXPECT_EQ(recording.summary->windows_passed(), 0u);
  size_t told = 0;
  for (size_t at = result.errors.find("\"event\":\"window\""); at != std::string::npos;
       at = result.errors.find("\"event\":\"window\"", at + 1)) {
    ++told;
  }
  EXPECT_EQ(told, 2u) << result.errors;
}

// A service that is completing its output no longer attaches; processes that others
// start meanwhile are still not reported.
TEST_F(PolicyTest, StrangersAtTheEndOfTheCommandAreNotReported) {
  std::atomic<bool> done = false;
  std::vector<std::thread> strangers;
  for (int i = 0; i < 2; ++i) {
    strangers.emplace_back([&done] {
      while (!done) EXPECT_TRUE(RunTarget({"hsa_dispatch", "-n", "1"}).exited_with(0));
    });
  }
  for (int i = 0; i < 5; ++i) {
    ExecutableDirectory directory;
    std::vector<std::string> words = WatchOfCommand(directory.path());
    for (const std::string& word : OnSimgpu({TargetPath("hsa_dispatch"), "-n", "5"})) {
      words.push_back(word);
    }
    Finished result = Child(words).Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.errors;
    EXPECT_THAT(result.errors, testing::Not(testing::HasSubstr("paused")));
    Recording recording = ReadRecording(directory.path() + "/run.rwa");
    EXPECT_EQ(recording.processes.size(), 1u);
    EXPECT_EQ(recording.summary->windows_passed(), 0u);
  }
  done = true;
  for (std::thread& stranger : strangers) stranger.join();
}

// The recording ends with the duration; the command runs on, and its status counts.
TEST_F(PolicyTest, ACommandThatOutlivesTheDuration) {
  ExecutableDirectory directory;
  std::vector<std::string> words = {WatcherPath(),
                                    "--auto",
                                    "--collector",
                                    CollectorPath(),
                                    "-d",
                                    directory.path(),
                                    "-o",
                                    "run",
                                    "--duration-msec",
                                    "1500",
                                    "--"};
  for (const std::string& word :
       OnSimgpu({"sh", "-c",
                 Quoted(TargetPath("hsa_dispatch")) +
                     " -n 5 --rounds 10 --sleep-msec 400; test $? = 0 && exit 5"})) {
    words.push_back(word);
  }
  Finished result = Child(words).Wait();
  EXPECT_TRUE(result.exited_with(5)) << result.errors;
  EXPECT_EQ(Reported(result.output, "dispatches"), 50) << "it ran to its own end";
  EXPECT_NE(result.errors.find("waiting for the command"), std::string::npos)
      << result.errors;
  Recording recording = ReadRecording(directory.path() + "/run.rwa");
  EXPECT_TRUE(recording.ended);
  const RecordedProcess process = recording.Process("hsa_dispatch");
  EXPECT_EQ(process.end.how(), v1::ProcessEnd::STILL_RUNNING);
  EXPECT_LT(process.dispatches.size(), 50u);
}

TEST_F(PolicyTest, ACommandKilledByASignal) {
  ExecutableDirectory directory;
  Finished result = Child({WatcherPath(), "-q", "-d", directory.path(), "--", "sh",
                           "-c", "kill -KILL $$"})
                        .Wait();
  EXPECT_TRUE(result.exited_with(128 + SIGKILL));
}

TEST_F(PolicyTest, ACommandThatDoesNotExist) {
  ExecutableDirectory directory;
  Finished result =
      Child({WatcherPath(), "-d", directory.path(), "--", "/no/such/program"}).Wait();
  EXPECT_TRUE(result.exited_with(127));
  EXPECT_NE(result.errors.find("/no/such/program"), std::string::npos) << result.errors;
  EXPECT_TRUE(Child({WatcherPath(), "-d", directory.path(), "--", "no-such-program"})
                  .Wait()
                  .exited_with(127));
  EXPECT_TRUE(Child({WatcherPath(), "-d", directory.path(), "--", "/etc/passwd"})
                  .Wait()
                  .exited_with(126));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "no empty recording";
}

TEST_F(PolicyTest, DurationEndsTheRun) {
  ExecutableDirectory directory;
  Finished result =
      Child({WatcherPath(), "--auto", "--hold-timeout-msec", "10000", "--collector",
             CollectorPath(), "-d", directory.path(), "--duration-msec", "200"})
          .Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
}

TEST_F(PolicyTest, UsageErrors) {
  EXPECT_TRUE(Child({WatcherPath(), "--no-such-option"}).Wait().exited_with(2));
  EXPECT_TRUE(Child({WatcherPath(), "--hold", "tight"}).Wait().exited_with(2));
  EXPECT_TRUE(Child({WatcherPath(), "--hold-timeout-msec", "0"}).Wait().exited_with(2));
  Finished dry = Child({WatcherPath(), "--dry-run"}).Wait();
  EXPECT_TRUE(dry.exited_with(2)) << "requires --auto";
  EXPECT_NE(dry.errors.find("--auto"), std::string::npos) << dry.errors;
  Finished word = Child({WatcherPath(), "--uid", "abc"}).Wait();
  EXPECT_EQ(word.errors.rfind("rocattach-watch: ", 0), 0u) << word.errors;
  Finished help = Child({WatcherPath(), "--help"}).Wait();
  EXPECT_TRUE(help.exited_with(0));
  EXPECT_NE(help.output.find("Examples:"), std::string::npos);
}

TEST_F(PolicyTest, TheStreamOnStandardOutput) {
  ExecutableDirectory directory;
  const std::string socket = directory.path() + "/socket";
  std::vector<std::string> words = {WatcherPath(),   "--auto", "--hold-timeout-msec",
                                    "10000",         "-q",     "--collector",
                                    CollectorPath(), "-o",     "-",
                                    "--socket",      socket};
  Child watcher(words);
  EXPECT_TRUE(Eventually([&] { return access(socket.c_str(), F_OK) == 0; }));
  Child target(OnSimgpu({"hsa_dispatch", "-n", "12"}));
  pid_t pid = target.pid();
  target.Wait();
  watcher.Signal(SIGINT);
  Finished result = watcher.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  std::string path = directory.path() + "/copy.rwa";
  FILE* file = fopen(path.c_str(), "w");
  fwrite(result.output.data(), 1, result.output.size(), file);
  fclose(file);
  EXPECT_EQ(ReadRecording(path).Process(pid).dispatches.size(), 12u);
}

}  // namespace
}  // namespace rocattach::testing_support
