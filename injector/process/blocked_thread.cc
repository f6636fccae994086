#include "injector/process/blocked_thread.h"

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
#include "absl/strings/str_split.h"
#include "injector/elf/symbol_lookup.h"
#include "injector/process/maps.h"
#include "injector/stub/remote_address.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Best first: those at the end return EINTR if their socket has a timeout.
constexpr uint64_t kBlockingCalls[] = {
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

// "NUMBER ARGUMENTS… SP PC", "-1 SP PC" or "running".
std::optional<BlockedCall> ParseCall(absl::string_view text) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(' ', 2));
  BlockedCall call;
  if (parts.size() < 3 || !absl::SimpleAtoi(parts[0], &call.number) ||
      !absl::SimpleHexAtoi(parts[1], &call.argument)) {
    return std::nullopt;
  }
  return call;
}

// The position of the call in kBlockingCalls; beyond its end if it is not there.
size_t RankOf(const BlockedCall& call) {
  return static_cast<size_t>(
      std::find(std::begin(kBlockingCalls), std::end(kBlockingCalls), call.number) -
      std::begin(kBlockingCalls));
}

// Looks at threads of one process.
class BlockedCalls {
 public:
  explicit BlockedCalls(pid_t pid) : pid_(pid) {}

  std::optional<BlockedCall> Find(pid_t tid) {
    auto text =
        ReadFile(absl::StrCat("/proc/", pid_, "/task/", tid, "/syscall"), kMaxText);
    if (!text.ok()) return std::nullopt;
    auto call = ParseCall(*text);
    if (!call.has_value() || RankOf(*call) == std::size(kBlockingCalls))
      return std::nullopt;
    if (MayBeFutex(*call) && MayBeLibraryLock(RemoteAddress(call->argument))) {
      return std::nullopt;
    }
    return call;
  }

 private:
  // Only the kernel knows which call is restarted.
  static bool MayBeFutex(const BlockedCall& call) {
    return call.number == SYS_futex || call.number == SYS_restart_syscall;
  }
  bool MayBeLibraryLock(RemoteAddress address) {
    if (!maps_.has_value()) maps_ = Maps::Read(pid_);
    return !maps_->ok() || IsLibraryLock(**maps_, address);
  }

  const pid_t pid_;
  std::optional<absl::StatusOr<Maps>> maps_;
};

// glibc's malloc/arena.c: an arena other than the first one, which is in the library's
// data, follows the head of a heap. Heaps are aligned to their size: 64 MiB or, with
// huge pages, four of these pages.
constexpr uint64_t kHeapAlignment = 8 << 20;
// The head of a heap, 32 or 48 bytes, and the arena's lock, which is its first member.
constexpr uint64_t kArenaLocks = 64;

}  // namespace

absl::StatusOr<std::vector<pid_t>> BlockedThreads(pid_t pid) {
  ASSIGN_OR_RETURN(const std::vector<pid_t> all, ListThreads(pid));
  BlockedCalls calls(pid);
  std::vector<std::pair<size_t, pid_t>> ranked;
  for (pid_t tid : all) {
    const auto call = calls.Find(tid);
    if (call.has_value()) ranked.emplace_back(RankOf(*call), tid);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<pid_t> threads;
  threads.reserve(ranked.size());
  for (const auto& [rank, tid] : ranked) threads.push_back(tid);
  return threads;
}

std::optional<BlockedCall> FindBlockedCall(pid_t pid, pid_t tid) {
  return BlockedCalls(pid).Find(tid);
}

// Does what arch_do_signal_or_restart() of the kernel (arch/x86/kernel/signal.c) does
// to a thread that continues where it was interrupted.
absl::StatusOr<user_regs_struct> ContinueCall(const user_regs_struct& registers,
                                              absl::string_view before_ip) {
  constexpr absl::string_view kSyscall = "\x0f\x05";
  if (static_cast<int64_t>(registers.orig_rax) < 0 || before_ip != kSyscall) {
    return absl::FailedPreconditionError("the thread is not in a system call");
  }
  user_regs_struct result = registers;
  // Keeps the kernel from restarting the call as well.
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

bool IsLibraryLock(const Maps& maps, RemoteAddress address) {
  if (address.value() % kHeapAlignment < kArenaLocks) return true;
  const Mapping* mapping = maps.Find(address);
  if (mapping == nullptr) return false;
  // Uninitialized variables are in anonymous memory, right behind the library's data.
  const Mapping* const first = maps.mappings().data();
  while (mapping->path.empty() && mapping > first &&
         mapping[-1].end == mapping->start) {
    --mapping;
  }
  return mapping->is_file() && IsLoaderOrGlibc(mapping->basename());
}

}  // namespace rocattach
