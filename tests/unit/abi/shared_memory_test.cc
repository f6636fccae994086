// Layout of the memory that two programs of different builds share: offsets that must
// not change within one version of the layout.
#include "userspace/abi/shared_memory.h"

#include <gtest/gtest.h>
#include <stddef.h>

namespace rocattach {
namespace {

// A service of another build reads these before it knows the version.
TEST(SharedMemoryTest, TheControlBlockHeaderDoesNotMove) {
  EXPECT_EQ(offsetof(rocattach_control, magic), 0u);
  EXPECT_EQ(offsetof(rocattach_control, version), 8u);
  EXPECT_EQ(offsetof(rocattach_control, control_bytes), 12u);
  EXPECT_EQ(offsetof(rocattach_control, total_bytes), 16u);
  EXPECT_EQ(ROCATTACH_SHM_VERSION, 11u);
}

TEST(SharedMemoryTest, TheControlBlockIsOnePage) {
  EXPECT_LE(sizeof(rocattach_control), 4096u);
  EXPECT_EQ(offsetof(rocattach_control, plan_offset), 384u);
  EXPECT_EQ(offsetof(rocattach_control, backend), 400u);
  EXPECT_EQ(offsetof(rocattach_control, plan_acked), 584u);
  // Words written by the collector and by the service do not share a cache line.
  EXPECT_EQ(offsetof(rocattach_control, service_mapped) % 128, 0u);
  EXPECT_GE(offsetof(rocattach_control, service_mapped),
            offsetof(rocattach_control, plan_error_text) +
                sizeof(rocattach_control::plan_error_text));
  // The kernel aligns 64-bit words in its structures only if this one is aligned.
  EXPECT_EQ(offsetof(rocattach_control, plan_acked) % 8, 0u);
}

TEST(SharedMemoryTest, AccountsOfARingKeepToTheirSide) {
  EXPECT_EQ(offsetof(rocattach_ring, tail), 64u);
  EXPECT_EQ(offsetof(rocattach_ring, counted_seen), 128u);
  EXPECT_LT(offsetof(rocattach_ring, inflight), offsetof(rocattach_ring, tail));
}

TEST(SharedMemoryTest, EveryRecordBeginsWithItsKind) {
  EXPECT_EQ(offsetof(rocattach_values, kind), 0u);
  EXPECT_EQ(offsetof(rocattach_sample, kind), 0u);
  EXPECT_EQ(offsetof(rocattach_api_call, kind), 0u);
  EXPECT_EQ(offsetof(rocattach_values, correlation_id), 8u);
  EXPECT_EQ(offsetof(rocattach_values, plan_generation), 16u);
  EXPECT_EQ(offsetof(rocattach_values, value), 32u);
  EXPECT_EQ(offsetof(rocattach_sample, begin_ns), 24u);
  EXPECT_EQ(offsetof(rocattach_api_call, text), 56u);
  EXPECT_EQ(offsetof(rocattach_dispatch, iteration), 76u);
  EXPECT_EQ(offsetof(rocattach_dispatch, dispatch_id), 88u);
}

// The stub's code expects the path at a fixed offset (injector/stub/stub_code.S).
TEST(SharedMemoryTest, TheConfigurationEndsWithThePath) {
  EXPECT_EQ(offsetof(rocattach_collector_config, collector_path), 64u);
  EXPECT_EQ(offsetof(rocattach_collector_config, backend), 48u);
}

TEST(SharedMemoryTest, ADispatchNamesItsPlan) {
  for (uint64_t generation : {2ull, 4ull, 254ull, 256ull, 1ull << 40}) {
    const uint16_t flags = static_cast<uint16_t>(
        ROCATTACH_PLAN_TAG(generation) << 9 | ROCATTACH_DISPATCH_COUNTED |
        ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED);
    EXPECT_EQ(ROCATTACH_DISPATCH_PLAN_TAG(flags), ROCATTACH_PLAN_TAG(generation));
    EXPECT_TRUE(flags & ROCATTACH_DISPATCH_COUNTED);
  }
  EXPECT_NE(ROCATTACH_PLAN_TAG(2), ROCATTACH_PLAN_TAG(4));
}

}  // namespace
}  // namespace rocattach
