// Runs a program that uses the injector, in a process of its own: tests make it fail or
// die at any instant.
#ifndef ROCATTACH_TESTS_INTEGRATION_INJECTOR_RUNNER_PROCESS_H_
#define ROCATTACH_TESTS_INTEGRATION_INJECTOR_RUNNER_PROCESS_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace rocattach {

struct RunnerResult {
  int status = -1;
  std::string output;
};

class RunnerProcess {
 public:
  // `fault`: the step at which it fails or dies; empty: none.
  RunnerProcess(std::vector<std::string> command, const std::string& fault) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    out_.reset(ends[0]);
    UniqueFd in(ends[1]);
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      if (!fault.empty()) setenv("ROCATTACH_FAULT", fault.c_str(), 1);
      dup2(in.get(), STDOUT_FILENO);
      execv(arguments[0], arguments.data());
      _exit(94);
    }
  }
  // Waits until it is about to begin.
  void WaitForBegin() {
    for (char c = 0; c != '\n' && HasOutput() && read(out_.get(), &c, 1) == 1;) {
    }
  }
  void Kill() const { kill(pid_, SIGKILL); }
  RunnerResult Wait() {
    RunnerResult result;
    char chunk[1024];
    for (ssize_t n; HasOutput() && (n = read(out_.get(), chunk, sizeof(chunk))) > 0;) {
      result.output.append(chunk, static_cast<size_t>(n));
    }
    EXPECT_EQ(waitpid(pid_, &result.status, 0), pid_);
    return result;
  }

 private:
  // Waits for output or its end. A runner that hangs is killed, and the test fails.
  bool HasOutput() const {
    pollfd ready = {out_.get(), POLLIN, 0};
    if (poll(&ready, 1, /*timeout=*/60'000) != 0) return true;
    ADD_FAILURE() << "the runner writes nothing and does not end";
    Kill();
    return false;
  }

  pid_t pid_ = -1;
  UniqueFd out_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_INJECTOR_RUNNER_PROCESS_H_
