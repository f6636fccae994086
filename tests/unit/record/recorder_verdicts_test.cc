// The verdicts of windows, as the recorder reaches and records them.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/record/recorder_fixture.h"
#include "userspace/base/errno_status.h"
#include "userspace/record/end_verdict.h"

namespace rocattach {
namespace {

using RecorderVerdictsTest = RecorderTest;

// The recorder does not wait for reports for long.
class SilentCollectorTest : public RecorderTest {
 protected:
  SilentCollectorTest() { report_timeout_ns_ = 100'000'000; }
};

TEST_F(RecorderVerdictsTest, AWindowThatFollowsAtOnceDoesNotLoseTheFirstVerdict) {
  FakeCollector fake;
  Arm(&fake);
  ReportIn(fake);
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

// The process may have changed its name to one that the policy selects.
TEST_F(RecorderVerdictsTest, AProcessThatIsPassedHasAFileOnceItIsWanted) {
  RecorderOptions options;
  options.output = {directory_ / "each", "%pid%", {}};
  auto recorder = Recorder::Start(options, {});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  recorder_ = *std::move(recorder);
  Window window = Attached();
  window.process.id.pid = 7;
  window.attach_tried = false;
  window.outcome = AttachOutcome();
  window.verdict = Verdict::kPassed;
  recorder_->OnWindow(window);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.passed == 1; }));
  EXPECT_TRUE(recorder_->files().empty());
  window.event.time_ns += 1'000'000;
  window.verdict = Verdict::kRefused;
  recorder_->OnWindow(window);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.refused == 1; }));
  EXPECT_TRUE(recorder_->Finish({}).ok());
  EXPECT_EQ(recorder_->files(), (std::vector<std::string>{directory_ / "each/7.rwa"}));
}

// The end of the process was reported before, or never will be.
TEST_F(RecorderVerdictsTest, AProcessThatHadEndedBeforeItsVerdictIsNotCountedForEver) {
  Window late = Attached();
  late.outcome = AttachOutcome();
  late.outcome.reason = AttachReason::kTargetExited;
  late.outcome.detail = "the thread has exited";
  recorder_->OnWindow(late);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.missed == 1; }));
  std::atomic<uint64_t> counted = 1;
  ASSERT_TRUE(WaitFor([&](const RunTotals&) {
    (void)recorder_->RunOnThread([&] {
      std::map<std::string, uint64_t> states = recorder_->CountTargets();
      counted = states["missed"] + states["open"];
    });
    return counted == 0;
  }));
  const RecordedRun seen = Finish();
  ASSERT_EQ(seen.verdicts.size(), 1u);
  EXPECT_THAT(seen.verdicts.begin()->second.detail(),
              testing::Not(testing::HasSubstr("runs on")));
}

// The end of a hold may arrive before its window, which another thread still serves,
// also if the process is known already.
TEST_F(RecorderVerdictsTest, EachWindowHasItsHold) {
  FakeCollector fake;
  Arm(&fake);
  recorder_->OnWindow(Attached());
  ReportIn(fake);
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
  RecordedRun seen = Finish();
  ASSERT_EQ(seen.windows.size(), 3u);
  for (uint64_t number : {0, 1, 2}) {
    const v1::WindowEvent& window = seen.windows[window_ns_ + number * 10'000'000];
    EXPECT_EQ(window.probe_ns(), 100'000 + number);
    EXPECT_EQ(window.hold_end(), v1::HOLD_END_STOPPED);
  }
  EXPECT_EQ(seen.summary->hold().count(), 3u);
}

TEST_F(RecorderVerdictsTest, ReportAndExitMayOvertakeTheWindow) {
  FakeCollector fake;
  Arm(&fake);
  ReportIn(fake);
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  exit.exit.wait_status = 9;
  recorder_->OnEvent(exit);
  recorder_->OnWindow(Attached());
  RecordedRun seen = Finish();
  ASSERT_EQ(seen.ends.size(), 1u);
  EXPECT_EQ(seen.verdicts.begin()->second.state(), v1::WINDOW_STATE_ATTACHED);
  EXPECT_EQ(seen.ends.begin()->second.how(), v1::ProcessEnd::SIGNALLED);
  EXPECT_EQ(seen.ends.begin()->second.signal(), 9u);
}

TEST_F(SilentCollectorTest, IsNotAnAttach) {
  recorder_->OnWindow(Attached());
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.refused == 1; }));
  RecordedRun seen = Finish();
  EXPECT_EQ(seen.verdicts.begin()->second.state(), v1::WINDOW_STATE_REFUSED);
  EXPECT_EQ(seen.verdicts.begin()->second.reason(), v1::ATTACH_REASON_COLLECTOR_SILENT);
}

// A process killed by a signal during its attach does not look like one without work.
TEST_F(RecorderVerdictsTest, ADeathDuringTheAttachIsReportedAsOne) {
  recorder_->OnWindow(Attached());
  rocattach_event exit = Event(ROCATTACH_EVENT_EXIT);
  exit.time_ns += 3'000'000;
  exit.exit.wait_status = SIGSYS;
  recorder_->OnEvent(exit);
  RecordedRun seen = Finish();
  const v1::WindowEvent& verdict = seen.verdicts.begin()->second;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_MISSED);
  EXPECT_EQ(verdict.reason(), v1::ATTACH_REASON_DIED_DURING_ATTACH);
  EXPECT_NE(verdict.detail().find("killed by SIGSYS 3.00 ms after"), std::string::npos)
      << verdict.detail();
  EXPECT_NE(verdict.detail().find("the attach is the likely cause"), std::string::npos)
      << verdict.detail();
}

// The attach found the thread dead; the kernel's event reports the signal later.
TEST_F(RecorderVerdictsTest, ADeathThatStopsTheAttachWaitsForItsSignal) {
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
  // The same, but nothing had been written to the process.
  window.event = Event(ROCATTACH_EVENT_WINDOW, 1);
  window.outcome.target_modified = false;
  recorder_->OnWindow(window);
  rocattach_event second = Event(ROCATTACH_EVENT_EXIT, 1);
  second.exit.wait_status = SIGKILL;
  recorder_->OnEvent(second);
  RecordedRun seen = Finish();
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

TEST_F(RecorderVerdictsTest, AnAttachThatIsOpenAtTheEndIsNotADeadProcess) {
  recorder_->OnWindow(Attached());
  RecordedRun seen = Finish();
  const std::string& detail = seen.verdicts.begin()->second.detail();
  EXPECT_NE(detail.find("the process runs on"), std::string::npos) << detail;
}

// EMFILE is an error of the service.
TEST_F(RecorderVerdictsTest, AServiceWithoutDescriptorsIsTheReason) {
  recorder_->OnWindow(Attached());
  const AttachFailure failure =
      UnusableMemory(ErrnoStatus(EMFILE, "open(/proc/1/map_files/0-1) failed"));
  recorder_->OnArrival({Event(ROCATTACH_EVENT_READY), nullptr, false, failure});
  RecordedRun seen = Finish();
  const v1::WindowEvent& verdict = seen.verdicts.begin()->second;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_REFUSED);
  EXPECT_EQ(verdict.reason(), v1::ATTACH_REASON_SERVICE_RESOURCES);
  EXPECT_EQ(verdict.error(), static_cast<uint32_t>(EMFILE));
  EXPECT_NE(verdict.detail().find("LimitNOFILE"), std::string::npos)
      << verdict.detail();
}

TEST_F(SilentCollectorTest, IsNotAnAttachIfItIsLoadedAndNeverCalled) {
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  ReportIn(fake);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.refused == 1; }));
  EXPECT_EQ(recorder_->Totals().attached, 0u);
}

TEST_F(RecorderVerdictsTest, ARefusingCollectorIsQuoted) {
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  strcpy(fake.control()->text, "table of 12 bytes\x1b[31m");
  fake.control()->state = ROCATTACH_STATE_REFUSED;
  ReportIn(fake);
  ASSERT_TRUE(WaitFor([](const RunTotals& t) { return t.refused == 1; }));
  RecordedRun seen = Finish();
  const std::string& detail = seen.verdicts.begin()->second.detail();
  EXPECT_NE(detail.find("table of 12 bytes"), std::string::npos);
  EXPECT_EQ(detail.find('\x1b'), std::string::npos);
}

// At the end of a run: until all are known, within a time limit, unless interrupted.
TEST_F(RecorderVerdictsTest, VerdictsAreAwaited) {
  constexpr uint64_t kForeverNs = 3'600'000'000'000;
  const auto never = [] { return false; };
  EXPECT_TRUE(recorder_->AwaitVerdicts(kForeverNs, never)) << "there is no window";
  FakeCollector fake;
  recorder_->OnWindow(Attached());
  EXPECT_FALSE(recorder_->AwaitVerdicts(20'000'000, never));
  int asked = 0;
  EXPECT_FALSE(recorder_->AwaitVerdicts(kForeverNs, [&] { return ++asked == 3; }));
  Arm(&fake);
  ReportIn(fake);
  EXPECT_TRUE(recorder_->AwaitVerdicts(kForeverNs, never));
  EXPECT_EQ(recorder_->Totals().attached, 1u);
}

// Neither the process nor the collector is at fault.
TEST_F(RecorderVerdictsTest, AVerdictThatIsOpenAtTheEndHasAReason) {
  recorder_->OnWindow(Attached());
  const RecordedRun seen = Finish();
  ASSERT_EQ(seen.windows.size(), 1u);
  const v1::WindowEvent& verdict = seen.windows.begin()->second;
  EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_PASSED);
  EXPECT_THAT(verdict.detail(), testing::HasSubstr("the recording ended before"));
}

}  // namespace
}  // namespace rocattach
