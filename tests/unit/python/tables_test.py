#!/usr/bin/env python3
"""Data frames of the Python module compared with `rocattach dump --json`, the documented
examples, and the package that pip installs.

usage: tables_test.py SOURCE_DIRECTORY PYTHON_DIRECTORY ROCATTACH MAKE_RECORDING
"""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SOURCE, PYTHON, ROCATTACH, MAKE_RECORDING = map(os.path.abspath, sys.argv[1:5])
sys.path.insert(0, PYTHON)
import rocattach_stream  # noqa: E402

try:
    import pandas
except ImportError:
    pandas = None


def needs_pandas(test):
    if pandas is None:
        test.assertFalse(os.environ.get("CI"), "this test needs python3-pandas")
        test.skipTest("python3-pandas is not installed")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, (command, done.returncode, done.stderr[-2000:])
    return done.stdout


class TablesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "run.rwa")
        run(MAKE_RECORDING, cls.path, "3", "1000", "2")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_frames_contain_the_records_of_the_dump(self):
        needs_pandas(self)
        dumped = collections.defaultdict(list)
        pids = {}
        for line in run(ROCATTACH, "dump", "--json", self.path).splitlines():
            record = json.loads(line)
            dumped[record["type"]].append(record)
            if record["type"] == "process":
                pids[record["stream"]] = record["pid"]
        frames = rocattach_stream.data_frames(self.path)
        self.assertEqual(
            set(frames), {"dispatch", "copy", "counter", "sample", "api_call"}
        )
        for kind, frame in frames.items():
            with self.subTest(kind):
                records = dumped[kind]
                self.assertEqual(len(frame), len(records))
                self.assertGreater(len(frame), 0)
                columns = set(frame.columns) - {"pid", "process"}
                for number, (_, row) in enumerate(frame.iterrows()):
                    record = records[number]
                    self.assertEqual(row["pid"], pids[record["stream"]])
                    for key in columns:
                        if re.fullmatch("(grid|workgroup)_[xyz]", key):
                            name, axis = key.split("_")
                            self.assertEqual(row[key], record[name]["xyz".index(axis)])
                        elif key in record:
                            self.assertEqual(row[key], record[key], key)
                        else:
                            self.assertTrue(pandas.isna(row[key]), key)
                    self.assertLessEqual(
                        set(record) - {"type", "grid", "workgroup"}, columns
                    )
        self.assertFalse(frames["dispatch"].attrs["stats"].damaged)

    def test_sums_over_frames_match_the_report(self):
        needs_pandas(self)
        dispatches = rocattach_stream.data_frames(self.path, "dispatch")["dispatch"]
        report = json.loads(run(ROCATTACH, "report", "--json", self.path))
        totals = collections.Counter()
        for process in report["recordings"][0]["processes"]:
            for kernel in process["kernels"]:
                totals[kernel["name"]] += kernel["total_ns"]
        timed = dispatches[~dispatches["untimed"] & ~dispatches["unfinished"]]
        for name, total in timed.groupby("kernel")["duration_ns"].sum().items():
            if name in totals:
                self.assertEqual(total, totals[name])
        self.assertEqual(str(dispatches["duration_ns"].dtype), "int64")

    def test_without_records_there_are_empty_frames(self):
        needs_pandas(self)
        frames = rocattach_stream.data_frames(self.path, ["damage", "kernel"])
        self.assertTrue(frames["damage"].empty)
        self.assertFalse(frames["kernel"].empty)

    def test_damage_is_in_the_statistics(self):
        needs_pandas(self)
        torn = os.path.join(self.folder.name, "torn.rwa")
        with open(self.path, "rb") as whole, open(torn, "wb") as file:
            file.write(whole.read()[:-3000])
        frame = rocattach_stream.data_frames(torn)["dispatch"]
        self.assertTrue(frame.attrs["stats"].damaged)
        empty = os.path.join(self.folder.name, "empty.rwa")
        open(empty, "wb").close()
        with self.assertRaises(rocattach_stream.StreamError):
            rocattach_stream.data_frames(empty)

    def test_without_pandas_the_error_names_it(self):
        with mock.patch.dict(sys.modules, {"pandas": None}):
            with self.assertRaisesRegex(
                rocattach_stream.MissingModuleError, "python3-pandas"
            ):
                rocattach_stream.data_frames(self.path)

    def test_documented_examples_run(self):
        needs_pandas(self)
        with open(os.path.join(SOURCE, "docs/stream-format.md"), encoding="utf-8") as file:
            reading = file.read().partition("\n## Reading\n")[2]
        examples = re.findall(r"```python\n(.*?)```", reading, re.S)
        self.assertEqual(len(examples), 2)
        for example in examples:
            output = run(
                sys.executable, "-c", example, cwd=self.folder.name,
                env={**os.environ, "PYTHONPATH": PYTHON},
            )  # fmt: skip
            self.assertIn("Scale(float*, float, int)", output)
            self.assertNotIn("incomplete", output)


class PackageTest(unittest.TestCase):
    def test_pip_installs_a_module_that_reads(self):
        pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True)
        if pip.returncode != 0:
            self.assertFalse(os.environ.get("CI"), "this test needs python3-pip")
            self.skipTest("python3-pip is not installed")
        with tempfile.TemporaryDirectory() as folder:
            # Builds from a copy, because building leaves files beside the sources.
            tree = os.path.join(folder, "tree")
            os.makedirs(os.path.join(tree, "userspace"))
            for part in ("CMakeLists.txt", "schemas", "userspace/python"):
                run("cp", "-r", os.path.join(SOURCE, part), os.path.join(tree, part))
            target = os.path.join(folder, "target")
            run(
                sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                "--no-build-isolation", "--target", target,
                os.path.join(tree, "userspace/python"), cwd=folder,
            )  # fmt: skip
            installed = os.path.join(target, "rocattach_stream")
            self.assertTrue(os.path.exists(os.path.join(installed, "schemas.binpb")))
            version = run(ROCATTACH, "--version").split()[1]
            self.assertIn(f"rocattach_stream-{version}.dist-info", os.listdir(target))
            path = os.path.join(folder, "run.rwa")
            run(MAKE_RECORDING, path, "1", "100")
            output = run(
                sys.executable, "-m", "rocattach_stream", path, cwd=folder,
                env={**os.environ, "PYTHONPATH": target},
            )  # fmt: skip
            dumped = run(ROCATTACH, "dump", "--json", path).splitlines()
            self.assertEqual(
                [json.loads(line) for line in output.splitlines()],
                [json.loads(line) for line in dumped],
            )


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
