"""The monitoring systems of tests and benchmarks: real ones, from Debian's packages."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

# A machine can be crowded; ctest has the time limit of a whole test.
PATIENCE_SECONDS = 60


def free_port():
    """A port of the loopback address that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def missing_programs(*programs):
    """Those of `programs` that are not installed."""
    return [program for program in programs if shutil.which(program) is None]


def eventually(is_true, seconds=PATIENCE_SECONDS):
    """Asks until it is true, and returns the last answer."""
    end = time.monotonic() + seconds
    while True:
        answer = is_true()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.1)


class Server:
    """A program that serves until stop(). Its output is in a log file. It ends with
    the thread that has started it."""

    def __init__(self, words, log):
        self.log = pathlib.Path(log)
        with open(log, "wb") as file:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *(str(word) for word in words)],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)  # fmt: skip

    @property
    def pid(self):
        return self.process.pid

    def log_text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def stop(self, number=signal.SIGKILL):
        """Sends a signal and waits for the end; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


class QueryServer(Server):
    """A server with Prometheus's HTTP API at `address` (HOST:PORT)."""

    def __init__(self, words, log, address):
        super().__init__(words, log)
        self.address = address

    def get(self, path, **parameters):
        """The text of a page; "" if the server does not answer with one."""
        url = f"http://{self.address}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.read().decode()
        except (OSError, urllib.error.HTTPError):
            return ""

    def query(self, query):
        """The results of an instant query: pairs of labels and value. None if the
        server cannot answer it."""
        text = self.get("/api/v1/query", query=query, nocache=1)
        answer = json.loads(text) if text else {}
        if answer.get("status") != "success":
            return None
        return [(result["metric"], float(result["value"][1]))
                for result in answer["data"]["result"]]  # fmt: skip

    def value(self, query):
        """The value of a query with one result; None if it has none."""
        results = self.query(query)
        return results[0][1] if results else None

    def by_label(self, label, query):
        """The results of a query, by the value of a label; {} if it has none."""
        return {labels.get(label, ""): value for labels, value in self.query(query) or []}


def start_prometheus(folder, config, *options):
    """A Prometheus with this configuration (text), and its files in `folder`."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    path = folder / "prometheus.yml"
    path.write_text(config, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    return QueryServer(
        ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder}/data",
         f"--web.listen-address={address}", *options],
        folder / "log", address)  # fmt: skip


def start_victoria_metrics(folder):
    """A VictoriaMetrics with its files in `folder`. What it has received can be queried
    at once."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    address = f"127.0.0.1:{free_port()}"
    return QueryServer(
        ["victoria-metrics", f"-storageDataPath={folder}/data",
         f"-httpListenAddr={address}", "-search.latencyOffset=0s",
         "-search.disableCache", "-memory.allowedBytes=256MB"],
        folder / "log", address)  # fmt: skip


def unified_control_groups():
    """The group of this process in the unified hierarchy of control groups, as a
    directory; None if there is none."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        paths = [line[3:].rstrip("\n") for line in file if line.startswith("0::")]
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if paths and os.path.exists(f"{root}/cgroup.controllers"):
            return pathlib.Path(root + paths[0].rstrip("/"))
    return None
