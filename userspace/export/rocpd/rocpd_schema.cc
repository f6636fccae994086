#include "userspace/export/rocpd/rocpd_schema.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "userspace/export/rocpd/rocpd_views.h"

namespace rocattach {
namespace {

// A table without `id` and `guid`, which all but rocpd_metadata have first. Each column
// is "name TYPE", with "!" for NOT NULL and ">table" for a reference to an id:
//   "nid INTEGER! >info_node"
struct TableDefinition {
  absl::string_view name;
  absl::string_view columns;  // separated by ';'
  int since = 0;              // the first version 3.0.x that has it
};

// In columns: (N:…) is there from version 3.0.N on.
constexpr TableDefinition kTables[] = {
    {"string", "string TEXT! UNIQUE ON CONFLICT ABORT"},
    {"info_node",
     "hash BIGINT! UNIQUE;machine_id TEXT! UNIQUE;system_name TEXT;hostname TEXT;"
     "release TEXT;version TEXT;hardware_name TEXT;domain_name TEXT"},
    {"info_process",
     "nid INTEGER! >info_node;ppid INTEGER;pid INTEGER!;init BIGINT;fini BIGINT;"
     "start BIGINT;end BIGINT;command TEXT;environment JSONB!={};extdata JSONB!={}"},
    {"info_thread",
     "nid INTEGER! >info_node;ppid INTEGER;pid INTEGER! >info_process;tid INTEGER!;"
     "name TEXT;start BIGINT;end BIGINT;extdata JSONB!={}"},
    {"info_agent",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;type TEXT@agent;"
     "absolute_index INTEGER;logical_index INTEGER;type_index INTEGER;uuid INTEGER;"
     "name TEXT;model_name TEXT;vendor_name TEXT;product_name TEXT;user_name TEXT;"
     "extdata JSONB!={}"},
    {"info_queue",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;name TEXT;extdata JSONB!={}"},
    {"info_stream",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;name TEXT;extdata JSONB!={}"},
    {"info_pmc",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;agent_id INTEGER >info_agent;"
     "target_arch TEXT@agent;event_code INT;instance_id INTEGER;name TEXT!;"
     "symbol TEXT!;description TEXT;long_description TEXT=;component TEXT;units TEXT=;"
     "value_type TEXT@ABS,ACCUM,RELATIVE;block TEXT;expression TEXT;"
     "is_constant INTEGER;is_derived INTEGER;(3:spm_support INTEGER);extdata "
     "JSONB!={}"},
    {"info_code_object",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;agent_id INTEGER >info_agent;"
     "uri TEXT;load_base BIGINT;load_size BIGINT;load_delta BIGINT;"
     "storage_type TEXT@FILE,MEMORY;extdata JSONB!={}"},
    {"info_kernel_symbol",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;"
     "code_object_id INTEGER! >info_code_object;kernel_name TEXT;display_name TEXT;"
     "kernel_object INTEGER;kernarg_segment_size INTEGER;"
     "kernarg_segment_alignment INTEGER;group_segment_size INTEGER;"
     "private_segment_size INTEGER;sgpr_count INTEGER;arch_vgpr_count INTEGER;"
     "accum_vgpr_count INTEGER;extdata JSONB!={}"},
    {"track",
     "nid INTEGER! >info_node;pid INTEGER >info_process;tid INTEGER >info_thread;"
     "name_id INTEGER >string;extdata JSONB!={}"},
    {"event",
     "category_id INTEGER >string;stack_id INTEGER;parent_stack_id INTEGER;"
     "correlation_id INTEGER;call_stack JSONB!={};line_info JSONB!={};"
     "extdata JSONB!={}"},
    {"arg",
     "event_id INTEGER! >event;position INTEGER!;type TEXT!;name TEXT!;value TEXT;"
     "extdata JSONB!={}"},
    {"pmc_event",
     "event_id INTEGER >event;(3:sample_id INTEGER >sample);pmc_id INTEGER! >info_pmc;"
     "value REAL=0.0;(3:xcc INTEGER);(3:shader_engine INTEGER);(3:instance INTEGER);"
     "extdata JSONB={}"},
    {"region",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;tid INTEGER! >info_thread;"
     "start BIGINT!;end BIGINT!;name_id INTEGER! >string;event_id INTEGER >event;"
     "extdata JSONB!={}"},
    {"sample",
     "track_id INTEGER! >track;timestamp BIGINT!;event_id INTEGER >event;"
     "extdata JSONB!={}"},
    {"kernel_dispatch",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;tid INTEGER >info_thread;"
     "agent_id INTEGER! >info_agent;kernel_id INTEGER! >info_kernel_symbol;"
     "dispatch_id INTEGER!;queue_id INTEGER! >info_queue;"
     "stream_id INTEGER! >info_stream;start BIGINT!;end BIGINT!;"
     "private_segment_size INTEGER;group_segment_size INTEGER;"
     "workgroup_size_x INTEGER!;workgroup_size_y INTEGER!;workgroup_size_z INTEGER!;"
     "grid_size_x INTEGER!;grid_size_y INTEGER!;grid_size_z INTEGER!;"
     "(2:graph_exec_id INTEGER!=0);(2:graph_node_id INTEGER!=0);"
     "region_name_id INTEGER >string;event_id INTEGER >event;extdata JSONB!={}"},
    {"memory_copy",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;tid INTEGER >info_thread;"
     "start BIGINT!;end BIGINT!;name_id INTEGER! >string;"
     "dst_agent_id INTEGER >info_agent;dst_address INTEGER;"
     "src_agent_id INTEGER >info_agent;src_address INTEGER;size INTEGER!;"
     "queue_id INTEGER >info_queue;stream_id INTEGER >info_stream;"
     "(2:graph_exec_id INTEGER!=0);(2:graph_node_id INTEGER!=0);"
     "region_name_id INTEGER >string;event_id INTEGER >event;extdata JSONB!={}"},
    {"memory_allocate",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;tid INTEGER >info_thread;"
     "agent_id INTEGER >info_agent;type TEXT@ALLOC,FREE,REALLOC,RECLAIM;"
     "level TEXT@REAL,VIRTUAL,SCRATCH;start BIGINT!;end BIGINT!;address INTEGER;"
     "size INTEGER!;queue_id INTEGER >info_queue;stream_id INTEGER >info_stream;"
     "event_id INTEGER >event;extdata JSONB!={}"},
    {"event_operation",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;tid INTEGER >info_thread;"
     "agent_id INTEGER! >info_agent;event_obj INTEGER!;type_id INTEGER!;"
     "issue_id INTEGER!;queue_id INTEGER! >info_queue;stream_id INTEGER! >info_stream;"
     "start BIGINT!;end BIGINT!;type TEXT@WAIT,SIGNAL;event_id INTEGER >event",
     1},
    {"graph_launch",
     "nid INTEGER! >info_node;pid INTEGER! >info_process;tid INTEGER >info_thread;"
     "agent_id INTEGER >info_agent;queue_id INTEGER >info_queue;start BIGINT!;"
     "end BIGINT!;graph_exec_id INTEGER!;kernel_dispatch_count INTEGER!=0;"
     "event_id INTEGER >event;extdata JSONB!={}",
     2},
};

// "nid INTEGER! >info_node" as SQL. `suffix`: of table names.
std::string ColumnSql(absl::string_view column, bool nic, const std::string& suffix) {
  const std::vector<absl::string_view> named =
      absl::StrSplit(column, absl::MaxSplits(' ', 1));
  const size_t mark = named[1].find_first_of("!=@> ");
  std::string sql = absl::StrCat("\"", named[0], "\" ", named[1].substr(0, mark));
  absl::string_view rest = mark == absl::string_view::npos ? "" : named[1].substr(mark);
  if (absl::ConsumePrefix(&rest, "!")) sql += " NOT NULL";
  if (absl::ConsumePrefix(&rest, "=")) {
    absl::StrAppend(&sql, " DEFAULT ",
                    rest == "0" || rest == "0.0" ? std::string(rest)
                                                 : absl::StrCat("'", rest, "'"));
    return sql;
  }
  if (absl::ConsumePrefix(&rest, "@")) {
    const std::string values = rest != "agent" ? std::string(rest)
                               : nic           ? "CPU,GPU,NIC"
                                               : "CPU,GPU";
    absl::StrAppend(&sql, " CHECK (\"", named[0], "\" IN ('",
                    absl::StrReplaceAll(values, {{",", "','"}}), "'))");
    return sql;
  }
  if (absl::ConsumePrefix(&rest, " >")) {
    return absl::StrCat(sql, " REFERENCES \"rocpd_", rest, suffix,
                        "\" (id) ON UPDATE CASCADE");
  }
  return absl::StrCat(sql, rest);
}

int MinorOf(absl::string_view version) {
  int minor = 3;
  (void)absl::SimpleAtoi(version.substr(version.rfind('.') + 1), &minor);
  return minor;
}

}  // namespace

RocpdSchema::RocpdSchema(absl::string_view version, absl::string_view guid)
    : version_(version),
      guid_(guid),
      suffix_(absl::StrCat("_", absl::StrReplaceAll(guid, {{"-", "_"}}))),
      minor_(MinorOf(version)) {}

std::string RocpdSchema::Table(absl::string_view name) const {
  return absl::StrCat("\"rocpd_", name, suffix_, "\"");
}

std::string RocpdSchema::Tables() const {
  std::string sql = absl::StrCat("CREATE TABLE ", Table("metadata"),
                                 " (\"id\" INTEGER PRIMARY KEY NOT NULL, \"tag\" TEXT "
                                 "NOT NULL, \"value\" TEXT NOT NULL);\n");
  for (const TableDefinition& table : kTables) {
    if (table.since > minor_) continue;
    std::vector<std::string> columns = {
        "\"id\" INTEGER PRIMARY KEY NOT NULL",
        absl::StrCat("\"guid\" TEXT DEFAULT '", guid_, "' NOT NULL")};
    for (absl::string_view column : absl::StrSplit(table.columns, ';')) {
      if (absl::ConsumePrefix(&column, "(")) {
        if (column[0] - '0' > minor_) continue;
        column = column.substr(2, column.size() - 3);
      }
      columns.push_back(ColumnSql(column, has_nic(), suffix_));
    }
    absl::StrAppend(&sql, "CREATE TABLE ", Table(table.name), " (",
                    absl::StrJoin(columns, ", "), ");\n");
  }
  return sql;
}

std::string RocpdSchema::Views() const {
  std::string sql = absl::StrCat("CREATE VIEW \"rocpd_metadata\" AS SELECT * FROM ",
                                 Table("metadata"), ";\n");
  for (const TableDefinition& table : kTables) {
    if (table.since > minor_) continue;
    absl::StrAppend(&sql, "CREATE VIEW \"rocpd_", table.name, "\" AS SELECT * FROM ",
                    Table(table.name), ";\n");
  }
  return absl::StrCat(sql, RocpdDataViews(minor_));
}

std::string RocpdSchema::Metadata() const {
  return absl::StrCat(
      "INSERT INTO ", Table("metadata"),
      " (\"tag\", \"value\") VALUES ('schema_version', '3'), ('uuid', '", suffix_,
      "'), ('guid', '", guid_, "'), ('rocattach_schema', '", version_, "');\n");
}

std::string RocpdSchema::Sql() const {
  return absl::StrCat(Tables(), Views(), Metadata());
}

}  // namespace rocattach
