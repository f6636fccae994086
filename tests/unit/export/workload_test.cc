// The workload of a process, in every format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "schemas/export/perfetto.pb.h"
#include "schemas/export/pprof.pb.h"
#include "tests/temporary_directory.h"
#include "tests/unit/export/export_testing.h"
#include "tests/unit/export/unzipped.h"
#include "userspace/base/file.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

// One process with one dispatch. Its workload is found after the first dispatch.
std::string Recorded() {
  std::string bytes;
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), {});
  v1::Process process;
  process.set_pid(77);
  process.set_comm("train");
  const StreamId id = writer->OpenProcess(process);
  v1::Agent agent;
  agent.set_id(1);
  agent.set_type(v1::AGENT_TYPE_GPU);
  EXPECT_TRUE(writer->AddAgent(id, agent).ok());
  rocattach_dispatch dispatch = {};
  dispatch.kind = ROCATTACH_RECORD_DISPATCH;
  dispatch.correlation_id = 1;
  dispatch.agent_id = 1;
  dispatch.start_ns = 1000;
  dispatch.end_ns = 2000;
  EXPECT_TRUE(writer->Append<DispatchKind>(id, {&dispatch, 1}).ok());
  EXPECT_TRUE(writer->FlushAll().ok());
  v1::Workload workload;
  workload.set_container_id(std::string(64, 'c'));
  workload.set_pod("trainer-0");
  workload.set_kube_namespace("ml, \"research\"");
  workload.set_slurm_job("4711");
  EXPECT_TRUE(writer->SetWorkload(id, workload).ok());
  EXPECT_TRUE(writer->EndProcess(id, {}).ok());
  EXPECT_TRUE(writer->Close().ok());
  return bytes;
}

TEST(Workload, InJson) {
  const auto json = nlohmann::json::parse(Converted(Recorded(), "json"));
  const auto& workload =
      json.at("rocprofiler-sdk-tool").at(0).at("metadata").at("workload");
  EXPECT_EQ(workload.at("k8s.pod.name"), "trainer-0");
  EXPECT_EQ(workload.at("k8s.namespace.name"), "ml, \"research\"");
  EXPECT_EQ(workload.at("slurm.job.id"), "4711");
  EXPECT_EQ(workload.at("container.id"), std::string(64, 'c'));
  EXPECT_EQ(workload.size(), 4u);
}

TEST(Workload, InCsv) {
  const testing_support::TemporaryDirectory directory;
  ExporterOptions options;
  options.formats = {FindExportFormat("csv")};
  options.base_name = [&](const ExportProcess&) { return directory / "all"; };
  Exporter exporter(std::move(options));
  StreamDecoder decoder(&exporter);
  decoder.Feed(Recorded());
  decoder.FinishInput();
  ASSERT_TRUE(exporter.Finish().ok()) << exporter.status();
  const auto content = ReadFile(directory / "all_workload_info.csv", 4096);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_THAT(*content, HasSubstr("\"Process_Id\",\"Attribute\",\"Value\"\n"));
  EXPECT_THAT(*content, HasSubstr("77,\"k8s.pod.name\",\"trainer-0\"\n"));
  EXPECT_THAT(*content,
              HasSubstr("77,\"k8s.namespace.name\",\"ml, \"\"research\"\"\"\n"));
}

TEST(Workload, InRocpd) {
  const std::string database = Converted(Recorded(), "rocpd");
  EXPECT_THAT(database, HasSubstr(R"("k8s.pod.name":"trainer-0")"));
  EXPECT_THAT(database, HasSubstr(R"("slurm.job.id":"4711")"));
}

TEST(Workload, InPftrace) {
  perfetto::Trace trace;
  ASSERT_TRUE(trace.ParseFromString(Converted(Recorded(), "pftrace")));
  EXPECT_THAT(trace.ShortDebugString(),
              HasSubstr("process_labels: \"k8s.pod.name=trainer-0\""));
}

TEST(Workload, InProfiles) {
  pprof::Profile profile;
  ASSERT_TRUE(profile.ParseFromString(Unzipped(Converted(Recorded(), "pprof"))));
  std::map<std::string, std::string> labels;
  for (const pprof::Label& label : profile.sample(0).label()) {
    labels[profile.string_table(static_cast<int>(label.key()))] =
        profile.string_table(static_cast<int>(label.str()));
  }
  EXPECT_EQ(labels["k8s.pod.name"], "trainer-0");
  EXPECT_EQ(labels["container"], std::string(64, 'c'));

  const std::string otlp = Converted(Recorded(), "otlp-profile");
  EXPECT_THAT(otlp, HasSubstr("slurm.job.id"));
  EXPECT_THAT(otlp, HasSubstr("trainer-0"));
}

TEST(Workload, InNdjson) {
  EXPECT_THAT(Converted(Recorded(), "ndjson"),
              HasSubstr(R"("k8s.pod.name":"trainer-0")"));
}

}  // namespace
}  // namespace rocattach
