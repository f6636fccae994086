#include "userspace/collector/hsa/batch_copy.h"

#include <gtest/gtest.h>
#include <string.h>

#include <vector>

#include "tests/unit/collector/hsa/fake_hsa.h"
#include "userspace/collector/hsa/copies.h"

namespace rocattach::collector {
namespace {

constexpr hsa_agent_t kHost = {0x100}, kGpu = {0x200};

hsa_amd_profiling_async_copy_time_t g_time;

hsa_status_t FakeCopyTime(hsa_signal_t, hsa_amd_profiling_async_copy_time_t* time) {
  *time = g_time;
  return HSA_STATUS_SUCCESS;
}

std::vector<rocattach_copy> AllCopies(const Memory& memory) {
  std::vector<rocattach_copy> all;
  for (uint32_t i = 0; i < memory.geometry().ring_count; ++i) {
    for (const auto& record : RecordsIn<rocattach_copy>(memory, i)) {
      if (record.kind == ROCATTACH_RECORD_COPY) all.push_back(record);
    }
  }
  return all;
}

class BatchCopyTest : public testing::Test {
 protected:
  BatchCopyTest() {
    f_.hsa.get_async_copy_time = FakeCopyTime;
    f_.hsa.iterate_agents = [](hsa_status_t (*visit)(hsa_agent_t, void*), void* data) {
      visit(kHost, data);
      return visit(kGpu, data);
    };
    f_.hsa.agent_get_info = AgentGetInfo;
    f_.hsa.agent_iterate_memory_pools =
        [](hsa_agent_t, hsa_status_t (*)(hsa_amd_memory_pool_t, void*), void*) {
          return HSA_STATUS_SUCCESS;
        };
    dictionary_.Init(&f_.memory);
    (void)agents_.Load(f_.hsa, &dictionary_, &ids_);
    f_.hsa.async_copy_enable = [](bool) { return HSA_STATUS_SUCCESS; };
    recording_.Init(&g_process);
    copies_.Init(&f_.tracker, &agents_, &f_.hsa, &recording_);
    ring_ = f_.rings.Mine();
    for (amd_signal_t& signal : signals_) signal.value = 1;
  }
  // Not a lambda: it would load the attribute to pass it on, and AMD's own attributes
  // are not values of the enumeration.
  static hsa_status_t AgentGetInfo(hsa_agent_t, hsa_agent_info_t, void*) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  static hsa_signal_t Handle(amd_signal_t* signal) {
    return {reinterpret_cast<uint64_t>(signal)};
  }
  CopyOp Linear(size_t bytes, amd_signal_t* signal) {
    CopyOp op;
    memset(&op, 0, sizeof(op));
    op.completion = Handle(signal);
    op.src = from_;
    op.dst = to_;
    op.src_agent = kHost;
    op.dst_agent = kGpu;
    op.size = bytes;
    return op;
  }
  Copies::Batch Begin(const std::vector<CopyOp>& ops) {
    Copies::Batch batch;
    batch.ops = ops.data();
    batch.count = static_cast<uint32_t>(ops.size());
    copies_.BeginBatch(&batch, &ring_);
    return batch;
  }
  void End(amd_signal_t* signal, uint64_t start, uint64_t end) {
    g_time = {start, end};
    signal->value = signal->value - 1;
    copies_.HarvestAll(&ring_);
  }

  CaptureFixture f_;
  Agents agents_;
  AgentIds ids_;
  Dictionary dictionary_;
  HsaRecording recording_;
  Copies copies_;
  RingHandle ring_;
  alignas(64) amd_signal_t signals_[4] = {};
  char from_[64], to_[64];
  void* lists_[3] = {to_, to_ + 1, to_ + 2};
  void* sources_[3] = {from_, from_ + 1, from_ + 2};
  hsa_agent_t owners_[3] = {kGpu, kGpu, kGpu};
  size_t sizes_[3] = {10, 0, 30};
};

TEST_F(BatchCopyTest, EachOperationHasARecordWithItsTimes) {
  const std::vector<CopyOp> ops = {Linear(10, &signals_[0]), Linear(20, &signals_[1])};
  const Copies::Batch batch = Begin(ops);
  copies_.BatchSubmitted(batch, HSA_STATUS_SUCCESS, &ring_);
  EXPECT_EQ(f_.Sum(&rocattach_ring::copies_seen), 2u);
  EXPECT_EQ(f_.Inflight(), 2);
  End(&signals_[1], 5000, 6000);
  End(&signals_[0], 7000, 9000);
  EXPECT_EQ(f_.Inflight(), 0);
  const auto records = AllCopies(f_.memory);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].bytes, 20u);
  EXPECT_EQ(records[0].end_ns - records[0].start_ns, 1000u);
  EXPECT_EQ(records[1].bytes, 10u);
  EXPECT_EQ(records[1].end_ns - records[1].start_ns, 2000u);
  EXPECT_EQ(records[0].flags | records[1].flags, 0);
}

// Each entry has a record, with the times of the whole operation.
TEST_F(BatchCopyTest, EntriesEndTogether) {
  CopyOp broadcast = Linear(40, &signals_[0]);
  broadcast.type = CopyOp::kBroadcast;
  broadcast.entries = 3;
  broadcast.dst_list = lists_;
  broadcast.dst_agent_list = owners_;
  CopyOp list = Linear(0, &signals_[1]);
  list.entries = 3;
  list.src_list = sources_;
  list.dst_list = lists_;
  list.dst_agent_list = owners_;
  list.size_list = sizes_;
  CopyOp swap = Linear(50, &signals_[2]);
  swap.type = CopyOp::kSwap;
  swap.second_size = 60;
  const std::vector<CopyOp> ops = {broadcast, list, swap};
  copies_.BatchSubmitted(Begin(ops), HSA_STATUS_SUCCESS, &ring_);
  // One entry of the list has nothing to copy.
  EXPECT_EQ(f_.Sum(&rocattach_ring::copies_seen), 7u);
  End(&signals_[0], 1000, 2000);
  End(&signals_[1], 3000, 5000);
  End(&signals_[2], 6000, 9000);
  const auto records = AllCopies(f_.memory);
  ASSERT_EQ(records.size(), 7u);
  const uint64_t bytes[] = {40, 40, 40, 10, 30, 50, 60};
  const uint64_t times[] = {1000, 1000, 1000, 2000, 2000, 3000, 3000};
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].bytes, bytes[i]) << i;
    EXPECT_EQ(records[i].end_ns - records[i].start_ns, times[i]) << i;
    EXPECT_EQ(records[i].flags, 0) << i;
  }
  EXPECT_EQ(records[6].src_address, reinterpret_cast<uint64_t>(to_));
  EXPECT_EQ(records[6].dst_address, reinterpret_cast<uint64_t>(from_));
}

TEST_F(BatchCopyTest, OperationsThatShareASignalGetNoTimes) {
  signals_[0].value = 2;
  const std::vector<CopyOp> ops = {Linear(10, &signals_[0]), Linear(20, &signals_[0])};
  copies_.BatchSubmitted(Begin(ops), HSA_STATUS_SUCCESS, &ring_);
  End(&signals_[0], 1000, 2000);
  End(&signals_[0], 3000, 4000);
  const auto records = AllCopies(f_.memory);
  ASSERT_EQ(records.size(), 2u);
  for (const auto& record : records) {
    EXPECT_EQ(record.flags, ROCATTACH_DISPATCH_UNTIMED);
  }
}

TEST_F(BatchCopyTest, ARefusedBatchLeavesNothing) {
  const std::vector<CopyOp> ops = {Linear(10, &signals_[0]), Linear(20, &signals_[1])};
  copies_.BatchSubmitted(Begin(ops), HSA_STATUS_ERROR_INVALID_ARGUMENT, &ring_);
  EXPECT_EQ(f_.Sum(&rocattach_ring::copies_seen), 0u);
  EXPECT_EQ(f_.Inflight(), 0);
  EXPECT_EQ(f_.tracker.app_signals().tracked(), 0u);
  EXPECT_TRUE(AllCopies(f_.memory).empty());
}

TEST_F(BatchCopyTest, WithoutASignalThereAreNoTimes) {
  const std::vector<CopyOp> ops = {Linear(10, &signals_[0]), Linear(20, nullptr)};
  copies_.BatchSubmitted(Begin(ops), HSA_STATUS_SUCCESS, &ring_);
  End(&signals_[0], 1000, 2000);
  EXPECT_EQ(f_.Sum(&rocattach_ring::copies_seen), 2u);
  const auto records = AllCopies(f_.memory);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].flags, ROCATTACH_DISPATCH_UNTIMED);
  EXPECT_EQ(records[0].bytes, 20u);
}

// The operations after one without a signal are not affected.
TEST_F(BatchCopyTest, AnOperationWithoutASignalDoesNotAffectTheNext) {
  const std::vector<CopyOp> ops = {Linear(10, nullptr), Linear(20, &signals_[0]),
                                   Linear(30, nullptr), Linear(40, &signals_[1])};
  copies_.BatchSubmitted(Begin(ops), HSA_STATUS_SUCCESS, &ring_);
  EXPECT_EQ(f_.Sum(&rocattach_ring::copies_seen), 4u);
  EXPECT_EQ(f_.Inflight(), 2);
  End(&signals_[0], 1000, 2000);
  End(&signals_[1], 3000, 5000);
  const auto records = AllCopies(f_.memory);
  ASSERT_EQ(records.size(), 4u);
  const uint64_t bytes[] = {10, 30, 20, 40};
  const uint64_t times[] = {0, 0, 1000, 2000};
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].bytes, bytes[i]) << i;
    EXPECT_EQ(records[i].end_ns - records[i].start_ns, times[i]) << i;
    EXPECT_EQ(records[i].flags, times[i] == 0 ? ROCATTACH_DISPATCH_UNTIMED : 0) << i;
  }
}

TEST_F(BatchCopyTest, ARefusedBatchWithOneWithoutASignalLeavesNothing) {
  const std::vector<CopyOp> ops = {Linear(10, nullptr), Linear(20, &signals_[0])};
  copies_.BatchSubmitted(Begin(ops), HSA_STATUS_ERROR_INVALID_ARGUMENT, &ring_);
  EXPECT_EQ(f_.Sum(&rocattach_ring::copies_seen), 0u);
  EXPECT_EQ(f_.Inflight(), 0);
  EXPECT_TRUE(AllCopies(f_.memory).empty());
}

// An operation for which there is no room may use the signal of an earlier copy.
TEST_F(BatchCopyTest, AFullTableKeepsTheTimesOfOthersApart) {
  signals_[1].value = 2;
  const rocattach_copy before = copies_.Describe(kGpu, kHost, to_, from_, 5, &ring_);
  const uint32_t earlier = copies_.Begin(before, Handle(&signals_[1]), &ring_);
  copies_.Submitted(earlier, HSA_STATUS_SUCCESS, before, &ring_);
  OpList others;
  while (f_.tracker.Take(&others) != kNoOp) {
  }
  // More entries than there is room for.
  constexpr uint16_t kEntries = 40;
  std::vector<void*> to(kEntries, to_);
  std::vector<hsa_agent_t> owners(kEntries, kGpu);
  CopyOp broadcast = Linear(10, &signals_[0]);
  broadcast.type = CopyOp::kBroadcast;
  broadcast.entries = kEntries;
  broadcast.dst_list = to.data();
  broadcast.dst_agent_list = owners.data();
  const std::vector<CopyOp> ops = {broadcast, Linear(20, &signals_[1])};
  const Copies::Batch batch = Begin(ops);
  ASSERT_NE(batch.tracked, 0u);
  ASSERT_LT(batch.tracked, kEntries);
  copies_.BatchSubmitted(batch, HSA_STATUS_SUCCESS, &ring_);
  EXPECT_EQ(f_.Sum(&rocattach_ring::copies_seen), 42u);
  End(&signals_[0], 1000, 2000);
  End(&signals_[1], 5000, 6000);
  End(&signals_[1], 7000, 8000);
  EXPECT_EQ(f_.Inflight(), 0);
  uint64_t timed = 0;
  const auto records = AllCopies(f_.memory);
  EXPECT_EQ(records.size(), 42u);
  for (const auto& record : records) {
    if ((record.flags & ROCATTACH_DISPATCH_UNTIMED) != 0) continue;
    EXPECT_EQ(record.bytes, 10u);
    EXPECT_EQ(record.end_ns - record.start_ns, 1000u);
    ++timed;
  }
  EXPECT_EQ(timed, batch.tracked);
}

// Operations of an unknown layout are counted, and not read.
TEST_F(BatchCopyTest, AnUnknownLayoutIsCounted) {
  std::vector<CopyOp> ops = {Linear(10, &signals_[0]), Linear(20, &signals_[1]),
                             Linear(30, &signals_[2])};
  ops[1].type = 6;
  copies_.BatchSubmitted(Begin(ops), HSA_STATUS_SUCCESS, &ring_);
  EXPECT_EQ(f_.Sum(&rocattach_ring::copies_seen), 1u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), 2u);
  ops[1].type = 0;
  ops[1].version = 3;
  EXPECT_EQ(copies_.KnownOps(ops.data(), 3), 1u);
  EXPECT_EQ(copies_.KnownOps(ops.data(), 0), 0u);
  EXPECT_EQ(copies_.KnownOps(nullptr, 3), 0u);
  ops[0].dst_agent.handle = 0x300;  // not an agent
  EXPECT_EQ(copies_.KnownOps(ops.data(), 1), 0u);
  ops[0].dst_agent = kGpu;
  EXPECT_EQ(copies_.KnownOps(ops.data(), 1), 1u);
  ops[0].completion.handle += 8;  // not a signal
  EXPECT_EQ(copies_.KnownOps(ops.data(), 1), 0u);
  CopyOp broadcast = Linear(10, &signals_[0]);
  broadcast.type = CopyOp::kBroadcast;
  EXPECT_FALSE(IsCopyOp(broadcast)) << "to nobody";
  broadcast.entries = 1;
  broadcast.dst_list = nullptr;
  EXPECT_FALSE(IsCopyOp(broadcast));
}

}  // namespace
}  // namespace rocattach::collector
