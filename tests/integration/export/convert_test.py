#!/usr/bin/env python3
"""Names of outputs, and defective inputs and outputs.

usage: convert_test.py ROCATTACH MAKE_RECORDING
"""

import array
import collections
import csv
import fcntl
import glob
import gzip
import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import termios

from export_testing import (DISPATCHES, PROCESSES, PROGRAMS, ConvertTestCase, main, run,
                            started)

FORMATS = ("csv", "json", "ndjson", "rocpd", "pftrace", "pprof", "otlp-profile",
           "compute-workload")
FOLLOWED = ("csv", "ndjson", "rocpd", "pftrace")


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def frames(content):
    """The offsets at which frames begin."""
    at = 0
    while at < len(content):
        assert content[at : at + 4] == b"RAW\xf1"
        yield at
        (payload,) = struct.unpack_from("<I", content, at + 8)
        at += 32 + (payload + 7) // 8 * 8


def with_newer_frames(content, share):
    """The recording, with this share of its frames, the last ones, of the next version."""
    out = bytearray(content)
    for at in frames(content):
        if at >= len(out) * (1 - share):
            out[at + 4] += 1
            struct.pack_into("<I", out, at + 28, crc32c(out[at : at + 28]))
    return bytes(out)


def until_a_process_ends(content):
    """The recording before the first frame that is the last one of its stream."""
    return content[: next(at for at in frames(content) if content[at + 7] & 2)]


def files_below(directory):
    return [os.path.join(folder, name) for folder, _, names in os.walk(directory)
            for name in names]


def waits_for_more(process):
    """True if it has read all of its standard input, a pipe, and none of its threads
    runs."""
    unread = array.array("i", [0])
    fcntl.ioctl(process.stdin, termios.FIONREAD, unread)
    states = []
    for path in glob.glob(f"/proc/{process.pid}/task/*/stat"):
        with open(path, encoding="utf-8", errors="replace") as stat:
            states.append(stat.read().rpartition(")")[2].split()[0])
    return unread[0] == 0 and set(states) == {"S"}


class ConvertTest(ConvertTestCase):
    def test_keys_in_names(self):
        done = run("convert", self.recording, "-f", "csv", "-d", self.out + "/%tag%", "-o",
                   "{hostname}/p%p", cwd=self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for process in self.processes:
            name = f"{self.out}/app/{socket.gethostname()}/p{process.pid}_kernel_trace.csv"
            self.assertTrue(os.path.exists(name), name)

    def test_keys_are_not_asked_of_this_machine(self):
        """On this machine the recorded process ID may belong to any process."""
        small = os.path.join(self.out, "small.rwa")
        subprocess.run([PROGRAMS.make_recording, small, "3", "20"], check=True)
        done = run("convert", small, "-f", "csv", "-d", self.out, "-o", "%pgid%-%psid%")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(os.path.exists(os.path.join(self.out, "0-0_kernel_trace.csv")))

    def test_default_names_are_rocprofv3_s(self):
        done = run("convert", self.recording, "-f", "csv,rocpd,json", cwd=self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = os.listdir(os.path.join(self.out, socket.gethostname()))
        for process in self.processes:
            for suffix in ("kernel_trace.csv", "results.db", "results.json"):
                self.assertIn(f"{process.pid}_{suffix}", names)

    def test_same_name_for_several_processes_gets_the_pid(self):
        done = run("convert", self.recording, "-f", "csv,rocpd", "-d", self.out, "-o", "x")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        second = self.processes[1].pid
        self.assertIn("x_results.db", os.listdir(self.out))
        self.assertIn(f"x_{second}_results.db", os.listdir(self.out))
        self.assertIn(f"x_{second}_kernel_trace.csv", os.listdir(self.out))

    # Bad inputs and outputs

    def test_existing_outputs_are_kept_unless_forced(self):
        for format_ in FORMATS:
            with self.subTest(format_):
                self.convert(format_)
                before = {n: os.path.getmtime(n) for n in files_below(self.out)}
                done = self.convert(format_, status=3)
                self.assertIn("exists; --force replaces it", done.stderr)
                self.assertEqual({n: os.path.getmtime(n) for n in before}, before)
                self.convert(format_, "--force")

    def test_inputs_that_are_not_recordings(self):
        empty = os.path.join(self.out, "empty.rwa")
        text = os.path.join(self.out, "text.rwa")
        for path, content in ((empty, b""), (text, b"not ours" * 1000)):
            with open(path, "wb") as file:
                file.write(content)
        for path, words in ((empty, "is empty"), (text, "it is not a rocattach stream"),
                            (self.out, "is a directory"),
                            (self.out + "/none", "No such file or directory")):
            for format_ in FORMATS:
                with self.subTest(path=path, format=format_):
                    done = self.convert(format_, status=3, recording=path)
                    self.assertIn(words, done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    self.assertEqual(done.stdout, "")

    def test_recordings_of_a_newer_version(self):
        """The contents of unknown frames are not guessed."""
        with open(self.recording, "rb") as file:
            content = file.read()
        newer = os.path.join(self.out, "newer.rwa")
        with open(newer, "wb") as file:
            file.write(with_newer_frames(content, 0.5))
        for format_ in FORMATS:
            with self.subTest(part="the second half", format=format_):
                done = self.convert(format_, "--force", status=1, recording=newer)
                self.assertRegex(done.stderr, r"lacks .*\d frames of a newer version")
                # All counters may be in the second half.
                self.assertTrue(done.stdout or format_ == "compute-workload")
        with open(newer, "wb") as file:
            file.write(with_newer_frames(content, 1))
        for format_ in FORMATS:
            with self.subTest(part="all", format=format_):
                done = self.convert(format_, "--force", status=3, recording=newer)
                self.assertIn("was recorded by a newer version of this program", done.stderr)
                self.assertEqual((len(done.stderr.splitlines()), done.stdout), (1, ""))

    def test_truncated_and_damaged_inputs(self):
        with open(self.recording, "rb") as file:
            whole = file.read()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 0xFF
        for content in (whole[: len(whole) // 2], bytes(damaged), whole[len(whole) // 3 :]):
            path = os.path.join(self.out, "bad.rwa")
            with open(path, "wb") as file:
                file.write(content)
            done = self.convert(",".join(FORMATS), "--force", status=1, recording=path)
            self.assertIn("bad.rwa is incomplete: it lacks", done.stderr)
            self.assertIn("the outputs are partial", done.stderr)
            dump = run("dump", "--json", "--type", "dispatch", path)
            want = len(dump.stdout.splitlines())
            self.assertGreater(want, 0)
            self.assertLess(want, PROCESSES * DISPATCHES)
            counts = collections.Counter()
            for name in done.stdout.splitlines():
                if name.endswith(".db"):
                    with sqlite3.connect(name) as db:
                        counts["rocpd"] += db.execute("SELECT count(*) FROM kernels").fetchone()[0]
                elif name.endswith(".json"):
                    with open(name, encoding="utf-8") as file:
                        for tool in json.load(file)["rocprofiler-sdk-tool"]:
                            counts["json"] += len(tool["buffer_records"]["kernel_dispatch"])
                elif name.endswith("kernel_trace.csv"):
                    with open(name, encoding="utf-8", newline="") as file:
                        counts["csv"] += len(list(csv.reader(file))) - 1
                elif name.endswith(".ndjson"):
                    with open(name, encoding="utf-8") as file:
                        counts["ndjson"] += sum('"type":"dispatch"' in line for line in file)
            self.assertEqual(dict(counts), dict.fromkeys(("csv", "json", "ndjson", "rocpd"), want))
            self.check_others(done.stdout.splitlines())
            for name in done.stdout.splitlines():
                os.remove(name)

    def check_others(self, names):
        """Outputs of a damaged input are whole files of their kind."""
        for name in names:
            with open(name, "rb") as file:
                content = file.read()
            self.assertGreater(len(content), 0, name)
            if name.endswith(".gz"):
                self.assertGreater(len(gzip.decompress(content)), 0)
            if name.endswith("pmc_perf.csv"):
                self.assertEqual(len({row.count(b",") for row in content.splitlines()[:1]}), 1)
        ends = {name[name.rfind("_results."):] for name in names}
        self.assertLessEqual({"_results.pftrace", "_results.pb.gz", "_results.otlp.pb"}, ends)

    def test_every_truncation_converts_or_says_why(self):
        small = os.path.join(self.out, "small.rwa")
        subprocess.run([PROGRAMS.make_recording, small, "3", "20", "2"], check=True)
        with open(small, "rb") as file:
            whole = file.read()
        for cut in range(1, len(whole), max(1, len(whole) // 25)):
            with open(small, "wb") as file:
                file.write(whole[:cut])
            done = run("convert", small, "-f", ",".join(FORMATS), "-d", self.out, "-o",
                       "%pid%", "--force")
            self.assertIn(done.returncode, (1, 3), (cut, done.stderr))
            self.assertIn("small.rwa", done.stderr)

    def test_pipes(self):
        with open(self.recording, "rb") as file:
            whole = file.read()
        command = [PROGRAMS.rocattach, "convert", "-", "-f", "csv,rocpd", "-d", self.out, "-o", "%pid%"]
        done = subprocess.run(command, input=whole, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(len(self.rows(self.processes[1], "kernel_trace")), DISPATCHES)
        half = whole[: len(whole) // 2]
        done = subprocess.run(
            [*command, "--force"], input=half, capture_output=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"- is incomplete: it lacks", done.stderr)

    def test_interrupted_conversions_keep_partial_outputs(self):
        with open(self.recording, "rb") as file:
            part = until_a_process_ends(file.read())
        with started(
            [PROGRAMS.rocattach, "convert", "-", "-f", ",".join(FORMATS), "-d", self.out, "-o",
             "%pid%"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as convert:
            convert.stdin.write(part)
            convert.stdin.flush()
            first = self.path(self.processes[0], "kernel_trace.csv.partial")
            self.await_true(lambda: os.path.exists(first) and os.path.getsize(first) > 0,
                            "the first rows")
            self.await_true(lambda: waits_for_more(convert), "it to wait for more data")
            convert.send_signal(signal.SIGINT)
            self.assertEqual(convert.wait(30), 1)
            self.assertIn(b"interrupted", convert.stderr.read())
            self.assertEqual(convert.stdout.read(), b"")
        names = files_below(self.out)
        self.assertTrue(all(name.endswith(".partial") for name in names), names)
        self.check_interrupted()
        with open(first, encoding="utf-8", newline="") as file:
            self.assertGreater(len(list(csv.reader(file))), 1)
        database = self.path(self.processes[0], "results.db.partial")
        with sqlite3.connect(database) as db:
            self.assertGreater(db.execute("SELECT count(*) FROM kernels").fetchone()[0], 0)

    def check_interrupted(self):
        """The outputs written at the end contain the records that were read."""
        first = self.processes[0]
        with open(self.path(first, "results.json.partial"), encoding="utf-8") as file:
            (tool,) = json.load(file)["rocprofiler-sdk-tool"]
        self.assertGreater(len(tool["buffer_records"]["kernel_dispatch"]), 0)
        with gzip.open(self.path(first, "results.pb.gz.partial")) as file:
            self.assertIn(b"gpu_kernel_time", file.read())
        with open(self.path(first, "results.otlp.pb.partial"), "rb") as file:
            self.assertIn(b"gpu_kernel_time", file.read())
        folder = self.path(first, "workload")
        self.assertEqual({name for name in os.listdir(folder)}, {
            name + ".partial" for name in ("sysinfo.csv", "profiling_config.yaml",
                                           "pmc_perf.csv", "results_pmc_perf.csv.gz")})
        with gzip.open(os.path.join(folder, "results_pmc_perf.csv.gz.partial"), "rt",
                       encoding="utf-8") as file:
            self.assertGreater(len(file.read().splitlines()), 1)

    def test_full_disk_leaves_partial_outputs_by_that_name(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        small_ones = ("pprof", "otlp-profile")  # totals; they do not exceed the limit
        for format_ in (f for f in FORMATS if f not in small_ones):
            with self.subTest(format_):
                done = run("convert", self.recording, "-f", format_, "-d", self.out, "-o",
                           "full", preexec_fn=limit)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("partial results: ", done.stderr)
                partial = files_below(self.out)
                self.assertNotEqual(partial, [])
                for name in partial:
                    self.assertTrue(name.endswith(".partial"), name)
                if format_ == "json":
                    with open(partial[0], encoding="utf-8") as file:
                        begin = file.read(200)
                    self.assertIn('{"rocprofiler-sdk-tool":[\n{"metadata":', begin)
                shutil.rmtree(self.out)
                os.mkdir(self.out)

    def test_full_disk_costs_rocpd_one_transaction(self):
        """The others were committed, and can be queried."""
        dispatches = 120_000
        large = os.path.join(self.out, "large.rwa")
        subprocess.run([PROGRAMS.make_recording, large, "1", str(dispatches)], check=True)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, 16 << 20))

        done = run("convert", large, "-f", "rocpd", "-d", self.out, "-o", "full",
                   preexec_fn=limit)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("full_results.db.partial", done.stderr)
        with sqlite3.connect(os.path.join(self.out, "full_results.db.partial")) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            (rows,) = db.execute("SELECT count(*) FROM kernels").fetchone()
            (events,) = db.execute("SELECT count(*) FROM rocpd_event").fetchone()
        self.assertGreater(rows, 10_000)
        self.assertLess(rows, dispatches)
        self.assertGreaterEqual(events, rows)

    def test_a_full_disk_leaves_partial_outputs_of_all_formats(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))

        done = run("convert", self.recording, "-f", "ndjson,pprof,otlp-profile", "-d", self.out,
                   "-o", "full", preexec_fn=limit)
        self.assertEqual(done.returncode, 3, done.stderr)
        for name in ("full_results.ndjson", "full_results.pb.gz", "full_results.otlp.pb"):
            self.assertIn(name + ".partial", done.stderr)
            self.assertGreater(os.path.getsize(os.path.join(self.out, name + ".partial")), 100)

    def test_a_reader_of_the_names_that_goes_away(self):
        """Standard output is a pipe whose reader has closed it: the outputs are complete."""
        reading, writing = os.pipe()
        os.close(reading)
        for format_ in FORMATS:
            with self.subTest(format_):
                done = subprocess.run(
                    [PROGRAMS.rocattach, "convert", self.recording, "-f", format_, "-d",
                     self.out, "-o", "%pid%"], stdout=writing, stderr=subprocess.PIPE,
                    text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertGreater(len(files_below(self.out)), 0)
                self.assertEqual([n for n in files_below(self.out) if n.endswith(".partial")], [])
                shutil.rmtree(self.out)
                os.mkdir(self.out)
        os.close(writing)

    def test_unknown_format_is_a_usage_error(self):
        done = run("convert", self.recording, "-f", "cvs")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cvs", done.stderr)

    def test_formats_that_cannot_be_followed_are_refused(self):
        for format_ in FORMATS:
            if format_ in FOLLOWED:
                continue
            with self.subTest(format_):
                done = run("convert", self.recording, "-f", format_, "--follow")
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"{format_} cannot be written while data arrives", done.stderr)


if __name__ == "__main__":
    main()
