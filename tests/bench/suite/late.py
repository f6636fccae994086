"""Late attach: how long a thread of a running process stands still."""
import contextlib
import json
import os
import subprocess
import time

from .common import BenchError, duration, key_values, median, quantile
from .window import measure_gdb


class Target:
    """hip_late, launching on two threads, or idle."""

    def __init__(self, bench, *options):
        self.ready = os.path.join(bench.scratch, "late-ready")
        self.change = os.path.join(bench.scratch, "late-change")
        for path in (self.ready, self.change):
            if os.path.exists(path):
                os.remove(path)
        self.process = subprocess.Popen(
            [bench.simgpu_run, bench.program("tests/targets/hip_late"), "-t", "2", "-m",
             "10", "--ready", self.ready, "--until", self.change, *options],
            stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        deadline = time.monotonic() + 30
        while not os.path.exists(self.ready):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise BenchError("hip_late did not start")
            time.sleep(0.01)
        return self.process.pid

    def __exit__(self, *_):
        with open(self.change, "w", encoding="utf-8"):
            pass
        out, _ = self.process.communicate(timeout=60)
        if "result=ok" not in out:
            raise BenchError("hip_late went wrong: " + out)


@contextlib.contextmanager
def attached(bench, pid, file):
    """A process while it is being recorded into `file`: the event of the attach."""
    with subprocess.Popen(
            [bench.program("userspace/cli/rocattach"), "attach", "--json", "-p", str(pid),
             "-d", bench.scratch, "-o", file, "--collector", str(bench.collector)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        for line in command.stdout:
            event = json.loads(line)
            if event["event"] in ("attached", "not_attached"):
                break
        if event["event"] != "attached":
            raise BenchError("not attached: " + event["detail"])
        yield event
        command.terminate()
        command.communicate(timeout=30)


def attach(bench, pid):
    """The event of one attach, and how long it took from the command's start."""
    begin = time.monotonic_ns()
    with attached(bench, pid, "late.rwa") as event:
        took = time.monotonic_ns() - begin
    os.remove(os.path.join(bench.scratch, "late.rwa"))
    return event, took


def measure(bench, *options):
    stops, floors, whole, again = [], [], [], []
    for _ in range(3 if bench.quick else 15):
        with Target(bench, *options) as pid:
            event, took = attach(bench, pid)
            stops.append(event["stopped_ns"])
            whole.append(took)
            # Of the same thread, which is as busy as before: the recording is over.
            floors.append(key_values(bench.run(
                [bench.program("bench/bench_stop_floor"), str(pid), "200",
                 str(event["tid"])]).stdout)["whole_median_ns"])
            event, took = attach(bench, pid)
            if event["entry"] != "armed":
                raise BenchError("the second attach was not a take-over")
            again.append(took)
    return stops, whole, again, floors


def measure_others(bench):
    """Loading the collector into a running program by other means: rows."""
    runs = []
    for _ in range(3 if bench.quick else 15):
        with subprocess.Popen([bench.program("bench/bench_init_time"), "--gaps", "1000"],
                              stdout=subprocess.PIPE, text=True) as target:
            time.sleep(0.2)
            runs.append(key_values(bench.run(
                [bench.program("bench/bench_stop_and_poke"), target.pid,
                 bench.collector]).stdout))
            target.communicate(timeout=30)
    total, longest, call = (median([run[key] for run in runs])
                            for key in ("sum_ns", "longest_ns", "call_ns"))
    rows = [("one stop a step, words poked: stopped, longest stop",
             f"{duration(total)}, {duration(longest)}", "", "", "",
             {"sum_ns": total, "longest_ns": longest, "call_ns": call,
              "stops": runs[0]["stops"]}),
            ("the same: the thread runs injected calls", duration(call), "", "", "", {})]
    try:
        stopped, took = measure_gdb(bench)
    except (BenchError, FileNotFoundError) as error:
        # On some virtual machines gdb cannot restore registers after a call.
        return [*rows, ("gdb calls dlopen", "failed: " + str(error).splitlines()[-1][:50],
                        "", "", "", {})]
    return [*rows, ("gdb calls dlopen: the program stands still", duration(median(stopped)),
                    "", "", "", {"stopped_ns": median(stopped), "took_ns": median(took)})]


def run(bench):
    rows = []
    for what, options in (("busy process", ()), ("idle process", ("--idle",))):
        stops, whole, again, floors = measure(bench, *options)
        least = median(floors)
        ratio = median([stop / floor for stop, floor in zip(stops, floors)])
        rows.append((f"{what}: the thread stands still",
                     f"{duration(median(stops))}, max {duration(max(stops))}",
                     f"floor {duration(least)}", f"{ratio:.2f} ×", "≤ 3 ×",
                     {"median_ns": median(stops), "max_ns": max(stops),
                      "floor_ns": least, "ratio": ratio, "count": len(stops)}))
        rows.append((f"{what}: command's start → attached",
                     f"{duration(median(whole))}, p99 {duration(quantile(whole, 0.99))}",
                     "", "", "", {"median_ns": median(whole)}))
        rows.append((f"{what}: the same again (take-over)", duration(median(again)), "",
                     "", "", {"median_ns": median(again)}))
    rows += measure_others(bench)
    bench.table("late", "Late attach", "seize, interrupt, detach", rows)
