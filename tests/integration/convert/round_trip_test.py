#!/usr/bin/env python3
"""Many records of all kinds through every format: each has all of them, with their times
and names. Records are compared by a checksum that does not depend on their order, so that
any number fits into memory. ROCATTACH_ROUND_TRIP=10000000 makes that many dispatches.

usage: round_trip_test.py ROCATTACH MAKE_RECORDING TOP
"""
import collections
import csv
import glob
import gzip
import importlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ROCATTACH = MAKE_RECORDING = TOP = ""
DISPATCHES = int(os.environ.get("ROCATTACH_ROUND_TRIP", "4000"))
MASK = (1 << 64) - 1
# Added to the correlation ids of operations without a call.
OTHER_COUNT = 1 << 48


class Records:
    """The number of records of each kind, and the sum of their hashes."""

    def __init__(self):
        self.counts = collections.Counter()
        self.sums = collections.Counter()

    def add(self, kind, *values):
        self.counts[kind] += 1
        self.sums[kind] = (self.sums[kind] + hash(values)) & MASK

    def of(self, *kinds):
        return {kind: (self.counts[kind], self.sums[kind]) for kind in kinds}


class Source:
    """The recording as `rocattach dump` prints it, in the terms of each format."""

    def __init__(self):
        self.records = Records()
        self.times = collections.Counter()
        self.calls = collections.Counter()
        self.bytes = self.dispatches = 0
        self.launched = {}  # operations by the call that they wait for
        self.launches = {}  # ids of calls that wait for an operation, by thread and begin
        self.last_call = (0, 0)
        self.ranges = collections.defaultdict(list)
        self.counted = {}  # starts of dispatches whose values have not all come
        self.early = collections.defaultdict(list)  # values that came before their dispatch

    def read(self, lines):
        for line in lines:
            record = json.loads(line)
            handle = getattr(self, "on_" + record["type"], None)
            if handle is not None and not record.get("repeated"):
                handle(record)
        for call in (call for open_ranges in self.ranges.values() for call in open_ranges):
            self.add_call(call)
        assert not self.launched and not self.counted and not self.early
        return self

    def on_dispatch(self, r):
        name, start, end = r.get("kernel", ""), r["start_ns"], r["end_ns"]
        self.records.add("stage", start, end - start, name)
        self.times[name] += end - start
        self.calls[name] += 1
        self.dispatches += 1
        if self.dispatches % 10 == 0:
            number = r["correlation_id"] & ~OTHER_COUNT
            self.counted[number] = start
            for counter, value in self.early.pop(number, ()):
                self.add_track(number, counter, value)
        if self.dispatches % 10 != 5:
            self.add_dispatch(r, r["correlation_id"] | OTHER_COUNT)
            return
        # The call around it that make_recording has written.
        key = r["tid"], r["enqueue_ns"] - (20 if self.dispatches % 20 == 15 else 40)
        if key in self.launches:
            self.add_dispatch(r, self.launches.pop(key))
        else:
            self.launched[key] = r

    def add_dispatch(self, r, linked_id):
        add = self.records.add
        add("dispatch", linked_id, r["tid"], r["queue_id"], r.get("kernel", ""),
            r["start_ns"], r["end_ns"], *r["grid"], *r["workgroup"])
        add("numbered dispatch", linked_id, r["tid"], r["queue_id"], r["kernel_id"],
            r["start_ns"], r["end_ns"], *r["grid"], *r["workgroup"], r["lds_bytes"],
            r["scratch_bytes"])

    def on_copy(self, r):
        direction = "MEMORY_COPY_" + r["direction"].upper()
        add = self.records.add
        add("copy", direction, r["correlation_id"] | OTHER_COUNT, r["start_ns"], r["end_ns"])
        add("sized copy", direction, r["tid"], r["start_ns"], r["end_ns"], r["bytes"],
            r["src_address"], r["dst_address"])
        self.bytes += r["bytes"]

    def on_counter(self, r):
        add, value = self.records.add, round(r["sum"], 5)
        number = r["correlation_id"] & ~OTHER_COUNT  # ndjson has it already
        add("counter", number | OTHER_COUNT, r["counter"], value)
        add("workload counter", number, r["counter"], value)
        for instance in r.get("each", ({"value": r["sum"]},)):
            add("value", number | OTHER_COUNT, r["counter"], round(instance["value"], 5))
        # Values and dispatches are in separate batches: either may come first.
        if number in self.counted:
            self.add_track(number, r["counter"], value)
        else:
            self.early[number].append((r["counter"], value))

    def add_track(self, number, counter, value):
        # TCC_HIT is the last value of a dispatch.
        start = self.counted.pop(number) if counter == "TCC_HIT" else self.counted[number]
        if value != 0:  # a track has 0 between two values
            self.records.add("counter track", start, counter, value)

    def on_sample(self, r):
        self.records.add("sample", r["sample_id"], r["counter"], r["sum"])

    def on_api_call(self, r):
        name, tid = r["function"], r["tid"]
        duration = r["end_ns"] - r["begin_ns"]
        if name == "roctxRangePushA":
            self.ranges[tid].append(r)
            return
        if name == "roctxRangePop" and self.ranges[tid]:
            self.add_call({**self.ranges[tid].pop(), "end_ns": r["end_ns"]})
            return
        if name == "roctxMarkA":
            self.add_call({**r, "end_ns": r["begin_ns"]})
            return
        self.add_call(r)
        if r["domain"] != "marker":
            self.records.add("slice", name, r["correlation_id"], r["begin_ns"], r["end_ns"])
        key = tid, r["begin_ns"]
        inner = name == "hsa_signal_store_screlease" and duration == 40
        outer = (name == "hipLaunchKernel" and duration == 100
                 and self.last_call != (tid, r["begin_ns"] + 20))
        self.last_call = key
        if key in self.launched:
            self.add_dispatch(self.launched.pop(key), r["correlation_id"])
        elif inner or outer:
            self.launches[key] = r["correlation_id"]

    def add_call(self, r):
        name = r.get("text") or r["function"]
        self.records.add("call", name, r["tid"], r["correlation_id"], r["begin_ns"],
                         r["end_ns"])
        for line in r.get("arguments", "").splitlines():
            self.records.add("argument", r["correlation_id"], *line.split("=", 1))

    def on_memory(self, r):
        kind, operation = memory_names(r["operation"])
        add = self.records.add
        if kind == "scratch":
            add(kind, operation, r["queue_id"], r["tid"], r["scratch_flags"], r["begin_ns"],
                r["end_ns"], r["bytes"])
        else:
            add(kind, operation, r["bytes"], r["address"], r["correlation_id"],
                r["begin_ns"], r["end_ns"])
        add("memory row", r["tid"], r["begin_ns"], r["end_ns"], r["address"], r["bytes"],
            r["queue_id"], r["correlation_id"])


def memory_names(operation):
    """The kind of a record, and what rocprofv3 calls the operation."""
    if not operation.startswith("scratch"):
        return "allocation", "MEMORY_ALLOCATION_" + operation.upper()
    return "scratch", {"scratch_allocate": "SCRATCH_MEMORY_ALLOC",
                       "scratch_free": "SCRATCH_MEMORY_FREE",
                       "scratch_reclaim": "SCRATCH_MEMORY_ASYNC_RECLAIM"}[operation]


def array_of(lines, key):
    """The records of one array, one per line. "KEY records": of the second such array."""
    key, _, second = key.partition(" ")
    for line in lines:
        if f'"{key}":[' in line:
            if not second:
                break
            second = ""
    for line in lines:
        if not line.startswith("{"):
            return
        record, end = json.JSONDecoder().raw_decode(line)
        yield record
        if line[end:].strip() != ",":
            return


class RoundTripTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(dir=os.environ.get("ROCATTACH_ROUND_TRIP_DIR"))
        cls.recording = os.path.join(cls.scratch.name, "made.rwa")
        subprocess.run([MAKE_RECORDING, cls.recording, "11", str(DISPATCHES)], check=True)
        subprocess.run(
            ["protoc", f"-I{TOP}", f"--python_out={cls.scratch.name}",
             *(f"schemas/export/{name}.proto"
               for name in ("perfetto", "pprof", "otlp_common", "otlp_profile"))],
            cwd=TOP, check=True)
        sys.path.insert(0, cls.scratch.name)
        with subprocess.Popen([ROCATTACH, "dump", "--json", cls.recording],
                              stdout=subprocess.PIPE) as dump:
            cls.source = Source().read(dump.stdout)
        assert cls.source.records.counts["dispatch"] == DISPATCHES

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def convert(self, kind):
        out = os.path.join(self.scratch.name, kind)
        subprocess.run([ROCATTACH, "convert", self.recording, "-f", kind, "-d", out, "-o",
                        "x"], check=True, stdout=subprocess.DEVNULL)
        self.addCleanup(subprocess.run, ["rm", "-r", out], check=True)
        return out

    def expect(self, got, *kinds):
        self.assertEqual(got.of(*kinds), self.source.records.of(*kinds))

    def test_csv(self):
        out = self.convert("csv")
        got = Records()

        def rows(stem):
            with open(f"{out}/x_{stem}.csv", encoding="utf-8", newline="") as file:
                yield from csv.DictReader(file)

        for r in rows("kernel_trace"):
            got.add("dispatch", int(r["Correlation_Id"]), int(r["Thread_Id"]),
                    int(r["Queue_Id"]), r["Kernel_Name"], int(r["Start_Timestamp"]),
                    int(r["End_Timestamp"]), *(int(r["Grid_Size_" + d]) for d in "XYZ"),
                    *(int(r["Workgroup_Size_" + d]) for d in "XYZ"))
        for r in rows("memory_copy_trace"):
            got.add("copy", r["Direction"], int(r["Correlation_Id"]),
                    int(r["Start_Timestamp"]), int(r["End_Timestamp"]))
        for r in rows("counter_collection"):
            got.add("counter", int(r["Correlation_Id"]), r["Counter_Name"],
                    round(float(r["Counter_Value"]), 5))
        for path in glob.glob(f"{out}/x_*_api_trace.csv"):
            for r in rows(os.path.basename(path)[2:-4]):
                got.add("call", r["Function"], int(r["Thread_Id"]), int(r["Correlation_Id"]),
                        int(r["Start_Timestamp"]), int(r["End_Timestamp"]))
        for r in rows("memory_allocation_trace"):
            got.add("allocation", r["Operation"], int(r["Allocation_Size"]),
                    int(r["Address"], 16), int(r["Correlation_Id"]),
                    int(r["Start_Timestamp"]), int(r["End_Timestamp"]))
        for r in rows("scratch_memory_trace"):
            got.add("scratch", r["Operation"], int(r["Queue_Id"]), int(r["Thread_Id"]),
                    int(r["Alloc_Flags"]), int(r["Start_Timestamp"]), int(r["End_Timestamp"]),
                    int(r["Allocation_Size"]))
        self.expect(got, "dispatch", "copy", "counter", "call", "allocation", "scratch")

    def test_ndjson(self):
        out = self.convert("ndjson")
        with open(f"{out}/x_results.ndjson", encoding="utf-8") as file:
            got = Source().read(file)
        self.expect(got.records, *self.source.records.counts)

    def test_json(self):
        out = self.convert("json")
        got = Records()

        def records(key):
            with open(f"{out}/x_results.json", encoding="utf-8") as file:
                yield from array_of(file, key)

        names = [(k["kind"], k["operations"]) for k in records("buffer_records")]
        counters = {c["id"]["handle"]: c["name"] for c in records("counters")}
        texts = {t["key"]: t["value"] for t in records("marker_api")}
        for r in records("kernel_dispatch"):
            info = r["dispatch_info"]
            got.add("numbered dispatch", r["correlation_id"]["internal"], r["thread_id"],
                    info["queue_id"]["handle"], info["kernel_id"], r["start_timestamp"],
                    r["end_timestamp"], *info["grid_size"].values(),
                    *info["workgroup_size"].values(), info["group_segment_size"],
                    info["private_segment_size"])
        for r in records("memory_copy"):
            got.add("copy", names[r["kind"]][1][r["operation"]],
                    r["correlation_id"]["internal"], r["start_timestamp"], r["end_timestamp"])
        for r in records("counter_collection"):
            for value in r["records"]:
                got.add("value", r["dispatch_data"]["correlation_id"]["internal"],
                        counters[value["counter_id"]["handle"]], round(value["value"], 5))
        for api in ("hip_api", "hsa_api", "marker_api records", "rccl_api"):
            for r in records(api):
                number = r["correlation_id"]["internal"]
                name = names[r["kind"]][1][r["operation"]]
                got.add("call", texts.get(number, name), r["thread_id"], number,
                        r["start_timestamp"], r["end_timestamp"])
                for argument in r.get("args", {}).items():
                    got.add("argument", number, *argument)
        for r in records("memory_allocation"):
            got.add("allocation", names[r["kind"]][1][r["operation"]], r["allocation_size"],
                    r["address"]["handle"], r["correlation_id"]["internal"],
                    r["start_timestamp"], r["end_timestamp"])
        for r in records("scratch_memory"):
            got.add("scratch", names[r["kind"]][1][r["operation"]], r["queue_id"]["handle"],
                    r["thread_id"], r["flags"], r["start_timestamp"], r["end_timestamp"],
                    r["allocation_size"])
        self.expect(got, "numbered dispatch", "copy", "value", "call", "argument",
                    "allocation", "scratch")

    def test_rocpd(self):
        out = self.convert("rocpd")
        got = Records()
        db = sqlite3.connect(f"{out}/x_results.db")
        for row in db.execute(
                "SELECT stack_id, tid, queue_id, name, start, end, grid_x, grid_y, grid_z, "
                "workgroup_x, workgroup_y, workgroup_z FROM kernels"):
            got.add("dispatch", *row)
        for row in db.execute("SELECT name, tid, start, end, size, src_address, dst_address "
                              "FROM memory_copies"):
            got.add("sized copy", *row)
        for stack, name, value in db.execute(
                "SELECT stack_id, counter_name, value FROM counters_collection"):
            got.add("counter", stack, name, round(value, 5))
        for row in db.execute(
                "SELECT coalesce(json_extract(extdata, '$.message'), name), tid, stack_id, "
                "start, end FROM regions_and_samples WHERE category <> 'DEVICE_COUNTERS'"):
            got.add("call", *row)
        for stack, name, value in db.execute(
                "SELECT e.stack_id, p.name, v.value FROM rocpd_pmc_event v JOIN rocpd_event e "
                "ON e.id = v.event_id JOIN rocpd_info_pmc p ON p.id = v.pmc_id "
                "JOIN rocpd_kernel_dispatch d ON d.event_id = e.id"):
            got.add("value", stack, name, round(value, 5))
        for row in db.execute("SELECT e.stack_id, a.name, a.value FROM rocpd_arg a "
                              "JOIN rocpd_event e ON e.id = a.event_id"):
            got.add("argument", *row)
        for row in db.execute("SELECT tid, start, end, address, size, queue_id, stack_id "
                              "FROM memory_allocations"):
            got.add("memory row", *row)
        db.close()
        self.expect(got, "dispatch", "sized copy", "counter", "value", "call", "argument",
                    "memory row")

    def test_pftrace(self):
        out = self.convert("pftrace")
        perfetto = importlib.import_module("schemas.export.perfetto_pb2")
        packet = perfetto.TracePacket()
        names, stages, arguments, tracks = {}, {}, {}, {}
        open_slices = collections.defaultdict(list)
        got = Records()
        copies = 0
        for message in packets(f"{out}/x_results.pftrace"):
            packet.ParseFromString(message)
            if packet.HasField("interned_data"):
                data = packet.interned_data
                names.update((n.iid, n.name) for n in data.event_names)
                stages.update((s.iid, s.name) for s in data.gpu_specifications)
                arguments.update((n.iid, n.name) for n in data.debug_annotation_names)
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                tracks[track.uuid] = track.name
            if packet.HasField("gpu_render_stage_event"):
                event = packet.gpu_render_stage_event
                if stages[event.stage_iid] == "Copy":
                    copies += 1
                else:
                    got.add("stage", packet.timestamp, event.duration, names[event.name_iid])
            if not packet.HasField("track_event"):
                continue
            event = packet.track_event
            if event.type == perfetto.TrackEvent.TYPE_COUNTER:
                name = tracks[event.track_uuid]
                if event.double_counter_value != 0 and "(samples)" not in name:
                    got.add("counter track", packet.timestamp, name.split(" ")[-1],
                            round(event.double_counter_value, 5))
            elif event.type == perfetto.TrackEvent.TYPE_SLICE_BEGIN:
                values = {arguments[a.name_iid]: a.uint_value for a in event.debug_annotations
                          if a.name_iid}
                open_slices[event.track_uuid].append(
                    (names.get(event.name_iid), values["correlation_id"], packet.timestamp))
            elif event.type == perfetto.TrackEvent.TYPE_SLICE_END:
                slice_ = open_slices[event.track_uuid].pop()
                if slice_[0] is not None:  # slices of markers are texts
                    got.add("slice", *slice_, packet.timestamp)
        self.expect(got, "stage", "slice", "counter track")
        self.assertEqual(copies, self.source.records.counts["copy"])

    def test_compute_workload(self):
        out = self.convert("compute-workload")
        for opened in (gzip.open(f"{out}/x_workload/results_pmc_perf.csv.gz", "rt",
                                 encoding="utf-8", newline=""),
                       open(f"{out}/x_workload/pmc_perf.csv", encoding="utf-8", newline="")):
            got = Records()
            with opened as file:
                for r in csv.DictReader(file):
                    if not r["Counter_Name"].endswith("_sum"):
                        got.add("workload counter", int(r["Correlation_Id"]),
                                r["Counter_Name"], round(float(r["Counter_Value"]), 5))
            self.expect(got, "workload counter")

    def test_pprof(self):
        out = self.convert("pprof")
        profile = importlib.import_module("schemas.export.pprof_pb2").Profile()
        with gzip.open(f"{out}/x_results.pb.gz") as file:
            profile.ParseFromString(file.read())
        text = profile.string_table
        types = [text[t.type] for t in profile.sample_type]
        functions = {f.id: text[f.name] for f in profile.function}
        lines = {l.id: functions[l.line[0].function_id] for l in profile.location if l.line}
        times, calls, copied = collections.Counter(), collections.Counter(), 0
        for sample in profile.sample:
            values = dict(zip(types, sample.value))
            name = lines[sample.location_id[0]]
            if values["dispatches"]:
                times[name] += values["gpu_kernel_time"]
                calls[name] += values["dispatches"]
            copied += values["copied_bytes"]
        self.assertEqual((times, calls), (self.source.times, self.source.calls))
        self.assertEqual(copied, self.source.bytes)

    def test_otlp_profile(self):
        out = self.convert("otlp-profile")
        data = importlib.import_module("schemas.export.otlp_profile_pb2").ProfilesData()
        with open(f"{out}/x_results.otlp.pb", "rb") as file:
            data.ParseFromString(file.read())
        totals = collections.Counter()
        for resource in data.resource_profiles:
            for scope in resource.scope_profiles:
                for profile in scope.profiles:
                    name = data.dictionary.string_table[profile.sample_type.type_strindex]
                    totals[name] += sum(sum(s.values) for s in profile.samples)
        self.assertEqual(totals["gpu_kernel_time"], sum(self.source.times.values()))
        self.assertEqual(totals["dispatches"], DISPATCHES)
        self.assertEqual(totals["copied_bytes"], self.source.bytes)


def packets(path):
    """The packets of a trace, which are its first field, one by one."""
    with open(path, "rb") as file:
        while tag := file.read(1):
            assert tag == b"\x0a", tag
            size = shift = 0
            while True:
                byte = file.read(1)[0]
                size |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            yield file.read(size)


if __name__ == "__main__":
    ROCATTACH, MAKE_RECORDING, TOP = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
