"""A service under test, and the control group that it watches."""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import tempfile

import monitoring


class Group:
    """A control group for a test: what the test starts in it is all that its services
    see (tests/integration/watch/isolation.h)."""

    def __init__(self, name):
        self.path = monitoring.unified_control_groups() / f"rocattach-{name}-{os.getpid()}"
        self.path.mkdir()
        lock = pathlib.Path(tempfile.gettempdir()) / "rocattach-tests.lock"
        self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def name(self):
        """Its path in the hierarchy."""
        roots = [root for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
                 if os.path.exists(f"{root}/cgroup.controllers")]  # fmt: skip
        return str(self.path).removeprefix(roots[0])

    def within(self, *words):
        """A command that runs in it."""
        return ["sh", "-c", 'echo 0 >"$0"/cgroup.procs && exec "$@"', self.path, *words]

    def pids(self):
        """The processes in it and below."""
        found = []
        for file in self.path.rglob("cgroup.procs"):
            try:
                found += [int(pid) for pid in file.read_text(encoding="ascii").split()]
            except OSError:  # the group is gone, or of another mode
                continue
        return found

    def remove(self):
        """Also ends what still runs in it."""
        def ended():
            for pid in self.pids():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not self.pids()

        monitoring.eventually(ended)
        # Beside the unified hierarchy container engines use the older ones, if there are.
        others = pathlib.Path("/sys/fs/cgroup").glob("*" + self.name())
        for top in {self.path, *others}:
            for group in sorted(top.rglob("*/"), reverse=True):
                group.rmdir()
            top.rmdir()
        os.close(self._lock)


class Service(monitoring.Server):
    """A `rocattach-watch --auto --json` of `build` that watches the group. What it
    writes is in `folder`. `launcher`: a program that runs it, with its arguments."""

    def __init__(self, build, group, folder, *options, launcher=()):
        folder = pathlib.Path(folder)
        folder.mkdir(exist_ok=True)
        self.recording = folder / "run.rwa"
        self.socket = folder / "control.sock"
        self._client = build / "userspace/cli/rocattach"
        super().__init__(
            [*launcher, build / "userspace/cli/rocattach-watch", "--auto", "--json",
             "--collector", build / "userspace/collector/librocattach-collector.so",
             "--cgroup", group.path, "--socket", self.socket,
             "-d", folder, "-o", "run", *options],
            folder / "log")  # fmt: skip

    @property
    def pid(self):
        """The process that does the work; `process` is its parent."""
        return self.events("ready")[0]["pid"]

    def events(self, name):
        """The lines that it has printed of this event."""
        lines = (line for line in self.log_text().splitlines() if line.startswith("{"))
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def ready(self):
        return monitoring.eventually(lambda: self.events("ready") or self.process.poll())

    def records(self):
        """What it has recorded, by type; to be called when it has ended."""
        dump = subprocess.run(
            [self._client, "dump", "--json", self.recording],
            capture_output=True, text=True, check=True)  # fmt: skip
        found = {}
        for line in dump.stdout.splitlines():
            record = json.loads(line)
            found.setdefault(record["type"], []).append(record)
        return found


# A base class would be taken for a shared fixture (python_cases.py).
def set_up(case, name):
    """Gives a unittest.TestCase what its services need, or skips it: a `folder` that
    everybody can read, and a `group`, which have `name` in their names."""
    if os.geteuid() != 0:
        case.skipTest("needs root (eBPF)")
    if monitoring.unified_control_groups() is None:
        case.skipTest("needs control groups of the unified hierarchy")
    folder = tempfile.TemporaryDirectory(prefix=f"rocattach-{name}.")
    case.addCleanup(folder.cleanup)
    case.folder = pathlib.Path(folder.name)
    os.chmod(case.folder, 0o755)
    case.group = Group(name)
    case.addCleanup(case.group.remove)


def start(case, *words, **options):
    """Starts a command in the group of the case, with its standard output in a pipe."""
    return subprocess.Popen(case.group.within(*words), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, text=True, **options)  # fmt: skip


def outcome(case, process):
    """Waits for the end of a command; returns what it has written to its pipes."""
    try:
        return process.communicate(timeout=2 * monitoring.PATIENCE_SECONDS)
    except subprocess.TimeoutExpired as expired:
        return case.fail(f"{process.args} does not end; it has written {expired.output}")


def serve(case, build, folder, *options, launcher=()):
    """A service for the case that is ready."""
    service = Service(build, case.group, folder, *options, launcher=launcher)
    case.addCleanup(service.stop)
    case.assertEqual(len(service.ready()), 1, service.log_text())
    return service
