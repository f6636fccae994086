#include "userspace/library/detached_spawn.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"

// glibc's other name for clone(2). ThreadSanitizer replaces clone by a function that
// expects a copy of the memory, and would forget the threads of this process.
extern "C" int __clone(int (*run)(void*), void* stack, int flags, void* data, ...);

namespace rocattach {
namespace {

constexpr size_t kStackBytes = 128 << 10;

struct Request {
  const char* program;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  char* const* arguments;
  char* const* environment;
  pid_t pid = -1;
  int pidfd = -1;
  int error = 0;
};

// The process in between: shares the memory and the descriptors of the calling thread,
// which waits. The new process cannot be reaped until this one has ended, so the pidfd
// is the right one.
__attribute__((no_sanitize("thread"))) int SpawnAndEnd(void* data) {
  auto* request = static_cast<Request*>(data);
  request->error =
      posix_spawn(&request->pid, request->program, &request->actions,
                  &request->attributes, request->arguments, request->environment);
  if (request->error != 0) return 0;
  request->pidfd = static_cast<int>(syscall(SYS_pidfd_open, request->pid, 0));
  if (request->pidfd < 0) {
    request->error = errno;
    kill(request->pid, SIGKILL);
  }
  return 0;
}

// Can fail only for lack of memory.
int Prepare(Request* request, int input, int output, int errors) {
  posix_spawn_file_actions_t* actions = &request->actions;
  int error = posix_spawn_file_actions_adddup2(actions, input, STDIN_FILENO);
  if (error == 0) {
    error = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
  }
  if (error == 0) {
    error = posix_spawn_file_actions_adddup2(actions, errors, STDERR_FILENO);
  }
  if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(actions, 3);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&request->attributes, &none);
  posix_spawnattr_setsigdefault(&request->attributes, &all);
  posix_spawnattr_setflags(&request->attributes, POSIX_SPAWN_SETSID |
                                                     POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF);
  return error;
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words)
    pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Runs SpawnAndEnd in a process without an exit signal, so that wait calls do not see
// it unless they ask for such children.
int RunInBetween(Request* request) {
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return errno;
  // No signal handler of the host may run in that process.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t between = __clone(SpawnAndEnd, static_cast<char*>(stack) + kStackBytes,
                                CLONE_VM | CLONE_VFORK | CLONE_FILES, request);
  const int error = between < 0 ? errno : 0;
  if (between > 0) {
    while (waitpid(between, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  munmap(stack, kStackBytes);
  return error;
}

}  // namespace

absl::StatusOr<DetachedProcess> SpawnDetached(
    const std::string& program, const std::vector<std::string>& arguments,
    const std::vector<std::string>& environment, int input, int output, int errors) {
  const std::vector<char*> argv = Pointers(arguments), envp = Pointers(environment);
  Request request;
  request.program = program.c_str();
  request.arguments = argv.data();
  request.environment = envp.data();
  posix_spawn_file_actions_init(&request.actions);
  posix_spawnattr_init(&request.attributes);
  absl::Cleanup destroy = [&request] {
    posix_spawn_file_actions_destroy(&request.actions);
    posix_spawnattr_destroy(&request.attributes);
  };
  int error = Prepare(&request, input, output, errors);
  if (error == 0) error = RunInBetween(&request);
  if (error == 0) error = request.error;
  if (error != 0) {
    return ErrnoStatus(error, absl::StrCat("starting ", program, " failed"));
  }
  return DetachedProcess{request.pid, UniqueFd(request.pidfd)};
}

}  // namespace rocattach
