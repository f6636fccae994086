#include "userspace/service/known_workloads.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace rocattach {
namespace {

class KnownWorkloadsTest : public testing::Test {
 protected:
  static WorkloadIdentity Of(const std::string& executable, const std::string& pod,
                             const std::string& job) {
    WorkloadIdentity workload;
    workload.executable = executable;
    workload.pod = pod;
    workload.slurm_job = job;
    return workload;
  }

  const ProcessId process_ = {7, 1};
  std::vector<std::pair<ProcessId, WorkloadIdentity>> published_;
  KnownWorkloads known_{[this](const ProcessId& process, const WorkloadIdentity& now) {
    published_.emplace_back(process, now);
  }};
};

TEST_F(KnownWorkloadsTest, FindingsFromGpusAndWindowsAreCombined) {
  known_.AddFromWindow(process_, Of("/train", "", ""));
  known_.AddFromGpus(process_, Of("/train", "", "42"));
  known_.AddFromWindow(process_, Of("/train", "trainer-0", ""));
  ASSERT_EQ(published_.size(), 3u);
  EXPECT_EQ(published_[1].second, Of("/train", "", "42"));
  EXPECT_EQ(published_[2].second, Of("/train", "trainer-0", "42")) << "nothing is lost";
}

TEST_F(KnownWorkloadsTest, ProcessesWithoutAWindowAreNotPublished) {
  known_.AddFromGpus(process_, Of("/train", "trainer-0", ""));
  EXPECT_TRUE(published_.empty());
  known_.AddFromWindow(process_, Of("/train", "", "42"));
  ASSERT_EQ(published_.size(), 1u);
  EXPECT_EQ(published_[0].second, Of("/train", "trainer-0", "42"));
}

TEST_F(KnownWorkloadsTest, NothingIsPublishedTwice) {
  known_.AddFromWindow(process_, {});
  known_.AddFromWindow(process_, {});
  known_.AddFromGpus(process_, {});
  EXPECT_EQ(published_.size(), 1u) << "the first time even if nothing is known";
}

TEST_F(KnownWorkloadsTest, AnotherProgramInTheProcessIsKnownByItsWindow) {
  known_.AddFromWindow(process_, Of("/first", "", ""));
  known_.AddFromWindow(process_, Of("/second", "", ""));
  known_.AddFromGpus(process_, Of("/first", "trainer-0", ""));
  EXPECT_EQ(published_.back().second, Of("/second", "trainer-0", ""));
}

TEST_F(KnownWorkloadsTest, TheNumberOfWorkloadsIsBounded) {
  known_.AddFromGpus(process_, Of("", "trainer-0", ""));
  for (pid_t pid = 100; pid < 100 + static_cast<pid_t>(KnownWorkloads::kMost); ++pid) {
    known_.AddFromGpus({pid, 1}, {});
  }
  known_.AddFromWindow(process_, {});
  ASSERT_EQ(published_.size(), 1u);
  EXPECT_EQ(published_[0].second, WorkloadIdentity()) << "forgotten";
}

}  // namespace
}  // namespace rocattach
