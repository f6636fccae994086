#include "userspace/collector/common/ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/await.h"
#include "tests/unit/collector/test_memory.h"

namespace rocattach::collector {
namespace {

class RingTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(memory_.Create(SmallConfig()), 0);
    ASSERT_EQ(rings_.Init(&memory_), 0);
  }
  void TearDown() override {
    rings_.Forget();
    memory_.Discard();
  }
  static rocattach_dispatch Record(uint64_t id) {
    rocattach_dispatch record = {};
    record.kind = ROCATTACH_RECORD_DISPATCH;
    record.correlation_id = id;
    return record;
  }
  uint64_t Produced() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < memory_.geometry().ring_count; ++i)
      sum += memory_.ring(i)->head;
    return sum;
  }
  Memory memory_;
  RingSet rings_;
};

TEST_F(RingTest, PublishesInOrder) {
  RingHandle ring = rings_.Mine();
  for (uint64_t i = 1; i <= 10; ++i) {
    rocattach_dispatch record = Record(i);
    EXPECT_TRUE(ring.Push(&record));
  }
  auto records = RecordsIn<rocattach_dispatch>(memory_, 0);
  ASSERT_EQ(records.size(), 10u);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(records[i].correlation_id, i + 1);
  EXPECT_EQ(memory_.ring(0)->owner_tid, static_cast<uint32_t>(gettid()));
}

TEST_F(RingTest, SampledOutDispatchesAreSeenAndCounted) {
  RingHandle ring = rings_.Mine();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(ring.CountSeen(0));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(ring.CountSeen(ROCATTACH_SAMPLING_EVERY));
  EXPECT_EQ(memory_.ring(0)->dispatches_seen, 200u);
  EXPECT_EQ(memory_.ring(0)->sampled_out, 0u);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(ring.CountSeen(ROCATTACH_SAMPLING_NONE));
  EXPECT_EQ(memory_.ring(0)->dispatches_seen, 300u);
  EXPECT_EQ(memory_.ring(0)->sampled_out, 100u);
  uint64_t recorded = 0;
  for (int i = 0; i < 4000; ++i) recorded += ring.CountSeen(4) ? 0u : 1u;
  EXPECT_EQ(memory_.ring(0)->dispatches_seen, 4300u);
  EXPECT_EQ(memory_.ring(0)->sampled_out, 4100u - recorded);
  EXPECT_GT(recorded, 800u);
  EXPECT_LT(recorded, 1200u);
}

TEST_F(RingTest, FullRingDropsAndCounts) {
  RingHandle ring = rings_.Mine();
  rocattach_dispatch record = Record(1);
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(ring.Push(&record));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(ring.Push(&record));
  EXPECT_EQ(memory_.ring(0)->head, 64u);
  EXPECT_EQ(memory_.ring(0)->dropped, 5u);
  EXPECT_EQ(rings_.Dropped(), 5u);
  memory_.ring(0)->tail = 2;
  EXPECT_TRUE(ring.Push(&record));
  EXPECT_TRUE(ring.Push(&record));
  EXPECT_FALSE(ring.Push(&record));
}

TEST_F(RingTest, AGroupIsPublishedWholeOrNotAtAll) {
  RingHandle ring = rings_.Mine();
  rocattach_dispatch group[10];
  uint64_t next = 1;
  auto fill = [&](uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) group[i] = Record(next++);
  };
  for (int i = 0; i < 6; ++i) {
    fill(10);
    EXPECT_TRUE(ring.PushGroup(group, 10));
  }
  // 60 of the 64 slots are taken.
  EXPECT_FALSE(ring.PushGroup(group, 5));
  EXPECT_EQ(memory_.ring(0)->head, 60u);
  EXPECT_EQ(memory_.ring(0)->dropped, 1u);
  memory_.ring(0)->tail = 60;
  fill(10);  // wraps around the end of the ring
  EXPECT_TRUE(ring.PushGroup(group, 10));
  for (uint64_t i = 0; i < 10; ++i) {
    auto* slots = reinterpret_cast<const rocattach_dispatch*>(
        reinterpret_cast<const uint8_t*>(memory_.ring(0)) +
        ROCATTACH_RING_HEADER_BYTES);
    EXPECT_EQ(slots[(60 + i) % 64].correlation_id, 61 + i);
  }
  // More slots than the ring has, and then an impossible tail.
  EXPECT_FALSE(ring.PushGroup(group, 65));
  memory_.ring(0)->tail = 1'000'000;
  EXPECT_FALSE(ring.PushGroup(group, 60));
  EXPECT_EQ(memory_.ring(0)->dropped, 3u);
}

TEST_F(RingTest, ImpossibleTailCountsAsFull) {
  RingHandle ring = rings_.Mine();
  rocattach_dispatch record = Record(1);
  for (int i = 0; i < 64; ++i) ring.Push(&record);
  memory_.ring(0)->tail = 1'000'000;
  EXPECT_FALSE(ring.Push(&record));
}

TEST_F(RingTest, ThreadsGetTheirOwnRingAndGiveItBack) {
  std::atomic<int> arrived = 0;
  std::vector<std::thread> threads;
  std::set<uint32_t> owners;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      RingHandle ring = rings_.Mine();
      rocattach_dispatch record = Record(1);
      ring.Push(&record);
      ++arrived;
      while (arrived < 3) std::this_thread::yield();
    });
  }
  for (auto& thread : threads) thread.join();
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(memory_.ring(i)->head, 1u);
    EXPECT_EQ(memory_.ring(i)->owner_tid, 0u);
  }
  // A later thread takes over a ring and appends to the records in it.
  std::thread([&] {
    rocattach_dispatch record = Record(2);
    rings_.Mine().Push(&record);
  }).join();
  EXPECT_EQ(RecordsIn<rocattach_dispatch>(memory_, 0).back().correlation_id, 2u);
}

TEST_F(RingTest, LateThreadsShareTheLastRing) {
  constexpr int kThreads = 8;
  constexpr int kEach = 20'000;
  std::atomic<int> arrived = 0;
  std::atomic<bool> stop = false;
  std::thread consumer([&] {
    while (!stop) {
      for (uint32_t i = 0; i < 4; ++i) {
        StoreRelease(&memory_.ring(i)->tail, LoadAcquire(&memory_.ring(i)->head));
      }
    }
  });
  std::vector<std::thread> threads;
  std::atomic<uint64_t> pushed = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      RingHandle ring = rings_.Mine();
      ++arrived;
      while (arrived < kThreads) std::this_thread::yield();
      for (int i = 0; i < kEach; ++i) {
        rocattach_dispatch record = Record(1);
        ring.Count(&rocattach_ring::dispatches_seen, uint64_t{1});
        if (ring.Push(&record)) ++pushed;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  consumer.join();
  EXPECT_EQ(Produced(), pushed.load());
  EXPECT_EQ(Produced() + rings_.Dropped(), uint64_t{kThreads} * kEach);
  EXPECT_GT(memory_.ring(3)->head, 0u);
  rings_.UpdateTotals();
  EXPECT_EQ(memory_.control()->dispatches_seen, uint64_t{kThreads} * kEach);
}

// --- Without memory, records are lost and counted; there is no signal. ---

class LittleMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    rocattach_collector_config config = SmallConfig();
    config.ring_slots = 1024;
    ASSERT_EQ(memory_.Create(config), 0);
    ASSERT_EQ(rings_.Init(&memory_), 0);
  }
  void TearDown() override {
    rings_.Forget();
    memory_.Discard();
  }
  uint64_t OffsetOf(uint32_t ring) const {
    return memory_.geometry().rings_offset + ring * memory_.geometry().ring_stride;
  }
  Memory memory_;
  RingSet rings_;
};

TEST_F(LittleMemoryTest, ARingThatCannotGrowDrops) {
  RingHandle ring = rings_.Mine();
  MakeUncommittable(memory_, OffsetOf(0) + 65536);
  const rocattach_dispatch record = {};
  uint64_t pushed = 0;
  for (int i = 0; i < 1000; ++i) pushed += ring.Push(&record) ? 1u : 0u;
  EXPECT_GT(pushed, 300u);
  EXPECT_LT(pushed, 65536u / ROCATTACH_SLOT_BYTES);
  EXPECT_EQ(memory_.ring(0)->head, pushed);
  EXPECT_EQ(memory_.ring(0)->dropped, 1000 - pushed);
  EXPECT_FALSE(ring.PushGroupWith(3, [](uint32_t, void*) { FAIL(); }));
  EXPECT_EQ(memory_.ring(0)->dropped, 1001 - pushed);
}

TEST_F(LittleMemoryTest, AThreadWithoutARingDrops) {
  MakeUncommittable(memory_, OffsetOf(0));
  RingHandle ring = rings_.Mine();
  const rocattach_dispatch record = {};
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(ring.Push(&record));
  ring.Count(&rocattach_ring::dispatches_seen, uint64_t{1});
  EXPECT_EQ(memory_.control()->other_dropped, 10u);
  EXPECT_EQ(memory_.control()->rings_used, 0u);
}

// --- The shared ring ---

TEST_F(RingTest, AHolderThatDoesNotRunIsNotWaitedForForever) {
  // Four rings, the last of which is shared.
  std::atomic<int> stage = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      (void)rings_.Mine();
      ++stage;
      while (stage < 4) usleep(1000);
    });
  }
  testing_support::Await([&] { return stage >= 3; }, "the threads to have their rings");
  RingHandle ring = rings_.Mine();
  rocattach_ring* shared = memory_.ring(3);
  const rocattach_dispatch record = Record(1);
  EXPECT_TRUE(ring.Push(&record));
  shared->lock = 1;  // held by another thread, which gets no CPU
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(ring.Push(&record));
  EXPECT_EQ(shared->dropped, 1000u);
  EXPECT_EQ(shared->head, 1u);
  shared->lock = 0;
  EXPECT_TRUE(ring.Push(&record));
  EXPECT_EQ(shared->head, 2u);
  stage = 4;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace rocattach::collector
