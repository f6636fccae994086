#!/usr/bin/env python3
"""The Python module beside `rocattach dump --json`: intact, cut, flipped and joined
recordings with a bit of everything.

usage: reader_test.py PYTHON_DIRECTORY ROCATTACH SEEDS_PROGRAM
"""

import io
import os
import random
import subprocess
import sys
import tempfile
import tracemalloc
import unittest
from unittest import mock

from dump_comparison import DumpComparison

PYTHON, ROCATTACH, SEEDS = sys.argv[1:4]
sys.path.insert(0, PYTHON)
import rocattach_stream  # noqa: E402
from rocattach_stream import batches, checksum, payload  # noqa: E402

# Places at which each recording is cut, and flipped, beside the edges of frames.
PLACES = 40
TYPES = {
    "recording", "process", "window", "agent", "kernel", "session_plan", "api_function",
    "dispatch", "copy", "counter", "sample", "api_call", "memory", "session", "clock", "account",
    "process_end", "summary", "recording_end",
}  # fmt: skip


class Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, data, most):
        self._data, self._most = io.BytesIO(data), most

    def read(self, size=-1):
        return self._data.read(min(size, self._most) if size >= 0 else self._most)


def all_fields(descriptors):
    return {
        (message.name, field.name, field.number, field.type, field.label)
        for proto in descriptors.file
        if proto.package == "rocattach.v1"
        for message in proto.message_type
        for field in message.field
    }


class ReaderTest(DumpComparison, unittest.TestCase):
    rocattach = ROCATTACH
    module = rocattach_stream

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([SEEDS, folder], check=True)
            cls.recordings = {}
            for name in ("plain", "compressed"):
                with open(os.path.join(folder, name), "rb") as file:
                    cls.recordings[name] = file.read()[1:]  # a byte for the fuzz target

    def places(self, data):
        """Where to damage: the edges of frames, and some places between."""
        offsets = [frame.offset for frame in rocattach_stream.frames(io.BytesIO(data))]
        places = {at for edge in offsets for at in (edge, edge + 1, edge + 31, edge + 33)}
        places |= set(random.Random(7).sample(range(len(data)), PLACES))
        return sorted(at for at in places if at < len(data))

    def test_intact(self):
        for name, data in self.recordings.items():
            records = self.assert_same_bytes(data, name)
            self.assertEqual({record["type"] for record in records}, TYPES)
            (agent,) = (record for record in records if record["type"] == "agent")
            self.assertEqual(agent["agent_type"], "gpu")
            kernels = {r["kernel"] for r in records if r["type"] == "dispatch"}
            self.assertEqual(kernels, {"vadd(float*)"})

    def test_cut(self):
        for name, data in self.recordings.items():
            for at in self.places(data)[::2]:
                self.assert_same_bytes(data[:at], (name, "cut", at))

    def test_joined_in_the_middle(self):
        for name, data in self.recordings.items():
            for at in self.places(data)[::3]:
                self.assert_same_bytes(data[at:], (name, "joined", at))

    def test_flipped(self):
        for name, data in self.recordings.items():
            for at in self.places(data):
                bad = bytearray(data)
                bad[at] ^= 1 << at % 8
                self.assert_same_bytes(bytes(bad), (name, "flipped", at))

    def test_bytes_gone_and_added(self):
        data = self.recordings["plain"]
        for at in self.places(data)[::3]:
            self.assert_same_bytes(data[:at] + data[at + 1 :], ("gone", at))
            self.assert_same_bytes(data[:at] + b"RAW\xf1" + data[at:], ("added", at))

    def test_concatenated(self):
        plain, compressed = self.recordings.values()
        records = self.assert_same_bytes(plain + compressed + plain)
        self.assertEqual({record["recording"] for record in records}, {0, 1, 2})
        for at in self.places(plain)[::5]:
            self.assert_same_bytes(plain[:at] + compressed, ("torn", at))
            self.assert_same_bytes(plain + compressed[at:], ("headless", at))

    def test_frames_of_another_version(self):
        data = self.recordings["plain"]
        frames = list(rocattach_stream.frames(io.BytesIO(data)))
        for field, value in ((4, 9), (5, 200), (6, 7)):  # version, type, codec
            frame = bytearray(data[frames[3].offset : frames[3].offset + frames[3].size])
            frame[field] = value
            frame[28:32] = checksum.crc32c(bytes(frame[:28])).to_bytes(4, "little")
            changed = data[: frames[3].offset] + frame + data[frames[4].offset :]
            records = self.assert_same_bytes(changed, field)
            kinds = {r["kind"] for r in records if r["type"] == "damage"}
            expected = "undecodable_frame" if field == 6 else "unknown_frame"
            self.assertIn(expected, kinds)

    def test_payload_that_makes_no_sense(self):
        data = self.recordings["plain"]
        frames = list(rocattach_stream.frames(io.BytesIO(data)))
        for kind in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15):
            body = b"\xff" * 8
            header = bytearray(b"RAW\xf1" + bytes([1, kind, 0, 0]))
            for word in (8, checksum.crc32c(body), 779, 0, 6):
                header += word.to_bytes(4, "little")
            header += checksum.crc32c(bytes(header)).to_bytes(4, "little")
            at = frames[3].offset
            changed = data[:at] + bytes(header) + body + data[at:]
            self.assert_same_bytes(changed, ("type", kind))

    def counters_of(self, **fields):
        batch = payload.message_class("CounterBatch")(**fields)
        return batches.counters(batch.SerializeToString(), False, str, lambda *at: str(at))

    def test_counters(self):
        fields = dict(
            records=4, operations=2, shapes=2, shape_flags=[1, 1], shape_counter=[7, 8],
            shape_instances=[16, 1], pattern_length=[2], operation_change=[5, 1],
            sum_change=[160, 3, -15, 1], below_change=[1, 0, 0, 0],
            above_change=[1, 0, 2, 0])  # fmt: skip
        records = self.counters_of(**fields)
        self.assertEqual(
            [(r["correlation_id"], r["counter_index"], r["sum"], r["min"], r["max"])
             for r in records],
            [(5, 7, 160, 9, 11), (5, 8, 3, 3, 3), (6, 7, 145, 8, 12), (6, 8, 4, 4, 4)])  # fmt: skip
        for change in (
            {"records": 3}, {"records": 5}, {"operations": 0}, {"operations": 1}, {"operations": 5},
            {"pattern_length": []}, {"pattern_length": [1]}, {"pattern_length": [3]},
            {"pattern_length": [2, 0]}, {"pattern": [0, 1]}, {"sum_change": [1]},
            {"operation_change": [1, 2, 3, 4]}, {"records": 1 << 31},
        ):  # fmt: skip
            with self.assertRaises(payload.PayloadError, msg=change):
                self.counters_of(**{**fields, **change})

    def test_a_few_bytes_at_a_time(self):
        data = self.recordings["compressed"]
        whole = self.read(io.BytesIO(data))
        for most in (1, 31, 4096):
            self.assertEqual(self.read(Trickle(data, most)), whole, most)

    def test_no_stream(self):
        for data in (b"", b"RAW", b"RAW\xf1" * 100, b"text " * 1000, bytes(100)):
            self.assertEqual(self.read(io.BytesIO(data))[1], 3, data[:8])

    def test_payload_checks_can_be_left_out(self):
        data = bytearray(self.recordings["plain"])
        self.assertEqual(
            self.read(io.BytesIO(data), check_payloads=False), self.read(io.BytesIO(data))
        )
        data[1] ^= 1  # headers are always checked
        _, status = self.read(io.BytesIO(data), check_payloads=False)
        self.assertEqual(status, 1)

    def test_without_the_decompressor(self):
        with mock.patch.object(payload, "zstandard", None):
            self.read(io.BytesIO(self.recordings["plain"]))
            with self.assertRaisesRegex(
                rocattach_stream.MissingModuleError, "python3-zstandard"
            ):
                self.read(io.BytesIO(self.recordings["compressed"]))

    def test_checksums(self):
        numbers = random.Random(3)
        for crc32c in (checksum.crc32c, checksum.crc32c_in_python):
            self.assertEqual(crc32c(b"123456789"), 0xE3069283)
            self.assertEqual(crc32c(b""), 0)
        for length in (1, 2, 3, 4, 5, 27, 28, 32, 999, 70000):
            data = numbers.randbytes(length)
            self.assertEqual(checksum.crc32c_in_python(data), checksum.crc32c(data))

    def test_memory_is_bounded(self):
        # A header that claims a megabyte, over and over; the payload never fits.
        header = bytearray(b"RAW\xf1" + bytes([1, 3, 0, 0]))
        for word in (1 << 20, 1, 1, 0, 1):
            header += word.to_bytes(4, "little")
        header += checksum.crc32c(bytes(header)).to_bytes(4, "little")
        decoder = rocattach_stream.Decoder()
        piece = bytes(header) + bytes(65536 - len(header))
        tracemalloc.start()
        for _ in range(512):
            for _ in decoder.feed(piece):
                self.fail("nothing is intact")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(peak, 8 << 20)

    def test_schemas_are_those_of_the_recording(self):
        frame = next(rocattach_stream.frames(io.BytesIO(self.recordings["compressed"])))
        message = rocattach_stream.message_class("StreamHeader").FromString(
            rocattach_stream.uncompress(frame.codec, frame.payload)
        )
        path = os.path.join(PYTHON, "rocattach_stream", "schemas.binpb")
        with open(path, "rb") as file:
            ours = type(message.descriptors).FromString(file.read())
        self.assertEqual(all_fields(ours), all_fields(message.descriptors))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
