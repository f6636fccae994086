#include "userspace/collector/common/kernel_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace rocattach::collector {
namespace {

uint64_t Address(uint64_t i) {
  return 0x7f0000000000 + i * 64;
}

TEST(KernelTableTest, FindsInsertedKernels) {
  KernelTable table;
  EXPECT_EQ(table.Find(Address(1)), 0u);
  for (uint32_t i = 1; i <= 20'000; ++i) ASSERT_TRUE(table.Insert(Address(i), i));
  for (uint32_t i = 1; i <= 20'000; ++i) ASSERT_EQ(table.Find(Address(i)), i);
  EXPECT_EQ(table.Find(Address(20'001)), 0u);
  EXPECT_FALSE(table.Insert(0, 1));
}

TEST(KernelTableTest, AnAddressCanBeErasedAndUsedAgain) {
  KernelTable table;
  table.Erase(Address(5));
  ASSERT_TRUE(table.Insert(Address(5), 1));
  table.Erase(Address(5));
  EXPECT_EQ(table.Find(Address(5)), 0u);
  ASSERT_TRUE(table.Insert(Address(5), 2));
  EXPECT_EQ(table.Find(Address(5)), 2u);
}

TEST(KernelTableTest, ErasedSlotsDoNotFillTheTable) {
  KernelTable table;
  for (uint32_t i = 1; i <= 100'000; ++i) {
    ASSERT_TRUE(table.Insert(Address(i), i));
    table.Erase(Address(i));
  }
  ASSERT_TRUE(table.Insert(Address(1), 9));
  EXPECT_EQ(table.Find(Address(1)), 9u);
}

TEST(KernelTableTest, ReadersGoOnWhileItGrows) {
  KernelTable table;
  ASSERT_TRUE(table.Insert(Address(1), 1));
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> wrong = 0;
  std::thread reader([&] {
    while (!stop) {
      if (table.Find(Address(1)) != 1) ++wrong;
    }
  });
  for (uint32_t i = 2; i <= 50'000; ++i) table.Insert(Address(i), i);
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace rocattach::collector
