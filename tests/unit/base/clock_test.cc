#include "userspace/base/clock.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace rocattach {
namespace {

// Clocks that all show the same time. A reading takes 20 ns. Up to `lost_until`, every
// `lost_every`th reading takes 10 ms more, because the thread has lost its CPU.
class Clocks {
 public:
  Clocks(int lost_every, int lost_until)
      : lost_every_(lost_every), lost_until_(lost_until) {}

  uint64_t operator()(clockid_t) {
    ++readings_;
    now_ns_ += 20;
    if (readings_ <= lost_until_ && readings_ % lost_every_ == 0) now_ns_ += 10'000'000;
    return now_ns_;
  }

 private:
  int lost_every_, lost_until_;
  int readings_ = 0;
  uint64_t now_ns_ = 1'000'000'000;
};

TEST(ClockSnapshotTest, ClocksAreReadAtOneInstant) {
  for (int lost_every = 1; lost_every <= 5; ++lost_every) {
    const ClockSnapshot snapshot = ShortestSnapshot(Clocks(lost_every, 20));
    EXPECT_LT(snapshot.monotonic_ns - snapshot.boottime_ns, 1000u) << lost_every;
    EXPECT_LT(snapshot.monotonic_raw_ns - snapshot.boottime_ns, 1000u) << lost_every;
    EXPECT_LT(snapshot.realtime_ns - snapshot.boottime_ns, 1000u) << lost_every;
  }
}

TEST(ClockSnapshotTest, AThreadThatAlwaysLosesItsCpuStillGetsOne) {
  EXPECT_NE(ShortestSnapshot(Clocks(1, 1000)).boottime_ns, 0u);
}

}  // namespace
}  // namespace rocattach
