"""How fast HIP launches kernels, with every way to watch it."""
import json
import os

from .common import BenchError, key_values, median, rate, duration

# Before the paths of targets, if they run in a root of another system
# (scripts/test-stacks).
ROOT = os.environ.get("SIMGPU_ROOT", "")
# The plain tool is built for the order of this machine's own API tables.
CONFIGURATIONS = ("absent", "idle", "doorbell", "intercept",
                  *(() if ROOT else ("plain tool",)))


def launch(bench, configuration, threads, kernel_ns):
    """One run: its rate, and what became of its dispatches."""
    program = bench.program("tests/targets/hip_launch_rate")
    target = [bench.simgpu_run, "--kernel-ns", kernel_ns, program, "--seconds", 1, "-t",
              threads]
    watch = [bench.watch, "--auto", "--json", "-d", bench.scratch, "-o", "launch.rwa"]
    if configuration == "absent":
        return parse_rate(bench.run(target)), {}
    if configuration == "plain tool":
        report = bench.scratch / "tool.txt"
        report.unlink(missing_ok=True)
        done = bench.run(target, BENCH_TOOL_OUTPUT=str(report),
                         HSA_TOOLS_LIB=str(bench.program("bench/libbench_intercept_tool.so")))
        return parse_rate(done), check_tool(done, report)
    options = {"idle": ["--no-recording"], "doorbell": [],
               "intercept": ["--capture", "intercept"]}[configuration]
    done = bench.run([*watch, *options, "--", *target])
    return parse_rate(done), check_recording(bench, done, recording=configuration != "idle")


def parse_rate(done):
    values = key_values(done.stdout)
    if values.get("result") != "ok":
        raise BenchError(f"hip_launch_rate: {done.stdout.strip()}")
    return values["rate"]


def check_tool(done, report):
    seen = key_values(report.read_text(encoding="utf-8"))
    made = key_values(done.stdout)["dispatches"]
    return {"lost": made - seen["dispatches"],
            "untimed": seen["dispatches"] - seen["timed"]}


def check_recording(bench, done, recording, program="tests/targets/hip_launch_rate"):
    made = key_values(done.stdout)["dispatches"]
    program = ROOT + str(bench.program(program))
    events = [json.loads(line) for line in done.stderr.splitlines()
              if line.startswith('{"event"')]
    # The machine may have other GPU processes, which the watcher reports as passed.
    windows = [e for e in events if e["event"] == "window"
               and e["executable"] == program and e["verdict"] != "passed"]
    ends = [e for e in events if e["event"] == "end" and windows
            and e["pid"] == windows[-1]["pid"]]
    if not ends or windows[-1]["verdict"] != "attached":
        raise BenchError(f"{program} was not attached to: {windows[-1:]}")
    if not recording:
        return {"recorded": ends[-1]["dispatches"]}
    # Every thread's first launch is among those made, as it is among those recorded.
    return {"lost": made - ends[-1]["dispatches"], "untimed": ends[-1]["untimed"]}


def measure(bench, threads, kernel_ns):
    """Rates by configuration; one of each in turn, beginning with another each time."""
    rates = {name: [] for name in CONFIGURATIONS}
    losses = {name: {"lost": 0, "untimed": 0} for name in CONFIGURATIONS}
    for turn in range(2 if bench.quick else 7):
        for i in range(len(CONFIGURATIONS)):
            name = CONFIGURATIONS[(i + turn) % len(CONFIGURATIONS)]
            result, fate = launch(bench, name, threads, kernel_ns)
            rates[name].append(result)
            for key in losses[name]:
                losses[name][key] += fate.get(key, 0)
    return rates, losses


def run(bench):
    for kernel_ns in (5000, 0):
        for threads in (1, 6):
            rates, losses = measure(bench, threads, kernel_ns)
            # Pairs of the same turn: what the machine does beside is in both.
            shares = {name: median([a / b for a, b in zip(values, rates["absent"])])
                      for name, values in rates.items()}
            tool = f"{100 * shares['plain tool']:.0f} %" if "plain tool" in shares else "–"
            rows = []
            for name in CONFIGURATIONS:
                figures = {"rate": median(rates[name]), "share": shares[name],
                           "rates": rates[name], **losses[name]}
                goal = ""
                if name == "idle":
                    goal = "≥ 99 %"
                elif name == "doorbell" and kernel_ns:
                    goal = "≥ 97 %"
                note = ""
                if losses[name]["lost"] or losses[name]["untimed"]:
                    note = (f" ({losses[name]['lost']} lost, "
                            f"{losses[name]['untimed']} untimed)")
                what = {"absent": "no watcher", "idle": "armed, idle",
                        "doorbell": "recording, doorbell capture",
                        "intercept": "recording, intercept queues",
                        "plain tool": "plain intercept tool"}[name]
                rows.append((what, f"{rate(figures['rate'])}{note}",
                             tool, f"{100 * shares[name]:.1f} %", goal,
                             figures))
            kernel = duration(kernel_ns) if kernel_ns else "0 ns"
            bench.table(
                "launch",
                f"HIP launches, {threads} thread{'s' if threads > 1 else ''}, kernels of "
                f"{kernel}: median rate, and share of the rate without a watcher",
                "plain tool", rows)
