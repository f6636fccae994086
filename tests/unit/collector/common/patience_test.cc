#include "userspace/collector/common/patience.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace rocattach::collector {
namespace {

// Takes a lock that its holder releases after a while. On a busy machine that may be
// too late, but not every time.
bool WaitsForALateHolder(Patience* patience, TinyLock* lock) {
  bool taken = false;
  for (int tries = 0; tries < 100 && !taken; ++tries) {
    lock->Lock();
    std::thread holder([lock] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      lock->Unlock();
    });
    taken = patience->Lock(lock);
    holder.join();
    if (!taken) {
      EXPECT_TRUE(patience->Lock(lock));
    }
    lock->Unlock();
  }
  return taken;
}

TEST(PatienceTest, WaitsForAHolderThatIsLate) {
  TinyLock lock;
  Patience patience;
  EXPECT_TRUE(patience.Lock(&lock));
  lock.Unlock();
  EXPECT_TRUE(WaitsForALateHolder(&patience, &lock));
}

// Later attempts give up at once, until the lock has been free again.
TEST(PatienceTest, WaitsOnceForAHolderThatIsStuck) {
  TinyLock lock;
  Patience patience;
  lock.Lock();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(patience.Lock(&lock));
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
  // With a wait for each attempt, this would take hours.
  for (int i = 0; i < 100'000; ++i) EXPECT_FALSE(patience.Lock(&lock));
  lock.Unlock();
  EXPECT_TRUE(patience.Lock(&lock));
  lock.Unlock();
  EXPECT_TRUE(WaitsForALateHolder(&patience, &lock));
}

}  // namespace
}  // namespace rocattach::collector
