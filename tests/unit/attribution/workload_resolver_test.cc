#include "userspace/attribution/workload_resolver.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/temporary_directory.h"
#include "tests/unit/attribution/test_groups.h"

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
  WorkloadReading problems;
  const auto workload = ReadWorkload({7, 1007}, proc_.path(), &problems);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_EQ(workload->executable, "/opt/train");
  EXPECT_EQ(workload->container_id, std::string(64, 'a'));
  EXPECT_EQ(workload->slurm_job, "42");
  EXPECT_FALSE(problems.unreadable);
  EXPECT_FALSE(problems.invalid);
}

TEST_F(ReadWorkloadTest, ReportsAnInvalidSlurmJobId) {
  Write("environ", std::string("SLURM_JOB_ID=4;2\0", 17));
  WorkloadReading problems;
  const auto workload = ReadWorkload({7, 1007}, proc_.path(), &problems);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_EQ(workload->slurm_job, "");
  EXPECT_TRUE(problems.invalid);
  EXPECT_FALSE(problems.unreadable);
}

TEST_F(ReadWorkloadTest, AReusedProcessIdIsNotMistaken) {
  EXPECT_TRUE(absl::IsNotFound(ReadWorkload({7, 1008}, proc_.path()).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadWorkload({8, 1007}, proc_.path()).status()));
  for (const char* stat : {"", "7", "7 (a", "7 (a) S 1 2", ")"}) {
    Write("stat", stat);
    EXPECT_TRUE(absl::IsNotFound(ReadWorkload({7, 1007}, proc_.path()).status()))
        << stat;
  }
}

TEST_F(ReadWorkloadTest, FilesThatAreTooLongAreNotRead) {
  Write("cgroup", std::string(1 << 20, 'x'));
  Write("environ", std::string(2 << 20, '\0') + "SLURM_JOB_ID=42");
  WorkloadReading problems;
  const auto workload = ReadWorkload({7, 1007}, proc_.path(), &problems);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_TRUE(problems.unreadable);
  EXPECT_EQ(workload->container_id, "");
  EXPECT_EQ(workload->slurm_job, "");
  EXPECT_EQ(workload->executable, "/opt/train");
}

// Latest answer of the resolver for each process.
class Answers {
 public:
  WorkloadResolver::FoundFunction Function() {
    return [this](const ProcessId& process, WorkloadIdentity workload) {
      absl::MutexLock lock(&mutex_);
      found_[process] = std::move(workload);
      ++answers_;
    };
  }
  template <typename Wanted>
  WorkloadIdentity Await(const ProcessId& process, Wanted wanted) {
    absl::MutexLock lock(&mutex_);
    const auto is_there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      const auto found = found_.find(process);
      return found != found_.end() && wanted(found->second);
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&is_there), absl::Seconds(60)));
    return found_[process];
  }
  WorkloadIdentity Await(const ProcessId& process) {
    return Await(process, [](const WorkloadIdentity&) { return true; });
  }
  int answers() const {
    absl::MutexLock lock(&mutex_);
    return answers_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<ProcessId, WorkloadIdentity> found_ ABSL_GUARDED_BY(mutex_);
  int answers_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(WorkloadResolverTest, FindsThisProcessAndNotOneThatHasEnded) {
  const ProcessId self = {getpid(), *ReadStartTicks(getpid())};
  const ProcessId ended = {self.pid, self.start_ticks - 1};
  Answers answers;
  WorkloadResolver resolver(answers.Function());
  resolver.Request(ended, 5);
  resolver.Request(self, 6);
  // The answers come in any order: a user's processes are read beside the resolver.
  const WorkloadIdentity found = answers.Await(self);
  const WorkloadIdentity of_ended = answers.Await(ended);
  EXPECT_EQ(found.executable, *ReadExecutable(getpid()));
  EXPECT_EQ(found.cgroup_id, 6u);
  WorkloadIdentity only_captured;
  only_captured.cgroup_id = 5;
  EXPECT_EQ(of_ended, only_captured);
  EXPECT_EQ(resolver.failures().ended, 1u);
}

constexpr char kPodUid[] = "0f3c1a2b-1234-4abc-9def-00112233aabb";

class BackfillTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!groups_.possible()) GTEST_SKIP() << "no control groups can be made";
    group_ = groups_.Add("kubepods/pod" + std::string(kPodUid) + "/" + id_);
    ASSERT_NE(group_, 0u);
  }

  const std::string id_ = std::string(64, 'd');
  testing_support::TestGroups groups_;
  uint64_t group_ = 0;
  // No process can have these IDs.
  const ProcessId ended_ = {(1 << 22) + 1, 5}, later_ = {(1 << 22) + 2, 6};
};

TEST_F(BackfillTest, AProcessThatHasEndedIsKnownByItsGroup) {
  Answers answers;
  WorkloadResolver resolver(answers.Function());
  resolver.Request(ended_, group_);
  const WorkloadIdentity found = answers.Await(ended_);
  EXPECT_EQ(found.pod_uid, kPodUid);
  EXPECT_EQ(found.container_id, id_);
  EXPECT_EQ(found.cgroup_id, group_);
  EXPECT_EQ(found.executable, "");
  EXPECT_EQ(resolver.failures().group_only, 1u);
  EXPECT_EQ(resolver.failures().ended, 0u);
}

TEST_F(BackfillTest, AGroupThatIsGoneTooIsKnownByAnEarlierProcess) {
  Answers answers;
  WorkloadResolver resolver(answers.Function());
  resolver.Request(ended_, group_);
  (void)answers.Await(ended_);
  groups_.RemoveLast();
  resolver.Request(later_, group_);
  const WorkloadIdentity found = answers.Await(later_);
  EXPECT_EQ(found.pod_uid, kPodUid);
  EXPECT_EQ(found.container_id, id_);
}

TEST_F(BackfillTest, AProcessWithoutAnyTraceIsCounted) {
  groups_.RemoveLast();
  Answers answers;
  WorkloadResolver resolver(answers.Function());
  resolver.Request(ended_, group_);
  EXPECT_EQ(answers.Await(ended_).pod_uid, "");
  EXPECT_EQ(resolver.failures().ended, 1u);
  EXPECT_EQ(resolver.failures().group_only, 0u);
}

TEST_F(ReadWorkloadTest, AnIncompleteWorkloadIsTriedAgain) {
  Answers answers;
  int asked = 0;
  WorkloadResolver::Options options;
  options.found = answers.Function();
  options.proc = proc_.path();
  options.first_pause = absl::Milliseconds(1);
  options.complete = [&](const ProcessId&, WorkloadIdentity* workload) {
    if (++asked < 3) return false;
    workload->pod = "trainer-0";
    return true;
  };
  WorkloadResolver resolver(std::move(options));
  resolver.Request({7, 1007}, 5);
  const WorkloadIdentity found = answers.Await(
      {7, 1007}, [](const WorkloadIdentity& w) { return !w.pod.empty(); });
  EXPECT_EQ(found.container_id, std::string(64, 'a'));
  EXPECT_EQ(found.slurm_job, "42");
  EXPECT_TRUE(resolver.Stop(absl::Hours(1)));
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(answers.answers(), 2) << "nothing is told again that has not changed";
}

TEST_F(ReadWorkloadTest, AnUnreadableGroupIsReadAgain) {
  std::filesystem::remove(proc_ / "7/cgroup");
  Answers answers;
  WorkloadResolver::Options options;
  options.found = answers.Function();
  options.proc = proc_.path();
  options.first_pause = absl::Milliseconds(1);
  options.most_tries = 30;
  WorkloadResolver resolver(std::move(options));
  resolver.Request({7, 1007}, 5);
  EXPECT_EQ(answers.Await({7, 1007}).container_id, "");
  Write("cgroup", "0::/docker/" + std::string(64, 'b') + "\n");
  EXPECT_EQ(
      answers
          .Await({7, 1007},
                 [](const WorkloadIdentity& w) { return !w.container_id.empty(); })
          .container_id,
      std::string(64, 'b'));
  EXPECT_TRUE(resolver.Stop(absl::Hours(1)));
  EXPECT_EQ(resolver.failures().unreadable, 0u);
}

TEST_F(ReadWorkloadTest, AGroupThatStaysUnreadableIsGivenUpAndCounted) {
  std::filesystem::remove(proc_ / "7/cgroup");
  Answers answers;
  WorkloadResolver::Options options;
  options.found = answers.Function();
  options.proc = proc_.path();
  options.first_pause = absl::Milliseconds(1);
  options.most_tries = 3;
  WorkloadResolver resolver(std::move(options));
  resolver.Request({7, 1007}, 5);
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (resolver.failures().unreadable == 0 && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(resolver.failures().unreadable, 1u);
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
