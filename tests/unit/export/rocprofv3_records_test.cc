// Records of calls, markers and operations in rocprofv3's form: csv, json and rocpd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_split.h"
#include "tests/temporary_directory.h"
#include "tests/unit/export/export_testing.h"
#include "userspace/export/marker_ranges.h"
#include "userspace/export/rocpd/sqlite.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

enum Function : uint16_t { kMark = 1, kPush, kPop, kStart, kStop, kLaunch };

ApiCallRecord Call(uint64_t id, Function function, uint64_t begin_ns, uint64_t end_ns,
                   const std::string& text = "") {
  ApiCallRecord call;
  call.session = 1;
  call.correlation_id = id;
  call.begin_ns = begin_ns;
  call.end_ns = end_ns;
  call.tid = 78;
  call.domain = function == kLaunch ? v1::API_DOMAIN_HIP : v1::API_DOMAIN_MARKER;
  call.function = function;
  call.flags = text.empty() ? 0 : kApiCallHasText;
  call.text = text;
  return call;
}

rocattach_dispatch Dispatch(uint64_t id, uint64_t enqueue_ns) {
  rocattach_dispatch dispatch = {};
  dispatch.kind = ROCATTACH_RECORD_DISPATCH;
  dispatch.correlation_id = id;
  dispatch.tid = 78;
  dispatch.agent_id = 1;
  dispatch.kernel_id = 3;
  dispatch.enqueue_ns = enqueue_ns;
  dispatch.start_ns = enqueue_ns + 500;
  dispatch.end_ns = enqueue_ns + 600;
  return dispatch;
}

// A process whose calls and operations use the same numbers, as real ones do. Call 2
// launched dispatch 1, call 5 the copy 3; dispatch 2 has no call.
std::string RecordedCalls() {
  std::string bytes;
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), {});
  v1::Process process;
  process.set_pid(77);
  const StreamId id = writer->OpenProcess(process);
  v1::Agent agent;
  agent.set_id(1);
  agent.set_node_id(4);
  agent.set_type(v1::AGENT_TYPE_GPU);
  agent.set_name("gfx90a");
  agent.set_uuid("GPU-0123456789abcdef");
  for (const auto& [name, value] :
       std::map<std::string, uint64_t>{{"device_id", 0x740f},
                                       {"fw_version", 0x21u | 9u << 10 | 10u << 24},
                                       {"capability", 1u << 4 | 5u << 8 | 1u << 27},
                                       {"family_id", 141}}) {
    v1::AgentProperty* property = agent.add_properties();
    property->set_name(name);
    property->set_value(value);
  }
  EXPECT_TRUE(writer->AddAgent(id, agent).ok());
  v1::CodeObject object;
  object.set_id(2);
  object.set_agent_id(1);
  object.set_uri("memory://77#offset=0x7f00&size=99");
  EXPECT_TRUE(writer->AddCodeObject(id, object).ok());
  v1::Kernel kernel;
  kernel.set_id(3);
  kernel.set_code_object_id(2);
  kernel.set_name("_Z5ScalePffi");
  EXPECT_TRUE(writer->AddKernel(id, kernel).ok());
  const char* kNames[] = {"",
                          "roctxMarkA",
                          "roctxRangePushA",
                          "roctxRangePop",
                          "roctxRangeStartA",
                          "roctxRangeStop",
                          "hipLaunchKernel"};
  for (uint16_t number = kMark; number <= kLaunch; ++number) {
    v1::ApiFunction function;
    function.set_domain(number == kLaunch ? v1::API_DOMAIN_HIP : v1::API_DOMAIN_MARKER);
    function.set_function(number);
    function.set_name(kNames[number]);
    EXPECT_TRUE(writer->AddApiFunction(id, function).ok());
  }
  rocattach_copy copy = {};
  copy.kind = ROCATTACH_RECORD_COPY;
  copy.correlation_id = 3;
  copy.tid = 78;
  copy.enqueue_ns = 6050;
  copy.start_ns = 6100;
  copy.end_ns = 6200;
  copy.bytes = 64;
  EXPECT_TRUE(writer->Append<CopyKind>(id, {&copy, 1}).ok());
  const std::vector<ApiCallRecord> calls = {
      Call(1, kPush, 1000, 1010, "outer"), Call(2, kLaunch, 2000, 2100),
      Call(3, kPush, 3000, 3010, "inner"), Call(4, kMark, 4000, 4010, "here"),
      Call(6, kPop, 5000, 5010),           Call(5, kLaunch, 6000, 6500),
      Call(7, kPop, 7000, 7010),           Call(8, kStart, 7100, 7110, "apart"),
      Call(9, kStop, 7200, 7210),          Call(10, kPush, 8000, 8010, "left open"),
  };
  EXPECT_TRUE(writer->Append<ApiCallKind>(id, calls).ok());
  const rocattach_dispatch dispatches[] = {Dispatch(1, 2050), Dispatch(2, 2500)};
  EXPECT_TRUE(writer->Append<DispatchKind>(id, dispatches).ok());
  v1::Thread thread;
  thread.set_tid(78);
  thread.set_name("known late");
  EXPECT_TRUE(writer->AddThread(id, thread).ok());
  EXPECT_TRUE(writer->EndProcess(id, {}).ok());
  EXPECT_TRUE(writer->Close().ok());
  return bytes;
}

nlohmann::json Json() {
  return nlohmann::json::parse(
      Converted(RecordedCalls(), "json"))["rocprofiler-sdk-tool"][0];
}

TEST(Rocprofv3Records, OperationsHaveTheIdsOfTheirCallsAndNoOthers) {
  const nlohmann::json buffers = Json()["buffer_records"];
  const auto id = [](const nlohmann::json& record) -> uint64_t {
    return record["correlation_id"]["internal"];
  };
  EXPECT_EQ(id(buffers["kernel_dispatch"][0]), 2u);
  EXPECT_EQ(id(buffers["kernel_dispatch"][1]), 2 | LaunchLinks::kOtherCount);
  EXPECT_EQ(id(buffers["memory_copy"][0]), 5u);
  EXPECT_EQ(id(buffers["hip_api"][0]), 2u);
  EXPECT_EQ(id(buffers["hip_api"][1]), 5u);
}

// In NDJSON, records are unchanged, except that no two of them have the same ID.
TEST(OwnIds, NoOperationHasTheIdOfACallInNdjson) {
  std::map<std::string, std::set<uint64_t>> ids;
  for (const absl::string_view line :
       absl::StrSplit(Converted(RecordedCalls(), "ndjson"), '\n', absl::SkipEmpty())) {
    const nlohmann::json record = nlohmann::json::parse(line.begin(), line.end());
    if (!record.contains("correlation_id")) continue;
    ids[record["type"]].insert(record["correlation_id"].get<uint64_t>());
  }
  constexpr uint64_t kOtherAgent = LaunchLinks::kOtherCount;
  EXPECT_EQ(ids["dispatch"], (std::set<uint64_t>{1 | kOtherAgent, 2 | kOtherAgent}));
  EXPECT_EQ(ids["copy"], (std::set<uint64_t>{3 | kOtherAgent}));
  EXPECT_EQ(ids["api_call"], (std::set<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(Rocprofv3Records, RangesLastFromPushToPop) {
  const nlohmann::json tool = Json();
  std::map<uint64_t, std::string> texts;
  for (const auto& text : tool["strings"]["marker_api"]) {
    texts[text["key"]] = text["value"];
  }
  std::set<std::tuple<std::string, uint64_t, uint64_t>> got;
  for (const auto& r : tool["buffer_records"]["marker_api"]) {
    got.emplace(texts[r["correlation_id"]["internal"]], r["start_timestamp"],
                r["end_timestamp"]);
  }
  EXPECT_EQ(got, (std::set<std::tuple<std::string, uint64_t, uint64_t>>{
                     {"outer", 1000, 7010},
                     {"inner", 3000, 5010},
                     {"here", 4000, 4000},
                     {"apart", 7100, 7110},
                     {"", 7200, 7210},
                     {"left open", 8000, 8010}}));
}

TEST(Rocprofv3Records, InRocpd) {
  const testing_support::TemporaryDirectory directory;
  ExporterOptions options;
  options.formats = {FindExportFormat("rocpd")};
  const std::string base = directory / "x";
  options.base_name = [&base](const ExportProcess&) { return base; };
  Exporter exporter(std::move(options));
  StreamDecoder decoder(&exporter);
  decoder.Feed(RecordedCalls());
  decoder.FinishInput();
  ASSERT_TRUE(exporter.Finish().ok()) << exporter.status();
  auto check = SqliteDatabase::Create(directory / "check.db");
  ASSERT_TRUE(check.ok());
  ASSERT_TRUE(check
                  ->Execute("ATTACH '" + exporter.Files().at(0) +
                            "' AS x; CREATE TABLE ok (x CHECK (x));")
                  .ok());
  const auto holds = [&](const std::string& condition) {
    return check->Execute("INSERT INTO ok SELECT (" + condition + ")");
  };
  // The joins of readers: a launch with its kernel, a call with its copy, nothing else.
  EXPECT_EQ(
      holds("SELECT count(*) = 1 AND max(r.name) = 'hipLaunchKernel' AND "
            "max(k.dispatch_id) = 1 FROM x.regions_and_samples r JOIN x.kernels k "
            "ON k.stack_id = r.stack_id"),
      absl::OkStatus());
  EXPECT_EQ(holds("SELECT count(*) = 1 AND max(r.id) = 5 FROM x.regions_and_samples r "
                  "JOIN x.memory_copies c ON c.stack_id = r.stack_id"),
            absl::OkStatus());
  EXPECT_EQ(holds("SELECT group_concat(m || ' ' || duration) = 'outer 6010,"
                  "inner 2010,here 0,apart 10,left open 10' FROM (SELECT duration, "
                  "json_extract(extdata, '$.message') AS m FROM x.regions_and_samples "
                  "WHERE m IS NOT NULL ORDER BY start)"),
            absl::OkStatus());
  EXPECT_EQ(holds("SELECT count(*) = 1 FROM x.samples"), absl::OkStatus());
  EXPECT_EQ(holds("SELECT code_object_size > 0 AND storage_type = 2 AND "
                  "memory_base = 0x7f00 AND memory_size = 99 FROM x.code_objects"),
            absl::OkStatus());
  EXPECT_EQ(holds("SELECT kernel_symbol_size > 0 AND kernel_id = 3 AND "
                  "formatted_kernel_name = 'Scale(float*, float, int)' AND "
                  "demangled_kernel_name = formatted_kernel_name AND "
                  "truncated_kernel_name = 'Scale' AND "
                  "kernel_code_entry_byte_offset = 0 AND kernel_address = 0 "
                  "FROM x.kernel_symbols"),
            absl::OkStatus());
  EXPECT_EQ(holds("SELECT name = 'known late' FROM x.threads WHERE tid = 78"),
            absl::OkStatus());
  EXPECT_EQ(holds("SELECT uuid = 0x740f FROM x.rocpd_info_agent"), absl::OkStatus());
}

// Every key of an agent that readers require.
constexpr const char* kAgentKeys[] = {"size",
                                      "id",
                                      "type",
                                      "cpu_cores_count",
                                      "simd_count",
                                      "mem_banks_count",
                                      "caches_count",
                                      "io_links_count",
                                      "cpu_core_id_base",
                                      "simd_id_base",
                                      "max_waves_per_simd",
                                      "lds_size_in_kb",
                                      "gds_size_in_kb",
                                      "num_gws",
                                      "wave_front_size",
                                      "num_xcc",
                                      "cu_count",
                                      "array_count",
                                      "num_shader_banks",
                                      "simd_arrays_per_engine",
                                      "cu_per_simd_array",
                                      "simd_per_cu",
                                      "max_slots_scratch_cu",
                                      "gfx_target_version",
                                      "vendor_id",
                                      "device_id",
                                      "location_id",
                                      "domain",
                                      "drm_render_minor",
                                      "num_sdma_engines",
                                      "num_sdma_xgmi_engines",
                                      "num_sdma_queues_per_engine",
                                      "num_cp_queues",
                                      "max_engine_clk_ccompute",
                                      "max_engine_clk_fcompute",
                                      "sdma_fw_version",
                                      "fw_version",
                                      "capability",
                                      "cu_per_engine",
                                      "max_waves_per_cu",
                                      "family_id",
                                      "workgroup_max_size",
                                      "grid_max_size",
                                      "local_mem_size",
                                      "hive_id",
                                      "gpu_id",
                                      "workgroup_max_dim",
                                      "grid_max_dim",
                                      "name",
                                      "vendor_name",
                                      "product_name",
                                      "model_name",
                                      "node_id",
                                      "logical_node_id",
                                      "logical_node_type_id",
                                      "runtime_visibility",
                                      "uuid",
                                      "mem_banks",
                                      "caches",
                                      "io_links",
                                      "gpu_index"};

TEST(Rocprofv3Records, AgentsHaveEveryKey) {
  const nlohmann::json agent = Json()["agents"][0];
  for (const char* key : kAgentKeys) EXPECT_TRUE(agent.contains(key)) << key;
  EXPECT_EQ(agent.size(), std::size(kAgentKeys));
  EXPECT_EQ(agent["id"]["handle"], 4);
  EXPECT_EQ(agent["device_id"], 0x740f);
  EXPECT_EQ(agent["family_id"], 141);
  EXPECT_EQ(
      agent["fw_version"],
      (nlohmann::json{{"uCode", 0x21}, {"Major", 9}, {"Minor", 0}, {"Stepping", 10}}));
  EXPECT_EQ(agent["capability"].size(), 23u);
  EXPECT_EQ(agent["capability"]["QueueSize32bit"], 1);
  EXPECT_EQ(agent["capability"]["WatchPointsTotalBits"], 5);
  EXPECT_EQ(agent["capability"]["SVMAPISupported"], 1);
  EXPECT_EQ(agent["sdma_fw_version"].size(), 2u);
  EXPECT_EQ(agent["grid_max_dim"], (nlohmann::json{{"x", 0}, {"y", 0}, {"z", 0}}));
  EXPECT_TRUE(agent["mem_banks"].is_array());
  EXPECT_EQ(agent["uuid"]["bytes"].size(), 16u);
  EXPECT_EQ(agent["uuid"]["bytes"][1], 0x23);
}

TEST(Rocprofv3Records, SymbolsAreAtThePositionsOfTheirIds) {
  const nlohmann::json tool = Json();
  ASSERT_EQ(tool["code_objects"].size(), 3u);
  EXPECT_EQ(tool["code_objects"][2]["code_object_id"], 2);
  EXPECT_EQ(tool["code_objects"][1]["size"], 0);
  ASSERT_EQ(tool["kernel_symbols"].size(), 4u);
  EXPECT_EQ(tool["kernel_symbols"][3]["formatted_kernel_name"],
            "Scale(float*, float, int)");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tool["kernel_symbols"][i]["kernel_id"], 0);
    EXPECT_EQ(tool["kernel_symbols"][i]["kernel_name"], "");
  }
}

TEST(Rocprofv3Records, HostileIdsOfSymbolsCostLittle) {
  std::string bytes;
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), {});
  v1::Process process;
  process.set_pid(77);
  const StreamId id = writer->OpenProcess(process);
  v1::Agent agent;
  agent.set_id(1);
  EXPECT_TRUE(writer->AddAgent(id, agent).ok());
  for (uint32_t number : {1u, 5u, 4'000'000'000u, 4'000'000'001u}) {
    v1::Kernel kernel;
    kernel.set_id(number);
    kernel.set_name("k");
    EXPECT_TRUE(writer->AddKernel(id, kernel).ok());
  }
  EXPECT_TRUE(writer->EndProcess(id, {}).ok());
  EXPECT_TRUE(writer->Close().ok());
  const nlohmann::json tool =
      nlohmann::json::parse(Converted(bytes, "json"))["rocprofiler-sdk-tool"][0];
  const nlohmann::json& symbols = tool["kernel_symbols"];
  ASSERT_EQ(symbols.size(), 8u);
  EXPECT_EQ(symbols[1]["kernel_id"], 1);
  EXPECT_EQ(symbols[5]["kernel_id"], 5);
  EXPECT_EQ(symbols[6]["kernel_id"], 4'000'000'000u);
}

// Messages of 32 MB in all, whose ranges are open at the same time.
TEST(Rocprofv3Records, OpenRangesUseBoundedMemory) {
  constexpr size_t kPushes = 2000, kTextBytes = 16'000;
  std::string bytes;
  auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), {});
  v1::Process process;
  process.set_pid(77);
  const StreamId id = writer->OpenProcess(process);
  for (uint16_t number : {kPush, kPop}) {
    v1::ApiFunction function;
    function.set_domain(v1::API_DOMAIN_MARKER);
    function.set_function(number);
    function.set_name(number == kPush ? "roctxRangePushA" : "roctxRangePop");
    EXPECT_TRUE(writer->AddApiFunction(id, function).ok());
  }
  for (uint64_t i = 1; i <= 2 * kPushes; ++i) {
    const ApiCallRecord call = i <= kPushes ? Call(i, kPush, 100 * i, 100 * i + 1,
                                                   std::string(kTextBytes, 'x'))
                                            : Call(i, kPop, 100 * i, 100 * i + 1);
    EXPECT_TRUE(writer->Append<ApiCallKind>(id, {&call, 1}).ok());
  }
  EXPECT_TRUE(writer->EndProcess(id, {}).ok());
  EXPECT_TRUE(writer->Close().ok());
  const nlohmann::json tool =
      nlohmann::json::parse(Converted(bytes, "json"))["rocprofiler-sdk-tool"][0];
  size_t ranges = 0, calls = 0;
  for (const auto& r : tool["buffer_records"]["marker_api"]) {
    const uint64_t duration =
        uint64_t{r["end_timestamp"]} - uint64_t{r["start_timestamp"]};
    ++(duration > 1 ? ranges : calls);
  }
  // Ranges that could not be kept appear as a push and a pop.
  EXPECT_EQ(ranges, MarkerRanges::kMaxTextBytes / kTextBytes);
  EXPECT_EQ(2 * ranges + calls, 2 * kPushes);
}

TEST(Rocprofv3Records, InCsv) {
  const testing_support::TemporaryDirectory directory;
  ExporterOptions options;
  options.formats = {FindExportFormat("csv")};
  const std::string base = directory / "x";
  options.base_name = [&base](const ExportProcess&) { return base; };
  Exporter exporter(std::move(options));
  StreamDecoder decoder(&exporter);
  decoder.Feed(RecordedCalls());
  decoder.FinishInput();
  ASSERT_TRUE(exporter.Finish().ok()) << exporter.status();
  const std::string markers =
      *ReadFile(base + "_marker_api_trace.csv", size_t{1} << 20);
  EXPECT_THAT(markers, HasSubstr("\"MARKER_CORE_API\",\"outer\",77,78,1,1000,7010\n"));
  EXPECT_THAT(markers, HasSubstr("\"MARKER_CORE_API\",\"here\",77,78,4,4000,4000\n"));
  EXPECT_THAT(markers, Not(HasSubstr("roctxRangePop")));
  EXPECT_THAT(*ReadFile(base + "_marker_api_stats.csv", size_t{1} << 20),
              HasSubstr("\"outer\",1,6010,"));
  EXPECT_THAT(*ReadFile(base + "_kernel_trace.csv", size_t{1} << 20),
              HasSubstr("\"Scale(float*, float, int)\",2,2550,2650,"));
}

}  // namespace
}  // namespace rocattach
