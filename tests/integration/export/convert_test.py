#!/usr/bin/env python3
"""Names of outputs, and inputs and outputs that are not as they should be.

usage: convert_test.py ROCATTACH MAKE_RECORDING
"""

import collections
import csv
import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import time

from export_testing import DISPATCHES, PROCESSES, PROGRAMS, ConvertTestCase, main, run


class ConvertTest(ConvertTestCase):
    def test_keys_in_names(self):
        done = run("convert", self.recording, "-f", "csv", "-d", self.out + "/%tag%", "-o",
                   "{hostname}/p%p", cwd=self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for process in self.processes:
            name = f"{self.out}/app/{socket.gethostname()}/p{process.pid}_kernel_trace.csv"
            self.assertTrue(os.path.exists(name), name)

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
        for format_ in ("csv", "json", "ndjson", "rocpd"):
            with self.subTest(format_):
                self.convert(format_)
                before = {n: os.path.getmtime(os.path.join(self.out, n))
                          for n in os.listdir(self.out)}
                done = self.convert(format_, status=3)
                self.assertIn("exists; --force replaces it", done.stderr)
                self.assertEqual({n: os.path.getmtime(os.path.join(self.out, n))
                                  for n in before}, before)
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
            with self.subTest(path):
                done = self.convert("csv,json,ndjson,rocpd", status=3, recording=path)
                self.assertIn(words, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_truncated_and_damaged_inputs(self):
        with open(self.recording, "rb") as file:
            whole = file.read()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 0xFF
        for content in (whole[: len(whole) // 2], bytes(damaged), whole[len(whole) // 3 :]):
            path = os.path.join(self.out, "bad.rwa")
            with open(path, "wb") as file:
                file.write(content)
            done = self.convert("csv,json,ndjson,rocpd", "--force", status=1, recording=path)
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
            for name in done.stdout.splitlines():
                os.remove(name)

    def test_every_truncation_converts_or_says_why(self):
        small = os.path.join(self.out, "small.rwa")
        subprocess.run([PROGRAMS.make_recording, small, "3", "20", "2"], check=True)
        with open(small, "rb") as file:
            whole = file.read()
        for cut in range(1, len(whole), max(1, len(whole) // 25)):
            with open(small, "wb") as file:
                file.write(whole[:cut])
            done = run("convert", small, "-f", "csv,json,ndjson,rocpd", "-d", self.out, "-o",
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

    def test_interrupted_conversions_keep_what_they_have(self):
        with open(self.recording, "rb") as file:
            half = file.read(os.path.getsize(self.recording) // 2)
        with subprocess.Popen(
            [PROGRAMS.rocattach, "convert", "-", "-f", "csv,ndjson,rocpd", "-d", self.out, "-o", "%pid%"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as convert:
            convert.stdin.write(half)
            convert.stdin.flush()
            deadline = time.monotonic() + 30
            first = self.path(self.processes[0], "kernel_trace.csv.partial")
            while time.monotonic() < deadline and not (
                os.path.exists(first) and os.path.getsize(first) > 0
            ):
                time.sleep(0.05)
            time.sleep(0.5)  # until it waits for more
            convert.send_signal(signal.SIGINT)
            self.assertEqual(convert.wait(30), 1)
            self.assertIn(b"interrupted", convert.stderr.read())
            self.assertEqual(convert.stdout.read(), b"")
        names = os.listdir(self.out)
        self.assertTrue(all(name.endswith(".partial") for name in names), names)
        with open(first, encoding="utf-8", newline="") as file:
            self.assertGreater(len(list(csv.reader(file))), 1)
        database = self.path(self.processes[0], "results.db.partial")
        with sqlite3.connect(database) as db:
            self.assertGreater(db.execute("SELECT count(*) FROM kernels").fetchone()[0], 0)

    def test_full_disk_leaves_partial_outputs_by_that_name(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        for format_ in ("csv", "json", "ndjson", "rocpd"):
            with self.subTest(format_):
                done = run("convert", self.recording, "-f", format_, "-d", self.out, "-o",
                           "full", preexec_fn=limit)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("partial results: ", done.stderr)
                partial = [n for n in os.listdir(self.out) if n.endswith(".partial")]
                self.assertNotEqual(partial, [])
                self.assertFalse(os.path.exists(f"{self.out}/full_results.{format_}"))
                for name in partial:
                    os.remove(os.path.join(self.out, name))

    def test_unknown_format_is_a_usage_error(self):
        done = run("convert", self.recording, "-f", "cvs")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cvs", done.stderr)

    def test_json_cannot_be_followed(self):
        done = run("convert", self.recording, "-f", "json", "--follow")
        self.assertEqual(done.returncode, 2)
        self.assertIn("json cannot be written while data arrives", done.stderr)


if __name__ == "__main__":
    main()
