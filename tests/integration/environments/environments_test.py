#!/usr/bin/env python3
"""Targets in the environments where users run them: containers, sandboxes, schedulers,
other languages, other allocators. Each program dispatches, waits, and dispatches as often
again. It runs natively, under a service from its start, and with a service that attaches
while it waits: with the same output and exit status, and every dispatch is recorded.

usage: environments_test.py BUILD_DIRECTORY
"""

import collections
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import live_service  # noqa: E402
import monitoring  # noqa: E402
from monitoring import eventually  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
BUILT = BUILD / "tests/integration/environments"
# Dispatches of each process before it waits, and again after it (dispatches.c).
DISPATCHES = 25
LIBRARIES = "/usr/lib/x86_64-linux-gnu"

Outcome = collections.namedtuple("Outcome", "status output errors")


class EnvironmentsTest(unittest.TestCase):
    def setUp(self):
        live_service.set_up(self, "environments")
        # Folder for the files by which the program reports that it is ready, and continues.
        self.meeting = self.folder / "meeting"
        self.meeting.mkdir()
        # A program in a sandbox may not be allowed to read the build directory.
        self.programs = self.folder / "programs"
        shutil.copytree(BUILD / "tests/simgpu/lib", self.programs / "lib", symlinks=True)
        for path in (BUILD / "tests/simgpu/simgpu-run", BUILT / "environments_program",
                     BUILT / "environments_program_asan",
                     BUILT / "libenvironments_dispatches.so"):  # fmt: skip
            shutil.copy(path, self.programs)
        self.program = self.programs / "environments_program"
        self.module = self.programs / "libenvironments_dispatches.so"
        for path in (self.folder, self.meeting):
            os.chmod(path, 0o777)
        self.environment = dict(os.environ, DISPATCHES_FOLDER=str(self.meeting))
        self.launcher = []  # the service's

    def needs(self, *programs):
        missing = [program for program in programs
                   if not (os.path.exists(program) or shutil.which(program))]  # fmt: skip
        if missing:
            self.skipTest(f"{', '.join(missing)}: not installed; scripts/setup --environments "
                          "installs what is missing")  # fmt: skip

    # --- running and comparing ---

    def start(self, command):
        for file in self.meeting.iterdir():
            file.unlink()
        return live_service.start(self, *command, env=self.environment, stderr=subprocess.PIPE)

    def go_on(self):
        (self.meeting / "go").touch()

    def wait_until_ready(self, process, processes):
        self.assertTrue(eventually(
            lambda: len(list(self.meeting.glob("ready.*"))) == processes
            or process.poll() is not None))  # fmt: skip
        if process.poll() is not None:
            self.fail(live_service.outcome(self, process))

    def end(self, process):
        output, errors = live_service.outcome(self, process)
        # Processes end in any order.
        return Outcome(process.returncode, sorted(output.splitlines()), errors)

    def service(self, name, *options):
        return live_service.serve(self, BUILD, self.folder / name, *options,
                                  launcher=self.launcher)  # fmt: skip

    def check(self, command, processes=1, workload=None, errors=True, late_refusal=None):
        """Runs the command three times. `workload`: checks the workload of each recorded
        process, which is passed to it. `late_refusal`: the reason for which
        a running process is refused."""
        native = self.start(command)
        self.wait_until_ready(native, processes)
        self.go_on()
        native = self.end(native)
        line = f"dispatches={2 * DISPATCHES} result=ok"
        self.assertEqual(native.status, 0, native)
        self.assertEqual(native.output.count(line), processes, native)

        def compare(how, service, outcome, dispatches, refusal=None):
            if not errors:
                outcome = outcome._replace(errors=native.errors)
            self.assertEqual(outcome, native, f"{how}: {service.log_text()}")
            self.assertEqual(service.stop(2), 0, service.log_text())
            records = service.records()
            reasons = [window["reason"] for window in service.events("window")]
            if refusal is not None:
                self.assertEqual(reasons, [refusal] * processes, service.log_text())
                return
            made = collections.Counter(r["stream"] for r in records.get("dispatch", []))
            self.assertEqual(list(made.values()), [dispatches] * processes,
                             f"{how}: {service.log_text()}")  # fmt: skip
            for end in service.events("end"):
                self.assertEqual((end["dispatches"], end["dropped"]), (dispatches, 0))
            if workload is not None:
                # The last record of each process is the most complete.
                for process in {p["stream"]: p for p in records["process"]}.values():
                    workload(process.get("workload", {}))

        service = self.service("window")
        process = self.start(command)
        self.wait_until_ready(process, processes)
        self.go_on()
        compare("at the window", service, self.end(process), 2 * DISPATCHES)

        process = self.start(command)
        self.wait_until_ready(process, processes)
        service = self.service("late", "--attach-running")
        eventually(lambda: len(service.events("window")) >= processes)
        self.go_on()
        compare("late", service, self.end(process), DISPATCHES, late_refusal)

    def simgpu(self, *command):
        return [self.programs / "simgpu-run", *command]

    # --- containers and sandboxes ---

    def make_root(self):
        """An empty root for a container, into which the machine's /usr and /etc are to be
        mounted. Returns these mounts, and the others that the program needs, each with
        a flag for write access."""
        root = self.folder / "root"
        for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "var"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            (root / name).symlink_to(f"usr/{name}")
        return root, (("/usr", False), ("/etc", False), (self.programs, False),
                      (self.meeting, True))  # fmt: skip

    def podman(self, *options):
        """`podman run`, without images, networks and units of systemd."""
        self.needs("podman", "runc")
        root, mounts = self.make_root()
        words = ["podman", "--root", self.folder / "storage", "--runroot", self.folder / "state",
                 "--tmpdir", self.folder / "podman",
                 "--storage-driver", "vfs", "--events-backend", "none", "--runtime", "runc",
                 "--cgroup-manager", "cgroupfs", "run", "--rm", "--network", "none",
                 "--cgroup-parent", self.group.name(),
                 "--env", "DISPATCHES_FOLDER"]  # fmt: skip
        # Podman's defaults may be more than this machine allows.
        words += ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
        for path, writable in mounts:
            words += ["--volume", f"{path}:{path}:{'rw' if writable else 'ro'}"]
        return [*words, *options, "--rootfs", root]

    def nspawn(self):
        """`systemd-nspawn`, beside machined and without units of systemd."""
        self.needs("systemd-nspawn")
        root, mounts = self.make_root()
        words = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2",
                 "--link-journal=no", "--read-only", "--console=pipe",
                 f"--setenv=DISPATCHES_FOLDER={self.meeting}"]  # fmt: skip
        for path, writable in mounts:
            words.append(f"--bind{'' if writable else '-ro'}={path}")
        return [*words, "-D", root]

    def in_container(self, process):
        self.assertRegex(process.get("container_id", ""), "^[0-9a-f]{64}$")

    def test_podman(self):
        """With the default seccomp filter."""
        self.check(self.podman() + self.simgpu(self.program), workload=self.in_container)

    def test_podman_read_only_without_capabilities(self):
        options = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges")
        self.check(self.podman(*options) + self.simgpu(self.program), workload=self.in_container)

    def test_nspawn(self):
        """With the default seccomp filter, which denies munlock, for example."""
        # No control group of the container is left that would identify the workload.
        self.check(self.nspawn() + self.simgpu(self.program))

    def test_service_in_a_container(self):
        """With the machine's PID namespace."""
        self.launcher = self.podman(
            "--privileged", "--pid", "host", "--cgroupns", "host",
            "--volume", "/sys/fs/cgroup:/sys/fs/cgroup",
            "--volume", f"{BUILD}:{BUILD}", "--volume", f"{self.folder}:{self.folder}")  # fmt: skip
        self.check(self.simgpu(self.program))

    def test_bubblewrap(self):
        self.needs("bwrap")
        self.check(["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                    "--unshare-all", "--die-with-parent", "--new-session",
                    "--bind", self.meeting, self.meeting, *self.simgpu(self.program)])  # fmt: skip

    def test_firejail(self):
        self.needs("firejail")
        self.check(["firejail", "--quiet", "--noprofile", "--seccomp", "--caps.drop=all",
                    "--net=none", "--private-dev", *self.simgpu(self.program)])  # fmt: skip

    # --- schedulers ---

    def start_slurm(self):
        """A cluster of one node, with munge, in the test's folder and on its ports."""
        folder = self.folder / "slurm"
        folder.mkdir()
        key, socket = folder / "munge.key", folder / "munge.sock"
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
        host = os.uname().nodename.split(".")[0]
        (folder / "slurm.conf").write_text(f"""\
ClusterName=rocattach
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={monitoring.free_port()}
SlurmdPort={monitoring.free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()}
PartitionName=all Nodes=ALL Default=YES State=UP
""", encoding="ascii")  # fmt: skip
        for name in ("state", "spool"):
            (folder / name).mkdir()
        self.environment["SLURM_CONF"] = str(folder / "slurm.conf")
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        for words in (
            ("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket}",
             f"--log-file={folder}/munged.log", f"--pid-file={folder}/munged.pid",
             f"--seed-file={folder}/munged.seed"),
            ("slurmctld", "-D", "-f", folder / "slurm.conf"),
            ("slurmd", "-D", "-f", folder / "slurm.conf", "-N", host),
        ):  # fmt: skip
            # The jobs of a node run in the control group of its daemon.
            server = monitoring.Server(self.group.within(*words), folder / f"{words[0]}.out")
            self.addCleanup(server.stop, signal.SIGTERM)
            if words[0] == "munged":
                self.assertTrue(eventually(socket.exists), server.log_text())

        def idle():
            done = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True,
                                  env=self.environment, check=False)  # fmt: skip
            return done.stdout.strip() == "idle"

        self.assertTrue(eventually(idle), server.log_text())

    def test_slurm(self):
        self.needs("slurmctld", "slurmd", "srun", "munged")
        self.start_slurm()
        jobs = []

        def in_job(process):
            self.assertRegex(process.get("slurm_job", ""), "^[1-9]", process)
            self.assertEqual(process.get("slurm_step"), "0", process)
            jobs.append(process["slurm_job"])

        self.check(["srun", "-n", "2", *self.simgpu(self.program)], processes=2, workload=in_job)
        # The first job ran natively, the second one under the service from its start.
        self.assertEqual(jobs, ["2", "2", "3", "3"])

    def test_slurm_array(self):
        self.needs("slurmctld", "slurmd", "sbatch", "munged")
        self.start_slurm()
        parts = []

        def in_array(process):
            self.assertEqual(process.get("slurm_job"), process.get("slurm_array_job"), process)
            parts.append((process.get("slurm_array_job"), process.get("slurm_array_task")))

        output = self.folder / "output"
        batch = shlex.join(str(word) for word in self.simgpu(self.program))
        submit = shlex.join(("sbatch", "--wait", "--array", "7", "--output", str(output),
                             "--wrap", f"exec {batch}"))  # fmt: skip
        # sbatch prints the job's number, which differs.
        self.check(["sh", "-c", f"{submit} >&2 && cat {shlex.quote(str(output))}"],
                   workload=in_array, errors=False)  # fmt: skip
        self.assertEqual(parts, [("2", "7"), ("3", "7")])

    def test_mpirun(self):
        self.needs("mpirun")
        self.check(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2",
                    *self.simgpu(self.program)], processes=2)  # fmt: skip

    # --- allocators and sanitizers ---

    def preloaded(self, library):
        path = f"{LIBRARIES}/{library}"
        self.needs(path)
        self.check(["env", f"LD_PRELOAD={path}", *self.simgpu(self.program)])

    def test_jemalloc(self):
        self.preloaded("libjemalloc.so.2")

    def test_tcmalloc(self):
        self.preloaded("libtcmalloc_minimal.so.4")

    def test_mimalloc(self):
        self.preloaded("libmimalloc.so.2")

    def test_address_sanitizer(self):
        self.check(self.simgpu(f"{self.program}_asan"), late_refusal="ATTACH_REASON_SANITIZER")

    # --- languages ---

    def build(self, *words, **environment):
        subprocess.run(words, env=dict(os.environ, **environment), check=True)

    def test_go(self):
        self.needs("go")
        program = self.folder / "go"
        # The compiler's cache is kept for the next time.
        self.build("go", "build", "-o", program, PROGRAMS / "main.go", GO111MODULE="off",
                   GOCACHE=str(BUILT / "go-cache"), GOFLAGS="",
                   CGO_LDFLAGS=f"-L{self.programs} -lenvironments_dispatches -Wl,-rpath,{self.programs}")  # fmt: skip
        self.check(self.simgpu(program))

    def test_rust(self):
        self.needs("rustc")
        program = self.folder / "rust"
        self.build("rustc", "-O", "-L", f"native={self.programs}", "-l", "environments_dispatches",
                   "-C", f"link-arg=-Wl,-rpath,{self.programs}", "-o", program, PROGRAMS / "main.rs")  # fmt: skip
        self.check(self.simgpu(program))

    def test_java(self):
        self.needs("javac", "java")
        self.build("javac", "-d", self.folder, PROGRAMS / "Dispatches.java")
        self.check(self.simgpu("java", "-Xmx64m", "-cp", self.folder, "Dispatches", self.module))

    def test_node(self):
        self.needs("node")
        self.check(self.simgpu("node", PROGRAMS / "main.mjs", self.module))

    def python(self, method):
        self.check(self.simgpu("/usr/bin/python3", "-B", PROGRAMS / "main.py", self.module, method),
                   processes=2)  # fmt: skip

    def test_python_forks(self):
        self.python("fork")

    def test_python_spawns(self):
        self.python("spawn")

    def test_python_fork_server(self):
        self.python("forkserver")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
