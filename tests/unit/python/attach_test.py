#!/usr/bin/env python3
"""Tests of rocattach_attach, with a library that only records its calls.

usage: attach_test.py PYTHON_DIRECTORY LIBRARY
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

LIBRARY = ""
VARIABLES = ("PID", "DURATION", "TOOL_LIBRARY", "CHILDREN", "LIBRARY")


class FakeLibrary:
    calls = []
    failing = {}

    def _note(self, name, pid):
        self.calls.append((name, pid, os.environ.get("ROCPROF_ATTACH_TOOL_LIBRARY")))
        if name in self.failing:
            status = self.failing[name]
            raise rocattach_attach.AttachError(name, pid, status, "no")

    def __getattr__(self, name):
        return lambda pid: self._note(name, pid)


class AttachTest(unittest.TestCase):
    def setUp(self):
        FakeLibrary.calls = []
        FakeLibrary.failing = {}
        patches = [
            mock.patch("rocattach_attach.attachment.Library", FakeLibrary),
            mock.patch.dict(os.environ),
        ]
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)
        for name in VARIABLES:
            os.environ.pop("ROCPROF_ATTACH_" + name, None)
        self.target = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(self.end_target)

    def end_target(self):
        self.target.kill()
        self.target.wait()

    def names(self):
        return [name for name, _, _ in FakeLibrary.calls]

    def test_detaches_after_the_duration(self):
        begin = time.monotonic()
        rocattach_attach.main(self.target.pid, None, 200)
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)
        self.assertLess(time.monotonic() - begin, 10)
        pid = self.target.pid
        self.assertEqual(
            FakeLibrary.calls, [("attach_tree", pid, None), ("detach_tree", pid, None)]
        )

    def test_everything_from_the_environment(self):
        os.environ["ROCPROF_ATTACH_PID"] = str(self.target.pid)
        os.environ["ROCPROF_ATTACH_DURATION"] = "10"
        os.environ["ROCPROF_ATTACH_TOOL_LIBRARY"] = "a.so:b.so"
        os.environ["ROCPROF_ATTACH_CHILDREN"] = "on"
        rocattach_attach.main()
        pid = self.target.pid
        self.assertEqual(
            FakeLibrary.calls,
            [("attach_tree", pid, "a.so:b.so"), ("detach_tree", pid, "a.so:b.so")],
        )

    def test_arguments_win_over_the_environment(self):
        os.environ["ROCPROF_ATTACH_PID"] = "1"
        os.environ["ROCPROF_ATTACH_DURATION"] = "1000000"
        os.environ["ROCPROF_ATTACH_TOOL_LIBRARY"] = "a.so"
        os.environ["ROCPROF_ATTACH_CHILDREN"] = "1"
        rocattach_attach.attach(str(self.target.pid), "b.so", 1, False)
        self.assertEqual(FakeLibrary.calls[0], ("attach", self.target.pid, "b.so"))
        self.assertEqual(os.environ["ROCPROF_ATTACH_TOOL_LIBRARY"], "a.so")

    def test_the_variable_is_restored(self):
        rocattach_attach.attach(self.target.pid, "b.so", 1, False)
        self.assertEqual(FakeLibrary.calls[0][2], "b.so")
        self.assertNotIn("ROCPROF_ATTACH_TOOL_LIBRARY", os.environ)

    def test_the_recording_ends_by_itself(self):
        seen = []
        library = mock.Mock()
        library.attach.side_effect = lambda _: seen.append(
            os.environ.get("ROCATTACH_DURATION_MSEC")
        )
        for duration in (10, 0):
            rocattach_attach.attach(self.target.pid, None, duration, False, library)
        self.assertEqual(seen, ["10", None])
        self.assertNotIn("ROCATTACH_DURATION_MSEC", os.environ)

    def test_all_forms_of_no(self):
        for text in ("", "0", "no", "False", "OFF"):
            os.environ["ROCPROF_ATTACH_CHILDREN"] = text
            rocattach_attach.attach(self.target.pid, None, 1)
            self.assertEqual(self.names()[-1], "detach", text)

    def test_invalid_arguments_are_rejected(self):
        for pid, duration in (
            (None, 1),
            ("", 1),
            ("x", 1),
            (-1, 1),
            (self.target.pid, "long"),
            (self.target.pid, -1),
            (self.target.pid, 31_536_000_001),
            (self.target.pid, 10**400),
            (self.target.pid, 1.5j),
        ):
            with self.subTest(pid=pid, duration=duration):
                with self.assertRaises(ValueError):
                    rocattach_attach.attach(pid, None, duration)
        self.assertEqual(FakeLibrary.calls, [])

    def test_a_year(self):
        threading.Timer(0.2, self.target.kill).start()
        begin = time.monotonic()
        rocattach_attach.attach(self.target.pid, None, 31_536_000_000, False)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(self.names(), ["attach", "detach"])

    def test_until_enter(self):
        readable, writable = os.pipe()
        with os.fdopen(readable) as reader, os.fdopen(writable, "w") as writer:
            threading.Timer(0.2, lambda: print(file=writer, flush=True)).start()
            with mock.patch("sys.stdin", reader):
                rocattach_attach.main(self.target.pid)
        self.assertEqual(self.names(), ["attach_tree", "detach_tree"])

    def test_until_ctrl_c_and_without_any_input(self):
        with open(os.devnull, encoding="ascii") as nothing:
            for stdin in (nothing, None):
                begin = time.monotonic()
                timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                with mock.patch("sys.stdin", stdin):
                    rocattach_attach.main(self.target.pid)
                timer.join()
                self.assertGreaterEqual(time.monotonic() - begin, 0.3)
                self.assertEqual(self.names()[-2:], ["attach_tree", "detach_tree"])

    def test_until_the_process_ends(self):
        threading.Timer(0.2, self.target.kill).start()
        rocattach_attach.main(self.target.pid, None, 600_000)
        self.assertEqual(self.names(), ["attach_tree", "detach_tree"])

    def test_a_process_that_cannot_be_attached_to(self):
        FakeLibrary.failing = {"attach": 6, "attach_tree": 6, "detach_tree": 2}
        for children, names in (
            (False, ["attach"]),
            (True, ["attach_tree", "detach_tree"]),
        ):
            FakeLibrary.calls.clear()
            with self.assertRaises(rocattach_attach.AttachError) as caught:
                rocattach_attach.attach(self.target.pid, None, 600_000, children)
            self.assertEqual(
                caught.exception.status,
                rocattach_attach.Status.ERROR_PTRACE_PROCESS_NOT_FOUND,
            )
            self.assertEqual(self.names(), names)

    def test_a_descendant_that_cannot_be_attached_to(self):
        FakeLibrary.failing = {"attach_tree": 4}
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            rocattach_attach.attach(self.target.pid, None, 1, True)
        self.assertIn("without the descendants", errors.getvalue())
        self.assertEqual(
            self.names(), ["attach_tree", "detach_tree", "attach", "detach"]
        )


class CommandTest(unittest.TestCase):
    def run_command(self, *words):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), mock.patch.dict(os.environ):
            for name in VARIABLES:
                os.environ.pop("ROCPROF_ATTACH_" + name, None)
            os.environ["ROCPROF_ATTACH_LIBRARY"] = LIBRARY
            os.environ["ROCATTACH_LOG_LEVEL"] = "fatal"
            return command.run(words), errors.getvalue()

    def test_statuses(self):
        self.assertEqual(self.run_command()[0], 2)
        self.assertEqual(self.run_command("-p", "x")[0], 2)
        for wrong in ("--unknown", "-d"):
            with self.assertRaises(SystemExit) as caught:
                self.run_command(wrong)
            self.assertEqual(caught.exception.code, 2)
        status, errors = self.run_command("--attach", "4194303", "-d", "1")
        self.assertEqual(status, 1)
        self.assertIn("no such process", errors)
        with mock.patch.dict(os.environ, ROCPROF_ATTACH_LIBRARY="/nonexistent.so"):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(command.run(["-p", str(os.getppid())]), 3)


    def test_options(self):
        options = command.parse(
            "-p 1 -t a.so --attach-duration-msec 5 --attach-children no "
            "--attach-library b.so".split()
        )
        self.assertEqual(
            (options.pid, options.attach_tool_library, options.duration),
            ("1", "a.so", "5"),
        )
        self.assertIs(options.attach_children, False)
        self.assertEqual(options.attach_library, "b.so")
        self.assertIs(command.parse(["--attach-children"]).attach_children, True)
        self.assertIsNone(command.parse([]).attach_children)


class LibraryTest(unittest.TestCase):
    def setUp(self):
        self.api = rocattach_attach.Library(LIBRARY)

    def test_names_and_version(self):
        for status in rocattach_attach.Status:
            self.assertEqual(
                self.api.status_name(status), "ROCATTACH_STATUS_" + status.name
            )
            self.assertTrue(self.api.status_string(status))
        self.assertIsNone(self.api.status_name(7))
        self.assertIsNone(self.api.status_string(-1))
        self.assertEqual(len(self.api.version()), 3)

    def test_errors(self):
        for call, pid, status in (
            ("attach", 0, 2),
            ("attach_tree", -1, 2),
            ("attach", os.getpid(), 2),
            ("attach", 4194303, 6),
            ("detach", 1, 2),
            ("detach_tree", 1, 2),
        ):
            with self.assertRaises(rocattach_attach.AttachError) as caught:
                getattr(self.api, call)(pid)
            self.assertEqual(caught.exception.status, status, (call, pid))
        self.api.detach(0)

    def test_the_library_is_found_beside_the_module(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("ROCPROF_ATTACH_LIBRARY", None)
            self.assertTrue(os.path.samefile(rocattach_attach.find_library(), LIBRARY))
            os.environ["ROCPROF_ATTACH_LIBRARY"] = "/other.so"
            self.assertEqual(rocattach_attach.find_library(), "/other.so")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    LIBRARY = sys.argv[2]
    os.environ["ROCATTACH_LOG_LEVEL"] = "fatal"
    import rocattach_attach
    import rocattach_attach.__main__ as command

    unittest.main(argv=sys.argv[:1])
