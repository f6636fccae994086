#!/usr/bin/env python3
"""Installs into a prefix of its own and runs the installed programs.

usage: install_test.py CMAKE BUILD_DIRECTORY VERSION
"""

import fnmatch
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CMAKE = BUILD = VERSION = ""

# Everything that may be installed. New files must be added here deliberately.
ALLOWED = (
    "bin/rocattach",
    "bin/rocattach-watch",
    "bin/rocattach-attach",
    "lib*/rocattach/librocattach-collector.so",
    "lib*/librocattach*.so*",
    "lib*/pkgconfig/rocattach*.pc",
    "lib*/cmake/rocattach/rocattach-config*.cmake",
    "include/rocattach/*.h",
    "lib/python3*/*-packages/rocattach_attach/*.py",
    "lib/python3*/*-packages/rocattach_stream/*.py",
    "lib/python3*/*-packages/rocattach_stream/schemas.binpb",
    "share/rocattach/*",
    "share/man/man1/rocattach*.1",
    "share/man/man3/rocattach_sessions.3",
    "share/bash-completion/completions/rocattach*",
    "share/doc/rocattach-watch/*",
    "share/zsh/vendor-completions/_rocattach",
    "share/fish/vendor_completions.d/rocattach*.fish",
    "lib/systemd/system/rocattach-watch.service",
    "etc/default/rocattach-watch",
)
REQUIRED = (
    "bin/rocattach",
    "bin/rocattach-watch",
    "bin/rocattach-attach",
    "lib*/rocattach/librocattach-collector.so",
    "lib*/librocattach-sessions.so",
    "lib*/librocattach-sessions.so.[0-9]*",
    "lib*/librocattach.so",
    "lib*/librocattach.so.[0-9]*",
    "lib*/pkgconfig/rocattach-sessions.pc",
    "lib*/pkgconfig/rocattach.pc",
    "lib*/cmake/rocattach/rocattach-config.cmake",
    "lib*/cmake/rocattach/rocattach-config-version.cmake",
    "include/rocattach/rocattach.h",
    "include/rocattach/rocattach_sessions.h",
    "lib/python3*/*-packages/rocattach_attach/__init__.py",
    "lib/python3*/*-packages/rocattach_attach/__main__.py",
    "lib/python3*/*-packages/rocattach_stream/__init__.py",
    "lib/python3*/*-packages/rocattach_stream/schemas.binpb",
    "share/rocattach/counters/gfx10.yaml",
    "share/rocattach/counters/gfx11.yaml",
    "share/rocattach/counters/gfx1100.yaml",
    "share/rocattach/counters/gfx12.yaml",
    "share/rocattach/counters/gfx9.yaml",
    "share/rocattach/counters/gfx906.yaml",
    "share/rocattach/counters/gfx908.yaml",
    "share/rocattach/counters/gfx90a.yaml",
    "share/rocattach/counters/gfx942.yaml",
    "share/rocattach/counters/gfx950.yaml",
    "share/rocattach/groups/ml.yaml",
    "share/rocattach/schemas/sessions.proto",
    "share/rocattach/schemas/stream.proto",
    "share/rocattach/schemas/records.proto",
    "share/man/man1/rocattach.1",
    "share/man/man1/rocattach-watch.1",
    "share/man/man3/rocattach_sessions.3",
    "share/bash-completion/completions/rocattach",
    "share/bash-completion/completions/rocattach-watch",
    "share/doc/rocattach-watch/LICENSE",
    "share/zsh/vendor-completions/_rocattach",
    "share/fish/vendor_completions.d/rocattach.fish",
    "share/fish/vendor_completions.d/rocattach-watch.fish",
    "share/rocattach/monitoring/rocattach.rules.yml",
    "share/rocattach/monitoring/rocattach.dashboard.json",
    "lib/systemd/system/rocattach-watch.service",
    "etc/default/rocattach-watch",
)
# Parts of tests, which must never get onto a user's machine.
FORBIDDEN = (
    "*simgpu*",
    "*libhsakmt*",
    "*simrocm*",
    "*rocprofiler*",
    "*test*",
    "*fuzz*",
    "*bench*",
    "*[!e]fault*",  # but not "default"
)


def executable_place():
    """Returns a directory for temporary files that is not mounted noexec."""
    for place in (tempfile.gettempdir(), "/var/tmp", "/run", "/dev/shm"):
        if os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_NOEXEC:
            return place
    return None


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = tempfile.mkdtemp(
            prefix="rocattach-install.", dir=executable_place()
        )
        os.chmod(cls.prefix, 0o755)
        subprocess.run(
            [CMAKE, "--install", BUILD, "--prefix", cls.prefix],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        cls.files = sorted(
            os.path.relpath(os.path.join(directory, name), cls.prefix)
            for directory, _, names in os.walk(cls.prefix)
            for name in names
        )

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.prefix)

    def run_installed(self, program, *arguments):
        # From a directory and with an environment that do not refer to the build.
        return subprocess.run(
            [os.path.join(self.prefix, "bin", program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )

    def test_everything_is_there(self):
        for pattern in REQUIRED:
            self.assertTrue(fnmatch.filter(self.files, pattern), (pattern, self.files))

    def test_nothing_else_is_there(self):
        for name in self.files:
            self.assertTrue(any(fnmatch.fnmatch(name, p) for p in ALLOWED), name)
            if not name.startswith("share/doc/"):
                self.assertFalse(any(fnmatch.fnmatch(name, p) for p in FORBIDDEN), name)

    def test_the_unit_names_installed_files(self):
        unit = os.path.join(self.prefix, "lib/systemd/system/rocattach-watch.service")
        with open(unit, encoding="utf-8") as file:
            text = file.read()
        self.assertIn(f"ExecStart={self.prefix}/bin/rocattach-watch ", text)
        self.assertIn(f"EnvironmentFile=-{self.prefix}/etc/default/", text)

    def test_the_unit_sets_up_no_seccomp_filter(self):
        # With one the service could not read those of its targets. systemd.exec(5) names
        # the options that set up a filter.
        unit = os.path.join(self.prefix, "lib/systemd/system/rocattach-watch.service")
        with open(unit, encoding="utf-8") as file:
            options = re.findall(r"^(\w+)=", file.read(), re.M)
        filtering = re.compile(
            "SystemCall|Restrict|LockPersonality|MemoryDenyWriteExecute|PrivateDevices|"
            "Protect(Kernel|Clock|Hostname)|DynamicUser")
        self.assertEqual([option for option in options if filtering.match(option)], [])
        self.assertIn("CapabilityBoundingSet", options)

    def test_the_default_options_are_understood(self):
        path = os.path.join(self.prefix, "etc/default/rocattach-watch")
        with open(path, encoding="utf-8") as file:
            options = re.search(r'^ROCATTACH_WATCH_OPTIONS="(.*)"$', file.read(), re.M)
        # --version ends the program after all options were read.
        run = self.run_installed("rocattach-watch", *options.group(1).split(), "--version")
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_fish_completes(self):
        if not shutil.which("fish"):
            self.skipTest("needs fish")
        cases = {
            "rocattach-watch --metrics-l": r"--metrics-listen\t.*Prometheus",
            "rocattach rep": r"report\tSummarise recordings",
            "rocattach report --htm": r"--html\t",
            "rocattach-watch --pmc SQ_WAVES_EQ": r"SQ_WAVES_EQ_64",
        }
        place = os.path.join(self.prefix, "share/fish/vendor_completions.d")
        for words, expected in cases.items():
            run = subprocess.run(
                ["fish", "-N", "-c", f"source {place}/{words.split()[0]}.fish; "
                 f"complete -C '{words}'"],
                capture_output=True, text=True, check=False, timeout=60,
                env={"PATH": f"{self.prefix}/bin:/usr/bin:/bin", "HOME": self.prefix})
            self.assertRegex(run.stdout, f"^{expected}", run.stderr)

    def test_zsh_completes(self):
        if not shutil.which("zsh"):
            self.skipTest("needs zsh")
        cases = {
            "rocattach-watch --metrics-li": "--metrics-listen",
            "rocattach repo": "report",
            "rocattach report --htm": "--html",
            "rocattach-watch --pmc SQ_WAVES_EQ": "SQ_WAVES_EQ_64",
        }
        place = os.path.join(self.prefix, "share/zsh/vendor-completions")
        for words, expected in cases.items():
            self.assertIn(expected, self.typed_in_zsh(place, words), words)

    def typed_in_zsh(self, place, words):
        """Types `words` and Tab in zsh, which completes on terminals only."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(PATH=f"{self.prefix}/bin:/usr/bin:/bin", TERM="dumb")
            os.execvp("zsh", ["zsh", "-f", "-i"])
        try:
            setup = (
                f"PS1=; fpath=({place} $fpath); autoload -U compinit; compinit -u -D; "
                "show() { zle complete-word; print -r -- \"(($BUFFER))\" }; zle -N show; "
                "bindkey '^I' show; print -- rea''dy\n"
            )
            os.write(terminal, setup.encode())
            self.read_until(terminal, "ready")
            os.write(terminal, f"{words}\t".encode())
            return self.read_until(terminal, "))").rsplit("((", 1)[-1]
        finally:
            os.kill(pid, signal.SIGKILL)
            os.close(terminal)
            os.waitpid(pid, 0)

    def read_until(self, terminal, end):
        shown = ""
        deadline = time.monotonic() + 60
        while end not in shown:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([terminal], [], [], left)[0]:
                self.fail(f"no {end} in {shown}")
            shown += os.read(terminal, 4096).decode(errors="replace")
        return shown

    def test_one_target_builds_all_that_is_installed(self):
        """scripts/run builds this target, and after it cmake --install must work."""
        top = os.path.dirname(os.path.abspath(__file__)).rsplit("/tests/", 1)[0]
        with open(os.path.join(top, "scripts/run"), encoding="utf-8") as script:
            self.assertRegex(script.read(), r"scripts/build release installed ")
        if not shutil.which("ninja") or not os.path.exists(f"{BUILD}/build.ninja"):
            self.skipTest("not built by ninja")

        def ninja(*arguments):
            return subprocess.run(
                ["ninja", "-C", BUILD, *arguments], capture_output=True, text=True, check=True
            ).stdout.splitlines()

        built = {line.split(":")[0] for line in ninja("-t", "targets", "all")}
        # Names are quoted if the path has blanks.
        needed = "\n".join(ninja("-t", "commands", "installed"))
        sources = set()
        for directory, _, names in os.walk(BUILD):
            if "cmake_install.cmake" in names:
                with open(os.path.join(directory, "cmake_install.cmake"), encoding="utf-8") as f:
                    sources |= set(re.findall(r'"%s/([^"]+)"' % re.escape(BUILD), f.read()))
        # The libraries with ROCm's names are installed on request only.
        copied = {p for p in sources & built if not p.startswith("userspace/library/rocm/")}
        self.assertIn("userspace/cli/rocattach", copied)
        self.assertGreaterEqual(len(copied), 8)
        missing = {p for p in copied
                   if not re.search(rf"(^|[\s=/]){re.escape(p)}($|[\s\"'])", needed)}
        self.assertEqual(missing, set())

    def test_versions(self):
        for program in ("rocattach", "rocattach-watch"):
            run = self.run_installed(program, "--version")
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertEqual(run.stdout.strip(), f"{program} {VERSION}")

    def test_doctor_finds_the_installed_collector(self):
        run = self.run_installed("rocattach", "doctor", "--json")
        report = json.loads(run.stdout)
        self.assertIn(run.returncode, (0, 1, 3))
        self.assertEqual(run.returncode, report["exit_status"])
        self.assertEqual(report["version"], VERSION)
        (collector,) = [c for c in report["checks"] if c["name"] == "collector"]
        self.assertEqual(collector["state"], "ok", collector)
        self.assertTrue(collector["found"].startswith(self.prefix + "/lib"), collector)

    def test_the_service_finds_its_collector(self):
        if os.geteuid() != 0:
            self.assertFalse(os.environ.get("CI"), "this test needs root")
            self.skipTest("needs root")
        with tempfile.TemporaryDirectory() as output:
            run = self.run_installed(
                "rocattach-watch", "--auto", "-d", output, "-o", "run", "--", "/bin/true"
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            recording = os.path.join(output, "run.rwa")
            self.assertTrue(os.path.exists(recording), run.stderr)
            dump = self.run_installed("rocattach", "dump", "--json", recording)
            self.assertEqual(dump.returncode, 0, dump.stderr)
            records = [json.loads(line) for line in dump.stdout.splitlines()]
            self.assertGreater(len(records), 0)

    def test_python_finds_its_module_and_the_schemas(self):
        (module,) = (f for f in self.files if f.endswith("rocattach_stream/__init__.py"))
        code = "import rocattach_stream as r; r.message_class('StreamHeader')()"
        folder = os.path.dirname(os.path.dirname(os.path.join(self.prefix, module)))
        run = subprocess.run(
            ["/usr/bin/python3", "-c", code],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_the_attach_module_finds_the_library_and_the_program(self):
        (module,) = (f for f in self.files if f.endswith("rocattach_attach/__init__.py"))
        folder = os.path.dirname(os.path.dirname(os.path.join(self.prefix, module)))
        # The program was found if it starts and reports on this process.
        code = (
            "import os, rocattach_attach as r\n"
            "library = r.Library()\n"
            "print(os.path.realpath(library.path))\n"
            "print('.'.join(map(str, library.version())))\n"
            "try:\n"
            "    library.attach(os.getppid())\n"
            "except r.AttachError as error:\n"
            "    print(error.status)\n"
        )
        run = subprocess.run(
            ["/usr/bin/python3", "-c", code],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.prefix,
            env={"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        library, version, status = run.stdout.split()
        self.assertTrue(library.startswith(self.prefix + "/lib"), library)
        self.assertEqual(version, VERSION)
        self.assertIn(status, ("1", "5"))
        self.assertNotIn("the program rocattach is in none", run.stderr)
        self.assertIn("process", run.stderr)

    def test_the_module_has_a_command(self):
        run = self.run_installed("rocattach-attach", "--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("--attach-duration-msec", run.stdout)
        run = self.run_installed("rocattach-attach")
        self.assertEqual(run.returncode, 2)
        self.assertIn("ROCPROF_ATTACH_PID", run.stderr)

    def test_the_libraries_with_rocms_names(self):
        with tempfile.TemporaryDirectory(dir=executable_place()) as prefix:
            subprocess.run(
                [CMAKE, "--install", BUILD, "--prefix", prefix,
                 "--component", "rocm-names"],
                check=True, stdout=subprocess.DEVNULL)  # fmt: skip
            files = sorted(
                os.path.relpath(os.path.join(directory, name), prefix)
                for directory, _, names in os.walk(prefix)
                for name in names
            )
            for pattern in (
                "lib*/rocattach/librocprofiler-sdk-rocattach.so",
                "lib*/rocattach/librocprofiler-sdk-rocattach.so.1",
                "lib*/rocattach/librocprofv3-attach.so",
                "include/rocprofiler-sdk-rocattach/rocattach.h",
            ):
                self.assertTrue(fnmatch.filter(files, pattern), (pattern, files))
            # No other files, and none that shadow ROCm's own files unasked.
            for name in files:
                self.assertTrue(
                    fnmatch.fnmatch(name, "lib*/rocattach/libroc*attach.so*")
                    or name == "include/rocprofiler-sdk-rocattach/rocattach.h",
                    name,
                )
            (library,) = fnmatch.filter(files, "lib*/rocattach/librocprofv3-attach.so")
            folder = os.path.dirname(os.path.join(prefix, library))
            # Opened by their bare names, as tools do.
            code = (
                "import ctypes\n"
                "old = ctypes.CDLL('librocprofv3-attach.so')\n"
                "old.attach, old.detach\n"
                "new = ctypes.CDLL('librocprofiler-sdk-rocattach.so')\n"
                "print(new.rocattach_attach(-1), new.rocattach_detach(0))\n"
            )
            run = subprocess.run(
                ["/usr/bin/python3", "-c", code],
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
                env={"LD_LIBRARY_PATH": folder, "ROCATTACH_LOG_LEVEL": "fatal"},
            )
            self.assertEqual((run.stdout, run.stderr), ("2 0\n", ""))

    def test_a_cmake_project_finds_the_library(self):
        with tempfile.TemporaryDirectory(dir=executable_place()) as folder:
            with open(os.path.join(folder, "main.c"), "w", encoding="ascii") as source:
                source.write(
                    "#include <rocattach/rocattach.h>\n"
                    "int main(void) { return rocattach_attach(-1) != "
                    "ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT; }\n"
                )
            lists = os.path.join(folder, "CMakeLists.txt")
            with open(lists, "w", encoding="ascii") as project:
                project.write(
                    "cmake_minimum_required(VERSION 3.25)\nproject(user C)\n"
                    f"find_package(rocattach {VERSION} REQUIRED)\n"
                    "add_executable(user main.c)\n"
                    "target_link_libraries(user PRIVATE rocattach::rocattach)\n"
                )
            build = os.path.join(folder, "build")
            for command in (
                [CMAKE, "-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                [CMAKE, "--build", build],
                [os.path.join(build, "user")],
            ):
                run = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_pages_can_be_read(self):
        if not shutil.which("man"):
            self.assertFalse(os.environ.get("CI"), "this test needs man")
            self.skipTest("man is not installed")
        for page in ("rocattach", "rocattach-watch"):
            path = os.path.join(self.prefix, "share/man/man1", page + ".1")
            run = subprocess.run(
                ["man", "-l", path], capture_output=True, text=True, check=True
            )
            self.assertIn("SYNOPSIS", run.stdout)


if __name__ == "__main__":
    CMAKE, BUILD, VERSION = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
