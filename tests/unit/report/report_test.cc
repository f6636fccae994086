#include "userspace/report/report.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/unit/report/report_fixture.h"
#include "userspace/base/display_width.h"
#include "userspace/report/report_json.h"
#include "userspace/report/report_text.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST_F(ReportTest, TextNamesTheProcessItsWorkAndItsEnd) {
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

// Processes with problems take precedence; all are shown in the recording's order.
TEST_F(ReportTest, TheLimitLeavesOutTheLeastInteresting) {
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
