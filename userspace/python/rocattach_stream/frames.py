"""Finds frames in bytes, whatever the bytes are. docs/stream-format.md has the layout."""

import dataclasses
import struct

from .checksum import crc32c

MAGIC = b"RAW\xf1"
VERSION = 1
HEADER_BYTES = 32
MAX_PAYLOAD_BYTES = 1 << 20
MAX_BATCH_RECORDS = 32768

_HEADER = struct.Struct("<4sBBBBIIIIII")
# Damaged payloads may be checksummed many times over, because they can contain
# frames. Beyond this many bytes, and this share of the input, they are skipped whole.
_WASTE_ALLOWANCE = 64 << 20
_WASTE_SHARE = 64


@dataclasses.dataclass(frozen=True)
class Frame:
    """One intact frame."""

    version: int
    type: int
    codec: int
    flags: int
    stream: int
    sequence: int
    records: int
    offset: int  # in its file
    size: int  # with header and padding
    payload: bytes  # as on the wire, without padding


@dataclasses.dataclass
class SkippedRange:
    """Bytes that belong to no intact frame."""

    offset: int = 0
    bytes: int = 0
    # Frames in it whose header was intact, and the records that they claim to hold.
    damaged_frames: int = 0
    damaged_records: int = 0
    # It reaches the end of the input: most likely a frame that was being written.
    at_end: bool = False


class Scanner:
    """Push bytes in with append(), pull frames and skipped ranges out with pull().

    Holds at most one frame of the largest size and what was appended last. With
    check_payloads=False, payload checksums are not looked at: quicker, and damage inside
    a payload goes unseen until it makes no sense.
    """

    def __init__(self, check_payloads=True):
        self._check_payloads = check_payloads
        self._buffer = b""
        self._position = 0
        self._base = 0  # offset of the buffer in the input
        self._finished = False
        self._skip = SkippedRange()
        self._wasted = 0

    def append(self, data):
        self._base += self._position
        self._buffer = self._buffer[self._position :] + data
        self._position = 0

    def finish(self):
        """Marks the end of the input; call pull() once more."""
        self._finished = True

    def pull(self):
        """Yields what is certain so far."""
        while self._position < len(self._buffer):
            frame = self._look()
            if frame is None:
                return  # more bytes are needed
            if frame:
                yield from self._end_skip(False)
                self._position += frame.size
                yield frame
        if self._finished:
            yield from self._end_skip(True)

    def _move_on(self, count):
        if self._skip.bytes == 0:
            self._skip.offset = self._base + self._position
        self._skip.bytes += count
        self._position += count

    def _end_skip(self, at_end):
        if self._skip.bytes:
            self._skip.at_end = at_end
            yield self._skip
            self._skip = SkippedRange()

    def _find_magic(self):
        """Moves to the next magic, or to the beginning of one at the end."""
        found = self._buffer.find(MAGIC, self._position)
        if found < 0:
            found = len(self._buffer)
            for count in range(min(3, found - self._position), 0, -1):
                if self._buffer.endswith(MAGIC[:count]):
                    found -= count
                    break
        if found > self._position:
            self._move_on(found - self._position)

    def _look(self):
        """A frame; False: there is none here, and the position has moved on; None: more
        bytes are needed to tell."""
        self._find_magic()
        left = len(self._buffer) - self._position
        if left < HEADER_BYTES:
            if not self._finished:
                return None
            self._move_on(left)
            return False
        start = self._position
        header = self._buffer[start : start + HEADER_BYTES]
        (_, version, kind, codec, flags, size, payload_crc, stream, sequence, records,
         header_crc) = _HEADER.unpack(header)  # fmt: skip
        if crc32c(header[:28]) != header_crc or size > MAX_PAYLOAD_BYTES:
            self._move_on(1)
            return False
        padded = (size + 7) & ~7
        complete = left >= HEADER_BYTES + padded
        if not complete and not self._finished:
            return None
        worth = self._wasted + padded <= _WASTE_ALLOWANCE + _WASTE_SHARE * (
            self._base + start
        )
        if complete and worth:
            body = self._buffer[start + HEADER_BYTES : start + HEADER_BYTES + padded]
            if not self._check_payloads or crc32c(body) == payload_crc:
                return Frame(version, kind, codec, flags, stream, sequence, records,
                             self._base + start, HEADER_BYTES + padded,
                             body[:size])  # fmt: skip
        self._skip.damaged_frames += 1
        self._skip.damaged_records += records
        self._wasted += padded
        self._move_on(1 if worth else min(left, HEADER_BYTES + padded))
        return False
