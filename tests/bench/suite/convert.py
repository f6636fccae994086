"""Recordings to the formats of other tools, beside Python's own modules and, for packets of
pftrace, the protobuf library."""
import csv
import json
import multiprocessing
import os
import shutil
import sqlite3
import time

from .common import BenchError, rate

FORMATS = ("csv", "json", "ndjson", "rocpd", "pftrace", "pprof", "otlp-profile",
           "compute-workload")
# Of the formats that have one for their speed.
GOALS = dict.fromkeys(("csv", "ndjson", "pftrace", "rocpd"), "≥ 1 M rows/s, flat memory")
# Rows that Python writes, enough for its rate.
PYTHON_ROWS = 200_000
# Of make_recording: with copies, calls, values, samples and memory.
RECORDS_PER_DISPATCH = 1.562


def sizes(bench):
    if bench.records:
        return bench.records
    return (70_000, 280_000) if bench.quick else (1_000_000, 10_000_000)


def make_recording(bench, records):
    path = bench.scratch / f"convert-{records}.rwa"
    bench.run([bench.program("tests/integration/export/make_recording"), path, 1,
               round(records / RECORDS_PER_DISPATCH)], timeout=1200)
    return path


def count_rows(bench, recording):
    """Records in the recording, with two values for each counted dispatch and sample."""
    done = bench.run([bench.program("userspace/cli/rocattach"), "dump", "--type",
                      "recording_end", "--json", recording], timeout=1200)
    end = json.loads(done.stdout.splitlines()[-1])
    return sum(end[key] for key in ("dispatches", "copies", "counter_values",
                                    "sample_values", "api_calls",
                                    "memory_operations"))


def convert(bench, recording, name):
    """Processor and elapsed seconds, peak resident bytes, output bytes and directory of
    one conversion."""
    out = bench.scratch / f"out-{name}"
    program = bench.program("userspace/cli/rocattach")
    begin = time.monotonic()
    pid = os.posix_spawn(
        program, [str(program), "convert", str(recording), "-f", name, "-d", str(out),
                  "-o", "x", "--force"],
        {**os.environ},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    elapsed = time.monotonic() - begin
    seconds = usage.ru_utime + usage.ru_stime
    if status != 0:
        raise BenchError(f"rocattach convert -f {name} ended with status {status}")
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    return seconds, elapsed, usage.ru_maxrss * 1024, size, out


def apart(function, *arguments):
    """Calls it in a process of its own: a program's peak memory is at least that of the
    process that started it."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(function, arguments)


def python_csv(scratch, source):
    """Rows per second of csv.writer with the same rows."""
    with open(source, encoding="utf-8", newline="") as file:
        rows = [numbers(row) for _, row in zip(range(PYTHON_ROWS), csv.reader(file))]
    with open(scratch / "python.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        begin = time.process_time()
        writer.writerows(rows)
        return len(rows) / (time.process_time() - begin)


def python_sqlite(scratch, database):
    """Rows per second of sqlite3.executemany: dispatches and their events."""
    source = sqlite3.connect(database)
    tables = [row[0] for row in source.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND (name LIKE "
        "'rocpd_event\\_0%' ESCAPE '\\' OR name LIKE 'rocpd_kernel_dispatch%')")]
    path = scratch / "python.db"
    path.unlink(missing_ok=True)
    target = sqlite3.connect(path, isolation_level=None)
    target.execute("PRAGMA synchronous=OFF")
    target.execute("BEGIN")
    count, seconds = 0, 0.0
    for table in tables:
        (sql,) = source.execute("SELECT sql FROM sqlite_master WHERE name = ?",
                                (table,)).fetchone()
        target.execute(sql)
        rows = source.execute(f'SELECT * FROM "{table}" LIMIT {PYTHON_ROWS}').fetchall()
        marks = ",".join("?" * len(rows[0]))
        begin = time.process_time()
        target.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)
        seconds += time.process_time() - begin
        count += len(rows)
    target.execute("COMMIT")
    target.close()
    source.close()
    return count / seconds


def database_rows(database):
    """Rows in all tables: a dispatch has one of its own and one as an event."""
    source = sqlite3.connect(database)
    tables = source.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd%'")
    return sum(source.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
               for (table,) in tables.fetchall())


def rows_of(name, out, records):
    """What was written: a record is a row of most formats."""
    if name == "rocpd":
        return database_rows(out / "x_results.db")
    if name == "compute-workload":  # counters only
        with open(out / "x_workload" / "pmc_perf.csv", "rb") as file:
            return sum(1 for _ in file) - 1
    return records


def numbers(row):
    return [int(cell) if cell.isdigit() else cell for cell in row]


def run(bench):
    packets = bench.benchmark("pftrace_bench", ".")
    composed = packets["BM_ComposedPackets"]["items_per_second"]
    library = packets["BM_MessagePerPacket"]["items_per_second"]
    rows, python = [], {"pftrace": library}
    for wanted in sizes(bench):
        recording = make_recording(bench, wanted)
        records = count_rows(bench, recording)
        for name in bench.formats or FORMATS:
            seconds, elapsed, memory, size, out = convert(bench, recording, name)
            if name == "csv" and "csv" not in python:
                python["csv"] = apart(python_csv, bench.scratch, out / "x_kernel_trace.csv")
            if name == "rocpd" and "rocpd" not in python:
                python["rocpd"] = apart(python_sqlite, bench.scratch, out / "x_results.db")
            written = rows_of(name, out, records)
            speed = written / seconds
            beside = python.get(name)
            rows.append((
                f"{name}, {records / 1e6:.3g} M records",
                f"{rate(speed)}, {memory / 2**20:.0f} MiB, {size / records:.0f} bytes a record, "
                f"{elapsed:.3g} s",
                rate(beside) if beside else "", f"{speed / beside:.2f} ×" if beside else "",
                GOALS.get(name, "flat memory"),
                {"format": name, "records": records, "rows": written,
                 "records_per_second": records / seconds, "rows_per_second": speed,
                 "processor_seconds": seconds, "elapsed_seconds": elapsed,
                 "peak_bytes": memory, "output_bytes": size, "beside_per_second": beside}))
            shutil.rmtree(out)
        recording.unlink()
    rows.append((
        "packets of pftrace alone, in memory", rate(composed), rate(library),
        f"{composed / library:.2f} ×", "",
        {"packets_per_second": composed, "library_packets_per_second": library}))
    bench.table("convert", "Recordings to other formats, rows per second of processor time",
                "Python's module, protobuf's", rows)
