#include "injector/tracing/trace_calls.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "injector/tracing/wait_alarm.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

void* Word(uint64_t value) {
  return reinterpret_cast<void*>(value);
}

int Result(long rc) {
  return rc == 0 ? 0 : errno;
}

// Since Linux 6.4 (include/uapi/linux/ptrace.h).
constexpr auto kGetDispatchConfig = static_cast<__ptrace_request>(0x4211);
struct DispatchConfig {
  uint64_t mode;  // PR_SYS_DISPATCH_ON or _OFF
  uint64_t selector;
  uint64_t offset;
  uint64_t length;
};

class KernelCalls : public TraceCalls {
 public:
  // Without options, so that the target cannot notice it.
  int Seize(pid_t tid) override {
    return Result(ptrace(PTRACE_SEIZE, tid, nullptr, nullptr));
  }
  int Interrupt(pid_t tid) override {
    return Result(ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr));
  }
  int Continue(pid_t tid, int signal) override {
    return Result(
        ptrace(PTRACE_CONT, tid, nullptr, Word(static_cast<uint64_t>(signal))));
  }
  int DistinguishSystemCalls(pid_t tid) override {
    return Result(
        ptrace(PTRACE_SETOPTIONS, tid, nullptr, Word(uint64_t{PTRACE_O_TRACESYSGOOD})));
  }
  int ContinueToSystemCall(pid_t tid, int signal) override {
    return Result(
        ptrace(PTRACE_SYSCALL, tid, nullptr, Word(static_cast<uint64_t>(signal))));
  }
  int GetSystemCall(pid_t tid, SystemCallStop* stop) override {
    __ptrace_syscall_info info = {};
    // Returns the number of bytes that are available.
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0) return errno;
    stop->at_end = info.op == PTRACE_SYSCALL_INFO_EXIT;
    stop->ip = info.instruction_pointer;
    stop->result = stop->at_end ? info.exit.rval : 0;
    return 0;
  }
  int Detach(pid_t tid, int signal) override {
    return Result(
        ptrace(PTRACE_DETACH, tid, nullptr, Word(static_cast<uint64_t>(signal))));
  }
  int Listen(pid_t tid) override {
    return Result(ptrace(PTRACE_LISTEN, tid, nullptr, nullptr));
  }
  int GetSignalInfo(pid_t tid, siginfo_t* info) override {
    return Result(ptrace(PTRACE_GETSIGINFO, tid, nullptr, info));
  }
  int GetRegisters(pid_t tid, user_regs_struct* registers, size_t* bytes) override {
    iovec vector = {registers, sizeof(*registers)};
    const int error = Result(ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &vector));
    *bytes = vector.iov_len;
    return error;
  }
  int GetDispatch(pid_t tid, bool* on) override {
    DispatchConfig config = {};
    const int error =
        Result(ptrace(kGetDispatchConfig, tid, Word(sizeof(config)), &config));
    *on = error == 0 && config.mode != PR_SYS_DISPATCH_OFF;
    return error;
  }
  int SetRegisters(pid_t tid, const user_regs_struct& registers) override {
    user_regs_struct copy = registers;
    iovec part = {&copy, sizeof(copy)};
    return Result(
        ptrace(PTRACE_SETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &part));
  }
  int PokeUser(pid_t tid, size_t offset, uint64_t value) override {
    return Result(ptrace(PTRACE_POKEUSER, tid, offset, Word(value)));
  }
  int PeekData(pid_t tid, uint64_t address, uint64_t* word) override {
    errno = 0;
    *word = static_cast<uint64_t>(ptrace(PTRACE_PEEKDATA, tid, Word(address), nullptr));
    return errno;
  }
  int PokeData(pid_t tid, uint64_t address, uint64_t word) override {
    return Result(ptrace(PTRACE_POKEDATA, tid, Word(address), Word(word)));
  }

  int Peek(pid_t tid, bool block, std::optional<WaitStatus>* status) override {
    status->reset();
    siginfo_t info = {};
    const int options = WEXITED | WSTOPPED | WNOWAIT | __WALL | (block ? 0 : WNOHANG);
    int rc;
    do {
      rc = waitid(P_PID, static_cast<id_t>(tid), &info, options);
    } while (rc != 0 && errno == EINTR && !block);
    if (rc != 0) return errno == EINTR ? 0 : errno;
    if (info.si_pid != 0) {
      status->emplace(WaitStatus::FromWaitid(info.si_code, info.si_status));
    }
    return 0;
  }
  void Collect(pid_t tid) override {
    siginfo_t info = {};
    (void)waitid(P_PID, static_cast<id_t>(tid), &info, WEXITED | WNOHANG | __WALL);
  }
  absl::StatusOr<ThreadStatus> ReadStatus(pid_t pid, pid_t tid) override {
    return ReadThreadStatus(pid, tid);
  }
  pid_t Self() override { return getpid(); }

  uint64_t NowNs() override { return BootNs(); }
  void Yield() override { sched_yield(); }
  void Sleep(uint64_t ns) override {
    timespec nap = {static_cast<time_t>(ns / 1'000'000'000),
                    static_cast<long>(ns % 1'000'000'000)};
    nanosleep(&nap, nullptr);
  }
  bool ArmAlarm(uint64_t after_ns) override {
    return WaitAlarm::OfThisThread().Arm(after_ns);
  }
  void DisarmAlarm() override { WaitAlarm::OfThisThread().Disarm(); }
};

}  // namespace

TraceCalls& TraceCalls::Kernel() {
  static KernelCalls calls;
  return calls;
}

}  // namespace rocattach
