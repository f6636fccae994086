"""The attach window: how long a process is held, and what its first hsa_init costs."""
import os
import shutil
import subprocess
import time

from .common import BenchError, Watcher, duration, key_values, median, quantile


def launch(bench):
    program = bench.program("bench/bench_init_time")
    return key_values(bench.run([bench.simgpu_run, program]).stdout)


def measure_inits(bench):
    """Launches without and with the watcher, in turns."""
    blocks, launches = (3, 20) if bench.quick else (8, 50)
    plain, watched, windows = [], [], []
    for _ in range(blocks):
        plain += [launch(bench) for _ in range(launches)]
        # By its name, which the kernel tells: a path costs a look at the process.
        with Watcher(bench, "--auto", "-n", "bench_init_time") as watcher:
            watched += [launch(bench) for _ in range(launches)]
        windows += watcher.windows()
    windows = [w for w in windows if w["comm"] == "bench_init_time"]
    attached = [w for w in windows if w["verdict"] == "attached"]
    # One each: after hsa_shut_down the collector is in the runtime's tables still.
    if len(attached) < len(watched):
        others = [w["verdict"] + ": " + w["detail"] for w in windows
                  if w["verdict"] != "attached"]
        print(f"\n{len(watched) - len(attached)} of {len(watched)} windows were "
              f"not attached ({others[0] if others else 'no verdict was reported'})")
    if not attached:
        raise BenchError("no window was attached")
    return plain, watched, attached


def measure_gdb(bench):
    """How long gdb's call of dlopen stops the same program: the gaps that it sees."""
    program = bench.program("bench/bench_init_time")
    stopped, took = [], []
    for _ in range(2 if bench.quick else 7):
        with subprocess.Popen([program, "--gaps", "2500"], stdout=subprocess.PIPE,
                              text=True) as target:
            time.sleep(0.3)
            begin = time.monotonic_ns()
            done = subprocess.run(
                ["gdb", "-nx", "-batch", "-p", str(target.pid), "-ex",
                 f"print ((void*(*)(const char*, int))dlopen)(\"{bench.collector}\", 1)"],
                capture_output=True, text=True, timeout=60, check=False)
            took.append(time.monotonic_ns() - begin)
            out, _ = target.communicate(timeout=30)
        if "$1 = (void *) 0x" not in done.stdout or "0x0\n" in done.stdout:
            raise BenchError("gdb could not call dlopen: " +
                             (done.stdout + done.stderr).strip()[-400:])
        # Beside gdb's stops the program sees those of the scheduler; they are short.
        stopped.append(key_values(out)["sum_ns"])
    return stopped, took


def measure_floor(bench):
    """The same program's hsa_init, held by a tracer that does nothing else."""
    program = bench.program("bench/bench_init_time")
    listing = bench.run(["ldd", program]).stdout
    library = next(line.split()[2] for line in listing.splitlines()
                   if "libhsa-runtime64" in line)
    return key_values(bench.run(
        [bench.program("bench/bench_empty_tracer"), "60" if bench.quick else "400",
         os.path.realpath(library), "hsa_init", bench.simgpu_run, program]).stdout)


def run(bench):
    plain, watched, windows = measure_inits(bench)
    why_no_gdb = "gdb is not installed"
    gdb_stopped, gdb_took = None, None
    if shutil.which("gdb"):
        try:
            gdb_stopped, gdb_took = measure_gdb(bench)
        except BenchError as error:
            # On some virtual machines gdb cannot restore registers after a call.
            why_no_gdb = "gdb failed: " + str(error).strip().splitlines()[-1]

    def row(what, field, goal, beside="", ratio=""):
        values = [w[field] - w["hit_ns"] if field != "probe_ns" else w["probe_ns"]
                  for w in windows]
        p50, p99 = median(values), quantile(values, 0.99)
        return (what, f"{duration(p50)}, p99 {duration(p99)}", beside, ratio, goal,
                {"median_ns": p50, "p99_ns": p99, "count": len(values)})

    # In between: the same machine at the same time, by a tracer that does nothing else.
    floor = measure_floor(bench)

    def against(what, field, goal, floor_field):
        result = row(what, field, goal)
        least = floor[f"{floor_field}_median_ns"]
        ratio = result[5]["median_ns"] / least
        result[5].update(floor_ns=least, ratio=ratio)
        return (*result[:2], f"floor {duration(least)}", f"{ratio:.2f} ×", goal, result[5])

    rows = [
        row("hit → seized", "seized_ns", ""),
        against("hit → out of the probe (stopped)", "probe_ns", "≤ 1.25 × the wake-up",
                "woken"),
        against("hit → released, beside an empty tracer", "released_ns", "≤ 1.5 ×",
                "released"),
        row("hit → seen stopped, checks done", "stopped_ns", ""),
    ]
    released = median([w["released_ns"] - w["hit_ns"] for w in windows])
    stops = [w["released_ns"] - w["hit_ns"] - min(w["probe_ns"],
                                                 w["stopped_ns"] - w["hit_ns"])
             for w in windows]
    if gdb_stopped:
        beside = f"{duration(median(gdb_stopped))} stopped"
        ratio = f"1 : {median(gdb_stopped) / released:.0f}"
    else:
        beside, ratio = why_no_gdb, ""
    rows.append(row("hit → released", "released_ns", "gdb ≥ 1000 ×", beside,
                    ratio))
    if gdb_stopped:
        rows[-1][5].update(gdb_stopped_ns=median(gdb_stopped), gdb_took_ns=median(gdb_took))
    rows.append(("of that, in a ptrace stop", f"{duration(median(stops))}", "", "", "",
                 {"median_ns": median(stops)}))
    rows.append(row("hit → collector armed", "armed_ns", ""))
    wake = key_values(bench.run([bench.program("bench/bench_wake_up")]).stdout)
    if wake["rounds"]:
        # What is over before the service's first instruction, whatever that does.
        rows.append(("for comparison: event → sleeping thread runs, idle processor",
                     f"{duration(wake['median_ns'])}, p99 {duration(wake['p99_ns'])}",
                     "", "", "", wake))
    bench.table("window", f"Attach window, {len(windows)} launches", "gdb dlopen", rows)

    rows = []
    for what, field, goal in (
            ("first hsa_init", "first_ns", "extra ≤ 1 ms"),
            ("hsa_init again (counted)", "counted_ns", "extra ~0"),
            ("hsa_init after hsa_shut_down", "again_ns", "")):
        ours = median([w[field] for w in watched])
        theirs = median([p[field] for p in plain])
        rows.append((what, duration(ours), duration(theirs),
                     f"{'+' if ours >= theirs else ''}{duration(ours - theirs)}", goal,
                     {"watched_ns": ours, "plain_ns": theirs, "extra_ns": ours - theirs}))
    bench.table("window", "hsa_init as its caller sees it, medians", "not watched", rows)
