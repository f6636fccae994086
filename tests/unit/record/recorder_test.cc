#include "userspace/record/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "tests/temporary_directory.h"
#include "tests/unit/record/fake_collector.h"
#include "tests/unit/record/made_up_event.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/record/end_verdict.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/reader.h"
#include "userspace/stream/visitor.h"

namespace rocattach {
namespace {

// What a recording says, for comparison.
struct Seen : StreamVisitor {
  std::map<uint32_t, v1::Process> processes;
  std::map<uint32_t, v1::WindowEvent> verdicts;
  std::map<uint64_t, v1::WindowEvent> windows;  // by hit_ns: the last event of each
  std::optional<v1::WatcherSummary> summary;
  std::map<uint32_t, v1::LossAccount> accounts;
  std::map<uint32_t, v1::ProcessEnd> ends;
  std::map<uint32_t, std::vector<rocattach_dispatch>> dispatches;
  int damage = 0;
  void OnProcess(const FrameContext& c, const v1::Process& p) override {
    processes[c.stream] = p;
  }
  void OnWindow(const FrameContext& c, const v1::WindowEvent& e) override {
    verdicts[c.stream] = e;
    windows[e.hit_ns()] = e;
  }
  void OnSummary(const FrameContext&, const v1::WatcherSummary& s) override {
    summary = s;
  }
  void OnAccount(const FrameContext& c, const v1::LossAccount& a) override {
    accounts[c.stream] = a;
  }
  void OnProcessEnd(const FrameContext& c, const v1::ProcessEnd& e) override {
    ends[c.stream] = e;
  }
  void OnDispatches(const FrameContext& c,
                    absl::Span<const rocattach_dispatch> records) override {
    auto& all = dispatches[c.stream];
    all.insert(all.end(), records.begin(), records.end());
  }
  void OnDamage(const Damage&) override { ++damage; }
};

class RecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    RecorderOptions options;
    options.output = {directory_.path(), "run", {}};
    options.report_timeout_ns = 300'000'000;
    options.operations_timeout_ns = operations_timeout_ns_;
    auto recorder = Recorder::Start(options, nullptr);
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    recorder_ = *std::move(recorder);
  }

  rocattach_event Event(uint32_t type, uint32_t number = 0) {
    return MadeUpEvent(type, number, window_ns_);
  }
  Window Attached(uint32_t number = 0) {
    Window window;
    window.event = Event(ROCATTACH_EVENT_WINDOW, number);
    window.event.mode = ROCATTACH_WINDOW_HELD;
    window.attach_tried = true;
    window.outcome.stage = AttachStage::kDone;
    window.outcome.stopped_ns = window_ns_ + 80'000;
    window.outcome.released_ns = window_ns_ + 200'000;
    return window;
  }
  void Arm(FakeCollector* fake) {
    fake->control()->armed_ns = window_ns_ + 1'000'000;
    __atomic_store_n(&fake->control()->state, ROCATTACH_STATE_ARMED, __ATOMIC_RELEASE);
  }
  Seen Finish() {
    EXPECT_TRUE(recorder_->Finish({}).ok());
    Seen seen;
    StreamDecoder decoder(&seen);
    EXPECT_TRUE(ReadStream(directory_ / "run.rwa", {}, &decoder).ok());
    EXPECT_EQ(seen.damage, 0);
    return seen;
  }
  bool WaitFor(const std::function<bool(const RunTotals&)>& done) {
    for (int i = 0; i < 2000; ++i) {
      if (done(recorder_->Totals())) return true;
      usleep(5000);
    }
    return false;
  }

  uint64_t operations_timeout_ns_ = RecorderOptions().operations_timeout_ns;
  uint64_t window_ns_ = BootNs();
  const testing_support::TemporaryDirectory directory_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(RecorderTest, RecordsFromTheReportToTheExit) {
  FakeCollector fake;
  fake.AddKernel(1, "kernel");
  recorder_->OnWindow(Attached());
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  Arm(&fake);
  for (uint64_t i = 1; i <= 10; ++i) {
    rocattach_dispatch record = FakeCollector::Dispatch(i);
    fake.Publish(i % 2, &record);
  }
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.attached == 1; }));
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  exit.exit.wait_status = 3 << 8;
  recorder_->OnEvent(exit);
  Seen seen = Finish();
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
  std::atomic<int> held{0};
};

// From its window to the moment when a session can be offered to it, a process may need
// longer than it is to wait for its session: rocprofiler-sdk is loaded meanwhile.
TEST_F(RecorderTest, AProcessWaitsForItsSessionFromWhenItCanBeOffered) {
  Offers offers;
  RecorderOptions options;
  options.output = {directory_.path(), "held", {}};
  options.targets = &offers;
  options.collector_config.map_wait_msec = 60'000;
  auto recorder = Recorder::Start(options, nullptr);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  FakeCollector fake;
  fake.AddGpu(1, "gfx90a", "GPU-0123456789abcdef");
  fake.control()->record_kinds = ROCATTACH_PLAN_RECORD_COUNTERS;
  fake.control()->backend = ROCATTACH_BACKEND_SDK;
  Arm(&fake);
  window_ns_ = BootNs() - 120'000'000'000;
  (*recorder)->OnWindow(Attached());
  (*recorder)->OnArrival({Event(ROCATTACH_EVENT_READY),
                          *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                          /*acknowledged=*/false,
                          {}});
  for (int i = 0; i < 24'000 && offers.held == 0; ++i) usleep(5000);
  ASSERT_EQ(offers.held, 1);
  // After the round in which it was offered.
  std::atomic<bool> reached{false};
  ASSERT_TRUE((*recorder)->RunOnThread([&reached] { reached = true; }));
  while (!reached) usleep(1000);
  EXPECT_EQ(__atomic_load_n(&fake.control()->service_mapped, __ATOMIC_ACQUIRE), 0u);
  EXPECT_TRUE((*recorder)->Finish({}).ok());
}

TEST_F(RecorderTest, SaysWhoseProcessesAre) {
  v1::Workload first, second;
  first.set_pod("found-before-the-window");
  second.set_slurm_job("found-later");
  recorder_->SetWorkload(ProcessIdOf(Event(ROCATTACH_EVENT_WINDOW, 1)), first);
  recorder_->OnWindow(Attached(1));
  recorder_->OnWindow(Attached(2));
  recorder_->SetWorkload(ProcessIdOf(Event(ROCATTACH_EVENT_WINDOW, 2)), second);
  // Nobody's.
  recorder_->SetWorkload(ProcessIdOf(Event(ROCATTACH_EVENT_WINDOW, 3)), second);
  Seen seen = Finish();
  ASSERT_EQ(seen.processes.size(), 2u);
  for (const auto& [stream, process] : seen.processes) {
    const bool is_first = process.pid() == Event(ROCATTACH_EVENT_WINDOW, 1).pid;
    EXPECT_EQ(process.workload().pod(), is_first ? "found-before-the-window" : "");
    EXPECT_EQ(process.workload().slurm_job(), is_first ? "" : "found-later");
  }
}

// A workload that is known early is not the end of a process.
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
  Seen seen = Finish();
  EXPECT_TRUE(seen.processes.empty());
  ASSERT_TRUE(seen.summary.has_value());
  EXPECT_EQ(seen.summary->windows_unrelated(), 1u);
}

TEST_F(RecorderTest, AWindowThatFollowsAtOnceTakesNoVerdictAway) {
  FakeCollector fake;
  Arm(&fake);
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  recorder_->OnWindow(Attached());
  Window again = Attached();
  again.event.time_ns = window_ns_ + 10'000'000;
  again.event.window.flags = ROCATTACH_WINDOW_AGAIN;
  recorder_->OnWindow(again);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.attached == 1; }));
  __atomic_store_n(&fake.control()->armed_ns, window_ns_ + 11'000'000,
                   __ATOMIC_RELEASE);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.attached == 2; }));
  EXPECT_EQ(recorder_->Totals().refused, 0u);
}

// The end of a hold comes before the window that another thread still serves, also when
// the process is known already.
TEST_F(RecorderTest, EachWindowHasItsHold) {
  FakeCollector fake;
  Arm(&fake);
  recorder_->OnWindow(Attached());
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  auto hold_end = [&](uint64_t number) {
    rocattach_event end = Event(ROCATTACH_EVENT_HOLD_END);
    end.mode = ROCATTACH_HOLD_STOPPED;
    end.hold_end.held_ns = 100'000 + number;
    end.hold_end.window_ns = window_ns_ + number * 10'000'000;
    end.time_ns = end.hold_end.window_ns + end.hold_end.held_ns;
    recorder_->OnEvent(end);
  };
  hold_end(0);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.attached == 1; }));
  hold_end(1);
  hold_end(2);
  for (uint64_t number : {1, 2}) {
    Window again = Attached();
    again.event.time_ns = window_ns_ + number * 10'000'000;
    again.event.window.flags = ROCATTACH_WINDOW_AGAIN;
    recorder_->OnWindow(again);
    __atomic_store_n(&fake.control()->armed_ns, again.event.time_ns + 1'000'000,
                     __ATOMIC_RELEASE);
    ASSERT_TRUE(
        WaitFor([number](const RunTotals& t) { return t.attached == number + 1; }));
  }
  Seen seen = Finish();
  ASSERT_EQ(seen.windows.size(), 3u);
  for (uint64_t number : {0, 1, 2}) {
    const v1::WindowEvent& window = seen.windows[window_ns_ + number * 10'000'000];
    EXPECT_EQ(window.hold_ns(), 100'000 + number);
    EXPECT_EQ(window.hold_end(), v1::HOLD_END_STOPPED);
  }
  EXPECT_EQ(seen.summary->hold().count(), 3u);
}

// While a process ends, its records are in its own account or in the totals, not both.
TEST_F(RecorderTest, TotalsNeverCountARecordTwice) {
  FakeCollector fake;
  fake.AddKernel(1, "kernel");
  Arm(&fake);
  recorder_->OnWindow(Attached());
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  for (uint64_t i = 1; i <= 10; ++i) {
    rocattach_dispatch record = FakeCollector::Dispatch(i);
    fake.Publish(0, &record);
  }
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.dispatches == 10; }));
  // Posted behind the end, this task runs in the same round.
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
  // The other order, of another process.
  window.event = Event(ROCATTACH_EVENT_WINDOW, 1);
  window.event.mode = ROCATTACH_WINDOW_UNRELATED;
  recorder_->OnEvent(Event(ROCATTACH_EVENT_EXIT, 1));
  recorder_->OnWindow(window);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.unrelated == 2; }));
  Seen seen = Finish();
  EXPECT_TRUE(seen.processes.empty());
  EXPECT_EQ(seen.summary->windows_unrelated(), 2u);
  EXPECT_EQ(seen.summary->windows_passed(), 0u);
}

TEST_F(RecorderTest, ReportAndExitMayOvertakeTheWindow) {
  FakeCollector fake;
  Arm(&fake);
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  exit.exit.wait_status = 9;
  recorder_->OnEvent(exit);
  recorder_->OnWindow(Attached());
  Seen seen = Finish();
  ASSERT_EQ(seen.ends.size(), 1u);
  EXPECT_EQ(seen.verdicts.begin()->second.state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(seen.ends.begin()->second.how(), v1::ProcessEnd::SIGNALLED);
  EXPECT_EQ(seen.ends.begin()->second.signal(), 9u);
}

TEST_F(RecorderTest, ASilentCollectorIsNoAttach) {
  recorder_->OnWindow(Attached());
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.refused == 1; }));
  Seen seen = Finish();
  EXPECT_EQ(seen.verdicts.begin()->second.state(), v1::WINDOW_STATE_REFUSED);
  EXPECT_EQ(seen.verdicts.begin()->second.reason(), v1::ATTACH_REASON_COLLECTOR_SILENT);
}

// A process that a signal killed while it was attached to is no "nothing to be done".
TEST_F(RecorderTest, ADeathDuringTheAttachIsReportedAsOne) {
  recorder_->OnWindow(Attached());
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  exit.time_ns += 3'000'000;
  exit.exit.wait_status = SIGSYS;
  recorder_->OnEvent(exit);
  Seen seen = Finish();
  const v1::WindowEvent& verdict = seen.verdicts.begin()->second;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_MISSED);
  EXPECT_EQ(verdict.reason(), v1::ATTACH_REASON_DIED_DURING_ATTACH);
  EXPECT_NE(verdict.detail().find("killed by SIGSYS 3.00 ms after"), std::string::npos)
      << verdict.detail();
  EXPECT_NE(verdict.detail().find("the attach is the likely cause"), std::string::npos)
      << verdict.detail();
}

// The attach found the thread dead: what killed it, the kernel's event tells later.
TEST_F(RecorderTest, ADeathThatStopsTheAttachWaitsForItsSignal) {
  Window window = Attached();
  window.outcome = {};
  window.outcome.stage = AttachStage::kWrite;
  window.outcome.reason = AttachReason::kTargetExited;
  window.outcome.seized_ns = window_ns_ + 20'000;
  window.outcome.target_modified = true;
  recorder_->OnWindow(window);
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  exit.exit.wait_status = SIGSEGV;
  recorder_->OnEvent(exit);
  // The same, before anything was written.
  window.event = Event(ROCATTACH_EVENT_WINDOW, 1);
  window.outcome.target_modified = false;
  recorder_->OnWindow(window);
  rocattach_event second = Event(ROCATTACH_EVENT_EXIT, 1);
  second.exit.wait_status = SIGKILL;
  recorder_->OnEvent(second);
  Seen seen = Finish();
  ASSERT_EQ(seen.verdicts.size(), 2u);
  for (const auto& [stream, verdict] : seen.verdicts) {
    const bool modified = seen.processes[stream].pid() == Event(0).pid;
    EXPECT_EQ(verdict.reason(), modified ? v1::ATTACH_REASON_DIED_DURING_ATTACH
                                         : v1::ATTACH_REASON_TARGET_EXITED)
        << verdict.detail();
    EXPECT_NE(verdict.detail().find(modified ? "SIGSEGV" : "SIGKILL"),
              std::string::npos)
        << verdict.detail();
  }
}

TEST_F(RecorderTest, AnAttachThatIsOpenAtTheEndIsNotADeadProcess) {
  recorder_->OnWindow(Attached());
  Seen seen = Finish();
  const std::string& detail = seen.verdicts.begin()->second.detail();
  EXPECT_NE(detail.find("the process runs on"), std::string::npos) << detail;
}

// EMFILE is the service's.
TEST_F(RecorderTest, AServiceWithoutDescriptorsSaysSo) {
  recorder_->OnWindow(Attached());
  const AttachFailure failure =
      UnusableMemory(ErrnoStatus(EMFILE, "open(/proc/1/map_files/0-1) failed"));
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY), nullptr, false, failure});
  Seen seen = Finish();
  const v1::WindowEvent& verdict = seen.verdicts.begin()->second;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_REFUSED);
  EXPECT_EQ(verdict.reason(), v1::ATTACH_REASON_SERVICE_RESOURCES);
  EXPECT_EQ(verdict.error(), static_cast<uint32_t>(EMFILE));
  EXPECT_NE(verdict.detail().find("LimitNOFILE"), std::string::npos)
      << verdict.detail();
}

TEST_F(RecorderTest, ALoadedCollectorThatIsNeverCalledIsNoAttach) {
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.refused == 1; }));
  EXPECT_EQ(recorder_->Totals().attached, 0u);
}

TEST_F(RecorderTest, ARefusingCollectorIsQuoted) {
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  strcpy(fake.control()->text, "table of 12 bytes\x1b[31m");
  fake.control()->state = ROCATTACH_STATE_REFUSED;
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.refused == 1; }));
  Seen seen = Finish();
  const std::string& detail = seen.verdicts.begin()->second.detail();
  EXPECT_NE(detail.find("table of 12 bytes"), std::string::npos);
  EXPECT_EQ(detail.find('\x1b'), std::string::npos);
}

// The budget is spent by this test's own processor time.
TEST_F(RecorderTest, OverItsBudgetItSamplesAndSaysSo) {
  recorder_.reset();
  RecorderOptions options;
  options.output = {directory_.path(), "budget", {}};
  options.budget.cpu_percent = 1e-6;
  struct Levels : RecorderObserver {
    void OnVerdict(const v1::Process&, const v1::WindowEvent&) override {}
    void OnEnd(const v1::Process&, const v1::ProcessEnd&,
               const v1::LossAccount&) override {}
    void OnNotBelievable(const v1::Process&, const std::string&) override {}
    void OnRecordingPaused(const absl::Status&) override {}
    void OnRecordingResumed(uint64_t) override {}
    void OnSampling(const SamplingLevel& level, const std::string& why) override {
      EXPECT_NE(why.find("processor "), std::string::npos) << why;
      levels.push_back(level);
      counts_only = level.counts_only();
    }
    std::vector<SamplingLevel> levels;
    std::atomic<bool> counts_only = false;
  } observer;
  auto recorder = Recorder::Start(options, &observer);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  recorder_ = *std::move(recorder);
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  Arm(&fake);
  ASSERT_TRUE(WaitFor([&](const RunTotals&) { return observer.counts_only.load(); }));
  EXPECT_EQ(__atomic_load_n(&fake.control()->sampling, __ATOMIC_RELAXED),
            ROCATTACH_SAMPLING_NONE);
  EXPECT_TRUE(recorder_->Totals().sampling.counts_only());
  // As the collector counts; one that began before is recorded.
  rocattach_dispatch record = FakeCollector::Dispatch(1);
  fake.Publish(0, &record);
  fake.ring(0)->dispatches_seen += 7;
  fake.ring(0)->sampled_out += 7;
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  recorder_->OnEvent(exit);
  ASSERT_TRUE(recorder_->Finish({}).ok());
  ASSERT_EQ(observer.levels.size(), 3u);
  EXPECT_EQ(observer.levels[0], SamplingLevel::OneIn(16));
  struct Sampling : Seen {
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

TEST_F(RecorderTest, LossIsCountedInFull) {
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  Arm(&fake);
  rocattach_dispatch record = FakeCollector::Dispatch(1);
  fake.Publish(0, &record);
  rocattach_dispatch foreign = FakeCollector::Dispatch(2);
  foreign.queue_id = 99;  // no such queue: not a record we can believe
  fake.Publish(0, &foreign);
  fake.ring(0)->dropped = 8;  // 3 of them no operations
  fake.ring(0)->dispatches_dropped = 4;
  fake.ring(1)->copies_dropped = 1;
  fake.control()->other_dropped = 2;
  fake.AddInflight(1, 3);
  fake.ring(0)->inflight = 1;
  fake.ring(0)->dispatches_seen = 1 + 1 + 5 + 2 + 1 + 4;  // 4 vanished at the death
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  exit.exit.wait_status = 9;
  recorder_->OnEvent(exit);
  Seen seen = Finish();
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

// A process that runs on after its recorder: what was in flight then.
class LeavingRecorder : public RecorderTest {
 public:
  explicit LeavingRecorder(uint64_t operations_timeout_ns = 500'000'000) {
    operations_timeout_ns_ = operations_timeout_ns;
    SetUp();
  }
  void TestBody() override {}
  using RecorderTest::Finish;

  // `operations` are in flight in a process that is recorded.
  void Begin(uint64_t operations) {
    recorder_->OnWindow(Attached());
    recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                          *CollectorMemory::MapFd(fake_.fd(), FakeCollector::Config()),
                          true,
                          {}});
    Arm(&fake_);
    ASSERT_TRUE(WaitFor([&](const RunTotals& t) { return t.attached == 1; }));
    for (uint64_t i = 0; i < operations; ++i) {
      fake_.AddInflight(static_cast<uint32_t>(i), i + 1);
      ++fake_.ring(0)->dispatches_seen;
      ++fake_.ring(0)->inflight;
    }
  }
  // As the collector does, in its order.
  void Complete(uint64_t operation) {
    const rocattach_dispatch record = FakeCollector::Dispatch(operation + 1);
    --fake_.ring(0)->dispatches_seen;  // Publish() counts it
    fake_.Publish(0, &record);
    __atomic_store_n(&fake_.inflight(static_cast<uint32_t>(operation))->kind,
                     uint16_t{ROCATTACH_RECORD_NONE}, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&fake_.ring(0)->inflight, 1, __ATOMIC_RELAXED);
  }
  // Waits until the recorder is about to leave.
  void AwaitStop() {
    while (__atomic_load_n(&fake_.control()->recording, __ATOMIC_ACQUIRE) != 0) {
      usleep(100);
    }
  }
  // Each operation is in the recording, once, and nothing else is said to be missing.
  void ExpectEachOnce(const Seen& seen, uint64_t operations) {
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

TEST(RecorderLeaves, WhatFinishesSoonAfterIsRecordedWithItsTimes) {
  LeavingRecorder recorder;
  recorder.Begin(10);
  std::thread process([&] {
    recorder.AwaitStop();
    usleep(60'000);
    for (uint64_t i = 0; i < 10; ++i) recorder.Complete(i);
  });
  const Seen seen = recorder.Finish();
  process.join();
  recorder.ExpectEachOnce(seen, 10);
  EXPECT_EQ(seen.accounts.begin()->second.unfinished(), 0u);
}

TEST(RecorderLeaves, WhatDoesNotFinishIsRecordedWithoutTimes) {
  LeavingRecorder recorder;
  recorder.Begin(7);
  const Seen seen = recorder.Finish();
  recorder.ExpectEachOnce(seen, 7);
  EXPECT_EQ(seen.accounts.begin()->second.unfinished(), 7u);
}

// While the table is read, operations leave it for the rings, at any instant.
TEST(RecorderLeaves, WhatFinishesMeanwhileIsNeitherLostNorRecordedTwice) {
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
    const Seen seen = recorder.Finish();
    process.join();
    recorder.ExpectEachOnce(seen, FakeCollector::kInflight);
  }
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
    recorder_->OnArrival(
        {Event(ROCATTACH_EVENT_READY, i),
         *CollectorMemory::MapFd(fakes.back()->fd(), FakeCollector::Config()),
         true,
         {}});
  }
  for (uint32_t i = 0; i < kProcesses; ++i) {
    recorder_->OnEvent(Event(ROCATTACH_EVENT_EXIT, i));
  }
  Seen seen = Finish();
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

TEST_F(RecorderTest, ProcessesThatStillRunAreClosedInOrder) {
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  Arm(&fake);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.attached == 1; }));
  Seen seen = Finish();
  EXPECT_EQ(seen.ends.begin()->second.how(), v1::ProcessEnd::STILL_RUNNING);
  EXPECT_EQ(fake.control()->recording, 0u) << "nobody reads any more";
}

// At the end of a run: what is known soon is waited for, and no longer.
TEST_F(RecorderTest, VerdictsAreAwaited) {
  constexpr uint64_t kForeverNs = 3'600'000'000'000;
  const auto never = [] { return false; };
  EXPECT_TRUE(recorder_->AwaitVerdicts(kForeverNs, never)) << "there is no window";
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  EXPECT_FALSE(recorder_->AwaitVerdicts(20'000'000, never));
  int asked = 0;
  EXPECT_FALSE(recorder_->AwaitVerdicts(kForeverNs, [&] { return ++asked == 3; }));
  Arm(&fake);
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY),
                        *CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()),
                        true,
                        {}});
  EXPECT_TRUE(recorder_->AwaitVerdicts(kForeverNs, never));
  EXPECT_EQ(recorder_->Totals().attached, 1u);
}

// Neither the process nor the collector is at fault.
TEST_F(RecorderTest, AVerdictThatIsMissingAtTheEndSaysSo) {
  recorder_->OnWindow(Attached());
  const Seen seen = Finish();
  ASSERT_EQ(seen.windows.size(), 1u);
  const v1::WindowEvent& verdict = seen.windows.begin()->second;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_PASSED);
  EXPECT_THAT(verdict.detail(), testing::HasSubstr("the recording ended before"));
}

}  // namespace
}  // namespace rocattach
