// A child process on which the self-tests operate.
#ifndef ROCATTACH_USERSPACE_DOCTOR_TEST_CHILD_H_
#define ROCATTACH_USERSPACE_DOCTOR_TEST_CHILD_H_

#include <sys/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Forked without exec, so that it has this process's addresses. Dies with its parent.
// `work` must not depend on other threads of the parent: the child has only one.
class TestChild {
 public:
  // Forks a child that waits for Go(), calls `work` and exits with status 0.
  static absl::StatusOr<std::unique_ptr<TestChild>> Start(void (*work)());
  // Kills and reaps a child that is still there.
  ~TestChild();
  TestChild(const TestChild&) = delete;
  TestChild& operator=(const TestChild&) = delete;

  pid_t pid() const { return pid_; }
  void Go();
  // The status as from wait(2); DEADLINE_EXCEEDED if it has not ended by then.
  absl::StatusOr<int> Wait(int timeout_msec);

 private:
  TestChild(pid_t pid, UniqueFd go) : pid_(pid), go_(std::move(go)) {}

  pid_t pid_;
  UniqueFd go_;
  bool reaped_ = false;
};

// A function that nothing but a self-test calls: probes are put on it, and its bytes
// are written in children that never run it.
extern "C" void rocattach_doctor_probe_point();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_TEST_CHILD_H_
