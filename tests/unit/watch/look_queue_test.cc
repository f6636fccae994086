#include "userspace/watch/discovery/look_queue.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

using Cause = LookQueue::Cause;
constexpr uid_t kLookUser = 1000, kOtherLookUser = 2000, kRoot = 0;
constexpr uint64_t kLookNow = 1'000'000'000'000;
constexpr uint64_t kSecondNs = 1'000'000'000;

class LookQueueTest : public testing::Test {
 protected:
  pid_t Take(uint64_t now_ns = kLookNow) {
    auto look = queue_.Take(now_ns);
    return look.has_value() ? look->pid : 0;
  }
  void Done(pid_t pid, uid_t uid, uint64_t now_ns = kLookNow) {
    queue_.Done({.pid = pid, .uid = uid}, 0, now_ns);
  }
  LookQueue queue_;
};

// Looks that others caused do not delay those that the process itself causes.
TEST_F(LookQueueTest, AUserPaysOnlyForItsOwnLooks) {
  constexpr auto kMany = static_cast<pid_t>(LookQueue::kMostPerUser / 2);
  for (int round = 0; round < 4; ++round) {
    for (pid_t pid = 1; pid <= kMany; ++pid) {
      queue_.RequestLook(pid, kLookUser, Cause::kOthers, kLookNow);
      EXPECT_NE(Take(kLookNow + LookQueue::kPauseNs), 0);
      Done(pid, kLookUser);
    }
  }
  queue_.RequestLook(kMany + 1, kLookUser, Cause::kMapped, kLookNow);
  EXPECT_EQ(Take(), kMany + 1);
}

TEST_F(LookQueueTest, OneProcessOfEachUserButRootIsLookedAtAtATime) {
  for (pid_t pid : {1, 2}) queue_.RequestLook(pid, kLookUser, Cause::kMapped, kLookNow);
  for (pid_t pid : {3, 4})
    queue_.RequestLook(pid, kOtherLookUser, Cause::kMapped, kLookNow + 1);
  for (pid_t pid : {5, 6}) queue_.RequestLook(pid, kRoot, Cause::kMapped, kLookNow + 2);
  EXPECT_EQ(Take(kLookNow + 2), 1);
  EXPECT_EQ(Take(kLookNow + 2), 3);
  EXPECT_EQ(Take(kLookNow + 2), 5);
  EXPECT_EQ(Take(kLookNow + 2), 6);
  EXPECT_EQ(Take(kLookNow + 2), 0);
  EXPECT_EQ(queue_.NextDueNs(), UINT64_MAX);
  Done(3, kOtherLookUser);
  EXPECT_EQ(queue_.NextDueNs(), kLookNow + 1);
  EXPECT_EQ(Take(kLookNow + 2), 4);
}

TEST_F(LookQueueTest, RepeatedRequestsForAProcessResultInOneLook) {
  queue_.RequestLook(1, kLookUser, Cause::kOpened, kLookNow);
  EXPECT_EQ(queue_.NextDueNs(), kLookNow + LookQueue::kPauseNs);
  EXPECT_EQ(Take(kLookNow), 0) << "it is yet to map what it has opened";
  queue_.RequestLook(1, kLookUser, Cause::kMapped, kLookNow + 5);
  queue_.RequestLook(1, kLookUser, Cause::kOpened, kLookNow + 6);
  const auto look = queue_.Take(kLookNow + 6);
  ASSERT_TRUE(look.has_value());
  EXPECT_EQ(look->uid, kLookUser);
  EXPECT_EQ(look->requested_ns, kLookNow + 6);
  EXPECT_TRUE(look->mapped);
  EXPECT_EQ(Take(kLookNow + kSecondNs), 0);
  // While a look at it is in progress, the process may map a further copy.
  queue_.RequestLook(1, kLookUser, Cause::kMapped, kLookNow + 7);
  queue_.Done(*look, /*again_ns=*/kLookNow + 100, kLookNow + 8);
  EXPECT_EQ(Take(kLookNow + 8), 1);
  Done(1, kLookUser);
  EXPECT_EQ(Take(kLookNow + kSecondNs), 0);
}

TEST_F(LookQueueTest, AProcessThatHasNotMappedItsCopyYetIsLookedAtAgain) {
  queue_.RequestLook(1, kLookUser, Cause::kMapped, kLookNow);
  auto look = queue_.Take(kLookNow);
  ASSERT_TRUE(look.has_value());
  look->how = "translated";
  queue_.Done(*std::move(look), kLookNow + 100, kLookNow + 1);
  EXPECT_EQ(queue_.NextDueNs(), kLookNow + 100);
  EXPECT_EQ(Take(kLookNow + 99), 0);
  look = queue_.Take(kLookNow + 100);
  ASSERT_TRUE(look.has_value());
  EXPECT_EQ(look->how, "translated");
}

TEST_F(LookQueueTest, AUserBeyondItsRateWaitsAndOthersDoNot) {
  constexpr auto kBurst = static_cast<pid_t>(LookQueue::kBurst);
  const auto look_at = [this](pid_t pid, uid_t uid) {
    queue_.RequestLook(pid, uid, Cause::kMapped, kLookNow);
    const bool taken = Take(kLookNow) == pid;
    if (taken) Done(pid, uid);
    return taken;
  };
  for (pid_t pid = 1; pid <= kBurst; ++pid) ASSERT_TRUE(look_at(pid, kLookUser)) << pid;
  EXPECT_FALSE(look_at(kBurst + 1, kLookUser));
  EXPECT_FALSE(look_at(kBurst + 1, kLookUser)) << "one that waits costs nothing more";
  EXPECT_TRUE(look_at(kBurst + 2, kOtherLookUser));
  for (pid_t pid = 10'000; pid < 20'000; ++pid) {
    ASSERT_TRUE(look_at(pid, kRoot)) << "root has no limit";
  }
  EXPECT_EQ(Take(kLookNow + kSecondNs / LookQueue::kPerUserAndSecond), kBurst + 1);
  EXPECT_EQ(queue_.left_out(), 0u);
}

TEST_F(LookQueueTest, ProcessesBeyondAUsersRoomAreCounted) {
  constexpr auto kMostLooks = static_cast<pid_t>(LookQueue::kMostPerUser);
  for (pid_t pid = 1; pid <= kMostLooks + 3; ++pid) {
    queue_.RequestLook(pid, kLookUser, Cause::kMapped, kLookNow);
  }
  EXPECT_EQ(queue_.left_out(), 3u);
  queue_.RequestLook(1, kLookUser, Cause::kMapped, kLookNow);
  EXPECT_EQ(queue_.left_out(), 3u) << "it waits already";
  queue_.RequestLook(kMostLooks + 4, kOtherLookUser, Cause::kMapped, kLookNow);
  EXPECT_EQ(queue_.left_out(), 3u) << "others have room of their own";
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(Take(), kMostLooks + 4);
}

}  // namespace
}  // namespace rocattach
