#include "userspace/abi/inflight.h"

#include <gtest/gtest.h>

#include "userspace/collector/common/op.h"

namespace rocattach::collector {
namespace {

constexpr OperationEnd kEnd = {ROCATTACH_DISPATCH_UNFINISHED, 111, 222};

TEST(Inflight, ADispatchIsUnpackedWithAllFields) {
  rocattach_inflight entry = {};
  entry.flags = ROCATTACH_DISPATCH_APP_SIGNAL | 0x8000;
  entry.tid = 77;
  entry.correlation_id = 1ull << 40;
  entry.enqueue_ns = 100;
  entry.u.dispatch = {5, 6,  1u << 31, 2,        3,  1024,       8,
                      9, 10, 65536,    1u << 20, 11, 1ull << 41, 12};
  rocattach_dispatch r;
  memset(&r, 0xff, sizeof(r));
  UnpackDispatch(entry, kEnd, &r);
  EXPECT_EQ(r.kind, ROCATTACH_RECORD_DISPATCH);
  EXPECT_EQ(r.flags,
            ROCATTACH_DISPATCH_APP_SIGNAL | 0x8000 | ROCATTACH_DISPATCH_UNFINISHED);
  EXPECT_EQ(r.kernel_id, 5u);
  EXPECT_EQ(r.correlation_id, 1ull << 40);
  EXPECT_EQ(r.enqueue_ns, 100u);
  EXPECT_EQ(r.start_ns, 111u);
  EXPECT_EQ(r.end_ns, 222u);
  EXPECT_EQ(r.queue_id, 6u);
  EXPECT_EQ(r.tid, 77u);
  EXPECT_EQ(r.grid_x, 1u << 31);
  EXPECT_EQ(r.grid_y, 2u);
  EXPECT_EQ(r.grid_z, 3u);
  EXPECT_EQ(r.workgroup_x, 1024);
  EXPECT_EQ(r.workgroup_y, 8);
  EXPECT_EQ(r.workgroup_z, 9);
  EXPECT_EQ(r.agent_id, 10);
  EXPECT_EQ(r.lds_bytes, 65536u);
  EXPECT_EQ(r.scratch_bytes, 1u << 20);
  EXPECT_EQ(r.iteration, 11u);
  EXPECT_EQ(r.packet_index, 1ull << 41);
  EXPECT_EQ(r.dispatch_id, 12u);
}

TEST(Inflight, ALinkKnowsWhetherItsPacketIsConsumed) {
  OpLink link = {};
  for (uint64_t index : {uint64_t{0}, uint64_t{0x1fffffff}, (uint64_t{1} << 40) + 7}) {
    link.SetPacket(index);
    EXPECT_FALSE(link.Consumed(index));
    EXPECT_TRUE(link.Consumed(index + 1));
    EXPECT_TRUE(link.Consumed(index + (1 << 20)));
    EXPECT_FALSE(link.Consumed(index - (1 << 20)));
  }
}

TEST(Inflight, ACopyIsUnpackedAsItWasPacked) {
  rocattach_copy copy = {};
  copy.kind = ROCATTACH_RECORD_COPY;
  copy.src_agent_id = 1;
  copy.dst_agent_id = 2;
  copy.correlation_id = 3;
  copy.enqueue_ns = 4;
  copy.bytes = 1ull << 41;
  copy.tid = 5;
  copy.direction = ROCATTACH_COPY_DEVICE_TO_HOST;
  copy.engine = ROCATTACH_ENGINE_ASYNC;
  copy.src_address = 0x7f0000001000;
  copy.dst_address = 0x7f0000002000;
  rocattach_inflight entry;
  memset(&entry, 0xff, sizeof(entry));
  PackCopy(copy, &entry);
  rocattach_copy back;
  memset(&back, 0xff, sizeof(back));
  UnpackCopy(entry, kEnd, &back);
  copy.flags = kEnd.flags;
  copy.start_ns = kEnd.start_ns;
  copy.end_ns = kEnd.end_ns;
  EXPECT_EQ(memcmp(&back, &copy, sizeof(copy)), 0);
}

}  // namespace
}  // namespace rocattach::collector
