#include "userspace/collector/common/dictionary.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/unit/collector/test_memory.h"

namespace rocattach::collector {
namespace {

class DictionaryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(memory_.Create(SmallConfig()), 0);
    dictionary_.Init(&memory_);
  }
  void TearDown() override { memory_.Discard(); }
  const uint8_t* Start() const {
    return memory_.base() + memory_.geometry().dictionary_offset;
  }
  Memory memory_;
  Dictionary dictionary_;
};

TEST_F(DictionaryTest, EntriesFollowEachOther) {
  rocattach_kernel_entry kernel = {};
  kernel.kernel_object = 0x1234;
  EXPECT_EQ(dictionary_.Append(ROCATTACH_ENTRY_KERNEL, &kernel, "vadd", 4), 1u);
  EXPECT_EQ(dictionary_.Append(ROCATTACH_ENTRY_KERNEL, &kernel, "x", 1), 2u);
  rocattach_queue_entry queue = {};
  EXPECT_EQ(dictionary_.Append(ROCATTACH_ENTRY_QUEUE, &queue, nullptr, 0), 1u);

  rocattach_kernel_entry first;
  memcpy(&first, Start(), sizeof(first));
  EXPECT_EQ(first.entry.kind, ROCATTACH_ENTRY_KERNEL);
  EXPECT_EQ(first.entry.id, 1u);
  EXPECT_EQ(first.entry.bytes, sizeof(first) + 8);
  EXPECT_EQ(first.entry.text_bytes, 4);
  EXPECT_EQ(first.kernel_object, 0x1234u);
  EXPECT_EQ(memcmp(Start() + sizeof(first), "vadd", 4), 0);
  rocattach_entry second;
  memcpy(&second, Start() + first.entry.bytes, sizeof(second));
  EXPECT_EQ(second.id, 2u);
  EXPECT_EQ(memory_.control()->dictionary_used,
            2 * (sizeof(first) + 8) + sizeof(queue));
}

TEST_F(DictionaryTest, FullDictionaryCounts) {
  rocattach_kernel_entry kernel = {};
  std::string name(60'000, 'n');
  EXPECT_EQ(dictionary_.Append(ROCATTACH_ENTRY_KERNEL, &kernel, name.data(), 60'000),
            1u);
  EXPECT_EQ(dictionary_.Append(ROCATTACH_ENTRY_KERNEL, &kernel, name.data(), 60'000),
            0u);
  EXPECT_EQ(memory_.control()->dictionary_dropped, 1u);
  // An entry that is small enough still fits.
  EXPECT_EQ(dictionary_.Append(ROCATTACH_ENTRY_KERNEL, &kernel, "x", 1), 2u);
}

TEST_F(DictionaryTest, WithoutMemoryEntriesAreCountedAsLost) {
  MakeUncommittable(memory_, memory_.geometry().dictionary_offset + 32768);
  uint64_t kept = 0;
  const std::string name(1000, 'n');
  for (int i = 0; i < 60; ++i) {
    rocattach_kernel_entry kernel = {};
    kept += dictionary_.Append(ROCATTACH_ENTRY_KERNEL, &kernel, name.data(), 1000) != 0;
  }
  EXPECT_GT(kept, 20u);
  EXPECT_LT(kept, 32u);
  EXPECT_EQ(memory_.control()->dictionary_dropped, 60 - kept);
}

TEST_F(DictionaryTest, ThreadsDoNotMixEntries) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 100; ++i) {
        rocattach_queue_entry queue = {};
        dictionary_.Append(ROCATTACH_ENTRY_QUEUE, &queue, nullptr, 0);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  uint64_t used = memory_.control()->dictionary_used;
  EXPECT_EQ(used, 400 * sizeof(rocattach_queue_entry));
  for (uint32_t i = 0; i < 400; ++i) {
    rocattach_entry entry;
    memcpy(&entry, Start() + i * sizeof(rocattach_queue_entry), sizeof(entry));
    EXPECT_EQ(entry.id, i + 1);
  }
}

}  // namespace
}  // namespace rocattach::collector
