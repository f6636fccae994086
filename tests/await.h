// Waits for what other threads and processes do. ctest ends a test that hangs without a
// message; these waits end earlier, and say what has not come.
#ifndef ROCATTACH_TESTS_AWAIT_H_
#define ROCATTACH_TESTS_AWAIT_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

#include "absl/synchronization/notification.h"

namespace rocattach::testing_support {

// Far longer than any of these waits takes if all is well, also on a slow machine.
inline constexpr std::chrono::seconds kHangLimit(60);

// Polls until `has_come` returns true. If that takes longer than kHangLimit, the test
// fails with `what`, for example "the second request"; returns false.
inline bool Await(const std::function<bool()>& has_come, const std::string& what) {
  const auto end = std::chrono::steady_clock::now() + kHangLimit;
  while (!has_come()) {
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << "waited in vain for " << what;
      return false;
    }
    usleep(200);
  }
  return true;
}

inline bool Await(const absl::Notification& event, const std::string& what) {
  return Await([&event] { return event.HasBeenNotified(); }, what);
}

// Waits for the end of a child process, and returns its status as of wait(2). A child
// that does not end is killed, and the test fails.
inline int AwaitExit(pid_t child, const std::string& what) {
  int status = -1;
  pid_t ended = 0;
  const auto has_ended = [&] {
    ended = waitpid(child, &status, WNOHANG);
    return ended != 0;
  };
  if (!Await(has_ended, "the end of " + what)) {
    kill(child, SIGKILL);
    ended = waitpid(child, &status, 0);
  }
  EXPECT_EQ(ended, child) << what;
  return status;
}

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_AWAIT_H_
