// What records of a rocpd database refer to by id: agents, kernels, threads, strings
// and so on.
#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/agent_json.h"
#include "userspace/export/common/agent_properties.h"
#include "userspace/export/common/json_text.h"
#include "userspace/export/common/symbol_json.h"
#include "userspace/export/rocpd/rocpd_tables.h"

namespace rocattach {
namespace {

// Agents that are not in the recording have ids from here on.
constexpr int64_t kUnknownAgents = 1 << 20;

}  // namespace

// True at the first call for an id, and again when too many are known: its insert then
// changes nothing.
bool RocpdTables::IsNew(uint32_t id, KnownIds* known) {
  if (id == known->last) return false;
  known->last = id;
  if (known->ids.size() > kMostKnownIds) known->ids.clear();
  return known->ids.insert(id).second;
}

absl::Status RocpdTables::WriteAgent(const ExportProcess& process,
                                     const v1::Agent& agent) {
  const AgentPlace place = process.PlaceOf(agent.id());
  std::string extdata;
  JsonObject json(&extdata);
  json.Begin();
  AddAgentMembers(process, agent, &json);
  json.End();
  agents_.insert(agent.node_id());
  inserts_->agent.Integer(agent.node_id())
      .Integer(node_)
      .Integer(pid_)
      .Text(agent.type() == v1::AGENT_TYPE_GPU ? "GPU" : "CPU")
      .Integer(place.absolute)
      .Integer(place.relative)
      .Integer(place.type_relative);
  // rocprofv3 has the device id here.
  if (const uint64_t device = DriverProperty(agent, "device_id", 0); device != 0) {
    inserts_->agent.Number(device);
  } else {
    inserts_->agent.Null();
  }
  return inserts_->agent.Text(agent.name())
      .Text(agent.model_name())
      .Text(agent.type() == v1::AGENT_TYPE_GPU ? "AMD" : "CPU")
      .Text(agent.product_name())
      .Text(agent.product_name())
      .Text(extdata)
      .Run();
}

absl::StatusOr<int64_t> RocpdTables::NeedAgent(const ExportProcess& process,
                                               uint32_t agent) {
  if (const v1::Agent* known = process.FindAgent(agent)) return known->node_id();
  const int64_t id = kUnknownAgents + agent;
  if (!agents_.insert(id).second) return id;
  RETURN_IF_ERROR(inserts_->agent.Integer(id)
                      .Integer(node_)
                      .Integer(pid_)
                      .Null()
                      .Null()
                      .Null()
                      .Null()
                      .Null()
                      .Text("")
                      .Text("")
                      .Text("")
                      .Text("")
                      .Text("")
                      .Text(kNoExtData)
                      .Run());
  return id;
}

absl::Status RocpdTables::WriteCodeObject(const ExportProcess& process,
                                          const v1::CodeObject& object) {
  ASSIGN_OR_RETURN(const int64_t agent, NeedAgent(process, object.agent_id()));
  code_objects_.insert(object.id());
  std::string extdata;
  JsonObject json(&extdata);
  json.Begin();
  AddCodeObjectMembers(object, static_cast<uint64_t>(agent), &json);
  json.End();
  return inserts_->code_object.Integer(object.id())
      .Integer(node_)
      .Integer(pid_)
      .Integer(agent)
      .Text(object.uri())
      .Number(object.load_base())
      .Number(object.load_bytes())
      .Integer(object.load_delta())
      .Text(IsInMemory(object) ? "MEMORY" : "FILE")
      .Text(extdata)
      .Run();
}

absl::Status RocpdTables::NeedCodeObject(uint32_t object) {
  // Beyond this number of unknown ones something is wrong with the input.
  if (code_objects_.contains(object) || code_objects_.size() > kMostKnownIds) {
    return absl::OkStatus();
  }
  code_objects_.insert(object);
  return inserts_->code_object.Integer(object)
      .Integer(node_)
      .Integer(pid_)
      .Null()
      .Null()
      .Null()
      .Null()
      .Null()
      .Null()
      .Text(kNoExtData)
      .Run();
}

absl::Status RocpdTables::WriteKernel(const ExportKernel& known) {
  const v1::Kernel& kernel = known.kernel;
  kernels_.insert(kernel.id());
  RETURN_IF_ERROR(NeedCodeObject(kernel.code_object_id()));
  std::string extdata;
  JsonObject json(&extdata);
  json.Begin();
  AddKernelMembers(known, &json);
  json.End();
  return inserts_->kernel.Integer(kernel.id())
      .Integer(node_)
      .Integer(pid_)
      .Integer(kernel.code_object_id())
      .Text(kernel.name())
      .Text(known.display_name)
      .Number(kernel.kernel_object())
      .Integer(kernel.kernarg_bytes())
      .Integer(kernel.kernarg_alignment())
      .Integer(kernel.lds_bytes())
      .Integer(kernel.scratch_bytes())
      .Integer(kernel.sgprs())
      .Integer(kernel.arch_vgprs())
      .Integer(kernel.accum_vgprs())
      .Text(extdata)
      .Run();
}

absl::Status RocpdTables::NeedKernel(uint32_t kernel) {
  if (kernels_.contains(kernel) || kernels_.size() > kMostKnownIds) {
    return absl::OkStatus();
  }
  ExportKernel unknown;
  unknown.kernel.set_id(kernel);
  return WriteKernel(unknown);
}

absl::Status RocpdTables::NeedQueue(uint32_t queue) {
  if (!IsNew(queue, &queues_)) return absl::OkStatus();
  const std::string name = queue == 0 ? "Default Queue" : absl::StrCat("Queue ", queue);
  return inserts_->queue.Integer(queue).Integer(node_).Integer(pid_).Text(name).Run();
}

absl::Status RocpdTables::NeedStream(uint32_t stream) {
  if (!IsNew(stream, &streams_)) return absl::OkStatus();
  const std::string name =
      stream == 0 ? "Default Stream" : absl::StrCat("Stream ", stream);
  return inserts_->stream.Integer(stream).Integer(node_).Integer(pid_).Text(name).Run();
}

absl::Status RocpdTables::NeedThread(const ExportProcess& process, uint32_t tid) {
  if (!IsNew(tid, &threads_)) return absl::OkStatus();
  inserts_->thread.Integer(tid).Integer(node_).Integer(ppid_).Integer(pid_).Integer(
      tid);
  const absl::string_view name = process.ThreadName(tid);
  return (name.empty() ? inserts_->thread.Null() : inserts_->thread.Text(name)).Run();
}

absl::Status RocpdTables::WriteThreadNames(const ExportProcess& process) {
  for (const uint32_t tid : threads_.ids) {
    const absl::string_view name = process.ThreadName(tid);
    if (name.empty()) continue;
    RETURN_IF_ERROR(inserts_->named_thread.Integer(tid)
                        .Integer(node_)
                        .Integer(ppid_)
                        .Integer(pid_)
                        .Integer(tid)
                        .Text(name)
                        .Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> RocpdTables::StringId(absl::string_view text) {
  const auto known = strings_.find(text);
  if (known != strings_.end()) return known->second;
  const int64_t id = next_string_++;
  RETURN_IF_ERROR(inserts_->string.Integer(id).Text(text).Run());
  strings_.emplace(text, id);
  return id;
}

absl::StatusOr<int64_t> RocpdTables::TrackId(const ExportProcess& process, uint32_t tid,
                                             absl::string_view name) {
  const std::pair<uint32_t, std::string> key(tid, name);
  const auto known = tracks_.find(key);
  if (known != tracks_.end()) return known->second;
  ASSIGN_OR_RETURN(const int64_t name_id, StringId(name));
  RETURN_IF_ERROR(NeedThread(process, tid));
  const int64_t id = static_cast<int64_t>(tracks_.size()) + 1;
  RETURN_IF_ERROR(inserts_->track.Integer(id)
                      .Integer(node_)
                      .Integer(pid_)
                      .Integer(tid)
                      .Integer(name_id)
                      .Run());
  tracks_.emplace(key, id);
  return id;
}

absl::StatusOr<int64_t> RocpdTables::PmcId(const ExportProcess& process,
                                           const CounterRecord& value) {
  ASSIGN_OR_RETURN(const int64_t agent, NeedAgent(process, value.agent_id));
  std::pair<int64_t, std::string> key(agent,
                                      process.CounterName(value.plan, value.counter));
  if (key.second.empty()) key.second = "unknown";
  const auto known = pmcs_.find(key);
  if (known != pmcs_.end()) return known->second;
  const int64_t id = static_cast<int64_t>(pmcs_.size()) + 1;
  const v1::Agent* gpu = process.FindAgent(value.agent_id);
  const CounterFact fact =
      options_.counter_facts->Of(gpu == nullptr ? "" : gpu->name(), key.second);
  RETURN_IF_ERROR(inserts_->pmc.Integer(id)
                      .Integer(node_)
                      .Integer(pid_)
                      .Integer(agent)
                      .Text("GPU")
                      .Text(key.second)
                      .Text(key.second)
                      .Text(fact.description)
                      .Text("rocm")
                      .Text("ABS")
                      .Text(fact.block)
                      .Text(fact.expression)
                      .Integer(0)
                      .Integer(fact.derived ? 1 : 0)
                      .Run());
  pmcs_.emplace(std::move(key), id);
  return id;
}

}  // namespace rocattach
