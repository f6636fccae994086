"""From a file to records: recordings, sequence numbers, dictionaries, damage."""

import dataclasses
import re

from . import batches
from .frames import VERSION, Frame, Scanner
from .names import Names, demangle
from .payload import PayloadError, parse, to_dict, uncompress

_READ_BYTES = 256 << 10
# Arguments that `rocattach merge` adds to those of the recorder.
_MERGED_CLOCK = re.compile(r"--merged-clock-(offset|error)-ns=(-?[0-9]{1,20})")
# Streams whose sequence numbers are checked; further ones are read without that check.
_MAX_TRACKED_STREAMS = 1 << 20

# Frame types: FrameType in schemas/stream.proto.
_HEADER, _DICTIONARY, _DISPATCHES, _COUNTERS, _API_CALLS, _COPIES, _SAMPLES = range(1, 8)
_EVENT, _ACCOUNT, _KEY_FRAME = 8, 9, 10
_END, _SUMMARY, _MEMORY, _SESSION = 12, 13, 14, 15
_KNOWN_TYPES = frozenset(
    (_HEADER, _DICTIONARY, _DISPATCHES, _COUNTERS, _API_CALLS, _COPIES, _SAMPLES)
    + (_EVENT, _ACCOUNT, _KEY_FRAME, _END, _SUMMARY, _MEMORY, _SESSION)
)
# Frames that are one message and one record each.
_SINGLE = {
    _ACCOUNT: ("account", "LossAccount"),
    _SUMMARY: ("summary", "WatcherSummary"),
    _SESSION: ("session", "SessionEvent"),
}
# Lists of a Dictionary in the order in which they are reported.
_ENTRIES = (
    ("agents", "agent"),
    ("queues", "queue"),
    ("code_objects", "code_object"),
    ("kernels", "kernel"),
    ("session_plans", "session_plan"),
    ("api_functions", "api_function"),
    ("threads", "thread"),
    ("clocks", "clock"),
    ("windows", "window"),
)


def _int64(number):
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _header_fields(header):
    """The fields of a recording, and what merging did to its clock."""
    if header is None:
        return {}
    fields = to_dict(header)
    sums = {"offset": [], "error": []}
    for argument in header.recorder_arguments:
        found = _MERGED_CLOCK.fullmatch(argument)
        if found:
            sums[found[1]].append(int(found[2]))
    if sums["offset"]:
        fields["merged_clock"] = {
            "offset_ns": _int64(sum(sums["offset"])),
            "error_ns": sum(sums["error"]) % (1 << 64),
        }
    return fields


class StreamError(ValueError):
    """The input is not a recording: it contains no intact frame."""


@dataclasses.dataclass
class ReadStats:
    """The results of reading so far."""

    bytes: int = 0
    frames: int = 0  # intact and understood
    recordings: int = 0
    recordings_ended: int = 0  # with their end frame
    records: int = 0  # dispatches, copies, counter values, samples, API calls
    # Damage.
    skipped_bytes: int = 0
    missing_frames: int = 0  # by sequence numbers
    lost_records: int = 0  # known from headers of damaged frames: at least
    undecodable_frames: int = 0
    unknown_frames: int = 0  # of a newer version

    @property
    def damaged(self):
        """Something is missing that had been written. A recording that has no end yet,
        or was joined in the middle, is not damaged."""
        return bool(self.skipped_bytes or self.missing_frames or self.undecodable_frames)


@dataclasses.dataclass
class _StreamState:
    next_sequence: int = 0
    # Everything in the stream so far has been read: key frames add nothing new.
    complete: bool = False
    heard: bool = False  # … and that was so once before
    key_parts: int = 0  # parts of the current key frame heard in a row


class Decoder:
    """Push bytes in with feed() and finish(), each of which yields records.

    A record is a dictionary with the keys of `rocattach dump --json`.
    """

    def __init__(self, check_payloads=True):
        self.stats = ReadStats()
        self._scanner = Scanner(check_payloads)
        self._names = Names()
        self._in_recording = False
        self._ended = False
        self._from_beginning = False
        self._recording_id = b""
        self._recording_frames = 0
        self._recording_missing = 0
        self._streams = {}
        # The place of the current frame.
        self._recording = self._stream = self._offset = 0

    def feed(self, data):
        self.stats.bytes += len(data)
        self._scanner.append(data)
        yield from self._pull()

    def finish(self):
        """The input ends here."""
        self._scanner.finish()
        yield from self._pull()
        yield from self._end_recording()

    def _pull(self):
        for found in self._scanner.pull():
            if isinstance(found, Frame):
                yield from self._frame(found)
            else:
                yield from self._skipped(found)

    def _record(self, kind, fields, repeated=False):
        record = {"type": kind, "recording": self._recording, "stream": self._stream}
        if repeated:
            record["repeated"] = True
        record.update(fields)
        if "type" in fields:
            record["type"], record[kind + "_type"] = kind, fields["type"]
        return record

    def _damage(self, kind, what, **fields):
        record = self._record("damage", {"kind": kind, "offset": self._offset})
        record.update(bytes=0, frames=0, records=0, at_end=False, what=what)
        record.update(fields)
        return record

    def _skipped(self, skip):
        self.stats.skipped_bytes += skip.bytes
        self.stats.lost_records += skip.damaged_records
        what = (
            "are the beginning of a frame that was cut off"
            if skip.at_end
            else "belong to no intact frame"
        )
        yield self._damage(
            "skipped_bytes", f"{skip.bytes} bytes at offset {skip.offset} {what}",
            offset=skip.offset, bytes=skip.bytes, frames=skip.damaged_frames,
            records=skip.damaged_records, at_end=skip.at_end)  # fmt: skip

    def _frame(self, frame):
        self._stream, self._offset = frame.stream, frame.offset
        if frame.version != VERSION or frame.type not in _KNOWN_TYPES:
            yield from self._place(frame)
            yield from self._check_sequence(frame)[1]
            self.stats.unknown_frames += 1
            yield self._damage(
                "unknown_frame", f"frame of version {frame.version}, type {frame.type} "
                "is not known to this program: skipped",
                records=frame.records)  # fmt: skip
            return
        try:
            yield from self._payload(frame, uncompress(frame.codec, frame.payload))
            self.stats.frames += 1
        except PayloadError as error:
            self.stats.undecodable_frames += 1
            self.stats.lost_records += frame.records
            yield self._damage(
                "undecodable_frame", f"frame at offset {frame.offset}: {error}",
                bytes=frame.size, frames=1, records=frame.records)  # fmt: skip

    def _payload(self, frame, payload):
        if frame.type == _HEADER:
            yield from self._stream_header(frame, payload)
            return
        if frame.type in (_DICTIONARY, _KEY_FRAME):
            yield from self._dictionary(frame, payload)
            return
        yield from self._place(frame)
        yield from self._check_sequence(frame)[1]
        if frame.type in _SINGLE:
            kind, message = _SINGLE[frame.type]
            yield self._record(kind, to_dict(parse(message, payload)))
        elif frame.type == _EVENT:
            yield from self._event(payload)
        elif frame.type == _END:
            yield from self._stream_end(payload)
        else:
            yield from self._batch(frame, payload)

    def _place(self, frame, recording_id=b"", header=None):
        """Which recording the frame belongs to. Begins a new one if the id differs, after
        an end frame, and where a sequence number goes backwards."""
        begins = not self._in_recording or self._ended
        if not begins and recording_id and self._recording_id:
            begins = recording_id != self._recording_id
        state = self._streams.get(frame.stream)
        if not begins and state is not None:
            begins = (frame.sequence - state.next_sequence) & 0xFFFFFFFF >= 1 << 31
        if not begins:
            self._recording_id = self._recording_id or recording_id
            self._recording_frames += 1
            return
        yield from self._end_recording()
        self._in_recording = True
        self._recording_id = recording_id
        self._recording_frames = 1
        self._recording_missing = 0
        self._from_beginning = header is not None and frame.sequence == 0
        self._recording = self.stats.recordings
        self.stats.recordings += 1
        self._names = Names()
        yield self._record("recording", _header_fields(header))
        if not self._from_beginning:
            yield self._damage(
                "no_beginning", "the recording's first frames are not there"
            )

    def _end_recording(self):
        if not self._in_recording:
            return
        self._in_recording = False
        self._streams = {}
        ended, self._ended = self._ended, False
        if not ended:
            yield self._damage(
                "no_end",
                "the recording has no end frame: the recorder was killed, or still runs",
            )

    def _check_sequence(self, frame):
        """The stream's state, and the damage records of a gap."""
        state = self._streams.get(frame.stream)
        is_new = state is None
        if is_new:
            state = _StreamState()
            if len(self._streams) >= _MAX_TRACKED_STREAMS:
                return state, []
            self._streams[frame.stream] = state
        gap = (frame.sequence - state.next_sequence) & 0xFFFFFFFF
        state.next_sequence = (frame.sequence + 1) & 0xFFFFFFFF
        if gap == 0:
            return state, []
        state.complete = False
        # For a reader that joins in the middle, what came before is not missing.
        if is_new and not self._from_beginning:
            return state, []
        self.stats.missing_frames += gap
        self._recording_missing += gap
        what = f"{gap} frames of stream {frame.stream} are missing"
        return state, [
            self._damage(
                "missing_frames", f"{what} before offset {frame.offset}", frames=gap
            )
        ]

    def _stream_header(self, frame, payload):
        try:
            header = parse("StreamHeader", payload)
        except PayloadError:
            yield from self._place(frame)
            yield from self._check_sequence(frame)[1]
            raise
        yield from self._place(frame, header.recording_id, header)
        yield from self._check_sequence(frame)[1]

    def _dictionary(self, frame, payload):
        try:
            entries = parse("Dictionary", payload)
        except PayloadError:
            yield from self._place(frame)
            yield from self._check_sequence(frame)[1]
            raise
        yield from self._place(frame, entries.recording_id)
        state, gap = self._check_sequence(frame)
        yield from gap
        if frame.type == _DICTIONARY:
            yield from self._entries(entries, False)
            return
        if state.complete:
            return
        yield from self._entries(entries, state.heard)
        if entries.part == 0:
            state.key_parts = 0
        if entries.part == state.key_parts:
            state.key_parts += 1
        if state.key_parts == entries.parts:
            state.complete = state.heard = True

    def _entries(self, entries, repeated):
        if entries.HasField("process"):
            yield self._record("process", to_dict(entries.process), repeated)
        for field, kind in _ENTRIES:
            for entry in getattr(entries, field):
                fields = to_dict(entry)
                self._remember(kind, entry, fields)
                yield self._record(kind, fields, repeated)
        if entries.HasField("sampling"):
            yield self._record("sampling", to_dict(entries.sampling), repeated)
        if entries.HasField("account"):
            yield self._record("account", to_dict(entries.account), repeated)
        if entries.HasField("end"):
            yield self._record("process_end", to_dict(entries.end), repeated)

    def _remember(self, kind, entry, fields):
        if kind == "kernel":
            name = fields["display_name"] = demangle(entry.name)
            self._names.add_kernel(self._stream, entry.id, name)
        elif kind == "session_plan":
            self._names.add_plan(self._stream, entry.id, entry.counters)
        elif kind == "api_function":
            self._names.add_function(
                self._stream, entry.domain, entry.function, entry.name
            )

    def _event(self, payload):
        event = parse("Event", payload)
        what = event.WhichOneof("what")
        if what is None:
            self.stats.unknown_frames += 1  # an event of a newer version
            return
        kind = "process_end" if what == "end" else what
        yield self._record(kind, to_dict(getattr(event, what)))

    def _batch(self, frame, payload):
        def kernel(number):
            return self._names.kernel(frame.stream, number)

        def counter(plan, index):
            return self._names.counter(frame.stream, plan, index)

        def function(domain, number):
            return self._names.function(frame.stream, domain, number)

        if frame.type == _DISPATCHES:
            kind, records = "dispatch", batches.dispatches(payload, kernel)
        elif frame.type == _COPIES:
            kind, records = "copy", batches.copies(payload)
        elif frame.type == _API_CALLS:
            kind, records = "api_call", batches.api_calls(payload, function)
        elif frame.type == _MEMORY:
            kind, records = "memory", batches.memory(payload)
        else:
            samples = frame.type == _SAMPLES
            kind = "sample" if samples else "counter"
            records = batches.counters(payload, samples, kernel, counter)
        self.stats.records += len(records)
        for record in records:
            yield self._record(kind, record)

    def _stream_end(self, payload):
        end = parse("StreamEnd", payload)
        self._ended = True
        self.stats.recordings_ended += 1
        # Frames that were the last of their streams leave no gap; the totals reveal them.
        missing = end.frames + end.frames_dropped + 1
        missing -= self._recording_frames + self._recording_missing
        if self._from_beginning and missing > 0:
            self.stats.missing_frames += missing
            yield self._damage(
                "missing_frames", f"{missing} frames are missing at stream ends",
                frames=missing)  # fmt: skip
        yield self._record("recording_end", to_dict(end))


def _pieces(source):
    """Bytes of a path, or of a file object, as they arrive."""
    if hasattr(source, "read"):
        read = getattr(source, "read1", source.read)  # a pipe: what is there
        while data := read(_READ_BYTES):
            yield data
        return
    with open(source, "rb") as file:
        yield from _pieces(file)


class Reader:
    """Iterate over it for the records of a file, path or binary file object.

    Memory is bounded whatever the bytes are. `stats` has the results so far. Raises
    StreamError at the end of an input without a single intact frame.
    """

    def __init__(self, source, check_payloads=True):
        self._source = source
        self._decoder = Decoder(check_payloads)

    @property
    def stats(self):
        return self._decoder.stats

    def __iter__(self):
        for data in _pieces(self._source):
            yield from self._decoder.feed(data)
        yield from self._decoder.finish()
        if not self.stats.frames:
            raise StreamError(
                "no intact frame: this is not a rocattach stream"
                if self.stats.bytes
                else "the stream is empty"
            )


def frames(source, check_payloads=True):
    """Yields Frame and SkippedRange in the order of the input: for tools that need no
    records. uncompress(frame.codec, frame.payload) gives a frame's message."""
    scanner = Scanner(check_payloads)
    for data in _pieces(source):
        scanner.append(data)
        yield from scanner.pull()
    scanner.finish()
    yield from scanner.pull()
