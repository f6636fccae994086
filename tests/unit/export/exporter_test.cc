// One pass over streams: which process gets which output, and what sinks receive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"
#include "userspace/base/output_formats.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/exporter.h"

namespace rocattach {
using testing_support::TemporaryDirectory;

namespace {

// The calls of all sinks of a test, as text.
std::vector<std::string>* g_log = nullptr;  // formats make sinks without a context
const char* g_fail_at = "";

class LoggingSink : public ExportSink {
 public:
  explicit LoggingSink(std::string base) : base_(base.substr(base.rfind('/') + 1)) {}

  absl::Status BeginProcess(const ExportProcess& process) override {
    return Log("begin ", process.pid());
  }
  absl::Status OnAgent(const ExportProcess& process, const v1::Agent& agent) override {
    return Log("agent ", process.pid(), ".", agent.id());
  }
  absl::Status OnKernel(const ExportProcess& process,
                        const ExportKernel& kernel) override {
    return Log("kernel ", process.pid(), ".", kernel.display_name);
  }
  absl::Status OnDispatches(const ExportProcess& process,
                            absl::Span<const rocattach_dispatch> records) override {
    for (const rocattach_dispatch& r : records) {
      RETURN_IF_ERROR(Log("dispatch ", process.pid(), ".", r.dispatch_id));
    }
    return absl::OkStatus();
  }
  absl::Status OnCountedDispatch(const ExportProcess& process,
                                 const CountedDispatch& counted) override {
    return Log("counted ", process.pid(), ".", counted.values[0].operation,
               counted.dispatch == nullptr ? " alone" : "");
  }
  absl::Status EndProcess(const ExportProcess& process) override {
    return Log("end ", process.pid());
  }
  absl::Status Finish() override { return Log("finish"); }
  std::vector<std::string> Files() const override { return {base_}; }

 private:
  template <typename... Words>
  absl::Status Log(Words... words) {
    const std::string line = absl::StrCat(base_, ": ", words...);
    g_log->push_back(line);
    return line == g_fail_at ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  }

  const std::string base_;
};

absl::StatusOr<std::unique_ptr<ExportSink>> MakeLoggingSink(const std::string& base,
                                                            const ExportOptions&) {
  return std::make_unique<LoggingSink>(base);
}

constexpr ExportFormat kSingle = {"single", "", false, true, MakeLoggingSink};
constexpr ExportFormat kShared = {"shared", "", true, true, MakeLoggingSink};

class ExporterTest : public testing::Test {
 protected:
  ExporterTest() {
    g_log = &log_;
    g_fail_at = "";
  }
  ~ExporterTest() override { g_log = nullptr; }

  std::unique_ptr<Exporter> Make(const ExportFormat& format, bool by_pid) {
    ExporterOptions options;
    options.formats = {&format};
    options.base_name = [this, by_pid](const ExportProcess& process) {
      return absl::StrCat(directory_.path(), "/",
                          by_pid ? absl::StrCat(process.pid()) : "out");
    };
    return std::make_unique<Exporter>(options);
  }

  static FrameContext At(uint32_t stream) {
    FrameContext at;
    at.stream = stream;
    return at;
  }
  static void Process(Exporter* exporter, uint32_t stream, uint32_t pid) {
    v1::Process process;
    process.set_pid(pid);
    exporter->OnProcess(At(stream), process);
  }
  static void Dispatch(Exporter* exporter, uint32_t stream, uint64_t correlation) {
    rocattach_dispatch dispatch = {};
    dispatch.correlation_id = correlation;
    exporter->OnDispatches(At(stream), {&dispatch, 1});
  }

  TemporaryDirectory directory_;
  std::vector<std::string> log_;
};

TEST_F(ExporterTest, EachProcessHasItsOutputUntilItEnds) {
  auto exporter = Make(kSingle, true);
  Process(exporter.get(), 1, 10);
  Process(exporter.get(), 2, 20);
  Dispatch(exporter.get(), 2, 5);
  Dispatch(exporter.get(), 1, 5);
  Dispatch(exporter.get(), 1, 6);
  exporter->OnProcessEnd(At(1), {});
  Dispatch(exporter.get(), 1, 7);
  EXPECT_TRUE(exporter->Finish().ok());
  EXPECT_THAT(
      log_, testing::ElementsAre("20: begin 20", "20: dispatch 20.1", "10: begin 10",
                                 "10: dispatch 10.1", "10: dispatch 10.2", "10: end 10",
                                 "10: finish", "20: end 20", "20: finish"));
  EXPECT_THAT(exporter->Omissions(),
              testing::ElementsAre("1 records came after the end of their process"));
  EXPECT_THAT(exporter->Files(), testing::UnorderedElementsAre("10", "20"));
}

TEST_F(ExporterTest, SampledDispatchesAreAddedUp) {
  auto exporter = Make(kSingle, true);
  for (uint32_t stream : {1u, 2u}) {
    Process(exporter.get(), stream, 10 * stream);
    Dispatch(exporter.get(), stream, 5);
    v1::LossAccount account;
    account.set_sampled_out(100 * stream);
    // Accounts of a process are repeated, with larger numbers.
    exporter->OnAccount(At(stream), account);
    account.set_sampled_out(101 * stream);
    exporter->OnAccount(At(stream), account);
  }
  EXPECT_EQ(exporter->sampled_out(), 0u);
  exporter->OnProcessEnd(At(1), {});
  EXPECT_EQ(exporter->sampled_out(), 101u);
  EXPECT_TRUE(exporter->Finish().ok());
  EXPECT_EQ(exporter->sampled_out(), 303u);
  EXPECT_THAT(exporter->Omissions(), testing::IsEmpty());
}

TEST_F(ExporterTest, NamesAreSentOnceAndBeforeRecords) {
  auto exporter = Make(kSingle, true);
  v1::Kernel kernel;
  kernel.set_id(1);
  kernel.set_name("_Z3Sumv");
  Process(exporter.get(), 1, 10);
  exporter->OnKernel(At(1), kernel);
  Dispatch(exporter.get(), 1, 5);
  exporter->OnKernel(At(1), kernel);  // as key frames do
  kernel.set_id(2);
  exporter->OnKernel(At(1), kernel);
  EXPECT_THAT(log_, testing::ElementsAre("10: begin 10", "10: kernel 10.Sum()",
                                         "10: dispatch 10.1", "10: kernel 10.Sum()"));
}

TEST_F(ExporterTest, ProcessesWithoutAnythingHaveNoOutput) {
  auto exporter = Make(kSingle, true);
  Process(exporter.get(), 1, 10);
  exporter->OnProcessEnd(At(1), {});
  EXPECT_TRUE(exporter->Finish().ok());
  EXPECT_EQ(exporter->processes(), 0u);
  EXPECT_EQ(log_, (std::vector<std::string>{}));
}

TEST_F(ExporterTest, OneNameIsSharedWhereTheFormatCan) {
  auto exporter = Make(kShared, false);
  Process(exporter.get(), 1, 10);
  Process(exporter.get(), 2, 20);
  Dispatch(exporter.get(), 1, 5);
  Dispatch(exporter.get(), 2, 5);
  EXPECT_TRUE(exporter->Finish().ok());
  EXPECT_THAT(log_, testing::ElementsAre("out: begin 10", "out: dispatch 10.1",
                                         "out: begin 20", "out: dispatch 20.1",
                                         "out: end 10", "out: end 20", "out: finish"));
}

TEST_F(ExporterTest, OneNameForOutputsOfOneProcessGetsThePid) {
  auto exporter = Make(kSingle, false);
  for (uint32_t stream = 1; stream <= 3; ++stream) {
    Process(exporter.get(), stream, stream == 1 ? 10 : 20);
    Dispatch(exporter.get(), stream, 5);
    exporter->OnProcessEnd(At(stream), {});
  }
  EXPECT_TRUE(exporter->Finish().ok());
  EXPECT_THAT(exporter->Files(), testing::ElementsAre("out", "out_20", "out_20_2"));
}

TEST_F(ExporterTest, ValuesFindTheirDispatches) {
  auto exporter = Make(kSingle, true);
  Process(exporter.get(), 1, 10);
  v1::SessionPlan plan;
  plan.set_id(1);
  plan.add_counters("A");
  exporter->OnSessionPlan(At(1), plan);
  Dispatch(exporter.get(), 1, 5);
  CounterRecord values[3];
  values[0].operation = values[1].operation = 5;
  values[2].operation = 6;
  exporter->OnCounters(At(1), values);
  EXPECT_TRUE(exporter->Finish().ok());
  EXPECT_THAT(log_, testing::ElementsAre("10: begin 10", "10: dispatch 10.1",
                                         "10: counted 10.5", "10: counted 10.6 alone",
                                         "10: end 10", "10: finish"));
  EXPECT_THAT(exporter->Omissions(),
              testing::ElementsAre("1 counted dispatches have no record of their own"));
}

TEST_F(ExporterTest, NothingIsWrittenAfterAnError) {
  auto exporter = Make(kSingle, true);
  g_fail_at = "10: dispatch 10.1";
  Process(exporter.get(), 1, 10);
  Dispatch(exporter.get(), 1, 5);
  Dispatch(exporter.get(), 1, 6);
  exporter->OnProcessEnd(At(1), {});
  EXPECT_TRUE(absl::IsResourceExhausted(exporter->Finish()));
  EXPECT_THAT(log_, testing::ElementsAre("10: begin 10", "10: dispatch 10.1"));
  EXPECT_THAT(exporter->Files(), testing::ElementsAre("10")) << "the partial one";
  EXPECT_THAT(exporter->Omissions(), testing::IsEmpty()) << "the error says it all";
}

TEST_F(ExporterTest, RecordsWithoutAProcessAreOmitted) {
  auto exporter = Make(kSingle, true);
  Dispatch(exporter.get(), 0, 5);
  EXPECT_TRUE(exporter->Finish().ok());
  EXPECT_THAT(exporter->Omissions(),
              testing::ElementsAre("1 records belong to no process"));
}

// The memory of all kinds of names is released when their process has ended.
TEST_F(ExporterTest, ReleasesNamesWhenTheirProcessEnds) {
  auto exporter = Make(kSingle, true);
  v1::Thread thread;
  thread.set_tid(11);
  thread.set_name("worker");
  v1::Kernel kernel;
  kernel.set_id(1);
  kernel.set_name("Sum");
  for (uint32_t stream : {1, 2}) {
    Process(exporter.get(), stream, stream * 10);
    exporter->OnThread(At(stream), thread);
    Dispatch(exporter.get(), stream, 5);
    exporter->OnKernel(At(stream), kernel);
    exporter->OnProcessEnd(At(stream), {});
  }
  EXPECT_TRUE(exporter->Finish().ok());
  EXPECT_THAT(log_, testing::Contains("20: kernel 20.Sum"));
  EXPECT_THAT(exporter->Omissions(), testing::IsEmpty());
}

TEST_F(ExporterTest, ANewRecordingBeginsWithOtherProcesses) {
  auto exporter = Make(kSingle, false);
  v1::StreamHeader header;
  exporter->OnRecording(At(0), &header);
  Process(exporter.get(), 1, 10);
  Dispatch(exporter.get(), 1, 5);
  exporter->OnRecording(At(0), &header);
  Process(exporter.get(), 1, 11);
  Dispatch(exporter.get(), 1, 5);
  EXPECT_TRUE(exporter->Finish().ok());
  EXPECT_THAT(exporter->Files(), testing::ElementsAre("out", "out_11"));
}

TEST_F(ExporterTest, AgentsAreCountedByNode) {
  auto exporter = Make(kSingle, true);
  Process(exporter.get(), 1, 10);
  // The runtime may list agents in any order.
  for (auto [id, node, type] : {std::tuple{1u, 0u, v1::AGENT_TYPE_CPU},
                                {2u, 7u, v1::AGENT_TYPE_GPU},
                                {3u, 4u, v1::AGENT_TYPE_GPU}}) {
    v1::Agent agent;
    agent.set_id(id);
    agent.set_node_id(node);
    agent.set_type(type);
    exporter->OnAgent(At(1), agent);
  }
  EXPECT_THAT(log_, testing::Contains("10: agent 10.3"));
}

TEST(ExportFormats, AreFoundByName) {
  for (const std::string& name : ExportFormatNames()) {
    ASSERT_NE(FindExportFormat(name), nullptr);
    EXPECT_EQ(FindExportFormat(name)->name, name);
  }
  EXPECT_EQ(FindExportFormat("cvs"), nullptr);
}

// The service offers the formats under these names.
TEST(ExportFormats, HaveTheNamesThatProgramsOffer) {
  EXPECT_EQ(ExportFormatNames(), std::vector<std::string>(std::begin(kOutputFormats),
                                                          std::end(kOutputFormats)));
}

}  // namespace
}  // namespace rocattach
