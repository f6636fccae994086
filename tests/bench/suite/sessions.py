"""Sessions: how soon they start, what a dispatch costs meanwhile, and what becomes of
its values. The SDK is the simulated one, and most of a counted dispatch is its own."""
import re

from .common import BenchError, duration, key_values, rate

# A line of collector_sdk_rate.
RATE = re.compile(r"  (?P<mode>\S.*?) +(?P<ns>\d+) ns/dispatch +ours +(?P<own>\d+) +"
                  r"records (?P<records>\d+) of (?P<dispatches>\d+) +"
                  r"values (?P<values>\d+) +lost (?P<lost>\d+)")


def run_start(bench):
    starts = 200 if bench.quick else 400
    done = bench.run([bench.program("bench/bench_session_start"), starts], timeout=300)
    seen = key_values(done.stdout)

    def row(what, name):
        figures = {key: seen[f"{name}_{key}"] for key in ("median", "p99", "max")}
        return (what, f"median {duration(figures['median'])}, "
                f"p99 {duration(figures['p99'])}", "", "", "",
                {f"{key}_ns": value for key, value in figures.items()})

    bench.table("sessions", f"Starting and stopping a session on a running process, "
                f"{seen['starts']} times, other counters each time", "", [
                    row("request to first counted dispatch", "first"),
                    row("request to answer: in force", "answered"),
                    row("request to stop, to all of it recorded", "stopped"),
                    ("lost", str(seen["dropped"]), "", "", "", {
                        "dropped": seen["dropped"],
                        "without_dispatch": seen["without_dispatch"]}),
                ])


def run_cost(bench):
    done = bench.run([bench.program("bench/collector_sdk_rate"),
                      *((2, 3200) if bench.quick else (5, 16000))], timeout=900)
    rows, absent, threads = [], None, ""
    for line in done.stdout.splitlines():
        if not line.startswith(" "):
            threads = line.strip()
            continue
        seen = RATE.match(line)
        if seen is None:
            raise BenchError(f"collector_sdk_rate: {line!r}")
        ns, own = int(seen["ns"]), int(seen["own"])
        if seen["mode"] == "absent":
            absent = ns
            continue
        rows.append((f"{threads}: {seen['mode']}",
                     duration(ns) + (f", {duration(own)} ours" if own else ""),
                     duration(absent), f"{ns / absent:.3g} : 1", "", {
                         "dispatch_ns": ns, "own_ns": own, "absent_ns": absent,
                         **{name: int(seen[name]) for name in
                            ("records", "dispatches", "values", "lost")}}))
    lost = sum(row[5]["lost"] for row in rows)
    rows.append(("lost, of all", str(lost), "", "", "", {"lost": lost}))
    bench.table("sessions", "A dispatch of a kernel of zero length, all threads' time "
                "divided by dispatches", "no collector, no SDK", rows)


def run_part(bench):
    items = bench.benchmark("counting_bench", ".")
    ours = items["BM_CountedDispatch"]["cpu_time"]
    kept = items["BM_MutexVectorOfRecords"]["cpu_time"]
    bench.table("sessions", "The collector's part of a dispatch with 8 counters and 434 "
                "instances, processor time", "records kept in a vector, mutex", [
                    ("all callbacks, to the values in the ring", duration(ours),
                     duration(kept), f"1 : {kept / ours:.2f}", "≤ 1.5 µs",
                     {"part_ns": ours, "vector_ns": kept}),
                ])


def drain_row(what, ours, single, goal):
    speeds = [item["items_per_second"] for item in (ours, single)]
    sizes = [item["bytes_per_record"] for item in (ours, single)]
    return (what, f"{rate(speeds[0])}, {sizes[0]:.1f} bytes",
            f"{rate(speeds[1])}, {sizes[1]:.1f} bytes",
            f"{speeds[0] / speeds[1]:.2f} ×, 1 : {sizes[1] / sizes[0]:.1f} bytes", goal,
            {"dispatches_per_second": speeds[0], "values_per_second": 8 * speeds[0],
             "bytes_per_dispatch": sizes[0],
             "single_dispatches_per_second": speeds[1],
             "single_bytes_per_dispatch": sizes[1]})


def run_values(bench):
    items = bench.benchmark("session_bench", ".")
    push = items["BM_PushGroup"]["cpu_time"]
    alone = items["BM_MutexVectorGroup/real_time/threads:1"]["real_time"]
    # Time per iteration of one thread: with two, Google Benchmark divides by both.
    contended = 2 * items["BM_MutexVectorGroup/real_time/threads:2"]["real_time"]
    bench.table("sessions", "A dispatch with 8 values, producer's side", "mutex and vector",
                [
                    ("into the ring, in one piece", duration(push), duration(alone),
                     f"1 : {alone / push:.2f}", "",
                     {"ring_ns": push, "mutex_ns": alone}),
                    ("the same, two threads", f"{duration(push)} (rings are per thread)",
                     duration(contended), f"1 : {contended / push:.2f}", "",
                     {"ring_ns": push, "mutex_ns": contended}),
                ])
    single = items["BM_VectorToMessages"]
    bench.table("sessions", "Dispatches with 8 values, one core",
                "from the vector, one message each, in memory", [
                    drain_row("ring, checked, to a file, zstd 1",
                              items["BM_DrainToFile/manual_time"], single,
                              "≥ 1.00 ×"),
                    drain_row("the same, and records to a program",
                              items["BM_DrainToFileAndProgram/manual_time"], single,
                              ""),
                ])


def run(bench):
    run_start(bench)
    run_cost(bench)
    run_part(bench)
    run_values(bench)
