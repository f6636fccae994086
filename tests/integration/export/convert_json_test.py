#!/usr/bin/env python3
"""Reads json and ndjson outputs with python3's own reader.

usage: convert_json_test.py ROCATTACH MAKE_RECORDING
"""

import collections
import json
import os

from export_testing import (API_KINDS, DISPATCHES, NODES, OTHER_COUNT, ConvertTestCase, main,
                            run)


class JsonTest(ConvertTestCase):
    def test_json(self):
        self.convert("json")
        for process in self.processes:
            with open(self.path(process, "results.json"), encoding="utf-8") as file:
                (tool,) = json.load(file)["rocprofiler-sdk-tool"]
            self.assertEqual(tool["metadata"]["pid"], process.pid)
            self.check_json_symbols(process, tool)
            self.check_json_dispatches(process, tool)
            self.check_json_counters(process, tool)
            copies = tool["buffer_records"]["memory_copy"]
            names = tool["strings"]["buffer_records"]
            self.assertEqual(len(copies), len(process.of["copy"]))
            for got, c in zip(copies, process.of["copy"]):
                self.assertEqual(names[got["kind"]]["kind"], "MEMORY_COPY")
                operation = names[got["kind"]]["operations"][got["operation"]]
                self.assertEqual(operation, "MEMORY_COPY_" + c["direction"].upper())
                self.assertEqual(got["bytes"], c["bytes"])
                self.assertEqual(got["stream_id"]["handle"], c.get("hip_stream", 0))
                self.assertEqual(got["src_agent_id"]["handle"], NODES[c["src_agent_id"]])
                self.assertEqual(got["start_timestamp"], c["start_ns"])
            texts = {t["key"]: t["value"] for t in tool["strings"]["marker_api"]}
            for domain in ("hsa", "hip", "marker", "rccl"):
                calls = [c for c in process.calls if c["domain"] == domain]
                records = tool["buffer_records"][domain + "_api"]
                self.assertEqual(len(records), len(calls))
                for got, c in zip(records, calls):
                    kind = names[got["kind"]]
                    self.assertEqual(kind["kind"], API_KINDS[domain, c["function_id"]])
                    self.assertEqual(kind["operations"][got["operation"]], c["function"])
                    self.assertEqual(got["correlation_id"]["internal"], c["correlation_id"])
                    self.assertEqual(got["correlation_id"]["ancestor"], c["ancestor_id"])
                    self.assertEqual(got["end_timestamp"], c["end_ns"])
                    if domain == "marker":
                        self.assertEqual(texts.get(c["correlation_id"]), c.get("text"))

    def check_json_symbols(self, process, tool):
        self.assertEqual([a["type"] for a in tool["agents"]], [1, 2, 2])
        self.assertEqual([a["lds_size_in_kb"] for a in tool["agents"]], [0, 64, 0])
        self.assertEqual([a["model_name"] for a in tool["agents"]], ["", "aldebaran", ""])
        # A kernel is at the position of its id.
        symbols = tool["kernel_symbols"]
        self.assertEqual(len(symbols), max(process.kernels) + 1)
        self.assertEqual(symbols[0]["kernel_id"], 0)
        self.assertEqual([o["code_object_id"] for o in tool["code_objects"]], [0, 1])
        for number, kernel in process.kernels.items():
            self.assertEqual(symbols[number]["kernel_id"], number)
            self.assertEqual(symbols[number]["kernel_name"], kernel["name"])
            self.assertEqual(symbols[number]["formatted_kernel_name"], kernel["display_name"])
        (kernels,) = [s for s in tool["summary"] if s["domain"] == "KERNEL_DISPATCH"]
        timed = [d["duration_ns"] for d in process.of["dispatch"] if process.timed(d)]
        self.assertEqual(kernels["stats"]["sum"], sum(timed))

    def check_json_dispatches(self, process, tool):
        records = tool["buffer_records"]["kernel_dispatch"]
        self.assertEqual(len(records), DISPATCHES)
        for got, d in zip(records, process.of["dispatch"]):
            info = got["dispatch_info"]
            self.assertEqual(
                (got["thread_id"], got["correlation_id"]["internal"], got["start_timestamp"],
                 got["end_timestamp"], info["agent_id"]["handle"], info["queue_id"]["handle"],
                 info["kernel_id"], info["dispatch_id"], info["private_segment_size"],
                 info["group_segment_size"], list(info["workgroup_size"].values()),
                 list(info["grid_size"].values()), got["stream_id"]["handle"]),
                (d["tid"], d["linked_id"], d["start_ns"], d["end_ns"],
                 NODES[d["agent_id"]], d["queue_id"], d["kernel_id"], d["dispatch_id"],
                 d["scratch_bytes"], d["lds_bytes"], d["workgroup"], d["grid"],
                 d.get("hip_stream", 0)),
            )

    def check_json_counters(self, process, tool):
        names = {c["id"]["handle"]: c["name"] for c in tool["counters"]}
        got = [
            (r["dispatch_data"]["correlation_id"]["internal"],
             r["dispatch_data"]["dispatch_info"]["dispatch_id"],
             names[v["counter_id"]["handle"]], v["value"])
            for r in tool["callback_records"]["counter_collection"]
            for v in r["records"]
        ]
        want = [
            (d["linked_id"], d["dispatch_id"], v["counter"], value)
            for v in process.of["counter"]
            for d in [process.by_correlation[v["correlation_id"]]]
            for value in [i["value"] for i in v.get("each", [])] or [v["sum"]]
        ]
        self.assertEqual(got, want)

    def test_json_of_several_processes_is_one_file(self):
        done = run("convert", self.recording, "-f", "json", "-d", self.out, "-o", "all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(os.path.join(self.out, "all_results.json"), encoding="utf-8") as file:
            tools = json.load(file)["rocprofiler-sdk-tool"]
        self.assertEqual([t["metadata"]["pid"] for t in tools],
                         [p.pid for p in self.processes])

    def test_ndjson_has_the_dump_s_records(self):
        self.convert("ndjson")
        kinds = ("process", "agent", "queue", "kernel", "code_object", "session_plan",
                 "api_function", "dispatch", "copy", "counter", "sample", "api_call",
                 "memory", "process_end")
        for process in self.processes:
            got = collections.defaultdict(list)
            with open(self.path(process, "results.ndjson"), encoding="utf-8") as file:
                for line in file:
                    record = json.loads(line)
                    self.assertEqual(record["pid"], process.pid)
                    got[record["type"]].append(record)
            self.assertEqual(set(got), set(kinds))
            for kind in kinds:
                self.assertEqual(len(got[kind]), len(process.of[kind]), kind)
                order = lambda r: (r.get("id", 0), r.get("domain", ""), r.get("function", 0))
                mine, theirs = got[kind], process.of[kind]
                if kind in ("agent", "kernel", "api_function"):
                    mine, theirs = sorted(mine, key=order), sorted(theirs, key=order)
                shifts = set()
                for record, want in zip(mine, theirs):
                    for key, value in want.items():
                        if key in ("correlation_id", "ancestor_id") and value:
                            shifts.add(record[key] - value)
                        elif key != "linked_id":
                            self.assertEqual(record[key], value, (kind, key))
                # The ids of one kind are the recording's, or have OTHER_COUNT added to all.
                self.assertLess(len(shifts), 2, kind)
                self.assertLessEqual(shifts, {0, OTHER_COUNT}, kind)
            ids = lambda *kinds: {r["correlation_id"] for kind in kinds for r in got[kind]}
            operations, calls = ids("dispatch", "copy"), ids("api_call", "memory")
            self.assertEqual(operations & calls, set())
            self.assertLessEqual(ids("counter"), operations)


if __name__ == "__main__":
    main()
