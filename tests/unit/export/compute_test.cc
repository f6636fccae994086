// Folders for rocprof-compute, if each dispatch has measured one of several passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/temporary_directory.h"
#include "tests/unit/export/export_testing.h"
#include "userspace/export/workload/pass_completion.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

MeasuredDispatch Measured(const std::string& text, const std::string& counter,
                          double value) {
  return {text, {{counter, value}}};
}

TEST(PassCompletion, TheFirstOfATurnGetsTheOtherPasses) {
  PassCompletion completion;
  EXPECT_THAT(completion.Add("k", 0, 3, Measured("1", "A", 1)), IsEmpty());
  EXPECT_THAT(completion.Add("k", 1, 3, Measured("2", "B", 2)), SizeIs(1));
  EXPECT_THAT(completion.Add("other", 0, 3, Measured("x", "A", 100)), IsEmpty());
  EXPECT_THAT(completion.Add("k", 1, 3, Measured("3", "B", 3)), SizeIs(1));
  const auto done = completion.Add("k", 2, 3, {"4", {{"C", 4}, {"A", 40}}});
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_EQ(done[0].text, "4");
  EXPECT_THAT(done[0].values, ElementsAre(Pair("C", 4), Pair("A", 40)));
  EXPECT_EQ(done[1].text, "1");
  EXPECT_THAT(done[1].values, ElementsAre(Pair("A", 1), Pair("B", 2), Pair("C", 4)))
      << "its own value stays";
  // This turn is not complete.
  EXPECT_THAT(completion.Add("k", 2, 3, Measured("5", "C", 5)), IsEmpty());
  EXPECT_THAT(completion.Add("k", 0, 3, Measured("6", "A", 6)), SizeIs(1));
  std::map<std::string, size_t> rest;
  for (const auto& dispatch : completion.Finish()) {
    rest[dispatch.text] = dispatch.values.size();
  }
  EXPECT_THAT(rest, ElementsAre(Pair("5", 2), Pair("x", 1)));
  EXPECT_THAT(completion.Finish(), IsEmpty());
}

TEST(PassCompletion, KeptDispatchesAreBounded) {
  PassCompletion completion;
  size_t done = 0;
  for (size_t i = 0; i < 2 * PassCompletion::kMaxKernels; ++i) {
    done += completion.Add(absl::StrCat(i), 0, 2, Measured("", "A", 1)).size();
  }
  EXPECT_EQ(done, PassCompletion::kMaxKernels);
  EXPECT_THAT(completion.Finish(), SizeIs(PassCompletion::kMaxKernels));
  // As many counters as are kept, and then one more.
  MeasuredDispatch many;
  for (size_t i = 0; i < PassCompletion::kMaxValues; ++i) {
    many.values.emplace_back(absl::StrCat(i), 1);
  }
  completion.Add("k", 0, 2, many);
  const auto both = completion.Add("k", 1, 2, Measured("", "A", 1));
  ASSERT_THAT(both, SizeIs(2));
  EXPECT_THAT(both[1].values, SizeIs(PassCompletion::kMaxValues));
  // Numbers that a damaged recording may contain.
  EXPECT_THAT(completion.Add("k", 7, 3, Measured("", "A", 1)), SizeIs(1));
  EXPECT_THAT(completion.Add("k", 0, 1 << 20, Measured("", "A", 1)), SizeIs(1));
  EXPECT_THAT(completion.Add("k", 0, 0, Measured("", "A", 1)), SizeIs(1));
  completion.Add("k", 0, 2, Measured("", "A", 1));
  EXPECT_THAT(completion.Add("k", 2, 3, Measured("", "A", 1)), SizeIs(1));
}

// Four dispatches of one kernel, across which two passes are multiplexed.
std::string Recorded() {
  std::string bytes;
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), {});
  v1::Process process;
  process.set_pid(77);
  const StreamId id = writer->OpenProcess(process);
  v1::Agent agent;
  agent.set_id(1);
  agent.set_name("gfx90a");
  agent.set_type(v1::AGENT_TYPE_GPU);
  EXPECT_TRUE(writer->AddAgent(id, agent).ok());
  v1::Kernel kernel;
  kernel.set_id(1);
  kernel.set_name("vadd");
  EXPECT_TRUE(writer->AddKernel(id, kernel).ok());
  v1::SessionPlan plan;
  plan.set_id(1);
  plan.add_counters("SQ_WAVES");
  plan.add_counters("GRBM_COUNT");
  v1::SessionArchitecture* of = plan.add_architectures();
  of->set_name("gfx90a");
  of->add_passes()->add_counters(0);
  of->add_passes()->add_counters(1);
  EXPECT_TRUE(writer->AddSessionPlan(id, plan).ok());
  std::vector<rocattach_dispatch> dispatches;
  std::vector<CounterRecord> values;
  for (uint16_t i = 0; i < 4; ++i) {
    rocattach_dispatch& dispatch = dispatches.emplace_back();
    dispatch = {};
    dispatch.correlation_id = 1 + i;
    dispatch.kernel_id = 1;
    dispatch.agent_id = 1;
    dispatch.start_ns = 1000 + i;
    dispatch.end_ns = 2000 + i;
    CounterRecord& value = values.emplace_back();
    value.session = value.plan = 1;
    value.operation = 1 + i;
    value.agent_id = 1;
    value.kernel_id = 1;
    value.pass = value.counter = i % 2;
    value.sum = 10 + i;
  }
  EXPECT_TRUE(writer->Append<DispatchKind>(id, dispatches).ok());
  EXPECT_TRUE(writer->Append<CounterKind>(id, values).ok());
  v1::Workload workload;
  workload.set_pod("trainer-0");
  workload.set_slurm_job("42\"");
  EXPECT_TRUE(writer->SetWorkload(id, workload).ok());
  EXPECT_TRUE(writer->EndProcess(id, {}).ok());
  EXPECT_TRUE(writer->Close().ok());
  return bytes;
}

TEST(ComputeWorkload, ADispatchOfEachTurnHasTheCountersOfAllPasses) {
  const testing_support::TemporaryDirectory directory;
  ExporterOptions options;
  options.formats = {FindExportFormat("compute-workload")};
  const std::string base = directory / "x";
  options.base_name = [&base](const ExportProcess&) { return base; };
  Exporter exporter(std::move(options));
  StreamDecoder decoder(&exporter);
  decoder.Feed(Recorded());
  decoder.FinishInput();
  EXPECT_TRUE(exporter.Finish().ok()) << exporter.status();
  const auto rows = ReadFile(base + "_workload/pmc_perf.csv", size_t{1} << 20);
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::map<std::string, std::vector<std::string>> dispatches;
  for (absl::string_view line : absl::StrSplit(*rows, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    ASSERT_EQ(cells.size(), 18u) << line;
    dispatches[cells[3]].push_back(absl::StrCat(cells[16], "=", cells[17]));
  }
  dispatches.erase("Dispatch_ID");
  EXPECT_THAT(
      dispatches,
      ElementsAre(Pair("0", ElementsAre("\"SQ_WAVES\"=10", "\"GRBM_COUNT\"=11")),
                  Pair("1", ElementsAre("\"GRBM_COUNT\"=11")),
                  Pair("2", ElementsAre("\"SQ_WAVES\"=12", "\"GRBM_COUNT\"=13")),
                  Pair("3", ElementsAre("\"GRBM_COUNT\"=13"))));
  // Newer versions of rocprof-compute complete the passes themselves.
  const auto settings =
      ReadFile(base + "_workload/profiling_config.yaml", size_t{1} << 20);
  ASSERT_TRUE(settings.ok());
  EXPECT_TRUE(absl::StrContains(*settings, "iteration_multiplexing: kernel\n"));
  // The workload of the process, which was found later.
  EXPECT_TRUE(absl::StrContains(*settings, "rocattach_workloads: \n- {")) << *settings;
  EXPECT_TRUE(absl::StrContains(*settings, "\"k8s.pod.name\": \"trainer-0\""));
  EXPECT_TRUE(absl::StrContains(*settings, "\"slurm.job.id\": \"42\\\"\""));
}

}  // namespace
}  // namespace rocattach
