#!/usr/bin/env python3
"""Checks the alert rules, the dashboard and the unit of the service.

usage: monitoring_test.py SOURCE_DIRECTORY
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = ""
METRIC = re.compile(r"\b(?:rocattach|process)_[a-z_]+")
# What Prometheus adds to the name of a histogram.
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")


def path(*parts):
    return os.path.join(SOURCE, *parts)


def text(*parts):
    with open(path(*parts), encoding="utf-8") as file:
        return file.read()


def documented():
    """Metric -> its labels: the table's further ones, and those that all processes have."""
    metrics = {}
    for line in text("docs", "metrics.md").splitlines():
        cells = line.split("|")
        if len(cells) < 5:
            continue
        labels = set(re.findall(r"`([a-z_]+)`", cells[2]))
        for name in METRIC.findall(cells[1]):
            metrics[name] = labels
    return metrics


def needs(test, program):
    if shutil.which(program):
        return
    if os.environ.get("CI"):
        test.fail(f"no {program}")
    test.skipTest(f"no {program}; scripts/setup installs it")


class MonitoringTest(unittest.TestCase):
    def check_names(self, expressions):
        known = documented()
        self.assertGreater(len(known), 25)
        names = {name for text in expressions for name in METRIC.findall(text)}
        self.assertTrue(names)
        for name in names:
            self.assertIn(SUFFIX.sub("", name) if name not in known else name, known)

    def test_rules_are_right(self):
        needs(self, "promtool")
        for words in (["check", "rules", "rocattach.rules.yml"],
                      ["test", "rules", "rocattach.rules.test.yml"]):  # fmt: skip
            done = subprocess.run(
                ["promtool", *words], cwd=path("scripts", "monitoring"),
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_rule_is_tested(self):
        rules = re.findall(r"- alert: (\w+)", text("scripts", "monitoring", "rocattach.rules.yml"))
        tests = text("scripts", "monitoring", "rocattach.rules.test.yml")
        self.assertGreaterEqual(len(rules), 8)
        for rule in rules:
            self.assertRegex(tests, rf"\b{rule}\b")

    def test_rules_use_documented_metrics(self):
        rules = text("scripts", "monitoring", "rocattach.rules.yml")
        self.check_names(re.findall(r"expr: (.*)", rules))

    def test_the_dashboard_uses_documented_metrics(self):
        board = json.loads(text("scripts", "monitoring", "rocattach.dashboard.json"))
        expressions = [t["expr"] for p in board["panels"] for t in p.get("targets", ())]
        self.assertGreater(len(expressions), 20)
        self.check_names(expressions)
        self.assertEqual(len({p["id"] for p in board["panels"]}), len(board["panels"]))
        # No panel covers another one.
        taken = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    self.assertLess(x, 24)
                    self.assertNotIn((x, y), taken, panel["title"])
                    taken.add((x, y))

    def test_expressions_of_the_dashboard_can_be_parsed(self):
        needs(self, "promtool")
        board = json.loads(text("scripts", "monitoring", "rocattach.dashboard.json"))
        rules = {"groups": [{"name": "dashboard", "rules": []}]}
        for panel in board["panels"]:
            for number, target in enumerate(panel.get("targets", ())):
                expr = target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
                rules["groups"][0]["rules"].append(
                    {"record": f"panel:{panel['id']}:{number}", "expr": expr}
                )
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump(rules, file)  # JSON is YAML.
            file.flush()
            done = subprocess.run(
                ["promtool", "check", "rules", file.name],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class UnitTest(unittest.TestCase):
    def setUp(self):
        needs(self, "systemd-analyze")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.unit = os.path.join(self.folder.name, "rocattach-watch.service")
        unit = text("scripts", "systemd", "rocattach-watch.service.in")
        # Any program that exists.
        unit = unit.replace("@bindir@/rocattach-watch", "/usr/bin/env")
        unit = unit.replace("@etc@", "/etc")
        self.assertNotRegex(unit, "@[a-z]+@")
        with open(self.unit, "w", encoding="utf-8") as file:
            file.write(unit)

    def analyze(self, *words):
        done = subprocess.run(
            ["systemd-analyze", *words, self.unit],
            capture_output=True, text=True, check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1"},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_systemd_understands_it(self):
        self.assertNotIn("rocattach-watch.service:", self.analyze("verify", "--man=no"))

    def test_its_capabilities_are_those_of_the_table(self):
        unit = text("scripts", "systemd", "rocattach-watch.service.in")
        in_unit = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.M)[1].split()
        operations = text("docs", "operations.md")
        table = operations.split("The unit's bounding set has these")[1].split("\n\n")[1]
        in_table = re.findall(r"CAP_\w+", " ".join(re.findall(r"^\| (.*?) \|", table, re.M)))
        self.assertEqual(sorted(in_unit), sorted(in_table))
        self.assertEqual(len(in_unit), 10)
        self.assertIn("It runs with ten capabilities", operations)

    def test_exposure_level_is_within_its_limit(self):
        # 0 is nothing, 10 is everything; root without any restriction has 9.6. With the
        # options that set up a seccomp filter it would be 4.1; see the unit.
        output = self.analyze("security", "--offline=true", "--threshold=71")
        self.assertRegex(output, r"Overall exposure level for rocattach-watch\.service: \d\.\d")


if __name__ == "__main__":
    SOURCE = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
