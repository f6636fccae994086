#include "userspace/doctor/test_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"

namespace rocattach {

extern "C" __attribute__((noinline)) void rocattach_doctor_probe_point() {
  // More than eight bytes of code that the compiler cannot leave out.
  asm volatile("nop; nop; nop; nop; nop; nop; nop; nop" ::: "memory");
}

absl::StatusOr<std::unique_ptr<TestChild>> TestChild::Start(void (*work)()) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe2() failed");
  UniqueFd reader(fds[0]), writer(fds[1]);
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "fork() failed");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    writer.reset();
    char byte;
    ssize_t n;
    do {
      n = read(reader.get(), &byte, 1);
    } while (n < 0 && errno == EINTR);
    // The parent exited before prctl took effect, or abandoned the test.
    if (n != 1 || getppid() != parent) _exit(1);
    work();
    _exit(0);
  }
  return std::unique_ptr<TestChild>(new TestChild(pid, std::move(writer)));
}

TestChild::~TestChild() {
  if (reaped_) return;
  kill(pid_, SIGKILL);
  int status;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

void TestChild::Go() {
  char byte = 1;
  (void)!write(go_.get(), &byte, 1);
}

absl::StatusOr<int> TestChild::Wait(int timeout_msec) {
  uint64_t deadline = BootNs() + static_cast<uint64_t>(timeout_msec) * 1'000'000;
  for (;;) {
    int status = 0;
    pid_t got = waitpid(pid_, &status, WNOHANG);
    if (got == pid_) {
      reaped_ = true;
      return status;
    }
    if (got < 0 && errno != EINTR) {
      return ErrnoStatus(errno, absl::StrCat("waitpid(", pid_, ") failed"));
    }
    if (BootNs() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "process ", pid_, " has not ended within ", timeout_msec, " ms"));
    }
    poll(nullptr, 0, 1);
  }
}

}  // namespace rocattach
