#include "userspace/attribution/pod_logs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/unit/attribution/fake_pod_logs.h"

namespace rocattach {
namespace {

using testing_support::FakePodLogs;

constexpr char kLogUid[] = "0f3c1a2b-1234-4abc-9def-00112233aabb";
constexpr char kOtherLogUid[] = "1f3c1a2b-1234-4abc-9def-00112233aabb";
const std::string kLogId(64, 'a');

class PodLogsTest : public testing::Test {
 protected:
  const FakePodLogs folder_;
  PodLogs logs_{folder_.path()};
};

TEST_F(PodLogsTest, APodAndItsContainerHaveTheirNames) {
  folder_.AddPod("ml", "trainer-0", kLogUid, {"init", "main"});
  folder_.AddContainer("trainer-0", "ml", "main", kLogId);
  EXPECT_FALSE(logs_.Find(kLogUid, kLogId).has_value()) << "nothing was read yet";
  ASSERT_TRUE(logs_.Refresh().ok());
  EXPECT_EQ(logs_.Find(kLogUid, kLogId), (PodName{"ml", "trainer-0", "main"}));
  EXPECT_EQ(logs_.Find(kLogUid, std::string(64, 'b')), (PodName{"ml", "trainer-0", ""}))
      << "one of its two containers";
  EXPECT_FALSE(logs_.Find(kOtherLogUid, "").has_value());
  EXPECT_FALSE(logs_.Find("", kLogId).has_value())
      << "users can give groups the names of containers";
}

TEST_F(PodLogsTest, TheOnlyContainerOfAPodNeedsNoLink) {
  folder_.AddPod("ml", "trainer-0", kLogUid, {"main"});
  ASSERT_TRUE(logs_.Refresh().ok());
  EXPECT_EQ(logs_.Find(kLogUid, kLogId), (PodName{"ml", "trainer-0", "main"}));
}

TEST_F(PodLogsTest, ALinkAloneIsEnough) {
  folder_.AddContainer("trainer.example", "ml", "main-2", kLogId);
  ASSERT_TRUE(logs_.Refresh().ok());
  EXPECT_EQ(logs_.Find(kLogUid, kLogId), (PodName{"ml", "trainer.example", "main-2"}));
}

TEST_F(PodLogsTest, ContradictoryNamesAreNotUsed) {
  folder_.AddPod("ml", "trainer-0", kLogUid, {"a", "b"});
  folder_.AddContainer("other-pod", "ml", "a", kLogId);
  folder_.AddPod("ml", "x", kOtherLogUid, {"a"});
  folder_.AddPod("ml", "y", kOtherLogUid, {"a"});
  ASSERT_TRUE(logs_.Refresh().ok());
  EXPECT_EQ(logs_.Find(kLogUid, kLogId), (PodName{"ml", "trainer-0", ""}));
  EXPECT_FALSE(logs_.Find(kOtherLogUid, "").has_value()) << "two pods of one uid";
  EXPECT_EQ(logs_.failures().malformed, 1u);
}

TEST_F(PodLogsTest, NamesThatTheKubeletDoesNotGiveAreCounted) {
  for (const char* name :
       {"ml_trainer-0", "ml_trainer-0_not-a-uid", "m\"l_trainer-0_0f3c1a2b", "__",
        "ml_a_b_0f3c1a2b", "ml_-a_0f3c1a2b", "ML_a_0f3c1a2b"}) {
    std::filesystem::create_directories(folder_.path() + "/pods/" + name);
  }
  folder_.AddContainer("trainer-0", "ml", "main", "short");
  folder_.AddContainer("trainer-0", "ml", "ma\nin", kLogId);
  ASSERT_TRUE(logs_.Refresh().ok());
  EXPECT_EQ(logs_.failures().malformed, 9u);
  EXPECT_FALSE(logs_.Find("0f3c1a2b", kLogId).has_value());
}

TEST_F(PodLogsTest, ARemovedPodStaysKnown) {
  folder_.AddPod("ml", "trainer-0", kLogUid, {"main"});
  ASSERT_TRUE(logs_.Refresh().ok());
  std::filesystem::remove_all(folder_.path() + "/pods");
  std::filesystem::create_directories(folder_.path() + "/pods");
  ASSERT_TRUE(logs_.Refresh().ok());
  EXPECT_TRUE(logs_.Find(kLogUid, "").has_value()) << "a process may be read late";
}

TEST_F(PodLogsTest, APodThatIsCreatedAgainIsAnotherOne) {
  const PodName pod = {"ml", "trainer-0", ""};
  EXPECT_FALSE(logs_.IsAnother(pod, kLogUid));
  folder_.AddPod("ml", "trainer-0", kOtherLogUid, {"main"});
  ASSERT_TRUE(logs_.Refresh().ok());
  EXPECT_TRUE(logs_.IsAnother(pod, kLogUid));
  EXPECT_FALSE(logs_.IsAnother(pod, kOtherLogUid));
  folder_.AddPod("ml", "trainer-0", kLogUid, {"main"});
  ASSERT_TRUE(logs_.Refresh().ok());
  EXPECT_FALSE(logs_.IsAnother(pod, kLogUid));
}

TEST_F(PodLogsTest, LinksAreNotFollowedAndListsAreBounded) {
  const FakePodLogs elsewhere;
  elsewhere.AddPod("ml", "trainer-0", kLogUid, {"main"});
  std::filesystem::remove_all(folder_.path() + "/pods");
  std::filesystem::create_directory_symlink(elsewhere.path() + "/pods",
                                            folder_.path() + "/pods");
  ASSERT_TRUE(logs_.Refresh().ok()) << "the other folder is there";
  EXPECT_FALSE(logs_.Find(kLogUid, "").has_value());
  EXPECT_EQ(logs_.failures().unreadable, 1u);
  for (size_t i = 0; i <= PodLogs::kMostContainers; ++i) {
    folder_.AddContainer("p", "n", "c", "x" + std::to_string(i));
  }
  ASSERT_TRUE(logs_.Refresh().ok());
  EXPECT_EQ(logs_.failures().crowded, 1u);
}

TEST_F(PodLogsTest, MissingFoldersAreNotCountedAsFailures) {
  std::filesystem::remove_all(folder_.path() + "/pods");
  std::filesystem::remove_all(folder_.path() + "/containers");
  EXPECT_TRUE(absl::IsNotFound(logs_.Refresh()));
  EXPECT_EQ(logs_.failures().unreadable, 0u);
}

}  // namespace
}  // namespace rocattach
