#!/usr/bin/env python3
"""A service under mixed load: the resources that it holds at the end of each round, when
everything that the round has started is gone again, must not grow.

usage: soak_test.py BUILD_DIRECTORY [SECONDS]
"""

import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import live_service  # noqa: E402
from monitoring import eventually  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
CLIENT = BUILD / "userspace/cli/rocattach"
TARGETS = BUILD / "tests/targets"
SIMGPU_RUN = BUILD / "tests/simgpu/simgpu-run"
SIMROCM_RUN = BUILD / "tests/simrocm/simrocm-run"

# Allowed growth between the first and the last third of the rounds: for what the
# service remembers of the processes that it has seen (ProcessHistory, KnownWorkloads), and
# the plans of the last sessions (ActivePlan::kMost). Each has its limit.
SLACK_KIB = 1024
SLACK_MAPPINGS = 64  # the allocator's
HISTORY_KIB, HISTORY_PROCESSES = 3.5, 16384
PLAN_KIB, PLANS = 90, 64


def footprint(pid):
    """Memory in KiB, and numbers of other resources that the process holds."""
    proc = pathlib.Path(f"/proc/{pid}")
    status = (proc / "status").read_text(encoding="utf-8")
    found = {}
    for name, field in (("anonymous memory", "RssAnon"), ("shared memory", "RssShmem"),
                        ("threads", "Threads")):  # fmt: skip
        found[name] = int(re.search(rf"^{field}:\s+(\d+)", status, re.MULTILINE)[1])
    files = collections.Counter()
    for link in (proc / "fd").iterdir():
        try:
            files[os.readlink(link)] += 1
        except OSError:  # closed meanwhile
            continue
    found["descriptors"] = sum(files.values())
    # By kind: "socket:[123]" is a socket, "/memfd:ring-7 (deleted)" a memfd.
    kinds = collections.Counter()
    for name, number in files.items():
        kinds[re.sub(r"^(anon_inode:)?\[?([\w/-]+).*", r"\2", name)] += number
    found.update({f"descriptors: {kind}": number for kind, number in kinds.items()})
    with open(proc / "maps", encoding="utf-8") as maps:
        found["mappings"] = sum(1 for _ in maps)
    return found


def least(pid):
    """The least of several footprints; some resources exist for an instant only."""
    several = []
    for _ in range(10):
        several.append(footprint(pid))
        time.sleep(0.01)
    return {name: min(one.get(name, 0) for one in several) for name in several[0]}


class SoakTest(unittest.TestCase):
    def setUp(self):
        # Nothing is left behind if the test is ended early.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.interrupted)
        live_service.set_up(self, "soak")
        # So that the service finds a GPU.
        node = self.folder / "topology/nodes/1"
        node.mkdir(parents=True)
        (node / "properties").write_text("cpu_cores_count 0\nsimd_count 416\n", encoding="ascii")
        # The service leaves processes with this name to `rocattach attach`.
        self.late = self.folder / "late_dispatch"
        shutil.copy(TARGETS / "hsa_dispatch", self.late)
        self.service = live_service.serve(
            self, BUILD, self.folder / "service", "--backend", "sdk",
            "--kfd-topology", self.folder / "topology", "--metrics-listen", "127.0.0.1:0",
            "--deny", "late_*", "--rotate-size", "256K", "--keep-files", "4")  # fmt: skip
        self.metrics = self.service.events("ready")[0]["metrics"]
        self.random = random.Random(7)
        self.ended = 0  # number of ended processes with a GPU

    def interrupted(self, number, _):
        self.fail(signal.Signals(number).name)

    # --- the load ---

    def start(self, launcher, *words):
        return live_service.start(self, launcher, *words, stderr=subprocess.STDOUT)

    @staticmethod
    def kill(process):
        process.kill()
        process.communicate()

    def client(self, *words):
        done = subprocess.run([CLIENT, *words], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def attach_late(self, process):
        done = subprocess.run(
            [CLIENT, "attach", "-p", str(process.pid), "--attach-duration-msec", "200",
             "-d", self.folder / "late",
             "--collector", BUILD / "userspace/collector/librocattach-collector.so"],
            capture_output=True, text=True, check=False)  # fmt: skip
        # 4: the process had no processor time meanwhile, and so nothing was recorded.
        self.assertIn(done.returncode, (0, 4), done.stdout + done.stderr)

    def expect_success(self, process):
        output, _ = live_service.outcome(self, process)
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("result=ok", output)

    def round(self, staying):
        """Runs everything at the same time."""
        number = self.random.randint
        short = [self.start(SIMGPU_RUN, TARGETS / "hsa_dispatch", "-n", str(number(1, 300)),
                            "-t", str(number(1, 3)), "--copies", "4")
                 for _ in range(4)]  # fmt: skip
        short.append(self.start(SIMROCM_RUN, TARGETS / "hsa_dispatch", "-n", "50"))
        short.append(self.start(SIMGPU_RUN, TARGETS / "fork_then_init", "-c", "3", "-n", "20"))
        short.append(self.start(SIMGPU_RUN, TARGETS / "init_then_fork"))
        short.append(self.start(SIMGPU_RUN, TARGETS / "hsa_reinit"))
        endless = ("-n", "20", "--rounds", "1000000", "--sleep-msec", "5")
        killed = [self.start(SIMGPU_RUN, TARGETS / "hsa_dispatch", *endless) for _ in range(2)]
        late = self.start(SIMGPU_RUN, self.late, *endless)
        self.ended += 14
        start = ("session", "start", "--socket", self.service.socket, "--json", "--no-wait")
        session = json.loads(self.client(*start, "--pmc", "SQ_WAVES"))
        for process in killed:
            time.sleep(self.random.uniform(0, 0.3))
            self.kill(process)
        for process in short:
            self.expect_success(process)
        self.attach_late(late)
        self.kill(late)
        self.client("session", "stop", "--socket", self.service.socket, str(session["session"]))
        self.client("top", "--once", "--json", "--connect", self.metrics)
        self.client("why", "--socket", self.service.socket, str(staying.pid))

    def targets(self):
        """The number of processes that the service handles, by state."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=60) as page:
            text = page.read().decode()
        states = re.findall(r'^rocattach_targets\{state="(\w+)"\} (\d+)$', text, re.MULTILINE)
        return {state: int(number) for state, number in states if number != "0"}

    def wait_until_only_one_stays(self):
        # A verdict may come when the process has already ended; the service notices that
        # once a minute.
        eventually(lambda: self.targets() == {"attached": 1}, seconds=200)
        self.assertEqual(self.targets(), {"attached": 1}, self.service.log_text()[-3000:])

    # --- the decision ---

    def grown(self, who, rounds, allowed_kib):
        """Yields what has grown from the first third of the rounds to the last."""
        third = len(rounds) // 3
        for name in sorted(set().union(*rounds)):
            before = statistics.median(r.get(name, 0) for r in rounds[:third])
            after = statistics.median(r.get(name, 0) for r in rounds[-third:])
            # Threads for a user's tasks exist while there are any.
            allowed = (allowed_kib if "memory" in name
                       else SLACK_MAPPINGS if name == "mappings"
                       else 2 if name == "threads" else 0)  # fmt: skip
            print(f"{who}: {name}: {before:g} -> {after:g}", flush=True)
            if after > before + allowed:
                yield f"{who}: {name} from {before:g} to {after:g}, {allowed:g} more allowed"

    def test_nothing_grows(self):
        endless = ("-n", "20", "--rounds", "1000000", "--sleep-msec", "20")
        staying = self.start(SIMROCM_RUN, TARGETS / "hsa_dispatch", *endless)
        self.addCleanup(self.kill, staying)
        self.wait_until_only_one_stays()
        service_rounds, target_rounds, ended = [], [], []
        end = time.monotonic() + SECONDS
        said = 0
        while time.monotonic() < end or len(service_rounds) < 8:
            self.round(staying)
            self.wait_until_only_one_stays()
            service_rounds.append(least(self.service.pid))
            target_rounds.append(least(staying.pid))
            ended.append(self.ended)
            if time.monotonic() - said >= 60:
                said = time.monotonic()
                print(f"{len(ended)} rounds, {self.ended} processes: service "
                      f"{service_rounds[-1]}, target {target_rounds[-1]}", flush=True)  # fmt: skip
        # The first quarter fills caches. Each round has one session.
        begin = len(ended) // 4

        def more(counts, most):
            return min(counts[-1], most) - min(counts[begin], most)

        plans_kib = PLAN_KIB * more(range(len(ended)), PLANS)
        print(f"{len(ended)} rounds, {self.ended} processes", flush=True)
        grown = [*self.grown("service", service_rounds[begin:], SLACK_KIB + plans_kib
                             + HISTORY_KIB * more(ended, HISTORY_PROCESSES)),
                 *self.grown("target", target_rounds[begin:], SLACK_KIB + plans_kib)]  # fmt: skip
        self.assertEqual(grown, [])
        self.assertEqual(self.service.stop(signal.SIGINT), 0, self.service.log_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
