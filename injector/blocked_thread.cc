#include "injector/blocked_thread.h"

#include <errno.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Best first: those at the end return EINTR if their socket has a timeout.
constexpr int kCalls[] = {
    SYS_futex,     SYS_poll,     SYS_ppoll,           SYS_select, SYS_pselect6,
    SYS_nanosleep, SYS_ioctl,    SYS_clock_nanosleep, SYS_wait4,  SYS_waitid,
    SYS_pause,     SYS_read,     SYS_restart_syscall, SYS_readv,  SYS_accept,
    SYS_accept4,   SYS_recvfrom, SYS_recvmsg};

// Results of an interrupted call that the kernel hides from the program
// (include/linux/errno.h).
constexpr int64_t kRestartSys = -512;
constexpr int64_t kRestartNoIntr = -513;
constexpr int64_t kRestartNoHand = -514;
constexpr int64_t kRestartBlock = -516;

constexpr size_t kMaxText = 256;

// The position of the thread's call in kCalls; beyond its end if it is not there.
size_t RankOf(pid_t pid, pid_t tid) {
  auto text =
      ReadFile(absl::StrCat("/proc/", pid, "/task/", tid, "/syscall"), kMaxText);
  if (!text.ok()) return std::size(kCalls);
  // "NUMBER ARGUMENTS… SP PC", "-1 SP PC" or "running".
  int number = -1;
  if (!absl::SimpleAtoi(absl::string_view(*text).substr(0, text->find(' ')), &number)) {
    number = -1;
  }
  return static_cast<size_t>(std::find(std::begin(kCalls), std::end(kCalls), number) -
                             std::begin(kCalls));
}

}  // namespace

absl::StatusOr<std::vector<pid_t>> BlockedThreads(pid_t pid) {
  ASSIGN_OR_RETURN(const std::vector<pid_t> all, ListThreads(pid));
  std::vector<std::pair<size_t, pid_t>> ranked;
  for (pid_t tid : all) {
    const size_t rank = RankOf(pid, tid);
    if (rank < std::size(kCalls)) ranked.emplace_back(rank, tid);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<pid_t> threads;
  threads.reserve(ranked.size());
  for (const auto& [rank, tid] : ranked) threads.push_back(tid);
  return threads;
}

bool IsBlockedThread(pid_t pid, pid_t tid) {
  return RankOf(pid, tid) < std::size(kCalls);
}

// What arch_do_signal_or_restart() of the kernel (arch/x86/kernel/signal.c) does to a
// thread that continues where it was interrupted.
absl::StatusOr<user_regs_struct> ContinueCall(const user_regs_struct& registers,
                                              absl::string_view before_ip) {
  constexpr absl::string_view kSyscall = "\x0f\x05";
  if (static_cast<int64_t>(registers.orig_rax) < 0 || before_ip != kSyscall) {
    return absl::FailedPreconditionError("the thread is not in a system call");
  }
  user_regs_struct result = registers;
  // The kernel must not do it as well.
  result.orig_rax = ~0ull;
  switch (static_cast<int64_t>(registers.rax)) {
    case kRestartSys:
    case kRestartNoIntr:
    case kRestartNoHand:
      result.rax = registers.orig_rax;
      result.rip -= kSyscall.size();
      break;
    case kRestartBlock:
      result.rax = SYS_restart_syscall;
      result.rip -= kSyscall.size();
      break;
    default:
      break;  // the call is over
  }
  return result;
}

EndingHandlers HandlersThatEnd(const user_regs_struct& registers) {
  switch (static_cast<int64_t>(registers.rax)) {
    case kRestartSys:
      return EndingHandlers::kWithoutRestart;
    case kRestartNoHand:
    case kRestartBlock:
      return EndingHandlers::kAll;
    default:
      return EndingHandlers::kNone;
  }
}

}  // namespace rocattach
