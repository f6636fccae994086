#include "userspace/watch/look_queue.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

using Cause = LookQueue::Cause;
constexpr uid_t kUser = 1000, kOther = 2000, kRoot = 0;
constexpr uint64_t kNow = 1'000'000'000'000;
constexpr uint64_t kSecondNs = 1'000'000'000;

class LookQueueTest : public testing::Test {
 protected:
  pid_t Take(uint64_t now_ns = kNow) {
    auto look = queue_.Take(now_ns);
    return look.has_value() ? look->pid : 0;
  }
  void Done(pid_t pid, uid_t uid, uint64_t now_ns = kNow) {
    queue_.Done({.pid = pid, .uid = uid}, 0, now_ns);
  }
  LookQueue queue_;
};

// Looks that others have caused do not make those late that a process needs itself.
TEST_F(LookQueueTest, AUserPaysOnlyForItsOwn) {
  constexpr auto kMany = static_cast<pid_t>(LookQueue::kMostPerUser / 2);
  for (int round = 0; round < 4; ++round) {
    for (pid_t pid = 1; pid <= kMany; ++pid) {
      queue_.Note(pid, kUser, Cause::kOthers, kNow);
      EXPECT_NE(Take(kNow + LookQueue::kPauseNs), 0);
      Done(pid, kUser);
    }
  }
  queue_.Note(kMany + 1, kUser, Cause::kMapped, kNow);
  EXPECT_EQ(Take(), kMany + 1);
}

TEST_F(LookQueueTest, OfEachUserButRootOneIsLookedAtAtATime) {
  for (pid_t pid : {1, 2}) queue_.Note(pid, kUser, Cause::kMapped, kNow);
  for (pid_t pid : {3, 4}) queue_.Note(pid, kOther, Cause::kMapped, kNow + 1);
  for (pid_t pid : {5, 6}) queue_.Note(pid, kRoot, Cause::kMapped, kNow + 2);
  EXPECT_EQ(Take(kNow + 2), 1);
  EXPECT_EQ(Take(kNow + 2), 3);
  EXPECT_EQ(Take(kNow + 2), 5);
  EXPECT_EQ(Take(kNow + 2), 6);
  EXPECT_EQ(Take(kNow + 2), 0);
  EXPECT_EQ(queue_.NextDueNs(), UINT64_MAX);
  Done(3, kOther);
  EXPECT_EQ(queue_.NextDueNs(), kNow + 1);
  EXPECT_EQ(Take(kNow + 2), 4);
}

TEST_F(LookQueueTest, WhatIsNotedAgainHasOneLook) {
  queue_.Note(1, kUser, Cause::kOpened, kNow);
  EXPECT_EQ(queue_.NextDueNs(), kNow + LookQueue::kPauseNs);
  EXPECT_EQ(Take(kNow), 0) << "it is yet to map what it has opened";
  queue_.Note(1, kUser, Cause::kMapped, kNow + 5);
  queue_.Note(1, kUser, Cause::kOpened, kNow + 6);
  const auto look = queue_.Take(kNow + 6);
  ASSERT_TRUE(look.has_value());
  EXPECT_EQ(look->uid, kUser);
  EXPECT_EQ(look->noted_ns, kNow + 6);
  EXPECT_TRUE(look->mapped);
  EXPECT_EQ(Take(kNow + kSecondNs), 0);
  // While it is being looked at, it may map a further copy.
  queue_.Note(1, kUser, Cause::kMapped, kNow + 7);
  queue_.Done(*look, /*again_ns=*/kNow + 100, kNow + 8);
  EXPECT_EQ(Take(kNow + 8), 1);
  Done(1, kUser);
  EXPECT_EQ(Take(kNow + kSecondNs), 0);
}

TEST_F(LookQueueTest, OneThatHasNotMappedItsCopyYetIsLookedAtAgain) {
  queue_.Note(1, kUser, Cause::kMapped, kNow);
  auto look = queue_.Take(kNow);
  ASSERT_TRUE(look.has_value());
  look->how = "translated";
  queue_.Done(*std::move(look), kNow + 100, kNow + 1);
  EXPECT_EQ(queue_.NextDueNs(), kNow + 100);
  EXPECT_EQ(Take(kNow + 99), 0);
  look = queue_.Take(kNow + 100);
  ASSERT_TRUE(look.has_value());
  EXPECT_EQ(look->how, "translated");
}

TEST_F(LookQueueTest, AUserBeyondItsRateWaitsAndOthersDoNot) {
  constexpr auto kBurst = static_cast<pid_t>(LookQueue::kBurst);
  const auto look_at = [this](pid_t pid, uid_t uid) {
    queue_.Note(pid, uid, Cause::kMapped, kNow);
    const bool taken = Take(kNow) == pid;
    if (taken) Done(pid, uid);
    return taken;
  };
  for (pid_t pid = 1; pid <= kBurst; ++pid) ASSERT_TRUE(look_at(pid, kUser)) << pid;
  EXPECT_FALSE(look_at(kBurst + 1, kUser));
  EXPECT_FALSE(look_at(kBurst + 1, kUser)) << "one that waits costs nothing more";
  EXPECT_TRUE(look_at(kBurst + 2, kOther));
  for (pid_t pid = 10'000; pid < 20'000; ++pid) {
    ASSERT_TRUE(look_at(pid, kRoot)) << "root has no limit";
  }
  EXPECT_EQ(Take(kNow + kSecondNs / LookQueue::kPerUserAndSecond), kBurst + 1);
  EXPECT_EQ(queue_.left_out(), 0u);
}

TEST_F(LookQueueTest, WhatExceedsAUsersRoomIsCounted) {
  constexpr auto kMost = static_cast<pid_t>(LookQueue::kMostPerUser);
  for (pid_t pid = 1; pid <= kMost + 3; ++pid) {
    queue_.Note(pid, kUser, Cause::kMapped, kNow);
  }
  EXPECT_EQ(queue_.left_out(), 3u);
  queue_.Note(1, kUser, Cause::kMapped, kNow);
  EXPECT_EQ(queue_.left_out(), 3u) << "it waits already";
  queue_.Note(kMost + 4, kOther, Cause::kMapped, kNow);
  EXPECT_EQ(queue_.left_out(), 3u) << "others have room of their own";
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(Take(), kMost + 4);
}

}  // namespace
}  // namespace rocattach
