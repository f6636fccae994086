#!/usr/bin/env python3
"""Two services, as on two machines: each has its own network and control groups. A
real Prometheus scrapes both over the network and forwards the samples to a real
VictoriaMetrics. Queries there return for each pod what the simulated GPU has run.

usage: two_nodes_test.py BUILD_DIRECTORY
"""

import collections
import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import live_service  # noqa: E402
import monitoring  # noqa: E402
from monitoring import eventually  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
WATCH = BUILD / "userspace/cli/rocattach-watch"
COLLECTOR = BUILD / "userspace/collector/librocattach-collector.so"
SIMGPU_RUN = BUILD / "tests/simgpu/simgpu-run"
TARGET = BUILD / "tests/targets/hsa_dispatch"
METRICS_PORT = 9410

# The pods of both nodes: number of processes, duration of each of their kernels, and
# number of kernels per process. All processes of a node use its only GPU.
Pod = collections.namedtuple("Pod", "node name uid processes kernel_ns dispatches")
PODS = (
    Pod("a", "train-0", "0f3c1a2b-1234-4abc-9def-00112233aa01", 5, 200_000, 600),
    Pod("a", "infer-7f9c", "0f3c1a2b-1234-4abc-9def-00112233aa02", 3, 500_000, 300),
    Pod("b", "train-1", "0f3c1a2b-1234-4abc-9def-00112233bb01", 2, 300_000, 390),
)
NAMESPACE = "research"
# The containers of each pod, by node.
CONTAINERS = {"a": "ab", "b": "c"}
ROUNDS = 3

# The highest value that was ever scraped of each process: a process gets additional
# labels when its workload is known.
OF_PROCESSES = "max by (instance, pid) (max_over_time({metric}[1h]))"
PER_POD = (
    "sum by (pod) (" + OF_PROCESSES + " * on (instance, pid) group_left (pod) "
    "max by (instance, pid, pod) (max_over_time("
    f'rocattach_target_info{{{{namespace="{NAMESPACE}",pod!=""}}}}[1h])))'
)


def missing():
    """The reason why the test cannot run here; "" if it can."""
    programs = monitoring.missing_programs(
        "ip", "nsenter", "setpriv", "prometheus", "victoria-metrics"
    )
    if programs:
        return f"{', '.join(programs)}: not installed; scripts/setup installs what is missing"
    if os.geteuid() != 0:
        return "needs root (eBPF and network namespaces)"
    if monitoring.unified_control_groups() is None:
        return "needs control groups of the unified hierarchy"
    return ""


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Network:
    """A network namespace that a pair of virtual Ethernet devices connects to ours."""

    def __init__(self, name, number):
        self.name = f"rocattach-{os.getpid()}-{name}"
        # Interfaces have names of at most 15 characters.
        ours, theirs = f"rwa{os.getpid() % 10**8}{name}0", f"rwa{os.getpid() % 10**8}{name}1"
        # One of the networks reserved for tests between networks (RFC 2544).
        network = f"198.18.{os.getpid() % 256}"
        self.address = f"{network}.{4 * number + 2}"
        ip("netns", "add", self.name)
        try:
            ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", self.name)
            ip("address", "add", f"{network}.{4 * number + 1}/30", "dev", ours)
            ip("link", "set", ours, "up")
            ip("-n", self.name, "address", "add", f"{self.address}/30", "dev", theirs)
            ip("-n", self.name, "link", "set", theirs, "up")
        except AssertionError:
            self.remove()
            raise

    def within(self, *words):
        """A command that runs there. Unlike `ip netns exec` this leaves /sys, with the
        control groups, as it is."""
        return ["nsenter", f"--net=/run/netns/{self.name}", *words]

    def remove(self):
        ip("netns", "delete", self.name)


class Node:
    """A network, a control group, and a service that watches it from there."""

    def __init__(self, name, number, folder, groups):
        self.network = Network(name, number)
        self.group = groups / name
        self.group.mkdir()
        self.folder = folder / f"node-{name}"
        self.folder.mkdir()
        self.instance = f"{self.network.address}:{METRICS_PORT}"
        self.write_pod_logs(name)
        self.service = monitoring.Server(
            self.network.within(
                WATCH, "--auto", "--json", "--collector", COLLECTOR, "--cgroup", self.group,
                "--socket", self.folder / "control.sock", "-d", self.folder, "-o", "run",
                "--hold-timeout-msec", "10000", "--metrics-listen", self.instance,
                "--pod-logs", self.folder / "pod-logs"),
            self.folder / "log")  # fmt: skip

    def write_pod_logs(self, name):
        """The folders of the node's pods, as its kubelet names them."""
        pods, containers = (self.folder / "pod-logs" / kind for kind in ("pods", "containers"))
        pods.mkdir(parents=True)
        containers.mkdir()
        for pod in PODS:
            if pod.node != name:
                continue
            for container in CONTAINERS[pod.node]:
                folder = pods / f"{NAMESPACE}_{pod.name}_{pod.uid}" / f"main-{container}"
                folder.mkdir(parents=True)
                log = f"{pod.name}_{NAMESPACE}_main-{container}-{container * 64}.log"
                (containers / log).symlink_to(folder / "0.log")

    def ready(self):
        """The event that the service printed when it was ready; None if it is not."""
        for line in self.service.log_text().splitlines():
            if line.startswith("{") and (event := json.loads(line))["event"] == "ready":
                return event
        return None

    def start(self, pod, container, statistics):
        """Starts a process of a pod, in a group named as the kubelet would name it."""
        group = self.group / "kubepods" / f"pod{pod.uid}" / (container * 64)
        group.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            ["sh", "-c", 'echo 0 >"$0"/cgroup.procs && exec "$@"', group, SIMGPU_RUN,
             "--kernel-ns", str(pod.kernel_ns), "--stats", statistics, TARGET,
             "-n", str(pod.dispatches // ROUNDS), "--rounds", str(ROUNDS),
             "--sleep-msec", "1000"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip

    def remove(self):
        self.service.stop()
        for group in sorted(self.group.rglob("*/"), reverse=True):
            if group.is_dir():
                group.rmdir()
        self.group.rmdir()
        self.network.remove()


class TwoNodesTest(unittest.TestCase):
    def setUp(self):
        reason = missing()
        if reason:
            self.skipTest(reason)
        # The other tests that watch only a control group take this lock as well: see
        # tests/integration/watch/isolation.h.
        path = pathlib.Path(tempfile.gettempdir()) / "rocattach-tests.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_SH)
        folder = tempfile.TemporaryDirectory(prefix="rocattach-fleet.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.chmod(self.folder, 0o755)
        groups = monitoring.unified_control_groups() / f"rocattach-fleet-{os.getpid()}"
        groups.mkdir()
        self.addCleanup(groups.rmdir)
        self.nodes = {}
        for number, name in enumerate(("a", "b")):
            self.nodes[name] = Node(name, number, self.folder, groups)
            self.addCleanup(self.nodes[name].remove)
        for node in self.nodes.values():
            self.assertTrue(eventually(node.ready), node.service.log_text())
            self.assertEqual(node.ready()["metrics"], node.instance)

    def start_monitoring(self):
        """VictoriaMetrics, which receives what Prometheus scrapes."""
        victoria = monitoring.start_victoria_metrics(self.folder / "victoria")
        self.addCleanup(victoria.stop)
        targets = ", ".join(f"'{node.instance}'" for node in self.nodes.values())
        prometheus = monitoring.start_prometheus(
            self.folder / "prometheus",
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n"
            "scrape_configs:\n"
            "- job_name: rocattach\n"
            "  honor_labels: true\n"
            f"  static_configs: [{{targets: [{targets}]}}]\n"
            "remote_write:\n"
            f"- url: http://{victoria.address}/api/v1/write\n"
            "  queue_config: {batch_send_deadline: 200ms}\n",
        )
        self.addCleanup(prometheus.stop)

        def both_up():
            up = victoria.by_label("instance", "up")
            return up == {node.instance: 1 for node in self.nodes.values()}

        self.assertTrue(eventually(both_up), prometheus.log_text() + victoria.log_text())
        return victoria

    def run_pods(self):
        """Runs all processes of all pods at the same time. Returns what the simulated
        GPUs ran for each pod: dispatches, and seconds of kernels."""
        statistics = self.folder / "statistics"
        statistics.mkdir()
        processes = []
        for pod in PODS:
            for i in range(pod.processes):
                containers = CONTAINERS[pod.node]
                container = containers[i % len(containers)]
                processes.append(
                    (pod, self.nodes[pod.node].start(pod, container, statistics / pod.uid))
                )
        for pod, process in processes:
            output, _ = live_service.outcome(self, process)
            self.assertEqual(process.returncode, 0, output)
            self.assertRegex(output, rf"\bdispatches={pod.dispatches}\b")
        return {pod.name: self.truth(pod, statistics / pod.uid) for pod in PODS}

    def truth(self, pod, path):
        """What the simulated GPU reports for a pod. It also runs the kernels by which the
        runtime loads code objects: they are not the program's work, and not recorded."""
        text = path.read_text(encoding="ascii")
        ran = sum(int(n) for n in re.findall(r"\bdispatches=(\d+)", text))
        kernel_ns = [int(n) for n in re.findall(r"\bkernel_ns=(\d+)", text)]
        self.assertEqual(len(kernel_ns), pod.processes, text)
        own = pod.processes * pod.dispatches
        self.assertGreaterEqual(ran, own)
        return own, (sum(kernel_ns) - (ran - own) * pod.kernel_ns) / 1e9

    def assert_within_a_percent(self, value, truth, what):
        self.assertIsNotNone(value, what)
        self.assertAlmostEqual(value, truth, delta=truth / 100, msg=what)

    def test_queries_return_the_counts_and_times_of_the_pods(self):
        victoria = self.start_monitoring()
        truth = self.run_pods()
        dispatches = {pod: count for pod, (count, _) in truth.items()}
        seen = {}

        def all_there():
            query = PER_POD.format(metric="rocattach_target_dispatches_total")
            seen.update(victoria.by_label("pod", query))
            return seen == dispatches

        self.assertTrue(eventually(all_there), f"{seen} instead of {dispatches}")
        seconds = victoria.by_label(
            "pod", PER_POD.format(metric="rocattach_target_gpu_time_seconds_total")
        )
        self.assertEqual(seconds.keys(), truth.keys())
        for pod, (_, expected) in truth.items():
            self.assert_within_a_percent(seconds[pod], expected, pod)
        # The time of a GPU that pods share is the sum over the pods.
        for name, node in self.nodes.items():
            expected = sum(truth[pod.name][1] for pod in PODS if pod.node == name)
            gpu = victoria.query(
                f'max_over_time(rocattach_gpu_time_seconds_total{{instance="{node.instance}"}}[1h])'
            )
            self.assertEqual(len(gpu), 1, gpu)
            self.assert_within_a_percent(gpu[0][1], expected, node.instance)
        attached = victoria.by_label(
            "instance", 'max_over_time(rocattach_attach_total{result="attached"}[1h])'
        )
        self.assertEqual(attached, {
            node.instance: sum(pod.processes for pod in PODS if pod.node == name)
            for name, node in self.nodes.items()
        })  # fmt: skip
        # Series end with their processes.
        self.assertTrue(
            eventually(lambda: victoria.query("rocattach_target_dispatches_total") == [])
        )

    def test_a_killed_service_is_down_and_its_series_end(self):
        victoria = self.start_monitoring()
        alive, dead = self.nodes["a"].instance, self.nodes["b"].instance
        totals = "rocattach_build_info"
        self.assertTrue(eventually(
            lambda: victoria.by_label("instance", totals).keys() == {alive, dead}))  # fmt: skip
        self.nodes["b"].service.stop()
        self.assertTrue(eventually(
            lambda: victoria.by_label("instance", "up") == {alive: 1, dead: 0}))  # fmt: skip
        self.assertTrue(eventually(
            lambda: victoria.by_label("instance", totals).keys() == {alive}))  # fmt: skip
        self.assertEqual(victoria.by_label("instance", "up"), {alive: 1, dead: 0})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
