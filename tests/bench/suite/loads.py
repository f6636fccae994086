"""What a running service adds to dlopen of a copy of the runtime that has its probe: the
mapping is reported, and a process under a translator gets its byte back."""
import shutil

from .common import Watcher, duration, median, quantile
from .copies import PROGRAM, Copies, more

# Who is attached to would add what the window costs.
NOBODY = "no-program-has-this-name"


def run(bench):
    copies = Copies(bench)
    known = copies.new()
    blocks, launches = (2, 20) if bench.quick else (6, 50)
    valgrind = shutil.which("valgrind")
    launchers = {"executed": []}
    if valgrind:
        launchers["translated"] = [valgrind, "--tool=none", "-q"]

    def measure():
        return {name: [copies.launch(known, launcher)["load_ns"]
                       for _ in range(launches if not launcher else launches // 10)]
                for name, launcher in launchers.items()}

    native = {name: [] for name in launchers}
    ours = {name: [] for name in launchers}
    for _ in range(blocks):
        for name, times in measure().items():
            native[name] += times
        with Watcher(bench, "--auto", "-n", NOBODY):
            for name, times in measure().items():
                ours[name] += times

    def row(what, name):
        p50, p99 = median(ours[name]), quantile(ours[name], 0.99)
        q50, q99 = median(native[name]), quantile(native[name], 0.99)
        return (what, f"{duration(p50)}, p99 {duration(p99)}",
                f"{duration(q50)}, p99 {duration(q99)}",
                f"{more(p50 - q50)}, p99 {more(p99 - q99)}", "",
                {"median_ns": p50, "p99_ns": p99, "native_median_ns": q50,
                 "native_p99_ns": q99, "count": len(ours[name])})

    rows = [row("a process", "executed")]
    if valgrind:
        rows.append(row("a process under Valgrind", "translated"))
    bench.table("loads", f"dlopen of the runtime while a service watches, {PROGRAM}",
                "no service", rows)
