"""What tests of `rocattach convert` share: a made-up recording, whose values outputs are
compared with as `rocattach dump --json` prints them."""

import bisect
import collections
import contextlib
import csv
import gzip
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import yaml


class PROGRAMS:
    """The programs under test, from the command line."""

    rocattach = make_recording = ""


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
    "memory_allocation_trace": "Kind Operation Agent_Id Allocation_Size Address "
    "Correlation_Id Start_Timestamp End_Timestamp",
    "scratch_memory_trace": "Kind Operation Agent_Id Queue_Id Thread_Id Alloc_Flags "
    "Start_Timestamp End_Timestamp Allocation_Size",
    "hsa_api_trace": API_COLUMNS,
    "hip_api_trace": API_COLUMNS,
    "marker_api_trace": API_COLUMNS,
    "rccl_api_trace": API_COLUMNS,
    "kernel_stats": STATS_COLUMNS,
    "memory_copy_stats": STATS_COLUMNS,
    "memory_allocation_stats": STATS_COLUMNS,
    "scratch_memory_stats": STATS_COLUMNS,
    "hsa_api_stats": STATS_COLUMNS,
    "hip_api_stats": STATS_COLUMNS,
    "marker_api_stats": STATS_COLUMNS,
    "rccl_api_stats": STATS_COLUMNS,
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
# Of the machine, in the order of rocprof-compute's own.
SYSINFO_COLUMNS = (
    "workload_name workload_path command ip_blocks timestamp version hostname cpu_model sbios "
    "linux_distro linux_kernel_version amd_gpu_kernel_version cpu_memory gpu_memory "
    "rocm_version vbios compute_partition memory_partition gpu_series gpu_model gpu_arch "
    "gpu_chip_id gpu_l1 gpu_l2 cu_per_gpu simd_per_cu se_per_gpu sa_per_se wave_size "
    "workgroup_max_size max_waves_per_cu max_sclk max_mclk cur_sclk cur_mclk l2_banks "
    "total_l2_chan lds_banks_per_cu sqc_per_gpu pipes_per_gpu hbm_bw num_xcd "
    "num_hbm_channels num_memory_channels"
)
# By these the analysis brings the counters of a dispatch together.
WORKLOAD_GROUP = "Dispatch_ID Kernel_Name Grid_Size Workgroup_Size LDS_Per_Workgroup"
API_KINDS = {
    ("hsa", 1): "HSA_CORE_API",
    ("hip", 1): "HIP_RUNTIME_API_EXT",
    ("hip", 768): "HIP_COMPILER_API_EXT",
    ("hip", 2): "HIP_RUNTIME_API_EXT",
    ("marker", 1): "MARKER_CORE_API",
    ("marker", 2): "MARKER_CORE_API",
    ("marker", 3): "MARKER_CORE_API",
    ("rccl", 3): "RCCL_API",
}
# In the correlation ids of operations without a call, so that they are no calls' ids.
OTHER_COUNT = 1 << 48
# What a text in the recording's process is, when the dump says which agent.
RELATIVE = {1: 0, 2: 1, 3: 2}
NODES = {0: 0, 1: 0, 2: 4, 3: 5}


def run(*arguments, **options):
    return subprocess.run(
        [PROGRAMS.rocattach, *arguments], capture_output=True, text=True, check=False, **options
    )


def stream_name(operation):
    number = operation.get("hip_stream", 0)
    return f"Stream {number}" if number else "Default Stream"


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
        launches = collections.defaultdict(list)
        for call in self.of["api_call"]:
            if call["domain"] != "marker":
                launches[call["tid"]].append(call)
        for calls in launches.values():
            calls.sort(key=lambda c: (c["begin_ns"], -c["end_ns"]))
        for operation in self.of["dispatch"] + self.of["copy"]:
            operation["linked_id"] = self.linked_id(operation, launches[operation["tid"]])
        self.calls = self.ranges()

    @staticmethod
    def linked_id(operation, launches):
        """The innermost call that its thread was in when it was submitted."""
        began = bisect.bisect_right(launches, operation["enqueue_ns"],
                                    key=lambda c: c["begin_ns"])
        # Calls of the made-up recording nest twice at most.
        for call in reversed(launches[max(0, began - 4) : began]):
            if call["end_ns"] >= operation["enqueue_ns"]:
                return call["correlation_id"]
        return operation["correlation_id"] | OTHER_COUNT

    def ranges(self):
        """API calls as rocprofv3 has them: ranges from push to pop, marks without duration."""
        calls, open_ranges = [], collections.defaultdict(list)
        for call in self.of["api_call"]:
            if call["function"] == "roctxRangePushA":
                open_ranges[call["tid"]].append(call)
            elif call["function"] == "roctxRangePop" and open_ranges[call["tid"]]:
                calls.append({**open_ranges[call["tid"]].pop(), "end_ns": call["end_ns"]})
            elif call["function"] == "roctxMarkA":
                calls.append({**call, "end_ns": call["begin_ns"]})
            else:
                calls.append(call)
        left = [call for calls_of in open_ranges.values() for call in calls_of]
        return calls + sorted(left, key=lambda c: c["begin_ns"])

    @staticmethod
    def timed(record):
        return not record["untimed"] and not record["unfinished"]

    def kernel(self, record):
        return self.kernels.get(
            record["kernel_id"],
            {"display_name": "", "name": "", "arch_vgprs": 0, "accum_vgprs": 0, "sgprs": 0},
        )


@contextlib.contextmanager
def started(command, **options):
    """The program, which is killed at the end: also if the test has failed meanwhile."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


class ConvertTestCase(unittest.TestCase):
    def await_true(self, condition, what):
        """Waits until the condition is true."""
        deadline = time.monotonic() + 60
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"waited in vain for {what}")
            time.sleep(0.05)

    """A made-up recording, and what the dump says of it."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.recording = os.path.join(cls.scratch.name, "made.rwa")
        subprocess.run(
            [PROGRAMS.make_recording, cls.recording, str(SEED), str(DISPATCHES), str(PROCESSES)],
            check=True,
        )
        streams = collections.defaultdict(list)
        with subprocess.Popen(
            [PROGRAMS.rocattach, "dump", "--json", cls.recording], stdout=subprocess.PIPE
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

    def rows(self, process, stem):
        with open(self.path(process, stem + ".csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual(rows[0], COLUMNS[stem].split())
        return [dict(zip(rows[0], row)) for row in rows[1:]]

    def database(self, process):
        return sqlite3.connect(self.path(process, "results.db"))

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
        self.assertEqual(header, SYSINFO_COLUMNS.split())
        with open(os.path.join(folder, "profiling_config.yaml"), encoding="utf-8") as file:
            configuration = yaml.safe_load(file)
        return list(dispatches.values()), dict(zip(header, machine)), configuration


def main():
    """Runs the tests of the calling script: SCRIPT ROCATTACH MAKE_RECORDING [TEST…]."""
    PROGRAMS.rocattach, PROGRAMS.make_recording = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
