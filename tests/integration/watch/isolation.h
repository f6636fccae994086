// Lets tests run side by side although each of their services watches the whole
// machine.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_ISOLATION_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_ISOLATION_H_

#include <string>

#include "userspace/base/unique_fd.h"

namespace rocattach::testing_support {

// Moves this process, and so all that it starts, into a control group of its own, and
// limits the services that it starts to that group (ROCATTACH_CGROUP). Where no control
// group can be created, waits until no other test runs. Undone at the end.
class Isolation {
 public:
  // Once per process; later calls have no effect.
  static void Enter();

  Isolation(const Isolation&) = delete;
  Isolation& operator=(const Isolation&) = delete;
  ~Isolation();

 private:
  Isolation();
  bool EnterGroup();

  pid_t owner_;
  std::string parent_, group_;  // directories; empty: none
  UniqueFd lock_;               // shared by isolated tests
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_ISOLATION_H_
