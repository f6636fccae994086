#!/usr/bin/env python3
"""Reads rocpd databases with python3's own sqlite3.

usage: convert_rocpd_test.py ROCATTACH MAKE_RECORDING
"""

import collections
import json
import math
import os
import sqlite3

from export_testing import (
    API_KINDS,
    DISPATCHES,
    NODES,
    OTHER_COUNT,
    ConvertTestCase,
    main,
    stream_name,
)

# The columns of the views that other tools read, from version 3.0.0 on. (2:…) exists
# from version 3.0.2 on.
AGENT = "agent_abs_index agent_log_index agent_type_index agent_type"
COUNTED = (
    "id guid dispatch_id kernel_id event_id correlation_id stack_id parent_stack_id pid tid "
    f"agent_id {AGENT} queue_id grid_size_x grid_size_y grid_size_z grid_size kernel_name "
    "kernel_region workgroup_size_x workgroup_size_y workgroup_size_z workgroup_size "
    "lds_block_size scratch_size vgpr_count accum_vgpr_count sgpr_count counter_name "
    "counter_symbol component description block expression value_type counter_id"
)
REGION = (
    "id guid category name nid pid tid start end duration event_id stack_id parent_stack_id "
    "corr_id extdata call_stack line_info"
)
VIEWS = {
    "code_objects": "id guid nid pid agent_abs_index uri load_base load_size load_delta "
    "storage_type_str code_object_size storage_type memory_base memory_size",
    "kernel_symbols": "id guid nid pid code_object_id kernel_name display_name kernel_object "
    "kernarg_segment_size kernarg_segment_alignment group_segment_size private_segment_size "
    "sgpr_count arch_vgpr_count accum_vgpr_count kernel_symbol_size kernel_id "
    "kernel_code_entry_byte_offset formatted_kernel_name demangled_kernel_name "
    "truncated_kernel_name kernel_address",
    "processes": "nid machine_id system_name hostname system_release system_version guid ppid "
    "pid init start end fini command",
    "threads": "nid machine_id system_name hostname system_release system_version guid ppid pid "
    "tid start end name",
    "regions": REGION,
    "region_args": "id guid nid pid type name value",
    "samples": "id guid category name nid pid tid timestamp event_id stack_id parent_stack_id "
    "corr_id extdata call_stack line_info",
    "sample_regions": REGION,
    "regions_and_samples": REGION,
    "kernels": f"id guid tid category region name nid pid {AGENT} code_object_id kernel_id "
    "dispatch_id stream_id queue_id (2:graph_exec_id) (2:graph_node_id) queue stream start end "
    "duration grid_x grid_y grid_z workgroup_x workgroup_y workgroup_z lds_size scratch_size "
    "vgpr_count accum_vgpr_count sgpr_count static_lds_size static_scratch_size (2:event_id) "
    "stack_id parent_stack_id corr_id",
    "pmc_info": "id guid nid pid agent_abs_index is_constant is_derived name description block "
    "expression",
    "pmc_events": "id guid pmc_id event_id category name nid pid dispatch_id start end duration "
    "counter_name counter_value",
    "events_args": "event_id category stack_id parent_stack_id correlation_id arg_position "
    "arg_type arg_name arg_value call_stack line_info extdata",
    "stream_args": "argument_id event_id arg_position arg_type arg_value stream_id nid pid "
    "stream_name extdata",
    "memory_copies": "id guid category nid pid tid start end duration name region_name "
    "stream_id queue_id (2:graph_exec_id) (2:graph_node_id) stream_name queue_name size "
    "dst_device dst_agent_abs_index dst_agent_log_index dst_agent_type_index dst_agent_type "
    "dst_address src_device src_agent_abs_index src_agent_log_index src_agent_type_index "
    "src_agent_type src_address stack_id parent_stack_id corr_id",
    "memory_allocations": "id guid category nid pid tid start end duration type level "
    f"agent_name {AGENT} address size queue_id queue_name stream_id stream_name stack_id "
    "parent_stack_id corr_id",
    "scratch_memory": f"id guid nid pid operation agent_name {AGENT} queue_id tid alloc_flags "
    "start end duration size address correlation_id stack_id parent_stack_id corr_id category "
    "event_extdata",
    "counters_collection": f"{COUNTED} value start end is_constant is_derived duration "
    "category nid extdata code_object_id",
    "graph_launches": f"(2:id) (2:guid) (2:nid) (2:pid) (2:tid) (2:agent_id) "
    + " ".join(f"(2:{column})" for column in AGENT.split())
    + " (2:queue_id) (2:queue) (2:name) (2:start) (2:end) (2:duration) (2:graph_exec_id) "
    "(2:kernel_dispatch_count) (2:event_id) (2:stack_id) (2:parent_stack_id) (2:corr_id)",
    "spm_counters": " ".join(
        f"(3:{column})" for column in f"{COUNTED} xcc shader_engine instance value timestamp "
        "is_constant is_derived category nid extdata code_object_id".split()),
}


def columns_of(view, version):
    """The documented columns of a view."""
    columns = []
    for column in VIEWS[view].split():
        if column.startswith("("):
            if int(column[1]) > int(version[-1]):
                continue
            column = column[3:-1]
        columns.append(column)
    return columns


class RocpdTest(ConvertTestCase):
    def test_rocpd_metadata_and_tables(self):
        for version in ("3.0.0", "3.0.1", "3.0.2", "3.0.3"):
            with self.subTest(version):
                self.convert("rocpd", "--rocpd-schema", version, "--force")
                with self.database(self.processes[0]) as db:
                    self.check_schema(db, version)

    def check_schema(self, db, version):
        metadata = dict(db.execute("SELECT tag, value FROM rocpd_metadata"))
        self.assertEqual(metadata["schema_version"], "3")
        self.assertEqual(metadata["rocattach_schema"], version)
        self.assertEqual(metadata["uuid"], "_" + metadata["guid"].replace("-", "_"))
        self.assertRegex(metadata["guid"], r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-"
                                           r"[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        names = dict(db.execute("SELECT name, type FROM sqlite_master"))
        base = ("metadata string info_node info_process info_thread info_agent info_queue "
                "info_stream info_pmc info_code_object info_kernel_symbol track event arg "
                "pmc_event region sample kernel_dispatch memory_copy memory_allocate").split()
        for name in base:
            self.assertEqual(names["rocpd_" + name + metadata["uuid"]], "table")
            self.assertEqual(names["rocpd_" + name], "view")
        views = ("code_objects kernel_symbols processes threads regions region_args samples "
                 "sample_regions regions_and_samples kernels pmc_info pmc_events events_args "
                 "stream_args memory_copies memory_allocations scratch_memory "
                 "counters_collection top_kernels busy top").split()
        for name in views:
            self.assertEqual(names[name], "view")
            db.execute(f"SELECT * FROM {name} LIMIT 1").fetchall()
        self.assertEqual("rocpd_event_operation" in names, version >= "3.0.1")
        self.assertEqual("rocpd_graph_launch" in names, version >= "3.0.2")
        self.assertEqual("graph_launches" in names, version >= "3.0.2")
        self.assertEqual("spm_counters" in names, version >= "3.0.3")
        for view in VIEWS:
            got = [c[1] for c in db.execute(f"PRAGMA table_info({view})")]
            self.assertEqual(got, columns_of(view, version), view)
        columns = [c[1] for c in db.execute("PRAGMA table_info(rocpd_pmc_event)")]
        self.assertEqual("sample_id" in columns, version >= "3.0.3")
        columns = [c[1] for c in db.execute("PRAGMA table_info(rocpd_kernel_dispatch)")]
        self.assertEqual("graph_exec_id" in columns, version >= "3.0.2")
        # Viewers create their own indexes.
        indexes = db.execute(
            "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        self.assertEqual(indexes.fetchone()[0], 0)
        for check in ("foreign_key_check", "integrity_check"):
            wrong = [row for row in db.execute("PRAGMA " + check) if row != ("ok",)]
            self.assertEqual(wrong, [])

    def test_rocpd_kernels(self):
        self.convert("rocpd")
        for process in self.processes:
            with self.database(process) as db:
                got = db.execute(
                    "SELECT dispatch_id, kernel_id, name, pid, tid, queue_id, stream_id, start, "
                    "end, grid_x, grid_y, grid_z, workgroup_x, workgroup_y, workgroup_z, "
                    "lds_size, scratch_size, agent_abs_index, agent_type, stack_id, category, "
                    "region, stream, vgpr_count FROM kernels ORDER BY dispatch_id").fetchall()
                self.assertEqual(len(got), DISPATCHES)
                for row, d in zip(got, process.of["dispatch"]):
                    start, end = d["start_ns"], d["end_ns"]
                    if not process.timed(d):
                        start = end = d["enqueue_ns"]
                    kernel = process.kernel(d)
                    self.assertEqual(row, (
                        d["dispatch_id"], d["kernel_id"], kernel["display_name"], process.pid,
                        d["tid"], d["queue_id"], d.get("hip_stream", 0), start, end,
                        *d["grid"], *d["workgroup"],
                        d["lds_bytes"], d["scratch_bytes"], NODES[d["agent_id"]], "GPU",
                        d["linked_id"], "KERNEL_DISPATCH", "", stream_name(d),
                        kernel["arch_vgprs"]))
                raw = dict(db.execute("SELECT id, kernel_name FROM rocpd_info_kernel_symbol"))
                for number, kernel in process.kernels.items():
                    self.assertEqual(raw[number], kernel["name"])
                threads = dict(db.execute("SELECT tid, name FROM rocpd_info_thread"))
                named = {t["tid"]: t["name"] for t in process.of["thread"]}
                self.assertTrue(named)
                for tid, name in threads.items():
                    self.assertEqual(name, named.get(tid))
                queues = dict(db.execute("SELECT id, name FROM rocpd_info_queue"))
                self.assertEqual(queues[0], "Default Queue")
                calls = dict(db.execute("SELECT name, total_calls FROM top_kernels"))
                count = collections.Counter(
                    process.kernel(d)["display_name"] for d in process.of["dispatch"])
                self.assertEqual(calls, count)

    def test_rocpd_counters_as_rocprof_compute_reads_them(self):
        self.convert("rocpd")
        for process in self.processes:
            with self.database(process) as db:
                got = db.execute(
                    "SELECT agent_id AS GPU_ID, dispatch_id AS Dispatch_ID, grid_size, "
                    "workgroup_size, lds_block_size, scratch_size, vgpr_count, "
                    "accum_vgpr_count, sgpr_count, kernel_name, start, end, kernel_id, "
                    "counter_name, value, guid, stack_id, pid FROM counters_collection "
                    "ORDER BY dispatch_id, counter_name").fetchall()
            self.assertEqual(len(got), len(process.of["counter"]))
            values = sorted(process.of["counter"],
                            key=lambda v: (v["correlation_id"], v["counter"]))
            for row, v in zip(got, values):
                d = process.by_correlation[v["correlation_id"]]
                self.assertEqual(row[:2], (NODES[d["agent_id"]], d["dispatch_id"]))
                self.assertEqual(row[2], math.prod(d["grid"]))
                self.assertEqual(row[9], process.kernel(d)["display_name"])
                self.assertEqual(row[13], v["counter"])
                self.assertAlmostEqual(row[14], v["sum"], 6)  # the sum over instances
                self.assertEqual(row[16:], (d["linked_id"], process.pid))

    def test_rocpd_describes_counters(self):
        self.convert("rocpd")
        with self.database(self.processes[0]) as db:
            rows = db.execute("SELECT DISTINCT name, block, expression, is_derived, "
                              "description <> '' FROM pmc_info ORDER BY name").fetchall()
        self.assertEqual(rows, [("SQ_WAVES", "SQ", "", 0, 1), ("TCC_HIT", "TCC", "", 0, 1)])

    def test_rocpd_copies_and_regions(self):
        self.convert("rocpd")
        for process in self.processes:
            with self.database(process) as db:
                got = db.execute(
                    "SELECT name, tid, start, end, size, dst_agent_abs_index, "
                    "src_agent_abs_index, dst_address, src_address, stack_id, stream_id, "
                    "stream_name FROM "
                    "memory_copies ORDER BY id").fetchall()
                want = [("MEMORY_COPY_" + c["direction"].upper(), c["tid"], c["start_ns"],
                         c["end_ns"], c["bytes"], NODES[c["dst_agent_id"]],
                         NODES[c["src_agent_id"]], c["dst_address"], c["src_address"],
                         c["linked_id"], c.get("hip_stream", 0), stream_name(c))
                        for c in process.of["copy"]]
                self.assertEqual(got, want)
                got = db.execute(
                    "SELECT id, category, name, pid, tid, start, end, stack_id, "
                    "parent_stack_id, json_extract(extdata, '$.message') "
                    "FROM regions_and_samples WHERE category <> 'DEVICE_COUNTERS' "
                    "ORDER BY id").fetchall()
                want = [(c["correlation_id"], API_KINDS[c["domain"], c["function_id"]],
                         c["function"], process.pid, c["tid"], c["begin_ns"], c["end_ns"],
                         c["correlation_id"], c["ancestor_id"], c.get("text"))
                        for c in sorted(process.calls, key=lambda c: c["correlation_id"])]
                self.assertEqual(got, want)
                # Readers join these: only launches may match.
                got = db.execute(
                    "SELECT r.id, k.dispatch_id FROM regions_and_samples r JOIN kernels k "
                    "ON k.stack_id = r.stack_id ORDER BY k.dispatch_id").fetchall()
                want = [(d["linked_id"], d["dispatch_id"]) for d in process.of["dispatch"]
                        if d["linked_id"] < OTHER_COUNT]
                self.assertEqual(len(want), DISPATCHES // 10)
                self.assertEqual(got, want)
                got = db.execute("SELECT count(*) FROM regions_and_samples r JOIN "
                                 "memory_copies c ON c.stack_id = r.stack_id").fetchone()
                self.assertEqual(got, (0,))
                (samples,) = db.execute(
                    "SELECT count(*) FROM samples WHERE category = 'DEVICE_COUNTERS'").fetchone()
                self.assertEqual(samples, len({s["sample_id"] for s in process.of["sample"]}))
                # Readers expect a message in any object other than "{}".
                for table in ("regions", "samples"):
                    for (extdata,) in db.execute(f"SELECT DISTINCT extdata FROM {table}"):
                        self.assertTrue(extdata == "{}" or "message" in json.loads(extdata))

    def test_rocpd_is_writable_and_plain(self):
        self.convert("rocpd")
        path = self.path(self.processes[0], "results.db")
        with sqlite3.connect(path) as db:
            db.execute("CREATE INDEX i ON rocpd_kernel_dispatch%s (start)" % dict(
                db.execute("SELECT tag, value FROM rocpd_metadata"))["uuid"])
        self.assertEqual([n for n in os.listdir(self.out) if "-wal" in n or ".partial" in n], [])


if __name__ == "__main__":
    main()
