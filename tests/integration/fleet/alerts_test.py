#!/usr/bin/env python3
"""The alert rules on the series that a real service exposes: every counter in a rule is
there before its first event, and its first event fires the rule. The most important
events are provoked.

usage: alerts_test.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""

import ctypes
import json
import math
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import monitoring  # noqa: E402
from monitoring import eventually  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
RULES = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve() / (
    "scripts/monitoring/rocattach.rules.yml"
)
WATCH = BUILD / "userspace/cli/rocattach-watch"
COLLECTOR = BUILD / "userspace/collector/librocattach-collector.so"
PROGRAM = [BUILD / "tests/simgpu/simgpu-run", BUILD / "tests/targets/hsa_dispatch", "-n", "5"]
SAMPLE = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
RULE = re.compile(r"- alert: (\w+)\n +expr: (.*)")
COUNTER = re.compile(r"increase\((\w+)(?:\{([^}]*)\})?\[")


# System call filters, as sock_filter: a comparison, which kills if the values are equal.
LOAD, EQUAL, GREATER, RETURN = 0x20, 0x15, 0x25, 0x06
KILL, ALLOW = 0x80000000, 0x7FFF0000
MEMFD_CREATE, FTRUNCATE = 319, 77
SECOND_ARGUMENT = 24
# Recognised by the injector before anything is written to the process.
FORBIDS_MEMFDS = [
    (LOAD, 0, 0, 0), (EQUAL, 0, 1, MEMFD_CREATE), (RETURN, 0, 0, KILL), (RETURN, 0, 0, ALLOW)
]  # fmt: skip
# Kills at a size that only the collector's memory has, which cannot be known beforehand.
KILLS_AT_THE_COLLECTOR = [
    (LOAD, 0, 0, 0), (EQUAL, 0, 3, FTRUNCATE), (LOAD, 0, 0, SECOND_ARGUMENT),
    (GREATER, 0, 1, 16 << 20), (RETURN, 0, 0, KILL), (RETURN, 0, 0, ALLOW)
]  # fmt: skip


class FilterProgram(ctypes.Structure):
    """sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("filters", ctypes.c_char_p)]


def set_filter(steps):
    """Sets a filter for this process, which is about to run another program."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = b"".join(struct.pack("<HBBI", *step) for step in steps)
    program = FilterProgram(len(steps), code)
    no_new_privileges, seccomp, mode_filter = 38, 22, 2
    libc.prctl(no_new_privileges, 1, 0, 0, 0)
    if libc.prctl(seccomp, mode_filter, ctypes.byref(program), 0, 0) != 0:
        os._exit(99)


def missing():
    """The reason why the test cannot run here; "" if it can."""
    if programs := monitoring.missing_programs("promtool", "setpriv"):
        return f"{', '.join(programs)}: not installed; scripts/setup installs what is missing"
    if os.geteuid() != 0:
        return "needs root (eBPF)"
    if monitoring.unified_control_groups() is None:
        return "needs control groups of the unified hierarchy"
    return ""


def samples(page):
    """Series of a page in text format: (name, labels) -> value."""
    return {(name, frozenset(LABEL.findall(labels))): float(value)
            for name, labels, value in SAMPLE.findall(page)}  # fmt: skip


def selected(series, name, matchers):
    """The entries of `series` that a PromQL selector selects."""
    holds = {
        "=": lambda value, text: value == text,
        "!=": lambda value, text: value != text,
        "=~": lambda value, text: re.fullmatch(text, value) is not None,
        "!~": lambda value, text: re.fullmatch(text, value) is None,
    }
    return [
        (known, labels) for known, labels in series
        if known == name and all(
            holds[operator](dict(labels).get(label, ""), text)
            for label, operator, text in MATCHER.findall(matchers))
    ]  # fmt: skip


def text_of(series):
    name, labels = series
    return f"{name}{{{', '.join(f'{key}={json.dumps(value)}' for key, value in sorted(labels))}}}"


def in_decimals(value):
    return f"{value:f}".rstrip("0").rstrip(".")


def rules_test(alerts, before, after, all_alerts):
    """A test for promtool: these are the series of a service before and after an event,
    which fires `alerts` and no other one of `all_alerts`."""
    series = []
    for name, labels in after:
        if not math.isfinite(after[name, labels]):
            continue
        first = before.get((name, labels))
        series.append({
            "series": text_of((name, labels | {("instance", "a")})),
            "values": f"{'_' if first is None else in_decimals(first)}x9 "
                      f"{in_decimals(after[name, labels])}x20"})  # fmt: skip
    expected = [(alert, at, int(at == "12m" and alert in alerts))
                for alert in sorted(all_alerts) for at in ("8m", "12m")]  # fmt: skip
    return {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {"expr": f'count(count by (alertname) (ALERTS{{alertname="{alert}"}})) or vector(0)',
             "eval_time": at, "exp_samples": [{"labels": "{}", "value": count}]}
            for alert, at, count in expected],
    }  # fmt: skip


class AlertsTest(unittest.TestCase):
    def setUp(self):
        reason = missing()
        if reason and os.environ.get("CI"):
            self.fail(reason)
        if reason:
            self.skipTest(reason)
        folder = tempfile.TemporaryDirectory(prefix="rocattach-alerts.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # Nothing happens while no process is in the group.
        self.group = monitoring.unified_control_groups() / f"rocattach-alerts-{os.getpid()}"
        self.group.mkdir()
        self.addCleanup(lambda: eventually(self.remove_group))
        self.service = self.start_service()
        self.series = self.scrape(self.service)

    def remove_group(self):
        try:
            self.group.rmdir()
        except OSError:
            return False  # a process is still ending
        return True

    def start_service(self, *options):
        """Starts a service that has windows for the group only."""
        service = monitoring.Server(
            [WATCH, "--auto", "--json", "--collector", COLLECTOR, "--cgroup", self.group,
             "--socket", self.folder / "control.sock", "-d", self.folder, "-o", "run",
             "--metrics-listen", "127.0.0.1:0", *options], self.folder / "log")  # fmt: skip
        self.addCleanup(service.stop)
        self.assertTrue(eventually(lambda: self.address(service)), service.log_text())
        return service

    @staticmethod
    def address(service):
        found = re.search(r'"metrics":"([^"]+)"', service.log_text())
        return found and found[1]

    def scrape(self, service):
        with urllib.request.urlopen(
            f"http://{self.address(service)}/metrics", timeout=60
        ) as page:
            return samples(page.read().decode())

    def run_in_group(self, steps=()):
        """Runs a GPU program in the group, under this filter; returns its status."""

        def prepare():
            (self.group / "cgroup.procs").write_text(str(os.getpid()))
            if steps:
                set_filter(steps)

        # The simulated GPU does not need the calls that the filter forbids.
        done = subprocess.run(PROGRAM, preexec_fn=prepare, capture_output=True,
                              env={**os.environ, "SIMGPU_MEMFD": "0"},
                              check=False)  # fmt: skip
        return done.returncode

    def scrape_until_counted(self, service, **labels):
        """The page once the first attach with these labels has been counted."""

        def counted():
            page = self.scrape(service)
            matchers = ",".join(f'{key}="{text}"' for key, text in labels.items())
            known = selected(page, "rocattach_attach_total", matchers)
            return page if sum(page[one] for one in known) == 1 else None

        page = eventually(counted)
        self.assertTrue(page, f"{labels}: {service.log_text()}")
        return page

    def run_promtool(self, tests):
        path = self.folder / "rules.test.yml"
        path.write_text(  # JSON is YAML.
            json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}),
            encoding="utf-8",
        )
        done = subprocess.run(["promtool", "test", "rules", str(path)],
                              capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    # Each event is the first of its kind in the life of a service.
    def test_provoked_events_fire_their_alerts(self):
        watched = {"RocattachWindowsRefused", "RocattachTargetsDieDuringAttach",
                   "RocattachWindowsMissed"}  # fmt: skip
        start = self.series
        self.assertEqual(self.run_in_group(FORBIDS_MEMFDS), 0)
        refused = self.scrape_until_counted(self.service, result="refused")
        self.assertEqual(self.run_in_group(KILLS_AT_THE_COLLECTOR), -signal.SIGSYS)
        died = self.scrape_until_counted(self.service, reason="died-during-attach")
        self.service.stop(signal.SIGTERM)
        # A process that is not held cannot be attached to.
        service = self.start_service("--hold", "none")
        second_start = self.scrape(service)
        self.assertEqual(self.run_in_group(), 0)
        missed = self.scrape_until_counted(service, result="missed")
        self.run_promtool([
            rules_test({"RocattachWindowsRefused"}, start, refused, watched),
            rules_test({"RocattachTargetsDieDuringAttach"}, refused, died, watched),
            rules_test({"RocattachWindowsMissed"}, second_start, missed, watched),
        ])  # fmt: skip

    def test_the_first_event_fires_each_rule(self):
        cases = []
        for alert, expr in RULE.findall(RULES.read_text(encoding="utf-8")):
            for name, matchers in COUNTER.findall(expr):
                watched = selected(self.series, name, matchers)
                self.assertTrue(watched, f"{alert}: a new service does not have {name}")
                cases += [(alert, one) for one in watched]
        alerts = {alert for alert, _ in cases}
        self.assertIn("RocattachTargetsDieDuringAttach", alerts)
        self.assertIn("RocattachWindowsMissed", alerts)
        self.assertIn("RocattachWindowsRefused", alerts)
        tests = []
        for alert, one in cases:
            self.assertEqual(self.series[one], 0, text_of(one))
            name, labels = one
            exposed = (name, labels | {("instance", "a")})
            tests.append({
                "interval": "1m",
                "input_series": [{"series": text_of(exposed), "values": "0x9 1x20"}],
                "promql_expr_test": [
                    {"expr": f'count(ALERTS{{alertname="{alert}"}}) or vector(0)',
                     "eval_time": at, "exp_samples": [{"labels": "{}", "value": count}]}
                    for at, count in (("8m", 0), ("12m", 1))],
            })  # fmt: skip
        self.run_promtool(tests)

    def test_other_rules_use_series_that_exist(self):
        names = {name for name, _ in self.series}
        for alert, expr in RULE.findall(RULES.read_text(encoding="utf-8")):
            for name in re.findall(r"\brocattach_\w+", expr):
                self.assertIn(name, names, alert)

    # The other tests of the rules use these series as input.
    def test_the_example_series_are_exposed(self):
        text = RULES.with_name("rocattach.rules.test.yml").read_text(encoding="utf-8")
        for name, labels in re.findall(r"- series: (rocattach_\w+_total)\{([^}]*)\}", text):
            without = frozenset(set(LABEL.findall(labels)) - {("instance", "a"), ("instance", "b")})
            self.assertIn((name, without), self.series)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
