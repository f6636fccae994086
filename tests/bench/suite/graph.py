"""Graphs: many kernels behind one ring of the doorbell, and what recording them costs."""
import os
import subprocess
import time

from .common import BenchError, duration, key_values, median
from .late import attached
from .launch import check_recording, check_tool

CONFIGURATIONS = ("absent", "window", "late", "plain tool")
PROGRAM = "tests/targets/hsa_graph"


def graph_time(text):
    values = key_values(text)
    if values.get("result") != "ok":
        raise BenchError(f"hsa_graph: {text.strip()}")
    return values["median_ns"]


def late(bench, target):
    ready, change = (bench.scratch / name for name in ("graph-ready", "graph-change"))
    for path in (ready, change):
        path.unlink(missing_ok=True)
    with subprocess.Popen(
            [str(word) for word in [*target, "--ready", ready, "--until", change]],
            stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not ready.exists():
            if time.monotonic() > deadline or process.poll() is not None:
                raise BenchError("hsa_graph did not start")
            time.sleep(0.01)
        with attached(bench, process.pid, "graph.rwa"):
            change.touch()
            out, _ = process.communicate(timeout=120)
    os.remove(bench.scratch / "graph.rwa")
    return graph_time(out), {}


def launch(bench, configuration, nodes, graphs):
    """One run: the median time of a graph, and what became of its dispatches."""
    target = [bench.simgpu_run, bench.program(PROGRAM), "--nodes", nodes, "-n", graphs]
    if configuration == "absent":
        return graph_time(bench.run(target).stdout), {}
    if configuration == "late":
        return late(bench, target)
    if configuration == "plain tool":
        report = bench.scratch / "tool.txt"
        report.unlink(missing_ok=True)
        done = bench.run(target, BENCH_TOOL_OUTPUT=str(report),
                         HSA_TOOLS_LIB=str(bench.program("bench/libbench_intercept_tool.so")))
        return graph_time(done.stdout), check_tool(done, report)
    done = bench.run([bench.watch, "--auto", "--json", "-d", bench.scratch, "-o",
                      "graph.rwa", "--", *target])
    return graph_time(done.stdout), check_recording(bench, done, True, PROGRAM)


def measure(bench, nodes):
    times = {name: [] for name in CONFIGURATIONS}
    losses = {name: {"lost": 0, "untimed": 0} for name in CONFIGURATIONS}
    graphs = max(10, min(200, 80_000 // nodes))
    for turn in range(2 if bench.quick else 7):
        for i in range(len(CONFIGURATIONS)):
            name = CONFIGURATIONS[(i + turn) % len(CONFIGURATIONS)]
            took, fate = launch(bench, name, nodes, graphs)
            times[name].append(took)
            for key in losses[name]:
                losses[name][key] += fate.get(key, 0)
    return times, losses


def run(bench):
    names = {"absent": "not recorded", "window": "recorded",
             "late": "recorded, attached late", "plain tool": "plain intercept tool"}
    rows = []
    for nodes in (1, 64, 1024, 8192):
        times, losses = measure(bench, nodes)
        ratios = {name: median([a / b for a, b in zip(values, times["absent"])])
                  for name, values in times.items()}
        for name in CONFIGURATIONS:
            note = ""
            if any(losses[name].values()):
                note = f" ({losses[name]['lost']} lost, {losses[name]['untimed']} untimed)"
            goal = "≤ 1.05 ×" if nodes == 8192 and name in ("window", "late") else ""
            rows.append((f"{nodes:,} kernels, {names[name]}",
                         f"{duration(median(times[name]))}{note}",
                         f"{ratios['plain tool']:.2f} ×", f"{ratios[name]:.3f} ×", goal,
                         {"nodes": nodes, "times": times[name], "ratio": ratios[name],
                          **losses[name]}))
    bench.table("graph", "A graph, kernels of 5 µs: median time, and ratio to that "
                "without a watcher", "plain tool", rows)
