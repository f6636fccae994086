"""Reads recordings of rocattach-watch.

    import rocattach_stream

    reader = rocattach_stream.Reader("run.rwa")
    for record in reader:
        if record["type"] == "dispatch":
            print(record["kernel"], record["duration_ns"])
    if reader.stats.damaged:
        print("incomplete:", reader.stats)

A record is a dictionary with the keys of `rocattach dump --json`, which
docs/stream-format.md describes; damage is a record too. Needs the module google.protobuf
(Debian: python3-protobuf), and zstandard for compressed recordings (python3-zstandard).
With crc32c (python3-crc32c) checksums cost next to nothing. data_frames("run.rwa") gives
pandas DataFrames, where pandas is installed (python3-pandas).
"""

from .frames import Frame, SkippedRange
from .payload import MissingModuleError, PayloadError, message_class, uncompress
from .reader import Decoder, Reader, ReadStats, StreamError, frames
from .tables import data_frames

__all__ = [
    "Decoder",
    "Frame",
    "MissingModuleError",
    "PayloadError",
    "ReadStats",
    "Reader",
    "SkippedRange",
    "StreamError",
    "data_frames",
    "frames",
    "message_class",
    "uncompress",
]
