"""What the service costs the machine, and the collector its target's memory."""
import glob
import os
import re
import struct
import subprocess
import time

from .common import (BenchError, Watcher, cpu_seconds, key_values, median,
                     rate, resident_bytes)

PAGE = os.sysconf("SC_PAGE_SIZE")
SHARED_MEMORY_MAGIC = 0x314D485352415752
# The machine may have other GPU processes: they are left alone.
NOBODY = "no-such-program"
# Of an operation in flight, beside its entry in the shared memory: the completion
# signal that the packet processor writes, and a struct OpLink. They lie in memory that
# cannot be told from the target's own.
PRIVATE_ENTRY_BYTES = 64 + 8


def spawn_load(bench, per_second, seconds):
    program = bench.program("bench/bench_spawn_load")
    return key_values(bench.run([program, per_second, seconds]).stdout)


class SyscallTracer:
    """Finds loads of the runtime by everybody's system calls, as others do it."""

    def __init__(self, bench):
        self.process = subprocess.Popen(
            [bench.program("bench/bench_syscall_tracer")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready=1\n":
            raise BenchError("bench_syscall_tracer did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


def run_idle(bench):
    seconds = 3 if bench.quick else 10
    plain, watched, traced = [], [], []
    for _ in range(2 if bench.quick else 5):
        plain.append(spawn_load(bench, 0, 2)["each_ns"])
        with Watcher(bench, "--auto", "-n", NOBODY):
            watched.append(spawn_load(bench, 0, 2)["each_ns"])
        with SyscallTracer(bench):
            traced.append(spawn_load(bench, 0, 2)["each_ns"])
    with Watcher(bench, "--auto", "-n", NOBODY) as watcher:
        pid = watcher.pid
        before = cpu_seconds(pid)
        load = spawn_load(bench, 1000, seconds)
        share = (cpu_seconds(pid) - before) / (load["elapsed_ns"] / 1e9)
        resident = resident_bytes(pid)
    started = load["count"] / (load["elapsed_ns"] / 1e9)
    # Of pairs of neighbours: the machine's speed changes over minutes.
    extra = median([w - p for w, p in zip(watched, plain)])
    extra_traced = median([t - p for t, p in zip(traced, plain)])
    bench.table("service", f"The watcher beside {started:.0f} unrelated processes a second",
                "without it", [
        ("processor time of the service", f"{100 * share:.2f} % of a core", "", "", "≤ 1 %",
         {"share": share, "started_per_second": started}),
        ("resident memory of the service", f"{resident / 2**20:.1f} MiB", "", "",
         "< 64 MiB", {"bytes": resident}),
        ("start to end of one process", f"{median(watched) / 1e3:.0f} µs",
         f"{median(plain) / 1e3:.0f} µs", f"{extra / 1e3:+.1f} µs", "",
         {"watched_ns": median(watched), "plain_ns": median(plain), "extra_ns": extra}),
        ("the same beside tracepoints on openat and mmap",
         f"{median(traced) / 1e3:.0f} µs", f"{median(plain) / 1e3:.0f} µs",
         f"{extra_traced / 1e3:+.1f} µs", "",
         {"traced_ns": median(traced), "plain_ns": median(plain),
          "extra_ns": extra_traced}),
    ])


def collector_copies():
    """The files that running services have their targets load."""
    return set(glob.glob("/run/rocattach-collector-*/*.so"))


def run_many_armed(bench):
    processes, per_second, seconds = (50, 100_000, 4) if bench.quick else \
        (500, 1_000_000, 10)
    program = bench.program("bench/bench_armed_load")
    runtime = bench.program("tests/integration/hostile/lib/libhsa-runtime64-empty.so")
    others = collector_copies()
    figures = {}
    with Watcher(bench, "--auto", "-n", "bench_armed_loa", "--library", str(runtime),
                 "--metrics-listen", "0") as watcher:
        pid = watcher.pid
        (collector,) = collector_copies() - others
        before = resident_bytes(pid)
        with subprocess.Popen(
                [program, str(processes), str(per_second), str(seconds), collector],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
            if load.stdout.readline() != f"armed={processes}\n":
                raise BenchError("the processes of bench_armed_load are not attached")
            cpu, begin = cpu_seconds(pid), time.monotonic()
            time.sleep(2)
            figures["idle_share"] = (cpu_seconds(pid) - cpu) / (time.monotonic() - begin)
            figures["armed_bytes"] = resident_bytes(pid)
            load.stdin.write("go\n")
            load.stdin.flush()
            cpu, begin = cpu_seconds(pid), time.monotonic()
            words = key_values(load.stdout.readline())
            took = time.monotonic() - begin
            figures["share"] = (cpu_seconds(pid) - cpu) / took
        figures["rate"] = words["pushed"] / took
        figures["dropped"] = words["dropped"]
        figures["peak_bytes"] = resident_bytes(pid, "VmHWM")
    # The same records, encoded by the same code and written by itself.
    item = bench.benchmark("stream_bench", "BM_WriteRegular/zstd:1")[
        "BM_WriteRegular/zstd:1"]
    encoding = figures["rate"] / item["items_per_second"]
    figures["encoding_share"] = encoding
    beyond = figures["share"] - encoding
    bench.table("service", f"{processes} armed processes, {rate(figures['rate'])} "
                "dispatches in all", "", [
        ("processor time of the service", f"{100 * figures['share']:.1f} % of a core", "",
         "", "", figures),
        ("of that, encoding and writing (stream_bench)",
         f"{100 * encoding:.1f} % of a core", "", "", "", {}),
        ("beyond encoding", f"{100 * beyond:.1f} % of a core", "", "", "≤ 10 %",
         {"share": beyond}),
        ("while they do nothing", f"{100 * figures['idle_share']:.1f} % of a core", "", "",
         "", {}),
        ("resident memory: started, armed, at most",
         f"{before / 2**20:.1f}, {figures['armed_bytes'] / 2**20:.1f}, "
         f"{figures['peak_bytes'] / 2**20:.1f} MiB", "", "", "≤ 64 MiB",
         {"started_bytes": before}),
        ("dispatches that found a ring full", f"{figures['dropped']}", "", "", "0", {}),
    ])


class Mapping:
    """Figures of one mapping in /proc/PID/smaps."""

    def __init__(self, line):
        fields = line.split(None, 5)
        self.start, self.end = (int(x, 16) for x in fields[0].split("-"))
        self.writable = "w" in fields[1]
        self.path = fields[5].strip() if len(fields) > 5 else ""
        self.kib = {}


def read_smaps(pid):
    mappings = []
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        for line in file:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                mappings.append(Mapping(line))
            elif match := re.match(r"(\w+):\s+(\d+) kB", line):
                mappings[-1].kib[match.group(1)] = int(match.group(2))
    return mappings


def present_pages(pid, start, end):
    """How many pages of a range the target has in its own page table."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
        file.seek(start // PAGE * 8)
        entries = file.read((end - start + PAGE - 1) // PAGE * 8)
    return sum(entry[0] >> 63 for entry in struct.iter_unpack("<Q", entries))


def shared_parts(pid, mapping):
    """Resident bytes of the shared memory: rings, table of operations in flight, and
    the rest; and how many entries of that table the resident part holds."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(mapping.start)
        header = file.read(256)
    # As struct rocattach_control of userspace/abi/shared_memory.h begins.
    magic, _, _, _, rings, stride, count, _, inflight, entries, entry_bytes = \
        struct.unpack_from("<QIIQQQIIQII", header)
    if magic != SHARED_MEMORY_MAGIC:
        raise BenchError("the collector's shared memory begins differently")
    def present(offset, length):
        begin = mapping.start + offset
        return PAGE * present_pages(pid, begin, begin + length)

    parts = {"rings": present(rings, stride * count),
             "inflight": present(inflight, entries * entry_bytes)}
    parts["other"] = present(0, mapping.end - mapping.start) - sum(parts.values())
    parts["entries"] = parts["inflight"] // entry_bytes
    return parts


def look_at_target(bench, command, ready):
    """Memory of a target that stands still: anonymous, collector's file, shared."""
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as target:
        ready(target)
        mappings = read_smaps(target.pid)
        result = {"anonymous": 1024 * sum(m.kib.get("Anonymous", 0) for m in mappings
                                          if "rocattach" not in m.path)}
        ours = [m for m in mappings if m.path.endswith(bench.collector.name)]
        result["library"] = 1024 * sum(m.kib["Rss"] for m in ours)
        for mapping in mappings:
            if mapping.path.startswith("/memfd:rocattach"):
                result.update(shared_parts(target.pid, mapping))
        target.kill()
        target.communicate()
    return result


def run_target_memory(bench):
    init = [bench.simgpu_run, bench.program("bench/bench_init_time"), "--linger", "20000"]
    busy = [bench.simgpu_run, "--kernel-ns", "5000",
            bench.program("tests/targets/hip_launch_rate"), "--seconds", "20"]

    def wait_for_line(target):
        target.stdout.readline()
        time.sleep(0.1)

    def wait_for_launches(_):
        time.sleep(2)

    turns = 3 if bench.quick else 9
    plain = [look_at_target(bench, init, wait_for_line) for _ in range(turns)]
    with Watcher(bench, "--auto", "-n", str(init[1]), "-n", str(busy[3])):
        watched = [look_at_target(bench, init, wait_for_line) for _ in range(turns)]
        launching = look_at_target(bench, busy, wait_for_launches)
    heap = median([w["anonymous"] for w in watched]) - \
        median([p["anonymous"] for p in plain])
    rows = []
    for what, seen in (("after hsa_init", watched[0]), ("while launching", launching)):
        if "other" not in seen:
            raise BenchError(f"the target was not attached to {what}")
        own = seen["library"] + seen["other"] + seen["inflight"] + max(0, heap)
        rows.append((f"{what}: library + shared + in flight + heap",
                     f"{own / 1024:.0f} KiB ({seen['library'] / 1024:.0f} + "
                     f"{seen['other'] / 1024:.0f} + {seen['inflight'] / 1024:.0f} + "
                     f"{heap / 1024:.0f})", "", "",
                     "≤ 512 KiB", {"bytes": own, "heap_bytes": heap, **seen}))
        if seen["entries"]:
            rows.append((f"{what}: signals and links, by the number in flight",
                         f"{seen['entries'] * PRIVATE_ENTRY_BYTES / 1024:.0f} KiB "
                         f"(up to {seen['entries']})", "", "", "", {}))
        rows.append((f"{what}: rings", f"{seen['rings'] / 1024:.0f} KiB", "", "", "",
                     {"bytes": seen["rings"]}))
    bench.table("service", "Resident memory of the collector in its target", "", rows)


def run(bench):
    run_idle(bench)
    run_many_armed(bench)
    run_target_memory(bench)
