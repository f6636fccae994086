#include "userspace/report/report.h"
#include "userspace/base/display_width.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/unit/report/read_report.h"
#include "userspace/report/report_json.h"
#include "userspace/report/report_text.h"
#include "userspace/report/text.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

rocattach_dispatch Dispatch(uint64_t number, uint32_t kernel, uint64_t start_ns,
                            uint64_t duration_ns) {
  rocattach_dispatch record = {};
  record.kind = ROCATTACH_RECORD_DISPATCH;
  record.kernel_id = kernel;
  record.correlation_id = number;
  record.enqueue_ns = start_ns - 100;
  record.start_ns = start_ns;
  record.end_ns = start_ns + duration_ns;
  record.queue_id = 1;
  record.agent_id = 2;
  return record;
}

rocattach_copy Copy(uint16_t direction, uint64_t bytes, uint64_t duration_ns) {
  rocattach_copy record = {};
  record.kind = ROCATTACH_RECORD_COPY;
  record.direction = direction;
  record.bytes = bytes;
  record.start_ns = 1'000'000;
  record.end_ns = 1'000'000 + duration_ns;
  return record;
}

v1::Kernel Kernel(uint32_t id, const std::string& name) {
  v1::Kernel kernel;
  kernel.set_id(id);
  kernel.set_name(name);
  return kernel;
}

class ReportTest : public testing::Test {
 protected:
  void SetUp() override {
    WriterOptions options;
    options.clock = [] {
      return ClockSnapshot{1'000, 900, 901, 1'700'000'000'000'000'000};
    };
    writer_ = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes_), options);
  }

  StreamId Open(const std::string& comm, uint32_t pid) {
    v1::Process process;
    process.set_comm(comm);
    process.set_pid(pid);
    process.add_arguments(absl::StrCat("./", comm));
    process.add_arguments("two words");
    return writer_->OpenProcess(process);
  }

  // An attached process with two kernels, three names, and copies.
  StreamId OpenBusy() {
    StreamId id = Open("busy", 100);
    v1::WindowEvent event;
    event.set_state(v1::WINDOW_STATE_ATTACHED);
    event.set_mode(v1::WINDOW_MODE_HELD);
    event.set_hit_ns(1'000);
    event.set_stopped_ns(46'000);
    event.set_released_ns(151'000);
    event.set_hold_ns(44'000);
    event.set_hold_end(v1::HOLD_END_STOPPED);
    EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
    v1::Agent agent;
    agent.set_id(2);
    agent.set_type(v1::AGENT_TYPE_GPU);
    agent.set_name("gfx90a");
    agent.set_compute_units(104);
    EXPECT_TRUE(writer_->AddAgent(id, agent).ok());
    v1::Queue queue;
    queue.set_id(1);
    queue.set_agent_id(2);
    EXPECT_TRUE(writer_->AddQueue(id, queue).ok());
    EXPECT_TRUE(writer_->AddKernel(id, Kernel(1, "_Z4vaddPfS_i")).ok());
    EXPECT_TRUE(writer_->AddKernel(id, Kernel(2, "scale")).ok());
    EXPECT_TRUE(writer_->AddKernel(id, Kernel(3, "scale")).ok());  // second GPU's copy
    std::vector<rocattach_dispatch> records = {
        Dispatch(1, 1, 10'000, 1'000), Dispatch(2, 1, 20'000, 3'000),
        Dispatch(3, 2, 30'000, 10'000), Dispatch(4, 3, 50'000, 30'000)};
    EXPECT_TRUE(writer_->Append<DispatchKind>(id, records).ok());
    std::vector<rocattach_copy> copies = {
        Copy(ROCATTACH_COPY_HOST_TO_DEVICE, 1000, 100),
        Copy(ROCATTACH_COPY_HOST_TO_DEVICE, 3000, 100),
        Copy(ROCATTACH_COPY_DEVICE_TO_HOST, 500, 50)};
    EXPECT_TRUE(writer_->Append<CopyKind>(id, copies).ok());
    return id;
  }

  void End(StreamId id, uint64_t seen_dispatches, uint64_t seen_copies) {
    v1::LossAccount account;
    account.set_final(true);
    account.set_dispatches_seen(seen_dispatches);
    account.set_copies_seen(seen_copies);
    account.set_dropped_ring_full(dropped_);
    EXPECT_TRUE(writer_->SetAccount(id, account).ok());
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::EXITED);
    end.set_exit_code(3);
    end.set_wall_ns(2'000'000'000);
    EXPECT_TRUE(writer_->EndProcess(id, end).ok());
  }

  Report Read() {
    if (writer_) {
      EXPECT_TRUE(writer_->Close().ok());
    }
    return ReadReport(bytes_);
  }

  std::string bytes_;
  std::unique_ptr<StreamWriter> writer_;
  uint64_t dropped_ = 0;
};

TEST_F(ReportTest, KernelsAreSummedByName) {
  End(OpenBusy(), 4, 3);
  Report report = Read();
  ASSERT_EQ(report.recordings.size(), 1u);
  ASSERT_EQ(report.recordings[0].processes.size(), 1u);
  const ProcessReport& process = *report.recordings[0].processes[0];
  std::vector<KernelReport> kernels = process.KernelsByName();
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "scale") << "the longest total first";
  EXPECT_EQ(kernels[0].count, 2u);
  EXPECT_EQ(kernels[0].durations.sum(), 40'000u);
  EXPECT_EQ(kernels[0].durations.min(), 10'000u);
  EXPECT_EQ(kernels[0].durations.max(), 30'000u);
  EXPECT_EQ(kernels[0].durations.mean(), 20'000u);
  EXPECT_EQ(kernels[1].name, "vadd(float*, float*, int)");
  EXPECT_EQ(kernels[1].durations.sum(), 4'000u);
  EXPECT_EQ(process.copies.at(v1::COPY_DIRECTION_HOST_TO_DEVICE).bytes, 4000u);
  EXPECT_EQ(process.queues.at(1).dispatches, 4u);
  EXPECT_EQ(process.first_ns, 10'000u);
  EXPECT_EQ(process.Lost(), 0u);
  EXPECT_FALSE(report.HasLosses());
}

TEST_F(ReportTest, TextSaysWhoWhatAndHowItEnded) {
  End(OpenBusy(), 4, 3);
  std::string text = FormatReport(Read(), {});
  EXPECT_THAT(text, HasSubstr("2023-11-14 22:13:20 UTC"));
  EXPECT_THAT(text, HasSubstr("busy (pid 100)  attached"));
  EXPECT_THAT(text, HasSubstr("./busy 'two words'"));
  EXPECT_THAT(text,
              HasSubstr("held 150 us (44.0 us in the probe, stopped after 45.0 us)"));
  EXPECT_THAT(text, HasSubstr("GPU 0     gfx90a, 104 CUs"));
  EXPECT_THAT(text, HasSubstr("busy 44.0 us of 70.0 us (62.9 %); 3 idle gaps, median"));
  EXPECT_THAT(text, HasSubstr("longest 10.0 us"));
  EXPECT_THAT(text, Not(HasSubstr("several queues")));
  EXPECT_THAT(text, HasSubstr("40.0 us  20.0 us  14.1 us  10.0 us")) << "the deviation";
  EXPECT_THAT(text, HasSubstr("4 dispatches and 3 copies"));
  EXPECT_THAT(text, HasSubstr("exited with status 3 after 2.00 s"));
  EXPECT_THAT(text, HasSubstr("nothing: 7 seen, 7 delivered"));
  EXPECT_THAT(text, HasSubstr("nothing lost"));
  EXPECT_THAT(text, HasSubstr("90.9 %"));  // 40 of 44 us
  EXPECT_THAT(text, HasSubstr("vadd(float*, float*, int)"));
  EXPECT_THAT(text, HasSubstr("20.00  host to device"));  // 4000 B in 200 ns
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("damaged")));
}

TEST_F(ReportTest, SeveralQueuesAtOnceAreReported) {
  const StreamId id = Open("wide", 5);
  v1::Agent agent;
  agent.set_id(2);
  agent.set_type(v1::AGENT_TYPE_GPU);
  EXPECT_TRUE(writer_->AddAgent(id, agent).ok());
  std::vector<rocattach_dispatch> records = {Dispatch(1, 1, 10'000, 1'000),
                                             Dispatch(2, 1, 10'500, 1'500)};
  records[1].queue_id = 2;
  EXPECT_TRUE(writer_->Append<DispatchKind>(id, records).ok());
  const Report report = Read();
  EXPECT_THAT(FormatReport(report, {}),
              HasSubstr("busy 2.00 us of 2.00 us (100.0 %); several queues at once for "
                        "500 ns (25.0 % of the busy time)"));
  EXPECT_THAT(FormatReportJson(report),
              HasSubstr("\"gpu_activity\":[{\"agent_id\":2,\"gpu\":\"0\","
                        "\"span_ns\":2000,\"busy_ns\":2000,\"overlap_ns\":500,"
                        "\"late_dispatches\":0,\"idle_gaps\":{\"count\":0"));
}

TEST_F(ReportTest, FitsTheTerminalAndIsColouredOnlyThere) {
  StreamId id = OpenBusy();
  EXPECT_TRUE(writer_->AddKernel(id, Kernel(9, std::string(500, 'n'))).ok());
  EXPECT_TRUE(writer_->Append<DispatchKind>(id, {Dispatch(5, 9, 90'000, 1)}).ok());
  End(id, 5, 3);
  Report report = Read();
  for (size_t width : {80u, 100u, 132u}) {
    TextReportOptions options;
    options.width = width;
    std::string text = FormatReport(report, options);
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    // The two lines of the heading are sentences.
    for (size_t i = 2; i < lines.size(); ++i) {
      EXPECT_LE(DisplayWidth(lines[i]), width) << lines[i];
    }
    EXPECT_THAT(text, HasSubstr("nnn…"));
    EXPECT_EQ(absl::StrContains(text, "(in a wider terminal: "), width < 132) << width;
  }
  TextReportOptions colored;
  colored.color = true;
  EXPECT_THAT(FormatReport(report, colored), HasSubstr("\x1b[32mattached\x1b[0m"));
}

TEST_F(ReportTest, TopLimitsKernels) {
  StreamId id = Open("many", 1);
  std::vector<rocattach_dispatch> records;
  for (uint32_t i = 1; i <= 20; ++i) {
    EXPECT_TRUE(writer_->AddKernel(id, Kernel(i, absl::StrCat("kernel_", i))).ok());
    records.push_back(Dispatch(i, i, 1'000'000 * i, 1000 * i));
  }
  EXPECT_TRUE(writer_->Append<DispatchKind>(id, records).ok());
  Report report = Read();
  TextReportOptions options;
  options.top = 3;
  std::string text = FormatReport(report, options);
  EXPECT_THAT(text, HasSubstr("kernel_18"));
  EXPECT_THAT(text, Not(HasSubstr("kernel_17")));
  EXPECT_THAT(text, HasSubstr("17 more kernels"));
  options.top = 0;
  EXPECT_THAT(FormatReport(report, options), HasSubstr("kernel_1\n"));
}

// What went wrong is shown before what went well, in the order of the recording.
TEST_F(ReportTest, LimitLeavesTheDullOnesOut) {
  for (uint32_t i = 1; i <= 9; ++i) {
    StreamId id = Open(absl::StrCat("app", i), i);
    v1::WindowEvent event;
    event.set_state(i == 8 ? v1::WINDOW_STATE_MISSED : v1::WINDOW_STATE_ATTACHED);
    EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
    if (i == 5 || i == 6) {
      EXPECT_TRUE(writer_->AddKernel(id, Kernel(1, "kernel")).ok());
      EXPECT_TRUE(writer_->Append<DispatchKind>(id, {Dispatch(i, 1, 1000, 10)}).ok());
    }
    dropped_ = i == 9 ? 2 : 0;
    End(id, (i == 5 || i == 6 ? 1 : 0) + dropped_, 0);
  }
  Report report = Read();
  TextReportOptions options;
  options.limit = 3;
  std::string text = FormatReport(report, options);
  size_t ran = text.find("app5 (pid 5)  "), missed = text.find("app8 (pid 8)  "),
         lost = text.find("app9 (pid 9)  ");
  EXPECT_LT(ran, missed);
  EXPECT_LT(missed, lost);
  EXPECT_NE(lost, std::string::npos);
  EXPECT_THAT(text, Not(HasSubstr("app1 ")));
  EXPECT_THAT(text, Not(HasSubstr("app6 ")));
  EXPECT_THAT(text, HasSubstr("… and 6 more processes (6 attached), 1 dispatch, 0 "
                              "copies (--limit 0 shows all)"));
  options.limit = 0;
  EXPECT_THAT(FormatReport(report, options), HasSubstr("app1 (pid 1)"));
}

TEST_F(ReportTest, HoldsThatDidNotEndWellSayHow) {
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
    event.set_hold_ns(c.mode == v1::WINDOW_MODE_HELD ? 2'000'000 : 0);
    event.set_hold_end(c.end);
    EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
    EXPECT_THAT(FormatReport(Read(), {}), HasSubstr(c.words));
  }
}

TEST_F(ReportTest, RefusalsSayWhy) {
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

TEST_F(ReportTest, AnotherWindowDoesNotUndoAnAttach) {
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

TEST_F(ReportTest, LossesAreNamed) {
  dropped_ = 5;
  End(OpenBusy(), 9, 3);
  Report report = Read();
  EXPECT_TRUE(report.HasLosses());
  std::string text = FormatReport(report, {});
  EXPECT_THAT(text, HasSubstr("5 dropped, the ring was full (12 seen, 7 delivered)"));
  EXPECT_THAT(text, HasSubstr("5 lost"));
  EXPECT_THAT(text, Not(HasSubstr("off by")));
}

TEST_F(ReportTest, AnAccountThatDoesNotAddUpIsReported) {
  End(OpenBusy(), 10, 3);
  Report report = Read();
  EXPECT_TRUE(report.HasLosses());
  EXPECT_THAT(FormatReport(report, {}), HasSubstr("the account is off by 6"));
}

TEST_F(ReportTest, DamageIsReported) {
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

TEST_F(ReportTest, RecordingsWithoutEndAreReportedAsSuch) {
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

// A process whose numbers cannot be true is in no sum, and hides nobody.
TEST_F(ReportTest, ProcessesThatCannotBeBelievedCountForThemselves) {
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

// Names without end in one process take no room from the others.
TEST_F(ReportTest, OneProcessCannotTakeTheRoomOfTheOthers) {
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

TEST_F(ReportTest, ADeathDuringTheAttachComesFirst) {
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

TEST_F(ReportTest, HostileNamesDoNotReachTheTerminal) {
  StreamId id = Open("\x1b[2Jcomm", 1);
  EXPECT_TRUE(writer_->AddKernel(id, Kernel(1, "evil\x1b]0;title\x07\nname")).ok());
  EXPECT_TRUE(writer_->Append<DispatchKind>(id, {Dispatch(1, 1, 1000, 10)}).ok());
  std::string text = FormatReport(Read(), {});
  for (char byte : text)
    ASSERT_TRUE(static_cast<uint8_t>(byte) >= 0x20 || byte == '\n');
  EXPECT_THAT(text, HasSubstr("evil\\x1b]0;title\\x07\\x0aname"));
}

TEST_F(ReportTest, JsonIsJsonAndComplete) {
  dropped_ = 5;
  End(OpenBusy(), 9, 3);
  Report report = Read();
  std::string json = FormatReportJson(report);
  google::protobuf::Struct parsed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok()) << json;
  auto field = [](const google::protobuf::Value& value,
                  const char* key) -> const google::protobuf::Value& {
    return value.struct_value().fields().at(key);
  };
  EXPECT_TRUE(parsed.fields().at("losses").bool_value());
  const auto& recording = parsed.fields().at("recordings").list_value().values(0);
  EXPECT_TRUE(field(recording, "ended").bool_value());
  const auto& process = field(recording, "processes").list_value().values(0);
  EXPECT_EQ(field(process, "verdict").string_value(), "attached");
  EXPECT_EQ(field(process, "lost").number_value(), 5);
  EXPECT_EQ(field(field(process, "process"), "comm").string_value(), "busy");
  EXPECT_EQ(field(field(process, "window"), "mode").string_value(), "held");
  EXPECT_EQ(field(field(process, "end"), "how").string_value(), "exited");
  EXPECT_EQ(field(field(process, "account"), "dropped_ring_full").number_value(), 5);
  const auto& kernel = field(process, "kernels").list_value().values(0);
  EXPECT_EQ(field(kernel, "name").string_value(), "scale");
  EXPECT_EQ(field(kernel, "total_ns").number_value(), 40'000);
  const auto& copies = field(process, "copies").list_value().values(0);
  EXPECT_EQ(field(copies, "direction").string_value(), "host_to_device");
  EXPECT_EQ(field(copies, "gigabytes_per_second").number_value(), 20);
  EXPECT_FALSE(field(parsed.fields().at("reader"), "damaged").bool_value());
}

TEST_F(ReportTest, NothingReadIsStillJson) {
  Report report;
  google::protobuf::Struct parsed;
  EXPECT_TRUE(
      google::protobuf::util::JsonStringToMessage(FormatReportJson(report), &parsed)
          .ok());
  EXPECT_EQ(FormatReport(report, {}), "");
}

}  // namespace
}  // namespace rocattach
