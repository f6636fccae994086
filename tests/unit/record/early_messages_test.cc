#include "userspace/record/early_messages.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

rocattach_event EventOf(uint32_t pid) {
  rocattach_event event = {};
  event.pid = pid;
  return event;
}

constexpr ProcessId kEarlyProcess = {10, 1}, kOther = {11, 1};

TEST(EarlyMessages, GivesAProcessItsMessagesOnce) {
  EarlyMessages early;
  early.Keep(kEarlyProcess, EventOf(1), 5);
  early.Keep(kOther, rocattach_event{}, 5);
  early.Keep(kEarlyProcess, EventOf(2), 6);
  const auto messages = early.Take(kEarlyProcess);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(std::get<rocattach_event>(messages[0]).pid, 1u);
  EXPECT_EQ(std::get<rocattach_event>(messages[1]).pid, 2u);
  EXPECT_TRUE(early.Take(kEarlyProcess).empty());
  EXPECT_FALSE(early.empty());
}

TEST(EarlyMessages, ExpireCountsFromTheFirst) {
  EarlyMessages early;
  early.Keep(kEarlyProcess, rocattach_event{}, 100);
  early.Keep(kEarlyProcess, rocattach_event{}, 100 + EarlyMessages::kLifeNs);
  early.Expire(100 + EarlyMessages::kLifeNs);
  EXPECT_FALSE(early.empty());
  early.Expire(101 + EarlyMessages::kLifeNs);
  EXPECT_TRUE(early.empty());
}

TEST(EarlyMessages, OneProcessCannotFillTheMemory) {
  EarlyMessages early;
  for (size_t i = 0; i < 2 * EarlyMessages::kMostPerProcess; ++i) {
    early.Keep(kEarlyProcess, rocattach_event{}, 1);
  }
  EXPECT_EQ(early.Take(kEarlyProcess).size(), EarlyMessages::kMostPerProcess);
}

TEST(EarlyMessages, ManyProcessesCannotFillTheMemory) {
  EarlyMessages early;
  for (int pid = 0; pid < int{EarlyMessages::kMostProcesses}; ++pid) {
    early.Keep({pid, 1}, rocattach_event{}, 1);
  }
  early.Keep({1'000'000, 1}, rocattach_event{}, 1);
  EXPECT_TRUE(early.Take({1'000'000, 1}).empty());
  early.Keep({0, 1}, rocattach_event{}, 1);  // a process that is known
  EXPECT_EQ(early.Take({0, 1}).size(), 2u);
}

}  // namespace
}  // namespace rocattach
