#!/usr/bin/env python3
"""The examples of the manual page rocattach_sessions(3) are the programs of tests/samples.

usage: samples_test.py SOURCE_DIRECTORY
"""

import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path()
# How the page writes characters that roff would change.
ESCAPES = {"\\-": "-", "\\e": "\\", "\\&": ""}
ESCAPES.update({"\\(aq": "'", "\\(ga": "`", "\\(ha": "^", "\\(ti": "~"})
ESCAPE = re.compile(r"\\(?:-|e|&|\(\w\w)")
# The comment before each example names the file.
EXAMPLE = re.compile(r'^\.\\" (\w+\.c)\n\.Bd -literal\n(.*?)^\.Ed$', re.M | re.S)


def plain(text):
    return ESCAPE.sub(lambda escape: ESCAPES[escape.group()], text)


class SamplesTest(unittest.TestCase):
    def test_the_page_shows_the_samples(self):
        page = (SOURCE / "docs/man/rocattach_sessions.3").read_text(encoding="utf-8")
        shown = {name: plain(text) for name, text in EXAMPLE.findall(page)}
        samples = {
            path.name: path.read_text(encoding="utf-8")
            for path in (SOURCE / "tests/samples").glob("*.c")
        }
        self.assertEqual(len(samples), 5)
        self.assertEqual(sorted(shown), sorted(samples))
        for name, text in samples.items():
            self.assertEqual(shown[name], text, name)

    def test_every_sample_is_run(self):
        test = SOURCE / "tests/integration/library/sessions_samples_test.cc"
        text = test.read_text(encoding="utf-8")
        for path in (SOURCE / "tests/samples").glob("*.c"):
            self.assertIn(f'"samples/{path.name}"', text)

    def test_every_function_of_the_page_is_in_the_header(self):
        page = (SOURCE / "docs/man/rocattach_sessions.3").read_text(encoding="utf-8")
        header = SOURCE / "userspace/library/rocattach_sessions.h"
        functions = set(re.findall(r"rocattach_\w+(?=\()", header.read_text("utf-8")))
        self.assertEqual(set(re.findall(r"^\.Fn (\w+)", page, re.M)) - functions, set())


if __name__ == "__main__":
    SOURCE = pathlib.Path(sys.argv.pop())
    unittest.main(verbosity=2)
