#include "userspace/export/rocpd/rocpd_views.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rocattach {
namespace {

// Names and order of columns are the interface that tools query. In the definitions:
//   [E.x]       the string with that id
//   [join A B]  the row B of a table whose id is A
//   [left A B]  the same, or NULLs
//   [N:text]    the text, from version 3.0.N on
// where A is "K.agent_id" and B "info_agent A": the guid has to agree too.
struct ViewDefinition {
  absl::string_view name;
  absl::string_view columns;
  absl::string_view from;
  int since = 0;  // the first version 3.0.x that has it
};

#define AGENT_COLUMNS(alias, prefix)                                                   \
  alias ".absolute_index AS " prefix "agent_abs_index, " alias                         \
        ".logical_index AS " prefix "agent_log_index, " alias ".type_index AS " prefix \
        "agent_type_index, " alias ".type AS " prefix "agent_type"

#define COUNTED_COLUMNS \
  "D.dispatch_id, D.kernel_id, E.id AS event_id, E.correlation_id, E.stack_id, "       \
  "E.parent_stack_id, P.pid, T.tid, D.agent_id, " AGENT_COLUMNS("A", "") ", "          \
  "D.queue_id, D.grid_size_x, D.grid_size_y, D.grid_size_z, "                          \
  "(D.grid_size_x * D.grid_size_y * D.grid_size_z) AS grid_size, "                     \
  "K.display_name AS kernel_name, [D.region_name_id] AS kernel_region, "               \
  "D.workgroup_size_x, D.workgroup_size_y, D.workgroup_size_z, "                       \
  "(D.workgroup_size_x * D.workgroup_size_y * D.workgroup_size_z) AS workgroup_size, " \
  "D.group_segment_size AS lds_block_size, D.private_segment_size AS scratch_size, "   \
  "K.arch_vgpr_count AS vgpr_count, K.accum_vgpr_count, K.sgpr_count, "                \
  "C.name AS counter_name, C.symbol AS counter_symbol, C.component, C.description, "   \
  "C.block, C.expression, C.value_type, C.id AS counter_id"

#define COUNTED_JOINS                                                            \
  "[join V.pmc_id info_pmc C] [join V.event_id event E] "                        \
  "JOIN rocpd_kernel_dispatch D ON D.event_id = V.event_id AND D.guid = V.guid " \
  "[join D.agent_id info_agent A] [join D.kernel_id info_kernel_symbol K] "      \
  "[join D.pid info_process P] [join D.tid info_thread T]"

#define REGION_COLUMNS                                                      \
  "E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id, E.extdata, " \
  "E.call_stack, E.line_info"

#define SAMPLE_JOINS                                                    \
  "rocpd_sample R [join R.track_id track T] [join R.event_id event E] " \
  "[join T.pid info_process P] [join T.tid info_thread H]"

constexpr ViewDefinition kViews[] = {
    {"code_objects",
     "O.id, O.guid, O.nid, P.pid, A.absolute_index AS agent_abs_index, O.uri, "
     "O.load_base, O.load_size, O.load_delta, O.storage_type AS storage_type_str, "
     "json_extract(O.extdata, '$.size') AS code_object_size, "
     "json_extract(O.extdata, '$.storage_type') AS storage_type, "
     "json_extract(O.extdata, '$.memory_base') AS memory_base, "
     "json_extract(O.extdata, '$.memory_size') AS memory_size",
     "rocpd_info_code_object O [join O.agent_id info_agent A] "
     "[join O.pid info_process P]"},
    {"kernel_symbols",
     "K.id, K.guid, K.nid, P.pid, K.code_object_id, K.kernel_name, K.display_name, "
     "K.kernel_object, K.kernarg_segment_size, K.kernarg_segment_alignment, "
     "K.group_segment_size, K.private_segment_size, K.sgpr_count, K.arch_vgpr_count, "
     "K.accum_vgpr_count, json_extract(K.extdata, '$.size') AS kernel_symbol_size, "
     "json_extract(K.extdata, '$.kernel_id') AS kernel_id, "
     "json_extract(K.extdata, '$.kernel_code_entry_byte_offset') AS "
     "kernel_code_entry_byte_offset, "
     "json_extract(K.extdata, '$.formatted_kernel_name') AS formatted_kernel_name, "
     "json_extract(K.extdata, '$.demangled_kernel_name') AS demangled_kernel_name, "
     "json_extract(K.extdata, '$.truncated_kernel_name') AS truncated_kernel_name, "
     "json_extract(K.extdata, '$.kernel_address.handle') AS kernel_address",
     "rocpd_info_kernel_symbol K [join K.pid info_process P]"},
    {"processes",
     "N.id AS nid, N.machine_id, N.system_name, N.hostname, "
     "N.release AS system_release, N.version AS system_version, P.guid, P.ppid, P.pid, "
     "P.init, P.start, P.end, P.fini, P.command",
     "rocpd_info_process P [join P.nid info_node N]"},
    {"threads",
     "N.id AS nid, N.machine_id, N.system_name, N.hostname, "
     "N.release AS system_release, N.version AS system_version, P.guid, P.ppid, P.pid, "
     "T.tid, T.start, T.end, T.name",
     "rocpd_info_thread T [join T.pid info_process P] [join T.nid info_node N]"},
    {"regions",
     "R.id, R.guid, [E.category_id] AS category, S.string AS name, R.nid, P.pid, "
     "T.tid, R.start, R.end, (R.end - R.start) AS duration, "
     "R.event_id, " REGION_COLUMNS,
     "rocpd_region R [join R.event_id event E] [join R.name_id string S] "
     "[join R.pid info_process P] [join R.tid info_thread T]"},
    {"region_args", "R.id, R.guid, R.nid, P.pid, X.type, X.name, X.value",
     "rocpd_region R [join R.event_id event E] "
     "JOIN rocpd_arg X ON X.event_id = E.id AND X.guid = R.guid "
     "[join R.pid info_process P]"},
    {"samples",
     "R.id, R.guid, [E.category_id] AS category, [T.name_id] AS name, T.nid, P.pid, "
     "H.tid, R.timestamp, R.event_id, " REGION_COLUMNS,
     SAMPLE_JOINS},
    {"sample_regions",
     "R.id, R.guid, [E.category_id] AS category, [T.name_id] AS name, T.nid, P.pid, "
     "H.tid, R.timestamp AS start, R.timestamp AS end, 0 AS duration, "
     "R.event_id, " REGION_COLUMNS,
     SAMPLE_JOINS},
    {"regions_and_samples", "*", "regions UNION ALL SELECT * FROM sample_regions"},
    {"kernels",
     "D.id, D.guid, T.tid, [E.category_id] AS category, S.string AS region, "
     "K.display_name AS name, D.nid, P.pid, " AGENT_COLUMNS(
         "A",
         "") ", "
             "K.code_object_id, D.kernel_id, D.dispatch_id, D.stream_id, D.queue_id, "
             "[2:D.graph_exec_id, D.graph_node_id, ]"
             "Q.name AS queue, M.name AS stream, D.start, D.end, (D.end - D.start) AS "
             "duration, "
             "D.grid_size_x AS grid_x, D.grid_size_y AS grid_y, D.grid_size_z AS "
             "grid_z, "
             "D.workgroup_size_x AS workgroup_x, D.workgroup_size_y AS workgroup_y, "
             "D.workgroup_size_z AS workgroup_z, D.group_segment_size AS lds_size, "
             "D.private_segment_size AS scratch_size, K.arch_vgpr_count AS vgpr_count, "
             "K.accum_vgpr_count, K.sgpr_count, K.group_segment_size AS "
             "static_lds_size, "
             "K.private_segment_size AS static_scratch_size, [2:D.event_id, "
             "]E.stack_id, "
             "E.parent_stack_id, "
             "E.correlation_id AS corr_id",
     "rocpd_kernel_dispatch D [join D.agent_id info_agent A] "
     "[join D.event_id event E] [join D.region_name_id string S] "
     "[join D.kernel_id info_kernel_symbol K] [left D.stream_id info_stream M] "
     "[left D.queue_id info_queue Q] [join D.pid info_process P] "
     "[join D.tid info_thread T]"},
    {"pmc_info",
     "C.id, C.guid, C.nid, P.pid, A.absolute_index AS agent_abs_index, C.is_constant, "
     "C.is_derived, C.name, C.description, C.block, C.expression",
     "rocpd_info_pmc C [join C.agent_id info_agent A] [join C.pid info_process P]"},
    {"pmc_events",
     "V.id, V.guid, V.pmc_id, E.id AS event_id, [E.category_id] AS category, "
     "(SELECT K.display_name FROM rocpd_info_kernel_symbol K WHERE K.id = D.kernel_id "
     "AND K.guid = D.guid) AS name, D.nid, P.pid, D.dispatch_id, D.start, D.end, "
     "(D.end - D.start) AS duration, C.name AS counter_name, V.value AS counter_value",
     "rocpd_pmc_event V [join V.pmc_id info_pmc C] [join V.event_id event E] "
     "JOIN rocpd_kernel_dispatch D ON D.event_id = V.event_id AND D.guid = V.guid "
     "[join D.pid info_process P]"},
    {"events_args",
     "E.id AS event_id, [E.category_id] AS category, E.stack_id, E.parent_stack_id, "
     "E.correlation_id, X.position AS arg_position, X.type AS arg_type, "
     "X.name AS arg_name, X.value AS arg_value, E.call_stack, E.line_info, X.extdata",
     "rocpd_event E JOIN rocpd_arg X ON X.event_id = E.id AND X.guid = E.guid"},
    {"stream_args",
     "X.id AS argument_id, X.event_id, X.position AS arg_position, X.type AS arg_type, "
     "X.value AS arg_value, json_extract(X.extdata, '$.stream_id') AS stream_id, "
     "M.nid, "
     "P.pid, M.name AS stream_name, M.extdata",
     "rocpd_arg X JOIN rocpd_info_stream M ON M.id = json_extract(X.extdata, "
     "'$.stream_id') AND M.guid = X.guid [join M.pid info_process P] "
     "WHERE X.name = 'stream'"},
    {"memory_copies",
     "M.id, M.guid, [E.category_id] AS category, M.nid, P.pid, T.tid, M.start, M.end, "
     "(M.end - M.start) AS duration, S.string AS name, R.string AS region_name, "
     "M.stream_id, M.queue_id, [2:M.graph_exec_id, M.graph_node_id, ]"
     "L.name AS stream_name, Q.name AS queue_name, M.size, "
     "A.name AS dst_device, " AGENT_COLUMNS(
         "A", "dst_") ", M.dst_address, "
                      "B.name AS src_device, " AGENT_COLUMNS(
                          "B", "src_") ", M.src_address, "
                                       "E.stack_id, E.parent_stack_id, "
                                       "E.correlation_id AS corr_id",
     "rocpd_memory_copy M [join M.name_id string S] [left M.region_name_id string R] "
     "[join M.dst_agent_id info_agent A] [join M.src_agent_id info_agent B] "
     "[left M.queue_id info_queue Q] [left M.stream_id info_stream L] "
     "[join M.event_id event E] [join M.pid info_process P] "
     "[join M.tid info_thread T]"},
    {"memory_allocations",
     "M.id, M.guid, [E.category_id] AS category, M.nid, P.pid, T.tid, M.start, M.end, "
     "(M.end - M.start) AS duration, M.type, M.level, A.name AS "
     "agent_name, " AGENT_COLUMNS(
         "A", "") ", M.address, M.size, M.queue_id, Q.name AS queue_name, "
                  "M.stream_id, L.name AS stream_name, E.stack_id, E.parent_stack_id, "
                  "E.correlation_id AS corr_id",
     "rocpd_memory_allocate M [left M.agent_id info_agent A] "
     "[left M.queue_id info_queue Q] [left M.stream_id info_stream L] "
     "[join M.event_id event E] [join M.pid info_process P] "
     "[join M.tid info_thread T]"},
    {"scratch_memory",
     "M.id, M.guid, M.nid, P.pid, M.type AS operation, A.name AS "
     "agent_name, " AGENT_COLUMNS(
         "A", "") ", M.queue_id, T.tid, "
                  "json_extract(M.extdata, '$.flags') AS alloc_flags, M.start, M.end, "
                  "(M.end - M.start) AS duration, M.size, M.address, E.correlation_id, "
                  "E.stack_id, "
                  "E.parent_stack_id, E.correlation_id AS corr_id, [E.category_id] AS "
                  "category, "
                  "E.extdata AS event_extdata",
     "rocpd_memory_allocate M [left M.agent_id info_agent A] "
     "[join M.event_id event E] [join M.pid info_process P] "
     "[join M.tid info_thread T] WHERE M.level = 'SCRATCH' ORDER BY M.start"},
    {"counters_collection",
     "MIN(V.id) AS id, V.guid, " COUNTED_COLUMNS ", SUM(V.value) AS value, D.start, "
     "D.end, C.is_constant, C.is_derived, (D.end - D.start) AS duration, "
     "[E.category_id] AS category, D.nid, E.extdata, K.code_object_id",
     "rocpd_pmc_event V " COUNTED_JOINS
     "[no samples] GROUP BY V.guid, D.dispatch_id, C.name, D.agent_id"},
    {"spm_counters",
     "V.id, V.guid, " COUNTED_COLUMNS ", V.xcc, V.shader_engine, V.instance, V.value, "
     "R.timestamp, C.is_constant, C.is_derived, [E.category_id] AS category, D.nid, "
     "E.extdata, K.code_object_id",
     "rocpd_pmc_event V [join V.sample_id sample R] " COUNTED_JOINS, 3},
    {"graph_launches",
     "G.id, G.guid, G.nid, P.pid, T.tid, G.agent_id, " AGENT_COLUMNS(
         "A", "") ", G.queue_id, Q.name AS queue, 'Graph Execution' AS name, G.start, "
                  "G.end, (G.end - G.start) AS duration, G.graph_exec_id, "
                  "G.kernel_dispatch_count, G.event_id, E.stack_id, "
                  "E.parent_stack_id, E.correlation_id AS corr_id",
     "rocpd_graph_launch G [left G.agent_id info_agent A] "
     "[left G.queue_id info_queue Q] [join G.event_id event E] "
     "[join G.pid info_process P] [join G.tid info_thread T]",
     2},
    {"top_kernels",
     "K.display_name AS name, COUNT(D.kernel_id) AS total_calls, "
     "SUM(D.end - D.start) / 1000.0 AS total_duration, "
     "(SUM(D.end - D.start) / COUNT(D.kernel_id)) / 1000.0 AS average, "
     "SUM(D.end - D.start) * 100.0 / (SELECT SUM(X.end - X.start) FROM "
     "rocpd_kernel_dispatch X) AS percentage",
     "rocpd_kernel_dispatch D [join D.kernel_id info_kernel_symbol K] "
     "GROUP BY name ORDER BY total_duration DESC"},
    {"busy",
     "W.agent_id, A.type, W.GpuTime, S.WallTime, W.GpuTime * 1.0 / S.WallTime AS Busy",
     "(SELECT agent_id, guid, SUM(\"end\" - start) AS GpuTime FROM "
     "(SELECT agent_id, guid, start, \"end\" FROM rocpd_kernel_dispatch UNION ALL "
     "SELECT dst_agent_id, guid, start, \"end\" FROM rocpd_memory_copy) "
     "GROUP BY agent_id, guid) W JOIN "
     "(SELECT MAX(\"end\") - MIN(start) AS WallTime FROM "
     "(SELECT start, \"end\" FROM rocpd_kernel_dispatch UNION ALL "
     "SELECT start, \"end\" FROM rocpd_memory_copy)) S "
     "[join W.agent_id info_agent A]"},
    {"top",
     "name, COUNT(*) AS total_calls, SUM(duration) / 1000.0 AS total_duration, "
     "(SUM(duration) / COUNT(*)) / 1000.0 AS average, "
     "SUM(duration) * 100.0 / (SELECT SUM(duration) FROM (SELECT duration FROM kernels "
     "UNION ALL SELECT duration FROM memory_copies UNION ALL SELECT duration FROM "
     "regions)) AS percentage",
     "(SELECT name, duration FROM kernels UNION ALL SELECT name, duration FROM "
     "memory_copies UNION ALL SELECT name, duration FROM regions) "
     "GROUP BY name ORDER BY total_duration DESC"},
};

#undef AGENT_COLUMNS
#undef COUNTED_COLUMNS
#undef COUNTED_JOINS
#undef REGION_COLUMNS
#undef SAMPLE_JOINS

// "[join K.agent_id info_agent A]" and the other brackets as SQL.
std::string Bracket(absl::string_view text, int minor) {
  if (text == "no samples") return minor >= 3 ? " WHERE V.sample_id IS NULL" : "";
  if (text.size() > 2 && text[1] == ':') {
    return text[0] - '0' <= minor ? std::string(text.substr(2)) : "";
  }
  const bool left = text.substr(0, 5) == "left ";
  if (!left && text.substr(0, 5) != "join ") {
    const absl::string_view alias = text.substr(0, text.find('.'));
    return absl::StrCat("(SELECT x.string FROM rocpd_string x WHERE x.id = ", text,
                        " AND x.guid = ", alias, ".guid)");
  }
  text.remove_prefix(5);
  const size_t space = text.find(' ');
  const absl::string_view key = text.substr(0, space);
  const absl::string_view table = text.substr(space + 1);
  const absl::string_view alias = table.substr(table.find(' ') + 1);
  return absl::StrCat(left ? "LEFT JOIN rocpd_" : "JOIN rocpd_", table, " ON ", alias,
                      ".id = ", key, " AND ", alias,
                      ".guid = ", key.substr(0, key.find('.')), ".guid");
}

void AppendExpanded(absl::string_view text, int minor, std::string* sql) {
  for (size_t open; (open = text.find('[')) != absl::string_view::npos;) {
    const size_t close = text.find(']', open);
    absl::StrAppend(sql, text.substr(0, open),
                    Bracket(text.substr(open + 1, close - open - 1), minor));
    text.remove_prefix(close + 1);
  }
  absl::StrAppend(sql, text);
}

}  // namespace

std::string RocpdDataViews(int minor) {
  std::string sql;
  for (const ViewDefinition& view : kViews) {
    if (view.since > minor) continue;
    absl::StrAppend(&sql, "CREATE VIEW \"", view.name, "\" AS SELECT ");
    AppendExpanded(view.columns, minor, &sql);
    sql += " FROM ";
    AppendExpanded(view.from, minor, &sql);
    sql += ";\n";
  }
  return sql;
}

}  // namespace rocattach
