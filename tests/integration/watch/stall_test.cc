// A machine that stands still for a while, as a virtual machine does when it is paused
// or starved by its host: clocks go on, and nobody runs.
#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "userspace/base/clock.h"

namespace rocattach::testing_support {
namespace {

// Imitates it: on every processor a thread with a higher real-time priority than the
// service's spins for kStillNs out of each period, at the same time on all of them.
class Stalls {
 public:
  static constexpr uint64_t kStillNs = 400'000'000;
  static constexpr uint64_t kMovingNs = 10'000'000;

  Stalls() {
    const auto cpus = static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF));
    for (size_t cpu = 0; cpu < cpus; ++cpu) {
      threads_.emplace_back([this, cpu] { Run(cpu); });
    }
  }
  ~Stalls() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Stalls(const Stalls&) = delete;
  Stalls& operator=(const Stalls&) = delete;

  // Why it does not work here; 0 if it does.
  int error() const { return error_; }

 private:
  void Run(size_t cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_param param = {};
    param.sched_priority = 50;
    int error = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    if (error == EINVAL) return;  // an offline processor
    if (error == 0) error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
    if (error != 0) error_ = error;
    while (!over_ && error == 0) {
      const uint64_t at_ns = BootNs() % (kStillNs + kMovingNs);
      if (at_ns < kStillNs) continue;
      const timespec rest = {0, static_cast<long>(kStillNs + kMovingNs - at_ns)};
      nanosleep(&rest, nullptr);
    }
  }

  std::atomic<bool> over_ = false;
  std::atomic<int> error_ = 0;
  std::vector<std::thread> threads_;
};

class StallTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

// Runs some targets meanwhile, and expects each of them to be attached. The longest
// time that one was waited for.
uint64_t AttachDuringStalls(const std::string& hold_msec) {
  constexpr int kLaunches = 8;
  WatcherProcess watcher({"--auto", "--hold-timeout-msec", hold_msec});
  EXPECT_TRUE(watcher.ready());
  {
    Stalls stalls;
    for (int i = 0; i < kLaunches; ++i) {
      const Finished result = RunTarget({"hsa_dispatch", "-n", "10"});
      EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
      EXPECT_EQ(result.errors, "");
    }
    EXPECT_EQ(stalls.error(), 0) << strerror(stalls.error());
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  for (const RecordedProcess& process : recording.processes) {
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    EXPECT_EQ(process.dispatches.size(), 10u);
    EXPECT_EQ(process.dropped(), 0u);
  }
  EXPECT_EQ(recording.summary->windows_attached(), uint64_t{kLaunches});
  return recording.summary->hit_to_stopped().max_ns();
}

// Time in which nobody ran is not taken off the hold: the service had none of it
// either.
TEST_F(StallTest, HoldsOutlastAMachineThatStandsStill) {
  // Until a standstill has fallen into a hold: otherwise this has shown nothing.
  uint64_t longest_ns = 0;
  for (int round = 0; round < 10 && longest_ns < 200'000'000 && !HasFailure();
       ++round) {
    longest_ns = AttachDuringStalls("200");
  }
  EXPECT_GT(longest_ns, 200'000'000u);
}

}  // namespace
}  // namespace rocattach::testing_support
