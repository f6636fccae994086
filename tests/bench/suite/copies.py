"""What a copy of the runtime that nobody has seen before adds to its first hsa_init."""
import os
import pathlib
import shutil
import subprocess

from .common import BenchError, Watcher, duration, key_values, median, quantile

PROGRAM = "bench_copy_time"


def runtime():
    """The runtime's file, as the loader finds it."""
    listing = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True,
                             check=True).stdout
    for line in listing.splitlines():
        if "libhsa-runtime64.so.1 " in line:
            return pathlib.Path(os.path.realpath(line.rsplit(" ", 1)[1]))
    raise BenchError("libhsa-runtime64.so.1 is not installed")


def more(ns):
    return ("+" if ns >= 0 else "") + duration(ns)


class Copies:
    """Copies of the runtime, each under a path of its own."""

    def __init__(self, bench):
        self.bench, self.source, self.number = bench, runtime(), 0
        self.folder = bench.scratch / "copies"

    def new(self):
        self.number += 1
        folder = self.folder / str(self.number)
        folder.mkdir(parents=True)
        return shutil.copy(self.source, folder / "libhsa-runtime64.so.1")

    def launch(self, copy, launcher=()):
        return key_values(self.bench.run(
            [self.bench.simgpu_run, *launcher, self.bench.program(f"bench/{PROGRAM}"),
             copy]).stdout)

    def launch_new(self):
        copy = self.new()
        times = self.launch(copy)
        shutil.rmtree(os.path.dirname(copy))
        return times

    def launch_in_own_namespace(self):
        """The copy is on a file system that only the process has."""
        self.number += 1
        folder = self.folder / str(self.number)
        folder.mkdir(parents=True)
        copy = folder / "libhsa-runtime64.so.1"
        times = key_values(self.bench.run(
            ["unshare", "--mount", "sh", "-c",
             'mount -t tmpfs none "$0" && cp "$1" "$2" && shift 2 && exec "$@"', folder,
             self.source, copy, self.bench.simgpu_run,
             self.bench.program(f"bench/{PROGRAM}"), copy]).stdout)
        folder.rmdir()
        return times


def run(bench):
    copies = Copies(bench)
    known = copies.new()
    blocks, launches = (2, 10) if bench.quick else (8, 50)
    plain, plain_again, new, private, again = [], [], [], [], []
    windows = []
    for _ in range(blocks):
        plain += [copies.launch_new() for _ in range(launches)]
        plain_again += [copies.launch(known) for _ in range(launches // 5)]
        with Watcher(bench, "--auto", "-n", PROGRAM) as watcher:
            new += [copies.launch_new() for _ in range(launches)]
            private += [copies.launch_in_own_namespace() for _ in range(launches // 5)]
            again += [copies.launch(known) for _ in range(launches // 5 + 1)][1:]
        windows += watcher.windows()
    attached = sum(window["verdict"] == "attached" for window in windows)
    expected = len(new) + len(private) + len(again) + blocks

    def row(what, field, times, beside=plain):
        ours, theirs = [t[field] for t in times], [t[field] for t in beside]
        p50, p99 = median(ours), quantile(ours, 0.99)
        q50, q99 = median(theirs), quantile(theirs, 0.99)
        return (what, f"{duration(p50)}, p99 {duration(p99)}",
                f"{duration(q50)}, p99 {duration(q99)}",
                f"{more(p50 - q50)}, p99 {more(p99 - q99)}", "",
                {"median_ns": p50, "p99_ns": p99, "plain_median_ns": q50,
                 "plain_p99_ns": q99, "count": len(ours)})

    bench.table("copies", f"dlopen and hsa_init at once, {len(new)} new copies",
                "not watched", [
        row("a new copy: dlopen and hsa_init", "both_ns", new),
        row("of that, dlopen", "load_ns", new),
        row("of that, hsa_init", "init_ns", new),
        row("a new copy in a mount namespace of its own", "both_ns", private),
        row("a copy that is known", "both_ns", again, plain_again),
        ("windows attached", f"{attached} of {expected}", "", "", "all",
         {"attached": attached, "expected": expected}),
    ])
