#include "userspace/base/human.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(HumanDuration, KeepsThreeDigits) {
  EXPECT_EQ(HumanDuration(0), "0 ns");
  EXPECT_EQ(HumanDuration(999), "999 ns");
  EXPECT_EQ(HumanDuration(1'000), "1.00 us");
  EXPECT_EQ(HumanDuration(41'249), "41.2 us");
  EXPECT_EQ(HumanDuration(999'600), "1.00 ms");
  EXPECT_EQ(HumanDuration(312'000'000), "312 ms");
  EXPECT_EQ(HumanDuration(2'500'000'000), "2.50 s");
  EXPECT_EQ(HumanDuration(125'000'000'000), "2 min 05 s");
  EXPECT_EQ(HumanDuration(7'380'000'000'000), "2 h 03 min");
}

TEST(HumanBytes, UsesBinaryUnits) {
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.00 KiB");
  EXPECT_EQ(HumanBytes(8 << 20), "8.00 MiB");
  EXPECT_EQ(HumanBytes(UINT64_MAX), "16.0 EiB");
}

TEST(HumanCount, GroupsByThousands) {
  EXPECT_EQ(HumanCount(0), "0");
  EXPECT_EQ(HumanCount(999), "999");
  EXPECT_EQ(HumanCount(1000), "1,000");
  EXPECT_EQ(HumanCount(1234567), "1,234,567");
}

}  // namespace
}  // namespace rocattach
