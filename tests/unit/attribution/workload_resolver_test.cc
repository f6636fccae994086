#include "userspace/attribution/workload_resolver.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

class ReadWorkloadTest : public testing::Test {
 protected:
  ReadWorkloadTest() {
    std::filesystem::create_directory(proc_ / "7");
    Write("stat", "7 (a) b) c) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1007 0 0\n");
    Write("cgroup", "0::/docker/" + std::string(64, 'a') + "\n");
    Write("environ", std::string("SLURM_JOB_ID=42\0", 16));
    std::filesystem::create_symlink("/opt/train (deleted)", proc_ / "7/exe");
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(proc_ / ("7/" + name)) << text;
  }

  const testing_support::TemporaryDirectory proc_;
};

TEST_F(ReadWorkloadTest, IsComplete) {
  WorkloadProblems problems;
  const auto workload = ReadWorkload({7, 1007}, proc_.path(), &problems);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_EQ(workload->executable, "/opt/train");
  EXPECT_EQ(workload->container_id, std::string(64, 'a'));
  EXPECT_EQ(workload->slurm_job, "42");
  EXPECT_FALSE(problems.unreadable);
  EXPECT_FALSE(problems.invalid);
}

TEST_F(ReadWorkloadTest, AJobThatCannotBeOneIsNoted) {
  Write("environ", std::string("SLURM_JOB_ID=4;2\0", 17));
  WorkloadProblems problems;
  const auto workload = ReadWorkload({7, 1007}, proc_.path(), &problems);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_EQ(workload->slurm_job, "");
  EXPECT_TRUE(problems.invalid);
  EXPECT_FALSE(problems.unreadable);
}

TEST_F(ReadWorkloadTest, AnotherProcessOfThatNumberIsNotMistaken) {
  EXPECT_TRUE(absl::IsNotFound(ReadWorkload({7, 1008}, proc_.path()).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadWorkload({8, 1007}, proc_.path()).status()));
  for (const char* stat : {"", "7", "7 (a", "7 (a) S 1 2", ")"}) {
    Write("stat", stat);
    EXPECT_TRUE(absl::IsNotFound(ReadWorkload({7, 1007}, proc_.path()).status()))
        << stat;
  }
}

TEST_F(ReadWorkloadTest, WhatIsTooLongIsNotRead) {
  Write("cgroup", std::string(1 << 20, 'x'));
  Write("environ", std::string(2 << 20, '\0') + "SLURM_JOB_ID=42");
  WorkloadProblems problems;
  const auto workload = ReadWorkload({7, 1007}, proc_.path(), &problems);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_TRUE(problems.unreadable);
  EXPECT_EQ(workload->container_id, "");
  EXPECT_EQ(workload->slurm_job, "");
  EXPECT_EQ(workload->executable, "/opt/train");
}

TEST(WorkloadResolverTest, FindsThisProcessAndNotOneThatHasEnded) {
  const ProcessId self = {getpid(), *ReadStartTicks(getpid())};
  const ProcessId ended = {self.pid, self.start_ticks - 1};
  WorkloadIdentity found, of_ended;
  absl::Notification done;
  WorkloadResolver resolver([&](const ProcessId& process, WorkloadIdentity workload) {
    (process == self ? found : of_ended) = std::move(workload);
    if (process == self) done.Notify();
  });
  resolver.Request(ended, 5);
  resolver.Request(self, 6);
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_EQ(found.executable, *ReadExecutable(getpid()));
  EXPECT_EQ(found.cgroup_id, 6u);
  WorkloadIdentity only_captured;
  only_captured.cgroup_id = 5;
  EXPECT_EQ(of_ended, only_captured);
  EXPECT_EQ(resolver.failures().ended, 1u);
}

TEST(WorkloadResolverTest, RequestsAreBoundedWhileOneIsSlow) {
  absl::Notification begun, release;
  bool first = true;
  WorkloadResolver resolver([&](const ProcessId&, WorkloadIdentity) {
    if (!std::exchange(first, false)) return;
    begun.Notify();
    release.WaitForNotification();
  });
  resolver.Request({1, 0}, 0);
  ASSERT_TRUE(begun.WaitForNotificationWithTimeout(absl::Seconds(60)));
  for (size_t i = 0; i < WorkloadResolver::kMostWaiting + 3; ++i) {
    resolver.Request({1, 0}, 0);
  }
  EXPECT_EQ(resolver.failures().crowded, 3u);
  release.Notify();
}

}  // namespace
}  // namespace rocattach
