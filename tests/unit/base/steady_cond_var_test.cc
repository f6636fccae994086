#include "userspace/base/steady_cond_var.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "userspace/base/clock.h"

namespace {

// Seconds added to the time of day when this program reads it. The kernel, which ends
// waits, does not see them. The effect is that of a clock that was set back by as much
// when a wait began.
std::atomic<int64_t> clock_offset_seconds = 0;

}  // namespace

// These replace the C library's functions for libraries, too.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += clock_offset_seconds;
  return static_cast<int>(result);
}
extern "C" int gettimeofday(timeval* time, void* zone) noexcept {
  const long result = syscall(SYS_gettimeofday, time, zone);
  if (result == 0) time->tv_sec += clock_offset_seconds;
  return static_cast<int>(result);
}

namespace rocattach {
namespace {

constexpr absl::Duration kTimeout = absl::Milliseconds(20);
constexpr absl::Duration kLongWait = absl::Minutes(1);

class SteadyCondVarTest : public testing::Test {
 protected:
  void TearDown() override { clock_offset_seconds = 0; }

  // Duration of a wait during which no thread signals.
  absl::Duration TimeOut() {
    absl::MutexLock lock(&mutex_);
    const uint64_t begin = BootNs();
    EXPECT_FALSE(changed_.WaitFor(&mutex_, kTimeout, [] { return false; }));
    return absl::Nanoseconds(BootNs() - begin);
  }
  void Set() {
    absl::MutexLock lock(&mutex_);
    set_ = true;
    changed_.SignalAll();
  }

  absl::Mutex mutex_;
  SteadyCondVar changed_;
  bool set_ = false;
};

TEST_F(SteadyCondVarTest, EndsWhenTheConditionIsMet) {
  std::thread other([this] { Set(); });
  {
    absl::MutexLock lock(&mutex_);
    changed_.Wait(&mutex_, [this] { return set_; });
    EXPECT_TRUE(changed_.WaitFor(&mutex_, kLongWait, [this] { return set_; }));
  }
  other.join();
}

TEST_F(SteadyCondVarTest, ASignalEndsATimedWait) {
  absl::MutexLock lock(&mutex_);
  // The other thread sets nothing before the wait releases the mutex.
  std::thread other([this] { Set(); });
  const uint64_t begin = BootNs();
  EXPECT_TRUE(changed_.WaitFor(&mutex_, kLongWait, [this] { return set_; }));
  EXPECT_LT(absl::Nanoseconds(BootNs() - begin), kLongWait);
  mutex_.Unlock();
  other.join();
  mutex_.Lock();
}

TEST_F(SteadyCondVarTest, TimesOut) {
  EXPECT_GE(TimeOut(), kTimeout);
}

TEST_F(SteadyCondVarTest, AStepOfTheSystemClockChangesNothing) {
  clock_offset_seconds = -10;
  EXPECT_GE(TimeOut(), kTimeout) << "set forward";
  clock_offset_seconds = 10;
  EXPECT_LT(TimeOut(), absl::Seconds(10)) << "set back";
}

}  // namespace
}  // namespace rocattach
