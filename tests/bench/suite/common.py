"""What the sections of scripts/bench share: programs, a watcher to start, tables."""
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import threading


class BenchError(Exception):
    """A program that is measured did not do its work."""


def quantile(values, q):
    """The q-quantile of `values`, which must not be empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def median(values):
    return statistics.median(values)


def duration(ns):
    """A time in words: three digits and a unit."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= scale:
            return f"{sign}{ns / scale:.3g} {unit}" if ns < 1000 * scale else \
                f"{sign}{ns / scale:.0f} {unit}"
    return f"{sign}{ns:.3g} ns"


def rate(per_second):
    for unit, scale in ((" M/s", 1e6), (" k/s", 1e3)):
        if per_second >= scale:
            return f"{per_second / scale:.3g}{unit}"
    return f"{per_second:.3g} /s"


TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """Processor time that a process has used so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident_bytes(pid, field="VmRSS"):
    """Memory that a process has now, or with VmHWM: has had at most."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", file.read()).group(1))


def key_values(text):
    """The numbers of the last line of name=value pairs in a program's output."""
    lines = [line for line in text.splitlines() if "=" in line]
    if not lines:
        raise BenchError(f"no figures in: {text!r}")
    pairs = (word.split("=", 1) for word in lines[-1].split() if "=" in word)
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


class Watcher:
    """A running rocattach-watch; `events` are its JSON lines so far."""

    def __init__(self, bench, *options):
        self.events = []
        self._ready = threading.Event()
        self.process = subprocess.Popen(
            [bench.watch, "--json", "-d", bench.scratch, "-o", "bench.rwa", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(30) or self.process.poll() is not None:
            self.process.kill()
            raise BenchError("rocattach-watch did not start: " +
                             self.process.stderr.read().strip())

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(event)
            if event["event"] == "ready":
                self.pid = event["pid"]  # its work; `process` is the parent of that
                self._ready.set()
        self._ready.set()

    def windows(self):
        """One entry for each window, the last that was said of it."""
        last = {}
        for event in self.events:
            if event["event"] == "window":
                last[(event["pid"], event["hit_ns"])] = event
        return list(last.values())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()


class Bench:
    def __init__(self, build, quick, scratch):
        self.build, self.quick, self.scratch = build, quick, scratch
        self.tables = []
        # Of the section convert: numbers of records, and formats; None: its own.
        self.records = self.formats = None
        # Of the section fleet: how many simulated machines; None: its own number.
        self.nodes = None
        self.watch = self.program("userspace/cli/rocattach-watch")
        self.collector = build / "userspace/collector/librocattach-collector.so"
        self.simgpu_run = build / "tests/simgpu/simgpu-run"
        os.chmod(scratch, 0o755)
        self.machine = {
            "processors": os.cpu_count(),
            "kernel": platform.release(),
            "model": self._processor_model(),
            "load": os.getloadavg()[0],
            "quick": quick,
        }

    @staticmethod
    def _processor_model():
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
        return platform.machine()

    def print_machine(self):
        machine = self.machine
        print(f"{machine['processors']} × {machine['model']}, Linux {machine['kernel']}, "
              f"simulated GPU, load {machine['load']:.2f}"
              f"{', --quick' if self.quick else ''}")
        if machine["load"] > 0.5:
            print("The machine is not idle: times and rates below are worse than they "
                  "could be.")

    def program(self, path):
        program = self.build / path
        if not program.exists():
            raise BenchError(f"{program} is missing: build everything, with the packages "
                             "that scripts/setup installs")
        return program

    def run(self, command, timeout=120, **environment):
        """Runs a command to its end; BenchError unless it succeeds."""
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True,
            timeout=timeout, check=False, env={**os.environ, **environment},
            # Kernels with autogroups divide processor time between sessions first.
            start_new_session=True)
        if done.returncode != 0:
            raise BenchError(f"{command[0]} ended with {done.returncode}: "
                             f"{done.stderr.strip()[-400:]}")
        return done

    def benchmark(self, name, pattern):
        """Items of one of the Google Benchmark programs, by name."""
        out = self.scratch / f"{name}.json"
        self.run([self.program(f"bench/{name}"), f"--benchmark_filter={pattern}",
                  f"--benchmark_out={out}", "--benchmark_out_format=json",
                  f"--benchmark_min_time={0.1 if self.quick else 0.5}"], timeout=600)
        items = json.loads(out.read_text(encoding="utf-8"))["benchmarks"]
        for item in items:
            if item.get("error_occurred"):
                raise BenchError(f"{item['name']}: {item['error_message']}")
        return {item["name"]: item for item in items}

    def table(self, section, title, comparison, rows):
        """Prints and keeps a table. A row: what, ours, comparison, ratio, goal as
        words, and a dictionary of the bare figures."""
        self.tables.append({
            "section": section, "title": title, "comparison": comparison,
            "rows": [dict(zip(("what", "ours", "comparison", "ratio", "goal", "figures"),
                              row)) for row in rows]})
        lines = [("", "ours", comparison, "ratio", "goal"),
                 *(row[:5] for row in rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(5)]
        print(f"\n{title}")
        for line in lines:
            print("  " + "  ".join(
                cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
