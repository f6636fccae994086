#include "userspace/record/drain/target_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/unit/record/collector_bytes.h"
#include "tests/unit/record/process_stream_fixture.h"

namespace rocattach {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr uint32_t kRings = 2;
constexpr uint64_t kDayNs = 24ull * 3600 * 1'000'000'000;

rocattach_dispatch Dispatch(uint64_t correlation) {
  return FakeCollector::Dispatch(correlation);
}

rocattach_copy Copy(uint64_t correlation) {
  rocattach_copy record = {};
  record.kind = ROCATTACH_RECORD_COPY;
  record.correlation_id = correlation;
  record.enqueue_ns = 1000 * correlation;
  record.start_ns = record.enqueue_ns + 100;
  record.end_ns = record.start_ns + 5000;
  record.direction = ROCATTACH_COPY_HOST_TO_DEVICE;
  return record;
}

rocattach_clock Clock(uint16_t agent) {
  rocattach_clock record = {};
  record.kind = ROCATTACH_RECORD_CLOCK;
  record.agent_id = agent;
  record.gpu_ticks = 1000;
  record.boottime_ns = 2000;
  record.ticks_per_second = 100'000'000;
  return record;
}

class TargetRecordsTest : public ProcessStreamTest {
 protected:
  // The dictionary has agent 1, queue 1 and kernel 1.
  void SetUp() override {
    ProcessStreamTest::SetUp();
    dictionary_.emplace(process_, &*output_, &*session_,
                        std::make_shared<UserMemory>());
    dictionary_->AddEntry(AgentEntry(1, "gfx90a"));
    dictionary_->AddEntry(QueueEntry(1));
    dictionary_->AddEntry(KernelEntry(1, "gemm"));
    records_.emplace(v1::Process(), process_, &*output_, &*session_, &*dictionary_,
                     kRings);
  }
  template <typename... Record>
  uint64_t Consume(uint32_t ring, const Record&... records) {
    const std::vector<RecordSlot> slots = {SlotOf(records)...};
    return records_->Consume(ring, slots);
  }
  const TargetRecords::Counts& counts() const { return records_->counts(); }

  std::optional<TargetDictionary> dictionary_;
  std::optional<TargetRecords> records_;
};

TEST_F(TargetRecordsTest, OperationsGoToTheStreamAsTheyAre) {
  rocattach_dispatch dispatch = Dispatch(1);
  dispatch.agent_id = 1;
  dispatch.queue_id = 1;
  Consume(0, dispatch, Copy(2));
  Consume(1, Dispatch(3));
  EXPECT_EQ(counts().operations.dispatches, 2u);
  EXPECT_EQ(counts().operations.copies, 1u);
  EXPECT_EQ(counts().invalid + counts().malformed + counts().untimed, 0u);
  const KeepingVisitor::Stream stream = Finish();
  ASSERT_THAT(stream.dispatches, SizeIs(2));
  EXPECT_EQ(Describe(stream.dispatches[0]), Describe(dispatch));
  ASSERT_THAT(stream.copies, SizeIs(1));
  EXPECT_EQ(Describe(stream.copies[0]), Describe(Copy(2)));
}

TEST_F(TargetRecordsTest, ReferencesToUnknownObjectsAreInvalid) {
  rocattach_dispatch queue = Dispatch(1), agent = Dispatch(2);
  queue.queue_id = 2;
  agent.agent_id = 2;
  rocattach_copy source = Copy(3), destination = Copy(4);
  source.src_agent_id = 2;
  destination.dst_agent_id = 2;
  Consume(0, queue, agent, source, destination);
  EXPECT_EQ(counts().invalid, 4u);
  EXPECT_EQ(counts().operations.dispatches + counts().operations.copies, 0u);
  const KeepingVisitor::Stream stream = Finish();
  EXPECT_THAT(stream.dispatches, IsEmpty());
  EXPECT_THAT(stream.copies, IsEmpty());
}

// Its name did not fit the dictionary.
TEST_F(TargetRecordsTest, ADispatchOfAnUnknownKernelHasNoKernel) {
  rocattach_dispatch record = Dispatch(1);
  record.kernel_id = 2;
  Consume(0, record);
  const KeepingVisitor::Stream stream = Finish();
  ASSERT_THAT(stream.dispatches, SizeIs(1));
  EXPECT_EQ(stream.dispatches[0].kernel_id, 0u);
}

TEST_F(TargetRecordsTest, ACopyInAnUnknownDirectionHasNone) {
  rocattach_copy record = Copy(1);
  record.direction = ROCATTACH_COPY_DEVICE_TO_DEVICE + 1;
  Consume(0, record);
  const KeepingVisitor::Stream stream = Finish();
  ASSERT_THAT(stream.copies, SizeIs(1));
  EXPECT_EQ(stream.copies[0].direction, ROCATTACH_COPY_UNKNOWN);
}

TEST_F(TargetRecordsTest, ImpossibleTimesAreCleared) {
  rocattach_dispatch backwards = Dispatch(1), longest = Dispatch(2),
                     longer = Dispatch(3);
  backwards.end_ns = backwards.start_ns - 1;
  longest.end_ns = longest.start_ns + kDayNs;
  longer.end_ns = longer.start_ns + kDayNs + 1;
  rocattach_copy copy = Copy(4);
  copy.end_ns = copy.start_ns - 1;
  Consume(0, backwards, longest, longer, copy);
  EXPECT_EQ(counts().untimed, 3u);
  EXPECT_EQ(counts().operations.dispatches, 3u);
  const KeepingVisitor::Stream stream = Finish();
  ASSERT_THAT(stream.dispatches, SizeIs(3));
  EXPECT_TRUE(stream.dispatches[0].flags & ROCATTACH_DISPATCH_UNTIMED);
  EXPECT_EQ(stream.dispatches[0].start_ns, 0u);
  EXPECT_EQ(stream.dispatches[1].end_ns, longest.end_ns);
  EXPECT_EQ(stream.dispatches[2].end_ns, 0u);
  ASSERT_THAT(stream.copies, SizeIs(1));
  EXPECT_TRUE(stream.copies[0].flags & ROCATTACH_DISPATCH_UNTIMED);
}

TEST_F(TargetRecordsTest, ClocksNeedAnAgent) {
  Consume(0, Clock(1), Clock(2));
  EXPECT_EQ(counts().others, 1u);
  EXPECT_EQ(counts().malformed, 1u);
  const KeepingVisitor::Stream stream = Finish();
  ASSERT_THAT(stream.clocks, SizeIs(1));
  EXPECT_EQ(stream.clocks[0].agent_id(), 1u);
}

TEST_F(TargetRecordsTest, UnknownKindsAreMalformed) {
  rocattach_dispatch record = Dispatch(1);
  record.kind = 999;
  Consume(0, record);
  EXPECT_EQ(counts().malformed, 1u);
  EXPECT_THAT(Finish().dispatches, IsEmpty());
}

// Records that sessions asked for have accounts of their own and are not operations.
TEST_F(TargetRecordsTest, RecordsOfSessionsAreNotOperations) {
  rocattach_values values = {};
  values.kind = ROCATTACH_RECORD_VALUES;
  rocattach_sample sample = {};
  sample.kind = ROCATTACH_RECORD_SAMPLE;
  rocattach_api_call call = {};
  call.kind = ROCATTACH_RECORD_API;
  Consume(0, values, sample, call);
  EXPECT_EQ(counts().others, 3u);
  EXPECT_EQ(counts().malformed + counts().invalid, 0u);
  EXPECT_EQ(counts().operations.dispatches + counts().operations.copies, 0u);
}

TEST_F(TargetRecordsTest, TheCostIsInDispatches) {
  EXPECT_EQ(Consume(0), 0u);
  EXPECT_EQ(Consume(0, Dispatch(1), Copy(2)), 2u);
  // A clock record needs a frame of its own, whatever its agent.
  EXPECT_EQ(Consume(0, Clock(9)), 32u);
  rocattach_sample sample = {};
  sample.kind = ROCATTACH_RECORD_SAMPLE;
  EXPECT_EQ(Consume(0, sample), 4u);
}

TEST_F(TargetRecordsTest, OperationsInFlightAreWrittenWithoutTimes) {
  Consume(0, Dispatch(1));
  records_->BeginEnd(16);
  records_->ConsumeUnfinished(SlotOf(Dispatch(2)));
  records_->ConsumeUnfinished(SlotOf(Copy(3)));
  records_->Write();
  EXPECT_EQ(counts().unfinished, 2u);
  EXPECT_EQ(counts().untimed, 2u);
  const KeepingVisitor::Stream stream = Finish();
  ASSERT_THAT(stream.dispatches, SizeIs(2));
  EXPECT_TRUE(stream.dispatches[1].flags & ROCATTACH_DISPATCH_UNFINISHED);
  EXPECT_EQ(stream.dispatches[1].start_ns, 0u);
  ASSERT_THAT(stream.copies, SizeIs(1));
  EXPECT_TRUE(stream.copies[0].flags & ROCATTACH_DISPATCH_UNFINISHED);
}

// A thread that dies while it publishes leaves its last operation in both places.
TEST_F(TargetRecordsTest, LastOperationOfARingIsNotCountedTwice) {
  Consume(0, Dispatch(1), Dispatch(2), Clock(1));
  Consume(1, Copy(3));
  records_->BeginEnd(16);
  records_->ConsumeUnfinished(SlotOf(Dispatch(2)));
  records_->ConsumeUnfinished(SlotOf(Copy(3)));
  EXPECT_EQ(counts().unfinished, 0u);
  // An earlier operation of the ring cannot be the duplicate.
  records_->ConsumeUnfinished(SlotOf(Dispatch(1)));
  records_->Write();
  EXPECT_EQ(counts().unfinished, 1u);
  EXPECT_EQ(counts().operations.dispatches, 3u);
  EXPECT_EQ(counts().operations.copies, 1u);
}

// A process that runs on may publish an operation taken from its table, or the reverse.
TEST_F(TargetRecordsTest, OperationIsCountedOnceAtTheEnd) {
  records_->BeginEnd(16);
  Consume(0, Dispatch(1));
  records_->ConsumeUnfinished(SlotOf(Dispatch(1)));
  records_->ConsumeUnfinished(SlotOf(Copy(2)));
  records_->Write();
  Consume(1, Copy(2), Clock(1), Dispatch(3));
  EXPECT_EQ(counts().unfinished, 1u);
  EXPECT_EQ(counts().operations.dispatches, 2u);
  EXPECT_EQ(counts().operations.copies, 1u);
  EXPECT_EQ(counts().others, 1u);
}

// The number of operations that the service remembers is limited.
TEST_F(TargetRecordsTest, AtTheEndAProcessCannotPublishWithoutLimit) {
  records_->BeginEnd(16);
  for (uint64_t i = 1; i <= 1000; ++i) Consume(0, Dispatch(i));
  EXPECT_GE(counts().operations.dispatches, 16u);
  EXPECT_LE(counts().operations.dispatches, 64u);
}

}  // namespace
}  // namespace rocattach
