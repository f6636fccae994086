// The relation of the runtime's system clock to ours, if the thread that reads both
// loses its CPU in between.
#include "userspace/collector/hsa/clock_source.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "userspace/abi/atomics.h"

namespace rocattach::collector {
namespace {

constexpr uint64_t kLateNs = 4'000'000;

// Controls readings of the system clock; the runtime's function has no argument for it.
struct Readings {
  int late_before = 0;  // readings that are taken late because the thread loses its CPU
  int late_after = 0;   // readings that return late because the thread loses its CPU
  uint64_t ahead_ns = 0;
};
Readings& TheReadings() {
  static Readings readings;
  return readings;
}

void LoseCpu() {
  const uint64_t until = OwnBootNs() + kLateNs;
  while (OwnBootNs() < until) {
  }
}

hsa_status_t SystemInfo(hsa_system_info_t attribute, void* value) {
  auto* result = static_cast<uint64_t*>(value);
  if (attribute == HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY) {
    *result = 1'000'000'000;
    return HSA_STATUS_SUCCESS;
  }
  Readings& readings = TheReadings();
  if (readings.late_before > 0 && readings.late_before-- > 0) LoseCpu();
  *result = OwnBootNs() + readings.ahead_ns;
  if (readings.late_after > 0 && readings.late_after-- > 0) LoseCpu();
  return HSA_STATUS_SUCCESS;
}

// The offset that the collector applies to a time of the system domain.
int64_t OffsetAfter(Readings readings) {
  TheReadings() = readings;
  HsaFunctions hsa = {};
  hsa.system_get_info = SystemInfo;
  ClockSource clocks;
  clocks.Init(&hsa);
  constexpr uint64_t kTime = uint64_t{1} << 50;
  return static_cast<int64_t>(clocks.SystemToBoot(kTime) - kTime);
}

TEST(ClockSourceTest, TheSameClockHasNoOffset) {
  EXPECT_EQ(OffsetAfter({}), 0);
  EXPECT_EQ(OffsetAfter({.late_before = 2}), 0);
  EXPECT_EQ(OffsetAfter({.late_after = 2}), 0);
  EXPECT_EQ(OffsetAfter({.late_before = 100}), 0) << "however often it happens";
  EXPECT_EQ(OffsetAfter({.late_after = 100}), 0);
}

TEST(ClockSourceTest, AnotherClockHasItsOffset) {
  constexpr uint64_t kAheadNs = 3'600'000'000'000;
  constexpr double kNearNs = 2e6;
  const auto ahead = -static_cast<double>(kAheadNs);
  EXPECT_NEAR(OffsetAfter({.ahead_ns = kAheadNs}), ahead, kNearNs);
  EXPECT_NEAR(OffsetAfter({.late_before = 2, .ahead_ns = kAheadNs}), ahead, kNearNs);
  EXPECT_NEAR(OffsetAfter({.late_after = 2, .ahead_ns = kAheadNs}), ahead, kNearNs);
}

}  // namespace
}  // namespace rocattach::collector
