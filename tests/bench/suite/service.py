"""What the service costs the machine, and the collector its target's memory."""
import os
import re
import struct
import subprocess
import time

from .common import Watcher, BenchError, key_values, median

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
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


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1))


def run_idle(bench):
    seconds = 3 if bench.quick else 10
    plain, watched = [], []
    for _ in range(1 if bench.quick else 3):
        plain.append(spawn_load(bench, 0, 2)["each_ns"])
        with Watcher(bench, "--auto", "-n", NOBODY):
            watched.append(spawn_load(bench, 0, 2)["each_ns"])
    with Watcher(bench, "--auto", "-n", NOBODY) as watcher:
        pid = watcher.process.pid
        before = cpu_seconds(pid)
        load = spawn_load(bench, 1000, seconds)
        share = (cpu_seconds(pid) - before) / (load["elapsed_ns"] / 1e9)
        resident = resident_bytes(pid)
    started = load["count"] / (load["elapsed_ns"] / 1e9)
    extra = median(watched) - median(plain)
    bench.table("service", f"The watcher beside {started:.0f} unrelated processes a second",
                "without it", [
        ("processor time of the service", f"{100 * share:.2f} % of a core", "", "", "≤ 1 %",
         {"share": share, "started_per_second": started}),
        ("resident memory of the service", f"{resident / 2**20:.1f} MiB", "", "",
         "< 64 MiB", {"bytes": resident}),
        ("start to end of one process", f"{median(watched) / 1e3:.0f} µs",
         f"{median(plain) / 1e3:.0f} µs", f"{extra / 1e3:+.1f} µs", "",
         {"watched_ns": median(watched), "plain_ns": median(plain)}),
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
    run_target_memory(bench)
