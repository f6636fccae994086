#include "userspace/record/driver_evidence.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

constexpr DriverReading kIdle = {.computes = false, .sdma_us = 100};
constexpr DriverReading kComputes = {.computes = true, .sdma_us = 100};
constexpr CollectorReading kNothing = {
    .dispatches_on = true, .copies_on = true, .dispatches = 7, .copies = 3};

TEST(DriverEvidence, ComputingWithoutDispatchesIsEvidence) {
  DriverEvidence evidence;
  EXPECT_EQ(evidence.Compare(kComputes, kNothing), "") << "there is nothing before";
  EXPECT_NE(evidence.Compare(kComputes, kNothing), "");
}

TEST(DriverEvidence, OneReadingMayBeAKernelThatHasJustEnded) {
  DriverEvidence evidence;
  EXPECT_EQ(evidence.Compare(kIdle, kNothing), "");
  EXPECT_EQ(evidence.Compare(kComputes, kNothing), "");
  EXPECT_EQ(evidence.Compare(kIdle, kNothing), "");
  EXPECT_EQ(evidence.Compare(kComputes, kNothing), "");
}

TEST(DriverEvidence, CountedOperationsExplainTheLoad) {
  CollectorReading dispatched = kNothing, copied = kNothing, unseen = kNothing,
                   in_flight = kNothing;
  ++dispatched.dispatches;
  ++copied.copies;
  ++unseen.unseen;  // counted as unseen
  in_flight.inflight = 1;
  for (const CollectorReading& next : {dispatched, copied, unseen, in_flight}) {
    DriverEvidence evidence;
    EXPECT_EQ(evidence.Compare(kComputes, kNothing), "");
    EXPECT_EQ(evidence.Compare({.computes = true, .sdma_us = 50'000'100}, next), "");
  }
  DriverEvidence evidence;
  EXPECT_EQ(evidence.Compare(kComputes, in_flight), "");
  EXPECT_EQ(evidence.Compare(kComputes, kNothing), "") << "it has just ended";
}

// Under a load budget most dispatches are only counted.
TEST(DriverEvidence, ALongDispatchThatWasOnlyCountedExplainsTheLoad) {
  CollectorReading counted = kNothing;
  counted.not_followed = 1;
  DriverEvidence evidence;
  EXPECT_EQ(evidence.Compare(kComputes, counted), "");
  EXPECT_EQ(evidence.Compare(kComputes, counted), "");
}

TEST(DriverEvidence, CopyTimeWithoutCopiesIsEvidence) {
  DriverEvidence evidence;
  EXPECT_EQ(evidence.Compare(kIdle, kNothing), "");
  EXPECT_EQ(evidence.Compare({.computes = false, .sdma_us = 9'100}, kNothing), "")
      << "the runtime's own";
  EXPECT_NE(evidence.Compare({.computes = false, .sdma_us = 29'100}, kNothing), "");
  // A GPU that is gone no longer contributes its copy time.
  EXPECT_EQ(evidence.Compare({.computes = false, .sdma_us = 0}, kNothing), "");
}

TEST(DriverEvidence, OperationsThatAreNotRecordedAreNotMissing) {
  CollectorReading off = kNothing;
  off.dispatches_on = false;
  off.copies_on = false;
  DriverEvidence evidence;
  EXPECT_EQ(evidence.Compare(kComputes, off), "");
  EXPECT_EQ(evidence.Compare({.computes = true, .sdma_us = 50'000'100}, off), "");
  EXPECT_EQ(evidence.Compare(kComputes, kNothing), "") << "it was off until now";
}

}  // namespace
}  // namespace rocattach
