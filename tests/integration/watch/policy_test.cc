// Who is attached to and who is left alone, and what the command line promises.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

class PolicyTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // Runs one target under a watcher with these arguments; its verdict.
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

TEST_F(PolicyTest, DryRunTellsWhatThePolicyWouldSay) {
  v1::WindowEvent verdict = VerdictWith({"--auto", "--dry-run", "--deny", "hsa_*"});
  EXPECT_NE(verdict.detail().find("--deny"), std::string::npos) << verdict.detail();
}

TEST_F(PolicyTest, ProcessGlobs) {
  EXPECT_EQ(VerdictWith({"--auto", "-p", "hsa_*"}).state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(VerdictWith({"--auto", "-p", "other"}).state(), v1::WINDOW_STATE_PASSED);
  EXPECT_EQ(
      VerdictWith({"--auto", "-p", "other", "-p", TargetPath("hsa_dispatch")}).state(),
      v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(VerdictWith({"--auto", "-p", "hsa_*", "--deny", "*dispatch"}).state(),
            v1::WINDOW_STATE_PASSED);
}

TEST_F(PolicyTest, OneUserOnly) {
  EXPECT_EQ(VerdictWith({"--auto", "--uid", "0"}).state(), v1::WINDOW_STATE_ATTACHED);
  v1::WindowEvent verdict = VerdictWith({"--auto", "--uid", "12345"});
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_PASSED);
  EXPECT_NE(verdict.detail().find("--uid 12345"), std::string::npos)
      << verdict.detail();
  // The kernel knew: it was not held for the service to find out.
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

TEST_F(PolicyTest, AProcessOfAnotherUserIsAttached) {
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

// With a command only its own processes count, whatever else runs on the machine.
TEST_F(PolicyTest, ACommandsOwnProcessesOnly) {
  TemporaryDirectory directory;
  Child stranger(
      OnSimgpu({"hsa_dispatch", "-n", "10", "--rounds", "20", "--sleep-msec", "50"}));
  std::vector<std::string> words = {
      WatcherPath(), "--auto",         "--json", "--collector", CollectorPath(),
      "-d",          directory.path(), "-o",     "run",         "--"};
  for (const std::string& word :
       OnSimgpu({"sh", "-c",
                 TargetPath("hsa_dispatch") + " -n 3; " + TargetPath("hsa_dispatch") +
                     " -n 4; exit 7"})) {
    words.push_back(word);
  }
  Finished result = Child(words).Wait();
  EXPECT_TRUE(result.exited_with(7)) << "the command's own exit status";
  stranger.Wait();
  Recording recording = ReadRecording(directory.path() + "/run.rwa");
  uint64_t dispatches = 0, attached = 0;
  for (const RecordedProcess& process : recording.processes) {
    dispatches += process.dispatches.size();
    attached += process.verdict.state() == v1::WINDOW_STATE_ATTACHED ? 1 : 0;
  }
  EXPECT_EQ(attached, 2u);
  EXPECT_EQ(dispatches, 7u);
}

TEST_F(PolicyTest, ACommandKilledByASignal) {
  TemporaryDirectory directory;
  Finished result = Child({WatcherPath(), "-q", "-d", directory.path(), "--", "sh",
                           "-c", "kill -KILL $$"})
                        .Wait();
  EXPECT_TRUE(result.exited_with(128 + SIGKILL));
}

TEST_F(PolicyTest, ACommandThatDoesNotExist) {
  TemporaryDirectory directory;
  Finished result =
      Child({WatcherPath(), "-d", directory.path(), "--", "/no/such/program"}).Wait();
  EXPECT_TRUE(result.exited_with(3));
  EXPECT_NE(result.errors.find("/no/such/program"), std::string::npos) << result.errors;
}

TEST_F(PolicyTest, DurationEndsTheRun) {
  TemporaryDirectory directory;
  Finished result = Child({WatcherPath(), "--auto", "--collector", CollectorPath(),
                           "-d", directory.path(), "--duration-msec", "200"})
                        .Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
}

TEST_F(PolicyTest, UsageErrors) {
  EXPECT_TRUE(Child({WatcherPath(), "--no-such-option"}).Wait().exited_with(2));
  EXPECT_TRUE(Child({WatcherPath(), "--hold", "tight"}).Wait().exited_with(2));
  EXPECT_TRUE(Child({WatcherPath(), "--hold-timeout-msec", "0"}).Wait().exited_with(2));
  Finished help = Child({WatcherPath(), "--help"}).Wait();
  EXPECT_TRUE(help.exited_with(0));
  EXPECT_NE(help.output.find("Examples:"), std::string::npos);
}

TEST_F(PolicyTest, TheStreamOnStandardOutput) {
  std::vector<std::string> words = {WatcherPath(), "--auto",          "-q",
                                    "--collector", CollectorPath(),   "-o",
                                    "-",           "--duration-msec", "1500"};
  Child watcher(words);
  usleep(700'000);
  Child target(OnSimgpu({"hsa_dispatch", "-n", "12"}));
  pid_t pid = target.pid();
  target.Wait();
  Finished result = watcher.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  TemporaryDirectory directory;
  std::string path = directory.path() + "/copy.rwa";
  FILE* file = fopen(path.c_str(), "w");
  fwrite(result.output.data(), 1, result.output.size(), file);
  fclose(file);
  EXPECT_EQ(ReadRecording(path).Process(pid).dispatches.size(), 12u);
}

}  // namespace
}  // namespace rocattach::testing_support
