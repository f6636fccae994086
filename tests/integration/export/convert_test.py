#!/usr/bin/env python3
"""Converts a made-up recording and reads the outputs with python3's own csv, json and
sqlite3: every value has to be that of `rocattach dump --json`.

usage: convert_test.py ROCATTACH MAKE_RECORDING
"""

import collections
import csv
import gzip
import json
import math
import os
import resource
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

ROCATTACH = MAKE_RECORDING = ""
SEED, DISPATCHES, PROCESSES = 7, 3000, 3

# The documented columns of rocprofv3's files.
API_COLUMNS = (
    "Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp"
)
STATS_COLUMNS = "Name Calls TotalDurationNs AverageNs Percentage MinNs MaxNs StdDev"
COLUMNS = {
    "kernel_trace": "Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id "
    "Kernel_Name Correlation_Id Start_Timestamp End_Timestamp LDS_Block_Size Scratch_Size "
    "VGPR_Count Accum_VGPR_Count SGPR_Count Workgroup_Size_X Workgroup_Size_Y "
    "Workgroup_Size_Z Grid_Size_X Grid_Size_Y Grid_Size_Z",
    "counter_collection": "Correlation_Id Dispatch_Id Agent_Id Queue_Id Process_Id "
    "Thread_Id Grid_Size Kernel_Id Kernel_Name Workgroup_Size LDS_Block_Size Scratch_Size "
    "VGPR_Count Accum_VGPR_Count SGPR_Count Counter_Name Counter_Value Start_Timestamp "
    "End_Timestamp",
    "memory_copy_trace": "Kind Direction Stream_Id Source_Agent_Id Destination_Agent_Id "
    "Correlation_Id Start_Timestamp End_Timestamp",
    "hsa_api_trace": API_COLUMNS,
    "hip_api_trace": API_COLUMNS,
    "marker_api_trace": API_COLUMNS,
    "kernel_stats": STATS_COLUMNS,
    "memory_copy_stats": STATS_COLUMNS,
    "hsa_api_stats": STATS_COLUMNS,
    "hip_api_stats": STATS_COLUMNS,
    "marker_api_stats": STATS_COLUMNS,
    "domain_stats": STATS_COLUMNS,
    "agent_info": "Node_Id Logical_Node_Id Agent_Type Cpu_Cores_Count Simd_Count "
    "Cpu_Core_Id_Base Simd_Id_Base Max_Waves_Per_Simd Lds_Size_In_Kb Gds_Size_In_Kb Num_Gws "
    "Wave_Front_Size Num_Xcc Cu_Count Array_Count Num_Shader_Banks Simd_Arrays_Per_Engine "
    "Cu_Per_Simd_Array Simd_Per_Cu Max_Slots_Scratch_Cu Gfx_Target_Version Vendor_Id "
    "Device_Id Location_Id Domain Drm_Render_Minor Num_Sdma_Engines Num_Sdma_Xgmi_Engines "
    "Num_Sdma_Queues_Per_Engine Num_Cp_Queues Max_Engine_Clk_Ccompute "
    "Max_Engine_Clk_Fcompute Sdma_Fw_Version Fw_Version Capability Cu_Per_Engine "
    "Max_Waves_Per_Cu Family_Id Workgroup_Max_Size Grid_Max_Size Local_Mem_Size Hive_Id "
    "Gpu_Id Workgroup_Max_Dim_X Workgroup_Max_Dim_Y Workgroup_Max_Dim_Z Grid_Max_Dim_X "
    "Grid_Max_Dim_Y Grid_Max_Dim_Z Name Vendor_Name Product_Name Model_Name",
}
WORKLOAD_COLUMNS = (
    "GPU_ID GUID Correlation_Id Dispatch_ID PID Grid_Size Workgroup_Size LDS_Per_Workgroup "
    "Scratch_Per_Workitem Arch_VGPR Accum_VGPR SGPR Kernel_Name Start_Timestamp "
    "End_Timestamp Kernel_ID Counter_Name Counter_Value"
)
# By these the analysis brings the counters of a dispatch together.
WORKLOAD_GROUP = "Dispatch_ID Kernel_Name Grid_Size Workgroup_Size LDS_Per_Workgroup"
API_KINDS = {
    ("hsa", 1): "HSA_CORE_API",
    ("hip", 1): "HIP_RUNTIME_API_EXT",
    ("hip", 768): "HIP_COMPILER_API_EXT",
    ("marker", 1): "MARKER_CORE_API",
}
# What a text in the recording's process is, when the dump says which agent.
RELATIVE = {1: 0, 2: 1, 3: 2}
NODES = {0: 0, 1: 0, 2: 4, 3: 5}


def run(*arguments, **options):
    return subprocess.run(
        [ROCATTACH, *arguments], capture_output=True, text=True, check=False, **options
    )


class Recorded:
    """What the dump says of one process."""

    def __init__(self, lines):
        self.of = collections.defaultdict(list)
        for line in lines:
            if not line.get("repeated"):
                self.of[line["type"]].append(line)
        self.pid = self.of["process"][0]["pid"]
        self.kernels = {k["id"]: k for k in self.of["kernel"]}
        for number, dispatch in enumerate(self.of["dispatch"], 1):
            dispatch["dispatch_id"] = number
        self.by_correlation = {d["correlation_id"]: d for d in self.of["dispatch"]}

    @staticmethod
    def timed(record):
        return not record["untimed"] and not record["unfinished"]

    def kernel(self, record):
        return self.kernels.get(
            record["kernel_id"],
            {"display_name": "", "name": "", "arch_vgprs": 0, "accum_vgprs": 0, "sgprs": 0},
        )


class ConvertTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.recording = os.path.join(cls.scratch.name, "made.rwa")
        subprocess.run(
            [MAKE_RECORDING, cls.recording, str(SEED), str(DISPATCHES), str(PROCESSES)],
            check=True,
        )
        streams = collections.defaultdict(list)
        with subprocess.Popen(
            [ROCATTACH, "dump", "--json", cls.recording], stdout=subprocess.PIPE
        ) as dump:
            for line in dump.stdout:
                record = json.loads(line)
                if record["stream"] != 0:
                    streams[record["stream"]].append(record)
        cls.processes = [Recorded(lines) for _, lines in sorted(streams.items())]
        assert len(cls.processes) == PROCESSES
        assert all(len(p.of["dispatch"]) == DISPATCHES for p in cls.processes)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.out = self.directory.name

    def convert(self, formats, *arguments, status=0, recording=None):
        done = run(
            "convert", recording or self.recording, "-f", formats, "-d", self.out,
            "-o", "%pid%", *arguments,
        )
        self.assertEqual(done.returncode, status, done.stderr)
        if status == 0:
            self.assertEqual(done.stderr, "")
            for name in done.stdout.splitlines():
                self.assertTrue(os.path.exists(name), name)
        return done

    def path(self, process, suffix):
        return os.path.join(self.out, f"{process.pid}_{suffix}")

    # csv

    def rows(self, process, stem):
        with open(self.path(process, stem + ".csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual(rows[0], COLUMNS[stem].split())
        return [dict(zip(rows[0], row)) for row in rows[1:]]

    def test_csv_has_every_file(self):
        done = self.convert("csv")
        for process in self.processes:
            files = {f"{process.pid}_{stem}.csv" for stem in COLUMNS}
            self.assertLessEqual(files, set(os.listdir(self.out)))
        self.assertEqual(len(done.stdout.splitlines()), PROCESSES * len(COLUMNS))

    def test_csv_quotes_texts_and_headers_only(self):
        self.convert("csv")
        with open(self.path(self.processes[0], "memory_copy_trace.csv"), encoding="utf-8") as file:
            header, first = file.readline(), file.readline()
        self.assertTrue(header.startswith('"Kind","Direction","Stream_Id",'))
        self.assertRegex(
            first,
            r'^"MEMORY_COPY","MEMORY_COPY_\w+",0,"Agent \d","Agent \d",\d+,\d+,\d+\n$',
        )

    def test_csv_kernel_trace(self):
        self.convert("csv")
        for process in self.processes:
            rows = self.rows(process, "kernel_trace")
            self.assertEqual(len(rows), DISPATCHES)
            for row, d in zip(rows, process.of["dispatch"]):
                kernel = process.kernel(d)
                grid, group = d["grid"], d["workgroup"]
                lds = -(-d["lds_bytes"] // 512) * 512
                want = [
                    "KERNEL_DISPATCH", f"Agent {RELATIVE[d['agent_id']]}", d["queue_id"], 0,
                    d["tid"], d["dispatch_id"], d["kernel_id"], kernel["display_name"],
                    d["correlation_id"], d["start_ns"], d["end_ns"], lds, d["scratch_bytes"],
                    kernel["arch_vgprs"], kernel["accum_vgprs"], kernel["sgprs"], *group, *grid,
                ]
                self.assertEqual(list(row.values()), [str(cell) for cell in want])

    def test_csv_agent_index(self):
        for kind, texts in (
            ("absolute", {"Agent 4", "Agent 5"}),
            ("type-relative", {"GPU 0", "GPU 1"}),
        ):
            self.convert("csv", "--agent-index", kind, "--force")
            rows = self.rows(self.processes[0], "kernel_trace")
            self.assertEqual({row["Agent_Id"] for row in rows}, texts)

    def test_csv_counter_collection(self):
        self.convert("csv")
        for process in self.processes:
            rows = self.rows(process, "counter_collection")
            values = process.of["counter"]
            self.assertEqual(len(rows), len(values))
            for row, v in zip(rows, values):
                d = process.by_correlation[v["correlation_id"]]
                self.assertEqual(int(row["Correlation_Id"]), v["correlation_id"])
                self.assertEqual(int(row["Dispatch_Id"]), d["dispatch_id"])
                self.assertEqual(int(row["Process_Id"]), process.pid)
                self.assertEqual(int(row["Grid_Size"]), math.prod(d["grid"]))
                self.assertEqual(int(row["Workgroup_Size"]), math.prod(d["workgroup"]))
                self.assertEqual(row["Kernel_Name"], process.kernel(d)["display_name"])
                self.assertEqual(row["Counter_Name"], v["counter"])
                self.assertAlmostEqual(float(row["Counter_Value"]), v["sum"], 5)
                self.assertEqual(int(row["Start_Timestamp"]), d["start_ns"])
                self.assertEqual(int(row["End_Timestamp"]), d["end_ns"])
                number = row["Counter_Value"]
                form = r"^\d+\.\d{6}$" if v["sum"] >= 1 else r"^\d\.\d{8}e[+-]\d\d$"
                self.assertRegex(number, form)

    def test_csv_copies(self):
        self.convert("csv")
        for process in self.processes:
            rows = self.rows(process, "memory_copy_trace")
            self.assertEqual(len(rows), len(process.of["copy"]))
            for row, c in zip(rows, process.of["copy"]):
                agents = [RELATIVE[c[key] or 1] for key in ("src_agent_id", "dst_agent_id")]
                want = [
                    "MEMORY_COPY", "MEMORY_COPY_" + c["direction"].upper(), 0,
                    f"Agent {agents[0]}", f"Agent {agents[1]}", c["correlation_id"],
                    c["start_ns"], c["end_ns"],
                ]
                self.assertEqual(list(row.values()), [str(cell) for cell in want])

    def test_csv_calls(self):
        self.convert("csv")
        for process in self.processes:
            for domain in ("hsa", "hip", "marker"):
                rows = self.rows(process, domain + "_api_trace")
                calls = [c for c in process.of["api_call"] if c["domain"] == domain]
                self.assertGreater(len(calls), 0)
                self.assertEqual(len(rows), len(calls))
                for row, c in zip(rows, calls):
                    want = [
                        API_KINDS[domain, c["function_id"]], c.get("text") or c["function"],
                        process.pid, c["tid"], c["correlation_id"], c["begin_ns"], c["end_ns"],
                    ]
                    self.assertEqual(list(row.values()), [str(cell) for cell in want])

    def test_csv_statistics(self):
        self.convert("csv")
        for process in self.processes:
            durations = collections.defaultdict(list)
            for d in process.of["dispatch"]:
                if process.timed(d):
                    durations[process.kernel(d)["display_name"]].append(d["duration_ns"])
            rows = self.rows(process, "kernel_stats")
            self.assertEqual({row["Name"] for row in rows}, set(durations))
            total = sum(map(sum, durations.values()))
            for row in rows:
                mine = durations[row["Name"]]
                self.assertEqual(int(row["Calls"]), len(mine))
                self.assertEqual(int(row["TotalDurationNs"]), sum(mine))
                self.assertEqual((int(row["MinNs"]), int(row["MaxNs"])), (min(mine), max(mine)))
                self.assertAlmostEqual(float(row["AverageNs"]), statistics.mean(mine), 5)
                self.assertAlmostEqual(float(row["Percentage"]), 100 * sum(mine) / total, 5)
                self.assertAlmostEqual(float(row["StdDev"]), statistics.stdev(mine), 5)
            totals = [int(row["TotalDurationNs"]) for row in rows]
            self.assertEqual(totals, sorted(totals, reverse=True))
            domains = {row["Name"]: row for row in self.rows(process, "domain_stats")}
            self.assertEqual(int(domains["KERNEL_DISPATCH"]["TotalDurationNs"]), total)
            self.assertEqual(int(domains["MEMORY_COPY"]["Calls"]), len(process.of["copy"]))
            calls = [c for c in process.of["api_call"] if c["domain"] == "hip"]
            self.assertEqual(int(domains["HIP_API"]["Calls"]), len(calls))

    def test_csv_agents(self):
        self.convert("csv")
        rows = self.rows(self.processes[0], "agent_info")
        self.assertEqual([row["Node_Id"] for row in rows], ["0", "4", "5"])
        self.assertEqual([row["Logical_Node_Id"] for row in rows], ["0", "1", "2"])
        self.assertEqual([row["Agent_Type"] for row in rows], ["CPU", "GPU", "GPU"])
        gpu = rows[1]
        self.assertEqual(
            [gpu[key] for key in ("Cu_Count", "Simd_Count", "Wave_Front_Size", "Name",
                                  "Gfx_Target_Version", "Max_Waves_Per_Simd",
                                  "Max_Engine_Clk_Fcompute", "Location_Id")],
            ["104", "416", "64", "gfx90a", "90010", "8", "1700", "512"],
        )
        # Only the kernel driver knows these.
        self.assertEqual(
            [gpu[key] for key in ("Lds_Size_In_Kb", "Hive_Id", "Gpu_Id", "Model_Name")],
            ["64", str((1 << 64) - 1), "50000", "aldebaran"])
        self.assertEqual(rows[2]["Lds_Size_In_Kb"], "0")

    # json

    def test_json(self):
        self.convert("json")
        for process in self.processes:
            with open(self.path(process, "results.json"), encoding="utf-8") as file:
                (tool,) = json.load(file)["rocprofiler-sdk-tool"]
            self.assertEqual(tool["metadata"]["pid"], process.pid)
            self.check_json_symbols(process, tool)
            self.check_json_dispatches(process, tool)
            self.check_json_counters(process, tool)
            copies = tool["buffer_records"]["memory_copy"]
            names = tool["strings"]["buffer_records"]
            self.assertEqual(len(copies), len(process.of["copy"]))
            for got, c in zip(copies, process.of["copy"]):
                self.assertEqual(names[got["kind"]]["kind"], "MEMORY_COPY")
                operation = names[got["kind"]]["operations"][got["operation"]]
                self.assertEqual(operation, "MEMORY_COPY_" + c["direction"].upper())
                self.assertEqual(got["bytes"], c["bytes"])
                self.assertEqual(got["src_agent_id"]["handle"], NODES[c["src_agent_id"]])
                self.assertEqual(got["start_timestamp"], c["start_ns"])
            texts = {t["key"]: t["value"] for t in tool["strings"]["marker_api"]}
            for domain in ("hsa", "hip", "marker"):
                calls = [c for c in process.of["api_call"] if c["domain"] == domain]
                records = tool["buffer_records"][domain + "_api"]
                self.assertEqual(len(records), len(calls))
                for got, c in zip(records, calls):
                    kind = names[got["kind"]]
                    self.assertEqual(kind["kind"], API_KINDS[domain, c["function_id"]])
                    self.assertEqual(kind["operations"][got["operation"]], c["function"])
                    self.assertEqual(got["correlation_id"]["internal"], c["correlation_id"])
                    self.assertEqual(got["correlation_id"]["ancestor"], c["ancestor_id"])
                    self.assertEqual(got["end_timestamp"], c["end_ns"])
                    if domain == "marker":
                        self.assertEqual(texts[c["correlation_id"]], c["text"])

    def check_json_symbols(self, process, tool):
        self.assertEqual([a["type"] for a in tool["agents"]], [1, 2, 2])
        self.assertEqual([a["lds_size_in_kb"] for a in tool["agents"]], [0, 64, 0])
        self.assertEqual([a["model_name"] for a in tool["agents"]], ["", "aldebaran", ""])
        symbols = {s["kernel_id"]: s for s in tool["kernel_symbols"]}
        self.assertEqual(set(symbols), set(process.kernels))
        for number, kernel in process.kernels.items():
            self.assertEqual(symbols[number]["kernel_name"], kernel["name"])
            self.assertEqual(symbols[number]["formatted_kernel_name"], kernel["display_name"])
        (kernels,) = [s for s in tool["summary"] if s["domain"] == "KERNEL_DISPATCH"]
        timed = [d["duration_ns"] for d in process.of["dispatch"] if process.timed(d)]
        self.assertEqual(kernels["stats"]["sum"], sum(timed))

    def check_json_dispatches(self, process, tool):
        records = tool["buffer_records"]["kernel_dispatch"]
        self.assertEqual(len(records), DISPATCHES)
        for got, d in zip(records, process.of["dispatch"]):
            info = got["dispatch_info"]
            self.assertEqual(
                (got["thread_id"], got["correlation_id"]["internal"], got["start_timestamp"],
                 got["end_timestamp"], info["agent_id"]["handle"], info["queue_id"]["handle"],
                 info["kernel_id"], info["dispatch_id"], info["private_segment_size"],
                 info["group_segment_size"], list(info["workgroup_size"].values()),
                 list(info["grid_size"].values())),
                (d["tid"], d["correlation_id"], d["start_ns"], d["end_ns"],
                 NODES[d["agent_id"]], d["queue_id"], d["kernel_id"], d["dispatch_id"],
                 d["scratch_bytes"], d["lds_bytes"], d["workgroup"], d["grid"]),
            )

    def check_json_counters(self, process, tool):
        names = {c["id"]["handle"]: c["name"] for c in tool["counters"]}
        got = [
            (r["dispatch_data"]["correlation_id"]["internal"],
             r["dispatch_data"]["dispatch_info"]["dispatch_id"],
             names[v["counter_id"]["handle"]], v["value"])
            for r in tool["callback_records"]["counter_collection"]
            for v in r["records"]
        ]
        want = [
            (v["correlation_id"], process.by_correlation[v["correlation_id"]]["dispatch_id"],
             v["counter"], v["sum"])
            for v in process.of["counter"]
        ]
        self.assertEqual(got, want)

    def test_json_of_several_processes_is_one_file(self):
        done = run("convert", self.recording, "-f", "json", "-d", self.out, "-o", "all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(os.path.join(self.out, "all_results.json"), encoding="utf-8") as file:
            tools = json.load(file)["rocprofiler-sdk-tool"]
        self.assertEqual([t["metadata"]["pid"] for t in tools],
                         [p.pid for p in self.processes])

    # ndjson

    def test_ndjson_has_the_dump_s_records(self):
        self.convert("ndjson")
        kinds = ("process", "agent", "queue", "kernel", "code_object", "session_plan",
                 "api_function", "dispatch", "copy", "counter", "sample", "api_call",
                 "process_end")
        for process in self.processes:
            got = collections.defaultdict(list)
            with open(self.path(process, "results.ndjson"), encoding="utf-8") as file:
                for line in file:
                    record = json.loads(line)
                    self.assertEqual(record["pid"], process.pid)
                    got[record["type"]].append(record)
            self.assertEqual(set(got), set(kinds))
            for kind in kinds:
                self.assertEqual(len(got[kind]), len(process.of[kind]), kind)
                order = lambda r: (r.get("id", 0), r.get("domain", ""), r.get("function", 0))
                mine, theirs = got[kind], process.of[kind]
                if kind in ("agent", "kernel", "api_function"):
                    mine, theirs = sorted(mine, key=order), sorted(theirs, key=order)
                for record, want in zip(mine, theirs):
                    for key, value in want.items():
                        self.assertEqual(record[key], value, (kind, key))

    # rocpd

    def database(self, process):
        return sqlite3.connect(self.path(process, "results.db"))

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
                        d["tid"], d["queue_id"], 0, start, end, *d["grid"], *d["workgroup"],
                        d["lds_bytes"], d["scratch_bytes"], NODES[d["agent_id"]], "GPU",
                        d["correlation_id"], "KERNEL_DISPATCH", "", "Default Stream",
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
                self.assertEqual(row[13:15], (v["counter"], v["sum"]))
                self.assertEqual(row[16:], (v["correlation_id"], process.pid))

    def test_rocpd_copies_and_regions(self):
        self.convert("rocpd")
        for process in self.processes:
            with self.database(process) as db:
                got = db.execute(
                    "SELECT name, tid, start, end, size, dst_agent_abs_index, "
                    "src_agent_abs_index, dst_address, src_address, stack_id FROM "
                    "memory_copies ORDER BY id").fetchall()
                want = [("MEMORY_COPY_" + c["direction"].upper(), c["tid"], c["start_ns"],
                         c["end_ns"], c["bytes"], NODES[c["dst_agent_id"]],
                         NODES[c["src_agent_id"]], c["dst_address"], c["src_address"],
                         c["correlation_id"]) for c in process.of["copy"]]
                self.assertEqual(got, want)
                got = db.execute(
                    "SELECT id, category, name, pid, tid, start, end, stack_id, "
                    "parent_stack_id, json_extract(extdata, '$.message') "
                    "FROM regions_and_samples WHERE category <> 'DEVICE_COUNTERS' "
                    "ORDER BY id").fetchall()
                want = [(c["correlation_id"], API_KINDS[c["domain"], c["function_id"]],
                         c["function"], process.pid, c["tid"], c["begin_ns"], c["end_ns"],
                         c["correlation_id"], c["ancestor_id"], c.get("text"))
                        for c in process.of["api_call"]]
                self.assertEqual(got, want)
                (samples,) = db.execute(
                    "SELECT count(*) FROM samples WHERE category = 'DEVICE_COUNTERS'").fetchone()
                self.assertEqual(samples, len({s["sample_id"] for s in process.of["sample"]}))

    def test_rocpd_is_writable_and_plain(self):
        self.convert("rocpd")
        path = self.path(self.processes[0], "results.db")
        with sqlite3.connect(path) as db:
            db.execute("CREATE INDEX i ON rocpd_kernel_dispatch%s (start)" % dict(
                db.execute("SELECT tag, value FROM rocpd_metadata"))["uuid"])
        self.assertEqual([n for n in os.listdir(self.out) if "-wal" in n or ".partial" in n], [])

    # Names

    def test_keys_in_names(self):
        done = run("convert", self.recording, "-f", "csv", "-d", self.out + "/%tag%", "-o",
                   "{hostname}/p%p", cwd=self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for process in self.processes:
            name = f"{self.out}/app/{socket.gethostname()}/p{process.pid}_kernel_trace.csv"
            self.assertTrue(os.path.exists(name), name)

    def test_default_names_are_rocprofv3_s(self):
        done = run("convert", self.recording, "-f", "csv,rocpd,json", cwd=self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = os.listdir(os.path.join(self.out, socket.gethostname()))
        for process in self.processes:
            for suffix in ("kernel_trace.csv", "results.db", "results.json"):
                self.assertIn(f"{process.pid}_{suffix}", names)

    def test_same_name_for_several_processes_gets_the_pid(self):
        done = run("convert", self.recording, "-f", "csv,rocpd", "-d", self.out, "-o", "x")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        second = self.processes[1].pid
        self.assertIn("x_results.db", os.listdir(self.out))
        self.assertIn(f"x_{second}_results.db", os.listdir(self.out))
        self.assertIn(f"x_{second}_kernel_trace.csv", os.listdir(self.out))

    # Bad inputs and outputs

    def test_existing_outputs_are_kept_unless_forced(self):
        for format_ in ("csv", "json", "ndjson", "rocpd"):
            with self.subTest(format_):
                self.convert(format_)
                before = {n: os.path.getmtime(os.path.join(self.out, n))
                          for n in os.listdir(self.out)}
                done = self.convert(format_, status=3)
                self.assertIn("exists; --force replaces it", done.stderr)
                self.assertEqual({n: os.path.getmtime(os.path.join(self.out, n))
                                  for n in before}, before)
                self.convert(format_, "--force")

    def test_inputs_that_are_not_recordings(self):
        empty = os.path.join(self.out, "empty.rwa")
        text = os.path.join(self.out, "text.rwa")
        for path, content in ((empty, b""), (text, b"not ours" * 1000)):
            with open(path, "wb") as file:
                file.write(content)
        for path, words in ((empty, "is empty"), (text, "it is not a rocattach stream"),
                            (self.out, "is a directory"),
                            (self.out + "/none", "No such file or directory")):
            with self.subTest(path):
                done = self.convert("csv,json,ndjson,rocpd", status=3, recording=path)
                self.assertIn(words, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_truncated_and_damaged_inputs(self):
        with open(self.recording, "rb") as file:
            whole = file.read()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 0xFF
        for content in (whole[: len(whole) // 2], bytes(damaged), whole[len(whole) // 3 :]):
            path = os.path.join(self.out, "bad.rwa")
            with open(path, "wb") as file:
                file.write(content)
            done = self.convert("csv,json,ndjson,rocpd", "--force", status=1, recording=path)
            self.assertIn("bad.rwa is incomplete: it lacks", done.stderr)
            self.assertIn("the outputs are partial", done.stderr)
            dump = run("dump", "--json", "--type", "dispatch", path)
            want = len(dump.stdout.splitlines())
            self.assertGreater(want, 0)
            self.assertLess(want, PROCESSES * DISPATCHES)
            counts = collections.Counter()
            for name in done.stdout.splitlines():
                if name.endswith(".db"):
                    with sqlite3.connect(name) as db:
                        counts["rocpd"] += db.execute("SELECT count(*) FROM kernels").fetchone()[0]
                elif name.endswith(".json"):
                    with open(name, encoding="utf-8") as file:
                        for tool in json.load(file)["rocprofiler-sdk-tool"]:
                            counts["json"] += len(tool["buffer_records"]["kernel_dispatch"])
                elif name.endswith("kernel_trace.csv"):
                    with open(name, encoding="utf-8", newline="") as file:
                        counts["csv"] += len(list(csv.reader(file))) - 1
                elif name.endswith(".ndjson"):
                    with open(name, encoding="utf-8") as file:
                        counts["ndjson"] += sum('"type":"dispatch"' in line for line in file)
            self.assertEqual(dict(counts), dict.fromkeys(("csv", "json", "ndjson", "rocpd"), want))
            for name in done.stdout.splitlines():
                os.remove(name)

    def test_every_truncation_converts_or_says_why(self):
        small = os.path.join(self.out, "small.rwa")
        subprocess.run([MAKE_RECORDING, small, "3", "20", "2"], check=True)
        with open(small, "rb") as file:
            whole = file.read()
        for cut in range(1, len(whole), max(1, len(whole) // 25)):
            with open(small, "wb") as file:
                file.write(whole[:cut])
            done = run("convert", small, "-f", "csv,json,ndjson,rocpd", "-d", self.out, "-o",
                       "%pid%", "--force")
            self.assertIn(done.returncode, (1, 3), (cut, done.stderr))
            self.assertIn("small.rwa", done.stderr)

    def test_pipes(self):
        with open(self.recording, "rb") as file:
            whole = file.read()
        command = [ROCATTACH, "convert", "-", "-f", "csv,rocpd", "-d", self.out, "-o", "%pid%"]
        done = subprocess.run(command, input=whole, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(len(self.rows(self.processes[1], "kernel_trace")), DISPATCHES)
        half = whole[: len(whole) // 2]
        done = subprocess.run(
            [*command, "--force"], input=half, capture_output=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"- is incomplete: it lacks", done.stderr)

    def test_interrupted_conversions_keep_what_they_have(self):
        with open(self.recording, "rb") as file:
            half = file.read(os.path.getsize(self.recording) // 2)
        with subprocess.Popen(
            [ROCATTACH, "convert", "-", "-f", "csv,ndjson,rocpd", "-d", self.out, "-o", "%pid%"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as convert:
            convert.stdin.write(half)
            convert.stdin.flush()
            deadline = time.monotonic() + 30
            first = self.path(self.processes[0], "kernel_trace.csv.partial")
            while time.monotonic() < deadline and not (
                os.path.exists(first) and os.path.getsize(first) > 0
            ):
                time.sleep(0.05)
            time.sleep(0.5)  # until it waits for more
            convert.send_signal(signal.SIGINT)
            self.assertEqual(convert.wait(30), 1)
            self.assertIn(b"interrupted", convert.stderr.read())
            self.assertEqual(convert.stdout.read(), b"")
        names = os.listdir(self.out)
        self.assertTrue(all(name.endswith(".partial") for name in names), names)
        with open(first, encoding="utf-8", newline="") as file:
            self.assertGreater(len(list(csv.reader(file))), 1)
        database = self.path(self.processes[0], "results.db.partial")
        with sqlite3.connect(database) as db:
            self.assertGreater(db.execute("SELECT count(*) FROM kernels").fetchone()[0], 0)

    def test_full_disk_leaves_partial_outputs_by_that_name(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        for format_ in ("csv", "json", "ndjson", "rocpd"):
            with self.subTest(format_):
                done = run("convert", self.recording, "-f", format_, "-d", self.out, "-o",
                           "full", preexec_fn=limit)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("partial results: ", done.stderr)
                partial = [n for n in os.listdir(self.out) if n.endswith(".partial")]
                self.assertNotEqual(partial, [])
                self.assertFalse(os.path.exists(f"{self.out}/full_results.{format_}"))
                for name in partial:
                    os.remove(os.path.join(self.out, name))

    def test_unknown_format_is_a_usage_error(self):
        done = run("convert", self.recording, "-f", "cvs")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cvs", done.stderr)

    def test_json_cannot_be_followed(self):
        done = run("convert", self.recording, "-f", "json", "--follow")
        self.assertEqual(done.returncode, 2)
        self.assertIn("json cannot be written while data arrives", done.stderr)

    # compute-workload, read as the analysis of rocprof-compute does

    def workload(self, folder):
        """Counters by dispatch, as the analysis pivots them, and the machine."""
        with gzip.open(os.path.join(folder, "results_pmc_perf.csv.gz"), "rt",
                       encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        with open(os.path.join(folder, "pmc_perf.csv"), encoding="utf-8", newline="") as file:
            self.assertEqual(list(csv.reader(file)), rows)
        self.assertEqual(rows[0], WORKLOAD_COLUMNS.split())
        dispatches = collections.defaultdict(dict)
        for cells in rows[1:]:
            self.assertNotIn("", cells)  # pandas would leave the row out
            row = dict(zip(rows[0], cells))
            group = tuple(row[key] for key in WORKLOAD_GROUP.split())
            dispatches[group].update({key: row[key] for key in WORKLOAD_COLUMNS.split()[:-2]})
            dispatches[group][row["Counter_Name"]] = float(row["Counter_Value"])
        with open(os.path.join(folder, "sysinfo.csv"), encoding="utf-8", newline="") as file:
            header, machine = csv.reader(file)
        with open(os.path.join(folder, "profiling_config.yaml"), encoding="utf-8") as file:
            configuration = yaml.safe_load(file)
        return list(dispatches.values()), dict(zip(header, machine)), configuration

    def test_compute_workload(self):
        done = self.convert("compute-workload")
        self.assertEqual(len(done.stdout.splitlines()), 4 * PROCESSES)
        for process in self.processes:
            rows, _, _ = self.workload(self.path(process, "workload"))
            values = collections.defaultdict(dict)
            for value in process.of["counter"]:
                values[value["correlation_id"]][value["counter"]] = value["sum"]
            self.assertEqual(len(rows), len(values))
            self.assertEqual([int(row["Dispatch_ID"]) for row in rows], list(range(len(rows))))
            for row in rows:
                d = process.by_correlation[int(row["Correlation_Id"])]
                counted = values[d["correlation_id"]]
                kernel = process.kernel(d)
                name = kernel["display_name"] or f"unknown kernel {d['kernel_id']}"
                times = ("start_ns", "end_ns") if process.timed(d) else ("enqueue_ns",) * 2
                self.assertEqual(row["SQ_WAVES"], counted["SQ_WAVES"])
                self.assertEqual(row["TCC_HIT"], counted["TCC_HIT"])
                self.assertEqual(row["TCC_HIT_sum"], counted["TCC_HIT"])
                self.assertNotIn("SQ_WAVES_sum", row)
                self.assertEqual(row["Kernel_Name"], name)
                self.assertEqual(
                    [int(row[key]) for key in (
                        "GPU_ID", "PID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup",
                        "Scratch_Per_Workitem", "Arch_VGPR", "Accum_VGPR", "SGPR",
                        "Start_Timestamp", "End_Timestamp", "Kernel_ID")],
                    [NODES[d["agent_id"]], process.pid, math.prod(d["grid"]),
                     math.prod(d["workgroup"]), (d["lds_bytes"] + 511) // 512 * 512,
                     d["scratch_bytes"], kernel["arch_vgprs"], kernel["accum_vgprs"],
                     kernel["sgprs"], d[times[0]], d[times[1]], d["kernel_id"]])

    def test_compute_workload_describes_the_machine(self):
        self.convert("compute-workload")
        process = self.processes[0]
        _, machine, configuration = self.workload(self.path(process, "workload"))
        # What the analysis fails without.
        for key in ("se_per_gpu pipes_per_gpu cu_per_gpu simd_per_cu sqc_per_gpu "
                    "lds_banks_per_cu cur_sclk cur_mclk max_sclk max_mclk max_waves_per_cu "
                    "num_hbm_channels total_l2_chan num_xcd wave_size").split():
            self.assertGreater(float(machine[key]), 0, key)
        self.assertEqual(
            [machine[key] for key in "cu_per_gpu se_per_gpu sqc_per_gpu total_l2_chan gpu_arch "
             "gpu_model max_sclk wave_size hostname workload_name".split()],
            ["104", "8", "56", "32", "gfx90a", "MI200", "1700", "64", socket.gethostname(),
             str(process.pid)])
        self.assertEqual(machine["ip_blocks"], "SQ|LDS|SQC|TA|TD|TCP|TCC|SPI|CPC|CPF")
        self.assertEqual(machine["command"], "./app --number=1")
        self.assertNotIn("", machine.values())
        self.assertEqual(configuration["format_rocprof_output"], "rocpd")
        self.assertIsNone(configuration["iteration_multiplexing"])
        self.assertEqual(configuration["filter_blocks"], [])
        self.assertEqual(configuration["remaining"], "./app --number=1")

    def test_compute_workload_of_several_processes(self):
        done = run("convert", self.recording, "-f", "compute-workload", "-d", self.out,
                   "-o", "all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows, _, _ = self.workload(os.path.join(self.out, "all_workload"))
        self.assertEqual(
            collections.Counter(int(row["PID"]) for row in rows),
            {p.pid: len({v["correlation_id"] for v in p.of["counter"]}) for p in self.processes})
        self.assertEqual(len({row["Dispatch_ID"] for row in rows}), len(rows))
        self.assertEqual(len({row["GUID"] for row in rows}), PROCESSES)

    def test_compute_workload_without_counters_is_not_written(self):
        few = os.path.join(self.out, "few.rwa")
        subprocess.run([MAKE_RECORDING, few, "1", "5", "1"], check=True)
        done = self.convert("compute-workload", recording=few, status=1)
        self.assertIn("no counter of a dispatch was measured", done.stderr)
        self.assertEqual(os.listdir(self.out), ["few.rwa"])

    # While the recording is made

    def test_followed_outputs_are_readable_during_and_after_a_sigkill(self):
        with open(self.recording, "rb") as file:
            whole = file.read()
        growing = os.path.join(self.out, "growing.rwa")
        with open(growing, "wb") as file:
            file.write(whole[: len(whole) // 2])
        first = self.processes[0]
        with subprocess.Popen([ROCATTACH, "convert", growing, "-f", "csv,ndjson,rocpd",
                               "--follow", "-d", self.out, "-o", "%pid%"]) as follower:
            rows = self.wait_for_rows(first, 1)
            with open(growing, "ab") as file:
                file.write(whole[len(whole) // 2 : -200])
            more = self.wait_for_rows(first, rows + 1)
            self.assertGreater(more, rows)
            follower.send_signal(signal.SIGKILL)
        with self.database(first) as db:
            (after,) = db.execute("SELECT count(*) FROM kernels").fetchone()
            self.assertGreaterEqual(after, more)
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        with open(self.path(first, "results.ndjson"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        for line in lines[:-1]:
            json.loads(line)

    def wait_for_rows(self, process, least):
        deadline = time.monotonic() + 30
        rows = 0
        while time.monotonic() < deadline:
            try:
                # Not created by the reader.
                uri = f"file:{self.path(process, 'results.db')}?mode=rw"
                with sqlite3.connect(uri, uri=True) as db:
                    (rows,) = db.execute("SELECT count(*) FROM kernels").fetchone()
            except sqlite3.OperationalError:
                rows = 0
            if rows >= least:
                return rows
            time.sleep(0.05)
        self.fail(f"{rows} rows after 30 s, not {least}")
        return rows

    def test_outputs_are_complete_when_their_process_has_ended(self):
        """One process after the other, in a recording that is being made."""
        one, two = (os.path.join(self.out, name) for name in ("one.rwa", "two.rwa"))
        for seed, path in enumerate((one, two)):
            subprocess.run([MAKE_RECORDING, path, str(seed), "300", "1"], check=True)
        with open(one, "rb") as file:
            first = file.read()
        with open(two, "rb") as file:
            second = file.read()
        last = first.rindex(b"RAW\xf1")  # the frame that says that it has ended
        growing = os.path.join(self.out, "growing.rwa")
        out = os.path.join(self.out, "out")
        with open(growing, "wb") as file:
            file.write(first[:last])
        with subprocess.Popen(
            [ROCATTACH, "convert", growing, "-f", "json,pprof,csv,compute-workload",
             "--when-ended", "--quiet", "-d", out, "-o", "%pid%"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
            self.addCleanup(follower.kill)
            # The last output that is completed; the follower is not waited for forever.
            deadline = time.monotonic() + 30
            last_output = f"{out}/4001_workload/results_pmc_perf.csv.gz"
            while not os.path.exists(last_output) and time.monotonic() < deadline:
                time.sleep(0.05)
            if not os.path.exists(last_output):
                follower.kill()
            with open(f"{out}/4001_results.json", encoding="utf-8") as file:
                (process,) = json.load(file)["rocprofiler-sdk-tool"]
            self.assertEqual(len(process["buffer_records"]["kernel_dispatch"]), 300)
            self.assertEqual([n for n in os.listdir(out) if n.endswith(".partial")], [])
            rows, _, _ = self.workload(f"{out}/4001_workload")
            self.assertEqual(len(rows), 30)
            self.assertIsNone(follower.poll())
            with open(growing, "ab") as file:
                file.write(first[last:])
            output, errors = follower.communicate(timeout=30)
            self.assertEqual((follower.returncode, output, errors), (0, "", ""))
        # A later process with the same number has outputs of its own, and what exists is
        # not an obstacle for the others.
        with open(growing, "wb") as file:
            file.write(first + second)
        done = run("convert", growing, "-f", "json", "--when-ended", "-d", out, "-o", "x")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(),
                         [f"{out}/x_results.json", f"{out}/x_4001_results.json"])
        done = run("convert", growing, "-f", "json", "--when-ended", "-d", out, "-o", "%pid%")
        self.assertEqual(done.returncode, 3)
        self.assertIn("4001_results.json exists", done.stderr)

    def test_a_merged_recording_has_everything(self):
        small = os.path.join(self.out, "small.rwa")
        subprocess.run([MAKE_RECORDING, small, "3", "100", "1"], check=True)
        done = run("merge", self.recording, small, "-o", os.path.join(self.out, "merged.rwa"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("merged.rwa: 2 recordings, ", done.stdout)
        self.assertIn("small.rwa (%s): recorded with the same clock" % socket.gethostname(),
                      done.stdout)
        done = self.convert("csv", recording=os.path.join(self.out, "merged.rwa"))
        for process in self.processes:
            self.assertEqual(
                [int(row["Start_Timestamp"]) for row in self.rows(process, "kernel_trace")],
                [d["start_ns"] for d in process.of["dispatch"]])

    def test_following_ends_with_the_recording(self):
        done = self.convert("csv,ndjson,rocpd", "--follow")
        self.assertEqual(len(done.stdout.splitlines()), PROCESSES * (len(COLUMNS) + 2))
        self.assertEqual([n for n in os.listdir(self.out) if "-wal" in n or "-shm" in n], [])
        with self.database(self.processes[0]) as db:
            self.assertEqual(db.execute("SELECT count(*) FROM kernels").fetchone(), (DISPATCHES,))


if __name__ == "__main__":
    ROCATTACH, MAKE_RECORDING = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
