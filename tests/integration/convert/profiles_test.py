#!/usr/bin/env python3
"""Profiles for pprof and OpenTelemetry hold the totals of the recording, by path."""
import collections
import gzip
import importlib
import json
import shutil
import subprocess
import sys
import unittest

import convert_testing

SETTING = convert_testing.Setting()
# Name of one kernel: it is complete, though longer than a reader may expect.
LONG_NAME = "k" * 10_000
PPROF_FORMAT = SETTING.oracles / "pprof-format"
sys.dont_write_bytecode = True


def generated(stem):
    """The Python classes of one of our schemas."""
    subprocess.run(["protoc", f"--python_out={SETTING.scratch}", "-I", SETTING.top,
                    f"schemas/export/{stem}.proto", "schemas/export/otlp_common.proto"],
                   check=True)
    if str(SETTING.scratch) not in sys.path:
        sys.path.insert(0, str(SETTING.scratch))
    return importlib.import_module(f"schemas.export.{stem}_pb2")


class Truth:
    """Totals of a recording by (pid, frames), the leaf first, from the records of
    `rocattach dump`."""

    def __init__(self, recording):
        found = SETTING.dump(recording)
        self.processes = {p["stream"]: p for p in found["process"]}
        self.header = found["recording"][0]
        mangled = {(k["stream"], k["id"]): k["name"] for k in found["kernel"]}
        self.totals = collections.defaultdict(collections.Counter)
        stacks = {}
        for r in found["dispatch"]:
            stack = ((r["kernel"], mangled[r["stream"], r["kernel_id"]]),
                     self.same(f"queue {r['queue_id']} (GPU {r['agent_id'] - 2})"),
                     self.process(r))
            stacks[r["stream"], r["correlation_id"]] = stack
            totals = self.totals[stack]
            totals["dispatches"] += 1
            if not r["untimed"]:
                totals["gpu_kernel_time"] += r["duration_ns"]
        for r in found["copy"]:
            stack = (self.same(r["direction"].replace("_", " ")),
                     self.same("copies (GPU 0)"), self.process(r))
            self.totals[stack]["copied_bytes"] += r["bytes"]
        for r in found["counter"]:
            stack = stacks[r["stream"], r["correlation_id"]]
            self.totals[stack][r["counter"]] += r["sum"]

    @staticmethod
    def same(name):
        return (name, name)

    def process(self, record):
        process = self.processes[record["stream"]]
        return self.same(f"{process['comm']} ({process['pid']})")

    def rounded(self):
        """Profiles have whole numbers: as C's llround rounds."""
        return {stack: {name: int(total + 0.5) for name, total in totals.items()
                        if int(total + 0.5) != 0}
                for stack, totals in self.totals.items()}


class ProfilesTest(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.recording = SETTING.recording(seed=3, processes=2, calls=3000)
        cls.truth = Truth(cls.recording)
        cls.pprof, cls.otlp = SETTING.convert(cls.recording, "pprof,otlp-profile")

    def check_pprof(self, types, samples):
        self.assertEqual(types, [("gpu_kernel_time", "nanoseconds"),
                                 ("dispatches", "count"), ("copied_bytes", "bytes"),
                                 ("SQ_WAVES", "count"), ("GRBM_COUNT", "count")])
        got = {}
        for stack, values, labels in samples:
            got[stack] = {types[i][0]: v for i, v in enumerate(values) if v != 0}
            name, pid = stack[-1][0][:-1].split(" (")
            self.assertEqual(labels["process"], name)
            self.assertEqual(labels["pid"], pid)
            self.assertEqual("container" in labels, name == "made-up2")
            self.assertIn(labels["gpu"], stack[1][0])
            self.assertEqual(labels["gpu_architecture"], "gfx90a")
        self.assertEqual(got, self.truth.rounded())

    def test_pprof_by_its_schema(self):
        profile = generated("pprof").Profile()
        profile.ParseFromString(gzip.decompress(self.pprof.read_bytes()))
        text = profile.string_table
        self.assertIn(LONG_NAME, text)
        functions = {f.id: (text[f.name], text[f.system_name]) for f in profile.function}
        locations = {l.id: functions[l.line[0].function_id] for l in profile.location}
        mappings = {m.id: text[m.filename] for m in profile.mapping}
        self.assertEqual({mappings[l.mapping_id] for l in profile.location},
                         {"/usr/bin/made-up1", "/usr/bin/made-up2"})
        self.check_pprof(
            [(text[t.type], text[t.unit]) for t in profile.sample_type],
            [(tuple(locations[i] for i in s.location_id), list(s.value),
              {text[label.key]: text[label.str] for label in s.label})
             for s in profile.sample])
        self.assertEqual(text[profile.default_sample_type], "gpu_kernel_time")
        clock = self.truth.header["clock"]
        begin = int(clock["realtime_ns"]) - int(clock["boottime_ns"])
        self.assertGreater(profile.time_nanos, begin)
        self.assertGreater(profile.duration_nanos, 0)

    def test_pprof_by_a_third_party_reader(self):
        if shutil.which("node") is None or not PPROF_FORMAT.is_dir():
            self.skipTest("scripts/fetch-oracles has not fetched pprof-format")
        done = subprocess.run(
            ["node", SETTING.here / "pprof_reader.mjs", PPROF_FORMAT, self.pprof],
            check=True, stdout=subprocess.PIPE)
        profile = json.loads(done.stdout)
        self.assertEqual(profile["period"], [["gpu_kernel_time", "nanoseconds"], 1])
        self.check_pprof([tuple(t) for t in profile["types"]],
                         [(tuple(tuple(f) for f in s["stack"]), s["values"], s["labels"])
                          for s in profile["samples"]])

    def check_dictionary(self, dictionary):
        """Checks what the protocol demands of the tables."""
        tables = [dictionary.mapping_table, dictionary.location_table,
                  dictionary.function_table, dictionary.link_table,
                  dictionary.attribute_table, dictionary.stack_table]
        for table in tables:
            self.assertEqual(table[0].SerializeToString(), b"")
            entries = [entry.SerializeToString() for entry in table]
            self.assertEqual(len(entries), len(set(entries)), "an entry is there twice")
        self.assertEqual(dictionary.string_table[0], "")
        self.assertEqual(len(dictionary.string_table), len(set(dictionary.string_table)))

    def check_nothing_unused(self, data):
        dictionary = data.dictionary
        samples = [s for r in data.resource_profiles for p in r.scope_profiles[0].profiles
                   for s in p.samples]
        used = {s.stack_index for s in samples} | {0}
        self.assertEqual(used, set(range(len(dictionary.stack_table))))
        used = {i for s in dictionary.stack_table for i in s.location_indices} | {0}
        self.assertEqual(used, set(range(len(dictionary.location_table))))
        used = {l.function_index for o in dictionary.location_table for l in o.lines} | {0}
        self.assertEqual(used, set(range(len(dictionary.function_table))))
        used = {i for s in samples for i in s.attribute_indices} | {0}
        self.assertEqual(used, set(range(len(dictionary.attribute_table))))

    def test_otlp(self):
        data = generated("otlp_profile").ProfilesData()
        data.ParseFromString(self.otlp.read_bytes())
        self.check_dictionary(data.dictionary)
        self.check_nothing_unused(data)
        text = data.dictionary.string_table
        self.assertIn(LONG_NAME, text)
        got = collections.defaultdict(dict)
        ids = set()
        for resource in data.resource_profiles:
            attributes = {a.key: a.value for a in resource.resource.attributes}
            pid = attributes["process.pid"].int_value
            name = attributes["process.executable.name"].string_value
            self.assertEqual("container.id" in attributes, pid % 2 == 0)
            [scope] = resource.scope_profiles
            self.assertEqual(scope.scope.name, "rocattach")
            for profile in scope.profiles:
                self.assertEqual(len(profile.profile_id), 16)
                ids.add(profile.profile_id)
                self.assertGreater(profile.time_unix_nano, 0)
                which = text[profile.sample_type.type_strindex]
                for sample in profile.samples:
                    stack = self.stack(data.dictionary, sample)
                    self.assertEqual(stack[-1][0], f"{name} ({pid})")
                    self.assertNotIn(which, got[stack])
                    [got[stack][which]] = sample.values
        self.assertEqual(len(ids), sum(len(r.scope_profiles[0].profiles)
                                       for r in data.resource_profiles))
        self.assertEqual(dict(got), self.truth.rounded())

    @staticmethod
    def stack(dictionary, sample):
        frames = []
        for index in dictionary.stack_table[sample.stack_index].location_indices:
            function = dictionary.function_table[
                dictionary.location_table[index].lines[0].function_index]
            name = dictionary.string_table[function.name_strindex]
            system_name = dictionary.string_table[function.system_name_strindex]
            frames.append((name, system_name or name))
        return tuple(frames)


if __name__ == "__main__":
    convert_testing.main()
