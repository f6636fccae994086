#include "userspace/export/json/json_process.h"

#include <map>
#include <vector>

#include "userspace/abi/hip_stream.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/upstream_json.h"
#include "userspace/export/common/upstream_names.h"
#include "userspace/report/workload_attributes.h"

namespace rocattach {
namespace {

// Numbers of rocprofiler-sdk's kinds of buffer records.
constexpr uint64_t kMemoryCopyNumber = 10;
constexpr uint64_t kKernelDispatchNumber = 11;
constexpr uint64_t kScratchMemoryNumber = 12;
constexpr uint64_t kMemoryAllocationNumber = 16;

void AddXyz(absl::string_view key, uint64_t x, uint64_t y, uint64_t z,
            JsonObject* json) {
  json->Object(key).Number("x", x).Number("y", y).Number("z", z).End();
}

void AddHandle(absl::string_view key, uint64_t handle, JsonObject* json) {
  json->Object(key).Number("handle", handle).End();
}

void AddCorrelation(uint64_t internal, JsonObject* json) {
  json->Object("correlation_id")
      .Number("internal", internal)
      .Number("external", 0)
      .End();
}

void AddStatistics(const DurationStatistics& s, JsonObject* json) {
  const double variance = s.deviation() * s.deviation();
  json->Number("count", s.calls())
      .Number("sum", s.total())
      .Number("min", s.min())
      .Number("max", s.max())
      .Real("mean", s.average())
      .Real("stddev", s.deviation())
      .Real("variance", variance);
}

// Adds the comma before an item of a list, unless the item is the first.
void Separate(std::string* out, char open) {
  if (out->back() != open) out->push_back(',');
}

}  // namespace

JsonProcess::JsonProcess(const std::string& directory, CounterFacts* facts)
    : facts_(facts),
      dispatches_(directory),
      copies_(directory),
      memory_(directory),
      scratch_(directory),
      counters_(directory),
      marker_texts_(directory),
      apis_{Section(directory), Section(directory), Section(directory),
            Section(directory)} {}

JsonObject JsonProcess::Section::Begin() {
  if (!text.empty()) text.buffer()->push_back(',');
  JsonObject json(text.buffer());
  json.Begin("\n{");
  return json;
}

uint64_t JsonProcess::AgentHandle(const ExportProcess& process, uint32_t agent) {
  const v1::Agent* known = process.FindAgent(agent);
  return known == nullptr ? 0 : known->node_id();
}

uint64_t JsonProcess::CounterHandle(const ExportProcess& process,
                                    const CounterRecord& value) {
  const std::pair<uint64_t, std::string> key(
      AgentHandle(process, value.agent_id),
      process.CounterName(value.plan, value.counter));
  const auto [counter, is_new] =
      counter_handles_.try_emplace(key, counter_handles_.size() + 1);
  return counter->second;
}

void JsonProcess::AddDispatchInfo(const ExportProcess& process,
                                  const rocattach_dispatch& r, JsonObject* json) {
  json->Object("dispatch_info");
  AddHandle("agent_id", AgentHandle(process, r.agent_id), json);
  AddHandle("queue_id", r.queue_id, json);
  json->Number("kernel_id", r.kernel_id)
      .Number("dispatch_id", r.dispatch_id)
      .Number("private_segment_size", r.scratch_bytes)
      .Number("group_segment_size", r.lds_bytes);
  AddXyz("workgroup_size", r.workgroup_x, r.workgroup_y, r.workgroup_z, json);
  AddXyz("grid_size", r.grid_x, r.grid_y, r.grid_z, json);
  json->End();
}

absl::Status JsonProcess::Add(const ExportProcess& process,
                              const rocattach_dispatch& r) {
  JsonObject json = dispatches_.Begin();
  json.Number("kind", kKernelDispatchNumber)
      .Number("operation", 2)  // completed
      .Number("thread_id", r.tid);
  AddCorrelation(r.correlation_id, &json);
  json.Number("start_timestamp", r.start_ns).Number("end_timestamp", r.end_ns);
  AddDispatchInfo(process, r, &json);
  AddHandle("stream_id", HipStreamId(r), &json);
  json.End();
  if (HasTimes(r)) {
    const ExportKernel* kernel = process.FindKernel(r.kernel_id);
    kernel_statistics_.Of(kernel == nullptr ? "" : kernel->display_name)
        ->Add(r.end_ns - r.start_ns);
  }
  return dispatches_.text.WriteIfFull();
}

absl::Status JsonProcess::Add(const ExportProcess& process, const rocattach_copy& r) {
  const v1::Agent* cpu = process.FirstCpu();
  const auto handle = [&](uint32_t agent) {
    return agent == 0 && cpu != nullptr ? cpu->node_id() : AgentHandle(process, agent);
  };
  JsonObject json = copies_.Begin();
  json.Number("kind", kMemoryCopyNumber)
      .Number("operation", r.direction)
      .Number("thread_id", r.tid);
  AddCorrelation(r.correlation_id, &json);
  json.Number("start_timestamp", r.start_ns).Number("end_timestamp", r.end_ns);
  AddHandle("dst_agent_id", handle(r.dst_agent_id), &json);
  AddHandle("src_agent_id", handle(r.src_agent_id), &json);
  json.Number("bytes", r.bytes);
  json.Object("dst_address").Number("handle", r.dst_address).End();
  json.Object("src_address").Number("handle", r.src_address).End();
  AddHandle("stream_id", HipStreamId(r), &json);
  json.End();
  if (HasTimes(r)) {
    copy_statistics_.Of(CopyDirectionName(r.direction))->Add(r.end_ns - r.start_ns);
  }
  return copies_.text.WriteIfFull();
}

absl::Status JsonProcess::Add(const ExportProcess& process, const ApiCallRecord& r) {
  if (r.domain >= apis_.size()) return absl::OkStatus();
  Section& section = apis_[r.domain];
  JsonObject json = section.Begin();
  json.Number("kind", ApiKindNumber(r.domain, r.function))
      .Number("operation", ApiOperation(r.domain, r.function))
      .Number("thread_id", r.tid);
  json.Object("correlation_id")
      .Number("internal", r.correlation_id)
      .Number("external", 0)
      .Number("ancestor", r.ancestor_id)
      .End();
  json.Number("start_timestamp", r.begin_ns).Number("end_timestamp", r.end_ns);
  if (r.flags & kApiCallArguments) {
    json.Object("args");
    for (const ApiArgument& argument : ArgumentsOf(r)) {
      json.Text(argument.name, argument.value);
    }
    json.End();
  }
  json.End();
  absl::string_view name = process.FunctionName(r.domain, r.function);
  if (!r.text.empty() && (r.flags & kApiCallArguments) == 0) {
    marker_texts_.Begin().Number("key", r.correlation_id).Text("value", r.text).End();
    RETURN_IF_ERROR(marker_texts_.text.WriteIfFull());
    name = r.text;
  }
  if (r.end_ns >= r.begin_ns) {
    api_statistics_[r.domain].Of(name)->Add(r.end_ns - r.begin_ns);
  }
  return section.text.WriteIfFull();
}

absl::Status JsonProcess::Add(const ExportProcess& process, const MemoryRecord& r) {
  const bool scratch = IsScratch(r.operation);
  Section& section = scratch ? scratch_ : memory_;
  JsonObject json = section.Begin();
  json.Number("kind", scratch ? kScratchMemoryNumber : kMemoryAllocationNumber)
      .Number("operation", MemoryOperationNumber(r.operation))
      .Number("thread_id", r.tid);
  json.Object("correlation_id")
      .Number("internal", r.correlation_id)
      .Number("external", 0)
      .Number("ancestor", 0)
      .End();
  json.Number("start_timestamp", r.begin_ns).Number("end_timestamp", r.end_ns);
  AddHandle("agent_id", AgentHandle(process, r.agent_id), &json);
  if (scratch) {
    AddHandle("queue_id", r.queue_id, &json);
    json.Number("flags", r.scratch_flags);
  } else {
    json.Object("address").Number("handle", r.address).End();
  }
  json.Number("allocation_size", r.bytes);
  if (!scratch) AddHandle("stream_id", 0, &json);
  json.End();
  if (r.end_ns >= r.begin_ns) {
    (scratch ? scratch_statistics_ : memory_statistics_)
        .Of(MemoryOperationName(r.operation))
        ->Add(r.end_ns - r.begin_ns);
  }
  return section.text.WriteIfFull();
}

absl::Status JsonProcess::Add(const ExportProcess& process,
                              const CountedDispatch& counted) {
  rocattach_dispatch unknown = {};
  const CounterRecord& first = counted.values[0];
  unknown.kernel_id = first.kernel_id;
  unknown.agent_id = first.agent_id;
  const rocattach_dispatch& r =
      counted.dispatch == nullptr ? unknown : *counted.dispatch;
  const ExportKernel* kernel = process.FindKernel(r.kernel_id);
  JsonObject json = counters_.Begin();
  json.Number("thread_id", r.tid).Object("dispatch_data");
  AddDispatchInfo(process, r, &json);
  AddCorrelation(counted.correlation_id, &json);
  json.Number("start_timestamp", r.start_ns).Number("end_timestamp", r.end_ns).End();
  std::string* out = counters_.text.buffer();
  json.Raw("records", "[");
  for (const CounterRecord& value : counted.values) {
    const auto add = [&](double number) {
      Separate(out, '[');
      JsonObject record(out);
      record.Begin();
      AddHandle("counter_id", CounterHandle(process, value), &record);
      record.Real("value", number).End();
    };
    // One record for each instance, which readers add up, or one record with the sum.
    if (value.each == nullptr) {
      add(value.sum);
    } else {
      for (const CounterInstance& instance : *value.each) add(instance.value);
    }
  }
  out->push_back(']');
  AddHandle("stream_id", HipStreamId(r), &json);
  json.Number("lds_block_size_v", LdsBlockSize(r.lds_bytes))
      .Number("arch_vgpr_count", kernel == nullptr ? 0 : kernel->kernel.arch_vgprs())
      .Number("accum_vgpr_count", kernel == nullptr ? 0 : kernel->kernel.accum_vgprs())
      .Number("sgpr_count", kernel == nullptr ? 0 : kernel->kernel.sgprs())
      .End();
  return counters_.text.WriteIfFull();
}

void JsonProcess::WriteHead(const ExportProcess& process, std::string* out) const {
  const v1::StreamHeader& header = process.header();
  const v1::Process& recorded = process.process();
  JsonObject json(out);
  json.Begin("{").Object("metadata").Object("node");
  json.Number("id", 0)
      .Number("hash", 0)
      .Text("machine_id", header.boot_id())
      .Text("system_name", "Linux")
      .Text("hostname", header.hostname())
      .Text("release", header.kernel_release())
      .Text("version", "")
      .Text("hardware_name", header.machine())
      .Text("domain_name", "")
      .End();
  json.Number("pid", process.pid())
      .Number("init_time", recorded.start_ns())
      .Number("fini_time", process.end().has_value() ? process.end()->time_ns() : 0);
  json.Raw("command", "[");
  for (const std::string& argument : recorded.arguments()) {
    Separate(out, '[');
    AppendJsonString(argument, out);
  }
  out->push_back(']');
  json.Raw("config", "{}");
  // Not one of rocprofv3's keys: the workload of the process.
  const auto workload = WorkloadAttributes(recorded.workload());
  if (!workload.empty()) {
    json.Object("workload");
    for (const auto& [name, value] : workload) json.Text(name, value);
    json.End();
  }
  json.End();
}

void JsonProcess::WriteAgents(const ExportProcess& process, std::string* out) const {
  out->append(",\n\"agents\":[");
  for (const auto& [id, agent] : process.agents()) {
    Separate(out, '[');
    JsonObject json(out);
    json.Begin("\n{");
    AddAgentMembers(process, agent, &json);
    json.End();
  }
  out->push_back(']');
}

void JsonProcess::WriteCounters(const ExportProcess& process, std::string* out) const {
  std::map<uint64_t, absl::string_view> architectures;  // by handle
  for (const auto& [id, agent] : process.agents()) {
    architectures[agent.node_id()] = agent.name();
  }
  std::map<uint64_t, const std::pair<uint64_t, std::string>*> by_handle;
  for (const auto& [counter, handle] : counter_handles_) by_handle[handle] = &counter;
  out->append(",\n\"counters\":[");
  for (const auto& [handle, counter] : by_handle) {
    Separate(out, '[');
    const CounterFact fact = facts_->Of(architectures[counter->first], counter->second);
    JsonObject json(out);
    json.Begin("\n{");
    AddHandle("agent_id", counter->first, &json);
    AddHandle("id", handle, &json);
    json.Boolean("is_constant", false)
        .Boolean("is_derived", fact.derived)
        .Text("name", counter->second)
        .Text("description", fact.description)
        .Text("block", fact.block)
        .Text("expression", fact.expression)
        .Raw("dimension_ids", "[]")
        .End();
  }
  out->push_back(']');
}

namespace {

// Writes the names of each kind's operations, at the positions of their numbers.
void WriteBufferNames(const ExportProcess& process, std::string* out) {
  std::map<uint32_t,
           std::pair<absl::string_view, std::map<uint32_t, absl::string_view>>>
      kinds;
  for (const auto& [key, name] : process.functions()) {
    auto& kind = kinds[ApiKindNumber(key.first, key.second)];
    kind.first = ApiKindName(key.first, key.second);
    kind.second[ApiOperation(key.first, key.second)] = name;
  }
  auto& copies = kinds[kMemoryCopyNumber];
  copies.first = kMemoryCopyKind;
  for (uint16_t direction = 0; direction <= ROCATTACH_COPY_DEVICE_TO_DEVICE;
       ++direction) {
    copies.second[direction] = CopyDirectionName(direction);
  }
  for (uint16_t operation = ROCATTACH_MEMORY_ALLOCATE;
       operation <= ROCATTACH_MEMORY_SCRATCH_RECLAIM; ++operation) {
    const bool scratch = IsScratch(operation);
    auto& kind = kinds[scratch ? kScratchMemoryNumber : kMemoryAllocationNumber];
    kind.first = scratch ? kScratchMemoryKind : kMemoryAllocationKind;
    kind.second[MemoryOperationNumber(operation)] = MemoryOperationName(operation);
  }
  auto& dispatches = kinds[kKernelDispatchNumber];
  dispatches.first = kKernelDispatchKind;
  dispatches.second[1] = "KERNEL_DISPATCH_ENQUEUE";
  dispatches.second[2] = "KERNEL_DISPATCH_COMPLETE";
  out->append("\"buffer_records\":[");
  uint32_t number = 0;
  for (const auto& [kind, names] : kinds) {
    // A kind's number is its position.
    for (; number <= kind; ++number) {
      const bool known = number == kind;
      Separate(out, '[');
      JsonObject json(out);
      json.Begin("\n{").Text("kind", known ? names.first : "");
      json.Raw("operations", "[");
      uint32_t operation = 0;
      for (auto it = names.second.begin(); known && it != names.second.end(); ++it) {
        for (; operation <= it->first; ++operation) {
          Separate(out, '[');
          AppendJsonString(operation == it->first ? it->second : "", out);
        }
      }
      out->push_back(']');
      json.End();
    }
  }
  out->push_back(']');
}

void WriteDomain(absl::string_view domain, const NamedStatistics& statistics,
                 std::string* out) {
  const DurationStatistics total = statistics.Total();
  if (total.calls() == 0) return;
  Separate(out, '[');
  JsonObject json(out);
  json.Begin("\n{").Text("domain", domain).Object("stats");
  AddStatistics(total, &json);
  json.Raw("operations", "[");
  for (const auto& [name, of_name] : statistics.names()) {
    Separate(out, '[');
    JsonObject operation(out);
    operation.Begin().Text("key", name).Object("value");
    AddStatistics(of_name, &operation);
    operation.End().End();
  }
  out->push_back(']');
  json.End().End();
}

}  // namespace

namespace {

// Readers use the id of a code object or kernel as its position in the list. Ids count
// up from 1, but a damaged input or a hostile process can have any: at most this many
// positions are filled with placeholders; an item after a larger gap follows directly.
constexpr uint64_t kMostPlaceholders = 1 << 16;

template <typename Item, typename Write>
void WriteByPosition(const std::map<uint32_t, Item>& items, Write write) {
  uint64_t next = 0, placeholders = 0;
  const Item none;
  for (const auto& [id, item] : items) {
    const uint64_t missing = id > next ? id - next : 0;
    if (placeholders + missing <= kMostPlaceholders) {
      placeholders += missing;
      for (; next < id; ++next) write(0, none);
    }
    write(id, item);
    ++next;
  }
}

}  // namespace

void JsonProcess::WriteSymbols(const ExportProcess& process, std::string* out) const {
  out->append(",\n\"code_objects\":[");
  WriteByPosition(process.code_objects(), [&](uint32_t, const v1::CodeObject& object) {
    Separate(out, '[');
    JsonObject json(out);
    json.Begin("\n{");
    AddCodeObjectMembers(object, AgentHandle(process, object.agent_id()), &json);
    json.End();
  });
  out->append("],\n\"kernel_symbols\":[");
  WriteByPosition(process.kernels(), [&](uint32_t, const ExportKernel& kernel) {
    Separate(out, '[');
    JsonObject json(out);
    json.Begin("\n{");
    AddKernelMembers(kernel, &json);
    json.End();
  });
  out->append("],\n\"host_functions\":[]");
}

void JsonProcess::WriteSummary(std::string* out) const {
  out->append(",\n\"summary\":[");
  WriteDomain(kKernelDispatchKind, kernel_statistics_, out);
  WriteDomain(kMemoryCopyKind, copy_statistics_, out);
  WriteDomain(kMemoryAllocationKind, memory_statistics_, out);
  WriteDomain(kScratchMemoryKind, scratch_statistics_, out);
  constexpr absl::string_view kDomains[] = {"HSA_API", "HIP_API", "MARKER_API",
                                            "RCCL_API"};
  for (size_t i = 0; i < api_statistics_.size(); ++i) {
    WriteDomain(kDomains[i], api_statistics_[i], out);
  }
  out->push_back(']');
}

absl::Status JsonProcess::WriteTo(const ExportProcess& process, OutputFile* out) {
  std::string* text = out->buffer();
  WriteHead(process, text);
  WriteAgents(process, text);
  WriteCounters(process, text);
  text->append(",\n\"strings\":{\"callback_records\":[],");
  WriteBufferNames(process, text);
  const auto list = [&](absl::string_view before, Section* section) {
    text->append(before.data(), before.size());
    RETURN_IF_ERROR(section->text.MoveTo(out));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(list(",\n\"marker_api\":[", &marker_texts_));
  text->append(
      "],\"correlation_id\":{\"external\":[]},\"counters\":{\"dimension_ids\":[]},"
      "\"pc_sample_instructions\":[],\"pc_sample_comments\":[],\"att_filenames\":[],"
      "\"code_object_snapshot_filenames\":[]}");
  WriteSymbols(process, text);
  WriteSummary(text);
  RETURN_IF_ERROR(
      list(",\n\"callback_records\":{\"counter_collection\":[", &counters_));
  RETURN_IF_ERROR(list("]},\n\"buffer_records\":{\"kernel_dispatch\":[", &dispatches_));
  RETURN_IF_ERROR(list("],\n\"hip_api\":[", &apis_[v1::API_DOMAIN_HIP]));
  RETURN_IF_ERROR(list("],\n\"hsa_api\":[", &apis_[v1::API_DOMAIN_HSA]));
  RETURN_IF_ERROR(list("],\n\"marker_api\":[", &apis_[v1::API_DOMAIN_MARKER]));
  RETURN_IF_ERROR(list("],\n\"rccl_api\":[", &apis_[v1::API_DOMAIN_RCCL]));
  RETURN_IF_ERROR(list("],\n\"memory_copy\":[", &copies_));
  RETURN_IF_ERROR(list("],\n\"memory_allocation\":[", &memory_));
  RETURN_IF_ERROR(list("],\n\"scratch_memory\":[", &scratch_));
  return out->Append(
      "],\"rocdecode_api\":[],"
      "\"rocjpeg_api\":[],\"pc_sample_host_trap\":[],\"pc_sample_stochastic\":[]}}");
}

}  // namespace rocattach
