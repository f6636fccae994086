// Counter values, samples and API calls in reports and dumps.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/unit/report/read_report.h"
#include "userspace/report/record_printer.h"
#include "userspace/report/report.h"
#include "userspace/report/report_json.h"
#include "userspace/report/report_text.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Pass 0 measures SQ_WAVES and SQ_BUSY, pass 1 GRBM_COUNT.
v1::SessionPlan Plan() {
  v1::SessionPlan plan;
  plan.set_id(1);
  for (const char* name : {"SQ_WAVES", "SQ_BUSY", "GRBM_COUNT"})
    plan.add_counters(name);
  v1::SessionArchitecture* architecture = plan.add_architectures();
  architecture->set_name("gfx90a");
  v1::CounterPass* pass = architecture->add_passes();
  pass->add_counters(0);
  pass->add_counters(1);
  architecture->add_passes()->add_counters(2);
  architecture->add_sampler_passes()->add_counters(2);
  auto value = [&](const char* name, bool metric, std::vector<uint32_t> passes) {
    v1::RequestedValue* requested = architecture->add_values();
    requested->set_name(name);
    requested->set_metric(metric);
    for (uint32_t number : passes) requested->add_passes(number);
  };
  value("SQ_WAVES", false, {0});
  value("GRBM_COUNT", false, {1});
  value("BusyPerWave", true, {0});
  value("CountPerWave", true, {});
  auto metric = [&](const char* name, const char* expression) {
    v1::MetricDefinition* definition = architecture->add_metrics();
    definition->set_name(name);
    definition->set_expression(expression);
  };
  metric("BusyPerWave", "100*SQ_BUSY/SQ_WAVES/CU_NUM");
  metric("CountPerWave", "max(GRBM_COUNT)/SQ_WAVES");
  v1::SessionAgent* agent = plan.add_agents();
  agent->set_agent_id(2);
  agent->set_architecture("gfx90a");
  v1::AgentConstant* constant = agent->add_constants();
  constant->set_name("CU_NUM");
  constant->set_value(4);
  return plan;
}

CounterRecord Value(uint64_t operation, uint32_t kernel, uint16_t pass,
                    uint16_t counter, double sum) {
  CounterRecord record;
  record.session = 1;
  record.plan = 1;
  record.operation = operation;
  record.kernel_id = kernel;
  record.agent_id = 2;
  record.pass = pass;
  record.counter = counter;
  record.instances = 2;
  record.sum = sum;
  record.minimum = record.maximum = sum / 2;
  return record;
}

class SessionReportTest : public testing::Test {
 protected:
  SessionReportTest()
      : writer_(*StreamWriter::Create(std::make_unique<MemorySink>(&bytes_), {})),
        id_(writer_->OpenProcess({})) {}

  void AddKernel(uint32_t id, const std::string& name) {
    v1::Kernel kernel;
    kernel.set_id(id);
    kernel.set_name(name);
    EXPECT_TRUE(writer_->AddKernel(id_, kernel).ok());
  }

  // vadd three times, of which its second copy once; scale once.
  void WriteValues() {
    AddKernel(1, "vadd");
    AddKernel(2, "scale");
    AddKernel(3, "vadd");
    EXPECT_TRUE(writer_->AddSessionPlan(id_, Plan()).ok());
    const std::vector<CounterRecord> values = {
        Value(1, 1, 0, 0, 100), Value(1, 1, 0, 1, 800), Value(2, 1, 1, 2, 4000),
        Value(3, 3, 0, 0, 300), Value(3, 3, 0, 1, 800), Value(4, 2, 0, 0, 7),
        Value(4, 2, 0, 1, 14)};
    EXPECT_TRUE(writer_->Append<CounterKind>(id_, values).ok());
  }

  Report Read() {
    EXPECT_TRUE(writer_->EndProcess(id_, {}).ok());
    EXPECT_TRUE(writer_->Close().ok());
    return ReadReport(bytes_);
  }

  std::string bytes_;
  std::unique_ptr<StreamWriter> writer_;
  StreamId id_;
};

TEST_F(SessionReportTest, ValuesPerKernel) {
  WriteValues();
  const Report report = Read();
  const ProcessReport& process = *report.recordings.at(0).processes.at(0);
  EXPECT_EQ(process.counted, 4u);
  EXPECT_EQ(process.unknown_values, 0u);
  const auto& kernels = process.plans.at(1).kernels;
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].kernel, "scale");
  EXPECT_FALSE(kernels[0].complete) << "pass 1 never had its turn";
  EXPECT_EQ(kernels[0].values.at(1).dispatches, 0u);
  EXPECT_FALSE(kernels[0].values.at(1).total.has_value()) << "absent, never 0";

  const KernelCounters& vadd = kernels[1];
  EXPECT_EQ(vadd.kernel, "vadd");
  EXPECT_TRUE(vadd.complete);
  EXPECT_EQ(vadd.passes, (std::vector<uint64_t>{2, 1}));
  ASSERT_EQ(vadd.values.size(), 4u);
  EXPECT_EQ(vadd.values[0].total, 400);
  EXPECT_EQ(vadd.values[0].mean, 200);
  EXPECT_EQ(vadd.values[0].dispatches, 2u);
  EXPECT_EQ(vadd.values[1].total, 4000);
  EXPECT_EQ(vadd.values[1].dispatches, 1u);
  EXPECT_EQ(vadd.values[2].mean, 100.0 * 800 / 200 / 4);
  EXPECT_FALSE(vadd.values[2].mixed);
  EXPECT_EQ(vadd.values[3].mean, 2000.0 / 200) << "of the largest instance";
  EXPECT_TRUE(vadd.values[3].mixed);

  const std::string text = FormatReport(report, {});
  EXPECT_THAT(
      text, AllOf(HasSubstr("CountPerWave*"), HasSubstr("* mixed"), HasSubstr("2 of 2"),
                  HasSubstr("1 of 2"),
                  HasSubstr("scale was measured 1 time, too rarely for its 2")));
  EXPECT_THAT(text, Not(HasSubstr("BusyPerWave*")));
  google::protobuf::Struct parsed;
  const std::string json = FormatReportJson(report);
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok()) << json;
  EXPECT_THAT(json, HasSubstr("\"name\":\"SQ_WAVES\",\"metric\":false,\"total\":400,"
                              "\"mean\":200,\"dispatches\":2,\"mixed\":false"));
}

// A refusal, two samples and two API calls.
void WriteSamplesAndApiCalls(StreamWriter* writer, StreamId id) {
  EXPECT_TRUE(writer->AddSessionPlan(id, Plan()).ok());
  v1::SessionEvent event;
  event.set_session(1);
  event.set_plan(1);
  event.set_what(v1::SessionEvent::REFUSED);
  event.set_detail("it has \x1b[31mno rocprofiler-register");
  EXPECT_TRUE(writer->AddSessionEvent(id, event).ok());
  std::vector<CounterRecord> values = {Value(1, 0, 0, 2, 500), Value(2, 0, 0, 2, 1500)};
  values[0].begin_ns = 1'000'000'000;
  values[0].end_ns = values[1].begin_ns = 1'500'000'000;
  values[1].end_ns = 2'000'000'000;
  EXPECT_TRUE(writer->Append<SampleKind>(id, values).ok());
  v1::ApiFunction function;
  function.set_domain(v1::API_DOMAIN_HIP);
  function.set_function(9);
  function.set_name("hipMalloc");
  EXPECT_TRUE(writer->AddApiFunction(id, function).ok());
  std::vector<ApiCallRecord> calls(2);
  for (ApiCallRecord& call : calls) {
    call.domain = v1::API_DOMAIN_HIP;
    call.function = 9;
    call.begin_ns = 1000;
    call.end_ns = 3000;
  }
  calls[1].text = "step";
  EXPECT_TRUE(writer->Append<ApiCallKind>(id, calls).ok());
}

TEST_F(SessionReportTest, SamplesAndApiCallsAndEvents) {
  WriteSamplesAndApiCalls(writer_.get(), id_);
  const Report report = Read();
  const ProcessReport& process = *report.recordings.at(0).processes.at(0);
  EXPECT_EQ(process.samples, 2u);
  const auto& samples = process.plans.at(1).samples;
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].total, 2000);
  EXPECT_EQ(samples[0].covered_ns, 1'000'000'000u);
  EXPECT_EQ(samples[0].largest, 1500);
  EXPECT_EQ((process.api_calls.at({v1::API_DOMAIN_HIP, 9}).durations.sum()), 4000u);
  const std::string text = FormatReport(report, {});
  EXPECT_THAT(text, AllOf(HasSubstr("hipMalloc"), HasSubstr("refused, plan 1"),
                          HasSubstr("2,000"), Not(HasSubstr("\x1b"))));
}

TEST_F(SessionReportTest, SamplesAndApiCallsInTheDump) {
  WriteSamplesAndApiCalls(writer_.get(), id_);
  Read();  // completes the stream
  std::string lines;
  {
    RecordPrinter printer(
        {LineWriter::Style::kJson, {}, false},
        [&](absl::string_view more) { absl::StrAppend(&lines, more); });
    StreamDecoder decoder(&printer);
    decoder.Feed(bytes_);
    decoder.FinishInput();
  }
  int sampled = 0;
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    google::protobuf::Struct parsed;
    ASSERT_TRUE(
        google::protobuf::util::JsonStringToMessage(std::string(line), &parsed).ok())
        << line;
    const auto& fields = parsed.fields();
    if (fields.at("type").string_value() == "sample") {
      ++sampled;
      EXPECT_EQ(fields.at("counter").string_value(), "GRBM_COUNT");
      EXPECT_GT(fields.at("sum").number_value(), 0);
    }
    if (fields.at("type").string_value() == "api_call") {
      EXPECT_EQ(fields.at("function").string_value(), "hipMalloc");
    }
  }
  EXPECT_EQ(sampled, 2);
}

TEST_F(SessionReportTest, APlanThatContradictsItselfIsSurvived) {
  v1::SessionPlan plan = Plan();
  v1::MetricDefinition* cycle = plan.mutable_architectures(0)->add_metrics();
  cycle->set_name("Cycle");
  cycle->set_expression("Cycle+1");
  plan.mutable_architectures(0)->mutable_values(2)->add_passes(99);
  EXPECT_TRUE(writer_->AddSessionPlan(id_, plan).ok());
  std::vector<CounterRecord> values = {
      Value(1, 1, 0, 0, 100), Value(2, 1, 7, 0, 1), Value(3, 1, 0, 77, 1),
      Value(4, 1, 0, 1, std::numeric_limits<double>::infinity())};
  values.push_back(Value(5, 1, 0, 0, 1));
  values.back().plan = 4;
  values.push_back(Value(6, 1, 0, 0, 1));
  values.back().agent_id = 9;
  EXPECT_TRUE(writer_->Append<CounterKind>(id_, values).ok());
  const Report report = Read();
  const ProcessReport& process = *report.recordings.at(0).processes.at(0);
  EXPECT_EQ(process.unknown_values, 4u);
  EXPECT_FALSE(process.plans.at(1).counters->problem().empty());
  ASSERT_EQ(process.plans.at(1).kernels.size(), 1u);
  EXPECT_EQ(process.plans.at(1).kernels[0].values.at(0).total, 100);
  google::protobuf::Struct parsed;
  EXPECT_TRUE(
      google::protobuf::util::JsonStringToMessage(FormatReportJson(report), &parsed)
          .ok());
  EXPECT_FALSE(FormatReport(report, {}).empty());
}

}  // namespace
}  // namespace rocattach
