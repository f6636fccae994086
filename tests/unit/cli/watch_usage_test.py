#!/usr/bin/env python3
"""Messages of rocattach-watch for a wrong command line. Nothing is watched here.

usage: watch_usage_test.py ROCATTACH_WATCH
"""

import os
import pty
import subprocess
import sys
import unittest

WATCH = ""


def run(*words):
    return subprocess.run(
        [WATCH, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )


class WatchUsageTest(unittest.TestCase):
    def refused(self, *words):
        """Returns the first line of the error."""
        result = run(*words)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        return result.stderr.splitlines()[0]

    def test_unknown_options_have_suggestions(self):
        self.assertEqual(
            self.refused("--autoo", "5", "--json", "--", "true"),
            "rocattach-watch: there is no option --autoo; did you mean --auto?",
        )
        result = run("--auto", "--quite", "--bogus-thing=3")
        self.assertEqual(
            result.stderr.splitlines()[:2],
            [
                "rocattach-watch: there is no option --quite; did you mean --quiet?",
                "rocattach-watch: there is no option --bogus-thing",
            ],
        )
        # An error that only follows from the mistake is not reported.
        self.assertIn("--autto", self.refused("--autto", "--dry-run"))

    def test_words_without_dashes_get_a_suggestion(self):
        self.assertEqual(
            self.refused("auto"),
            "rocattach-watch: there is no program 'auto' to run; did you mean --auto?",
        )
        self.assertIn("'rocattach doctor'", self.refused("doctor"))
        # After "--" it is a command, and a missing one has the shell's status.
        self.assertEqual(run("--auto", "--", "auto").returncode, 127)
        self.assertEqual(run("--auto", "no-such-program").returncode, 127)

    def test_no_status_names(self):
        line = self.refused("--auto", "--pmc", "SQ_WAEVS")
        self.assertIn("did you mean SQ_WAVES", line)
        self.assertNotIn("NOT_FOUND", line)

    def test_ranges_are_as_in_the_help(self):
        self.assertEqual(
            self.refused("--cpu-budget", "0"),
            "rocattach-watch: --cpu-budget: Value 0 not in range 0.1 to 100000",
        )

    def test_counters_of_metrics_need_metrics_and_are_known(self):
        self.assertIn("needs --metrics-listen", self.refused("--auto", "--metrics-counters",
                                                             "SQ_WAVES"))
        line = self.refused("--auto", "--metrics-listen", "0", "--metrics-counters", "SQ_WAEVS")
        self.assertIn("did you mean SQ_WAVES", line)

    def test_a_process_is_a_number(self):
        self.assertIn("add --auto", self.refused("-p", str(os.getpid())))
        self.assertIn("4194303", self.refused("--auto", "-p", "4194303"))
        self.assertIn("command", self.refused("--auto", "-p", "1", "--", "true"))
        self.assertIn("--deny", self.refused("--auto", "-p", "1", "--deny", "x"))

    def test_the_old_spelling_has_a_warning(self):
        warning = self.refused("--auto", "-p", "python*", "--pmc", "SQ_WAEVS")
        self.assertIn("-n", warning)
        self.assertIn("python*", warning)
        self.assertNotIn("-p", self.refused("--auto", "-n", "python*", "--pmc", "SQ_WAEVS"))

    def test_users_by_name(self):
        self.assertIn("no-such-user", self.refused("--auto", "--uid", "no-such-user"))
        for user in ("root", "0"):
            self.assertIn("SQ_WAVES", self.refused("--uid", user, "--pmc", "SQ_WAEVS"))

    def test_no_recording_to_a_terminal(self):
        main, terminal = pty.openpty()
        result = subprocess.run(
            [WATCH, "--auto", "-o", "-", "--", "true"],
            stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE, text=True,
            timeout=60,
        )
        os.close(terminal)
        os.close(main)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("terminal", result.stderr)
        self.assertIn("rocattach report -", result.stderr)


if __name__ == "__main__":
    WATCH = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
