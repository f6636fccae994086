"""Records as pandas DataFrames, where pandas is installed."""

from .payload import MissingModuleError
from .reader import Reader

# The types that are read by default: the records, not the events.
RECORD_TYPES = ("dispatch", "copy", "counter", "sample", "api_call")
# Keys whose values have three parts, which become a column each.
_TRIPLES = ("grid", "workgroup")


def _pandas():
    try:
        import pandas
    except ImportError as error:
        raise MissingModuleError(
            "data frames need pandas (Debian: python3-pandas; pip install pandas)"
        ) from error
    return pandas


class _Columns:
    """Records of one type, column by column: a third of the memory of dictionaries."""

    def __init__(self):
        self._columns = {}
        self._rows = 0

    def add(self, record):
        for key, value in record.items():
            if key in _TRIPLES:
                for axis, part in zip("xyz", value):
                    self._put(f"{key}_{axis}", part)
            else:
                self._put(key, value)
        self._rows += 1

    def _put(self, key, value):
        column = self._columns.setdefault(key, [])
        if len(column) < self._rows:  # earlier records did not have it
            column.extend([None] * (self._rows - len(column)))
        column.append(value)

    def frame(self, pandas):
        for column in self._columns.values():
            column.extend([None] * (self._rows - len(column)))
        return pandas.DataFrame(self._columns)


def data_frames(source, types=RECORD_TYPES, check_payloads=True):
    """Reads a recording, a path or binary file object, into DataFrames.

    Returns a dictionary with a DataFrame for each of `types` (as in `rocattach dump
    --type`), empty if there are no such records. The columns are the keys of `rocattach
    dump --json`, with `pid` and `process` of the stream; `grid` and `workgroup` are three
    columns each. `attrs["stats"]` of each has the ReadStats: check `damaged`.

    Unlike Reader it keeps everything in memory.
    """
    pandas = _pandas()
    if isinstance(types, str):
        types = (types,)
    tables = {kind: _Columns() for kind in types}
    processes = {}
    reader = Reader(source, check_payloads)
    for record in reader:
        kind = record["type"]
        place = (record["recording"], record["stream"])
        if kind == "process":
            processes[place] = (record["pid"], record["comm"])
        table = tables.get(kind)
        if table is None or record.get("repeated"):
            continue
        fields = {key: value for key, value in record.items() if key != "type"}
        if kind in RECORD_TYPES:
            fields["pid"], fields["process"] = processes.get(place, (0, ""))
        table.add(fields)
    frames = {kind: table.frame(pandas) for kind, table in tables.items()}
    for frame in frames.values():
        frame.attrs["stats"] = reader.stats
    return frames
