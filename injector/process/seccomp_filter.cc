#include "injector/process/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

// Limit for all filters and calls, because a thread is stopped meanwhile. The filter of
// a container engine takes some 10,000 for all calls; only a contrived one takes more.
constexpr size_t kMostSteps = 1'000'000;
// The kernel allows 32768 instructions in all.
constexpr uint32_t kMostFilters = 512;
constexpr size_t kScratchWords = BPF_MEMWORDS;

constexpr unsigned kMemfdFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;

struct NeededCall {
  int number;
  const char* name;
  // The known values of the arguments; 0 stands for addresses and descriptors, which no
  // useful filter looks at.
  std::array<uint64_t, 6> arguments;
};

constexpr uint64_t kThreadFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                                  CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                                  CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
constexpr uint64_t kCwd = static_cast<uint64_t>(AT_FDCWD);

// Calls of the stub, of dlopen, and of the collector's start and its thread.
constexpr NeededCall kCalls[] = {
    {SYS_rt_sigprocmask, "rt_sigprocmask", {SIG_BLOCK, 0, 0, 8}},
    {SYS_rt_sigprocmask, "rt_sigprocmask", {SIG_SETMASK, 0, 0, 8}},
    {SYS_mmap, "mmap", {0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull}},
    {SYS_mmap,
     "mmap",
     {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull}},
    {SYS_mmap, "mmap", {0, 4096, PROT_READ, MAP_PRIVATE}},
    {SYS_mmap, "mmap", {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED}},
    {SYS_mmap, "mmap", {0, 4096, PROT_NONE, MAP_SHARED | MAP_NORESERVE}},
    {SYS_mprotect, "mprotect", {0, 4096, PROT_READ | PROT_WRITE}},
    {SYS_mprotect, "mprotect", {0, 4096, PROT_READ}},
    {SYS_munmap, "munmap", {0, 4096}},
    {SYS_openat, "openat", {kCwd, 0, O_RDONLY | O_CLOEXEC}},
    {SYS_read, "read", {3, 0, 832}},
    {SYS_pread64, "pread64", {3, 0, 784, 64}},
    {SYS_newfstatat, "newfstatat", {3, 0, 0, AT_EMPTY_PATH}},
    {SYS_fstat, "fstat", {3}},
    {SYS_close, "close", {3}},
    {SYS_memfd_create, "memfd_create", {0, kMemfdFlags}},
    {SYS_ftruncate, "ftruncate", {3, 1 << 20}},
    {SYS_fcntl, "fcntl", {3, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL}},
    {SYS_prlimit64, "prlimit64", {0, RLIMIT_FSIZE}},
    {SYS_munlock, "munlock", {0, 4096}},
    {SYS_madvise, "madvise", {0, 4096, MADV_WIPEONFORK}},
    {SYS_getpid, "getpid", {}},
    {SYS_gettid, "gettid", {}},
    {SYS_process_vm_readv, "process_vm_readv", {0, 0, 1, 0, 1}},
    // glibc tries the first one, and then the second one.
    {SYS_clone3, "clone3", {0, 88}},
    {SYS_clone, "clone", {kThreadFlags}},
    {SYS_set_robust_list, "set_robust_list", {0, 24}},
    {SYS_rseq, "rseq", {0, 32}},
    {SYS_prctl, "prctl", {15 /* PR_SET_NAME */}},
    // Which one the C library uses depends on its version.
    {SYS_nanosleep, "nanosleep", {}},
    {SYS_clock_nanosleep, "clock_nanosleep", {}},
    {SYS_sched_yield, "sched_yield", {}},
    {SYS_futex, "futex", {0, 0 /* FUTEX_WAIT */}},
    {SYS_futex, "futex", {0, 1 /* FUTEX_WAKE */}},
    {SYS_futex, "futex", {0, 128 /* FUTEX_WAIT, private */}},
    {SYS_futex, "futex", {0, 133 /* FUTEX_WAKE_OP, private */}},
    {SYS_futex, "futex", {0, 129 /* FUTEX_WAKE, private */}},
};

constexpr NeededCall kCallsInCall[] = {
    {SYS_rt_sigpending, "rt_sigpending", {0, 8}},
    {SYS_rt_sigaction, "rt_sigaction", {SIGTERM, 0, 0, 8}},
};

constexpr NeededCall kCallsByDescriptor[] = {
    {SYS_socket, "socket", {1 /* AF_UNIX */, 2 | O_CLOEXEC /* SOCK_DGRAM */}},
    {SYS_bind, "bind", {3, 0, 35}},
    {SYS_recvmsg, "recvmsg", {3, 0, 0x40 /* MSG_DONTWAIT */}},
};

// Smaller is more severe, as the kernel compares them: as signed numbers.
int32_t Severity(uint32_t action) {
  return static_cast<int32_t>(action & SECCOMP_RET_ACTION_FULL);
}

absl::Status NotAFilter(size_t at) {
  return absl::InvalidArgumentError(
      absl::StrCat("instruction ", at, " is none of a seccomp filter"));
}

// The state of one run.
struct Machine {
  uint32_t a = 0, x = 0;
  std::array<uint32_t, kScratchWords> scratch = {};
};

// False for a division by zero, which ends the program with 0.
bool Compute(uint16_t operation, uint32_t value, uint32_t* a) {
  switch (operation) {
    case BPF_ADD:
      *a += value;
      return true;
    case BPF_SUB:
      *a -= value;
      return true;
    case BPF_MUL:
      *a *= value;
      return true;
    case BPF_DIV:
      if (value == 0) return false;
      *a /= value;
      return true;
    case BPF_AND:
      *a &= value;
      return true;
    case BPF_OR:
      *a |= value;
      return true;
    case BPF_XOR:
      *a ^= value;
      return true;
    case BPF_LSH:
      *a = value < 32 ? *a << value : 0;
      return true;
    case BPF_RSH:
      *a = value < 32 ? *a >> value : 0;
      return true;
    default:
      return false;
  }
}

bool Holds(uint16_t test, uint32_t a, uint32_t value) {
  switch (test) {
    case BPF_JEQ:
      return a == value;
    case BPF_JGT:
      return a > value;
    case BPF_JGE:
      return a >= value;
    default:
      return (a & value) != 0;  // BPF_JSET
  }
}

// True if seccomp_check_filter() of kernel/seccomp.c accepts the instruction, which is
// followed by `left` others.
bool IsAccepted(const sock_filter& i, size_t left) {
  switch (i.code) {
    case BPF_LD | BPF_W | BPF_ABS:
      return i.k < sizeof(seccomp_data) && i.k % sizeof(uint32_t) == 0;
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
    case BPF_ST:
    case BPF_STX:
      return i.k < kScratchWords;
    case BPF_JMP | BPF_JA:
      return i.k < left;
    case BPF_LD | BPF_W | BPF_LEN:
    case BPF_LDX | BPF_W | BPF_LEN:
    case BPF_LD | BPF_IMM:
    case BPF_LDX | BPF_IMM:
    case BPF_MISC | BPF_TAX:
    case BPF_MISC | BPF_TXA:
    case BPF_RET | BPF_K:
    case BPF_RET | BPF_A:
      return true;
    default:
      break;
  }
  const uint16_t operation = BPF_OP(i.code);
  if (BPF_CLASS(i.code) == BPF_ALU) {
    return operation != BPF_MOD && operation <= BPF_XOR;
  }
  return BPF_CLASS(i.code) == BPF_JMP && operation <= BPF_JSET;
}

// Executes a move of a value, or its negation. False for every other instruction.
bool Move(const sock_filter& i, const seccomp_data& call, Machine* m) {
  switch (i.code) {
    case BPF_LD | BPF_W | BPF_ABS:
      std::memcpy(&m->a, reinterpret_cast<const uint8_t*>(&call) + i.k, sizeof(m->a));
      return true;
    case BPF_LD | BPF_W | BPF_LEN:
      m->a = sizeof(call);
      return true;
    case BPF_LDX | BPF_W | BPF_LEN:
      m->x = sizeof(call);
      return true;
    case BPF_LD | BPF_IMM:
      m->a = i.k;
      return true;
    case BPF_LDX | BPF_IMM:
      m->x = i.k;
      return true;
    case BPF_LD | BPF_MEM:
      m->a = m->scratch[i.k];
      return true;
    case BPF_LDX | BPF_MEM:
      m->x = m->scratch[i.k];
      return true;
    case BPF_ST:
      m->scratch[i.k] = m->a;
      return true;
    case BPF_STX:
      m->scratch[i.k] = m->x;
      return true;
    case BPF_MISC | BPF_TAX:
      m->x = m->a;
      return true;
    case BPF_MISC | BPF_TXA:
      m->a = m->x;
      return true;
    case BPF_ALU | BPF_NEG:
      m->a = 0u - m->a;
      return true;
    default:
      return false;
  }
}

const char* ActionName(uint32_t action) {
  switch (action & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_KILL_PROCESS:
      return "kill the process";
    case SECCOMP_RET_KILL_THREAD:
      return "kill the thread";
    default:
      return "send it SIGSYS";
  }
}

bool IsError(uint32_t action) {
  return (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
}

bool IsDeadly(uint32_t action) {
  return Severity(action) <= Severity(SECCOMP_RET_TRAP);
}

// One of them may end the thread: it is not entered.
StepResult FiltersAreUnreadable(int error) {
  std::string detail = absl::StrCat(
      "the thread has seccomp filters that cannot be checked "
      "(PTRACE_SECCOMP_GET_FILTER: ",
      strerrorname_np(error), ")");
  if (error == EACCES) {
    detail +=
        "; the service needs CAP_SYS_ADMIN, and must not have a seccomp filter itself, "
        "from a systemd unit or a container for example";
  } else if (error == EIO) {
    detail += "; the kernel was built without CONFIG_CHECKPOINT_RESTORE";
  }
  return AttachFailure{AttachReason::kSeccompFilter, error, std::move(detail)};
}

}  // namespace

// Jumps lead forward only, so a program of n instructions takes n steps at most.
absl::StatusOr<uint32_t> RunSeccompProgram(absl::Span<const sock_filter> program,
                                           const seccomp_data& call, size_t* steps) {
  if (program.empty() || program.size() > BPF_MAXINSNS) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a filter has 1 to ", BPF_MAXINSNS, " instructions, not ", program.size()));
  }
  Machine m;
  size_t at = 0;
  while (at < program.size()) {
    if ((*steps)-- == 0) {
      *steps = 0;
      return absl::ResourceExhaustedError("the filters are too long to be checked");
    }
    const sock_filter& i = program[at];
    if (!IsAccepted(i, program.size() - at - 1)) return NotAFilter(at);
    ++at;
    if (Move(i, call, &m)) continue;
    if (i.code == (BPF_RET | BPF_K)) return i.k;
    if (i.code == (BPF_RET | BPF_A)) return m.a;
    if (i.code == (BPF_JMP | BPF_JA)) {
      at += i.k;
      continue;
    }
    const uint32_t value = BPF_SRC(i.code) == BPF_X ? m.x : i.k;
    if (BPF_CLASS(i.code) == BPF_JMP) {
      at += Holds(BPF_OP(i.code), m.a, value) ? i.jt : i.jf;
    } else if (!Compute(BPF_OP(i.code), value, &m.a)) {
      return SECCOMP_RET_KILL_THREAD;
    }
  }
  return absl::InvalidArgumentError("the filter ends without a result");
}

absl::StatusOr<uint32_t> SeccompAction(absl::Span<const SeccompProgram> filters,
                                       const seccomp_data& call, size_t* steps) {
  uint32_t action = SECCOMP_RET_ALLOW;
  for (const SeccompProgram& program : filters) {
    auto one = RunSeccompProgram(program, call, steps);
    if (!one.ok()) return one.status();
    if (Severity(*one) < Severity(action)) action = *one;
  }
  return action;
}

StepResult CheckSeccompFilters(absl::Span<const SeccompProgram> filters, StubKind kind,
                               bool in_call, bool has_rseq) {
  if (filters.empty()) return StepOk();
  size_t steps = kMostSteps;
  const auto check = [&](const NeededCall& needed) -> StepResult {
    seccomp_data call = {};
    call.nr = needed.number;
    call.arch = AUDIT_ARCH_X86_64;
    std::copy(needed.arguments.begin(), needed.arguments.end(), std::begin(call.args));
    const auto action = SeccompAction(filters, call, &steps);
    if (!action.ok()) {
      return AttachFailure{AttachReason::kSeccompFilter, 0,
                           absl::StrCat("the thread's seccomp filters cannot be "
                                        "checked: ",
                                        action.status().message())};
    }
    if (needed.number == SYS_rseq && has_rseq && IsError(*action)) {
      return AttachFailure{AttachReason::kSeccompFilter, 0,
                           "a seccomp filter of the thread answers rseq() with an "
                           "error, at which glibc ends a process that starts a thread"};
    }
    if (!IsDeadly(*action)) return StepOk();
    return AttachFailure{
        AttachReason::kSeccompFilter, 0,
        absl::StrCat("a seccomp filter of the thread would ", ActionName(*action),
                     " at ", needed.name, "(), which loading the collector needs")};
  };
  for (const NeededCall& needed : kCalls) RETURN_IF_FAILED(check(needed));
  if (in_call) {
    for (const NeededCall& needed : kCallsInCall) RETURN_IF_FAILED(check(needed));
  }
  if (kind == StubKind::kByPath) return StepOk();
  for (const NeededCall& needed : kCallsByDescriptor) RETURN_IF_FAILED(check(needed));
  return StepOk();
}

bool HasRseq(pid_t tid) {
  // struct ptrace_rseq_configuration of include/uapi/linux/ptrace.h.
  struct {
    uint64_t abi_pointer;
    uint32_t abi_size, signature, flags, pad;
  } configuration = {};
  const long bytes =
      ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid,
             reinterpret_cast<void*>(sizeof(configuration)), &configuration);
  return bytes < 0 || configuration.abi_pointer != 0;
}

int ReadSeccompFilterOf(pid_t tid, uint32_t index, SeccompProgram* program) {
  const auto number = reinterpret_cast<void*>(uintptr_t{index});
  long count = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, number, nullptr);
  if (count < 0) return errno;
  if (count > BPF_MAXINSNS) return E2BIG;
  program->resize(static_cast<size_t>(count));
  count = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, number, program->data());
  if (count < 0) return errno;
  // The thread is stopped, so its filters do not change.
  return static_cast<size_t>(count) == program->size() ? 0 : EAGAIN;
}

StepResult CheckSeccompOfThread(const ReadSeccompFilter& read,
                                const std::function<bool()>& has_filters, StubKind kind,
                                bool in_call, bool has_rseq) {
  std::vector<SeccompProgram> filters;
  for (uint32_t index = 0; index < kMostFilters; ++index) {
    SeccompProgram program;
    const int error = read(index, &program);
    if (error == ESRCH) {
      return AttachFailure{AttachReason::kTargetExited, error,
                           "PTRACE_SECCOMP_GET_FILTER: the thread has exited"};
    }
    // EINVAL: there are none; ENOENT: no more.
    if (error == EINVAL || error == ENOENT) break;
    // The kernel says EACCES and EIO whether or not there are filters.
    if (error != 0) return has_filters() ? FiltersAreUnreadable(error) : StepOk();
    filters.push_back(std::move(program));
  }
  return CheckSeccompFilters(filters, kind, in_call, has_rseq);
}

}  // namespace rocattach
