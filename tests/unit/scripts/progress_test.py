#!/usr/bin/env python3
"""The progress messages that scripts print.

usage: progress_test.py SOURCE_DIRECTORY
"""

import pathlib
import subprocess
import sys
import time
import unittest

SOURCE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
COMMAND = ["bash", "-euc", '. "$1/scripts/progress.sh"; show_progress build', "bash", SOURCE]


class ProgressTest(unittest.TestCase):
    def test_a_line_that_comes_in_parts(self):
        """The parts are further apart than the script waits for a line."""
        process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)  # fmt: skip
        for part in ("1 10 built 1", " of 10 files\n5 1", "0 built 5 of 10 files\n"):
            process.stdin.write(part)
            process.stdin.flush()
            time.sleep(2.5)  # longer than the wait
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("build: built 1 of 10 files, ", output)
        self.assertIn("build: built 5 of 10 files, ", output)

    def test_every_five_percent_is_printed(self):
        lines = "".join(f"{i} 100 step {i}\n" for i in range(101))
        done = subprocess.run(COMMAND, input=lines, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        steps = [line.split(",")[0] for line in done.stdout.splitlines()]
        self.assertEqual(steps, [f"build: step {i}" for i in range(0, 101, 5)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
