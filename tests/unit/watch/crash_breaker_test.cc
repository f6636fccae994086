#include "userspace/watch/crash_breaker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace rocattach {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kBreakerSecond = 1'000'000'000;
constexpr uint64_t kBreakerNow = 1000 * kBreakerSecond;

ProcessId Process(pid_t pid) {
  return {pid, 7};
}

// A wait status: 0x80 is the bit of a core dump.
int KilledBy(int signal) {
  return signal | 0x80;
}

TEST(CrashBreaker, AProcessThatCrashesRightAfterItsAttachStopsItsExecutable) {
  CrashBreaker breaker;
  EXPECT_FALSE(breaker.tripped());
  breaker.OnAttached(Process(10), "/bin/a", kBreakerNow);
  EXPECT_EQ(breaker.WhyNot("/bin/a", kBreakerNow), "");
  breaker.OnExit(Process(10), KilledBy(SIGSEGV), kBreakerNow + 2 * kBreakerSecond);
  EXPECT_TRUE(breaker.tripped());
  EXPECT_THAT(breaker.WhyNot("/bin/a", kBreakerNow + 3 * kBreakerSecond),
              AllOf(HasSubstr("process 10 of /bin/a was killed by SIGSEGV"),
                    HasSubstr("2.00 s after it was attached to"),
                    HasSubstr("--no-crash-breaker")));
  EXPECT_EQ(breaker.WhyNot("/bin/b", kBreakerNow + 3 * kBreakerSecond), "");
}

TEST(CrashBreaker, OtherEndsAreNotCrashes) {
  CrashBreaker breaker;
  for (int status : {0, 1 << 8, SIGKILL, SIGTERM, SIGINT}) {
    breaker.OnAttached(Process(10), "/bin/a", kBreakerNow);
    breaker.OnExit(Process(10), status, kBreakerNow + kBreakerSecond);
    EXPECT_FALSE(breaker.tripped()) << status;
  }
  // Too late; of another process with the same number; of a process never attached to.
  breaker.OnAttached(Process(10), "/bin/a", kBreakerNow);
  breaker.OnExit(Process(10), KilledBy(SIGSEGV), kBreakerNow + 6 * kBreakerSecond);
  breaker.OnAttached(Process(11), "/bin/a", kBreakerNow + 6 * kBreakerSecond);
  breaker.OnExit({11, 8}, KilledBy(SIGSEGV), kBreakerNow + 7 * kBreakerSecond);
  breaker.OnExit(Process(12), KilledBy(SIGSEGV), kBreakerNow + 7 * kBreakerSecond);
  EXPECT_FALSE(breaker.tripped());
}

TEST(CrashBreaker, ThePauseEnds) {
  CrashBreaker breaker;
  breaker.OnAttached(Process(10), "/bin/a", kBreakerNow);
  breaker.OnExit(Process(10), KilledBy(SIGABRT), kBreakerNow);
  const uint64_t end = kBreakerNow + CrashBreaker::kPauseNs;
  EXPECT_NE(breaker.WhyNot("/bin/a", end), "");
  EXPECT_EQ(breaker.WhyNot("/bin/a", end + 1), "");
  EXPECT_FALSE(breaker.tripped());
}

TEST(CrashBreaker, CrashesOfSeveralExecutablesStopAll) {
  CrashBreaker breaker;
  const char* const executables[] = {"/bin/a", "/bin/b", "/bin/c"};
  static_assert(std::size(executables) == CrashBreaker::kMostCrashes);
  for (size_t i = 0; i < std::size(executables); ++i) {
    EXPECT_EQ(breaker.WhyNot("/bin/d", kBreakerNow), "") << i;
    const pid_t pid = static_cast<pid_t>(i) + 20;
    breaker.OnAttached(Process(pid), executables[i], kBreakerNow);
    breaker.OnExit(Process(pid), KilledBy(SIGBUS), kBreakerNow + kBreakerSecond);
  }
  EXPECT_THAT(breaker.WhyNot("/bin/d", kBreakerNow + kBreakerSecond),
              AllOf(HasSubstr("processes of 3 executables crashed"),
                    HasSubstr("no process is attached to")));
}

}  // namespace
}  // namespace rocattach
