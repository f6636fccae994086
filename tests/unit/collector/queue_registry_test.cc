#include "userspace/collector/queue_registry.h"

#include <gtest/gtest.h>

#include <memory>

namespace rocattach::collector {
namespace {

class QueueRegistryTest : public testing::Test {
 protected:
  // A queue as the hooks add it.
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

// A thread is on its way from the runtime, which has freed its queue, to Free().
// Another has got a queue at the same address meanwhile, with the same doorbell.
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

}  // namespace
}  // namespace rocattach::collector
