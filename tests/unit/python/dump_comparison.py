"""Compares the Python module with `rocattach dump --json`, for the module's tests."""

import json
import os
import subprocess
import tempfile


class DumpComparison:
    """Mixed into a unittest.TestCase. Set `rocattach` to the program and `module` to
    rocattach_stream."""

    rocattach = ""
    module = None

    def dumped(self, path):
        """The program's records and its exit status."""
        run = subprocess.run(
            [self.rocattach, "dump", "--json", path],
            capture_output=True,
            check=False,
            timeout=120,
        )
        self.assertIn(run.returncode, (0, 1, 3), run.stderr)
        records = [json.loads(line) for line in run.stdout.splitlines()]
        return records, run.returncode

    def read(self, source, **options):
        """The module's records and the exit status that the program would have."""
        reader = self.module.Reader(source, **options)
        records = []
        try:
            for record in reader:
                records.append(record)
        except self.module.StreamError:
            return records, 3
        return records, 1 if reader.stats.damaged else 0

    def assert_same(self, path, what=""):
        """Asserts that both read the same records from a file. Returns the records."""
        theirs, their_status = self.dumped(path)
        ours, our_status = self.read(path)
        self.assertEqual(our_status, their_status, what)
        # The description in a damage record may be worded differently.
        for record in theirs + ours:
            if record["type"] == "damage":
                self.assertNotEqual(record.pop("what"), "")
        for number, (our, their) in enumerate(zip(ours, theirs)):
            self.assertEqual(our, their, (what, number))
        self.assertEqual(len(ours), len(theirs), what)
        return ours

    def assert_same_bytes(self, data, what=""):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bytes.rwa")
            with open(path, "wb") as file:
                file.write(data)
            return self.assert_same(path, what)


def without_offsets(records):
    """Removes offsets, to compare recordings at different places in a file."""
    return [{k: v for k, v in r.items() if k != "offset"} for r in records]
