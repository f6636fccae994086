// Verdicts name the true causes and remedies.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/watch/hang_report.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

class VerdictsTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

// Runs a target with a seccomp filter.
pid_t StartWithFilter(std::vector<std::string> command, std::vector<sock_filter> code) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const sock_fprog filter = {static_cast<unsigned short>(code.size()), code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    _exit(126);
  }
  execv(words[0], words.data());
  _exit(127);
}

// Waits for the end of the process; returns its status as of wait(2).
int EndOf(pid_t pid) {
  bool reported = false;
  AwaitEnd(pid, &reported);
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

// With a filter that gives this answer to memfd_create, a call that neither the target
// nor the runtime makes, but the collector does.
pid_t StartFiltered(std::vector<std::string> command, uint32_t answer) {
  // With this, the simulated GPU does not make the call either.
  command.insert(command.begin(), {"/usr/bin/env", "SIMGPU_MEMFD=0"});
  return StartWithFilter(
      command, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, answer), kAllow});
}

// With a filter that kills at a size that only the collector's memory has: no check can
// predict what a filter decides for each argument.
pid_t StartKilledAtTruncate(const std::vector<std::string>& command) {
  constexpr uint32_t kBytes = offsetof(seccomp_data, args) + sizeof(uint64_t);
  return StartWithFilter(
      command, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ftruncate, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kBytes),
                BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 16 << 20, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), kAllow});
}

class SeccompTest : public VerdictsTest,
                    public testing::WithParamInterface<uint32_t> {};

// Such a filter is recognised before anything is written.
TEST_P(SeccompTest, AFilterThatWouldKillIsRefusedByName) {
  const std::vector<std::string> command = OnSimgpu({"hsa_dispatch", "-n", "5"});
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const pid_t pid = StartFiltered(command, GetParam());
  const int status = EndOf(pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const v1::WindowEvent verdict =
      ReadRecording(watcher.recording()).Process(pid).verdict;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_REFUSED);
  EXPECT_EQ(verdict.reason(), v1::ATTACH_REASON_SECCOMP_FILTER) << verdict.detail();
  EXPECT_NE(verdict.detail().find("memfd_create()"), std::string::npos)
      << verdict.detail();
  EXPECT_FALSE(verdict.target_modified());
}

INSTANTIATE_TEST_SUITE_P(Actions, SeccompTest,
                         testing::Values(SECCOMP_RET_KILL_PROCESS,
                                         SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP));

// The collector handles an error itself: it reports it, and the process runs on.
TEST_F(VerdictsTest, AFilterThatAnswersWithAnErrorHarmsNobody) {
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const pid_t pid =
      StartFiltered(OnSimgpu({"hsa_dispatch", "-n", "5"}), SECCOMP_RET_ERRNO | EPERM);
  const int status = EndOf(pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const v1::WindowEvent verdict =
      ReadRecording(watcher.recording()).Process(pid).verdict;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_REFUSED);
  EXPECT_EQ(verdict.reason(), v1::ATTACH_REASON_COLLECTOR_REFUSED) << verdict.detail();
}

// A signal that the service did not send, while the collector is being loaded.
TEST_F(VerdictsTest, ADeathDuringTheAttachIsNamedWithItsSignal) {
  // The filter allows the calls that the check knows, and kills at a later one, with an
  // argument that only the collector's memory has.
  const std::vector<std::string> command = OnSimgpu({"hsa_dispatch", "-n", "5"});
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const pid_t pid = StartKilledAtTruncate(command);
  const int status = EndOf(pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << status;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_MISSED);
  EXPECT_EQ(process.verdict.reason(), v1::ATTACH_REASON_DIED_DURING_ATTACH);
  EXPECT_NE(process.verdict.detail().find("SIGSYS"), std::string::npos)
      << process.verdict.detail();
  EXPECT_NE(process.verdict.detail().find("the attach is the likely cause"),
            std::string::npos)
      << process.verdict.detail();
  const Finished report = Child({ClientPath(), "report", watcher.recording()}).Wait();
  const size_t problem = report.output.find("problem");
  ASSERT_NE(problem, std::string::npos) << report.output;
  EXPECT_LT(problem, report.output.find("run by")) << "first of all";
}

// If the service runs out of descriptors, the verdict does not blame the target.
TEST_F(VerdictsTest, AServiceWithoutDescriptorsIsNotTheTargetsFault) {
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  rlimit before;
  ASSERT_EQ(prlimit(watcher.pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  // All descriptor numbers below the first free one are in use.
  rlim_t first_free = 0;
  const std::string descriptors = "/proc/" + std::to_string(watcher.pid()) + "/fd/";
  while (std::filesystem::is_symlink(descriptors + std::to_string(first_free))) {
    ++first_free;
  }
  const rlimit none = {first_free, before.rlim_max};
  ASSERT_EQ(prlimit(watcher.pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  Child target(OnSimgpu({"hsa_dispatch", "-n", "5"}));
  const pid_t pid = target.pid();
  const Finished result = target.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  ASSERT_EQ(prlimit(watcher.pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_REFUSED)
      << process.verdict.detail();
  EXPECT_EQ(process.verdict.reason(), v1::ATTACH_REASON_SERVICE_RESOURCES)
      << process.verdict.detail();
  EXPECT_EQ(process.verdict.error(), static_cast<uint32_t>(EMFILE));
  EXPECT_NE(process.verdict.detail().find("LimitNOFILE"), std::string::npos)
      << process.verdict.detail();
}

}  // namespace
}  // namespace rocattach::testing_support
