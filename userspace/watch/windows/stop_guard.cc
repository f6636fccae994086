#include "userspace/watch/windows/stop_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "injector/tracing/tracee.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Maximum time for which the service is continued to release its tracees; if that is
// not enough, it is continued again at the next check.
constexpr int kLetGoMsec = 100;
// Maximum duration of a stop: until the last thread has left the kernel.
constexpr int kStopMsec = 50;

// Memory that both processes share.
struct Shared {
  TraceGate gate;
  std::atomic<uint32_t> continues = 0;  // SIGCONTs that others have sent the service
  std::atomic<pid_t> guard = 0;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// For the signal handler, which cannot reach it otherwise. Never unmapped.
std::atomic<Shared*> shared_with_handler = nullptr;

void CountContinue(int, siginfo_t* info, void*) {
  Shared* shared = shared_with_handler.load(std::memory_order_acquire);
  if (shared != nullptr && info->si_pid != shared->guard.load()) ++shared->continues;
}

// The following functions run in the guard, which was forked from a process that may
// have threads: system calls only.

void NapUsec(long usec) {
  const timespec time = {0, usec * 1000};
  nanosleep(&time, nullptr);
}

// `stat` is open on /proc/PID/stat. A stop by a debugger ('t') must not be ended.
bool IsStopped(int stat) {
  char text[512];
  const ssize_t n = pread(stat, text, sizeof(text) - 1, 0);
  if (n <= 0) return false;
  text[n] = '\0';
  const char* state = strrchr(text, ')');
  return state != nullptr && state[1] == ' ' && state[2] == 'T';
}

// Continues the service until it has released its tracees, and stops it again, unless
// another process has continued it meanwhile. Of three orders only the first is undone:
// 1. Others continue it, then the guard stops it: their SIGCONT has been counted when
//    the guard's SIGSTOP is sent, and it must not be lost.
// 2. The guard stops it, then others continue it: the service is running already.
// 3. As 2, then others stop it again: a SIGCONT by the guard would undo what they did
//    last. So the count is read at the SIGSTOP, not when the service has stopped.
void LetTraceesGo(Shared* shared, pid_t service, int stat) {
  const uint32_t continues = shared->continues.load();
  shared->gate.closed.store(1);
  kill(service, SIGCONT);
  for (int i = 0; i < kLetGoMsec * 5 && shared->gate.tracees.load() != 0; ++i) {
    NapUsec(200);
  }
  if (shared->continues.load() == continues) {
    kill(service, SIGSTOP);
    const bool crossed = shared->continues.load() != continues;
    if (crossed) kill(service, SIGCONT);
    for (int i = 0; !crossed && i < kStopMsec * 5 && !IsStopped(stat) &&
                    shared->continues.load() == continues;
         ++i) {
      NapUsec(200);
    }
  }
  shared->gate.closed.store(0);
}

[[noreturn]] void Guard(Shared* shared, pid_t service, int alive, int stat,
                        int period) {
  (void)prctl(PR_SET_NAME, "rwa-guard");
  setpgid(0, 0);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  sched_param param = {};
  param.sched_priority = 1;
  (void)sched_setscheduler(0, SCHED_FIFO, &param);
  for (;;) {
    pollfd fd = {alive, POLLIN, 0};
    if (poll(&fd, 1, period) > 0) _exit(0);
    if (shared->gate.tracees.load() != 0 && IsStopped(stat)) {
      LetTraceesGo(shared, service, stat);
    }
  }
}

// Closes all descriptors but two: the guard would otherwise keep them open.
void CloseOthers(int first, int second) {
  const int low = std::min(first, second), high = std::max(first, second);
  auto close_from_to = [](int from, int to) {
    if (from > to || syscall(SYS_close_range, from, to, 0) == 0) return;
    for (int fd = from; fd <= std::min(to, 65536); ++fd) close(fd);
  };
  close_from_to(0, low - 1);
  close_from_to(low + 1, high - 1);
  close_from_to(high + 1, INT32_MAX);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StopGuard>> StopGuard::Start(uint32_t patience_msec) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ErrnoStatus(errno, "mmap(shared) failed");
  auto* shared = new (memory) Shared;
  ASSIGN_OR_RETURN(UniqueFd stat, OpenFile("/proc/self/stat", O_RDONLY));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe2() failed");
  UniqueFd theirs(ends[0]);
  auto guard = std::unique_ptr<StopGuard>(new StopGuard());
  guard->alive_.reset(ends[1]);
  const int period = static_cast<int>(std::clamp(patience_msec, 1u, 1000u));
  const pid_t service = getpid();
  guard->pid_ = fork();
  if (guard->pid_ < 0) return ErrnoStatus(errno, "fork() failed");
  if (guard->pid_ == 0) {
    CloseOthers(theirs.get(), stat.get());
    Guard(shared, service, theirs.get(), stat.get(), period);
  }
  shared->guard = guard->pid_;
  shared_with_handler.store(shared, std::memory_order_release);
  struct sigaction action = {};
  action.sa_sigaction = CountContinue;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGCONT, &action, nullptr) != 0) {
    return ErrnoStatus(errno, "sigaction(SIGCONT) failed");
  }
  Tracee::UseGate(&shared->gate);
  return guard;
}

StopGuard::~StopGuard() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace rocattach
