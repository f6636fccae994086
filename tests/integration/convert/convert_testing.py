"""What the tests of outputs share: made-up recordings, what is in them, oracles."""
import argparse
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77  # for ctest


class Setting:
    """The programs under test, and a folder for files."""

    def __init__(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("--rocattach", required=True)
        parser.add_argument("--make-calls", required=True)
        parser.add_argument("--top", required=True, type=pathlib.Path)
        arguments, rest = parser.parse_known_args()
        sys.argv[1:] = rest
        self.rocattach = arguments.rocattach
        self.make_calls = arguments.make_calls
        self.top = arguments.top
        self.here = pathlib.Path(__file__).resolve().parent
        self.oracles = self.top / "build" / "oracles"
        self._scratch = tempfile.TemporaryDirectory(prefix="rocattach-convert.")
        self.scratch = pathlib.Path(self._scratch.name)

    def recording(self, seed, processes, calls, *host):
        path = self.scratch / f"{seed}-{processes}-{calls}{'-'.join(host)}.rwa"
        if not path.exists():
            subprocess.run([self.make_calls, path, str(seed), str(processes),
                            str(calls), *host], check=True)
        return path

    def merge(self, *recordings):
        path = self.scratch / ("merged-" + "-".join(r.stem for r in recordings) + ".rwa")
        subprocess.run([self.rocattach, "merge", *recordings, "-o", path], check=True,
                       stdout=subprocess.DEVNULL)
        return path

    def convert(self, recording, formats, status=0):
        """Converts to outputs with all processes in one; returns their paths."""
        folder = tempfile.mkdtemp(dir=self.scratch)
        done = subprocess.run([self.rocattach, "convert", recording, "-f", formats,
                               "-d", folder, "-o", "all"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == status, (done.returncode, done.stderr)
        return [pathlib.Path(line) for line in done.stdout.splitlines()]

    def dump(self, recording):
        """What is in the recording, by type, as another command sees it."""
        done = subprocess.run([self.rocattach, "dump", "--json", recording],
                              check=True, stdout=subprocess.PIPE, text=True)
        found = {}
        for line in done.stdout.splitlines():
            record = json.loads(line)
            if not record.get("repeated"):
                found.setdefault(record["type"], []).append(record)
        return found


class TraceProcessor:
    """Perfetto's trace processor; see trace_processor.mjs."""

    def __init__(self, setting):
        self.missing = None
        if shutil.which("node") is None:
            self.missing = "node is not installed"
        elif not (setting.oracles / "trace-processor").is_dir():
            self.missing = "scripts/fetch-oracles has not fetched the trace processor"
        self._command = ["node", str(setting.here / "trace_processor.mjs"),
                         str(setting.oracles / "trace-processor")]
        self._process = None

    def ask(self, trace, *queries):
        """The rows of each query; RuntimeError if the trace does not load."""
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, text=True)
        request = json.dumps({"trace": str(trace), "queries": queries})
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        # A large trace takes a while.
        if not select.select([self._process.stdout], [], [], 300)[0]:
            raise RuntimeError(f"the trace processor does not answer about {trace}")
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the trace processor died"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["rows"]

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()


def require(missing):
    """Skips the whole program, or fails it in CI, if something is missing."""
    if missing is None:
        return
    if os.environ.get("CI"):
        sys.exit(f"FAILED: {missing}")
    print(f"SKIPPED: {missing}")
    sys.exit(SKIPPED)


def main():
    unittest.main(verbosity=2)
