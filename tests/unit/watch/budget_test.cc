#include "userspace/watch/budget.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf/watch_events.h"

namespace rocattach {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

int Allowed(UserRate* rate, uint32_t uid, int tries, uint64_t now_ns) {
  int allowed = 0;
  for (int i = 0; i < tries; ++i) allowed += rate->Allow(uid, now_ns) ? 1 : 0;
  return allowed;
}

TEST(UserRate, LetsABurstThroughAndThenTheRate) {
  UserRate rate(/*per_second=*/10, /*burst=*/20);
  EXPECT_EQ(Allowed(&rate, 1000, 100, kSecond), 21);
  EXPECT_EQ(Allowed(&rate, 1000, 100, 2 * kSecond), 10);
  EXPECT_EQ(Allowed(&rate, 1000, 100, 2 * kSecond), 0);
  EXPECT_EQ(Allowed(&rate, 1000, 100, 100 * kSecond), 21) << "quiet for long: a burst";
}

TEST(UserRate, UsersDoNotPayForEachOther) {
  UserRate rate(10, 20);
  EXPECT_EQ(Allowed(&rate, 1000, 100, kSecond), 21);
  EXPECT_EQ(Allowed(&rate, 1001, 5, kSecond), 5);
}

TEST(UserRate, ReportsOmittedCountsOnce) {
  UserRate rate(10, 20);
  Allowed(&rate, 1001, 30, kSecond);
  Allowed(&rate, 1000, 25, kSecond);
  Allowed(&rate, 1002, 1, kSecond);
  const auto left_out = rate.TakeLeftOut();
  ASSERT_EQ(left_out.size(), 2u);
  EXPECT_EQ(left_out[0].uid, 1000u);
  EXPECT_EQ(left_out[0].count, 4u);
  EXPECT_EQ(left_out[1].uid, 1001u);
  EXPECT_EQ(left_out[1].count, 9u);
  EXPECT_TRUE(rate.TakeLeftOut().empty());
}

TEST(UserRate, ZeroIsNoLimit) {
  UserRate rate(0, 0);
  EXPECT_EQ(Allowed(&rate, 1000, 100'000, kSecond), 100'000);
}

TEST(UserRate, ManyUsersCostBoundedMemory) {
  UserRate rate(10, 20);
  for (uint32_t uid = 0; uid < 1'000'000; ++uid) {
    ASSERT_TRUE(rate.Allow(uid, kSecond + uid * 100));
  }
}

TEST(BudgetRefusal, NamesTheUserTheLimitAndTheOption) {
  BudgetLimits limits;
  limits.windows_per_second = 300;
  limits.processes_per_user = 77;
  EXPECT_EQ(BudgetRefusal(ROCATTACH_BUDGET_USER_WINDOWS, 1000, 5, limits),
            "the processes of user 1000 open more than 300 windows a second "
            "(--windows-per-second); 5 windows of that user were refused so far");
  EXPECT_NE(
      BudgetRefusal(ROCATTACH_BUDGET_PROCESS_WINDOWS, 1000, 1, limits).find("150"),
      std::string::npos);
  EXPECT_EQ(
      BudgetRefusal(ROCATTACH_BUDGET_USER_PROCESSES, 1000, 1, limits),
      "user 1000 has 77 GPU processes already (--processes-per-user); 1 window of "
      "that user was refused so far");
}

TEST(DescriptorLimit, IsRaisedAndRestoredForChildren) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit low = {100, 500};
    if (setrlimit(RLIMIT_NOFILE, &low) != 0) _exit(1);
    const DescriptorLimit limit = DescriptorLimit::Raise();
    rlimit now = {};
    getrlimit(RLIMIT_NOFILE, &now);
    if (now.rlim_cur != 500 || limit.most() != 500) _exit(2);
    // If there are few descriptors, most of them are not for processes.
    if (limit.Processes(4096) != 125 || limit.Processes(10) != 10) _exit(3);
    if (limit.Processes(0) != 125) _exit(4);
    limit.Restore();
    getrlimit(RLIMIT_NOFILE, &now);
    _exit(now.rlim_cur == 100 && now.rlim_max == 500 ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace rocattach
