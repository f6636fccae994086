#!/usr/bin/env python3
"""Perfetto's own trace processor reads our traces: everything in the recording is there,
with its times and numbers, and the importer reports no problem."""
import collections
import random

import convert_testing
from convert_testing import require

SETTING = convert_testing.Setting()
PERFETTO = convert_testing.TraceProcessor(SETTING)
require(PERFETTO.missing)

import unittest  # noqa: E402

# Problems that the importer reports.
COMPLAINTS = """select name, idx, value from stats
  where severity in ('error', 'data_loss') and value > 0"""


def argument(name, of="s"):
    return f"extract_arg({of}.arg_set_id, '{name}') as \"{name}\""


STAGES = f"""select s.ts, s.dur, s.name, t.name as track,
  extract_arg(s.arg_set_id, 'kernel_name') as mangled,
  {', '.join(argument(n) for n in ('correlation_id', 'tid', 'enqueue_ns', 'lds_bytes',
                                   'scratch_bytes', 'bytes', 'src_agent_id',
                                   'dst_agent_id'))},
  {', '.join(argument(f"launch.{n}_size.{xyz}") for n in ('grid', 'workgroup')
             for xyz in 'xyz')},
  p.pid, s.id
  from slice s join track t on s.track_id = t.id
  left join process p on p.upid = extract_arg(s.arg_set_id, 'upid')
  where t.type = 'gpu_render_stage'"""
CALLS = """select s.id, s.ts, s.dur, s.name, s.category, th.tid, p.pid, s.depth,
  extract_arg(s.arg_set_id, 'debug.correlation_id') as correlation_id
  from slice s join thread_track tt on s.track_id = tt.id
  join thread th using (utid) join process p using (upid)
  where s.category in ('hip_api', 'hsa_api')"""
FLOWS = "select slice_out, slice_in from flow"
MARKERS = """select s.ts, s.dur, s.name from slice s where s.category = 'marker_api'"""
INSTANTS = """select s.ts, s.name from slice s
  where s.category in ('kernel_dispatch', 'memory_copy') and s.name != 'submit'"""
# The call around an instant.
SUBMISSIONS = """select s.id, extract_arg(a.arg_set_id, 'debug.correlation_id') as call
  from slice s join slice a on s.parent_id = a.id where s.name = 'submit'"""
VALUES = """select c.ts, c.value, t.name from counter c join counter_track t
  on c.track_id = t.id where c.value != 0"""
NOTES = """select s.ts, s.name, p.pid from slice s
  join process_track t on s.track_id = t.id join process p using (upid)
  where s.category = 'process'"""
GPUS = "select gpu, name, vendor, model, architecture, pci_bdf from gpu order by gpu"
CLOCKS = "select clock_name, clock_value from clock_snapshot order by clock_name"


# Added to the ids of operations if the calls of their process are traced.
OTHER_COUNT = 1 << 48


def timed(record):
    return not record["untimed"] and not record["unfinished"]


class Truth:
    """The contents of a recording, by `rocattach dump`."""

    def __init__(self, recording):
        self.found = SETTING.dump(recording)
        self.pids = {p["stream"]: p["pid"] for p in self.found["process"]}
        self.mangled = {(k["stream"], k["id"]): k["name"] for k in self.found["kernel"]}

        # Ids of operations differ from those of calls; without calls they stay as they are.
        traced = {f["stream"] for f in self.of("api_function") + self.of("api_call")}
        for r in self.of("dispatch") + self.of("copy") + self.of("counter"):
            if r["stream"] in traced:
                r["correlation_id"] |= OTHER_COUNT

    def of(self, kind):
        return self.found.get(kind, [])

    def stages(self):
        for r in filter(timed, self.of("dispatch")):
            groups = tuple(-(-r["grid"][i] // r["workgroup"][i]) for i in range(3))
            yield (r["start_ns"], r["duration_ns"], r["kernel"],
                   self.mangled[r["stream"], r["kernel_id"]], r["correlation_id"],
                   r["tid"], r["enqueue_ns"], r["lds_bytes"], r["scratch_bytes"], groups,
                   tuple(r["workgroup"]), self.pids[r["stream"]])

    def copies(self):
        for r in filter(timed, self.of("copy")):
            yield (r["start_ns"], r["duration_ns"], r["direction"].replace("_", " "),
                   r["correlation_id"], r["tid"], r["bytes"], r["src_agent_id"],
                   r["dst_agent_id"], self.pids[r["stream"]])

    def calls(self):
        for r in self.of("api_call"):
            if r["domain"] != "marker":
                yield (r["begin_ns"], r["duration_ns"], r["function"], r["tid"],
                       self.pids[r["stream"]], r["correlation_id"])

    def values(self):
        """Counter values with the start of their dispatch or sample."""
        begins = {(d["stream"], d["correlation_id"]): d["start_ns"]
                  for d in self.of("dispatch")}
        for r in self.of("counter"):
            yield (begins[r["stream"], r["correlation_id"]], r["sum"], r["counter"])
        for r in self.of("sample"):
            yield (r["begin_ns"], r["sum"], r["counter"] + " (samples)")

    def launches(self):
        """(pid, correlation id) of operations, with the innermost call around their
        submission."""
        calls = collections.defaultdict(list)
        for r in self.of("api_call"):
            if r["domain"] != "marker":
                calls[r["stream"], r["tid"]].append(
                    (r["begin_ns"], r["end_ns"], r["correlation_id"]))
        for r in filter(timed, self.of("dispatch") + self.of("copy")):
            around = [c for c in calls[r["stream"], r["tid"]]
                      if c[0] <= r["enqueue_ns"] <= c[1]]
            innermost = max(around, key=lambda c: (c[0], -c[1]))
            yield (self.pids[r["stream"]], r["correlation_id"], innermost[2])


def stage_row(row):
    return (row["ts"], row["dur"], row["name"], row["mangled"], row["correlation_id"],
            row["tid"], row["enqueue_ns"], row["lds_bytes"] or 0,
            row["scratch_bytes"] or 0,
            tuple(row[f"launch.grid_size.{xyz}"] for xyz in "xyz"),
            tuple(row[f"launch.workgroup_size.{xyz}"] for xyz in "xyz"), row["pid"])


def copy_row(row):
    return (row["ts"], row["dur"], row["name"], row["correlation_id"], row["tid"],
            row["bytes"] or 0, row["src_agent_id"], row["dst_agent_id"], row["pid"])


def packets(data):
    """The offsets at which packets begin, and the end of the last whole one."""
    offsets, at = [], 0
    while at < len(data):
        offsets.append(at)
        assert data[at] == 0x0A, f"no packet at {at}"
        at += 1
        length = shift = 0
        while True:
            if at >= len(data):
                return offsets
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += length
    if at == len(data):
        offsets.append(at)
    return offsets


class PftraceTest(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.recording = SETTING.recording(seed=1, processes=2, calls=3000)
        cls.truth = Truth(cls.recording)
        [cls.trace] = SETTING.convert(cls.recording, "pftrace")

    def same(self, got, want):
        got, want = collections.Counter(got), collections.Counter(want)
        self.assertEqual(list((got - want).items())[:3], [], "not in the recording")
        self.assertEqual(list((want - got).items())[:3], [], "not in the trace")

    def test_the_importer_reports_no_problem(self):
        [complaints] = PERFETTO.ask(self.trace, COMPLAINTS)
        self.assertEqual(complaints, [])

    def test_dispatches_and_copies(self):
        [rows] = PERFETTO.ask(self.trace, STAGES)
        self.same([stage_row(r) for r in rows if r["mangled"]], self.truth.stages())
        self.same([copy_row(r) for r in rows if not r["mangled"]], self.truth.copies())

    def test_operations_without_times_are_instants(self):
        [rows] = PERFETTO.ask(self.trace, INSTANTS)
        want = [(r["enqueue_ns"], r["kernel"]) for r in self.truth.of("dispatch")
                if not timed(r)]
        self.assertGreater(len(want), 0)
        self.same([(r["ts"], r["name"]) for r in rows], want)

    def test_calls(self):
        [rows] = PERFETTO.ask(self.trace, CALLS)
        self.same([(r["ts"], r["dur"], r["name"], r["tid"], r["pid"],
                    r["correlation_id"]) for r in rows], self.truth.calls())
        nested = [r for r in rows if r["category"] == "hsa_api"]
        self.assertEqual({r["depth"] for r in nested}, {1})

    def test_flows_lead_from_calls_to_operations(self):
        stages, calls, flows, submissions = PERFETTO.ask(self.trace, STAGES, CALLS,
                                                         FLOWS, SUBMISSIONS)
        call_of = {r["id"]: r["correlation_id"] for r in calls}
        call_of.update({r["id"]: r["call"] for r in submissions})
        stage_of = {r["id"]: (r["pid"], r["correlation_id"]) for r in stages}
        self.same([stage_of[f["slice_in"]] + (call_of[f["slice_out"]],) for f in flows],
                  self.truth.launches())
        # Most flows lead from the call itself; an instant inside it is the exception.
        self.assertLess(len(submissions), len(flows) / 10)

    def test_markers(self):
        [rows] = PERFETTO.ask(self.trace, MARKERS)
        marks, ranges = [], []
        open_ranges = collections.defaultdict(list)
        for r in sorted((r for r in self.truth.of("api_call") if r["domain"] == "marker"),
                        key=lambda r: r["begin_ns"]):
            thread = open_ranges[r["stream"], r["tid"]]
            if r["function"] == "roctxMarkA":
                marks.append((r["begin_ns"], 0, r["text"]))
            elif r["function"] == "roctxRangePushA":
                thread.append(r)
            else:
                begin = thread.pop()
                ranges.append((begin["begin_ns"], r["end_ns"] - begin["begin_ns"],
                               begin["text"]))
        for left in open_ranges.values():
            ranges += [(r["begin_ns"], -1, r["text"]) for r in left]
        self.same([(r["ts"], r["dur"], r["name"]) for r in rows], marks + ranges)

    def test_counters(self):
        [rows] = PERFETTO.ask(self.trace, VALUES)
        self.same([(r["ts"], r["value"], r["name"].split(" ", 2)[2]) for r in rows],
                  self.truth.values())

    def test_gpus_and_clocks(self):
        gpus, clocks = PERFETTO.ask(self.trace, GPUS, CLOCKS)
        self.assertEqual([g["gpu"] for g in gpus], [0, 1])
        self.assertEqual(gpus[0]["name"], "GPU 0 AMD Instinct MI210")
        self.assertEqual(gpus[0]["architecture"], "gfx90a")
        self.assertEqual(gpus[1]["pci_bdf"], "0000:03:00.0")
        header = self.truth.of("recording")[0]["clock"]
        named = {c["clock_name"]: c["clock_value"] for c in clocks}
        self.assertEqual(int(named["BOOTTIME"]), int(header["boottime_ns"]))
        self.assertEqual(int(named["REALTIME"]), int(header["realtime_ns"]))

    def test_verdicts_losses_and_ends_are_instants_of_the_processes(self):
        [rows] = PERFETTO.ask(self.trace, NOTES)
        want = []
        for r in self.truth.of("window"):
            want.append((r["hit_ns"], ": ".join(filter(None, ("attached", r["detail"]))),
                         self.truth.pids[r["stream"]]))
        for r in self.truth.of("account"):
            if r["packets_unseen"]:
                want.append((r["time_ns"], f"lost: {r['packets_unseen']:,} unseen",
                             self.truth.pids[r["stream"]]))
        for r in self.truth.of("process_end"):
            want.append((r["time_ns"], "exited with status 0", self.truth.pids[r["stream"]]))
        self.assertEqual(len(want), 2 + 1 + 2)
        self.same([(r["ts"], r["name"], r["pid"]) for r in rows], want)

    def test_a_name_of_10_kB_is_whole(self):
        long = "k" * 10_000
        [rows] = PERFETTO.ask(self.trace, f"""select distinct s.name,
            extract_arg(s.arg_set_id, 'kernel_name') as mangled,
            extract_arg(s.arg_set_id, 'kernel_demangled_name') as demangled
            from slice s where s.name like 'kkkk%' and mangled is not null""")
        self.assertEqual(len(rows), 1)
        for key in ("name", "mangled", "demangled"):
            self.assertTrue(rows[0][key] == long, key)  # without a page of differences

    def test_processes(self):
        [rows] = PERFETTO.ask(self.trace, """select pid, name, cmdline from process
            where pid > 0 order by pid""")
        self.assertEqual([(r["pid"], r["name"]) for r in rows],
                         [(1001, "made-up1"), (1002, "made-up2")])

    def test_a_file_cut_at_random_places_loads(self):
        data = self.trace.read_bytes()
        everything = collections.Counter(self.truth.stages())
        places = random.Random(7)
        for _ in range(6):
            length = places.randrange(200, len(data))
            cut = SETTING.scratch / f"cut-{length}.pftrace"
            cut.write_bytes(data[:length])
            complaints, rows = PERFETTO.ask(cut, COMPLAINTS, STAGES)
            with self.subTest(length=length):
                self.assertEqual(complaints, [])
                got = collections.Counter(stage_row(r) for r in rows if r["mangled"])
                self.assertEqual(got - everything, collections.Counter())
                self.assertGreater(sum(got.values()),
                                   sum(everything.values()) * length / len(data) * 0.8 - 200)

    def test_intact_parts_of_a_damaged_recording_load(self):
        data = bytearray(self.recording.read_bytes())
        places = random.Random(11)
        for _ in range(5):
            data[places.randrange(len(data) // 4, len(data))] ^= 0xFF
        del data[-100:]
        damaged = SETTING.scratch / "damaged.rwa"
        damaged.write_bytes(data)
        [trace] = SETTING.convert(damaged, "pftrace", status=1)
        complaints, rows = PERFETTO.ask(trace, COMPLAINTS, STAGES)
        self.assertEqual(complaints, [])
        got = collections.Counter(
            (r["ts"], r["dur"], r["correlation_id"], r["pid"])
            for r in rows if r["mangled"])
        everything = collections.Counter((r[0], r[1], r[4], r[-1])
                                         for r in self.truth.stages())
        self.assertEqual(got - everything, collections.Counter())
        self.assertGreater(sum(got.values()), 0)
        self.assertLess(sum(got.values()), sum(everything.values()))


class MachinesTest(unittest.TestCase):
    """Recordings of two machines, with processes that have the same process IDs."""

    def test_processes_with_the_same_number_stay_apart(self):
        here = SETTING.recording(4, 2, 2000)
        merged = SETTING.merge(here, SETTING.recording(5, 2, 2000, "node8"))
        [trace] = SETTING.convert(merged, "pftrace")
        found = SETTING.dump(merged)
        pids = {(p["recording"], p["stream"]): p["pid"] for p in found["process"]}
        want = collections.Counter(
            (d["recording"], pids[d["recording"], d["stream"]], d["start_ns"],
             d["duration_ns"], d["kernel"]) for d in found["dispatch"] if timed(d))
        complaints, processes, stages, gpus, notes, calls, flows = PERFETTO.ask(
            trace, COMPLAINTS, """select m.raw_id as machine, pid, p.name,
              extract_arg(p.arg_set_id, 'chrome.process_label[0]') as label
              from process p join machine m on m.id = p.machine_id where pid > 0""",
            """select m.raw_id as machine, p.pid, s.ts, s.dur, s.name from slice s
              join track t on s.track_id = t.id
              join process p on p.upid = extract_arg(s.arg_set_id, 'upid')
              join machine m on m.id = p.machine_id and m.id = t.machine_id
              where t.type = 'gpu_render_stage' and
                extract_arg(s.arg_set_id, 'kernel_name') is not null""",
            """select m.raw_id as machine, gpu, pci_bdf from gpu g
              join machine m on m.id = g.machine_id""", NOTES,
            """select s.id, m.raw_id as machine from slice s
              join track t on s.track_id = t.id join machine m on m.id = t.machine_id""",
            FLOWS)
        self.assertEqual(complaints, [])
        self.assertEqual({(p["machine"], p["pid"], p["name"]) for p in processes},
                         {(m, 1000 + n, f"made-up{n}") for m in (0, 1) for n in (1, 2)})
        got = collections.Counter((r["machine"], r["pid"], r["ts"], r["dur"], r["name"])
                                  for r in stages)
        self.assertEqual(got - want, collections.Counter())
        self.assertEqual(want - got, collections.Counter())
        self.assertEqual({(g["machine"], g["gpu"], g["pci_bdf"]) for g in gpus},
                         {(m, n, f"0000:0{n + 2}:00.0") for m in (0, 1) for n in (0, 1)})
        machine = {c["id"]: c["machine"] for c in calls}
        self.assertGreater(len(flows), 1000)
        self.assertEqual({(machine[f["slice_out"]], machine[f["slice_in"]]) for f in flows},
                         {(0, 0), (1, 1)})
        # The possible error of the other machine's times is stated.
        error = next(r for r in found["recording"] if r["hostname"] == "node8")
        self.assertGreaterEqual(error["merged_clock"]["error_ns"], 1_000_000)
        self.assertEqual(
            {r["name"].split(", at most ")[0] for r in notes if "at most" in r["name"]},
            {"recorded on node8: times are aligned by the machines' time of day"})


class LongTraceTest(unittest.TestCase):
    """A trace that is long enough to contain resets."""

    def test_the_rest_of_a_trace_without_its_beginning_loads(self):
        recording = SETTING.recording(seed=2, processes=1, calls=100_000)
        [trace] = SETTING.convert(recording, "pftrace")
        data = trace.read_bytes()
        offsets = packets(data)
        self.assertEqual(offsets[-1], len(data))
        # The beginning is missing: everything after the next reset is there.
        begin = offsets[len(offsets) // 4]
        rest = SETTING.scratch / "rest.pftrace"
        rest.write_bytes(data[begin:])
        complaints, rows = PERFETTO.ask(rest, COMPLAINTS, """
            select count(*) as n, min(s.name like 'k%' or s.name like 'with%'
              or s.name like 'vadd%') as named
            from slice s join track t on s.track_id = t.id
            where t.type = 'gpu_render_stage' and
              extract_arg(s.arg_set_id, 'kernel_name') is not null""")
        self.assertEqual(complaints, [])
        self.assertEqual(rows[0]["named"], 1)
        dispatches = sum(1 for d in SETTING.dump(recording)["dispatch"])
        self.assertGreater(rows[0]["n"], dispatches // 4)
        self.assertLess(rows[0]["n"], dispatches)


if __name__ == "__main__":
    try:
        convert_testing.main()
    finally:
        PERFETTO.close()
