-- Version 3.0.1 of the rocpd schema: tables, the views with their plain names, and the
-- views that join them. {{guid}} is the database's identifier, {{suffix}} the end of its
-- table names. No index: viewers create their own.

CREATE TABLE "rocpd_metadata{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "tag" TEXT NOT NULL, "value" TEXT NOT NULL);

CREATE TABLE "rocpd_string{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "string" TEXT NOT NULL UNIQUE ON CONFLICT ABORT);

CREATE TABLE "rocpd_info_node{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "hash" BIGINT NOT NULL UNIQUE, "machine_id" TEXT NOT NULL UNIQUE, "system_name" TEXT,
  "hostname" TEXT, "release" TEXT, "version" TEXT, "hardware_name" TEXT, "domain_name" TEXT);

CREATE TABLE "rocpd_info_process{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "ppid" INTEGER, "pid" INTEGER NOT NULL, "init" BIGINT, "fini" BIGINT, "start" BIGINT,
  "end" BIGINT, "command" TEXT, "environment" JSONB NOT NULL DEFAULT '{}',
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_info_thread{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "ppid" INTEGER,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "tid" INTEGER NOT NULL, "name" TEXT, "start" BIGINT, "end" BIGINT,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_info_agent{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "type" TEXT CHECK ("type" IN ('CPU','GPU','NIC')), "absolute_index" INTEGER,
  "logical_index" INTEGER, "type_index" INTEGER, "uuid" INTEGER, "name" TEXT, "model_name" TEXT,
  "vendor_name" TEXT, "product_name" TEXT, "user_name" TEXT, "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_info_queue{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "name" TEXT, "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_info_stream{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "name" TEXT, "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_info_pmc{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "agent_id" INTEGER REFERENCES "rocpd_info_agent{{suffix}}" (id) ON UPDATE CASCADE,
  "target_arch" TEXT CHECK ("target_arch" IN ('CPU','GPU','NIC')), "event_code" INT,
  "instance_id" INTEGER, "name" TEXT NOT NULL, "symbol" TEXT NOT NULL, "description" TEXT,
  "long_description" TEXT DEFAULT '', "component" TEXT, "units" TEXT DEFAULT '',
  "value_type" TEXT CHECK ("value_type" IN ('ABS','ACCUM','RELATIVE')), "block" TEXT,
  "expression" TEXT, "is_constant" INTEGER, "is_derived" INTEGER,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_info_code_object{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "agent_id" INTEGER REFERENCES "rocpd_info_agent{{suffix}}" (id) ON UPDATE CASCADE, "uri" TEXT,
  "load_base" BIGINT, "load_size" BIGINT, "load_delta" BIGINT,
  "storage_type" TEXT CHECK ("storage_type" IN ('FILE','MEMORY')),
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_info_kernel_symbol{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "code_object_id" INTEGER NOT NULL REFERENCES "rocpd_info_code_object{{suffix}}" (id) ON UPDATE CASCADE,
  "kernel_name" TEXT, "display_name" TEXT, "kernel_object" INTEGER, "kernarg_segment_size" INTEGER,
  "kernarg_segment_alignment" INTEGER, "group_segment_size" INTEGER, "private_segment_size" INTEGER,
  "sgpr_count" INTEGER, "arch_vgpr_count" INTEGER, "accum_vgpr_count" INTEGER,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_track{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "tid" INTEGER REFERENCES "rocpd_info_thread{{suffix}}" (id) ON UPDATE CASCADE,
  "name_id" INTEGER REFERENCES "rocpd_string{{suffix}}" (id) ON UPDATE CASCADE,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_event{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "category_id" INTEGER REFERENCES "rocpd_string{{suffix}}" (id) ON UPDATE CASCADE,
  "stack_id" INTEGER, "parent_stack_id" INTEGER, "correlation_id" INTEGER,
  "call_stack" JSONB NOT NULL DEFAULT '{}', "line_info" JSONB NOT NULL DEFAULT '{}',
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_arg{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "event_id" INTEGER NOT NULL REFERENCES "rocpd_event{{suffix}}" (id) ON UPDATE CASCADE,
  "position" INTEGER NOT NULL, "type" TEXT NOT NULL, "name" TEXT NOT NULL, "value" TEXT,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_pmc_event{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "event_id" INTEGER REFERENCES "rocpd_event{{suffix}}" (id) ON UPDATE CASCADE,
  "pmc_id" INTEGER NOT NULL REFERENCES "rocpd_info_pmc{{suffix}}" (id) ON UPDATE CASCADE,
  "value" REAL DEFAULT 0.0, "extdata" JSONB DEFAULT '{}');

CREATE TABLE "rocpd_region{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "tid" INTEGER NOT NULL REFERENCES "rocpd_info_thread{{suffix}}" (id) ON UPDATE CASCADE,
  "start" BIGINT NOT NULL, "end" BIGINT NOT NULL,
  "name_id" INTEGER NOT NULL REFERENCES "rocpd_string{{suffix}}" (id) ON UPDATE CASCADE,
  "event_id" INTEGER REFERENCES "rocpd_event{{suffix}}" (id) ON UPDATE CASCADE,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_sample{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "track_id" INTEGER NOT NULL REFERENCES "rocpd_track{{suffix}}" (id) ON UPDATE CASCADE,
  "timestamp" BIGINT NOT NULL,
  "event_id" INTEGER REFERENCES "rocpd_event{{suffix}}" (id) ON UPDATE CASCADE,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_kernel_dispatch{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "tid" INTEGER REFERENCES "rocpd_info_thread{{suffix}}" (id) ON UPDATE CASCADE,
  "agent_id" INTEGER NOT NULL REFERENCES "rocpd_info_agent{{suffix}}" (id) ON UPDATE CASCADE,
  "kernel_id" INTEGER NOT NULL REFERENCES "rocpd_info_kernel_symbol{{suffix}}" (id) ON UPDATE CASCADE,
  "dispatch_id" INTEGER NOT NULL,
  "queue_id" INTEGER NOT NULL REFERENCES "rocpd_info_queue{{suffix}}" (id) ON UPDATE CASCADE,
  "stream_id" INTEGER NOT NULL REFERENCES "rocpd_info_stream{{suffix}}" (id) ON UPDATE CASCADE,
  "start" BIGINT NOT NULL, "end" BIGINT NOT NULL, "private_segment_size" INTEGER,
  "group_segment_size" INTEGER, "workgroup_size_x" INTEGER NOT NULL,
  "workgroup_size_y" INTEGER NOT NULL, "workgroup_size_z" INTEGER NOT NULL,
  "grid_size_x" INTEGER NOT NULL, "grid_size_y" INTEGER NOT NULL, "grid_size_z" INTEGER NOT NULL,
  "region_name_id" INTEGER REFERENCES "rocpd_string{{suffix}}" (id) ON UPDATE CASCADE,
  "event_id" INTEGER REFERENCES "rocpd_event{{suffix}}" (id) ON UPDATE CASCADE,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_memory_copy{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "tid" INTEGER REFERENCES "rocpd_info_thread{{suffix}}" (id) ON UPDATE CASCADE,
  "start" BIGINT NOT NULL, "end" BIGINT NOT NULL,
  "name_id" INTEGER NOT NULL REFERENCES "rocpd_string{{suffix}}" (id) ON UPDATE CASCADE,
  "dst_agent_id" INTEGER REFERENCES "rocpd_info_agent{{suffix}}" (id) ON UPDATE CASCADE,
  "dst_address" INTEGER,
  "src_agent_id" INTEGER REFERENCES "rocpd_info_agent{{suffix}}" (id) ON UPDATE CASCADE,
  "src_address" INTEGER, "size" INTEGER NOT NULL,
  "queue_id" INTEGER REFERENCES "rocpd_info_queue{{suffix}}" (id) ON UPDATE CASCADE,
  "stream_id" INTEGER REFERENCES "rocpd_info_stream{{suffix}}" (id) ON UPDATE CASCADE,
  "region_name_id" INTEGER REFERENCES "rocpd_string{{suffix}}" (id) ON UPDATE CASCADE,
  "event_id" INTEGER REFERENCES "rocpd_event{{suffix}}" (id) ON UPDATE CASCADE,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_memory_allocate{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "tid" INTEGER REFERENCES "rocpd_info_thread{{suffix}}" (id) ON UPDATE CASCADE,
  "agent_id" INTEGER REFERENCES "rocpd_info_agent{{suffix}}" (id) ON UPDATE CASCADE,
  "type" TEXT CHECK ("type" IN ('ALLOC','FREE','REALLOC','RECLAIM')),
  "level" TEXT CHECK ("level" IN ('REAL','VIRTUAL','SCRATCH')), "start" BIGINT NOT NULL,
  "end" BIGINT NOT NULL, "address" INTEGER, "size" INTEGER NOT NULL,
  "queue_id" INTEGER REFERENCES "rocpd_info_queue{{suffix}}" (id) ON UPDATE CASCADE,
  "stream_id" INTEGER REFERENCES "rocpd_info_stream{{suffix}}" (id) ON UPDATE CASCADE,
  "event_id" INTEGER REFERENCES "rocpd_event{{suffix}}" (id) ON UPDATE CASCADE,
  "extdata" JSONB NOT NULL DEFAULT '{}');

CREATE TABLE "rocpd_event_operation{{suffix}}" (
  "id" INTEGER PRIMARY KEY NOT NULL, "guid" TEXT DEFAULT '{{guid}}' NOT NULL,
  "nid" INTEGER NOT NULL REFERENCES "rocpd_info_node{{suffix}}" (id) ON UPDATE CASCADE,
  "pid" INTEGER NOT NULL REFERENCES "rocpd_info_process{{suffix}}" (id) ON UPDATE CASCADE,
  "tid" INTEGER REFERENCES "rocpd_info_thread{{suffix}}" (id) ON UPDATE CASCADE,
  "agent_id" INTEGER NOT NULL REFERENCES "rocpd_info_agent{{suffix}}" (id) ON UPDATE CASCADE,
  "event_obj" INTEGER NOT NULL, "type_id" INTEGER NOT NULL, "issue_id" INTEGER NOT NULL,
  "queue_id" INTEGER NOT NULL REFERENCES "rocpd_info_queue{{suffix}}" (id) ON UPDATE CASCADE,
  "stream_id" INTEGER NOT NULL REFERENCES "rocpd_info_stream{{suffix}}" (id) ON UPDATE CASCADE,
  "start" BIGINT NOT NULL, "end" BIGINT NOT NULL, "type" TEXT CHECK ("type" IN ('WAIT','SIGNAL')),
  "event_id" INTEGER REFERENCES "rocpd_event{{suffix}}" (id) ON UPDATE CASCADE);

CREATE VIEW "rocpd_metadata" AS SELECT * FROM "rocpd_metadata{{suffix}}";
CREATE VIEW "rocpd_string" AS SELECT * FROM "rocpd_string{{suffix}}";
CREATE VIEW "rocpd_info_node" AS SELECT * FROM "rocpd_info_node{{suffix}}";
CREATE VIEW "rocpd_info_process" AS SELECT * FROM "rocpd_info_process{{suffix}}";
CREATE VIEW "rocpd_info_thread" AS SELECT * FROM "rocpd_info_thread{{suffix}}";
CREATE VIEW "rocpd_info_agent" AS SELECT * FROM "rocpd_info_agent{{suffix}}";
CREATE VIEW "rocpd_info_queue" AS SELECT * FROM "rocpd_info_queue{{suffix}}";
CREATE VIEW "rocpd_info_stream" AS SELECT * FROM "rocpd_info_stream{{suffix}}";
CREATE VIEW "rocpd_info_pmc" AS SELECT * FROM "rocpd_info_pmc{{suffix}}";
CREATE VIEW "rocpd_info_code_object" AS SELECT * FROM "rocpd_info_code_object{{suffix}}";
CREATE VIEW "rocpd_info_kernel_symbol" AS SELECT * FROM "rocpd_info_kernel_symbol{{suffix}}";
CREATE VIEW "rocpd_track" AS SELECT * FROM "rocpd_track{{suffix}}";
CREATE VIEW "rocpd_event" AS SELECT * FROM "rocpd_event{{suffix}}";
CREATE VIEW "rocpd_arg" AS SELECT * FROM "rocpd_arg{{suffix}}";
CREATE VIEW "rocpd_pmc_event" AS SELECT * FROM "rocpd_pmc_event{{suffix}}";
CREATE VIEW "rocpd_region" AS SELECT * FROM "rocpd_region{{suffix}}";
CREATE VIEW "rocpd_sample" AS SELECT * FROM "rocpd_sample{{suffix}}";
CREATE VIEW "rocpd_kernel_dispatch" AS SELECT * FROM "rocpd_kernel_dispatch{{suffix}}";
CREATE VIEW "rocpd_memory_copy" AS SELECT * FROM "rocpd_memory_copy{{suffix}}";
CREATE VIEW "rocpd_memory_allocate" AS SELECT * FROM "rocpd_memory_allocate{{suffix}}";
CREATE VIEW "rocpd_event_operation" AS SELECT * FROM "rocpd_event_operation{{suffix}}";

CREATE VIEW "code_objects" AS
  SELECT
    O.id, O.guid, O.nid, P.pid, A.absolute_index AS agent_abs_index, O.uri, O.load_base, O.load_size,
    O.load_delta, O.storage_type AS storage_type_str,
    json_extract(O.extdata, '$.size') AS code_object_size,
    json_extract(O.extdata, '$.storage_type') AS storage_type,
    json_extract(O.extdata, '$.memory_base') AS memory_base,
    json_extract(O.extdata, '$.memory_size') AS memory_size
  FROM rocpd_info_code_object O
  JOIN rocpd_info_agent A ON A.id = O.agent_id AND A.guid = O.guid
  JOIN rocpd_info_process P ON P.id = O.pid AND P.guid = O.guid;

CREATE VIEW "kernel_symbols" AS
  SELECT
    K.id, K.guid, K.nid, P.pid, K.code_object_id, K.kernel_name, K.display_name, K.kernel_object,
    K.kernarg_segment_size, K.kernarg_segment_alignment, K.group_segment_size, K.private_segment_size,
    K.sgpr_count, K.arch_vgpr_count, K.accum_vgpr_count,
    json_extract(K.extdata, '$.size') AS kernel_symbol_size,
    json_extract(K.extdata, '$.kernel_id') AS kernel_id,
    json_extract(K.extdata, '$.kernel_code_entry_byte_offset') AS kernel_code_entry_byte_offset,
    json_extract(K.extdata, '$.formatted_kernel_name') AS formatted_kernel_name,
    json_extract(K.extdata, '$.demangled_kernel_name') AS demangled_kernel_name,
    json_extract(K.extdata, '$.truncated_kernel_name') AS truncated_kernel_name,
    json_extract(K.extdata, '$.kernel_address.handle') AS kernel_address
  FROM rocpd_info_kernel_symbol K
  JOIN rocpd_info_process P ON P.id = K.pid AND P.guid = K.guid;

CREATE VIEW "processes" AS
  SELECT N.id AS nid, N.machine_id, N.system_name, N.hostname, N.release AS system_release,
    N.version AS system_version, P.guid, P.ppid, P.pid, P.init, P.start, P.end, P.fini, P.command
  FROM rocpd_info_process P
  JOIN rocpd_info_node N ON N.id = P.nid AND N.guid = P.guid;

CREATE VIEW "threads" AS
  SELECT N.id AS nid, N.machine_id, N.system_name, N.hostname, N.release AS system_release,
    N.version AS system_version, P.guid, P.ppid, P.pid, T.tid, T.start, T.end, T.name
  FROM rocpd_info_thread T
  JOIN rocpd_info_process P ON P.id = T.pid AND P.guid = T.guid
  JOIN rocpd_info_node N ON N.id = T.nid AND N.guid = T.guid;

CREATE VIEW "regions" AS
  SELECT R.id, R.guid,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    S.string AS name, R.nid, P.pid, T.tid, R.start, R.end, (R.end - R.start) AS duration, R.event_id,
    E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id, E.extdata, E.call_stack, E.line_info
  FROM rocpd_region R
  JOIN rocpd_event E ON E.id = R.event_id AND E.guid = R.guid
  JOIN rocpd_string S ON S.id = R.name_id AND S.guid = R.guid
  JOIN rocpd_info_process P ON P.id = R.pid AND P.guid = R.guid
  JOIN rocpd_info_thread T ON T.id = R.tid AND T.guid = R.guid;

CREATE VIEW "region_args" AS
  SELECT R.id, R.guid, R.nid, P.pid, X.type, X.name, X.value
  FROM rocpd_region R
  JOIN rocpd_event E ON E.id = R.event_id AND E.guid = R.guid
  JOIN rocpd_arg X ON X.event_id = E.id AND X.guid = R.guid
  JOIN rocpd_info_process P ON P.id = R.pid AND P.guid = R.guid;

CREATE VIEW "samples" AS
  SELECT R.id, R.guid,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    (SELECT x.string FROM rocpd_string x WHERE x.id = T.name_id AND x.guid = T.guid) AS name, T.nid,
    P.pid, H.tid, R.timestamp, R.event_id, E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id,
    E.extdata, E.call_stack, E.line_info
  FROM rocpd_sample R
  JOIN rocpd_track T ON T.id = R.track_id AND T.guid = R.guid
  JOIN rocpd_event E ON E.id = R.event_id AND E.guid = R.guid
  JOIN rocpd_info_process P ON P.id = T.pid AND P.guid = T.guid
  JOIN rocpd_info_thread H ON H.id = T.tid AND H.guid = T.guid;

CREATE VIEW "sample_regions" AS
  SELECT R.id, R.guid,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    (SELECT x.string FROM rocpd_string x WHERE x.id = T.name_id AND x.guid = T.guid) AS name, T.nid,
    P.pid, H.tid, R.timestamp AS start, R.timestamp AS end, 0 AS duration, R.event_id, E.stack_id,
    E.parent_stack_id, E.correlation_id AS corr_id, E.extdata, E.call_stack, E.line_info
  FROM rocpd_sample R
  JOIN rocpd_track T ON T.id = R.track_id AND T.guid = R.guid
  JOIN rocpd_event E ON E.id = R.event_id AND E.guid = R.guid
  JOIN rocpd_info_process P ON P.id = T.pid AND P.guid = T.guid
  JOIN rocpd_info_thread H ON H.id = T.tid AND H.guid = T.guid;

CREATE VIEW "regions_and_samples" AS
  SELECT *
  FROM regions
  UNION ALL SELECT * FROM sample_regions;

CREATE VIEW "kernels" AS
  SELECT D.id, D.guid, T.tid,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    S.string AS region, K.display_name AS name, D.nid, P.pid, A.absolute_index AS agent_abs_index,
    A.logical_index AS agent_log_index, A.type_index AS agent_type_index, A.type AS agent_type,
    K.code_object_id, D.kernel_id, D.dispatch_id, D.stream_id, D.queue_id, Q.name AS queue,
    M.name AS stream, D.start, D.end, (D.end - D.start) AS duration, D.grid_size_x AS grid_x,
    D.grid_size_y AS grid_y, D.grid_size_z AS grid_z, D.workgroup_size_x AS workgroup_x,
    D.workgroup_size_y AS workgroup_y, D.workgroup_size_z AS workgroup_z,
    D.group_segment_size AS lds_size, D.private_segment_size AS scratch_size,
    K.arch_vgpr_count AS vgpr_count, K.accum_vgpr_count, K.sgpr_count,
    K.group_segment_size AS static_lds_size, K.private_segment_size AS static_scratch_size,
    E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id
  FROM rocpd_kernel_dispatch D
  JOIN rocpd_info_agent A ON A.id = D.agent_id AND A.guid = D.guid
  JOIN rocpd_event E ON E.id = D.event_id AND E.guid = D.guid
  JOIN rocpd_string S ON S.id = D.region_name_id AND S.guid = D.guid
  JOIN rocpd_info_kernel_symbol K ON K.id = D.kernel_id AND K.guid = D.guid
  LEFT JOIN rocpd_info_stream M ON M.id = D.stream_id AND M.guid = D.guid
  LEFT JOIN rocpd_info_queue Q ON Q.id = D.queue_id AND Q.guid = D.guid
  JOIN rocpd_info_process P ON P.id = D.pid AND P.guid = D.guid
  JOIN rocpd_info_thread T ON T.id = D.tid AND T.guid = D.guid;

CREATE VIEW "pmc_info" AS
  SELECT
    C.id, C.guid, C.nid, P.pid, A.absolute_index AS agent_abs_index, C.is_constant, C.is_derived,
    C.name, C.description, C.block, C.expression
  FROM rocpd_info_pmc C
  JOIN rocpd_info_agent A ON A.id = C.agent_id AND A.guid = C.guid
  JOIN rocpd_info_process P ON P.id = C.pid AND P.guid = C.guid;

CREATE VIEW "pmc_events" AS
  SELECT V.id, V.guid, V.pmc_id, E.id AS event_id,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    (SELECT K.display_name FROM rocpd_info_kernel_symbol K WHERE K.id = D.kernel_id AND K.guid =
    D.guid) AS name,
    D.nid, P.pid, D.dispatch_id, D.start, D.end, (D.end - D.start) AS duration,
    C.name AS counter_name, V.value AS counter_value
  FROM rocpd_pmc_event V
  JOIN rocpd_info_pmc C ON C.id = V.pmc_id AND C.guid = V.guid
  JOIN rocpd_event E ON E.id = V.event_id AND E.guid = V.guid
  JOIN rocpd_kernel_dispatch D ON D.event_id = V.event_id AND D.guid = V.guid
  JOIN rocpd_info_process P ON P.id = D.pid AND P.guid = D.guid;

CREATE VIEW "events_args" AS
  SELECT E.id AS event_id,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    E.stack_id, E.parent_stack_id, E.correlation_id, X.position AS arg_position, X.type AS arg_type,
    X.name AS arg_name, X.value AS arg_value, E.call_stack, E.line_info, X.extdata
  FROM rocpd_event E
  JOIN rocpd_arg X ON X.event_id = E.id AND X.guid = E.guid;

CREATE VIEW "stream_args" AS
  SELECT X.id AS argument_id, X.event_id, X.position AS arg_position, X.type AS arg_type,
    X.value AS arg_value, json_extract(X.extdata, '$.stream_id') AS stream_id, M.nid, P.pid,
    M.name AS stream_name, M.extdata
  FROM rocpd_arg X
  JOIN rocpd_info_stream M ON M.id = json_extract(X.extdata, '$.stream_id') AND M.guid = X.guid
  JOIN rocpd_info_process P ON P.id = M.pid AND P.guid = M.guid
  WHERE X.name = 'stream';

CREATE VIEW "memory_copies" AS
  SELECT M.id, M.guid,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    M.nid, P.pid, T.tid, M.start, M.end, (M.end - M.start) AS duration, S.string AS name,
    R.string AS region_name, M.stream_id, M.queue_id, L.name AS stream_name, Q.name AS queue_name,
    M.size, A.name AS dst_device, A.absolute_index AS dst_agent_abs_index,
    A.logical_index AS dst_agent_log_index, A.type_index AS dst_agent_type_index,
    A.type AS dst_agent_type, M.dst_address, B.name AS src_device,
    B.absolute_index AS src_agent_abs_index, B.logical_index AS src_agent_log_index,
    B.type_index AS src_agent_type_index, B.type AS src_agent_type, M.src_address, E.stack_id,
    E.parent_stack_id, E.correlation_id AS corr_id
  FROM rocpd_memory_copy M
  JOIN rocpd_string S ON S.id = M.name_id AND S.guid = M.guid
  LEFT JOIN rocpd_string R ON R.id = M.region_name_id AND R.guid = M.guid
  JOIN rocpd_info_agent A ON A.id = M.dst_agent_id AND A.guid = M.guid
  JOIN rocpd_info_agent B ON B.id = M.src_agent_id AND B.guid = M.guid
  LEFT JOIN rocpd_info_queue Q ON Q.id = M.queue_id AND Q.guid = M.guid
  LEFT JOIN rocpd_info_stream L ON L.id = M.stream_id AND L.guid = M.guid
  JOIN rocpd_event E ON E.id = M.event_id AND E.guid = M.guid
  JOIN rocpd_info_process P ON P.id = M.pid AND P.guid = M.guid
  JOIN rocpd_info_thread T ON T.id = M.tid AND T.guid = M.guid;

CREATE VIEW "memory_allocations" AS
  SELECT M.id, M.guid,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    M.nid, P.pid, T.tid, M.start, M.end, (M.end - M.start) AS duration, M.type, M.level,
    A.name AS agent_name, A.absolute_index AS agent_abs_index, A.logical_index AS agent_log_index,
    A.type_index AS agent_type_index, A.type AS agent_type, M.address, M.size, M.queue_id,
    Q.name AS queue_name, M.stream_id, L.name AS stream_name, E.stack_id, E.parent_stack_id,
    E.correlation_id AS corr_id
  FROM rocpd_memory_allocate M
  LEFT JOIN rocpd_info_agent A ON A.id = M.agent_id AND A.guid = M.guid
  LEFT JOIN rocpd_info_queue Q ON Q.id = M.queue_id AND Q.guid = M.guid
  LEFT JOIN rocpd_info_stream L ON L.id = M.stream_id AND L.guid = M.guid
  JOIN rocpd_event E ON E.id = M.event_id AND E.guid = M.guid
  JOIN rocpd_info_process P ON P.id = M.pid AND P.guid = M.guid
  JOIN rocpd_info_thread T ON T.id = M.tid AND T.guid = M.guid;

CREATE VIEW "scratch_memory" AS
  SELECT M.id, M.guid, M.nid, P.pid, M.type AS operation, A.name AS agent_name,
    A.absolute_index AS agent_abs_index, A.logical_index AS agent_log_index,
    A.type_index AS agent_type_index, A.type AS agent_type, M.queue_id, T.tid,
    json_extract(M.extdata, '$.flags') AS alloc_flags, M.start, M.end, (M.end - M.start) AS duration,
    M.size, M.address, E.correlation_id, E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    E.extdata AS event_extdata
  FROM rocpd_memory_allocate M
  LEFT JOIN rocpd_info_agent A ON A.id = M.agent_id AND A.guid = M.guid
  JOIN rocpd_event E ON E.id = M.event_id AND E.guid = M.guid
  JOIN rocpd_info_process P ON P.id = M.pid AND P.guid = M.guid
  JOIN rocpd_info_thread T ON T.id = M.tid AND T.guid = M.guid
  WHERE M.level = 'SCRATCH'
  ORDER BY M.start;

CREATE VIEW "counters_collection" AS
  SELECT MIN(V.id) AS id, V.guid, D.dispatch_id, D.kernel_id, E.id AS event_id, E.correlation_id,
    E.stack_id, E.parent_stack_id, P.pid, T.tid, D.agent_id, A.absolute_index AS agent_abs_index,
    A.logical_index AS agent_log_index, A.type_index AS agent_type_index, A.type AS agent_type,
    D.queue_id, D.grid_size_x, D.grid_size_y, D.grid_size_z,
    (D.grid_size_x * D.grid_size_y * D.grid_size_z) AS grid_size, K.display_name AS kernel_name,
    (SELECT x.string FROM rocpd_string x WHERE x.id = D.region_name_id AND x.guid = D.guid) AS
    kernel_region,
    D.workgroup_size_x, D.workgroup_size_y, D.workgroup_size_z,
    (D.workgroup_size_x * D.workgroup_size_y * D.workgroup_size_z) AS workgroup_size,
    D.group_segment_size AS lds_block_size, D.private_segment_size AS scratch_size,
    K.arch_vgpr_count AS vgpr_count, K.accum_vgpr_count, K.sgpr_count, C.name AS counter_name,
    C.symbol AS counter_symbol, C.component, C.description, C.block, C.expression, C.value_type,
    C.id AS counter_id, SUM(V.value) AS value, D.start, D.end, C.is_constant, C.is_derived,
    (D.end - D.start) AS duration,
    (SELECT x.string FROM rocpd_string x WHERE x.id = E.category_id AND x.guid = E.guid) AS category,
    D.nid, E.extdata, K.code_object_id
  FROM rocpd_pmc_event V
  JOIN rocpd_info_pmc C ON C.id = V.pmc_id AND C.guid = V.guid
  JOIN rocpd_event E ON E.id = V.event_id AND E.guid = V.guid
  JOIN rocpd_kernel_dispatch D ON D.event_id = V.event_id AND D.guid = V.guid
  JOIN rocpd_info_agent A ON A.id = D.agent_id AND A.guid = D.guid
  JOIN rocpd_info_kernel_symbol K ON K.id = D.kernel_id AND K.guid = D.guid
  JOIN rocpd_info_process P ON P.id = D.pid AND P.guid = D.guid
  JOIN rocpd_info_thread T ON T.id = D.tid AND T.guid = D.guid
  GROUP BY V.guid, D.dispatch_id, C.name, D.agent_id;

CREATE VIEW "top_kernels" AS
  SELECT K.display_name AS name, COUNT(D.kernel_id) AS total_calls,
    SUM(D.end - D.start) / 1000.0 AS total_duration,
    (SUM(D.end - D.start) / COUNT(D.kernel_id)) / 1000.0 AS average,
    SUM(D.end - D.start) * 100.0 / (SELECT SUM(X.end - X.start) FROM rocpd_kernel_dispatch X) AS
    percentage
  FROM rocpd_kernel_dispatch D
  JOIN rocpd_info_kernel_symbol K ON K.id = D.kernel_id AND K.guid = D.guid
  GROUP BY name
  ORDER BY total_duration DESC;

CREATE VIEW "busy" AS
  SELECT W.agent_id, A.type, W.GpuTime, S.WallTime, W.GpuTime * 1.0 / S.WallTime AS Busy
  FROM (SELECT agent_id, guid, SUM("end" - start) AS GpuTime FROM (SELECT agent_id, guid, start,
      "end" FROM rocpd_kernel_dispatch UNION ALL SELECT dst_agent_id, guid, start, "end" FROM
      rocpd_memory_copy) GROUP BY agent_id, guid) W
  JOIN (SELECT MAX("end") - MIN(start) AS WallTime FROM (SELECT start, "end" FROM
      rocpd_kernel_dispatch UNION ALL SELECT start, "end" FROM rocpd_memory_copy)) S
  JOIN rocpd_info_agent A ON A.id = W.agent_id AND A.guid = W.guid;

CREATE VIEW "top" AS
  SELECT name, COUNT(*) AS total_calls, SUM(duration) / 1000.0 AS total_duration,
    (SUM(duration) / COUNT(*)) / 1000.0 AS average,
    SUM(duration) * 100.0 / (SELECT SUM(duration) FROM (SELECT duration FROM kernels UNION ALL SELECT
    duration FROM memory_copies UNION ALL SELECT duration FROM regions)) AS percentage
  FROM (SELECT name, duration FROM kernels UNION ALL SELECT name, duration FROM memory_copies UNION
      ALL SELECT name, duration FROM regions)
  GROUP BY name
  ORDER BY total_duration DESC;

INSERT INTO "rocpd_metadata{{suffix}}" ("tag", "value") VALUES ('schema_version', '3'), ('uuid',
    '{{suffix}}'), ('guid', '{{guid}}'), ('rocattach_schema', '3.0.1');
