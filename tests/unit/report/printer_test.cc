#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "userspace/report/record_printer.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Recording() {
  std::string bytes;
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), {});
  v1::Process process;
  process.set_comm("na\nme");
  process.set_pid(42);
  StreamId id = writer->OpenProcess(process);
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_ATTACHED);
  event.mutable_collector()->set_capture_mode(v1::CAPTURE_MODE_DOORBELL);
  EXPECT_TRUE(writer->AddWindowEvent(id, event).ok());
  v1::Kernel kernel;
  kernel.set_id(7);
  kernel.set_name("_Z4vaddPf");
  EXPECT_TRUE(writer->AddKernel(id, kernel).ok());
  rocattach_dispatch dispatch = {};
  dispatch.kernel_id = 7;
  dispatch.correlation_id = 1;
  dispatch.start_ns = 1000;
  dispatch.end_ns = 1250;
  dispatch.grid_x = 64;
  dispatch.grid_y = dispatch.grid_z = 1;
  EXPECT_TRUE(writer->Append<DispatchKind>(id, {dispatch}).ok());
  rocattach_copy copy = {};
  copy.bytes = 4096;
  copy.direction = ROCATTACH_COPY_DEVICE_TO_HOST;
  copy.flags = ROCATTACH_DISPATCH_UNTIMED;
  EXPECT_TRUE(writer->Append<CopyKind>(id, {copy}).ok());
  EXPECT_TRUE(writer->EndProcess(id, {}).ok());
  EXPECT_TRUE(writer->Close().ok());
  return bytes;
}

std::vector<std::string> Print(const std::string& bytes, PrinterOptions options) {
  std::string out;
  {
    RecordPrinter printer(options, [&](absl::string_view lines) {
      out.append(lines.data(), lines.size());
    });
    StreamDecoder decoder(&printer);
    decoder.Feed(bytes);
    decoder.FinishInput();
  }
  std::vector<std::string> lines = absl::StrSplit(out, '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  return lines;
}

TEST(RecordPrinter, EveryLineIsAJsonObject) {
  PrinterOptions options;
  options.style = LineWriter::Style::kJson;
  std::vector<std::string> types;
  for (const std::string& line : Print(Recording(), options)) {
    google::protobuf::Struct parsed;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &parsed).ok())
        << line;
    const auto& fields = parsed.fields();
    types.push_back(fields.at("type").string_value());
    if (types.back() == "dispatch") {
      EXPECT_EQ(fields.at("kernel").string_value(), "vadd(float*)");
      EXPECT_EQ(fields.at("duration_ns").number_value(), 250);
      EXPECT_EQ(fields.at("grid").list_value().values_size(), 3);
      EXPECT_FALSE(fields.at("untimed").bool_value());
    } else if (types.back() == "copy") {
      EXPECT_EQ(fields.at("direction").string_value(), "device_to_host");
      EXPECT_EQ(fields.at("bytes").number_value(), 4096);
      EXPECT_TRUE(fields.at("untimed").bool_value());
    } else if (types.back() == "process") {
      EXPECT_EQ(fields.at("comm").string_value(), "na\nme");
      EXPECT_EQ(fields.at("uid").number_value(), 0) << "zeros are there too";
    } else if (types.back() == "window") {
      EXPECT_EQ(fields.at("state").string_value(), "attached");
      const auto& collector = fields.at("collector").struct_value().fields();
      EXPECT_EQ(collector.at("capture_mode").string_value(), "doorbell");
    } else if (types.back() == "recording") {
      EXPECT_EQ(fields.count("descriptors"), 0u);
      EXPECT_EQ(fields.at("recording_id").string_value().size(), 32u);
    }
  }
  EXPECT_EQ(types, (std::vector<std::string>{"recording", "process", "window", "kernel",
                                             "dispatch", "copy", "process_end",
                                             "recording_end"}));
  std::vector<std::string> known = RecordPrinter::RecordTypes();
  for (const std::string& type : types) {
    EXPECT_NE(std::find(known.begin(), known.end(), type), known.end()) << type;
  }
}

TEST(RecordPrinter, TextIsOneLineARecord) {
  std::vector<std::string> lines = Print(Recording(), {});
  ASSERT_EQ(lines.size(), 8u) << "a newline in a name does not make another";
  EXPECT_THAT(lines[1],
              AllOf(StartsWith("process recording=0 stream=1"), HasSubstr("pid=42"),
                    HasSubstr("comm=na\\x0ame"), Not(HasSubstr("uid="))));
  EXPECT_THAT(lines[2], HasSubstr("collector.capture_mode=doorbell"));
  EXPECT_THAT(lines[4], AllOf(HasSubstr("kernel=vadd(float*)"),
                              HasSubstr("grid=64x1x1"), HasSubstr("duration_ns=250")));
}

TEST(RecordPrinter, PrintsOnlyTheChosenTypes) {
  PrinterOptions options;
  options.types = {"copy", "process_end"};
  std::vector<std::string> lines = Print(Recording(), options);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], StartsWith("copy "));
}

TEST(RecordPrinter, DamageIsPrintedWhereItOccurs) {
  std::string bytes = Recording();
  bytes.resize(bytes.size() - 5);
  std::vector<std::string> lines = Print(bytes, {});
  ASSERT_GE(lines.size(), 2u);
  EXPECT_THAT(lines[lines.size() - 2],
              AllOf(StartsWith("damage "), HasSubstr("kind=skipped_bytes"),
                    HasSubstr("at_end=true")));
  EXPECT_THAT(lines.back(), HasSubstr("kind=no_end"));
}

}  // namespace
}  // namespace rocattach
