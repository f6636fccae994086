// Busy rings are read where they are.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/stat.h>

#include <memory>
#include <vector>

#include "tests/unit/record/fake_collector.h"
#include "tests/unit/record/target_fixture.h"
#include "userspace/record/collector_memory.h"

namespace rocattach {
namespace {

constexpr uint64_t kBusy = FakeCollector::kSlots / 2;
// What the test's memory needs to map a ring.
constexpr uint64_t kRingBytes = 4096;

class CollectorRingsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!views_.available()) GTEST_SKIP() << "needs userfaultfd";
    auto memory = CollectorMemory::MapFd(fake_.fd(), FakeCollector::Config());
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    memory_->ViewWith(&views_);
  }
  void Publish(uint32_t ring, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const rocattach_dispatch record = FakeCollector::Dispatch(published_[ring]++);
      fake_.Publish(ring, &record);
    }
  }
  // Reads all that can be viewed; each slot must be the next one.
  size_t Take(uint32_t ring, size_t most = SIZE_MAX) {
    size_t count = 0;
    for (;;) {
      const absl::Span<const RecordSlot> view = memory_->View(ring, most);
      if (view.empty()) return count;
      for (const RecordSlot& slot : view) {
        rocattach_dispatch record;
        memcpy(&record, slot.bytes, sizeof(record));
        EXPECT_EQ(record.correlation_id, taken_[ring]++);
      }
      count += view.size();
      memory_->EndView();
      EXPECT_EQ(fake_.ring(ring)->tail, taken_[ring]);
    }
  }

  FakeCollector fake_;
  RingViews views_{2 * kRingBytes};
  std::unique_ptr<CollectorMemory> memory_;
  uint64_t published_[2] = {}, taken_[2] = {};
};

TEST_F(CollectorRingsTest, ABusyRingIsReadWhereItIs) {
  for (int round = 0; round < 10; ++round) {
    Publish(0, kBusy + 3);  // around the ring's end, too
    memory_->Snapshot();
    Publish(0, 1);  // behind the snapshot
    EXPECT_GE(Take(0, 5), kBusy);
    EXPECT_EQ(taken_[0], published_[0] - 1);
  }
  EXPECT_EQ(memory_->Account().delivered, taken_[0]);
  EXPECT_EQ(views_.left(), kRingBytes);
}

TEST_F(CollectorRingsTest, AQuietRingIsCopied) {
  Publish(0, kBusy - 1);
  memory_->Snapshot();
  EXPECT_TRUE(memory_->View(0, 100).empty());
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  EXPECT_EQ(memory_->Drain(0, absl::MakeSpan(out)), kBusy - 1);
  EXPECT_EQ(views_.left(), 2 * kRingBytes);
}

TEST_F(CollectorRingsTest, WhatIsLeftIsForOthers) {
  RingViews one(kRingBytes);
  memory_->ViewWith(&one);
  Publish(0, kBusy);
  memory_->Snapshot();
  Publish(1, kBusy);
  memory_->Snapshot();
  EXPECT_EQ(Take(0), kBusy);
  EXPECT_EQ(Take(1), 0u) << "there was no room";
  // It is quiet for a while.
  for (int i = 0; i < 100; ++i) memory_->Snapshot();
  EXPECT_EQ(Take(1), kBusy);
  Publish(0, kBusy);
  memory_->Snapshot();
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  EXPECT_EQ(Take(0), 0u);
  EXPECT_EQ(memory_->Drain(0, absl::MakeSpan(out)), kBusy);
  memory_.reset();
  EXPECT_EQ(one.left(), kRingBytes);
}

TEST_F(CollectorRingsTest, ARingWithoutPositionsIsNotRead) {
  Publish(0, kBusy);
  memory_->Snapshot();
  EXPECT_FALSE(memory_->View(0, 1).empty());
  memory_->EndView();
  fake_.ring(0)->head -= 5;  // goes back
  memory_->Snapshot();
  EXPECT_TRUE(memory_->View(0, 1).empty());
}

// What is taken may run a program's code, which drains again.
TEST_F(CollectorRingsTest, RecordsMayBeDrainedDuringAView) {
  Publish(0, kBusy + 4);
  Publish(1, kBusy);
  memory_->Snapshot();
  const absl::Span<const RecordSlot> view = memory_->View(0, kBusy);
  ASSERT_EQ(view.size(), kBusy);
  EXPECT_TRUE(memory_->View(0, kBusy).empty());
  EXPECT_TRUE(memory_->View(1, kBusy).empty());
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  EXPECT_EQ(memory_->Drain(0, absl::MakeSpan(out)), 4u);
  EXPECT_EQ(memory_->Drain(1, absl::MakeSpan(out)), kBusy);
  for (int i = 0; i < 100; ++i) memory_->Snapshot();  // the ring stays mapped
  rocattach_dispatch record;
  memcpy(&record, view.back().bytes, sizeof(record));
  EXPECT_EQ(record.correlation_id, kBusy - 1);
  EXPECT_EQ(fake_.ring(0)->tail, 0u) << "still in use";
  EXPECT_EQ(fake_.ring(1)->tail, kBusy);
  memory_->EndView();
  EXPECT_EQ(fake_.ring(0)->tail, kBusy + 4);
  EXPECT_EQ(memory_->Account().delivered, 2 * kBusy + 4);
}

// A hole is not filled at the service's expense: it costs that target its records.
TEST_F(CollectorRingsTest, AHoleStaysAHole) {
  Publish(0, FakeCollector::kSlots);
  memory_->Snapshot();
  const absl::Span<const RecordSlot> view = memory_->View(0, SIZE_MAX);
  ASSERT_EQ(view.size(), FakeCollector::kSlots);
  EXPECT_EQ(fallocate(fake_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(fake_.control()->rings_offset + kRingBytes),
                      kRingBytes),
            0);
  struct stat before = {}, after = {};
  ASSERT_EQ(fstat(fake_.fd(), &before), 0);
  uint64_t sum = 0;
  for (const RecordSlot& slot : view) sum += slot.kind();
  EXPECT_LT(sum, FakeCollector::kSlots * ROCATTACH_RECORD_DISPATCH);
  ASSERT_EQ(fstat(fake_.fd(), &after), 0);
  EXPECT_EQ(after.st_blocks, before.st_blocks) << "the hole got a page";
  EXPECT_FALSE(memory_->intact());
}

// Through all of it.
using ViewedTargetTest = TargetTest;
TEST_F(ViewedTargetTest, EveryRecordIsTakenOnce) {
  RingViews views(2 * kRingBytes);
  if (!views.available()) GTEST_SKIP() << "needs userfaultfd";
  FakeCollector fake;
  fake.AddKernel(1, "gemm");
  const std::unique_ptr<Target> target = NewTarget(Attached());
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok()) << memory.status();
  (*memory)->ViewWith(&views);
  target->SetMemory(*std::move(memory), true, true);
  uint64_t published = 0;
  for (int round = 0; round < 40; ++round) {
    const uint64_t count = round % 3 == 0 ? 5 : kBusy + 7;
    for (uint64_t i = 0; i < count; ++i) {
      const rocattach_dispatch record = FakeCollector::Dispatch(++published);
      fake.Publish(0, &record);
    }
    target->Drain(9'000'000'000);
  }
  EXPECT_EQ(views.left(), kRingBytes);
  EXPECT_EQ(target->counts().dispatches, published);
  EXPECT_EQ(fake.ring(0)->tail, published);
}

}  // namespace
}  // namespace rocattach
