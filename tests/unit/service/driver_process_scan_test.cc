#include "userspace/service/driver_process_scan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/await.h"
#include "tests/unit/gpus/fake_driver.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

using testing_support::FakeDriver;

// Records the scan's calls. The test writes the process list of a fake driver.
class DriverProcessScanTest : public testing::Test {
 protected:
  void SetUp() override {
    Open(7, 100);
    options_.roots = driver_.roots();
    options_.period = absl::Milliseconds(1);
    options_.wanted = [this](pid_t pid) {
      absl::MutexLock lock(&mutex_);
      return unwanted_.count(pid) == 0;
    };
    options_.on_driver_use = [this](const ProcessId& process) {
      absl::MutexLock lock(&mutex_);
      listed_.push_back(process);
      return windows_.count(process.pid) == 0;
    };
    options_.enter_late = [this](const ProcessId& process) {
      absl::MutexLock lock(&mutex_);
      entered_.push_back(process);
    };
    options_.boot_ns = [] { return 150 * ClockTickNs(); };
    options_.read_start_ticks = [this](pid_t pid) -> absl::StatusOr<uint64_t> {
      absl::MutexLock lock(&mutex_);
      ++readings_[pid];
      const auto found = ticks_.find(pid);
      if (found == ticks_.end()) return absl::NotFoundError("gone");
      return found->second;
    };
  }
  void Open(pid_t pid, uint64_t ticks) {
    {
      absl::MutexLock lock(&mutex_);
      ticks_[pid] = ticks;
    }
    driver_.Write(absl::StrCat("kfd/proc/", pid, "/pasid"), "1\n");
  }
  // Waits until the scan has read process `pid` another `readings` times.
  void Wait(pid_t pid, int readings) {
    const auto count = [&] {
      absl::MutexLock lock(&mutex_);
      return readings_[pid];
    };
    const int until = count() + readings;
    testing_support::Await([&] { return count() >= until; },
                           "the scan to read a process");
  }
  std::vector<ProcessId> entered() {
    absl::MutexLock lock(&mutex_);
    return entered_;
  }

  const FakeDriver driver_;
  absl::Mutex mutex_;
  std::map<pid_t, uint64_t> ticks_ ABSL_GUARDED_BY(mutex_);
  std::map<pid_t, int> readings_ ABSL_GUARDED_BY(mutex_);
  std::set<pid_t> windows_ ABSL_GUARDED_BY(mutex_), unwanted_ ABSL_GUARDED_BY(mutex_);
  std::vector<ProcessId> listed_ ABSL_GUARDED_BY(mutex_), entered_
      ABSL_GUARDED_BY(mutex_);
  DriverProcessScan::Options options_;
};

TEST_F(DriverProcessScanTest, AProcessWithoutAWindowIsEnteredOnce) {
  DriverProcessScan scan(options_);
  Wait(7, 2);
  Open(8, 200);
  Wait(8, 10);
  EXPECT_EQ(entered(), (std::vector<ProcessId>{{8, 200}})) << "7 was there before";
  // Another process with the same number.
  Open(8, 300);
  Wait(8, 10);
  EXPECT_EQ(entered(), (std::vector<ProcessId>{{8, 200}, {8, 300}}));
}

TEST_F(DriverProcessScanTest, AProcessThatIsYoungerThanTheServiceIsSeenAtOnce) {
  Open(8, 200);
  DriverProcessScan scan(options_);
  Wait(8, 10);
  EXPECT_EQ(entered(), (std::vector<ProcessId>{{8, 200}}));
}

TEST_F(DriverProcessScanTest, AProcessWithAWindowIsLeftAlone) {
  {
    absl::MutexLock lock(&mutex_);
    windows_.insert(8);
    unwanted_.insert(9);
  }
  DriverProcessScan scan(options_);
  Wait(7, 2);
  Open(8, 200);
  Open(9, 200);
  Wait(9, 10);
  EXPECT_TRUE(entered().empty());
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(listed_, (std::vector<ProcessId>{{8, 200}}));
}

TEST_F(DriverProcessScanTest, AProcessThatIsGoneIsNotEntered) {
  DriverProcessScan scan(options_);
  Wait(7, 2);
  driver_.Write("kfd/proc/8/pasid", "1\n");  // not in our PID namespace
  driver_.Write("kfd/proc/x/pasid", "1\n");
  Wait(8, 10);
  EXPECT_TRUE(entered().empty());
}

TEST_F(DriverProcessScanTest, WithoutADriverThereIsNothingToDo) {
  driver_.Remove("kfd");
  DriverProcessScan scan(options_);
  scan.Stop();
  EXPECT_TRUE(entered().empty());
}

}  // namespace
}  // namespace rocattach
