#include "userspace/watch/discovery/recent_users.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace rocattach {
namespace {

constexpr uint64_t kUserNow = 1'000'000'000;

TEST(RecentUsersTest, AProcessThatIsSeenAgainAndAgainIsReadOnceInAWhile) {
  int reads = 0;
  RecentUsers users([&reads](pid_t pid) {
    ++reads;
    return static_cast<uid_t>(1000 + pid);
  });
  for (uint64_t i = 0; i < 100'000; ++i) {
    EXPECT_EQ(users.Of(7, kUserNow + i % RecentUsers::kNs), 1007u);
  }
  EXPECT_EQ(reads, 1);
  EXPECT_EQ(users.Of(8, kUserNow), 1008u);
  EXPECT_EQ(reads, 2) << "another process";
  EXPECT_EQ(users.Of(7, kUserNow + RecentUsers::kNs), 1007u);
  EXPECT_EQ(reads, 3) << "it may be another one by now";
}

// Root has no budget, so an ended process must not count as root's.
TEST(RecentUsersTest, AProcessThatHasEndedDoesNotCountAsRoots) {
  EXPECT_EQ(RecentUsers().Of(1 << 30, kUserNow), RecentUsers::kEnded);
  EXPECT_EQ(RecentUsers().Of(getpid(), kUserNow), geteuid());
}

TEST(RecentUsersTest, ManyProcessesAreNotKeptForever) {
  size_t reads = 0;
  RecentUsers users([&reads](pid_t) {
    ++reads;
    return uid_t{1000};
  });
  const auto many = static_cast<pid_t>(4 * RecentUsers::kMost);
  for (pid_t pid = 1; pid <= many; ++pid) EXPECT_EQ(users.Of(pid, kUserNow), 1000u);
  EXPECT_EQ(reads, 4 * RecentUsers::kMost);
  EXPECT_EQ(users.Of(1, kUserNow), 1000u);
  EXPECT_EQ(reads, 4 * RecentUsers::kMost + 1) << "it has been forgotten";
}

}  // namespace
}  // namespace rocattach
