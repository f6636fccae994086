#include "userspace/record/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/await.h"
#include "tests/unit/record/recorder_fixture.h"
#include "userspace/base/clock.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/reader.h"

namespace rocattach {
namespace {

TEST_F(RecorderTest, RecordsFromTheReportToTheExit) {
  FakeCollector fake;
  fake.AddKernel(1, "kernel");
  recorder_->OnWindow(Attached());
  ReportIn(fake);
  Arm(&fake);
  for (uint64_t i = 1; i <= 10; ++i) {
    rocattach_dispatch record = FakeCollector::Dispatch(i);
    fake.Publish(i % 2, &record);
  }
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.attached == 1; }));
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  exit.exit.wait_status = 3 << 8;
  recorder_->OnEvent(exit);
  RecordedRun seen = Finish();
  ASSERT_EQ(seen.processes.size(), 1u);
  uint32_t stream = seen.processes.begin()->first;
  EXPECT_EQ(seen.verdicts[stream].state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(seen.dispatches[stream].size(), 10u);
  EXPECT_EQ(seen.ends[stream].how(), v1::ProcessEnd::EXITED);
  EXPECT_EQ(seen.ends[stream].exit_code(), 3u);
  EXPECT_EQ(seen.accounts[stream].dispatches_seen(), 10u);
  EXPECT_EQ(seen.accounts[stream].dispatches_delivered(), 10u);
  EXPECT_EQ(recorder_->Totals().dropped, 0u);
}

struct Offers : TargetObserver {
  void OnTargetReady(ProcessId, TargetDescription, bool waiting) override {
    if (waiting) ++held;
  }
  void OnTargetGone(ProcessId) override {}
  void OnTargetMissed(ProcessId) override {}
  std::atomic<int> held{0};
};

// From its window until a session can be offered to it, a process may need longer than
// it is to wait for a session, because rocprofiler-sdk is loaded in between.
TEST_F(RecorderTest, TheWaitForASessionBeginsWhenItCanBeOffered) {
  Offers offers;
  RecorderOptions options;
  options.output = {directory_.path(), "held", {}};
  options.targets = &offers;
  options.collector_config.map_wait_msec = 60'000;
  auto recorder = Recorder::Start(options, {});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  FakeCollector fake;
  fake.AddGpu(1, "gfx90a", "GPU-0123456789abcdef");
  fake.control()->record_kinds = ROCATTACH_PLAN_RECORD_COUNTERS;
  fake.control()->backend = ROCATTACH_BACKEND_SDK;
  Arm(&fake);
  window_ns_ = BootNs() - 120'000'000'000;
  (*recorder)->OnWindow(Attached());
  (*recorder)->OnArrival(Report(fake, 0, /*acknowledged=*/false));
  for (int i = 0; i < 24'000 && offers.held == 0; ++i) usleep(5000);
  ASSERT_EQ(offers.held, 1);
  // Wait for the end of the round in which it was offered.
  std::atomic<bool> reached{false};
  ASSERT_TRUE((*recorder)->RunOnThread([&reached] { reached = true; }));
  testing_support::Await([&] { return reached.load(); }, "the end of the round");
  EXPECT_EQ(__atomic_load_n(&fake.control()->service_mapped, __ATOMIC_ACQUIRE), 0u);
  EXPECT_TRUE((*recorder)->Finish({}).ok());
}

TEST_F(RecorderTest, WritesTheWorkloadsOfProcesses) {
  v1::Workload first, second;
  first.set_pod("found-before-the-window");
  second.set_slurm_job("found-later");
  recorder_->SetWorkload(ProcessIdOf(Event(ROCATTACH_EVENT_WINDOW, 1)), first);
  recorder_->OnWindow(Attached(1));
  recorder_->OnWindow(Attached(2));
  recorder_->SetWorkload(ProcessIdOf(Event(ROCATTACH_EVENT_WINDOW, 2)), second);
  // The workload of a process without a window.
  recorder_->SetWorkload(ProcessIdOf(Event(ROCATTACH_EVENT_WINDOW, 3)), second);
  RecordedRun seen = Finish();
  ASSERT_EQ(seen.processes.size(), 2u);
  for (const auto& [stream, process] : seen.processes) {
    const bool is_first = process.pid() == Event(ROCATTACH_EVENT_WINDOW, 1).pid;
    EXPECT_EQ(process.workload().pod(), is_first ? "found-before-the-window" : "");
    EXPECT_EQ(process.workload().slurm_job(), is_first ? "" : "found-later");
  }
}

// A workload that is known early must not be taken for the end of a process.
TEST_F(RecorderTest, TheWorkloadOfAnUnrelatedProcessIsDropped) {
  const rocattach_event event = Event(ROCATTACH_EVENT_WINDOW, 1);
  v1::Workload workload;
  workload.set_pod("p");
  recorder_->SetWorkload(ProcessIdOf(event), workload);
  Window unrelated;
  unrelated.event = event;
  unrelated.event.mode = ROCATTACH_WINDOW_UNRELATED;
  recorder_->OnWindow(std::move(unrelated));
  recorder_->OnEvent(Event(ROCATTACH_EVENT_EXIT, 1));
  RecordedRun seen = Finish();
  EXPECT_TRUE(seen.processes.empty());
  ASSERT_TRUE(seen.summary.has_value());
  EXPECT_EQ(seen.summary->windows_unrelated(), 1u);
}

// While a process ends, its records are in its own account or in the totals, not both.
TEST_F(RecorderTest, TotalsNeverCountARecordTwice) {
  FakeCollector fake;
  fake.AddKernel(1, "kernel");
  Arm(&fake);
  recorder_->OnWindow(Attached());
  ReportIn(fake);
  for (uint64_t i = 1; i <= 10; ++i) {
    rocattach_dispatch record = FakeCollector::Dispatch(i);
    fake.Publish(0, &record);
  }
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.dispatches == 10; }));
  // This task is posted right after the end, and runs in the same round.
  recorder_->OnEvent(Event(ROCATTACH_EVENT_EXIT));
  std::atomic<uint64_t> right_behind_the_end = 0;
  ASSERT_TRUE(recorder_->RunOnThread(
      [&] { right_behind_the_end = recorder_->Totals().dispatches; }));
  ASSERT_TRUE(WaitFor([&](const RunTotals&) { return right_behind_the_end != 0; }));
  EXPECT_EQ(right_behind_the_end, 10u);
  EXPECT_EQ(recorder_->Totals().dispatches, 10u);
}

TEST_F(RecorderTest, ProcessesBesideTheCommandAreOnlyCounted) {
  Window window;
  window.event = Event(ROCATTACH_EVENT_WINDOW);
  window.event.mode = ROCATTACH_WINDOW_UNRELATED;
  window.verdict = Verdict::kPassed;
  recorder_->OnWindow(window);
  recorder_->OnEvent(Event(ROCATTACH_EVENT_EXIT));
  // Another process, with the two events in the other order.
  window.event = Event(ROCATTACH_EVENT_WINDOW, 1);
  window.event.mode = ROCATTACH_WINDOW_UNRELATED;
  recorder_->OnEvent(Event(ROCATTACH_EVENT_EXIT, 1));
  recorder_->OnWindow(window);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.unrelated == 2; }));
  RecordedRun seen = Finish();
  EXPECT_TRUE(seen.processes.empty());
  EXPECT_EQ(seen.summary->windows_unrelated(), 2u);
  EXPECT_EQ(seen.summary->windows_passed(), 0u);
}

// This test's own processor time exceeds the budget.
TEST_F(RecorderTest, AboveItsBudgetItSamplesAndReportsIt) {
  recorder_.reset();
  RecorderOptions options;
  options.output = {directory_.path(), "budget", {}};
  options.budget.cpu_percent = 1e-6;
  struct Levels : RecorderObserver {
    void OnSampling(const SamplingLevel& level, const std::string& why) override {
      EXPECT_NE(why.find("processor "), std::string::npos) << why;
      levels.push_back(level);
      counts_only = level.counts_only();
    }
    std::vector<SamplingLevel> levels;
    std::atomic<bool> counts_only = false;
  } observer;
  auto recorder = Recorder::Start(options, {&observer});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  recorder_ = *std::move(recorder);
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  ReportIn(fake);
  Arm(&fake);
  ASSERT_TRUE(WaitFor([&](const RunTotals&) { return observer.counts_only.load(); }));
  EXPECT_EQ(__atomic_load_n(&fake.control()->sampling, __ATOMIC_RELAXED),
            ROCATTACH_SAMPLING_NONE);
  EXPECT_TRUE(recorder_->Totals().sampling.counts_only());
  // Counted as the collector does; a dispatch that began before is recorded.
  rocattach_dispatch record = FakeCollector::Dispatch(1);
  fake.Publish(0, &record);
  fake.ring(0)->dispatches_seen += 7;
  fake.ring(0)->sampled_out += 7;
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  recorder_->OnEvent(exit);
  ASSERT_TRUE(recorder_->Finish({}).ok());
  ASSERT_EQ(observer.levels.size(), 3u);
  EXPECT_EQ(observer.levels[0], SamplingLevel::OneIn(16));
  struct Sampling : RecordedRun {
    std::vector<v1::SamplingEvent> events;
    void OnSampling(const FrameContext& at, const v1::SamplingEvent& e) override {
      if (!at.repeated) events.push_back(e);
    }
  } seen;
  StreamDecoder decoder(&seen);
  ASSERT_TRUE(ReadStream(directory_ / "budget.rwa", {}, &decoder).ok());
  ASSERT_FALSE(seen.events.empty());
  EXPECT_EQ(seen.events.back().level(), v1::SamplingEvent::COUNTS_ONLY);
  const v1::LossAccount& account = seen.accounts.begin()->second;
  EXPECT_TRUE(account.final());
  EXPECT_TRUE(account.not_believable().empty()) << account.not_believable();
  EXPECT_EQ(account.dispatches_seen(), 8u);
  EXPECT_EQ(account.dispatches_delivered(), 1u);
  EXPECT_EQ(account.sampled_out(), 7u);
  EXPECT_EQ(account.dropped_inflight(), 0u);
  EXPECT_EQ(seen.summary->sampled_out(), 7u);
  EXPECT_EQ(seen.summary->dropped(), 0u);
}

TEST_F(RecorderTest, ManyProcessesKeepTheirRecordsApart) {
  constexpr uint32_t kProcesses = 40;
  std::vector<std::unique_ptr<FakeCollector>> fakes;
  for (uint32_t i = 0; i < kProcesses; ++i) {
    fakes.push_back(std::make_unique<FakeCollector>());
    Arm(fakes.back().get());
    for (uint64_t k = 0; k < i % 7; ++k) {
      rocattach_dispatch record = FakeCollector::Dispatch(1000 * i + k);
      fakes.back()->Publish(0, &record);
    }
    recorder_->OnWindow(Attached(i));
    ReportIn(*fakes.back(), i);
  }
  for (uint32_t i = 0; i < kProcesses; ++i) {
    recorder_->OnEvent(Event(ROCATTACH_EVENT_EXIT, i));
  }
  RecordedRun seen = Finish();
  EXPECT_EQ(seen.processes.size(), kProcesses);
  for (const auto& [stream, process] : seen.processes) {
    uint32_t i = process.pid() - 5'000'000;
    ASSERT_EQ(seen.dispatches[stream].size(), i % 7);
    for (const rocattach_dispatch& record : seen.dispatches[stream]) {
      EXPECT_EQ(record.correlation_id / 1000, i);
    }
  }
  EXPECT_EQ(recorder_->Totals().attached, kProcesses);
}

}  // namespace
}  // namespace rocattach
