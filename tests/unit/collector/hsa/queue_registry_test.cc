#include "userspace/collector/hsa/queue_registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace rocattach::collector {
namespace {

class QueueRegistryTest : public testing::Test {
 protected:
  // Adds a queue as the hooks do.
  Queue* Add(uint64_t doorbell, amd_queue_t* memory) {
    Queue* queue = registry_->Add();
    queue->doorbell.handle = doorbell;
    queue->closing = false;
    StoreRelease(&queue->amd, memory);
    registry_->Publish(queue);
    return queue;
  }
  static const hsa_queue_t* Handle(amd_queue_t* memory) {
    return reinterpret_cast<const hsa_queue_t*>(memory);
  }

  std::unique_ptr<QueueRegistry> registry_ = std::make_unique<QueueRegistry>();
  amd_queue_t memory_ = {}, other_ = {};
};

TEST_F(QueueRegistryTest, FindsByDoorbellAndByHandle) {
  Queue* queue = Add(100, &memory_);
  Queue* other = Add(200, &other_);
  EXPECT_EQ(registry_->Find(100), queue);
  EXPECT_EQ(registry_->Find(200), other);
  EXPECT_EQ(registry_->Find(300), nullptr);
  EXPECT_EQ(registry_->FindByHandle(Handle(&memory_)), queue);
  EXPECT_EQ(registry_->FindByHandle(Handle(&other_)), other);
}

TEST_F(QueueRegistryTest, EntriesAreUsedAgain) {
  Queue* queue = Add(100, &memory_);
  registry_->Hide(queue);
  EXPECT_EQ(registry_->Find(100), nullptr);
  registry_->Free(queue);
  EXPECT_EQ(registry_->FindByHandle(Handle(&memory_)), nullptr);
  EXPECT_EQ(Add(300, &other_), queue);
  EXPECT_EQ(registry_->count(), 1u);
}

// A thread returns from the runtime, which has freed its queue, and has not called
// Free() yet. Meanwhile another thread has created a queue at the same address, with
// the same doorbell.
TEST_F(QueueRegistryTest, AnAddressThatIsUsedAgainBelongsToTheNewQueue) {
  Queue* old = Add(100, &memory_);
  registry_->Hide(old);
  StoreRelaxed(&old->closing, true);
  Queue* queue = Add(100, &memory_);
  ASSERT_NE(queue, old);
  EXPECT_EQ(registry_->FindByHandle(Handle(&memory_)), queue);
  EXPECT_EQ(registry_->Find(100), queue);
  registry_->Free(old);
  EXPECT_EQ(registry_->FindByHandle(Handle(&memory_)), queue);
}

// A service that makes and destroys queues for days; their doorbells hardly ever
// recur.
TEST_F(QueueRegistryTest, NewDoorbellsFindRoomForEver) {
  std::vector<Queue*> live;
  uint64_t doorbell = 0;
  for (int round = 0; round < 20'000; ++round) {
    live.push_back(Add(doorbell += 64 * 7, &memory_));
    ASSERT_NE(live.back(), nullptr);
    if (live.size() < 300) continue;
    const size_t victim = static_cast<size_t>(round) * 31 % live.size();
    registry_->Hide(live[victim]);
    ASSERT_EQ(registry_->Find(live[victim]->doorbell.handle), nullptr) << round;
    registry_->Free(live[victim]);
    live[victim] = live.back();
    live.pop_back();
  }
  for (Queue* queue : live) EXPECT_EQ(registry_->Find(queue->doorbell.handle), queue);
  EXPECT_EQ(registry_->Find(doorbell + 64), nullptr);
  EXPECT_EQ(registry_->count(), 300u);
}

TEST_F(QueueRegistryTest, AcceptsQueuesUpToItsLimit) {
  for (uint32_t i = 1; i <= QueueRegistry::kMax; ++i) Add(64 * i, &memory_);
  EXPECT_EQ(registry_->Add(), nullptr);
  for (uint32_t i = 1; i <= QueueRegistry::kMax; ++i) {
    ASSERT_NE(registry_->Find(64 * i), nullptr) << i;
  }
}

}  // namespace
}  // namespace rocattach::collector
