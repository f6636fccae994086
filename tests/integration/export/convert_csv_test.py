#!/usr/bin/env python3
"""Reads csv outputs with python3's own reader: every value must equal the dump's.

usage: convert_csv_test.py ROCATTACH MAKE_RECORDING
"""

import collections
import math
import os
import statistics

from export_testing import (
    API_KINDS,
    COLUMNS,
    DISPATCHES,
    PROCESSES,
    RELATIVE,
    ConvertTestCase,
    main,
)


class CsvTest(ConvertTestCase):
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
            r'^"MEMORY_COPY","MEMORY_COPY_\w+",\d,"Agent \d","Agent \d",\d+,\d+,\d+\n$',
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
                    "KERNEL_DISPATCH", f"Agent {RELATIVE[d['agent_id']]}", d["queue_id"],
                    d.get("hip_stream", 0),
                    d["tid"], d["dispatch_id"], d["kernel_id"], kernel["display_name"],
                    d["linked_id"], d["start_ns"], d["end_ns"], lds, d["scratch_bytes"],
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
                self.assertEqual(int(row["Correlation_Id"]), d["linked_id"])
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
                    "MEMORY_COPY", "MEMORY_COPY_" + c["direction"].upper(),
                    c.get("hip_stream", 0),
                    f"Agent {agents[0]}", f"Agent {agents[1]}", c["linked_id"],
                    c["start_ns"], c["end_ns"],
                ]
                self.assertEqual(list(row.values()), [str(cell) for cell in want])

    def test_csv_calls(self):
        self.convert("csv")
        for process in self.processes:
            for domain in ("hsa", "hip", "marker", "rccl"):
                rows = self.rows(process, domain + "_api_trace")
                calls = [c for c in process.calls if c["domain"] == domain]
                self.assertGreater(len(calls), 0)
                self.assertEqual(len(rows), len(calls))
                for row, c in zip(rows, calls):
                    want = [
                        API_KINDS[domain, c["function_id"]], c.get("text") or c["function"],
                        process.pid, c["tid"], c["correlation_id"], c["begin_ns"], c["end_ns"],
                    ]
                    self.assertEqual(list(row.values()), [str(cell) for cell in want])

    def test_csv_operations_have_the_ids_of_their_calls(self):
        self.convert("csv")
        for process in self.processes:
            functions = {row["Correlation_Id"]: row["Function"]
                         for domain in ("hsa", "hip", "marker", "rccl")
                         for row in self.rows(process, domain + "_api_trace")}
            launched = collections.Counter(
                functions.get(row["Correlation_Id"]) for row in self.rows(process, "kernel_trace"))
            # A tenth of the dispatches has a call, every second one with a nested call.
            tenth = DISPATCHES // 10
            self.assertEqual(launched, {None: DISPATCHES - tenth, "hipLaunchKernel": tenth // 2,
                                        "hsa_signal_store_screlease": tenth // 2})
            for row in self.rows(process, "memory_copy_trace"):
                self.assertNotIn(row["Correlation_Id"], functions)

    def test_csv_memory(self):
        self.convert("csv")
        for process in self.processes:
            allocations, scratch = [], []
            for m in process.of["memory"]:
                agent = f"Agent {RELATIVE[m['agent_id']]}" if m["agent_id"] else ""
                name = m["operation"].upper()
                if name.startswith("SCRATCH"):
                    name = {"SCRATCH_ALLOCATE": "SCRATCH_MEMORY_ALLOC",
                            "SCRATCH_FREE": "SCRATCH_MEMORY_FREE",
                            "SCRATCH_RECLAIM": "SCRATCH_MEMORY_ASYNC_RECLAIM"}[name]
                    scratch.append(["SCRATCH_MEMORY", name, agent, m["queue_id"], m["tid"],
                                    m["scratch_flags"], m["begin_ns"], m["end_ns"], m["bytes"]])
                else:
                    allocations.append([
                        "MEMORY_ALLOCATION", "MEMORY_ALLOCATION_" + name, agent, m["bytes"],
                        f"0x{int(m['address']):016x}", m["correlation_id"], m["begin_ns"],
                        m["end_ns"]])
            for stem, want in (("memory_allocation_trace", allocations),
                               ("scratch_memory_trace", scratch)):
                self.assertGreater(len(want), 0)
                self.assertEqual([list(row.values()) for row in self.rows(process, stem)],
                                 [[str(cell) for cell in row] for row in want])

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
        # Properties that the runtime reports.
        limits = ["Family_Id", "Workgroup_Max_Size", "Grid_Max_Size"] + [
            f"{what}_Max_Dim_{axis}" for what in ("Workgroup", "Grid") for axis in "XYZ"]
        self.assertEqual(
            [gpu[key] for key in limits],
            ["141", "1024", str((1 << 32) - 1), "1024", "512", "256", "300", "200", "100"])
        self.assertEqual({rows[2][key] for key in limits}, {"0"})


if __name__ == "__main__":
    main()
