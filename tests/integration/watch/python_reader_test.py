#!/usr/bin/env python3
"""A real recording, with every kind of data that can be requested, read by the Python
module and by `rocattach dump --json`; also damaged copies of the recording.

usage: python_reader_test.py SOURCE_DIRECTORY BUILD_DIRECTORY
"""

import collections
import os
import random
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = sys.argv[1:3]
sys.path[:0] = [os.path.join(SOURCE, "tests/unit/python"), os.path.join(BUILD, "python")]
import rocattach_stream  # noqa: E402
from dump_comparison import DumpComparison  # noqa: E402

PLACES = 25


def program(*parts):
    return os.path.join(BUILD, *parts)


class RealRecording(DumpComparison, unittest.TestCase):
    rocattach = program("userspace/cli/rocattach")
    module = rocattach_stream

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.chmod(cls.folder.name, 0o755)
        node = os.path.join(cls.folder.name, "topology/nodes/1")
        os.makedirs(node)
        with open(os.path.join(node, "properties"), "w", encoding="ascii") as file:
            file.write("cpu_cores_count 0\nsimd_count 416\n")
        cls.path = os.path.join(cls.folder.name, "run.rwa")
        run = subprocess.run(
            [program("userspace/cli/rocattach-watch"), "--auto"]
            + ["--kfd-topology", os.path.join(cls.folder.name, "topology")]
            + ["--collector", program("userspace/collector/librocattach-collector.so")]
            + ["-d", cls.folder.name, "-o", "run"]
            + ["--pmc", "SQ_WAVES", "TCC_HIT", "--counter-instances", "--hip-trace"]
            + ["--marker-trace", "--api-arguments", "--memory-allocation-trace", "--"]
            + [program("tests/simrocm/simrocm-run"), program("tests/targets/hip_markers")],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        if run.returncode != 0:
            raise AssertionError(run.stdout + run.stderr)
        with open(cls.path, "rb") as file:
            cls.data = file.read()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_intact(self):
        records = self.assert_same(self.path)
        counts = collections.Counter(record["type"] for record in records)
        (end,) = (r for r in records if r["type"] == "recording_end")
        self.assertGreater(counts["dispatch"], 0)
        self.assertEqual(counts["dispatch"], end["dispatches"])
        self.assertEqual(counts["copy"], end["copies"])
        self.assertEqual(counts["counter"], end["counter_values"])
        self.assertEqual(counts["api_call"], end["api_calls"])
        self.assertGreater(counts["counter"], 0)
        self.assertGreater(counts["api_call"], 0)
        self.assertEqual(counts["memory"], end["memory_operations"])
        self.assertGreater(counts["memory"], 0)
        self.assertTrue(all(r["each"] for r in records if r["type"] == "counter"))
        self.assertTrue(any("arguments" in r for r in records if r["type"] == "api_call"))
        self.assertEqual(counts["damage"], 0)
        names = {r["kernel"] for r in records if r["type"] == "dispatch"}
        self.assertNotIn("", names)

    def test_cut_flipped_and_joined(self):
        numbers = random.Random(11)
        for at in numbers.sample(range(len(self.data)), PLACES):
            flipped = bytearray(self.data)
            flipped[at] ^= 1 << at % 8
            self.assert_same_bytes(self.data[:at], ("cut", at))
            self.assert_same_bytes(bytes(flipped), ("flipped", at))
            self.assert_same_bytes(self.data[at:], ("joined", at))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
