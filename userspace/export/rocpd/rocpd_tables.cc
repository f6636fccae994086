#include "userspace/export/rocpd/rocpd_tables.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "userspace/abi/hip_stream.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/agent_properties.h"
#include "userspace/export/common/json_text.h"
#include "userspace/export/common/launch_links.h"
#include "userspace/export/common/recording_guid.h"
#include "userspace/export/common/upstream_json.h"
#include "userspace/export/common/upstream_names.h"
#include "userspace/report/workload_attributes.h"

namespace rocattach {
namespace {

// Maximum number of rows that a full disk costs. Larger transactions are not faster.
constexpr uint64_t kMostRowsInTransaction = 100'000;
constexpr uint64_t kMostRowsWhileFollowed = 50'000;

}  // namespace

absl::StatusOr<std::unique_ptr<RocpdTables>> RocpdTables::Create(
    const std::string& path, const ExportProcess& process,
    const ExportOptions& options) {
  const std::string guid = RecordingGuid(process);
  RocpdSchema schema(options.rocpd_schema, guid);
  ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Create(path));
  // Followed databases are read while they are written, and survive a killed writer;
  // others are then written again, and need a journal only for a full disk. Large pages
  // need fewer system calls; a followed database would write more data with them.
  RETURN_IF_ERROR(database.Execute(
      options.follow ? "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                     : "PRAGMA page_size=32768; PRAGMA journal_mode=MEMORY; "
                       "PRAGMA synchronous=OFF;"));
  RETURN_IF_ERROR(
      database.Execute("PRAGMA cache_size=-16384; PRAGMA secure_delete=OFF; BEGIN;"));
  RETURN_IF_ERROR(database.Execute(schema.Sql()));
  std::unique_ptr<RocpdTables> tables(
      new RocpdTables(std::move(database), std::move(schema), options));
  RETURN_IF_ERROR(tables->Prepare());
  RETURN_IF_ERROR(tables->WriteNode(process));
  RETURN_IF_ERROR(tables->PrepareRows());
  RETURN_IF_ERROR(tables->WriteProcess(process));
  RETURN_IF_ERROR(tables->StringId("").status());
  RETURN_IF_ERROR(tables->NeedQueue(0));
  RETURN_IF_ERROR(tables->NeedStream(0));
  RETURN_IF_ERROR(tables->Commit());
  return tables;
}

absl::StatusOr<SqliteInsert> RocpdTables::PrepareInsert(absl::string_view verb,
                                                        absl::string_view table,
                                                        absl::string_view columns) {
  const std::vector<std::string> names = absl::StrSplit(columns, ' ');
  return database_.Prepare(absl::StrCat(
      verb, " INTO ", schema_.Table(table), " (\"", absl::StrJoin(names, "\",\""),
      "\") VALUES (", absl::StrJoin(std::vector<std::string>(names.size(), "?"), ","),
      ")"));
}

absl::Status RocpdTables::Prepare() {
  inserts_ = std::make_unique<Inserts>();
  struct Table {
    SqliteInsert* insert;
    absl::string_view verb, table, columns;
  };
  constexpr absl::string_view kInsert = "INSERT", kIgnore = "INSERT OR IGNORE",
                              kReplace = "INSERT OR REPLACE";
  for (const Table& t : {
           Table{&inserts_->string, kInsert, "string", "id string"},
           {&inserts_->process, kReplace, "info_process",
            "id nid ppid pid init fini start end command extdata"},
           {&inserts_->thread, kIgnore, "info_thread", "id nid ppid pid tid name"},
           {&inserts_->named_thread, kReplace, "info_thread",
            "id nid ppid pid tid name"},
           {&inserts_->queue, kIgnore, "info_queue", "id nid pid name"},
           {&inserts_->stream, kIgnore, "info_stream", "id nid pid name"},
           {&inserts_->agent, kReplace, "info_agent",
            "id nid pid type absolute_index logical_index type_index uuid name "
            "model_name vendor_name product_name user_name extdata"},
           {&inserts_->code_object, kReplace, "info_code_object",
            "id nid pid agent_id uri load_base load_size load_delta storage_type "
            "extdata"},
           {&inserts_->kernel, kReplace, "info_kernel_symbol",
            "id nid pid code_object_id kernel_name display_name kernel_object "
            "kernarg_segment_size kernarg_segment_alignment group_segment_size "
            "private_segment_size sgpr_count arch_vgpr_count accum_vgpr_count extdata"},
           {&inserts_->pmc, kInsert, "info_pmc",
            "id nid pid agent_id target_arch name symbol description component "
            "value_type block expression is_constant is_derived"},
           {&inserts_->track, kInsert, "track", "id nid pid tid name_id"},
       }) {
    ASSIGN_OR_RETURN(*t.insert, PrepareInsert(t.verb, t.table, t.columns));
  }
  return absl::OkStatus();
}

absl::Status RocpdTables::PrepareRows() {
  struct Table {
    std::unique_ptr<SqliteRows>* rows;
    absl::string_view table;
    std::string columns;
  };
  const std::string same = absl::StrCat(" nid=", node_, " pid=", pid_, " ");
  const absl::string_view pmc_columns =
      schema_.has_spm() ? "event_id pmc_id value xcc shader_engine instance extdata"
                        : "event_id pmc_id value extdata";
  for (const Table& t : {
           Table{&inserts_->event, "event",
                 "id category_id stack_id parent_stack_id correlation_id=0 extdata"},
           {&inserts_->dispatch, "kernel_dispatch",
            absl::StrCat(
                "id", same,
                "tid agent_id kernel_id dispatch_id queue_id stream_id start end "
                "private_segment_size group_segment_size workgroup_size_x "
                "workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z "
                "region_name_id=",
                kNoString, " event_id extdata")},
           {&inserts_->copy, "memory_copy",
            absl::StrCat("id", same,
                         "tid start end name_id dst_agent_id dst_address src_agent_id "
                         "src_address size queue_id=0 stream_id region_name_id=",
                         kNoString, " event_id extdata")},
           {&inserts_->region, "region",
            absl::StrCat("id", same, "tid start end name_id event_id")},
           {&inserts_->sample, "sample", "id track_id timestamp event_id"},
           {&inserts_->pmc_event, "pmc_event", std::string(pmc_columns)},
           {&inserts_->arg, "arg", "event_id position type name value"},
           {&inserts_->memory, "memory_allocate",
            absl::StrCat(same.substr(1),
                         "tid agent_id type level start end address size queue_id "
                         "stream_id=0 event_id extdata")},
       }) {
    const std::vector<std::string> columns = absl::StrSplit(t.columns, ' ');
    ASSIGN_OR_RETURN(*t.rows, SqliteRows::Create(&database_, schema_.Table(t.table),
                                                 columns, columns[0] == "id"));
  }
  return absl::OkStatus();
}

// A full disk costs as few rows as possible: all other rows are tried, and committed.
absl::Status RocpdTables::FlushRows() {
  absl::Status status;
  for (const auto* rows :
       {&inserts_->event, &inserts_->dispatch, &inserts_->copy, &inserts_->region,
        &inserts_->sample, &inserts_->pmc_event, &inserts_->arg, &inserts_->memory}) {
    status.Update((*rows)->Flush());
  }
  return status;
}

absl::Status RocpdTables::WriteNode(const ExportProcess& process) {
  const v1::StreamHeader& header = process.header();
  // Recordings lack the machine's own id: host name and boot id identify it.
  const std::string machine = absl::StrCat(header.hostname(), ":", header.boot_id());
  const int64_t hash = StableHash(machine);
  node_ = hash % 0xffffffff;
  pid_ = process.pid();
  ppid_ = process.process().parent_pid();
  ASSIGN_OR_RETURN(SqliteInsert node,
                   PrepareInsert("INSERT", "info_node",
                                 "id hash machine_id system_name hostname release "
                                 "version hardware_name domain_name"));
  return node.Integer(node_)
      .Integer(hash)
      .Text(machine)
      .Text("Linux")
      .Text(header.hostname())
      .Text(header.kernel_release())
      .Null()
      .Text(header.machine())
      .Null()
      .Run();
}

absl::Status RocpdTables::WriteProcess(const ExportProcess& process) {
  const v1::Process& recorded = process.process();
  const std::string command = recorded.arguments().empty()
                                  ? recorded.executable()
                                  : absl::StrJoin(recorded.arguments(), " ");
  std::string extdata;
  JsonObject json(&extdata);
  json.Begin()
      .Text("comm", recorded.comm())
      .Text("executable", recorded.executable())
      .Text("cgroup", recorded.cgroup())
      .Number("uid", recorded.uid());
  for (const auto& [name, value] : WorkloadAttributes(recorded.workload())) {
    json.Text(name, value);
  }
  json.End();
  SqliteInsert& insert = inserts_->process;
  insert.Integer(pid_).Integer(node_).Integer(ppid_).Integer(pid_);
  const bool ended = process.end().has_value() && process.end()->time_ns() != 0;
  const auto end = [&] {
    if (ended) {
      insert.Number(process.end()->time_ns());
    } else {
      insert.Null();
    }
  };
  insert.Number(recorded.start_ns());
  end();
  insert.Number(recorded.start_ns());
  end();
  return insert.Text(command).Text(extdata).Run();
}

absl::Status RocpdTables::Commit() {
  rows_in_transaction_ = 0;
  absl::Status status = FlushRows();
  status.Update(database_.Execute("COMMIT; BEGIN;"));
  return status;
}

absl::Status RocpdTables::CommitIfLarge() {
  const uint64_t most =
      options_.follow ? kMostRowsWhileFollowed : kMostRowsInTransaction;
  return rows_in_transaction_ < most ? absl::OkStatus() : Commit();
}

absl::Status RocpdTables::Close() {
  RETURN_IF_ERROR(FlushRows());
  RETURN_IF_ERROR(database_.Execute("COMMIT;"));
  inserts_ = nullptr;
  if (options_.follow) {
    // Return to a single file that can be opened anywhere. This fails while there is a
    // reader; the last reader's end then does the same, except that the mode remains.
    (void)database_.Execute("PRAGMA busy_timeout=200; PRAGMA journal_mode=DELETE;");
  }
  return database_.Close();
}

// The rows to which records of a rocpd database refer by id: agents, kernels, threads,
// strings and so on.

namespace {

// First id of agents that are not in the recording.
constexpr int64_t kUnknownAgents = 1 << 20;

}  // namespace

// True at the first call for an id, and again if too many ids were known: inserting its
// row again changes nothing.
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
  // rocprofv3 writes the device id here.
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
  // With more unknown code objects than this, something is wrong with the input.
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

// Writes the records of a rocpd database, with their events.

namespace {

constexpr absl::string_view kUnknownTimes = R"({"times":"unknown"})";

// The span of an operation. If its times are not known, it is placed at its submission.
struct Span {
  uint64_t start, end;
  absl::string_view extdata;
};

template <typename Operation>
Span SpanOf(const Operation& r) {
  if (HasTimes(r)) {
    return {r.start_ns, r.end_ns, "{}"};
  }
  return {r.enqueue_ns, r.enqueue_ns, kUnknownTimes};
}

}  // namespace

absl::StatusOr<int64_t> RocpdTables::WriteEvent(EventClass of, uint64_t number,
                                                absl::string_view category,
                                                uint64_t stack_id,
                                                uint64_t parent_stack_id,
                                                absl::string_view extdata) {
  if (category != category_) {
    ASSIGN_OR_RETURN(category_id_, StringId(category));
    category_ = std::string(category);
  }
  const int64_t id = static_cast<int64_t>(number * 3 + static_cast<uint64_t>(of));
  rows_in_transaction_ += 2;  // the event, and the row that it belongs to
  RETURN_IF_ERROR(inserts_->event->Integer(id)
                      .Integer(category_id_)
                      .Number(stack_id)
                      .Number(parent_stack_id)
                      .Text(extdata)
                      .EndRow());
  return id;
}

absl::Status RocpdTables::WriteDispatch(const ExportProcess& process,
                                        const rocattach_dispatch& r) {
  RETURN_IF_ERROR(NeedThread(process, r.tid));
  RETURN_IF_ERROR(NeedQueue(r.queue_id));
  RETURN_IF_ERROR(NeedStream(HipStreamId(r)));
  RETURN_IF_ERROR(NeedKernel(r.kernel_id));
  ASSIGN_OR_RETURN(const int64_t agent, NeedAgent(process, r.agent_id));
  ASSIGN_OR_RETURN(const int64_t event,
                   WriteEvent(EventClass::kDispatch, r.dispatch_id, kKernelDispatchKind,
                              r.correlation_id, r.correlation_id, kNoExtData));
  const Span span = SpanOf(r);
  return inserts_->dispatch->Number(r.dispatch_id)
      .Integer(r.tid)
      .Integer(agent)
      .Integer(r.kernel_id)
      .Number(r.dispatch_id)
      .Integer(r.queue_id)
      .Integer(HipStreamId(r))
      .Number(span.start)
      .Number(span.end)
      .Integer(r.scratch_bytes)
      .Integer(r.lds_bytes)
      .Integer(r.workgroup_x)
      .Integer(r.workgroup_y)
      .Integer(r.workgroup_z)
      .Integer(r.grid_x)
      .Integer(r.grid_y)
      .Integer(r.grid_z)
      .Integer(event)
      .Text(span.extdata)
      .EndRow();
}

absl::Status RocpdTables::WriteCopy(const ExportProcess& process,
                                    const rocattach_copy& r) {
  RETURN_IF_ERROR(NeedThread(process, r.tid));
  // Host memory that no agent owns is attributed to the first CPU.
  const v1::Agent* cpu = process.FirstCpu();
  const uint32_t host = cpu == nullptr ? 0 : cpu->id();
  const auto agent_of = [&](uint32_t id) {
    return NeedAgent(process, id == 0 ? host : id);
  };
  ASSIGN_OR_RETURN(const int64_t dst, agent_of(r.dst_agent_id));
  ASSIGN_OR_RETURN(const int64_t src, agent_of(r.src_agent_id));
  ASSIGN_OR_RETURN(const int64_t name, StringId(CopyDirectionName(r.direction)));
  const uint64_t number = ++copies_;
  ASSIGN_OR_RETURN(const int64_t event,
                   WriteEvent(EventClass::kCopy, number, kMemoryCopyKind,
                              r.correlation_id, r.correlation_id, kNoExtData));
  const Span span = SpanOf(r);
  return inserts_->copy->Number(number)
      .Integer(r.tid)
      .Number(span.start)
      .Number(span.end)
      .Integer(name)
      .Integer(dst)
      .Number(r.dst_address)
      .Integer(src)
      .Number(r.src_address)
      .Number(r.bytes)
      .Integer(HipStreamId(r))
      .Integer(event)
      .Text(span.extdata)
      .EndRow();
}

absl::Status RocpdTables::WriteValues(const ExportProcess& process, int64_t event,
                                      absl::Span<const CounterRecord> values) {
  std::string extdata;
  for (const CounterRecord& value : values) {
    ASSIGN_OR_RETURN(const int64_t pmc, PmcId(process, value));
    extdata.clear();
    JsonObject(&extdata)
        .Begin()
        .Number("instances", value.instances)
        .Real("minimum", value.minimum)
        .Real("maximum", value.maximum)
        .Number("pass", value.pass)
        .Number("session", value.session)
        .End();
    if (value.each == nullptr) {
      RETURN_IF_ERROR(WriteValue(event, pmc, value.sum, nullptr, extdata));
      continue;
    }
    for (const CounterInstance& instance : *value.each) {
      const InstancePlace place = PlaceOf(instance.position);
      extdata.clear();
      JsonObject(&extdata)
          .Begin()
          .Number("xcc", place.xcc)
          .Number("aid", place.aid)
          .Number("shader_engine", place.shader_engine)
          .Number("shader_array", place.shader_array)
          .Number("wgp", place.wgp)
          .Number("instance", place.instance)
          .Number("pass", value.pass)
          .Number("session", value.session)
          .End();
      RETURN_IF_ERROR(WriteValue(event, pmc, instance.value, &place, extdata));
    }
  }
  return absl::OkStatus();
}

// `place`: null for a sum over all instances.
absl::Status RocpdTables::WriteValue(int64_t event, int64_t pmc, double value,
                                     const InstancePlace* place,
                                     absl::string_view extdata) {
  ++rows_in_transaction_;
  SqliteRows& insert = *inserts_->pmc_event;
  insert.Integer(event).Integer(pmc).Real(value);
  if (schema_.has_spm()) {
    if (place == nullptr) {
      insert.Null().Null().Null();
    } else {
      insert.Integer(place->xcc).Integer(place->shader_engine).Integer(place->instance);
    }
  }
  return insert.Text(extdata).EndRow();
}

absl::Status RocpdTables::WriteArguments(int64_t event, const ApiCallRecord& record) {
  int64_t position = 0;
  for (const ApiArgument& argument : ArgumentsOf(record)) {
    ++rows_in_transaction_;
    RETURN_IF_ERROR(inserts_->arg->Integer(event)
                        .Integer(position++)
                        .Text("")
                        .Text(argument.name)
                        .Text(argument.value)
                        .EndRow());
  }
  return absl::OkStatus();
}

absl::Status RocpdTables::WriteMemory(const ExportProcess& process,
                                      const MemoryRecord& r) {
  RETURN_IF_ERROR(NeedThread(process, r.tid));
  RETURN_IF_ERROR(NeedQueue(r.queue_id));
  const bool scratch = IsScratch(r.operation);
  ASSIGN_OR_RETURN(const int64_t event,
                   WriteEvent(EventClass::kOther, ++others_,
                              scratch ? kScratchMemoryKind : kMemoryAllocationKind,
                              r.correlation_id, r.correlation_id, kNoExtData));
  absl::string_view type = "FREE";
  if (r.operation == ROCATTACH_MEMORY_ALLOCATE ||
      r.operation == ROCATTACH_MEMORY_VMEM_ALLOCATE ||
      r.operation == ROCATTACH_MEMORY_SCRATCH_ALLOCATE) {
    type = "ALLOC";
  } else if (r.operation == ROCATTACH_MEMORY_SCRATCH_RECLAIM) {
    type = "RECLAIM";
  }
  const bool handle = r.operation == ROCATTACH_MEMORY_VMEM_ALLOCATE ||
                      r.operation == ROCATTACH_MEMORY_VMEM_FREE;
  SqliteRows& insert = *inserts_->memory;
  std::string extdata(kNoExtData);
  if (scratch) {
    extdata.clear();
    JsonObject(&extdata).Begin().Number("flags", r.scratch_flags).End();
  }
  int64_t agent = 0;
  if (r.agent_id != 0) {
    ASSIGN_OR_RETURN(agent, NeedAgent(process, r.agent_id));
  }
  insert.Integer(r.tid);
  if (r.agent_id != 0) {
    insert.Integer(agent);
  } else {
    insert.Null();
  }
  return insert.Text(type)
      .Text(scratch  ? "SCRATCH"
            : handle ? "VIRTUAL"
                     : "REAL")
      .Number(r.begin_ns)
      .Number(r.end_ns)
      .Number(r.address)
      .Number(r.bytes)
      .Integer(r.queue_id)
      .Integer(event)
      .Text(extdata)
      .EndRow();
}

absl::Status RocpdTables::WriteCounted(const ExportProcess& process,
                                       const CountedDispatch& counted) {
  int64_t event;
  if (counted.dispatch != nullptr) {
    event = static_cast<int64_t>(counted.dispatch->dispatch_id * 3 +
                                 static_cast<uint64_t>(EventClass::kDispatch));
  } else {
    const uint64_t id = counted.correlation_id;
    ASSIGN_OR_RETURN(event, WriteEvent(EventClass::kOther, ++others_,
                                       kKernelDispatchKind, id, id, kNoExtData));
  }
  return WriteValues(process, event, counted.values);
}

absl::Status RocpdTables::WriteSamples(const ExportProcess& process,
                                       absl::Span<const CounterRecord> records) {
  while (!records.empty()) {
    size_t count = 1;
    while (count < records.size() && records[count].operation == records[0].operation &&
           records[count].session == records[0].session) {
      ++count;
    }
    const CounterRecord& first = records[0];
    ASSIGN_OR_RETURN(const int64_t agent, NeedAgent(process, first.agent_id));
    ASSIGN_OR_RETURN(
        const int64_t track,
        TrackId(process, process.pid(), absl::StrCat("GPU counters, agent ", agent)));
    // Readers require a message in every sample.
    std::string extdata;
    JsonObject(&extdata)
        .Begin()
        .Text("message", "")
        .Number("begin", first.begin_ns)
        .Number("end", first.end_ns)
        .End();
    ASSIGN_OR_RETURN(
        const int64_t event,
        WriteEvent(EventClass::kOther, ++others_, "DEVICE_COUNTERS",
                   LaunchLinks::kSampleCount | first.operation, 0, extdata));
    RETURN_IF_ERROR(inserts_->sample->Null()
                        .Integer(track)
                        .Number(first.end_ns)
                        .Integer(event)
                        .EndRow());
    RETURN_IF_ERROR(WriteValues(process, event, records.subspan(0, count)));
    records.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status RocpdTables::WriteApiCall(const ExportProcess& process,
                                       const ApiCallRecord& r) {
  RETURN_IF_ERROR(NeedThread(process, r.tid));
  std::string extdata(kNoExtData);
  if (!r.text.empty() && (r.flags & kApiCallArguments) == 0) {
    extdata.clear();
    JsonObject(&extdata).Begin().Text("message", r.text).End();
  }
  const absl::string_view function = process.FunctionName(r.domain, r.function);
  ASSIGN_OR_RETURN(
      const int64_t event,
      WriteEvent(EventClass::kOther, ++others_, ApiKindName(r.domain, r.function),
                 r.correlation_id, r.ancestor_id, extdata));
  RETURN_IF_ERROR(WriteArguments(event, r));
  if (r.begin_ns == r.end_ns) {
    const bool room = tracks_.size() <= kMostKnownIds;
    ASSIGN_OR_RETURN(const int64_t track,
                     TrackId(process, room ? r.tid : process.pid(), function));
    return inserts_->sample->Number(r.correlation_id)
        .Integer(track)
        .Number(r.begin_ns)
        .Integer(event)
        .EndRow();
  }
  ASSIGN_OR_RETURN(const int64_t name, StringId(function));
  return inserts_->region->Number(r.correlation_id)
      .Integer(r.tid)
      .Number(r.begin_ns)
      .Number(r.end_ns)
      .Integer(name)
      .Integer(event)
      .EndRow();
}

}  // namespace rocattach
