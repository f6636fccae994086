"""Batches: columns put together again as records. schemas/records.proto has the rules."""

import struct

from .frames import MAX_BATCH_RECORDS
from .payload import PayloadError, parse, short_name

_MASK64 = (1 << 64) - 1
_SLOTS = 64
_UNTIMED, _APPLICATION_SIGNAL, _UNFINISHED = 1, 2, 4
_HAS_TEXT, _TEXT_CUT, _ARGUMENTS = 1, 2, 4
_WHOLE, _WHOLE_INSTANCES = 1, 2
_MAX_INSTANCES = 1 << 20
_MAX_WHOLE = float(1 << 53)
# Dimensions of an instance's position: name, lowest bit, bits.
_PLACES = (("xcc", 42, 6), ("aid", 36, 6), ("shader_engine", 30, 6),
           ("shader_array", 24, 6), ("wgp", 16, 8), ("instance", 0, 16))  # fmt: skip


class _Columns:
    """The columns of one batch, each checked: absent (zeros), or one entry a row."""

    def __init__(self, name, payload):
        self._batch = parse(name, payload)
        # Only a CounterBatch has operations.
        by_operation = hasattr(self._batch, "operations")
        self.operations = self._batch.operations if by_operation else 0
        self.count = self._batch.records if by_operation else self._batch.count
        self.shapes = self._batch.shapes
        if self.count > MAX_BATCH_RECORDS:
            raise PayloadError(f"batch claims {self.count} records")
        if self.shapes > self.count:
            raise PayloadError(
                f"batch claims {self.shapes} shapes for {self.count} records"
            )
        if self.operations > self.count:
            raise PayloadError(
                f"batch claims {self.operations} operations for {self.count} records"
            )
        if by_operation:
            self.lengths, self.shape = self._rows()
            return
        self.shape = self.column("shape")
        for index, shape in enumerate(self.shape):
            if shape >= self.shapes:
                raise PayloadError(f"record {index} has no shape")

    def _rows(self):
        """The number of records of each operation, and the shape of each record."""
        patterns, begin = [], 0
        for length in self._batch.pattern_length:
            patterns.append(range(begin, begin + length))
            begin += length
            if not 0 < begin <= self.shapes:
                break
        if begin != self.shapes or len(patterns) != len(self._batch.pattern_length) or not all(
            patterns
        ):
            raise PayloadError(f"patterns of {begin} shapes in a batch of {self.shapes}")
        lengths, shapes = [], []
        for index, pattern in enumerate(self.operation_column("pattern")):
            if pattern >= len(patterns):
                raise PayloadError(f"operation {index} has no pattern")
            lengths.append(len(patterns[pattern]))
            shapes.extend(patterns[pattern])
            if len(shapes) > self.count:
                break
        if len(shapes) != self.count or len(lengths) != self.operations:
            raise PayloadError(
                f"operations have not {self.count} records, as the batch claims"
            )
        return lengths, shapes

    def operation_column(self, name):
        """A column with an entry for each operation."""
        return self._column(name, self.operations)

    def column(self, name):
        return self._column(name, self.shapes if name.startswith("shape_") else self.count)

    def _column(self, name, rows):
        values = list(getattr(self._batch, name))
        if values and len(values) != rows:
            raise PayloadError(f"column {name} has {len(values)} entries for {rows} rows")
        return values or [0] * rows

    def columns(self, *names):
        return [self.column(name) for name in names]

    def has_dispatch_ids(self):
        return self._batch.dispatch_ids or len(self._batch.dispatch) > 0

    def texts(self):
        return list(self._batch.text)

    def lists(self):
        """The lists of instances' positions, and the column of their values."""
        lengths = list(self._batch.list_length)
        positions = list(self._batch.list_position)
        if sum(lengths) > _MAX_INSTANCES or (positions and len(positions) != sum(lengths)):
            raise PayloadError(
                f"lists of {sum(lengths)} instances have {len(positions)} positions")
        positions = positions or [0] * sum(lengths)
        lists, begin = [[]], 0
        for length in lengths:
            lists.append(positions[begin : begin + length])
            begin += length
        shape_list = self.column("shape_list")
        total = 0
        for index, shape in enumerate(self.shape):
            if shape_list[shape] >= len(lists):
                raise PayloadError(f"record {index} has no list")
            total += len(lists[shape_list[shape]])
        values = list(self._batch.instance_change)
        if total > _MAX_INSTANCES or (values and len(values) != total):
            raise PayloadError(f"batch has {len(values)} values of {total} instances")
        return [lists[number] for number in shape_list], iter(values or [0] * total)


def _flags(flags):
    return {
        "untimed": bool(flags & _UNTIMED),
        "application_signal": bool(flags & _APPLICATION_SIGNAL),
        "unfinished": bool(flags & _UNFINISHED),
    }


def _times(enqueue, start, end):
    return {
        "enqueue_ns": enqueue,
        "start_ns": start,
        "end_ns": end,
        "duration_ns": max(end - start, 0),
    }


def dispatches(payload, kernel_name):
    """The records of a DispatchBatch; kernel_name(id) gives names."""
    batch = _Columns("DispatchBatch", payload)
    flags, kernel, queue, agent, tid, lds, scratch, stream = batch.columns(
        "shape_flags", "shape_kernel_id", "shape_queue_id", "shape_agent_id",
        "shape_tid", "shape_lds_bytes", "shape_scratch_bytes",
        "shape_hip_stream")  # fmt: skip
    grids = list(zip(*batch.columns("shape_grid_x", "shape_grid_y", "shape_grid_z")))
    groups = list(
        zip(*batch.columns("shape_workgroup_x", "shape_workgroup_y", "shape_workgroup_z"))
    )
    columns = batch.columns(
        "correlation", "enqueue", "start", "duration", "packet", "dispatch")  # fmt: skip
    numbered = batch.has_dispatch_ids()
    correlation = enqueue = dispatch = 0
    last_end, last_packet = [0] * _SLOTS, [0] * _SLOTS
    records = []
    for shape, d_correlation, d_enqueue, d_start, duration, d_packet, d_dispatch in zip(
        batch.shape, *columns
    ):
        dispatch = (dispatch + 1 + d_dispatch) & _MASK64
        correlation = (correlation + 1 + d_correlation) & _MASK64
        enqueue = (enqueue + d_enqueue) & _MASK64
        slot = queue[shape] % _SLOTS
        predicted = 0 if flags[shape] & _UNTIMED else max(enqueue, last_end[slot])
        start = (predicted + d_start) & _MASK64
        end = (start + duration) & _MASK64
        packet = (last_packet[slot] + 1 + d_packet) & _MASK64
        last_end[slot] = max(last_end[slot], end)
        last_packet[slot] = packet
        record = {
            "correlation_id": correlation,
            "kernel": kernel_name(kernel[shape]),
            "kernel_id": kernel[shape],
            "agent_id": agent[shape] & 0xFFFF,
            "queue_id": queue[shape],
            "tid": tid[shape],
        }
        record.update(_times(enqueue, start, end))
        record["grid"] = list(grids[shape])
        record["workgroup"] = [size & 0xFFFF for size in groups[shape]]
        record["lds_bytes"] = lds[shape]
        record["scratch_bytes"] = scratch[shape]
        record["packet_index"] = 0 if stream[shape] else packet
        if stream[shape]:
            record["hip_stream"] = stream[shape] - 1
        if numbered and dispatch != 0:
            record["dispatch_id"] = dispatch
        record.update(_flags(flags[shape]))
        records.append(record)
    return records


def copies(payload):
    """The records of a CopyBatch."""
    batch = _Columns("CopyBatch", payload)
    flags, source, target, direction, engine, tid, stream = batch.columns(
        "shape_flags", "shape_src_agent_id", "shape_dst_agent_id", "shape_direction",
        "shape_engine", "shape_tid", "shape_hip_stream")  # fmt: skip
    columns = batch.columns("correlation", "enqueue", "start", "duration",
        "bytes_change", "src_address_change", "dst_address_change")  # fmt: skip
    correlation = enqueue = size = source_address = target_address = 0
    last_end = [0] * _SLOTS
    records = []
    for row in zip(batch.shape, *columns):
        shape, d_correlation, d_enqueue, d_start, duration, d_size, d_source, d_target = row
        correlation = (correlation + 1 + d_correlation) & _MASK64
        enqueue = (enqueue + d_enqueue) & _MASK64
        way = direction[shape] & 0xFFFF
        slot = way % _SLOTS
        predicted = 0 if flags[shape] & _UNTIMED else max(enqueue, last_end[slot])
        start = (predicted + d_start) & _MASK64
        end = (start + duration) & _MASK64
        last_end[slot] = max(last_end[slot], end)
        size = (size + d_size) & _MASK64
        source_address = (source_address + d_source) & _MASK64
        target_address = (target_address + d_target) & _MASK64
        record = {
            "correlation_id": correlation,
            "direction": short_name("CopyDirection", way),
            "engine": short_name("CopyEngine", engine[shape] & 0xFFFF),
            "bytes": size,
            "src_agent_id": source[shape] & 0xFFFF,
            "dst_agent_id": target[shape] & 0xFFFF,
            "tid": tid[shape],
        }
        record.update(_times(enqueue, start, end))
        record["src_address"] = source_address
        record["dst_address"] = target_address
        if stream[shape]:
            record["hip_stream"] = stream[shape] - 1
        record.update(_flags(flags[shape]))
        records.append(record)
    return records


def _value(bits, whole):
    packed = struct.pack("<Q", bits)
    return struct.unpack("<q" if whole else "<d", packed)[0]


def _middle(bits, whole, instances):
    """The number from which minimum and maximum are measured."""
    if not whole:
        return bits if instances == 1 else 0
    total = float(_value(bits, whole))
    if instances == 0 or not abs(total) < _MAX_WHOLE:
        return 0
    return int(total * (1.0 / instances)) & _MASK64


def counters(payload, samples, kernel_name, counter_name):
    """The records of a CounterBatch, of dispatches or of samples."""
    batch = _Columns("CounterBatch", payload)
    shapes = list(
        zip(*batch.columns("shape_flags", "shape_session", "shape_plan", "shape_pass",
            "shape_counter", "shape_agent_id", "shape_kernel_id",
            "shape_instances"))  # fmt: skip
    )
    changes_of_values = zip(*batch.columns("sum_change", "below_change", "above_change"))
    operation = begin = 0
    last = [[0, 0, 0] for _ in range(batch.shapes)]
    lists, changes_of_instances = batch.lists()
    last_instances = [[0] * len(positions) for positions in lists]
    spans = []
    for length, d_operation, d_begin, duration in zip(
        batch.lengths,
        *(batch.operation_column(name) for name in ("operation_change", "begin", "duration"))
    ):
        operation = (operation + d_operation) & _MASK64
        begin = (begin + d_begin) & _MASK64
        spans.extend([(operation, begin, duration)] * length)
    records = []
    for shape, (operation, begin, duration), changes in zip(
        batch.shape, spans, changes_of_values
    ):
        flags, session, plan, turn, counter, agent, kernel, instances = shapes[shape]
        words = last[shape] = [(a + b) & _MASK64 for a, b in zip(last[shape], changes)]
        middle = _middle(words[0], flags & _WHOLE, instances)
        words = [words[0], (middle - words[1]) & _MASK64, (middle + words[2]) & _MASK64]
        total, minimum, maximum = (_value(word, flags & _WHOLE) for word in words)
        if samples:
            record = {"sample_id": operation, "agent_id": agent & 0xFFFF,
                      "begin_ns": begin,
                      "end_ns": (begin + duration) & _MASK64}  # fmt: skip
        else:
            record = {"correlation_id": operation, "kernel": kernel_name(kernel),
                      "kernel_id": kernel, "agent_id": agent & 0xFFFF}  # fmt: skip
        record.update(
            counter=counter_name(plan, counter & 0xFFFF), counter_index=counter & 0xFFFF,
            sum=total, min=minimum, max=maximum, instances=instances,
            session=session, plan=plan)  # fmt: skip
        record["pass"] = turn & 0xFFFF
        if lists[shape]:
            values = last_instances[shape]
            each = []
            for index, position in enumerate(lists[shape]):
                values[index] = (values[index] + next(changes_of_instances)) & _MASK64
                place = {
                    name: position >> low & ((1 << bits) - 1) for name, low, bits in _PLACES
                }
                place["value"] = _value(values[index], flags & _WHOLE_INSTANCES)
                each.append(place)
            record["each"] = each
        records.append(record)
    return records


def api_calls(payload, function_name):
    """The records of an ApiCallBatch."""
    batch = _Columns("ApiCallBatch", payload)
    shapes = list(
        zip(*batch.columns("shape_flags", "shape_session", "shape_domain",
            "shape_function", "shape_tid"))  # fmt: skip
    )
    columns = batch.columns("correlation", "begin", "duration", "ancestor")
    texts = iter(batch.texts())
    correlation = begin = 0
    records = []
    for shape, d_correlation, d_begin, duration, ancestor in zip(batch.shape, *columns):
        flags, session, domain, function, tid = shapes[shape]
        correlation = (correlation + 1 + d_correlation) & _MASK64
        begin = (begin + d_begin) & _MASK64
        end = (begin + duration) & _MASK64
        domain, function = domain & 0xFFFF, function & 0xFFFF
        text = next(texts, None) if flags & _HAS_TEXT else ""
        if text is None:
            raise PayloadError(f"record {len(records)} has no shape, or no text")
        record = {
            "domain": short_name("ApiDomain", domain),
            "function": function_name(domain, function),
            "function_id": function,
            "correlation_id": correlation,
            "ancestor_id": (correlation + ancestor) & _MASK64 if ancestor else 0,
            "tid": tid,
            "begin_ns": begin,
            "end_ns": end,
            "duration_ns": max(end - begin, 0),
            "session": session,
        }
        if text:
            record["arguments" if flags & _ARGUMENTS else "text"] = text
        if flags & _TEXT_CUT:
            record["text_cut"] = True
        records.append(record)
    return records


def memory(payload):
    """The records of a MemoryBatch."""
    batch = _Columns("MemoryBatch", payload)
    shapes = list(
        zip(*batch.columns("shape_operation", "shape_session", "shape_agent_id",
            "shape_queue_id", "shape_scratch_flags", "shape_tid"))  # fmt: skip
    )
    columns = batch.columns("correlation", "begin", "duration", "address_change", "bytes")
    correlation = begin = address = 0
    records = []
    for shape, d_correlation, d_begin, duration, d_address, size in zip(
        batch.shape, *columns
    ):
        operation, session, agent, queue, flags, tid = shapes[shape]
        correlation = (correlation + 1 + d_correlation) & _MASK64
        begin = (begin + d_begin) & _MASK64
        end = (begin + duration) & _MASK64
        address = (address + d_address) & _MASK64
        records.append({
            "operation": short_name("MemoryOperation", operation & 0xFFFF),
            "address": address,
            "bytes": size,
            "agent_id": agent & 0xFFFF,
            "correlation_id": correlation,
            "tid": tid,
            "begin_ns": begin,
            "end_ns": end,
            "duration_ns": max(end - begin, 0),
            "queue_id": queue,
            "scratch_flags": flags & 0xFFFF,
            "session": session,
        })  # fmt: skip
    return records
