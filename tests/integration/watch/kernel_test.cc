// Kernels that lack a feature.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "injector/process/thread_status.h"
#include "tests/integration/watch/harness.h"
#include "userspace/base/process.h"
#include "userspace/service/watcher.h"
#include "userspace/watch/late/runtime_start.h"
#include "userspace/watch/windows/kernel_probe.h"

namespace rocattach::testing_support {
namespace {

TEST(KernelTest, ErrorNamesTheMissingBtfFileAndKernelOption) {
  SKIP_WITHOUT_PRIVILEGES();
  ExecutableDirectory directory;
  // A mount namespace in which /sys/kernel/btf is empty.
  Child watcher({"unshare", "--mount", "sh", "-c",
                 "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"", "sh",
                 WatcherPath(), "--auto", "--hold-timeout-msec", "10000", "--collector",
                 CollectorPath(), "-d", directory.path(), "--duration-msec", "2000"});
  const Finished finished = watcher.Wait();
  if (finished.exited_with(0)) {
    GTEST_SKIP() << "this machine's kernel image is installed, with its BTF";
  }
  EXPECT_TRUE(finished.exited_with(3)) << finished.status << finished.errors;
  EXPECT_NE(finished.errors.find("/sys/kernel/btf/vmlinux"), std::string::npos)
      << finished.errors;
  EXPECT_NE(finished.errors.find("CONFIG_DEBUG_INFO_BTF"), std::string::npos);
  // One message, and none of libbpf's own.
  EXPECT_EQ(finished.errors.find("libbpf"), std::string::npos) << finished.errors;
  EXPECT_EQ(finished.errors.find("No such process"), std::string::npos);
}

// Features that this kernel lacks in any case are missing as well.
absl::StatusOr<std::unique_ptr<KernelProbe>> LoadWithout(
    std::initializer_list<KernelFeature> lacking) {
  KernelProbeOptions options;
  for (KernelFeature feature : lacking) options.lacking.Add(feature);
  return KernelProbe::Load(options);
}

bool Misses(const KernelProbe& probe, KernelFeature feature) {
  const auto& missing = probe.missing_features();
  return std::any_of(missing.begin(), missing.end(), [feature](const auto& one) {
    return one.feature == feature && !one.reason.empty();
  });
}

TEST(KernelTest, AMissingFeatureDisablesNoOther) {
  SKIP_WITHOUT_PRIVILEGES();
  auto whole = LoadWithout({});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ((*whole)->hold_mode(), HoldMode::kYielding) << (*whole)->hold_mode_reason();
  for (KernelFeature lacking :
       {KernelFeature::kLayouts, KernelFeature::kCookies, KernelFeature::kServiceEnd,
        KernelFeature::kCallStops}) {
    auto probe = LoadWithout({lacking});
    ASSERT_TRUE(probe.ok()) << probe.status();
    EXPECT_EQ((*probe)->hold_mode(), HoldMode::kYielding)
        << (*probe)->hold_mode_reason();
    EXPECT_TRUE(Misses(**probe, lacking)) << DescribeFeature(lacking).name;
    for (KernelFeature feature : kKernelFeatures) {
      EXPECT_EQ((*probe)->features().Has(feature),
                feature != lacking && (*whole)->features().Has(feature))
          << DescribeFeature(feature).name << " without "
          << DescribeFeature(lacking).name;
    }
  }
}

TEST(KernelTest, WithoutYieldingHoldModeSignalIsUsed) {
  SKIP_WITHOUT_PRIVILEGES();
  auto probe = LoadWithout({KernelFeature::kYieldingHold, KernelFeature::kCookies});
  ASSERT_TRUE(probe.ok()) << probe.status();
  EXPECT_EQ((*probe)->hold_mode(), HoldMode::kSignal);
  EXPECT_NE((*probe)->hold_mode_reason(), "");
  EXPECT_TRUE(Misses(**probe, KernelFeature::kYieldingHold));
  EXPECT_TRUE(Misses(**probe, KernelFeature::kCookies));
  EXPECT_TRUE((*probe)->features().Has(KernelFeature::kServiceEnd));

  EXPECT_TRUE((*probe)->features().Has(KernelFeature::kCallStops));
  EXPECT_NE((*probe)->AwaitCall(IdentityOf(getpid())), nullptr);

  auto none = LoadWithout({KernelFeature::kYieldingHold, KernelFeature::kSignalHold});
  EXPECT_FALSE(none.ok());
}

TEST(KernelTest, WithoutAtomicsTheSecondProgramsAreUsed) {
  SKIP_WITHOUT_PRIVILEGES();
  auto probe = LoadWithout({KernelFeature::kAtomics, KernelFeature::kCookies});
  ASSERT_TRUE(probe.ok()) << probe.status();
  EXPECT_EQ((*probe)->hold_mode(), HoldMode::kSignal);
  EXPECT_TRUE(Misses(**probe, KernelFeature::kAtomics));
  EXPECT_TRUE(Misses(**probe, KernelFeature::kYieldingHold));
  EXPECT_TRUE((*probe)->features().Has(KernelFeature::kServiceEnd));
  EXPECT_TRUE((*probe)->features().Has(KernelFeature::kCallStops));
  EXPECT_NE((*probe)->AwaitCall(IdentityOf(getpid())), nullptr);
}

// Months of processes that end while they are being entered must not use up the places.
TEST(KernelTest, AProcessThatEndsLeavesNoExpectedReportBehind) {
  SKIP_WITHOUT_PRIVILEGES();
  constexpr pid_t kNobody = 5'000'000;  // above the kernel's limit
  auto probe = LoadWithout({});
  ASSERT_TRUE(probe.ok()) << probe.status();
  pid_t places = 0;
  while ((*probe)->ExpectReport({kNobody + places, 0}, 7).ok()) ++places;
  EXPECT_GE(places, 4000);
  (*probe)->ForgetReport({kNobody, 0});
  for (const uint64_t window : {7u, 0u, 7u}) {
    const pid_t pid = fork();
    if (pid == 0) {
      for (;;) pause();
    }
    ASSERT_GT(pid, 0);
    EXPECT_TRUE((*probe)->ExpectReport(IdentityOf(pid), window).ok()) << window;
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  }
}

// Collects the verdicts.
class Verdicts : public WatcherObserver {
 public:
  void OnVerdict(const v1::Process&, const v1::WindowEvent& verdict) override {
    absl::MutexLock lock(&mutex_);
    verdicts_.push_back(verdict);
  }
  std::vector<v1::WindowEvent> all() const {
    absl::MutexLock lock(&mutex_);
    return verdicts_;
  }

  void OnNotAttached(pid_t, const absl::Status& why) override { ADD_FAILURE() << why; }

 private:
  mutable absl::Mutex mutex_;
  std::vector<v1::WindowEvent> verdicts_ ABSL_GUARDED_BY(mutex_);
};

// The verdict of a late attach, with these options, to a busy process; expects that the
// process is not affected. `meanwhile` is called while the service runs.
v1::WindowEvent EnterBusyProcess(
    WatcherOptions options, const std::function<void()>& meanwhile = [] {}) {
  ExecutableDirectory directory;
  const std::string go = directory.path() + "/go";
  Child target(OnSimgpu({"hsa_busy", "-t", "2", "--until", go}),
               {.dies_with_us = true});
  // Waits until it has loaded and started the runtime.
  EXPECT_TRUE(Eventually([&] {
    return ReadRuntimeStart(target.pid()).value_or(RuntimeStart::kNotLoaded) ==
           RuntimeStart::kStarted;
  }));
  Verdicts verdicts;
  options.attach = true;
  options.watch_new = false;
  options.running = {IdentityOf(target.pid())};
  options.collector_path = CollectorPath();
  options.output_directory = directory.path();
  options.duration_msec = 1;
  options.duration_from_attach = true;
  auto watcher = Watcher::Start(options, &verdicts);
  EXPECT_TRUE(watcher.ok()) << watcher.status();
  if (watcher.ok()) {
    meanwhile();
    EXPECT_TRUE((*watcher)->Run({}, nullptr).ok());
  }
  std::ofstream(go).put('\n');
  const Finished end = target.Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  const std::vector<v1::WindowEvent> all = verdicts.all();
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? v1::WindowEvent() : all[0];
}

// A late attach without the signal that stops a thread at its next call.
class WithoutCallStops : public testing::TestWithParam<HoldMode> {};

TEST_P(WithoutCallStops, ARunningProcessIsEnteredOtherwise) {
  SKIP_WITHOUT_PRIVILEGES();
  WatcherOptions options;
  options.best_hold_mode = GetParam();
  options.lacking.Add(KernelFeature::kCallStops);
  const v1::WindowEvent verdict = EnterBusyProcess(options);
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_ATTACHED) << verdict.detail();
  // In hold mode `signal`, only a blocked thread can be entered.
  EXPECT_EQ(verdict.mode(), GetParam() == HoldMode::kYielding
                                ? v1::WINDOW_MODE_HELD
                                : v1::WINDOW_MODE_BLOCKED);
}

// Only the named process is seized.
TEST(KernelTest, AnAttachInHoldModeSignalSeizesNoOtherProcess) {
  SKIP_WITHOUT_PRIVILEGES();
  WatcherOptions options;
  options.best_hold_mode = HoldMode::kSignal;
  bool traced = false;
  const auto look = [&traced](pid_t pid) {
    const auto status = ReadThreadStatus(pid, pid);
    traced = traced || (status.ok() && status->tracer != 0);
  };
  const v1::WindowEvent verdict = EnterBusyProcess(options, [&] {
    for (int i = 0; i < 5; ++i) {
      Child bystander(OnSimgpu({"hsa_busy", "--rate", "100", "-n", "50"}),
                      {.dies_with_us = true});
      EXPECT_TRUE(Eventually([&] {
        look(bystander.pid());
        return ReadRuntimeStart(bystander.pid()).value_or(RuntimeStart::kNotLoaded) ==
               RuntimeStart::kStarted;
      }));
      look(bystander.pid());
      EXPECT_TRUE(bystander.Wait().exited_with(0));
    }
  });
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_ATTACHED) << verdict.detail();
  EXPECT_FALSE(traced);
}

// The programs for kernels without cookies, and without atomic operations that return a
// value. It is left to chance which thread is entered: one that is blocked, or one at
// its next call.
TEST(KernelTest, TheSecondProgramsEnterARunningProcess) {
  SKIP_WITHOUT_PRIVILEGES();
  WatcherOptions options;
  options.lacking.Add(KernelFeature::kAtomics);
  options.lacking.Add(KernelFeature::kCookies);
  const v1::WindowEvent verdict = EnterBusyProcess(options);
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_ATTACHED) << verdict.detail();
}

INSTANTIATE_TEST_SUITE_P(HoldModes, WithoutCallStops,
                         testing::Values(HoldMode::kYielding, HoldMode::kSignal),
                         [](const auto& test) {
                           return std::string(HoldModeName(test.param));
                         });

}  // namespace
}  // namespace rocattach::testing_support
