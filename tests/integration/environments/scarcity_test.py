#!/usr/bin/env python3
"""Targets that lack resources: memory that the machine does not promise, a memory control
group at its limit, processors that real-time threads occupy. Each ends as it does
natively, and operations that could not be recorded are counted.

usage: scarcity_test.py BUILD_DIRECTORY
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import live_service  # noqa: E402
from monitoring import eventually  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
VM = pathlib.Path("/proc/sys/vm")
GIB = 1 << 30
# The simulated GPU's memory is memory of the machine.
ROOM = 64 * GIB
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def read(path):
    """The text of a file; "" if the file is gone."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def write(path, value):
    """Writes a value to a file; False if that is not allowed."""
    try:
        pathlib.Path(path).write_text(str(value), encoding="ascii")
        return True
    except OSError:
        return False


class NoOvercommit:
    """While it exists, the machine promises no more memory than it is configured to have
    (vm.overcommit_memory=2), and reserves most of that for root, and some for other users:
    the rest of the machine works on. A separate process restores everything, even if the
    test is killed."""

    NAMES = ("overcommit_kbytes", "overcommit_ratio", "user_reserve_kbytes",
             "admin_reserve_kbytes")  # fmt: skip
    ROOTS_KIB = 256 * GIB >> 10

    def __init__(self, room):
        before = {name: read(VM / name).strip() for name in self.NAMES}
        mode = read(VM / "overcommit_memory").strip()
        wait, self._alive = os.pipe()
        self._restorer = os.fork()
        if self._restorer == 0:
            os.setsid()
            os.close(self._alive)
            os.read(wait, 1)
            for name, value in before.items():
                # Setting one of the first two makes the other one 0.
                if value != "0" or not name.startswith("overcommit"):
                    write(VM / name, value)
            write(VM / "overcommit_memory", mode)
            os._exit(0)
        os.close(wait)
        self.valid = (write(VM / "user_reserve_kbytes", 0) and self.leave(room)
                      and write(VM / "overcommit_memory", 2))  # fmt: skip

    def leave(self, room):
        """Lets users be promised so many more bytes than now; less than 0: none."""
        promised = int(re.search(r"^Committed_AS: +(\d+)", read("/proc/meminfo"),
                                 re.MULTILINE)[1])  # fmt: skip
        return (write(VM / "overcommit_kbytes", promised + self.ROOTS_KIB)
                and write(VM / "admin_reserve_kbytes", self.ROOTS_KIB - (room >> 10)))  # fmt: skip

    def end(self):
        os.close(self._alive)
        os.waitpid(self._restorer, 0)


class FullGroup:
    """A memory control group of version 1 that is full of page cache, which the kernel
    gives up when memory is needed."""

    BYTES = 256 << 20

    def __init__(self, folder):
        self.path = pathlib.Path(f"/sys/fs/cgroup/memory/rocattach-scarcity-{os.getpid()}")
        self.valid = False
        try:
            self.path.mkdir()
        except OSError:
            return
        self.valid = write(self.path / "memory.limit_in_bytes", self.BYTES)
        self._file = folder / "large"
        with open(self._file, "wb") as file:
            file.truncate(2 * self.BYTES)

    def within(self, *words):
        """A command that runs in the group once the group has reached its limit."""
        return ["sh", "-c", 'echo 0 >"$0"/cgroup.procs && cat "$1" >/dev/null && shift && exec "$@"',
                self.path, self._file, *words]  # fmt: skip

    def reached(self):
        """The number of times that the limit was reached."""
        return int(read(self.path / "memory.failcnt"))

    def remove(self):
        if self.path.exists():
            self.path.rmdir()


class ScarcityTest(unittest.TestCase):
    def setUp(self):
        live_service.set_up(self, "scarcity")
        # A folder that every user can reach.
        self.programs = self.folder / "programs"
        shutil.copytree(BUILD / "tests/simgpu/lib", self.programs / "lib", symlinks=True)
        for path in ("tests/simgpu/simgpu-run", "tests/targets/hsa_dispatch",
                     "tests/targets/hsa_busy"):  # fmt: skip
            shutil.copy(BUILD / path, self.programs)

    def on_simgpu(self, program, *words):
        return [self.programs / "simgpu-run", self.programs / program, *words]

    def start(self, *words):
        return live_service.start(self, *words, stderr=subprocess.PIPE)

    def await_end(self, process):
        """Waits for the end, and leaves what the process has written in its pipes."""
        if not eventually(lambda: process.poll() is not None, seconds=120):
            self.fail(f"{process.args} does not end")

    def check(self, run):
        """Calls `run` natively and under a service, with a function that returns whether
        the process may continue; `run` returns an ended process. Returns the drops."""
        def end(process):
            output, errors = live_service.outcome(self, process)
            self.assertIn("result=ok", output, errors)
            return process.returncode, errors, int(re.search(r"dispatches=(\d+)", output)[1])

        status, errors, _ = end(run(lambda pid: len(os.listdir(f"/proc/{pid}/task")) > 1))
        self.assertEqual((status, errors), (0, ""))
        service = live_service.serve(self, BUILD, self.folder / "service")
        watched = end(run(lambda _: service.events("window")))
        self.assertEqual(watched[:2], (status, errors), service.log_text())
        self.assertEqual(service.stop(signal.SIGINT), 0, service.log_text())
        self.assertEqual([w["verdict"] for w in service.events("window")], ["attached"])
        ends = service.events("end")
        self.assertEqual([e["dispatches"] + e["dropped"] for e in ends], [watched[2]], ends)
        return ends[0]["dropped"]

    # --- memory that is not promised ---

    def no_overcommit(self):
        scarce = NoOvercommit(ROOM)
        self.addCleanup(scarce.end)
        if not scarce.valid:
            self.skipTest("vm.overcommit_memory cannot be set")
        return scarce

    def test_promised_memory_suffices(self):
        self.no_overcommit()

        def run(_):
            return self.start(*NOBODY, *self.on_simgpu("hsa_dispatch", "-n", "20000"))

        self.assertEqual(self.check(run), 0)

    def test_no_more_memory_is_promised(self):
        """From the time when all threads dispatch, each into a ring that has to grow."""
        scarce = self.no_overcommit()
        threads = 4

        def dispatch(pid):
            """True if all threads dispatch: they sleep between dispatches."""
            texts = map(read, pathlib.Path(f"/proc/{pid}/task").glob("*/status"))
            return sum(re.search(r"^Name:\thsa_busy$", text, re.MULTILINE) is not None and
                       int(re.search(r"^voluntary.*:\t(\d+)", text, re.MULTILINE)[1]) > 20
                       for text in texts) >= threads  # fmt: skip

        def run(is_ready):
            process = self.start(*NOBODY, *self.on_simgpu(
                "hsa_busy", "-t", str(threads), "-n", "1000", "--rate", "200"))  # fmt: skip
            self.assertTrue(eventually(lambda: dispatch(process.pid)))
            self.assertTrue(eventually(lambda: is_ready(process.pid)))
            self.assertTrue(scarce.leave(-GIB))
            self.await_end(process)
            self.assertTrue(scarce.leave(ROOM))
            return process

        self.assertGreater(self.check(run), 0)

    # --- a full memory control group ---

    def test_a_memory_control_group_at_its_limit(self):
        # A file system that keeps its files in memory does not give that memory back.
        group = FullGroup(BUILD / "tests")
        self.addCleanup(group.remove)
        if not group.valid:
            self.skipTest("no memory control group of version 1 can be made")
        self.addCleanup((BUILD / "tests/large").unlink)
        command = group.within(*self.on_simgpu("hsa_dispatch", "-n", "20000", "-t", "4"))
        reached = []

        def run(_):
            process = self.start(*command)
            self.await_end(process)
            reached.append(group.reached())
            return process

        self.assertEqual(self.check(run), 0)
        self.assertGreater(reached[0], 0)
        self.assertGreater(reached[1], reached[0])

    # --- real-time priorities ---

    def test_real_time_threads_that_share_a_ring(self):
        """Half of the threads share it, all on one processor, where a thread that waits
        without sleeping would wait forever."""
        done = subprocess.run(["chrt", "-f", "1", "true"], capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest("no real-time priority")
        go_on = self.folder / "end"
        command = ["taskset", "--cpu-list", "0",
                   *self.on_simgpu("hsa_busy", "-t", "64", "-q", "4", "-n", "300",
                                   "--rate", "100", "--until", go_on)]  # fmt: skip

        def run(_):
            go_on.unlink(missing_ok=True)
            process = self.start(*command)
            tasks = f"/proc/{process.pid}/task"
            self.assertTrue(eventually(lambda: len(os.listdir(tasks)) > 64))
            for tid in map(int, os.listdir(tasks)):
                if tid % 2 == 0:
                    os.sched_setscheduler(tid, os.SCHED_FIFO, os.sched_param(1))
            go_on.touch()
            self.await_end(process)
            return process

        self.check(run)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
