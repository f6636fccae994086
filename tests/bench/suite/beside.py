"""How fast HIP launches kernels in a process that another profiler traces already, with
and without the watcher beside it."""
from .common import BenchError, duration, key_values, median, rate
from .launch import check_recording, parse_rate

CONFIGURATIONS = ("alone", "both")
MODES = {"intercept queues": [], "inline interposition": ["--interposition"]}
GOAL = "≥ 97 %"


def launch(bench, options, configuration, kernel_ns):
    """One run: its rate, and what became of its dispatches in both recordings."""
    report = bench.scratch / "other.txt"
    report.unlink(missing_ok=True)
    target = [bench.program("tests/simrocm/simrocm-run"), "--preload",
              bench.program("tests/simrocm/lib/libother-tool.so"), *options,
              "--kernel-ns", kernel_ns, bench.program("tests/targets/hip_launch_rate"),
              "--seconds", 1]
    environment = {"OTHER_TOOL": "dispatch copy", "OTHER_TOOL_OUTPUT": str(report)}
    if configuration == "alone":
        done, fate = bench.run(target, **environment), {}
    else:
        done = bench.run([bench.watch, "--auto", "--json", "-d", bench.scratch, "-o",
                          "beside.rwa", "--", *target], **environment)
        fate = check_recording(bench, done, recording=True)
    if not report.exists():
        raise BenchError("the other tool was not loaded, or did not come to its end")
    made = key_values(done.stdout)["dispatches"]
    traced = key_values(report.read_text(encoding="utf-8"))["dispatches"]
    return parse_rate(done), {**fate, "other_lost": made - traced}


def measure(bench, options, kernel_ns):
    """Rates by configuration, in turn, beginning with the other each time."""
    rates = {name: [] for name in CONFIGURATIONS}
    losses = {"lost": 0, "untimed": 0, "other_lost": 0}
    for turn in range(2 if bench.quick else 9):
        for i in range(len(CONFIGURATIONS)):
            name = CONFIGURATIONS[(i + turn) % len(CONFIGURATIONS)]
            result, fate = launch(bench, options, name, kernel_ns)
            rates[name].append(result)
            for key in losses:
                losses[key] += fate.get(key, 0)
    return rates, losses


def run(bench):
    for kernel_ns in (5000, 0):
        rows = []
        for mode, options in MODES.items():
            rates, losses = measure(bench, options, kernel_ns)
            share = median([b / a for a, b in zip(rates["alone"], rates["both"])])
            note = ""
            if any(losses.values()):
                note = (f" ({losses['lost']} lost, {losses['untimed']} untimed, "
                        f"{losses['other_lost']} lost by the other)")
            rows.append((f"recording beside {mode}",
                         f"{rate(median(rates['both']))}{note}",
                         rate(median(rates["alone"])), f"{100 * share:.1f} %", GOAL,
                         {"rate": median(rates["both"]), "share": share,
                          "rates": rates["both"], "alone": rates["alone"], **losses}))
        kernel = duration(kernel_ns) if kernel_ns else "0 ns"
        bench.table("beside",
                    f"HIP launches of a process that another profiler traces, kernels of "
                    f"{kernel}: median rate, and share of the rate with that profiler "
                    "alone", "its tool alone", rows)
