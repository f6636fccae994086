#include "userspace/collector/common/own_stack.h"

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/common/unseen.h"

// Saves only the stack pointer: the called function preserves the other registers. The
// frame pointer leads from the new stack to the old one, so that profilers can unwind.
extern "C" void rocattach_call_on_stack(void (*function)(void*), void* argument,
                                        void* top);
__asm__(
    ".pushsection .text\n"
    ".type rocattach_call_on_stack, @function\n"
    ".hidden rocattach_call_on_stack\n"
    ".globl rocattach_call_on_stack\n"
    "rocattach_call_on_stack:\n"
    "  push %rbp\n"
    "  mov %rsp, %rbp\n"
    "  mov %rdx, %rsp\n"
    "  mov %rdi, %rax\n"
    "  mov %rsi, %rdi\n"
    "  call *%rax\n"
    "  mov %rbp, %rsp\n"
    "  pop %rbp\n"
    "  ret\n"
    ".size rocattach_call_on_stack, . - rocattach_call_on_stack\n"
    ".popsection\n");

namespace rocattach::collector {
namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kGuardBytes = 4096;
// Size of the kernel's signal set, which is not that of the C library.
constexpr size_t kSetBytes = 8;
constexpr uint64_t Bit(int signal) {
  return uint64_t{1} << (signal - 1);
}
// As in the stub: faults are delivered at once, and so is glibc's SIGSETXID, 33, for
// which another thread may wait while holding a lock that we need.
constexpr uint64_t kBlocked = ~(Bit(SIGSEGV) | Bit(SIGBUS) | Bit(SIGFPE) | Bit(SIGILL) |
                                Bit(SIGTRAP) | Bit(SIGSYS) | Bit(SIGABRT) | Bit(33));

bool BlockSignals(uint64_t* before) {
  return syscall(SYS_rt_sigprocmask, SIG_BLOCK, &kBlocked, before, kSetBytes) == 0;
}

void SetSignals(const uint64_t* mask) {
  (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, nullptr, kSetBytes);
}

}  // namespace

bool RunOnOwnStack(void (*function)(void*), void* argument) {
  ErrnoKeeper keep_errno;
  void* mapping = mmap(nullptr, kStackBytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED) return false;
  auto* base = static_cast<uint8_t*>(mapping);
  uint64_t mask = 0;
  const bool ready = mprotect(base + kGuardBytes, kStackBytes - kGuardBytes,
                              PROT_READ | PROT_WRITE) == 0 &&
                     BlockSignals(&mask);
  if (ready) {
    UnseenByThreadSanitizer unseen;
    rocattach_call_on_stack(function, argument, base + kStackBytes);
    SetSignals(&mask);
  }
  munmap(mapping, kStackBytes);
  return ready;
}

}  // namespace rocattach::collector
