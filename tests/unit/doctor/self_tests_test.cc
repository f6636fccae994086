#include "userspace/doctor/self_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "userspace/doctor/test_child.h"

namespace rocattach {
namespace {

void Exit7() {
  _exit(7);
}

TEST(TestChild, WaitsForGo) {
  auto child = TestChild::Start(Exit7);
  ASSERT_TRUE(child.ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded((*child)->Wait(20).status()));
  (*child)->Go();
  auto status = (*child)->Wait(30'000);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(WIFEXITED(*status));
  EXPECT_EQ(WEXITSTATUS(*status), 7);
}

TEST(TestChild, LeavesNothingBehind) {
  pid_t pid;
  {
    auto child = TestChild::Start(Exit7);
    ASSERT_TRUE(child.ok());
    pid = (*child)->pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1);
}

TEST(OwnFileOffset, PointsAtTheSameBytes) {
  auto offset = OwnFileOffset(rocattach_doctor_probe_point);
  ASSERT_TRUE(offset.ok()) << offset.status();
  FILE* file = fopen("/proc/self/exe", "rb");
  ASSERT_NE(file, nullptr);
  char bytes[8] = {};
  ASSERT_EQ(fseek(file, static_cast<long>(*offset), SEEK_SET), 0);
  ASSERT_EQ(fread(bytes, 1, sizeof(bytes), file), sizeof(bytes));
  fclose(file);
  EXPECT_EQ(memcmp(bytes, reinterpret_cast<void*>(&rocattach_doctor_probe_point),
                   sizeof(bytes)),
            0);
}

// A process may trace its children without privileges, unless it is traced itself or a
// policy forbids it; then the check has to say so.
TEST(CheckPtrace, TracesAChild) {
  Check check = CheckPtrace();
  if (check.state == CheckState::kFailed) {
    EXPECT_FALSE(check.remedy.empty());
    ASSERT_EQ(getenv("CI"), nullptr) << check.found;
    GTEST_SKIP() << "ptrace is not permitted here: " << check.found;
  }
  EXPECT_THAT(check.found, testing::HasSubstr("a child was stopped after"));
}

TEST(CheckWindow, RemedyNamesTheCheckThatItDependsOn) {
  Check check = CheckWindow(Capabilities(), nullptr);
  EXPECT_EQ(check.state, CheckState::kUnchecked);
  EXPECT_THAT(check.remedy, testing::HasSubstr("'hold'"));
}

}  // namespace
}  // namespace rocattach
