// Operations that were counted and not received when a process ends, or when the
// recorder leaves a process that runs on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>
#include <set>
#include <thread>

#include "tests/await.h"
#include "tests/unit/record/recorder_fixture.h"

namespace rocattach {
namespace {

TEST_F(RecorderTest, LossIsCountedInFull) {
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  ReportIn(fake);
  Arm(&fake);
  rocattach_dispatch record = FakeCollector::Dispatch(1);
  fake.Publish(0, &record);
  rocattach_dispatch foreign = FakeCollector::Dispatch(2);
  foreign.queue_id = 99;  // no such queue: an invalid record
  fake.Publish(0, &foreign);
  fake.ring(0)->dropped = 8;  // 3 of them are not operations
  fake.ring(0)->dispatches_dropped = 4;
  fake.ring(1)->copies_dropped = 1;
  fake.control()->other_dropped = 2;
  fake.AddInflight(1, 3);
  fake.ring(0)->inflight = 1;
  fake.ring(0)->dispatches_seen = 1 + 1 + 5 + 2 + 1 + 4;  // 4 vanished at the death
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  exit.exit.wait_status = 9;
  recorder_->OnEvent(exit);
  RecordedRun seen = Finish();
  ASSERT_EQ(seen.accounts.size(), 1u);
  const v1::LossAccount& account = seen.accounts.begin()->second;
  EXPECT_TRUE(account.final());
  EXPECT_EQ(account.dispatches_delivered(), 2u);
  EXPECT_EQ(account.unfinished(), 1u);
  EXPECT_EQ(account.dropped_ring_full(), 5u);
  EXPECT_EQ(account.dropped_collector(), 2u);
  EXPECT_EQ(account.dropped_invalid(), 1u);
  EXPECT_EQ(account.dropped_inflight(), 4u);
  EXPECT_EQ(account.dispatches_seen(),
            account.dispatches_delivered() + account.dropped_ring_full() +
                account.dropped_collector() + account.dropped_invalid() +
                account.dropped_inflight());
}

// A recorder that ends while its process runs on, with operations in flight.
class LeavingRecorder : public RecorderTest {
 public:
  explicit LeavingRecorder(uint64_t operations_timeout_ns = 500'000'000) {
    operations_timeout_ns_ = operations_timeout_ns;
    SetUp();
  }
  void TestBody() override {}
  using RecorderTest::Finish;

  // Records a process in which `operations` operations are in flight.
  void Begin(uint64_t operations) {
    recorder_->OnWindow(Attached());
    ReportIn(fake_);
    Arm(&fake_);
    ASSERT_TRUE(WaitFor([&](const RunTotals& t) { return t.attached == 1; }));
    for (uint64_t i = 0; i < operations; ++i) {
      fake_.AddInflight(static_cast<uint32_t>(i), i + 1);
      ++fake_.ring(0)->dispatches_seen;
      ++fake_.ring(0)->inflight;
    }
  }
  // Completes an operation, in the order of the collector.
  void Complete(uint64_t operation) {
    const rocattach_dispatch record = FakeCollector::Dispatch(operation + 1);
    --fake_.ring(0)->dispatches_seen;  // Publish() counts it
    fake_.Publish(0, &record);
    __atomic_store_n(&fake_.inflight(static_cast<uint32_t>(operation))->kind,
                     uint16_t{ROCATTACH_RECORD_NONE}, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&fake_.ring(0)->inflight, 1, __ATOMIC_RELAXED);
  }
  // Waits until the recorder is about to leave the process.
  void AwaitStop() {
    const auto stopped = [this] {
      return __atomic_load_n(&fake_.control()->recording, __ATOMIC_ACQUIRE) == 0;
    };
    testing_support::Await(stopped, "the end of the recording");
  }
  // Each operation is in the recording once, and nothing else is reported as missing.
  void ExpectEachOnce(const RecordedRun& seen, uint64_t operations) {
    ASSERT_EQ(seen.accounts.size(), 1u);
    const v1::LossAccount& account = seen.accounts.begin()->second;
    EXPECT_TRUE(account.final());
    EXPECT_EQ(account.dispatches_seen(), operations);
    EXPECT_EQ(account.dispatches_delivered(), operations);
    EXPECT_EQ(account.dropped_inflight(), 0u);
    std::set<uint64_t> found;
    ASSERT_EQ(seen.dispatches.size(), 1u);
    for (const rocattach_dispatch& dispatch : seen.dispatches.begin()->second) {
      EXPECT_TRUE(found.insert(dispatch.correlation_id).second)
          << dispatch.correlation_id << " is there twice";
    }
    EXPECT_EQ(found.size(), operations);
  }

  FakeCollector fake_;
};

TEST(RecorderLeaves, OperationsThatEndSoonAfterAreRecordedWithTheirTimes) {
  LeavingRecorder recorder;
  recorder.Begin(10);
  std::thread process([&] {
    recorder.AwaitStop();
    usleep(60'000);  // operations take a while
    for (uint64_t i = 0; i < 10; ++i) recorder.Complete(i);
  });
  const RecordedRun seen = recorder.Finish();
  process.join();
  recorder.ExpectEachOnce(seen, 10);
  EXPECT_EQ(seen.accounts.begin()->second.unfinished(), 0u);
}

TEST(RecorderLeaves, OperationsThatDoNotEndAreRecordedWithoutTimes) {
  LeavingRecorder recorder;
  recorder.Begin(7);
  const RecordedRun seen = recorder.Finish();
  recorder.ExpectEachOnce(seen, 7);
  EXPECT_EQ(seen.accounts.begin()->second.unfinished(), 7u);
}

// While the table is read, operations move from it to the rings, at any instant.
TEST(RecorderLeaves, OperationsThatEndMeanwhileAreRecordedExactlyOnce) {
  constexpr int kRounds = 200;
  std::mt19937 random(1);
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    const auto delay_us = static_cast<useconds_t>(19'000 + random() % 3'000);
    const auto pause_us = static_cast<useconds_t>(random() % 30);
    LeavingRecorder recorder(/*operations_timeout_ns=*/20'000'000);
    recorder.Begin(FakeCollector::kInflight);
    std::thread process([&] {
      recorder.AwaitStop();
      usleep(delay_us);
      for (uint64_t i = 0; i < FakeCollector::kInflight; ++i) {
        recorder.Complete(i);
        if (pause_us > 15) usleep(pause_us);
      }
    });
    const RecordedRun seen = recorder.Finish();
    process.join();
    recorder.ExpectEachOnce(seen, FakeCollector::kInflight);
  }
}

TEST_F(RecorderTest, ProcessesThatStillRunAreClosedInOrder) {
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  ReportIn(fake);
  Arm(&fake);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.attached == 1; }));
  RecordedRun seen = Finish();
  EXPECT_EQ(seen.ends.begin()->second.how(), v1::ProcessEnd::STILL_RUNNING);
  EXPECT_EQ(fake.control()->recording, 0u) << "nobody reads any more";
}

}  // namespace
}  // namespace rocattach
