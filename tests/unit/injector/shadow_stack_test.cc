// The stub on a processor with a shadow stack (CET): each return must go to the address
// that its call has stored, or the process is killed. No machine of the tests has one,
// so a child executes the stub one instruction at a time, and calls and returns are
// compared.
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "injector/stub/stub.h"

namespace rocattach {
namespace {

// The functions that the stub calls, in place of the target's.
int Zero() {
  return 0;
}
int* ErrnoLocation() {
  return &errno;
}
uint64_t started;
void Start() {
  started = 1;
}
void* Open() {
  return &started;
}
void* Symbol() {
  return reinterpret_cast<void*>(Start);
}
// The address at which the interrupted thread continues; it is not executed.
void Continue() {
  _exit(3);
}

template <typename F>
RemoteAddress AddressOf(F* function) {
  return RemoteAddress(reinterpret_cast<uint64_t>(function));
}

std::string TheStub(StubKind kind) {
  StubSpec plan;
  plan.kind = kind;
  plan.return_ip = AddressOf(Continue);
  plan.functions = {AddressOf(Open),          AddressOf(Symbol), AddressOf(Zero),
                    AddressOf(ErrnoLocation), AddressOf(Zero),   AddressOf(Zero)};
  plan.locks.load = plan.locks.list = AddressOf(&started);
  plan.xstate_bytes = XstateBytes();
  strcpy(plan.config.collector_path, "/collector.so");
  plan.socket.name.fill(static_cast<uint8_t>(getpid()));
  auto stub = BuildStub(plan);
  EXPECT_TRUE(stub.ok()) << stub.status();
  return stub.ok() ? *stub : "";
}

// A stopped process, about to execute the stub at `code`.
class SteppedChild {
 public:
  explicit SteppedChild(const void* code) : pid_(fork()) {
    if (pid_ == 0) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      _exit(2);
    }
    int status = 0;
    ok_ = waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status) && Read();
    registers_.rip = reinterpret_cast<uint64_t>(code);
    registers_.orig_rax = ~0ull;
    ok_ = ok_ && ptrace(PTRACE_SETREGS, pid_, nullptr, &registers_) == 0;
  }
  ~SteppedChild() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  bool ok() const { return ok_; }
  uint64_t ip() const { return registers_.rip; }
  uint64_t Word(uint64_t address) const {
    errno = 0;
    return static_cast<uint64_t>(ptrace(PTRACE_PEEKDATA, pid_, address, nullptr));
  }
  uint64_t Top() const { return Word(registers_.rsp); }
  bool Step() {
    int status = 0;
    return ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) == 0 &&
           waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status) &&
           WSTOPSIG(status) == SIGTRAP && Read();
  }

 private:
  bool Read() { return ptrace(PTRACE_GETREGS, pid_, nullptr, &registers_) == 0; }

  const pid_t pid_;
  bool ok_ = false;
  user_regs_struct registers_ = {};
};

enum class Flow { kNone, kCall, kReturn };

// Classifies the instruction that begins with these eight bytes (Intel SDM volume 2).
Flow FlowOf(uint64_t word) {
  uint8_t bytes[8];
  memcpy(bytes, &word, sizeof(bytes));
  size_t at = 0;
  auto is_prefix = [](uint8_t b) {
    return b == 0x3e || b == 0x66 || b == 0xf2 || b == 0xf3 || (b & 0xf0) == 0x40;
  };
  while (at < 4 && is_prefix(bytes[at])) ++at;
  if (bytes[at] == 0xc2 || bytes[at] == 0xc3) return Flow::kReturn;
  const bool is_call =
      bytes[at] == 0xe8 || (bytes[at] == 0xff && (bytes[at + 1] >> 3 & 7) == 2);
  return is_call ? Flow::kCall : Flow::kNone;
}

class ShadowStackTest : public testing::TestWithParam<StubKind> {};

TEST_P(ShadowStackTest, EachReturnGoesWhereItsCallSaid) {
  const std::string stub = TheStub(GetParam());
  constexpr size_t kPage = 4096;
  void* code = mmap(nullptr, kPage, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(code, MAP_FAILED);
  memcpy(code, stub.data(), stub.size());
  {
    SteppedChild child(code);
    ASSERT_TRUE(child.ok());
    std::vector<uint64_t> shadow;
    int calls = 0;
    constexpr int kMostSteps = 200'000;
    int steps = 0;
    while (child.ip() != AddressOf(Continue).value()) {
      ASSERT_LT(++steps, kMostSteps) << absl::StrCat("at ", absl::Hex(child.ip()));
      const Flow flow = FlowOf(child.Word(child.ip()));
      ASSERT_TRUE(child.Step()) << "after " << steps << " instructions";
      if (flow == Flow::kCall) {
        shadow.push_back(child.Top());
        ++calls;
      } else if (flow == Flow::kReturn) {
        ASSERT_FALSE(shadow.empty()) << "a return without a call";
        ASSERT_EQ(child.ip(), shadow.back());
        shadow.pop_back();
      }
    }
    EXPECT_TRUE(shadow.empty());
    EXPECT_GE(calls, GetParam() == StubKind::kByPath ? 5 : 1);
    if (GetParam() == StubKind::kByPath) {
      EXPECT_EQ(child.Word(reinterpret_cast<uint64_t>(&started)), 1u)
          << "the collector was not started";
    }
  }
  munmap(code, kPage);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ShadowStackTest,
                         testing::Values(StubKind::kByPath, StubKind::kByDescriptor),
                         [](const auto& test) {
                           return std::string(test.param == StubKind::kByPath
                                                  ? "ByPath"
                                                  : "ByDescriptor");
                         });

}  // namespace
}  // namespace rocattach
