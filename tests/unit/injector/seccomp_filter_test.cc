// Seccomp filters run as by the kernel, and what they mean for loading the collector.
#include "injector/process/seccomp_filter.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/syscall.h>

#include <cstddef>
#include <vector>

namespace rocattach {
namespace {

constexpr uint32_t kNumber = offsetof(seccomp_data, nr);

seccomp_data Call(int number) {
  seccomp_data call = {};
  call.nr = number;
  call.arch = AUDIT_ARCH_X86_64;
  call.args[2] = 0x1122334455667788;
  return call;
}

uint32_t ResultOf(const SeccompProgram& program, int number = SYS_read) {
  size_t steps = 10'000;
  auto action = RunSeccompProgram(program, Call(number), &steps);
  EXPECT_TRUE(action.ok()) << action.status();
  return action.value_or(0xdead);
}

bool IsRefused(const SeccompProgram& program) {
  size_t steps = 10'000;
  return !RunSeccompProgram(program, Call(SYS_read), &steps).ok();
}

// A program that returns `action` for one call, and allows the others.
SeccompProgram At(int number, uint32_t action) {
  return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
          BPF_STMT(BPF_RET | BPF_K, action),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
}

TEST(SeccompProgramTest, ReadsTheCall) {
  EXPECT_EQ(ResultOf(At(SYS_read, SECCOMP_RET_KILL_PROCESS)), SECCOMP_RET_KILL_PROCESS);
  EXPECT_EQ(ResultOf(At(SYS_write, SECCOMP_RET_KILL_PROCESS)), SECCOMP_RET_ALLOW);
  // The halves of an argument, low half first.
  constexpr uint32_t kThird = offsetof(seccomp_data, args) + 2 * sizeof(uint64_t);
  EXPECT_EQ(ResultOf({BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kThird),
                      BPF_STMT(BPF_RET | BPF_A, 0)}),
            0x55667788u);
  EXPECT_EQ(ResultOf({BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kThird + 4),
                      BPF_STMT(BPF_RET | BPF_A, 0)}),
            0x11223344u);
  EXPECT_EQ(
      ResultOf({BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_RET | BPF_A, 0)}),
      sizeof(seccomp_data));
}

struct Operation {
  uint16_t code;
  uint32_t a, k, result;
};

TEST(SeccompProgramTest, Computes) {
  for (const Operation& o : {Operation{BPF_ADD, 7, 5, 12},
                             {BPF_SUB, 7, 5, 2},
                             {BPF_MUL, 7, 5, 35},
                             {BPF_DIV, 7, 5, 1},
                             {BPF_AND, 6, 3, 2},
                             {BPF_OR, 6, 3, 7},
                             {BPF_XOR, 6, 3, 5},
                             {BPF_LSH, 1, 4, 16},
                             {BPF_LSH, 1, 32, 0},
                             {BPF_RSH, 16, 4, 1},
                             {BPF_RSH, 16, 40, 0},
                             {BPF_SUB, 0, 1, 0xffffffff}}) {
    EXPECT_EQ(ResultOf({BPF_STMT(BPF_LD | BPF_IMM, o.a),
                        BPF_STMT(static_cast<uint16_t>(BPF_ALU | o.code | BPF_K), o.k),
                        BPF_STMT(BPF_RET | BPF_A, 0)}),
              o.result)
        << o.code;
    // The same with an operand in the other register.
    EXPECT_EQ(
        ResultOf({BPF_STMT(BPF_LDX | BPF_IMM, o.k), BPF_STMT(BPF_LD | BPF_IMM, o.a),
                  BPF_STMT(static_cast<uint16_t>(BPF_ALU | o.code | BPF_X), 0),
                  BPF_STMT(BPF_RET | BPF_A, 0)}),
        o.result)
        << o.code;
  }
  EXPECT_EQ(ResultOf({BPF_STMT(BPF_LD | BPF_IMM, 1), BPF_STMT(BPF_ALU | BPF_NEG, 0),
                      BPF_STMT(BPF_RET | BPF_A, 0)}),
            0xffffffffu);
  // A division by zero ends a program with 0, which kills the thread.
  EXPECT_EQ(ResultOf({BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0),
                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}),
            SECCOMP_RET_KILL_THREAD);
}

TEST(SeccompProgramTest, RemembersAndMoves) {
  EXPECT_EQ(ResultOf({BPF_STMT(BPF_LD | BPF_IMM, 5), BPF_STMT(BPF_ST, 15),
                      BPF_STMT(BPF_LD | BPF_IMM, 0), BPF_STMT(BPF_LDX | BPF_MEM, 15),
                      BPF_STMT(BPF_MISC | BPF_TXA, 0), BPF_STMT(BPF_RET | BPF_A, 0)}),
            5u);
  EXPECT_EQ(ResultOf({BPF_STMT(BPF_LD | BPF_IMM, 6), BPF_STMT(BPF_MISC | BPF_TAX, 0),
                      BPF_STMT(BPF_STX, 0), BPF_STMT(BPF_LD | BPF_IMM, 0),
                      BPF_STMT(BPF_LD | BPF_MEM, 0), BPF_STMT(BPF_RET | BPF_A, 0)}),
            6u);
}

TEST(SeccompProgramTest, Jumps) {
  const auto test = [](uint16_t code, uint32_t a, uint32_t k) {
    return ResultOf({BPF_STMT(BPF_LD | BPF_IMM, a),
                     BPF_JUMP(static_cast<uint16_t>(BPF_JMP | code | BPF_K), k, 1, 0),
                     BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 1)}) == 1;
  };
  EXPECT_TRUE(test(BPF_JEQ, 4, 4));
  EXPECT_FALSE(test(BPF_JEQ, 4, 5));
  EXPECT_TRUE(test(BPF_JGT, 0xffffffff, 4));
  EXPECT_FALSE(test(BPF_JGT, 4, 4));
  EXPECT_TRUE(test(BPF_JGE, 4, 4));
  EXPECT_FALSE(test(BPF_JGE, 3, 4));
  EXPECT_TRUE(test(BPF_JSET, 6, 2));
  EXPECT_FALSE(test(BPF_JSET, 6, 1));
  EXPECT_EQ(ResultOf({BPF_STMT(BPF_JMP | BPF_JA, 1), BPF_STMT(BPF_RET | BPF_K, 0),
                      BPF_STMT(BPF_RET | BPF_K, 9)}),
            9u);
}

TEST(SeccompProgramTest, InvalidProgramsAreRefused) {
  const sock_filter end = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  EXPECT_TRUE(IsRefused({}));
  EXPECT_TRUE(IsRefused(SeccompProgram(BPF_MAXINSNS + 1, end)));
  EXPECT_TRUE(IsRefused({BPF_STMT(BPF_LD | BPF_IMM, 1)})) << "no result";
  for (const sock_filter& bad :
       {sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof(seccomp_data)),
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2),
        sock_filter BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0),
        sock_filter BPF_STMT(BPF_LD | BPF_MEM, 16), sock_filter BPF_STMT(BPF_ST, 16),
        sock_filter BPF_STMT(BPF_STX, 0xffffffff),
        sock_filter BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 3),
        sock_filter BPF_STMT(BPF_JMP | BPF_JA, 1),
        sock_filter BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff),
        sock_filter BPF_STMT(0xffff, 0)}) {
    EXPECT_TRUE(IsRefused({bad, end})) << bad.code << " " << bad.k;
  }
  // Jumps beyond the end.
  EXPECT_TRUE(IsRefused({BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 255, 255), end}));
  // A program with more steps than are left.
  size_t steps = 3;
  SeccompProgram long_one(10, BPF_STMT(BPF_LD | BPF_IMM, 1));
  long_one.push_back(end);
  EXPECT_TRUE(absl::IsResourceExhausted(
      RunSeccompProgram(long_one, Call(SYS_read), &steps).status()));
  EXPECT_EQ(steps, 0u);
}

// KILL_PROCESS has the highest bit set, and is the most severe one.
TEST(SeccompFiltersTest, TheMostSevereActionCounts) {
  const auto action = [](std::vector<uint32_t> actions) {
    std::vector<SeccompProgram> filters;
    for (uint32_t one : actions) filters.push_back(At(SYS_read, one));
    size_t steps = 1000;
    return *SeccompAction(filters, Call(SYS_read), &steps);
  };
  EXPECT_EQ(action({SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | 1, SECCOMP_RET_LOG}),
            SECCOMP_RET_ERRNO | 1);
  EXPECT_EQ(
      action({SECCOMP_RET_KILL_THREAD, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_TRAP}),
      SECCOMP_RET_KILL_PROCESS);
  EXPECT_EQ(action({}), SECCOMP_RET_ALLOW);
}

TEST(SeccompFiltersTest, RefusesOnlyFiltersThatWouldEndTheProcess) {
  const auto refused = [](const SeccompProgram& program,
                          StubKind kind = StubKind::kByPath) {
    const StepResult result = CheckSeccompFilters({{program}}, kind);
    if (!result.ok()) {
      EXPECT_EQ(result.failure().reason, AttachReason::kSeccompFilter);
    }
    return result.ok() ? std::string() : result.failure().detail;
  };
  for (uint32_t harmless :
       {SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_LOG,
        SECCOMP_RET_TRACE, SECCOMP_RET_USER_NOTIF}) {
    EXPECT_EQ(refused(At(SYS_memfd_create, harmless)), "") << harmless;
  }
  for (uint32_t deadly :
       {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP}) {
    for (const auto& [number, name] : {std::pair(SYS_memfd_create, "memfd_create()"),
                                       {SYS_openat, "openat()"},
                                       {SYS_mmap, "mmap()"},
                                       {SYS_clone, "clone()"},
                                       {SYS_mprotect, "mprotect()"}}) {
      EXPECT_NE(refused(At(static_cast<int>(number), deadly)).find(name),
                std::string::npos)
          << name;
    }
  }
  // The stub extends the signal mask, and restores it.
  constexpr uint32_t kHow = offsetof(seccomp_data, args);
  for (uint32_t how : {SIG_BLOCK, SIG_SETMASK}) {
    const SeccompProgram program = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kHow),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, how, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    EXPECT_NE(refused(program), "") << how;
  }
  // If the first thread has rseq, glibc ends the process when the call fails.
  for (uint32_t action : {SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | ENOSYS}) {
    const SeccompProgram program = At(SYS_rseq, action);
    EXPECT_EQ(refused(program), "");
    EXPECT_FALSE(CheckSeccompFilters({{program}}, StubKind::kByPath, /*in_call=*/false,
                                     /*has_rseq=*/true)
                     .ok());
  }
  // Calls that the load does not need.
  EXPECT_EQ(refused(At(SYS_execve, SECCOMP_RET_KILL_PROCESS)), "");
  EXPECT_EQ(refused(At(SYS_socket, SECCOMP_RET_KILL_PROCESS)), "");
  EXPECT_NE(refused(At(SYS_socket, SECCOMP_RET_KILL_PROCESS), StubKind::kByDescriptor),
            "");
  EXPECT_EQ(CheckSeccompFilters({}, StubKind::kByPath).ok(), true);
  // A process whose filters take too many steps is not attached to.
  const SeccompProgram slow(BPF_MAXINSNS, BPF_STMT(BPF_LD | BPF_IMM, 1));
  EXPECT_FALSE(
      CheckSeccompFilters(std::vector<SeccompProgram>(64, slow), StubKind::kByPath)
          .ok());
}

TEST(SeccompFiltersTest, AllFiltersAreRead) {
  const auto check = [](std::vector<SeccompProgram> filters, int at_end,
                        bool has_filters = true) {
    return CheckSeccompOfThread(
        [&](uint32_t index, SeccompProgram* program) {
          if (index >= filters.size()) return at_end;
          *program = filters[index];
          return 0;
        },
        [has_filters] { return has_filters; }, StubKind::kByPath);
  };
  EXPECT_TRUE(check({}, EINVAL).ok()) << "no filters";
  for (const int error : {EACCES, EIO, E2BIG, EMEDIUMTYPE}) {
    EXPECT_TRUE(check({}, error, /*has_filters=*/false).ok()) << error;
    const StepResult unreadable = check({}, error);
    ASSERT_FALSE(unreadable.ok()) << error;
    EXPECT_EQ(unreadable.failure().reason, AttachReason::kSeccompFilter);
    EXPECT_EQ(unreadable.failure().error, error);
  }
  EXPECT_FALSE(check({At(SYS_mmap, SECCOMP_RET_ALLOW)}, EACCES).ok());
  EXPECT_TRUE(check({At(SYS_mmap, SECCOMP_RET_ALLOW)}, ENOENT).ok());
  EXPECT_FALSE(
      check({At(SYS_mmap, SECCOMP_RET_ALLOW), At(SYS_openat, SECCOMP_RET_KILL_PROCESS)},
            ENOENT)
          .ok());
  const StepResult gone = check({}, ESRCH);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.failure().reason, AttachReason::kTargetExited);
}

}  // namespace
}  // namespace rocattach
