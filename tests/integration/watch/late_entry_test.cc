// Processes that end while they are being entered late.
#include "userspace/watch/late/late_entry.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "userspace/base/process.h"
#include "userspace/watch/windows/kernel_probe.h"
#include "userspace/watch/windows/window_attacher.h"
#include "userspace/watch/windows/window_policy.h"

namespace rocattach::testing_support {
namespace {

// Collects the windows.
class Windows : public WindowSink {
 public:
  void OnWindow(Window window) override { all_.push_back(std::move(window)); }
  void OnReady(const rocattach_event&) override { ADD_FAILURE() << "a report"; }
  void OnEvent(const rocattach_event&) override {}
  const std::vector<Window>& all() const { return all_; }

 private:
  std::vector<Window> all_;
};

// A window of a process whose end is recorded already would look like that of another
// process with its ID.
TEST(LateEntryTest, AProcessThatHasEndedGetsNoWindow) {
  SKIP_WITHOUT_PRIVILEGES();
  auto probe = KernelProbe::Load({});
  ASSERT_TRUE(probe.ok()) << probe.status();
  Windows windows;
  WindowAttacher attacher(probe->get(), &windows, {});
  const WindowPolicy policy((WindowPolicyOptions()));
  LateEntry late(&attacher, &policy);
  const pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  ASSERT_GT(pid, 0);
  const LateTarget target = {.process = IdentityOf(pid)};
  kill(pid, SIGKILL);
  siginfo_t info;
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  for (const bool returns_unentered : {false, true}) {
    const absl::Status zombie = late.Blocked(target, returns_unentered);
    EXPECT_TRUE(absl::IsNotFound(zombie)) << zombie;
  }
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  for (const bool returns_unentered : {false, true}) {
    const absl::Status gone = late.Blocked(target, returns_unentered);
    EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  }
  EXPECT_TRUE(windows.all().empty());
}

}  // namespace
}  // namespace rocattach::testing_support
