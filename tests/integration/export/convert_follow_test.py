#!/usr/bin/env python3
"""Outputs that are written while the recording is made, and merged recordings.

usage: convert_follow_test.py ROCATTACH MAKE_RECORDING
"""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import time

from export_testing import (COLUMNS, DISPATCHES, PROCESSES, PROGRAMS, ConvertTestCase, main,
                            run, started)


class FollowTest(ConvertTestCase):
    def test_followed_outputs_are_readable_during_and_after_a_sigkill(self):
        with open(self.recording, "rb") as file:
            whole = file.read()
        growing = os.path.join(self.out, "growing.rwa")
        with open(growing, "wb") as file:
            file.write(whole[: len(whole) // 2])
        first, last = self.processes[0], self.processes[-1]
        with started([PROGRAMS.rocattach, "convert", growing, "-f", "csv,ndjson,rocpd",
                      "--follow", "-d", self.out, "-o", "%pid%"]) as follower:
            self.wait_for_rows(first, 1)
            self.assertEqual(self.rows_now(last), 0, "its records are in the second half")
            with open(growing, "ab") as file:
                file.write(whole[len(whole) // 2 : -200])
            more = self.wait_for_rows(last, 1)
            follower.send_signal(signal.SIGKILL)
        with self.database(last) as db:
            (after,) = db.execute("SELECT count(*) FROM kernels").fetchone()
            self.assertGreaterEqual(after, more)
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        with open(self.path(first, "results.ndjson"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        for line in lines[:-1]:
            json.loads(line)

    def rows_now(self, process):
        try:
            # The reader must not create the file.
            uri = f"file:{self.path(process, 'results.db')}?mode=rw"
            with sqlite3.connect(uri, uri=True) as db:
                return db.execute("SELECT count(*) FROM kernels").fetchone()[0]
        except sqlite3.OperationalError:
            return 0

    def wait_for_rows(self, process, least):
        deadline = time.monotonic() + 30
        rows = 0
        while time.monotonic() < deadline:
            rows = self.rows_now(process)
            if rows >= least:
                return rows
            time.sleep(0.05)
        self.fail(f"{rows} rows after 30 s, not {least}")
        return rows

    def test_outputs_are_complete_when_their_process_has_ended(self):
        """One process after the other ends, in a recording that is being made."""
        one, two = (os.path.join(self.out, name) for name in ("one.rwa", "two.rwa"))
        for seed, path in enumerate((one, two)):
            subprocess.run([PROGRAMS.make_recording, path, str(seed), "300", "1"], check=True)
        with open(one, "rb") as file:
            first = file.read()
        with open(two, "rb") as file:
            second = file.read()
        last = first.rindex(b"RAW\xf1")  # the end frame
        growing = os.path.join(self.out, "growing.rwa")
        out = os.path.join(self.out, "out")
        with open(growing, "wb") as file:
            file.write(first[:last])
        with started(
            [PROGRAMS.rocattach, "convert", growing, "-f", "json,pprof,csv,compute-workload",
             "--when-ended", "--quiet", "-d", out, "-o", "%pid%"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
            # The last output that is completed; the follower is not waited for forever.
            deadline = time.monotonic() + 30
            last_output = f"{out}/4001_workload/results_pmc_perf.csv.gz"
            while not os.path.exists(last_output) and time.monotonic() < deadline:
                time.sleep(0.05)
            if not os.path.exists(last_output):
                follower.kill()
            with open(f"{out}/4001_results.json", encoding="utf-8") as file:
                (process,) = json.load(file)["rocprofiler-sdk-tool"]
            self.assertEqual(len(process["buffer_records"]["kernel_dispatch"]), 300)
            self.assertEqual([n for n in os.listdir(out) if n.endswith(".partial")], [])
            rows, _, _ = self.workload(f"{out}/4001_workload")
            self.assertEqual(len(rows), 30)
            self.assertIsNone(follower.poll())
            with open(growing, "ab") as file:
                file.write(first[last:])
            output, errors = follower.communicate(timeout=30)
            self.assertEqual((follower.returncode, output, errors), (0, "", ""))
        # A later process with the same process ID has outputs of its own, and existing
        # outputs do not prevent the others.
        with open(growing, "wb") as file:
            file.write(first + second)
        done = run("convert", growing, "-f", "json", "--when-ended", "-d", out, "-o", "x")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(),
                         [f"{out}/x_results.json", f"{out}/x_4001_results.json"])
        done = run("convert", growing, "-f", "json", "--when-ended", "-d", out, "-o", "%pid%")
        self.assertEqual(done.returncode, 3)
        self.assertIn("4001_results.json exists", done.stderr)

    def test_a_merged_recording_has_everything(self):
        small = os.path.join(self.out, "small.rwa")
        subprocess.run([PROGRAMS.make_recording, small, "3", "100", "1"], check=True)
        done = run("merge", self.recording, small, "-o", os.path.join(self.out, "merged.rwa"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("merged.rwa: 2 recordings, ", done.stdout)
        self.assertIn("small.rwa (%s): recorded with the same clock" % socket.gethostname(),
                      done.stdout)
        done = self.convert("csv", recording=os.path.join(self.out, "merged.rwa"))
        for process in self.processes:
            self.assertEqual(
                [int(row["Start_Timestamp"]) for row in self.rows(process, "kernel_trace")],
                [d["start_ns"] for d in process.of["dispatch"]])

    def test_following_ends_with_the_recording(self):
        done = self.convert("csv,ndjson,rocpd", "--follow")
        self.assertEqual(len(done.stdout.splitlines()), PROCESSES * (len(COLUMNS) + 2))
        self.assertEqual([n for n in os.listdir(self.out) if "-wal" in n or "-shm" in n], [])
        with self.database(self.processes[0]) as db:
            self.assertEqual(db.execute("SELECT count(*) FROM kernels").fetchone(), (DISPATCHES,))


if __name__ == "__main__":
    main()
