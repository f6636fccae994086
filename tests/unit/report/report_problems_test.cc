// Problems in a report: losses, damage, refusals, implausible numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/report/report_fixture.h"
#include "userspace/report/report_json.h"
#include "userspace/report/report_text.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using ReportProblemsTest = ReportTest;

TEST_F(ReportProblemsTest, HoldsThatDidNotEndWellSayHow) {
  struct Case {
    v1::WindowMode mode;
    v1::HoldEnd end;
    const char* words;
  };
  for (const Case& c :
       {Case{v1::WINDOW_MODE_HELD, v1::HOLD_END_DEADLINE,
             "held 2.00 ms in the probe, until its deadline"},
        Case{v1::WINDOW_MODE_HELD, v1::HOLD_END_UNYIELDING,
             "held 2.00 ms in the probe, ended because the thread could not yield"},
        Case{v1::WINDOW_MODE_UNRELATED, v1::HOLD_END_NONE,
             "not held: the command did not start it"},
        Case{v1::WINDOW_MODE_REPORTED, v1::HOLD_END_NONE,
             "not held: windows were only reported"}}) {
    bytes_.clear();
    SetUp();
    StreamId id = Open("app", 7);
    v1::WindowEvent event;
    event.set_state(v1::WINDOW_STATE_MISSED);
    event.set_mode(c.mode);
    event.set_hit_ns(1'000);
    event.set_probe_ns(c.mode == v1::WINDOW_MODE_HELD ? 2'000'000 : 0);
    event.set_hold_end(c.end);
    EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
    EXPECT_THAT(FormatReport(Read(), {}), HasSubstr(c.words));
  }
}

TEST_F(ReportProblemsTest, RefusalsSayWhy) {
  StreamId id = Open("secret", 7);
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_OPEN);
  event.set_mode(v1::WINDOW_MODE_HELD);
  event.set_hit_ns(5'000);
  EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
  event.set_state(v1::WINDOW_STATE_REFUSED);
  event.set_stage(v1::ATTACH_STAGE_SEIZE);
  event.set_reason(v1::ATTACH_REASON_NOT_PERMITTED);
  event.set_error(1);
  event.set_detail("ptrace(PTRACE_SEIZE, 7) failed: run as root");
  EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
  Report report = Read();
  std::string text = FormatReport(report, {});
  EXPECT_THAT(text, HasSubstr("secret (pid 7)  refused"));
  EXPECT_THAT(text, HasSubstr("not_permitted at seize, EPERM"));
  EXPECT_THAT(text, HasSubstr("the process was not modified"));
  EXPECT_THAT(text, HasSubstr("ptrace(PTRACE_SEIZE, 7) failed: run as root"));
  EXPECT_FALSE(report.HasLosses()) << "a refusal is no loss of data";
}

TEST_F(ReportProblemsTest, AnotherWindowDoesNotUndoAnAttach) {
  StreamId id = OpenBusy();
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_REFUSED);
  event.set_reason(v1::ATTACH_REASON_ALREADY_ATTACHED);
  event.set_hit_ns(9'000'000);
  EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
  End(id, 4, 3);
  Report report = Read();
  const ProcessReport& process = *report.recordings[0].processes[0];
  ASSERT_EQ(process.windows.size(), 2u);
  EXPECT_EQ(process.Verdict()->state(), v1::WINDOW_STATE_ATTACHED);
  std::string text = FormatReport(report, {});
  EXPECT_THAT(text, HasSubstr("busy (pid 100)  attached"));
  EXPECT_THAT(text, HasSubstr("another window, refused"));
  EXPECT_THAT(text,
              HasSubstr("already_attached at check; the process was not modified"));
}

TEST_F(ReportProblemsTest, LossesAreNamed) {
  dropped_ = 5;
  End(OpenBusy(), 9, 3);
  Report report = Read();
  EXPECT_TRUE(report.HasLosses());
  std::string text = FormatReport(report, {});
  EXPECT_THAT(text, HasSubstr("5 dropped, the ring was full (12 seen, 7 delivered)"));
  EXPECT_THAT(text, HasSubstr("5 lost"));
  EXPECT_THAT(text, Not(HasSubstr("off by")));
}

TEST_F(ReportProblemsTest, AnAccountThatDoesNotAddUpIsReported) {
  End(OpenBusy(), 10, 3);
  Report report = Read();
  EXPECT_TRUE(report.HasLosses());
  EXPECT_THAT(FormatReport(report, {}), HasSubstr("the account is off by 6"));
}

TEST_F(ReportProblemsTest, DamageIsReported) {
  End(OpenBusy(), 4, 3);
  EXPECT_TRUE(writer_->Close().ok());
  writer_.reset();
  // Destroy the batch of dispatches.
  FrameScanner scanner([](const SkippedRange&) {});
  scanner.Append(bytes_);
  FrameView frame;
  size_t at = 0;
  while (scanner.Next(&frame)) {
    if (frame.header.type == v1::FRAME_TYPE_DISPATCHES) at = frame.offset + 40;
  }
  ASSERT_GT(at, 0u);
  bytes_[at] = static_cast<char>(bytes_[at] ^ 1);
  Report report = Read();
  EXPECT_TRUE(report.HasLosses());
  EXPECT_EQ(report.recordings[0].processes[0]->MissingFromStream(), 4u);
  std::string text = FormatReport(report, {});
  EXPECT_THAT(text, HasSubstr("The stream is damaged"));
  EXPECT_THAT(text, HasSubstr("1 missing"));
  EXPECT_THAT(text, HasSubstr("at least 4 records lost"));
  EXPECT_THAT(text, HasSubstr("4 written and missing from this stream"));
  EXPECT_THAT(text, HasSubstr("4 lost"));
}

TEST_F(ReportProblemsTest, RecordingsWithoutEndAreReportedAsSuch) {
  OpenBusy();
  EXPECT_TRUE(writer_->FlushAll().ok());
  std::string cut = bytes_;
  EXPECT_TRUE(writer_->Close().ok());
  writer_.reset();
  bytes_ = cut;
  Report report = Read();
  EXPECT_TRUE(report.HasLosses());
  const std::string text = FormatReport(report, {});
  EXPECT_EQ(text.rfind("INCOMPLETE: it has no end", 0), 0u) << text;
  EXPECT_THAT(text, HasSubstr("1 recorded process there is no final account"));
  EXPECT_THAT(text, HasSubstr("what is lost is not known"));
  EXPECT_THAT(text, HasSubstr("no account: what was lost of it is not known"));
  EXPECT_THAT(text, Not(HasSubstr("nothing lost")));
  EXPECT_EQ(FormatReportJson(report).rfind("{\"incomplete\":true", 0), 0u);
}

// A process with implausible numbers is in no sum, and hides no other process.
TEST_F(ReportProblemsTest, ImplausibleProcessesAreInNoSum) {
  StreamId liar = Open("liar", 13);
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_ATTACHED);
  EXPECT_TRUE(writer_->AddWindowEvent(liar, event).ok());
  EXPECT_TRUE(writer_->Append<DispatchKind>(liar, {Dispatch(1, 0, 10'000, 1)}).ok());
  v1::LossAccount account;
  account.set_final(true);
  account.set_dispatches_seen(1'000'001);
  account.set_dropped_invalid(1'000'000);
  account.set_not_believable("the positions of 3 of its rings are impossible");
  EXPECT_TRUE(writer_->SetAccount(liar, account).ok());
  EXPECT_TRUE(writer_->EndProcess(liar, {}).ok());
  dropped_ = 5;
  End(OpenBusy(), 9, 3);
  Report report = Read();
  EXPECT_TRUE(report.HasLosses());
  EXPECT_EQ(report.recordings[0].Lost(), 5u);
  const std::string text = FormatReport(report, {});
  EXPECT_EQ(text.rfind("INCOMPLETE: 1 process has implausible numbers", 0), 0u) << text;
  EXPECT_THAT(text, HasSubstr("at least 5 lost"));
  EXPECT_THAT(text, Not(HasSubstr("nothing lost")));
  EXPECT_THAT(text,
              HasSubstr("liar (pid 13): its numbers are implausible (the positions"));
  EXPECT_LT(text.find("liar (pid 13): its"), text.find("liar (pid 13)  attached"));
  EXPECT_LT(text.find("busy (pid 100): 5 dropped"),
            text.find("liar (pid 13)  attached"))
      << "losses first";
  EXPECT_THAT(text, HasSubstr("busy (pid 100)  attached"));
}

// Very many names in one process take no room from the other processes.
TEST_F(ReportProblemsTest, ManyEntriesInOneProcessOmitNoneOfAnother) {
  StreamId greedy = Open("greedy", 1);
  std::vector<rocattach_dispatch> records;
  for (uint32_t queue = 0; queue < 400'000; ++queue) {
    records.push_back(Dispatch(queue + 1, 1, 10'000, 1));
    records.back().queue_id = queue;
  }
  EXPECT_TRUE(writer_->Append<DispatchKind>(greedy, records).ok());
  End(greedy, records.size(), 0);
  End(OpenBusy(), 4, 3);
  Report report = Read();
  ASSERT_EQ(report.recordings[0].processes.size(), 2u);
  const ProcessReport& first = *report.recordings[0].processes[0];
  EXPECT_EQ(first.dispatches, records.size());
  EXPECT_GT(first.entries_omitted, 0u);
  const ProcessReport& second = *report.recordings[0].processes[1];
  EXPECT_EQ(second.entries_omitted, 0u);
  EXPECT_EQ(second.KernelsByName().size(), 2u);
  const std::string text = FormatReport(report, {});
  EXPECT_EQ(text.rfind("The report is incomplete", 0), 0u) << text.substr(0, 200);
}

TEST_F(ReportProblemsTest, ADeathDuringTheAttachComesFirst) {
  End(OpenBusy(), 4, 3);
  StreamId id = Open("victim", 7);
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_MISSED);
  event.set_reason(v1::ATTACH_REASON_DIED_DURING_ATTACH);
  event.set_detail("the process was killed by SIGSEGV");
  EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
  EXPECT_TRUE(writer_->EndProcess(id, {}).ok());
  const std::string text = FormatReport(Read(), {});
  EXPECT_LT(text.find("victim (pid 7): the process was killed by SIGSEGV"),
            text.find("busy (pid 100)  attached"));
}

TEST_F(ReportProblemsTest, HostileNamesDoNotReachTheTerminal) {
  StreamId id = Open("\x1b[2Jcomm", 1);
  EXPECT_TRUE(writer_->AddKernel(id, Kernel(1, "evil\x1b]0;title\x07\nname")).ok());
  EXPECT_TRUE(writer_->Append<DispatchKind>(id, {Dispatch(1, 1, 1000, 10)}).ok());
  std::string text = FormatReport(Read(), {});
  for (char byte : text)
    ASSERT_TRUE(static_cast<uint8_t>(byte) >= 0x20 || byte == '\n');
  EXPECT_THAT(text, HasSubstr("evil\\x1b]0;title\\x07\\x0aname"));
}

}  // namespace
}  // namespace rocattach
