// Records of sessions other than dispatches, copies and calls, in rocprofv3's formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/temporary_directory.h"
#include "tests/unit/export/export_testing.h"
#include "userspace/export/rocpd/sqlite.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

// One process with a counted dispatch, memory, and calls with arguments.
std::string RecordedSession() {
  std::string bytes;
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), {});
  v1::Process process;
  process.set_pid(77);
  const StreamId id = writer->OpenProcess(process);
  v1::Agent agent;
  agent.set_id(1);
  agent.set_node_id(4);
  agent.set_type(v1::AGENT_TYPE_GPU);
  EXPECT_TRUE(writer->AddAgent(id, agent).ok());
  v1::SessionPlan plan;
  plan.set_id(1);
  plan.add_counters("TCC_HIT");
  plan.add_counters("SQ_WAVES");
  EXPECT_TRUE(writer->AddSessionPlan(id, plan).ok());
  v1::ApiFunction function;
  function.set_domain(v1::API_DOMAIN_RCCL);
  function.set_function(3);
  function.set_name("ncclAllReduce");
  EXPECT_TRUE(writer->AddApiFunction(id, function).ok());

  rocattach_dispatch dispatch = {};
  dispatch.kind = ROCATTACH_RECORD_DISPATCH;
  dispatch.correlation_id = 1;
  dispatch.agent_id = 1;
  dispatch.enqueue_ns = 900;
  dispatch.start_ns = 1000;
  dispatch.end_ns = 2000;
  EXPECT_TRUE(writer->Append<DispatchKind>(id, {&dispatch, 1}).ok());
  CounterRecord values[2];
  values[0].session = values[1].session = 5;
  values[0].plan = values[1].plan = 1;
  values[0].operation = values[1].operation = 1;
  values[0].agent_id = values[1].agent_id = 1;
  values[0].instances = 3;
  values[0].sum = 60;
  values[0].each =
      std::make_shared<std::vector<CounterInstance>>(std::vector<CounterInstance>{
          {0, 10},
          {1, 20},
          {uint64_t{2} << ROCATTACH_INSTANCE_XCC_SHIFT |
               uint64_t{1} << ROCATTACH_INSTANCE_SHADER_ENGINE_SHIFT | 7,
           30}});
  values[1].counter = 1;
  values[1].sum = 4;
  EXPECT_TRUE(writer->Append<CounterKind>(id, values).ok());

  MemoryRecord memory[4];
  for (size_t i = 0; i < 4; ++i) {
    memory[i].correlation_id = 10 + i;
    memory[i].begin_ns = 3000 + 100 * i;
    memory[i].end_ns = memory[i].begin_ns + 50;
    memory[i].tid = 78;
  }
  memory[0].operation = v1::MEMORY_OPERATION_ALLOCATE;
  memory[0].agent_id = 1;
  memory[0].address = 0x7f0000200000;
  memory[0].bytes = 4096;
  memory[1].operation = v1::MEMORY_OPERATION_FREE;
  memory[1].address = 0x7f0000200000;
  memory[2].operation = v1::MEMORY_OPERATION_SCRATCH_ALLOCATE;
  memory[2].agent_id = 1;
  memory[2].queue_id = 2;
  memory[2].scratch_flags = 1;
  memory[2].bytes = 65536;
  memory[3] = memory[2];
  memory[3].operation = v1::MEMORY_OPERATION_SCRATCH_RECLAIM;
  EXPECT_TRUE(writer->Append<MemoryKind>(id, memory).ok());

  ApiCallRecord call;
  call.correlation_id = 20;
  call.begin_ns = 5000;
  call.end_ns = 6000;
  call.tid = 78;
  call.domain = v1::API_DOMAIN_RCCL;
  call.function = 3;
  call.flags = kApiCallArguments;
  call.text = "count=1024\nname=a \"b\"";
  EXPECT_TRUE(writer->Append<ApiCallKind>(id, {&call, 1}).ok());
  EXPECT_TRUE(writer->EndProcess(id, {}).ok());
  EXPECT_TRUE(writer->Close().ok());
  return bytes;
}

// The files of a format, keyed by the end of their names.
std::map<std::string, std::string> Files(const char* format) {
  const testing_support::TemporaryDirectory directory;
  ExporterOptions options;
  options.formats = {FindExportFormat(format)};
  const std::string base = directory / "x";
  options.base_name = [&base](const ExportProcess&) { return base; };
  Exporter exporter(std::move(options));
  StreamDecoder decoder(&exporter);
  decoder.Feed(RecordedSession());
  decoder.FinishInput();
  EXPECT_TRUE(exporter.Finish().ok()) << exporter.status();
  std::map<std::string, std::string> files;
  for (const std::string& path : exporter.Files()) {
    auto content = ReadFile(path, size_t{1} << 20);
    EXPECT_TRUE(content.ok()) << content.status();
    files[path.substr(base.size() + 1)] = *content;
  }
  return files;
}

std::string AfterHeader(const std::string& csv) {
  return csv.substr(csv.find('\n') + 1);
}

TEST(SessionRecords, InCsv) {
  std::map<std::string, std::string> files = Files("csv");
  EXPECT_EQ(files["memory_allocation_trace.csv"],
            "\"Kind\",\"Operation\",\"Agent_Id\",\"Allocation_Size\",\"Address\","
            "\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n"
            "\"MEMORY_ALLOCATION\",\"MEMORY_ALLOCATION_ALLOCATE\",\"Agent 0\",4096,"
            "\"0x00007f0000200000\",10,3000,3050\n"
            "\"MEMORY_ALLOCATION\",\"MEMORY_ALLOCATION_FREE\",\"\",0,"
            "\"0x00007f0000200000\",11,3100,3150\n");
  EXPECT_EQ(AfterHeader(files["scratch_memory_trace.csv"]),
            "\"SCRATCH_MEMORY\",\"SCRATCH_MEMORY_ALLOC\",\"Agent 0\",2,78,1,3200,3250,"
            "65536\n"
            "\"SCRATCH_MEMORY\",\"SCRATCH_MEMORY_ASYNC_RECLAIM\",\"Agent 0\",2,78,1,"
            "3200,3250,65536\n");
  EXPECT_EQ(AfterHeader(files["rccl_api_trace.csv"]),
            "\"RCCL_API\",\"ncclAllReduce\",77,78,20,5000,6000\n");
  // Instances are summed up, as rocprofv3 does.
  EXPECT_THAT(files["counter_collection.csv"], HasSubstr("\"TCC_HIT\",60.000000,"));
  EXPECT_THAT(files["memory_allocation_stats.csv"],
              HasSubstr("\"MEMORY_ALLOCATION_FREE\",1,50,"));
  EXPECT_THAT(files["scratch_memory_stats.csv"], HasSubstr("\"SCRATCH_MEMORY_ALLOC\""));
  EXPECT_THAT(files["rccl_api_stats.csv"], HasSubstr("\"ncclAllReduce\",1,1000,"));
  EXPECT_THAT(files["domain_stats.csv"], HasSubstr("\"RCCL_API\",1,1000,"));
}

TEST(SessionRecords, InJson) {
  const nlohmann::json json = nlohmann::json::parse(
      Converted(RecordedSession(), "json"))["rocprofiler-sdk-tool"][0];
  const nlohmann::json& buffers = json["buffer_records"];
  ASSERT_EQ(buffers["memory_allocation"].size(), 2u);
  const nlohmann::json& allocation = buffers["memory_allocation"][0];
  EXPECT_EQ(allocation["kind"], 16);
  EXPECT_EQ(allocation["operation"], 1);
  EXPECT_EQ(allocation["agent_id"]["handle"], 4);
  EXPECT_EQ(allocation["address"]["handle"], 0x7f0000200000);
  EXPECT_EQ(allocation["allocation_size"], 4096);
  EXPECT_EQ(buffers["memory_allocation"][1]["operation"], 3);
  ASSERT_EQ(buffers["scratch_memory"].size(), 2u);
  EXPECT_EQ(buffers["scratch_memory"][0]["kind"], 12);
  EXPECT_EQ(buffers["scratch_memory"][0]["operation"], 1);
  EXPECT_EQ(buffers["scratch_memory"][1]["operation"], 3);
  EXPECT_EQ(buffers["scratch_memory"][0]["queue_id"]["handle"], 2);
  EXPECT_EQ(buffers["scratch_memory"][0]["flags"], 1);
  ASSERT_EQ(buffers["rccl_api"].size(), 1u);
  EXPECT_EQ(buffers["rccl_api"][0]["kind"], 14);
  EXPECT_EQ(buffers["rccl_api"][0]["args"],
            (nlohmann::json{{"count", "1024"}, {"name", "a \"b\""}}));
  EXPECT_TRUE(json["strings"]["marker_api"].empty()) << "arguments are no message";
  const nlohmann::json& names = json["strings"]["buffer_records"];
  EXPECT_EQ(names[16]["operations"][3], "MEMORY_ALLOCATION_FREE");
  EXPECT_EQ(names[12]["operations"][3], "SCRATCH_MEMORY_ASYNC_RECLAIM");
  EXPECT_EQ(names[14]["operations"][3], "ncclAllReduce");
  // One value for each instance.
  std::map<std::string, std::vector<double>> values;
  std::map<uint64_t, std::string> counters;
  for (const auto& counter : json["counters"]) {
    counters[counter["id"]["handle"]] = counter["name"];
  }
  for (const auto& record :
       json["callback_records"]["counter_collection"][0]["records"]) {
    values[counters[record["counter_id"]["handle"]]].push_back(record["value"]);
  }
  EXPECT_EQ(values["TCC_HIT"], (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(values["SQ_WAVES"], (std::vector<double>{4}));
}

TEST(SessionRecords, InRocpd) {
  for (const char* version : {"3.0.0", "3.0.3"}) {
    SCOPED_TRACE(version);
    const testing_support::TemporaryDirectory directory;
    ExporterOptions options;
    options.output.rocpd_schema = version;
    options.formats = {FindExportFormat("rocpd")};
    const std::string base = directory / "x";
    options.base_name = [&base](const ExportProcess&) { return base; };
    Exporter exporter(std::move(options));
    StreamDecoder decoder(&exporter);
    decoder.Feed(RecordedSession());
    decoder.FinishInput();
    ASSERT_TRUE(exporter.Finish().ok()) << exporter.status();
    // A table that accepts only true conditions.
    auto check = SqliteDatabase::Create(directory / "check.db");
    ASSERT_TRUE(check.ok());
    ASSERT_TRUE(check
                    ->Execute("ATTACH '" + exporter.Files().at(0) +
                              "' AS x;"
                              "CREATE TABLE ok (x CHECK (x));")
                    .ok());
    const auto holds = [&](const std::string& condition) {
      return check->Execute("INSERT INTO ok SELECT (" + condition + ")");
    };
    EXPECT_EQ(holds("SELECT group_concat(type || ' ' || level || ' ' || size) = "
                    "'ALLOC REAL 4096,FREE REAL 0,ALLOC SCRATCH 65536,"
                    "RECLAIM SCRATCH 65536' FROM x.rocpd_memory_allocate"),
              absl::OkStatus());
    EXPECT_EQ(holds("SELECT count(*) = 4 FROM x.memory_allocations"), absl::OkStatus());
    EXPECT_EQ(holds("SELECT count(*) = 2 AND min(alloc_flags) = 1 AND max(tid) = 78 "
                    "FROM x.scratch_memory"),
              absl::OkStatus());
    EXPECT_EQ(holds("SELECT count(*) = 4 FROM x.rocpd_pmc_event"), absl::OkStatus());
    EXPECT_EQ(holds("SELECT group_concat(value) = '60.0,4.0' FROM (SELECT value FROM "
                    "x.counters_collection ORDER BY value DESC)"),
              absl::OkStatus());
    EXPECT_EQ(holds("SELECT count(*) = 1 FROM x.rocpd_pmc_event WHERE value = 30 AND "
                    "json_extract(extdata, '$.xcc') = 2 AND "
                    "json_extract(extdata, '$.shader_engine') = 1 AND "
                    "json_extract(extdata, '$.instance') = 7"),
              absl::OkStatus());
    if (version == std::string("3.0.3")) {
      EXPECT_EQ(holds("SELECT count(*) = 1 FROM x.rocpd_pmc_event WHERE value = 30 AND "
                      "xcc = 2 AND shader_engine = 1 AND instance = 7"),
                absl::OkStatus());
    }
    EXPECT_EQ(holds("SELECT group_concat(name || '=' || value) = "
                    "'count=1024,name=a \"b\"' FROM (SELECT name, value FROM "
                    "x.rocpd_arg ORDER BY position)"),
              absl::OkStatus());
  }
}

TEST(SessionRecords, InPftraceAndNdjson) {
  const std::string trace = Converted(RecordedSession(), "pftrace");
  for (const char* text :
       {"MEMORY_ALLOCATION_ALLOCATE", "SCRATCH_MEMORY_ALLOC", "memory_allocation",
        "ncclAllReduce", "rccl_api", "a \"b\""}) {
    EXPECT_THAT(trace, HasSubstr(text));
  }
  const std::string lines = Converted(RecordedSession(), "ndjson");
  EXPECT_THAT(lines, HasSubstr("\"type\":\"memory\""));
  EXPECT_THAT(lines, HasSubstr("\"operation\":\"scratch_reclaim\""));
  EXPECT_THAT(lines, HasSubstr("\"each\":[{\"xcc\":0,"));
  EXPECT_THAT(lines, HasSubstr("\"arguments\":\"count=1024\\nname="));
}

}  // namespace
}  // namespace rocattach
