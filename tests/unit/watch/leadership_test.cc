#include "userspace/watch/windows/leadership.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace rocattach {
namespace {

TEST(Leadership, TheFirstLeadsAtOnce) {
  Leadership leadership;
  Leadership::Member member;
  EXPECT_FALSE(member.leads());
  leadership.Acquire(&member);
  EXPECT_TRUE(member.leads());
  leadership.HandOver(&member);
  EXPECT_FALSE(member.leads());
  // No other thread was waiting, so the same one can lead again.
  leadership.Acquire(&member);
  EXPECT_TRUE(member.leads());
}

TEST(Leadership, OnlyTheLeaderHandsOver) {
  Leadership leadership;
  Leadership::Member leader, other;
  leadership.Acquire(&leader);
  leadership.HandOver(&other);
  EXPECT_TRUE(leader.leads());
}

TEST(Leadership, ALeaderThatServesForTooLongIsRelieved) {
  Leadership leadership;
  Leadership::Member leader, other;
  EXPECT_EQ(leadership.UnattendedSince(), 0u);
  leadership.Acquire(&leader);
  EXPECT_FALSE(leadership.Relieve(1'000)) << "it waits for events";
  leadership.BeginWork(leader, 100);
  EXPECT_EQ(leadership.UnattendedSince(), 100u);
  EXPECT_FALSE(leadership.Relieve(99)) << "not yet";
  EXPECT_TRUE(leader.leads());
  std::thread follower([&] { leadership.Acquire(&other); });
  // If the thread does not wait yet, no thread leads for the moment.
  (void)leadership.Relieve(100);
  follower.join();
  EXPECT_FALSE(leader.leads());
  EXPECT_TRUE(other.leads());
  EXPECT_EQ(leadership.UnattendedSince(), 0u);
  leadership.EndWork(leader);
  leadership.HandOver(&leader);
  EXPECT_TRUE(other.leads()) << "it is not the other one's business any more";
}

TEST(Leadership, WithoutAnIdleThreadNoThreadLeads) {
  Leadership leadership;
  Leadership::Member leader, other;
  leadership.Acquire(&leader);
  leadership.BeginWork(leader, 100);
  EXPECT_TRUE(leadership.Relieve(100)) << "another thread is needed";
  EXPECT_FALSE(leader.leads());
  EXPECT_EQ(leadership.UnattendedSince(), 100u) << "as long as before";
  EXPECT_TRUE(leadership.Relieve(100));
  leadership.EndWork(leader);
  EXPECT_EQ(leadership.UnattendedSince(), 100u);
  leadership.Acquire(&other);
  EXPECT_EQ(leadership.UnattendedSince(), 0u);
  leadership.BeginWork(other, 200);
  leadership.EndWork(other);
  EXPECT_EQ(leadership.UnattendedSince(), 0u);
}

TEST(Leadership, OneLeadsAtATimeAndAllGetTheirTurn) {
  constexpr int kThreads = 4, kTurns = 500;
  Leadership leadership;
  std::atomic<int> leaders = 0, turns = 0;
  std::atomic<bool> two_leaders = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Leadership::Member member;
      for (int turn = 0; turn < kTurns; ++turn) {
        leadership.Acquire(&member);
        if (++leaders != 1) two_leaders = true;
        ++turns;
        --leaders;
        leadership.HandOver(&member);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(two_leaders);
  EXPECT_EQ(turns, kThreads * kTurns);
}

}  // namespace
}  // namespace rocattach
