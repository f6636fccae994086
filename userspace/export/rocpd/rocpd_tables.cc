#include "userspace/export/rocpd/rocpd_tables.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/json_text.h"
#include "userspace/export/common/recording_guid.h"
#include "userspace/report/workload_attributes.h"

namespace rocattach {
namespace {

// What a full disk costs at most. Larger ones are not faster.
constexpr uint64_t kMostRowsInTransaction = 100'000;
constexpr uint64_t kMostRowsWhileFollowed = 50'000;

}  // namespace

absl::StatusOr<std::unique_ptr<RocpdTables>> RocpdTables::Create(
    const std::string& path, const ExportProcess& process,
    const ExportOptions& options) {
  const std::string guid = RecordingGuid(process);
  RocpdSchema schema(options.rocpd_schema, guid);
  ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Create(path));
  // Followed databases are read during the writing, and survive it being killed; others
  // are begun anew after that, and need a journal for a full disk only. With large pages
  // the system is called less often; a followed database would write more of them.
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

// A full disk costs as few rows as possible: all others are tried, and committed.
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
  // The machine's own id is not in recordings: a name and a boot identify it.
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
    // Back to a single file that can be opened anywhere. Not while someone reads: the
    // last reader's end does the same but for the mode, which remains.
    (void)database_.Execute("PRAGMA busy_timeout=200; PRAGMA journal_mode=DELETE;");
  }
  return database_.Close();
}

}  // namespace rocattach
