#!/usr/bin/env python3
"""Many records of all kinds through every format: each has all of them, with their times
and names. Records are compared by a checksum that does not depend on their order, so that
any number fits into memory. ROCATTACH_ROUND_TRIP=10000000 for that many dispatches.

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


class Records:
    """How many there are of each kind, and the sum of their hashes."""

    def __init__(self):
        self.counts = collections.Counter()
        self.sums = collections.Counter()

    def add(self, kind, *values):
        self.counts[kind] += 1
        self.sums[kind] = (self.sums[kind] + hash(values)) & MASK

    def of(self, *kinds):
        return {kind: (self.counts[kind], self.sums[kind]) for kind in kinds}


class Source:
    """The recording as `rocattach dump` has it, in the terms of each format."""

    def __init__(self, recording):
        self.records = Records()
        self.times = collections.Counter()
        self.calls = collections.Counter()
        self.bytes = 0
        self.sizes = {}
        self.samples = set()
        with subprocess.Popen([ROCATTACH, "dump", "--json", recording],
                              stdout=subprocess.PIPE) as dump:
            for line in dump.stdout:
                record = json.loads(line)
                handle = getattr(self, "on_" + record["type"], None)
                if handle is not None and not record.get("repeated"):
                    handle(record)

    def on_dispatch(self, r):
        name, start, end = r.get("kernel", ""), r["start_ns"], r["end_ns"]
        add = self.records.add
        add("dispatch", r["correlation_id"], r["tid"], r["queue_id"], name, start, end,
            *r["grid"], *r["workgroup"])
        add("numbered dispatch", r["correlation_id"], r["tid"], r["queue_id"], r["kernel_id"],
            start, end, *r["grid"], *r["workgroup"], r["lds_bytes"], r["scratch_bytes"])
        add("stage", start, end - start, name)
        self.times[name] += end - start
        self.calls[name] += 1

    def on_copy(self, r):
        direction = "MEMORY_COPY_" + r["direction"].upper()
        add = self.records.add
        add("copy", direction, r["correlation_id"], r["start_ns"], r["end_ns"])
        add("sized copy", direction, r["tid"], r["start_ns"], r["end_ns"], r["bytes"],
            r["src_address"], r["dst_address"])
        self.bytes += r["bytes"]

    def on_counter(self, r):
        self.records.add("counter", r["correlation_id"], r["counter"], round(r["sum"], 5))

    def on_sample(self, r):
        self.records.add("sample", r["sample_id"], r["counter"], r["sum"])

    def on_api_call(self, r):
        name = r.get("text") or r["function"]
        self.records.add("call", name, r["tid"], r["correlation_id"], r["begin_ns"],
                         r["end_ns"])


def array_of(lines, key):
    """The records of one array: each has a line."""
    for line in lines:
        if f'"{key}":[' in line:
            break
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
        cls.source = Source(cls.recording)
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
        self.expect(got, "dispatch", "copy", "counter", "call")

    def test_ndjson(self):
        out = self.convert("ndjson")
        got = Source.__new__(Source)
        got.__dict__.update(records=Records(), times=collections.Counter(),
                            calls=collections.Counter(), bytes=0)
        with open(f"{out}/x_results.ndjson", encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                handle = getattr(got, "on_" + record["type"], None)
                if handle is not None:
                    handle(record)
        self.expect(got.records, *self.source.records.counts)

    def test_json(self):
        out = self.convert("json")
        got = Records()
        path = f"{out}/x_results.json"
        with open(path, encoding="utf-8") as file:
            for r in array_of(file, "kernel_dispatch"):
                info = r["dispatch_info"]
                got.add("numbered dispatch", r["correlation_id"]["internal"], r["thread_id"],
                        info["queue_id"]["handle"], info["kernel_id"], r["start_timestamp"],
                        r["end_timestamp"], *info["grid_size"].values(),
                        *info["workgroup_size"].values(), info["group_segment_size"],
                        info["private_segment_size"])
        with open(path, encoding="utf-8") as file:
            copies = sum(1 for _ in array_of(file, "memory_copy"))
        self.expect(got, "numbered dispatch")
        self.assertEqual(copies, self.source.records.counts["copy"])

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
        db.close()
        self.expect(got, "dispatch", "sized copy", "counter", "call")

    def test_pftrace(self):
        out = self.convert("pftrace")
        packet = importlib.import_module("schemas.export.perfetto_pb2").TracePacket()
        names, stages = {}, {}
        got = Records()
        copies = 0
        for message in packets(f"{out}/x_results.pftrace"):
            packet.ParseFromString(message)
            if packet.HasField("interned_data"):
                data = packet.interned_data
                names.update((n.iid, n.name) for n in data.event_names)
                stages.update((s.iid, s.name) for s in data.gpu_specifications)
            if not packet.HasField("gpu_render_stage_event"):
                continue
            event = packet.gpu_render_stage_event
            if stages[event.stage_iid] == "Copy":
                copies += 1
            else:
                got.add("stage", packet.timestamp, event.duration, names[event.name_iid])
        self.expect(got, "stage")
        self.assertEqual(copies, self.source.records.counts["copy"])

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
