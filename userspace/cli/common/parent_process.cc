#include "userspace/cli/common/parent_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

// In the child: the parent, and the pipe in which it waits for a status.
pid_t parent = 0;
int parent_fd = -1;

// Signals that are forwarded: requests to a program. Others have their usual effect.
sigset_t PassedOn() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&signals, number);
  }
  return signals;
}

// Ends as the child did: returns its exit status, or raises the signal that killed it.
int EndAs(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  // No second core file: the child has left one, if enabled.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  signal(number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  raise(number);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  return 128 + number;
}

void PassOn(int signals, pid_t child) {
  signalfd_siginfo info;
  if (read(signals, &info, sizeof(info)) != sizeof(info)) return;
  // A terminal sends its signals to both processes.
  if (info.ssi_code == SI_KERNEL || info.ssi_signo == SIGCHLD) return;
  kill(child, static_cast<int>(info.ssi_signo));
}

int WaitFor(pid_t child, int signals, int told) {
  for (;;) {
    pollfd fds[2] = {{signals, POLLIN, 0}, {told, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return EXIT_FAILURE;
    int32_t status = 0;
    if (fds[1].revents != 0 && read(told, &status, sizeof(status)) == sizeof(status)) {
      return status;
    }
    if (fds[0].revents != 0) PassOn(signals, child);
    int ended = 0;
    if (waitpid(child, &ended, WNOHANG) == child) return EndAs(ended);
    // The pipe is closed just before the child ends.
    if (fds[1].revents != 0 && waitpid(child, &ended, 0) == child) return EndAs(ended);
  }
}

}  // namespace

int RunBelowParent(absl::FunctionRef<int()> run) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return run();
  UniqueFd told(ends[0]), tell(ends[1]);
  sigset_t passed_on = PassedOn(), waited_for = passed_on, before;
  sigaddset(&waited_for, SIGCHLD);
  sigprocmask(SIG_BLOCK, &waited_for, &before);
  const pid_t self = getpid();
  fflush(nullptr);  // otherwise both processes would write it
  const pid_t child = fork();
  if (child > 0) {
    tell.reset();
    const UniqueFd signals(signalfd(-1, &waited_for, SFD_CLOEXEC));
    return WaitFor(child, signals.get(), told.get());
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != self) _exit(EXIT_FAILURE);
    told.reset();
    parent = self;
    parent_fd = tell.release();
  }
  // If fork() failed, `run` runs here, and this process may be unable to end.
  return run();
}

void EndParent(int status) {
  if (parent == 0) return;
  // A reader of the output may wait until it is closed.
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
  const int32_t told = status;
  (void)!write(parent_fd, &told, sizeof(told));
  // Threads that do not end would keep the files of the process open.
  close_range(STDERR_FILENO + 1, ~0U, 0);
}

pid_t MainProcess() {
  return parent != 0 ? parent : getpid();
}

}  // namespace rocattach
