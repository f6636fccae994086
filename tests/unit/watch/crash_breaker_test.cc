#include "userspace/watch/crash_breaker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace rocattach {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kNow = 1000 * kSecond;

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
  breaker.OnAttached(Process(10), "/bin/a", kNow);
  EXPECT_EQ(breaker.WhyNot("/bin/a", kNow), "");
  breaker.OnExit(Process(10), KilledBy(SIGSEGV), kNow + 2 * kSecond);
  EXPECT_TRUE(breaker.tripped());
  EXPECT_THAT(breaker.WhyNot("/bin/a", kNow + 3 * kSecond),
              AllOf(HasSubstr("process 10 of /bin/a was killed by SIGSEGV"),
                    HasSubstr("2.00 s after it was attached to"),
                    HasSubstr("--no-crash-breaker")));
  EXPECT_EQ(breaker.WhyNot("/bin/b", kNow + 3 * kSecond), "");
}

TEST(CrashBreaker, OtherEndsAreNone) {
  CrashBreaker breaker;
  for (int status : {0, 1 << 8, SIGKILL, SIGTERM, SIGINT}) {
    breaker.OnAttached(Process(10), "/bin/a", kNow);
    breaker.OnExit(Process(10), status, kNow + kSecond);
    EXPECT_FALSE(breaker.tripped()) << status;
  }
  // Too late, of another process with that number, never attached to.
  breaker.OnAttached(Process(10), "/bin/a", kNow);
  breaker.OnExit(Process(10), KilledBy(SIGSEGV), kNow + 6 * kSecond);
  breaker.OnAttached(Process(11), "/bin/a", kNow + 6 * kSecond);
  breaker.OnExit({11, 8}, KilledBy(SIGSEGV), kNow + 7 * kSecond);
  breaker.OnExit(Process(12), KilledBy(SIGSEGV), kNow + 7 * kSecond);
  EXPECT_FALSE(breaker.tripped());
}

TEST(CrashBreaker, ThePauseEnds) {
  CrashBreaker breaker;
  breaker.OnAttached(Process(10), "/bin/a", kNow);
  breaker.OnExit(Process(10), KilledBy(SIGABRT), kNow);
  const uint64_t end = kNow + CrashBreaker::kPauseNs;
  EXPECT_NE(breaker.WhyNot("/bin/a", end), "");
  EXPECT_EQ(breaker.WhyNot("/bin/a", end + 1), "");
  EXPECT_FALSE(breaker.tripped());
}

TEST(CrashBreaker, CrashesOfSeveralExecutablesStopAll) {
  CrashBreaker breaker;
  const char* const executables[] = {"/bin/a", "/bin/b", "/bin/c"};
  static_assert(std::size(executables) == CrashBreaker::kMostCrashes);
  for (size_t i = 0; i < std::size(executables); ++i) {
    EXPECT_EQ(breaker.WhyNot("/bin/d", kNow), "") << i;
    const pid_t pid = static_cast<pid_t>(i) + 20;
    breaker.OnAttached(Process(pid), executables[i], kNow);
    breaker.OnExit(Process(pid), KilledBy(SIGBUS), kNow + kSecond);
  }
  EXPECT_THAT(breaker.WhyNot("/bin/d", kNow + kSecond),
              AllOf(HasSubstr("processes of 3 executables crashed"),
                    HasSubstr("no process is attached to")));
}

}  // namespace
}  // namespace rocattach
