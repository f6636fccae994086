// `rocattach why` reports what was decided about a process, even when it has ended.
#include <errno.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/hang_report.h"
#include "tests/integration/watch/harness.h"
#include "tests/unit/gpus/fake_driver.h"
#include "userspace/watch/late/runtime_start.h"

namespace rocattach::testing_support {
namespace {

using Json = nlohmann::json;

class WhyTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  std::string Socket() const { return directory_.path() + "/control.sock"; }
  std::vector<std::string> Watch(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"--auto", "--socket", Socket()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Finished Why(pid_t pid, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {ClientPath(), "why", absl::StrCat(pid),
                                      "--socket", Socket()};
    words.insert(words.end(), more.begin(), more.end());
    return Child(words).Wait();
  }
  // The processes that have had this ID; empty if the answer is not JSON.
  Json Lives(pid_t pid) const {
    const Json answer =
        Json::parse(Why(pid, {"--json"}).output, nullptr, /*allow_exceptions=*/false);
    return answer.is_object() ? answer["lives"] : Json();
  }

  ExecutableDirectory directory_;
};

// Starts the command; with `pid`, as that process. Returns -1 if the ID is in use.
pid_t Start(const std::vector<std::string>& command, pid_t pid = 0) {
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  clone_args arguments = {};
  arguments.exit_signal = SIGCHLD;
  if (pid != 0) {
    arguments.set_tid = reinterpret_cast<uint64_t>(&pid);
    arguments.set_tid_size = 1;
  }
  const long child = syscall(SYS_clone3, &arguments, sizeof(arguments));
  if (child != 0) return static_cast<pid_t>(child);
  execv(words[0], words.data());
  _exit(127);
}

int WaitFor(pid_t pid) {
  bool reported = false;
  AwaitEnd(pid, &reported);
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

TEST_F(WhyTest, AnAttachedProcessAndOneThatIsGone) {
  const Finished native = RunTarget({"hsa_dispatch", "-n", "5"});
  EXPECT_TRUE(native.exited_with(0));
  WatcherProcess watcher(Watch({"--node-name", "node-7"}));
  ASSERT_TRUE(watcher.ready());
  Child child(
      OnSimgpu({"hsa_dispatch", "-n", "5", "--rounds", "100", "--sleep-msec", "200"}));
  EXPECT_TRUE(Eventually([&] { return Why(child.pid()).exited_with(0); }));
  Finished why = Why(child.pid());
  EXPECT_NE(why.output.find("running\n"), std::string::npos) << why.output;
  EXPECT_NE(why.output.find("libhsa-runtime64.so"), std::string::npos) << why.output;
  EXPECT_NE(why.output.find("verdict:    attached at 20"), std::string::npos)
      << why.output;
  EXPECT_TRUE(Eventually([&] {
    why = Why(child.pid());
    return why.output.find("node node-7") != std::string::npos;
  })) << why.output;
  child.Signal(SIGTERM);
  (void)child.Wait();
  EXPECT_TRUE(Eventually([&] {
    why = Why(child.pid());
    return why.output.find("killed by SIGTERM") != std::string::npos;
  })) << why.output;
  EXPECT_TRUE(why.exited_with(0));

  const Json lives = Lives(child.pid());
  ASSERT_EQ(lives.size(), 1u) << lives;
  EXPECT_EQ(lives[0]["attached"], true);
  EXPECT_EQ(lives[0]["running"], false);
  EXPECT_EQ(lives[0]["verdicts"][0]["state"], "attached");
  EXPECT_EQ(lives[0]["process"]["comm"], "hsa_dispatch");
  EXPECT_TRUE(watcher.Stop().exited_with(0));

  // The recording gives the same answers, without the service.
  const Finished recorded =
      Child({ClientPath(), "why", absl::StrCat(child.pid()), "-i", watcher.recording()})
          .Wait();
  EXPECT_TRUE(recorded.exited_with(0)) << recorded.errors;
  EXPECT_NE(recorded.output.find("killed by SIGTERM"), std::string::npos)
      << recorded.output;
  EXPECT_NE(recorded.output.find("verdict:    attached at 20"), std::string::npos);
  EXPECT_NE(recorded.output.find("node node-7"), std::string::npos) << recorded.output;
  const Finished other =
      Child({ClientPath(), "why", "1", "-i", watcher.recording()}).Wait();
  EXPECT_TRUE(other.exited_with(2)) << other.output << other.errors;
}

TEST_F(WhyTest, ARefusedProcessHasAReasonAndARemedy) {
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  const pid_t pid = Start(OnSimgpu({"hsa_dispatch", "-n", "5"}));
  // A debugger is attached before the window opens.
  ASSERT_EQ(ptrace(PTRACE_SEIZE, pid, nullptr, nullptr), 0);
  EXPECT_EQ(WaitFor(pid), 0);
  Finished why;
  EXPECT_TRUE(Eventually([&] {
    why = Why(pid);
    return why.exited_with(1);
  })) << why.output
      << why.errors;
  EXPECT_NE(why.output.find("verdict:    refused (already-traced)"), std::string::npos)
      << why.output;
  const Json lives = Lives(pid);
  ASSERT_EQ(lives.size(), 1u) << lives;
  EXPECT_EQ(lives[0]["attached"], false);
  EXPECT_EQ(lives[0]["reasons"][0], "already-traced");
  EXPECT_NE(lives[0]["verdicts"][0]["detail"], "");
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(WhyTest, AProcessThatPassedNamesTheRule) {
  WatcherProcess watcher(Watch({"--deny", "hsa_dispatch"}));
  ASSERT_TRUE(watcher.ready());
  const pid_t pid = Start(OnSimgpu({"hsa_dispatch", "-n", "5"}));
  EXPECT_EQ(WaitFor(pid), 0);
  Finished why;
  EXPECT_TRUE(Eventually([&] {
    why = Why(pid);
    return why.exited_with(1);
  })) << why.output
      << why.errors;
  EXPECT_NE(why.output.find("verdict:    passed"), std::string::npos) << why.output;
  EXPECT_NE(why.output.find("--deny"), std::string::npos) << why.output;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(WhyTest, AMissedProcessSaysSo) {
  WatcherProcess watcher(Watch({"--hold", "none"}));
  ASSERT_TRUE(watcher.ready());
  const pid_t pid = Start(OnSimgpu({"hsa_dispatch", "-n", "5"}));
  EXPECT_EQ(WaitFor(pid), 0);
  Finished why;
  EXPECT_TRUE(Eventually([&] {
    why = Why(pid);
    return why.exited_with(1) && why.output.find("missed") != std::string::npos;
  })) << why.output
      << why.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

// The service knows of a late attach that was not begun; no inspection is needed.
TEST_F(WhyTest, AFailedLateAttachIsRemembered) {
  Child target(
      OnSimgpu({"hsa_dispatch", "-n", "5", "--rounds", "1000", "--sleep-msec", "100"}));
  EXPECT_TRUE(Eventually([&] { return CheckRuntimeStarted(target.pid()).ok(); }));
  target.Signal(SIGSTOP);
  Json answer;
  {
    WatcherProcess watcher(Watch({"-p", absl::StrCat(target.pid())}));
    EXPECT_TRUE(watcher.ready());
    EXPECT_TRUE(Eventually([&] {
      answer = Json::parse(Why(target.pid(), {"--json"}).output, nullptr,
                           /*allow_exceptions=*/false);
      return answer.is_object() && answer["source"] == "service";
    })) << answer;
    target.Signal(SIGKILL);
    (void)target.Wait();
    (void)watcher.Stop();
  }
  ASSERT_EQ(answer["lives"].size(), 1u) << answer;
  EXPECT_NE(answer["lives"][0].value("not_attached", ""), "") << answer;
  EXPECT_EQ(answer["lives"][0]["attached"], false);
}

// A process whose runtime has another name, or is linked statically: only the kernel
// driver knows that it uses GPUs.
TEST_F(WhyTest, AProcessThatOnlyTheDriverKnowsHasMissedItsWindow) {
  const FakeDriver driver;
  WatcherProcess watcher(Watch({"--kfd-topology", driver.roots().kfd + "/topology"}));
  ASSERT_TRUE(watcher.ready());
  Child unknown({"sleep", "1000"});
  Child target(
      OnSimgpu({"hsa_dispatch", "-n", "5", "--rounds", "1000", "--sleep-msec", "100"}));
  for (const Child* child : {&unknown, &target}) {
    driver.Write(absl::StrCat("kfd/proc/", child->pid(), "/pasid"), "1\n");
  }
  Json lives;
  EXPECT_TRUE(Eventually([&] {
    lives = Lives(unknown.pid());
    return lives.size() == 1 && lives[0].value("missed_window", "") == "unknown_copy" &&
           !lives[0].value("not_attached", "").empty();
  })) << lives;
  const Finished why = Why(unknown.pid());
  EXPECT_TRUE(why.exited_with(1)) << why.output;
  EXPECT_NE(why.output.find("/dev/kfd"), std::string::npos) << why.output;
  EXPECT_TRUE(Eventually([&] { return watcher.PollEvents("window") > 0; }));
  lives = Lives(target.pid());
  ASSERT_EQ(lives.size(), 1u) << lives;
  EXPECT_EQ(lives[0].value("missed_window", ""), "") << lives;
  unknown.Signal(SIGKILL);
  target.Signal(SIGKILL);
  (void)unknown.Wait();
  (void)target.Wait();
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const auto summary = watcher.Events("summary");
  ASSERT_EQ(summary.size(), 1u);
  EXPECT_EQ(summary[0]["missed_windows"].value("unknown_copy", 0), 1) << summary[0];
}

TEST_F(WhyTest, ProcessesWithTheSameIdAreListedByStartTime) {
  const std::vector<std::string> command = OnSimgpu({"hsa_dispatch", "-n", "5"});
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  const pid_t pid = Start(command);
  ASSERT_GT(pid, 0);
  EXPECT_EQ(WaitFor(pid), 0);
  usleep(50'000);  // start times have a resolution of 10 ms
  const pid_t again = Start(command, pid);
  if (again != pid) GTEST_SKIP() << "another process has got the number: " << errno;
  EXPECT_EQ(WaitFor(again), 0);
  Json lives;
  EXPECT_TRUE(Eventually([&] {
    lives = Lives(pid);
    return lives.size() == 2 && lives[0].contains("end") && lives[1].contains("end");
  })) << lives;
  EXPECT_LT(lives[0]["process"]["start_ticks"], lives[1]["process"]["start_ticks"]);
  EXPECT_EQ(lives[0]["attached"], true);
  EXPECT_EQ(lives[1]["attached"], true);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(WhyTest, UnseenProcessesAreUnknownOrInspected) {
  WatcherProcess watcher(Watch());
  ASSERT_TRUE(watcher.ready());
  // Above every process ID that the kernel assigns.
  const Finished unknown = Why((1 << 22) - 1);
  EXPECT_TRUE(unknown.exited_with(2)) << unknown.output;
  EXPECT_NE(unknown.errors.find("the service has not seen it"), std::string::npos)
      << unknown.errors;
  // Running, and not a GPU process.
  const Finished self = Why(getpid());
  EXPECT_TRUE(self.exited_with(1)) << self.output << self.errors;
  EXPECT_NE(self.output.find("HSA runtime"), std::string::npos) << self.output;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  // No service answers at the socket that the option names.
  EXPECT_TRUE(Why(getpid()).exited_with(3));
}

}  // namespace
}  // namespace rocattach::testing_support
