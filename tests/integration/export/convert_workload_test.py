#!/usr/bin/env python3
"""Reads compute-workload outputs as the analysis of rocprof-compute does.

usage: convert_workload_test.py ROCATTACH MAKE_RECORDING
"""

import collections
import math
import os
import socket
import subprocess

from export_testing import NODES, PROCESSES, PROGRAMS, ConvertTestCase, main, run



class WorkloadTest(ConvertTestCase):
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
                     math.prod(d["workgroup"]), d["lds_bytes"],
                     d["scratch_bytes"], kernel["arch_vgprs"], kernel["accum_vgprs"],
                     kernel["sgprs"], d[times[0]], d[times[1]], d["kernel_id"]])

    def test_compute_workload_describes_the_machine(self):
        self.convert("compute-workload")
        process = self.processes[0]
        _, machine, configuration = self.workload(self.path(process, "workload"))
        # The analysis fails without these.
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
        subprocess.run([PROGRAMS.make_recording, few, "1", "5", "1"], check=True)
        done = self.convert("compute-workload", recording=few, status=1)
        self.assertIn("no counter of a dispatch was measured", done.stderr)
        self.assertEqual(os.listdir(self.out), ["few.rwa"])


if __name__ == "__main__":
    main()
