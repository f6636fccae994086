// Programs of many kinds, with and without a service, which is killed in some rounds:
// every output, exit status and signal is as natively.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

// Number of launches; ROCATTACH_MIXED_LAUNCHES sets it, to 250 or more for a release.
int Launches() {
  const char* count = getenv("ROCATTACH_MIXED_LAUNCHES");
  return count == nullptr ? 100 : atoi(count);
}

struct Kind {
  std::vector<std::string> command;
  Finished native = {};
};

std::vector<std::string> Target(std::vector<std::string> words) {
  return OnSimgpu(std::move(words));
}

// The target with a limit set by the shell's ulimit.
std::vector<std::string> Limited(const std::string& limit,
                                 std::vector<std::string> words) {
  std::vector<std::string> command = {"sh", "-c",
                                      "ulimit " + limit + "; exec \"$0\" \"$@\""};
  for (std::string& word : OnSimgpu(std::move(words))) {
    command.push_back(std::move(word));
  }
  return command;
}

// The target with another profiler in it, as ROCm builds of PyTorch have.
std::vector<std::string> WithOtherTool(std::vector<std::string> words) {
  std::vector<std::string> command = {SimrocmRunPath(), "--preload", OTHER_TOOL};
  words[0] = TargetPath(words[0]);
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

// The output without rates, which differ from run to run.
std::string Comparable(std::string output) {
  for (size_t at = output.find("rate="); at != std::string::npos;
       at = output.find("rate=", at)) {
    output.erase(at, output.find_first_of(" \n", at) - at);
  }
  return output;
}

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds = {
      {Target({"hsa_dispatch", "-n", "20"})},
      {Target({"hsa_dispatch", "-n", "100", "-t", "2", "-q", "2", "--kernel-signal",
               "none"})},
      {Target({"hsa_dispatch", "-n", "10", "--copies", "2", "--exit", "_exit"})},
      {Target({"hsa_dispatch", "-n", "30", "--exit", "sigkill"})},
      {Target({"hsa_exit_early"})},
      {Target({"hsa_init_threads"})},
      {Target({"hsa_reinit", "-r", "3", "-n", "10"})},
      {Target({"fork_then_init"})},
      {Target({"init_then_fork", "-n", "20"})},
      {Target({"exec_chain"})},
      {Target({"hsa_beside_vfork"})},
      {Target({"child_environment"})},
      {Target({"hsa_constructor", "-n", "20"})},
      {Target({"hsa_leader_exits"})},
      {Target({"hsa_vfork_child"})},
      {Limited("-f 100", {"hsa_dispatch", "-n", "20"})},
      {Limited("-n 16", {"hsa_dispatch", "-n", "20"})},
      {Limited("-c 0", {"hsa_dispatch", "-n", "20"})},
      {WithOtherTool({"hsa_dispatch", "-n", "20"})},
      {WithOtherTool({"hsa_reinit", "-r", "1", "-n", "20"})},
  };
  for (Kind& kind : kinds) kind.native = Child(kind.command).Wait();
  return kinds;
}

void ExpectAsNatively(const Kind& kind, const Finished& result) {
  SCOPED_TRACE(absl::StrJoin(kind.command, " "));
  EXPECT_EQ(result.status, kind.native.status);
  EXPECT_EQ(Comparable(result.output), Comparable(kind.native.output));
  EXPECT_EQ(result.errors, kind.native.errors);
}

TEST(MixedLaunchesTest, EachIsAsNatively) {
  SKIP_WITHOUT_PRIVILEGES();
  const std::vector<Kind> kinds = Kinds();
  for (const Kind& kind : kinds) {
    // Only if two native runs agree, runs with a service can be compared with them.
    ExpectAsNatively(kind, Child(kind.command).Wait());
    if (HasFailure()) return;
  }
  std::mt19937 random(42);
  const int launches = Launches();
  constexpr int kBatch = 10;
  int done = 0;
  for (int round = 0; done < launches && !HasFailure(); ++round) {
    WatcherProcess watcher({"--auto"});
    ASSERT_TRUE(watcher.ready());
    // Every other service is killed at a random instant of its work.
    const bool killed = round % 2 == 1;
    const int batches = killed ? 1 : 4;
    for (int batch = 0; batch < batches; ++batch) {
      std::vector<const Kind*> chosen;
      std::vector<std::unique_ptr<Child>> children;
      for (int i = 0; i < kBatch; ++i) {
        chosen.push_back(&kinds[random() % kinds.size()]);
        children.push_back(std::make_unique<Child>(chosen.back()->command));
      }
      if (killed) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 150'000));
        watcher.Kill();
      }
      for (size_t i = 0; i < children.size(); ++i) {
        ExpectAsNatively(*chosen[i], children[i]->Wait());
      }
      done += kBatch;
    }
    if (killed) continue;
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    // ReadRecording() checks each account.
    const Recording recording = ReadRecording(watcher.recording());
    for (const RecordedProcess& process : recording.processes) {
      EXPECT_NE(process.verdict.state(), v1::WINDOW_STATE_OPEN);
      EXPECT_EQ(process.dropped(), 0u);
    }
  }
}

}  // namespace
}  // namespace rocattach::testing_support
