"""The Parquet files of a table. A file is written once, under a name of its own, and counts when it is committed."""

from __future__ import annotations

import datetime as dt
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.streams.delta.storage import TableStorage

PREFIX = "kvformat-"
"""The beginning of the names of our files. Vacuum removes no others that are in no commit."""
TARGET_BYTES = 2**24
"""Size of a file, in bytes. A merge writes whole files, so small files make it cheap."""
_IN_MEMORY = 4  # bytes of Arrow arrays that become one byte of Parquet, about
_LONGEST_TEXT = 64  # characters of a text in the statistics; longer ones have none


@dataclass(frozen=True)
class DataFile:
    """A file of a table.

    size: in bytes. rows: their number, None if it is not known. low, high: the least and greatest values by column, of
    the columns that have them; dates as numbers of days. stats: the statistics of a new file, as JSON of Delta.
    """

    name: str
    size: int
    rows: int | None
    low: dict[str, Any] = field(default_factory=dict)
    high: dict[str, Any] = field(default_factory=dict)
    stats: str = "{}"
    written: int = 0


def write_file(storage: TableStorage, rows: pa.Table) -> DataFile:
    """Write rows to a new file."""
    name = f"{PREFIX}{uuid.uuid4()}.parquet"
    collector: list[Any] = []
    files = storage.files()
    try:
        with files.open_output_stream(name) as sink:
            pq.write_table(rows, sink, compression="snappy", store_schema=False, metadata_collector=collector)
            size = sink.tell()
    except OSError:  # the disk may be full, and a part of the file would stay
        with suppress(OSError):
            files.delete_file(name)
        raise
    return DataFile(name, size, rows.num_rows, stats=_statistics(collector[0]), written=int(time.time() * 1000))


def write_files(storage: TableStorage, rows: pa.Table, keys: Sequence[str], size: int) -> list[DataFile]:
    """Write rows to files of about `TARGET_BYTES`; `size` is the expected size of all.

    Several files have sorted keys, except for nested ones, which Arrow can't sort and which have no statistics.
    A file is split if it has more than twice that size: so a file that grows is not split in each batch.
    """
    count = max(1, int(size / TARGET_BYTES)) if size > 2 * TARGET_BYTES else 1
    by = [key for key in keys if not pa.types.is_nested(rows.schema.field(key).type)]
    if count > 1 and by:
        rows = rows.take(pc.sort_indices(rows.select(by), [(key, "ascending") for key in by]))
    step = max(1, -(-rows.num_rows // count))
    return [write_file(storage, rows.slice(start, step)) for start in range(0, rows.num_rows, step)]


def written_batches(storage: TableStorage, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[DataFile]:
    """Write the rows of a task to files of about `TARGET_BYTES`."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(rows.nbytes for rows in waiting) >= TARGET_BYTES * _IN_MEMORY:
            yield write_file(storage, conformed(pa.Table.from_batches(waiting), schema))
            waiting = []
    if sum(rows.num_rows for rows in waiting):
        yield write_file(storage, conformed(pa.Table.from_batches(waiting), schema))


def expected_size(rows: pa.Table, file: DataFile | None = None) -> int:
    """Return the size of rows as Parquet: as in the file that they are from, otherwise a guess."""
    if file is not None and file.rows:
        return file.size * int(rows.num_rows) // file.rows
    return int(rows.nbytes) // _IN_MEMORY


def read_file(storage: TableStorage, name: str, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a file with the columns of a schema, or some of them."""
    with storage.files().open_input_file(name) as source, pq.ParquetFile(source) as file:
        rows = file.read(columns=None if columns is None else list(columns))
    return conformed(rows, schema if columns is None else pa.schema([schema.field(name) for name in columns]))


def has_order(t: pa.DataType) -> bool:
    """Whether the least and greatest values of a file are exact, whoever wrote it. Those of times may be rounded."""
    is_text = pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)
    return bool(pa.types.is_integer(t) or is_text or pa.types.is_date32(t))


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with exactly the columns of a schema. A column that the rows lack is NULL.

    Raises `ConfigurationError` for NULL in a column that is NOT NULL.
    """
    columns = []
    for wanted in schema:
        place = rows.schema.get_field_index(wanted.name)
        values = pa.nulls(rows.num_rows, wanted.type) if place < 0 else rows.column(place)
        if values.type != wanted.type or _names(values.type) != _names(wanted.type):
            values = values.cast(wanted.type)
        if not wanted.nullable and values.null_count:
            raise ConfigurationError(
                f"the column {wanted.name!r} of the table is NOT NULL, and {values.null_count} rows have no value for "
                "it: change the column (ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL), or give it values",
                field=wanted.name,
            )
        columns.append(values)
    return pa.table(columns, schema=schema)


def _names(t: pa.DataType) -> str:
    """Return a type with the names of its inner fields, which Parquet files of other writers call differently."""
    return str(t) if pa.types.is_nested(t) else ""


# --- statistics ------------------------------------------------------------------------------------------------


def _statistics(file: Any) -> str:
    """Return Delta's statistics of a file, from those of its Parquet columns: for plain columns only."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    silent: set[str] = set()  # columns without a least and a greatest value
    uncounted: set[str] = set()
    for group in range(file.num_row_groups):
        for number in range(file.num_columns):
            column = file.row_group(group).column(number)
            name = file.schema.column(number)
            if name.max_repetition_level or name.path != name.name:
                continue
            statistics = column.statistics
            if statistics is None or not statistics.has_null_count:
                silent.add(name.name)
                uncounted.add(name.name)
                continue
            nulls[name.name] = nulls.get(name.name, 0) + statistics.null_count
            if statistics.null_count == column.num_values:
                continue
            ends = _ends(statistics)
            if not all(map(_is_shown, ends)):
                silent.add(name.name)
                continue
            low[name.name] = min(low.get(name.name, ends[0]), ends[0])
            high[name.name] = max(high.get(name.name, ends[1]), ends[1])
    plain = [name for name in low if name not in silent]
    stats = {
        "numRecords": file.num_rows,
        "minValues": {name: _shown(low[name]) for name in plain},
        "maxValues": {name: _shown(high[name]) for name in plain},
        "nullCount": {name: count for name, count in nulls.items() if name not in uncounted},
    }
    return json.dumps(stats, ensure_ascii=False)


def _ends(statistics: Any) -> tuple[Any, Any]:
    """Return the least and the greatest value. Without them, or outside of Python's years 1 to 9999: None for both."""
    try:
        return (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
    except (OverflowError, ValueError):
        return None, None


def _is_shown(value: Any) -> bool:
    """Whether a value is exact in JSON, and has the same order in all readers. Times of Delta have milliseconds."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT
    if isinstance(value, dt.datetime):
        return False
    return isinstance(value, int | dt.date) and not isinstance(value, bool)


def _shown(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value
