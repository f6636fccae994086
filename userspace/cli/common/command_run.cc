#include "userspace/cli/common/command_run.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "userspace/cli/common/parent_process.h"

namespace rocattach {
namespace {

Watcher* running_watcher = nullptr;

void OnSignal(int number, siginfo_t* info, void*) {
  if (running_watcher == nullptr) return;
  // The terminal sends Ctrl-C (SI_KERNEL) to the command as well.
  running_watcher->RequestStop(info->si_code == SI_KERNEL ? 0 : number);
}

}  // namespace

StopSignals::StopSignals(Watcher* watcher) {
  running_watcher = watcher;
  struct sigaction action = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  running_watcher = nullptr;
}

void ExitIfKept(const Watcher& watcher, int status) {
  if (watcher.HasKeptThreads()) ExitWithKept(status);
}

void ExitWithKept(int status) {
  fflush(nullptr);
  EndParent(status);
  _exit(status);
}

int CommandExit(const absl::Status& status) {
  return absl::IsNotFound(status) ? kExitNoCommand : kExitCannotExecute;
}

int ExitStatusOfCommand(const RunResult& result) {
  if (!result.command_status.has_value()) return 0;
  const int status = *result.command_status;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace rocattach
