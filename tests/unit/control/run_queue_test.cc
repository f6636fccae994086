#include "userspace/control/run_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace rocattach {
namespace {

constexpr ProcessId kTarget = {100, 7};

TEST(RunQueue, DeliversInOrderAndEnds) {
  RunQueue queue;
  RecordHeader record = {};
  record.bytes = sizeof(record);
  queue.PushRecords(&record, &record + 1);
  queue.PushEnded(kTarget);
  queue.Close();
  EXPECT_FALSE(queue.finished());
  auto first = queue.Pop(std::chrono::milliseconds(0));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->records().total(), 1u);
  auto second = queue.Pop(std::chrono::milliseconds(0));
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->has_ended());
  EXPECT_TRUE(queue.finished());
  EXPECT_FALSE(queue.Pop(std::chrono::hours(1)).has_value());
}

TEST(RunQueue, RecordsAfterTheEndAreCountedAndLost) {
  RunQueue queue;
  queue.Close();
  RecordHeader record = {};
  record.bytes = sizeof(record);
  queue.PushRecords(&record, &record + 1);
  EXPECT_EQ(queue.total(), 1u);
  EXPECT_FALSE(queue.Pop(std::chrono::milliseconds(0)).has_value());
}

TEST(RunQueue, WakesTheReader) {
  RunQueue queue;
  bool woken = false;
  std::thread reader([&] { woken = queue.Pop(std::chrono::hours(1)).has_value(); });
  queue.PushEnded(kTarget);
  reader.join();
  EXPECT_TRUE(woken);
}

TEST(RunQueue, GivesUpAfterItsPatience) {
  RunQueue queue;
  EXPECT_FALSE(queue.Pop(std::chrono::milliseconds(2)).has_value());
  EXPECT_FALSE(queue.finished());
}

}  // namespace
}  // namespace rocattach
