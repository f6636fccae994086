// A machine that stands still for a while, as a virtual machine does when it is paused
// or starved by its host: clocks advance, but nothing runs.
#include <bpf/bpf.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "bpf/standstill.skel.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

constexpr uint64_t kStillNs = 300'000'000;

// Pins a thread to a processor; 0 or an errno.
int Pin(pid_t tid, size_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(tid, sizeof(set), &set) == 0 ? 0 : errno;
}

// Imitates such a standstill, at a step of an attach.
class Standstill {
 public:
  Standstill() : program_(standstill_bpf__open_and_load()) {
    if (program_ == nullptr) {
      error_ = errno;
      return;
    }
    const auto cpus = static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF));
    for (size_t cpu = 0; cpu < cpus && error_ == 0; ++cpu) {
      std::thread([this, cpu] { error_ = Arm(cpu); }).join();
    }
    if (error_ == 0) error_ = -standstill_bpf__attach(program_);
  }
  // The timers end with their map.
  ~Standstill() { standstill_bpf__destroy(program_); }
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;

  // The errno that explains why this does not work here; 0 if it does.
  int error() const { return error_; }

  // The standstill begins when that process next makes this ptrace request.
  void ComesWith(uint64_t request, pid_t caller) {
    program_->bss->request = request;
    program_->bss->still_ns = kStillNs;
    __atomic_store_n(&program_->bss->watched, caller, __ATOMIC_RELEASE);
  }
  int count() const {
    return __atomic_load_n(&program_->bss->standstills, __ATOMIC_ACQUIRE);
  }

 private:
  int Arm(size_t cpu) {
    const int error = Pin(0, cpu);
    if (error != 0) return error == EINVAL ? 0 : error;  // 0: an offline processor
    const char packet[64] = {};
    LIBBPF_OPTS(bpf_test_run_opts, options);
    options.data_in = packet;
    options.data_size_in = sizeof(packet);
    const int ran =
        bpf_prog_test_run_opts(bpf_program__fd(program_->progs.arm), &options);
    return ran != 0 ? -ran : static_cast<int>(options.retval);
  }

  standstill_bpf* program_;
  int error_ = 0;
};

class StallTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

// Runs the service on one processor and the target on another: a held thread without a
// processor cannot notice time passing.
void PinAll(pid_t service) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  std::vector<size_t> cpus;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
  }
  const std::string tasks = "/proc/" + std::to_string(service) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    EXPECT_EQ(Pin(std::stoi(task.path().filename().string()), cpus.front()), 0);
  }
  EXPECT_EQ(Pin(0, cpus.back()), 0);
}

// Time in which nothing ran is not deducted from the hold of a thread that is on its
// processor: the service could not run then either.
TEST_F(StallTest, HoldsOutlastAMachineThatStandsStill) {
  // Before the target is seized, interrupted, has its registers read, is detached.
  constexpr uint64_t kSteps[] = {PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_GETREGSET,
                                 PTRACE_DETACH};
  Standstill standstill;
  if (standstill.error() == EINVAL && getenv("CI") == nullptr) {
    GTEST_SKIP() << "needs BPF timers that stay on their processor (Linux 6.7)";
  }
  ASSERT_EQ(standstill.error(), 0) << strerror(standstill.error());
  WatcherProcess watcher({"--auto", "--hold-timeout-msec", "200"});
  ASSERT_TRUE(watcher.ready());
  PinAll(watcher.pid());
  // A thread that waits for its processor at that instant cannot distinguish a
  // standstill from load, and time under load counts. So the target has a priority with
  // which it hardly ever waits, and there is more than one try.
  constexpr int kTries = 3;
  std::vector<std::string> command = {"nice", "-n", "-20"};
  for (std::string& word : OnSimgpu({"hsa_dispatch", "-n", "10"})) {
    command.push_back(std::move(word));
  }
  int count = 0;
  std::vector<std::vector<pid_t>> pids;
  for (uint64_t step : kSteps) {
    pids.emplace_back();
    for (int i = 0; i < kTries; ++i) {
      standstill.ComesWith(step, watcher.pid());
      Child target(command);
      pids.back().push_back(target.pid());
      const Finished result = target.Wait();
      EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
      EXPECT_EQ(result.errors, "");
      EXPECT_EQ(standstill.count(), ++count) << "not at " << step;
    }
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  for (size_t step = 0; step < pids.size(); ++step) {
    int attached = 0;
    for (pid_t pid : pids[step]) {
      const RecordedProcess process = recording.Process(pid);
      if (process.verdict.state() == v1::WINDOW_STATE_ATTACHED) {
        ++attached;
        EXPECT_EQ(process.dispatches.size(), 10u);
        EXPECT_EQ(process.dropped(), 0u);
      } else {
        // The miss is counted and explained.
        EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_MISSED);
        EXPECT_EQ(process.verdict.hold_end(), v1::HOLD_END_DEADLINE);
      }
    }
    EXPECT_GT(attached, 0) << "step " << step;
  }
  EXPECT_GE(recording.summary->hit_to_stopped().max_ns(), kStillNs);
}

}  // namespace
}  // namespace rocattach::testing_support
