// The memory of a collector that an earlier service has left in a process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tests/unit/record/fake_collector.h"
#include "userspace/base/clock.h"
#include "userspace/base/unique_fd.h"
#include "userspace/record/drain/collector_memory.h"

namespace rocattach {
namespace {

// Data that an earlier service has left is not read or counted again.
TEST(CollectorMemory, ReadsOnlyLaterRecordsAfterATakeOver) {
  FakeCollector fake;
  rocattach_dispatch record = FakeCollector::Dispatch(1);
  fake.ring(0)->dispatches_seen = 6;  // four dropped, and two in flight
  for (int i = 0; i < 3; ++i) fake.Publish(0, &record);
  fake.ring(0)->dispatches_dropped = 4;
  fake.ring(0)->inflight = 2;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_TRUE((*memory)->TakeOver(BootNs()).ok());
  EXPECT_TRUE((*memory)->taken_over());
  EXPECT_EQ(fake.control()->takeovers, 1u);
  EXPECT_EQ(fake.ring(0)->tail, 3u);
  // The two in flight complete later, and one more is seen.
  fake.ring(0)->dispatches_seen -= 2;
  fake.ring(0)->inflight = 0;
  record = FakeCollector::Dispatch(9);
  for (int i = 0; i < 3; ++i) fake.Publish(0, &record);
  (*memory)->Snapshot();
  std::vector<RecordSlot> out(8);
  ASSERT_EQ((*memory)->Drain(0, absl::MakeSpan(out)), 3u);
  rocattach_dispatch taken;
  memcpy(&taken, out[0].bytes, sizeof(taken));
  EXPECT_EQ(taken.correlation_id, 9u);
  const CollectorAccount account = (*memory)->SettledAccount(3);
  EXPECT_EQ(account.dispatches_seen, 3u);
  EXPECT_EQ(account.ring_dropped, 0u);
  EXPECT_EQ(account.produced, 3u);
  EXPECT_EQ(account.delivered, 3u);
  // Later losses are counted.
  ++fake.ring(0)->dispatches_seen;
  EXPECT_EQ((*memory)->SettledAccount(3).dispatches_seen, 4u);
}

// A thread may be between two steps of an operation when the memory is taken over.
TEST(CollectorMemory, AnOperationInProgressAtATakeOverIsSeen) {
  FakeCollector fake;
  fake.ring(0)->dispatches_seen = 8;  // all but the last one were dropped
  fake.ring(0)->dispatches_dropped = 7;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE((*memory)->TakeOver(BootNs()).ok());
  const rocattach_dispatch record = FakeCollector::Dispatch(1);
  --fake.ring(0)->dispatches_seen;  // counted already; Publish() counts it again
  fake.Publish(0, &record);
  EXPECT_GE((*memory)->Account().dispatches_seen, 1u);
  EXPECT_EQ((*memory)->SettledAccount(1).dispatches_seen, 1u);
}

TEST(CollectorMemory, CopiesInFlightAtATakeOverAreSeen) {
  FakeCollector fake;
  fake.ring(0)->dispatches_seen = fake.ring(0)->dispatches_dropped = 1;
  fake.ring(0)->copies_seen = 100;
  fake.ring(0)->inflight = 100;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE((*memory)->TakeOver(BootNs()).ok());
  fake.ring(0)->inflight = 60;  // 40 of them are published
  const CollectorAccount account = (*memory)->Account();
  EXPECT_GE(account.dispatches_seen + account.copies_seen, 100u);
  const CollectorAccount settled = (*memory)->SettledAccount(40);
  EXPECT_EQ(settled.dispatches_seen + settled.copies_seen, 100u);
}

// A thread of a process that records all the time, in the order of a collector:
// operations are captured in one ring and published in another.
class BusyProducer {
 public:
  explicit BusyProducer(FakeCollector* fake) : fake_(fake) {}
  ~BusyProducer() {
    stop_ = true;
    thread_.join();
  }

 private:
  template <typename T>
  static void Add(T* count, T more) {
    __atomic_store_n(count, *count + more, __ATOMIC_RELEASE);
  }
  void Run() {
    rocattach_ring* const from = fake_->ring(0);
    rocattach_ring* const to = fake_->ring(1);
    for (uint64_t i = 0; !stop_; ++i) {
      Add(&from->dispatches_seen, uint64_t{1});
      if (i % 5 == 0) {
        Add(&from->sampled_out, uint64_t{1});
        continue;
      }
      if (i % 3 != 0) Add(&from->inflight, int64_t{1});
      if (to->head - __atomic_load_n(&to->tail, __ATOMIC_ACQUIRE) <
          FakeCollector::kSlots) {
        Add(&to->head, uint64_t{1});
      } else {
        Add(&to->dispatches_dropped, uint64_t{1});
      }
      if (i % 3 != 0) Add(&to->inflight, int64_t{-1});
    }
  }

  FakeCollector* const fake_;
  std::atomic<bool> stop_ = false;
  std::thread thread_{[this] { Run(); }};
};

// Otherwise an honest process would be considered implausible for good.
TEST(CollectorMemory, DrainedCountNeverExceedsSeenCountAfterATakeOver) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok());
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  const BusyProducer producer(&fake);
  for (int round = 0; round < 3000; ++round) {
    ASSERT_TRUE((*memory)->TakeOver(BootNs()).ok());
    uint64_t taken = 0;
    for (int i = 0; i < 3; ++i) {
      (*memory)->Snapshot();
      taken += (*memory)->Drain(1, absl::MakeSpan(out));
      const CollectorAccount account = (*memory)->Account();
      ASSERT_LE(taken + account.ring_dropped + account.sampled_out,
                account.dispatches_seen)
          << "round " << round;
      const CollectorAccount settled = (*memory)->SettledAccount(taken);
      ASSERT_LE(taken + settled.ring_dropped + settled.sampled_out,
                settled.dispatches_seen);
    }
  }
}

// A service that has opened and mapped the memory.
class Service {
 public:
  explicit Service(const FakeCollector& fake)
      : fd_(open(absl::StrCat("/proc/self/fd/", fake.fd()).c_str(),
                 O_RDWR | O_CLOEXEC)),
        memory_(CollectorMemory::MapFd(fd_.get(), FakeCollector::Config()).value()) {}
  CollectorMemory* operator->() { return memory_.get(); }
  void Die() {
    memory_.reset();
    fd_.reset();
  }

 private:
  UniqueFd fd_;
  std::unique_ptr<CollectorMemory> memory_;
};

// A killed service cannot release the memory, and its successor may come at once.
TEST(CollectorMemory, MemoryOfADeadServiceIsTakenOverAtOnce) {
  FakeCollector fake;
  Service first(fake), second(fake);
  const uint64_t now = BootNs();
  first->Heartbeat(now);
  EXPECT_EQ(second->TakeOver(now + 1'000'000).code(),
            absl::StatusCode::kFailedPrecondition);
  first.Die();
  EXPECT_TRUE(second->TakeOver(now + 2'000'000).ok());
  // The next service can do the same.
  second->Heartbeat(now + 3'000'000);
  Service third(fake);
  EXPECT_FALSE(third->TakeOver(now + 4'000'000).ok()) << "the second one lives";
  second.Die();
  EXPECT_TRUE(third->TakeOver(now + 5'000'000).ok());
}

TEST(CollectorMemory, OneServiceAtATime) {
  FakeCollector fake;
  Service first(fake), second(fake);
  const uint64_t now = BootNs();
  first->Heartbeat(now);
  EXPECT_EQ(second->TakeOver(now + 1'000'000'000).code(),
            absl::StatusCode::kFailedPrecondition);
  // The first service stopped some seconds ago.
  EXPECT_TRUE(second->TakeOver(now + 10'000'000'000).ok());
  Service third(fake);
  EXPECT_FALSE(third->TakeOver(now + 10'000'000'001).ok());
  // The second service ended properly.
  second->Release();
  EXPECT_TRUE(third->TakeOver(now + 10'000'000'002).ok());
}

// The stopped service held the lock; its later death lets no third service take over.
TEST(CollectorMemory, AServiceThatTookOverFromAStoppedOneKeepsTheMemory) {
  FakeCollector fake;
  Service stopped(fake), second(fake);
  const uint64_t now = BootNs();
  stopped->Heartbeat(now);
  ASSERT_TRUE(second->TakeOver(now + 10'000'000'000).ok());
  stopped.Die();
  second->Heartbeat(now + 10'000'000'001);
  Service third(fake);
  EXPECT_FALSE(third->TakeOver(now + 10'000'000'002).ok());
}

}  // namespace
}  // namespace rocattach
