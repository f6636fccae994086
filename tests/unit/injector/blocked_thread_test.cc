#include "injector/process/blocked_thread.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace rocattach {
namespace {

constexpr absl::string_view kSyscall = "\x0f\x05";

user_regs_struct InCall(long number, long result) {
  user_regs_struct registers = {};
  registers.orig_rax = static_cast<unsigned long long>(number);
  registers.rax = static_cast<unsigned long long>(result);
  registers.rip = 0x401002;
  registers.rdi = 7;
  return registers;
}

struct CallCase {
  const char* name;
  long result;
  uint64_t rax;
  uint64_t rip;
  EndingHandlers ending = EndingHandlers::kNone;
};
class ContinueCallTest : public testing::TestWithParam<CallCase> {};

// The registers are set to what the kernel would do next.
TEST_P(ContinueCallTest, SetsRegistersAsTheKernelWould) {
  auto registers = ContinueCall(InCall(SYS_futex, GetParam().result), kSyscall);
  ASSERT_TRUE(registers.ok()) << registers.status();
  EXPECT_EQ(registers->rax, GetParam().rax);
  EXPECT_EQ(registers->rip, GetParam().rip);
  EXPECT_EQ(registers->orig_rax, ~0ull) << "the kernel would do it again";
  EXPECT_EQ(registers->rdi, 7u);
  EXPECT_EQ(HandlersThatEnd(InCall(SYS_futex, GetParam().result)), GetParam().ending);
}

INSTANTIATE_TEST_SUITE_P(
    Results, ContinueCallTest,
    testing::Values(CallCase{"RestartSys", -512, SYS_futex, 0x401000,
                             EndingHandlers::kWithoutRestart},
                    CallCase{"RestartNoIntr", -513, SYS_futex, 0x401000},
                    CallCase{"RestartNoHand", -514, SYS_futex, 0x401000,
                             EndingHandlers::kAll},
                    CallCase{"RestartBlock", -516, SYS_restart_syscall, 0x401000,
                             EndingHandlers::kAll},
                    CallCase{"Interrupted", -4, static_cast<uint64_t>(-4), 0x401002},
                    CallCase{"Done", 5, 5, 0x401002}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ContinueCall, OnlyInsideASystemCall) {
  EXPECT_EQ(ContinueCall(InCall(-1, -512), kSyscall).status().code(),
            absl::StatusCode::kFailedPrecondition);
  // int $0x80, and code that has been replaced.
  EXPECT_EQ(ContinueCall(InCall(SYS_futex, -512), "\xcd\x80").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// A child that calls `wait` again and again, and does nothing else.
class Waiting {
 public:
  explicit Waiting(const std::function<void()>& wait) : pid_(fork()) {
    if (pid_ != 0) return;
    for (;;) wait();
  }
  ~Waiting() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  // The blocked threads, as soon as there are any; gives up after a second.
  std::vector<pid_t> Threads() const {
    for (int i = 0; i < 100; ++i) {
      auto threads = BlockedThreads(pid_);
      if (!threads.ok() || !threads->empty()) return threads.value_or(std::vector{-1});
      usleep(10'000);
    }
    return {};
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST(BlockedThreads, FindsAThreadThatWaits) {
  Waiting polls([] { poll(nullptr, 0, -1); });
  Waiting pauses([] { pause(); });
  if (access("/proc/self/syscall", R_OK) != 0) GTEST_SKIP() << "no /proc/PID/syscall";
  EXPECT_EQ(polls.Threads(), std::vector{polls.pid()});
  EXPECT_EQ(pauses.Threads(), std::vector{pauses.pid()});
  EXPECT_TRUE(FindBlockedCall(pauses.pid(), pauses.pid()).has_value());
}

// The call would return EINTR, which the program would see.
TEST(BlockedThreads, LeavesOutCallsThatCannotContinue) {
  Waiting waits([] {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event;
    epoll_wait(epoll, &event, 1, -1);
  });
  EXPECT_TRUE(waits.Threads().empty());
  EXPECT_FALSE(FindBlockedCall(waits.pid(), waits.pid()).has_value());
}

TEST(BlockedThreads, AProcessThatIsGone) {
  EXPECT_EQ(BlockedThreads(4'194'304).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace rocattach
