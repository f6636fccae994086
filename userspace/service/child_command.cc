#include "userspace/service/child_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/process.h"

namespace rocattach {

absl::StatusOr<std::unique_ptr<ChildCommand>> ChildCommand::Start(
    const std::vector<std::string>& command, const DescriptorLimit& descriptors,
    Output output) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // The errno of exec is returned through a pipe that a successful exec closes.
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe2() failed");
  UniqueFd reader(fds[0]), writer(fds[1]);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork() failed");
  if (child == 0) {
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
    // The command may outlive the service, like any child of a shell, but it must not
    // run unprofiled if the service ended before this.
    if (getppid() != parent) _exit(127);
    descriptors.Restore();
    // If there is no standard error, the command's output is lost rather than mixed
    // into the recording.
    if (output == Output::kStandardError && dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
      close(STDOUT_FILENO);
    }
    execvp(argv[0], argv.data());
    int error = errno;
    (void)!write(writer.get(), &error, sizeof(error));
    _exit(127);
  }
  writer.reset();
  int error = 0;
  if (read(reader.get(), &error, sizeof(error)) ==
      static_cast<ssize_t>(sizeof(error))) {
    waitpid(child, nullptr, 0);
    return ErrnoStatus(error, absl::StrCat("cannot run ", command[0]));
  }
  auto started = std::unique_ptr<ChildCommand>(new ChildCommand(child));
  if (auto fd = OpenPidFd(child); fd.ok()) started->pidfd_ = *std::move(fd);
  return started;
}

std::optional<int> ChildCommand::TryWait() const {
  int status = 0;
  if (waitpid(pid_, &status, __WNOTHREAD | WNOHANG) != pid_) return std::nullopt;
  return status;
}

// One by one: waitpid(-1) could consume a ptrace stop of an attach thread, and the
// caller needs the command's own status.
void ReapOrphans(const ChildCommand* command) {
  const pid_t child = command != nullptr ? command->pid() : -1;
  for (;;) {
    siginfo_t info = {};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WNOTHREAD) != 0 ||
        info.si_pid == 0 || info.si_pid == child) {
      return;
    }
    waitpid(info.si_pid, nullptr, WNOHANG | __WNOTHREAD);
  }
}

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  std::vector<std::string> candidates;
  if (absl::StrContains(name, '/')) {
    candidates.push_back(name);
  } else if (!name.empty()) {
    const char* path = getenv("PATH");
    for (absl::string_view entry : absl::StrSplit(path ? path : "/bin:/usr/bin", ':')) {
      candidates.push_back(entry.empty() ? name : absl::StrCat(entry, "/", name));
    }
  }
  // As execvp does: EACCES is returned only if no executable program is found.
  int error = ENOENT;
  for (const std::string& candidate : candidates) {
    struct stat info;
    if (access(candidate.c_str(), X_OK) == 0 && stat(candidate.c_str(), &info) == 0 &&
        S_ISREG(info.st_mode)) {
      return candidate;
    }
    if (access(candidate.c_str(), F_OK) == 0 || errno == EACCES) error = EACCES;
  }
  return ErrnoStatus(error, absl::StrCat("cannot run ", name));
}

}  // namespace rocattach
