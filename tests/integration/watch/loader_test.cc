// Effects that an attach must not have, with the real service and runtime.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

class LoaderTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

int64_t ResidentKb(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return atoll(line.c_str() + 6);
  }
  return -1;
}

// Natively the program succeeds; with a dlopen in that thread it would wait forever. So
// it is attached to after the constructor has finished.
TEST_F(LoaderTest, AConstructorThatWaitsForHsaInitIsAttachedToAfterIt) {
  const std::vector<std::string> command = {"hsa_constructor", "-n", "200000"};
  Finished native = RunTarget(command);
  ASSERT_TRUE(native.exited_with(0)) << native.output << native.errors;
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimgpu(command));
  const pid_t pid = target.pid();
  Finished result = target.Wait();
  EXPECT_EQ(result.status, native.status);
  EXPECT_EQ(result.output, native.output);
  EXPECT_EQ(result.errors, native.errors);
  watcher.Stop();
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  const auto refused = std::find_if(
      process.windows.begin(), process.windows.end(),
      [](const v1::WindowEvent& w) { return w.state() == v1::WINDOW_STATE_REFUSED; });
  ASSERT_NE(refused, process.windows.end());
  const v1::WindowEvent& window = *refused;
  EXPECT_EQ(window.reason(), v1::ATTACH_REASON_LOADER_BUSY) << window.detail();
  EXPECT_FALSE(window.target_modified());
  EXPECT_NE(window.detail().find("dynamic loader's lock"), std::string::npos)
      << window.detail();
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LATE);
  EXPECT_GT(process.dispatches.size(), 0u);
  EXPECT_EQ(process.dropped(), 0u);
}

// Starts the runtime many times: the service's memory must not grow.
TEST_F(LoaderTest, ManyStartsOfTheRuntimeNeedNoMoreMemory) {
  const char* wanted = getenv("ROCATTACH_REINIT_ROUNDS");
  const int64_t rounds = wanted != nullptr ? atoll(wanted) : 300;
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimgpu({"hsa_reinit", "-r", std::to_string(rounds), "-n", "3"}));
  const pid_t pid = target.pid();
  // The first samples are taken while the service warms up.
  int64_t service_kb = 0, samples = 0, most_kb = 0;
  siginfo_t ended = {};
  while (waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) ==
             0 &&
         ended.si_pid == 0) {
    usleep(20'000);
    const int64_t now_kb = ResidentKb(watcher.pid());
    if (++samples == 20) service_kb = now_kb;
    most_kb = std::max(most_kb, now_kb);
  }
  Finished result = target.Wait();
  ASSERT_TRUE(result.exited_with(0)) << result.output << result.errors;
  watcher.Stop();
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(static_cast<int64_t>(process.dispatches.size()), rounds * 3);
  EXPECT_EQ(process.dropped(), 0u);
  for (const v1::WindowEvent& event : process.windows) {
    EXPECT_NE(event.state(), v1::WINDOW_STATE_REFUSED) << event.detail();
    EXPECT_NE(event.state(), v1::WINDOW_STATE_MISSED) << event.detail();
  }
  if (service_kb != 0) {
    EXPECT_LT(most_kb, service_kb + 8 * 1024) << "of the service, in KB";
  }
}

}  // namespace
}  // namespace rocattach::testing_support
