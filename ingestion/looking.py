"""Look at the records of a batch, in Spark: the table of each record, and what its message contributes to schemas.

    key, value, topic, ...   ->   _kvformat_table, _kvformat_packed, _kvformat_news

One Python stage reads the bytes once. The records are packed by table (`packing.py`), with the name of the table (the
JSON of its parts). A record whose table can't be told gets an error. A record without rows, such as a heartbeat, is
left out. At the end, each task adds one line of news: which tables it saw, and their new columns, keys and TRUNCATEs.

A table that an earlier batch has decoded is decoded at once, by the same decoder. Its rows are packed instead of its
records, and the records that are bad. Of rows with the same key the decoder gives only the last one, if the target
takes no others: for an update in Debezium's form one row and not two. If a record changes the schema of the table, the
look is repeated without decoders: the rows must be those of the new schema.

Rows of small tables are returned to the driver together with the news, so that one job is enough for many tables. All
tasks return at most `returned_bytes`; the rows of other tables stay in the lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.discovery.text_forms import merged_forms
from kvformat.ingestion.decoded_rows import POSITION, ROW_ERROR
from kvformat.ingestion.packing import PACKED, by_table, pack, unpack, unpacked_cells
from kvformat.ingestion.pipeline.declared_columns import DeclaredColumns
from kvformat.ingestion.planning import BatchNews, NewColumn, NewKey, WholeTableChange
from kvformat.ingestion.schemas.known import IngestState
from kvformat.ingestion.schemas.state import Cause
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.look import KnownTable, Looked, LookRequest, SeenColumn
from kvformat.registry.contract.normalize_input import binary_messages
from kvformat.registry.format import Format
from kvformat.registry.table.record_headers import headers_of, with_header

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from kvformat.ingestion.range_reader import RangeReader

TABLE, NEWS = "_kvformat_table", "_kvformat_news"
DECODED = "_kvformat_decoded"
"""Whether a cell has rows, and not records."""
RETURNED = "_kvformat_returned"
"""Whether the driver gets the line: it has news, or rows of a small table."""
ERROR = "_kvformat_error"
"""The column of the packed records with the error of a record without a table."""
_PLACE = ("topic", "partition", "offset")
RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of Spark's Kafka source that ingestion reads. The last two may be missing."""


def table_name(table: TableId) -> str:
    """Return the text of `_kvformat_table`."""
    return json.dumps(table.parts, ensure_ascii=False, separators=(",", ":"))


def table_of(name: str) -> TableId:
    """Return the table of a text of `_kvformat_table`."""
    return TableId(tuple(json.loads(name)))


class RecordDecoder(Protocol):
    """Decodes the records of a table."""

    def decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows, and a line with `_kvformat_error` and the position for each bad record."""


@dataclass(frozen=True)
class LookStage:
    """Looks at all records. `value` and `key` say what the messages are compared with; `key` is None without keys.

    The looker of keys gets the name of the record's table in place of the topic. decoders: the tables that are decoded.
    declared: says which members of messages are columns. returned_bytes: the most bytes of rows that all tasks return.
    tasks: their number, as far as it is known; ranges of offsets tell it. reader: reads the records of ranges.
    """

    value_format: Format
    value: LookRequest
    key_format: Format | None = None
    key: LookRequest | None = None
    decoders: Mapping[TableId, RecordDecoder] = field(default_factory=dict)
    declared: DeclaredColumns = field(default_factory=DeclaredColumns)
    returned_bytes: int = 0
    tasks: int = 1
    reader: RangeReader | None = None

    def knowing(self, state: IngestState) -> LookStage:
        """Return the stage that compares with the known tables of a state."""
        values = {table.parts: source.value for table, source in state.sources.items()}
        stage = replace(self, value=replace(self.value, known=values))
        if self.key is None:
            return stage
        keys: dict[tuple[str, ...], KnownTable] = {(table_name(t),): s.key for t, s in state.sources.items()}
        return replace(stage, key=replace(self.key, known=keys))

    def looked(self, records: DataFrame) -> Looking:
        """Look at records with `RECORD_COLUMNS`, or at those of ranges. Their other columns are packed, too."""
        from pyspark.sql import types as T

        types = {TABLE: T.StringType(), PACKED: T.BinaryType(), DECODED: T.BooleanType(), NEWS: T.StringType()}
        types[RETURNED] = T.BooleanType()
        lines = records.mapInArrow(self.mapped(), T.StructType([T.StructField(*field) for field in types.items()]))
        columns = records.schema if self.reader is None else self.reader.types
        packed = T.StructType([*columns.fields, T.StructField(ERROR, T.StringType())])
        return Looking(lines, packed, self.decoders)

    def mapped(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function for `mapInArrow`, with the name that Spark shows in plans."""

        def look_at_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            task = _TaskLook(self)
            for batch in batches:
                if self.reader is None:
                    yield from task.looked(batch)
                else:
                    task.limit(self.reader.tasks(batch))
                    for records in self.reader.read(batch):
                        yield from task.looked(records)
            yield from task.news_line()

        return look_at_records


@dataclass(frozen=True)
class Looking:
    """The lines of a look: packed records or rows, and news.

    records_type: the type of the packed records. decoders: what has decoded the packed rows. news: of all tasks. rows:
    those of tables whose rows are all in the driver, too. `run` gives both.
    """

    lines: DataFrame
    records_type: StructType
    decoders: Mapping[TableId, RecordDecoder]
    news: BatchNews = field(default_factory=BatchNews)
    rows: Mapping[TableId, pa.Table] = field(default_factory=dict)

    def run(self) -> Looking:
        """Return the look with the news of all tasks, and with the rows that they returned, by one job."""
        lines = self.lines.where(RETURNED).select(TABLE, PACKED, NEWS).toArrow()
        news = merged_news(lines[NEWS].drop_null().to_pylist())
        return replace(self, news=news, rows=_rows_by_table(lines, {table_name(table) for table in news.kept}))

    def fetched(self, tables: Iterable[TableId]) -> dict[TableId, pa.Table]:
        """Return the rows of tables that the look has decoded and not returned, by one job."""
        from pyspark.sql import functions as F

        names = [table_name(table) for table in tables]
        lines = self.lines.where(F.col(DECODED) & F.col(TABLE).isin(names)).select(TABLE, PACKED).toArrow()
        return _rows_by_table(lines, set())

    def decoded_together(
        self, decoders: Mapping[TableId, RecordDecoder], returned_bytes: int
    ) -> dict[TableId, pa.Table]:
        """Decode the records of some tables by one job, and return the rows of those that are small."""
        from pyspark.sql import functions as F

        tables = {table_name(table): decoder for table, decoder in decoders.items()}
        records = self.lines.where(~F.col(DECODED) & F.col(TABLE).isNotNull()).select(TABLE, PACKED)
        lines = records.mapInArrow(_decode_tables(tables, returned_bytes), records.schema).toArrow()
        kept = lines[TABLE].filter(lines[PACKED].is_null()).to_pylist()
        return _rows_by_table(lines, {*kept})

    def of_table(self, table: TableId) -> DataFrame:
        """Return the lines with the rows of a table, if the look has decoded it, otherwise with its records."""
        from pyspark.sql import functions as F

        is_decoded = F.col(DECODED) if table in self.decoders else ~F.col(DECODED)
        return self.lines.where((F.col(TABLE) == table_name(table)) & is_decoded)

    def without_table(self) -> DataFrame:
        """Return the lines with the records that have an error."""
        from pyspark.sql import functions as F

        return self.lines.where(F.col(TABLE).isNull() & F.col(NEWS).isNull())

    def unpacked(self, lines: DataFrame) -> DataFrame:
        """Return the records of those lines that have no rows."""
        from pyspark.sql import functions as F

        cells = lines.where(~F.col(DECODED)).select(PACKED)
        return cells.mapInArrow(_unpack_records, self.records_type)


def _unpack_records(lines: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return unpack(lines)


def _decode_tables(
    decoders: Mapping[str, RecordDecoder], returned_bytes: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` that decodes cells. A table whose rows are too many has a line with NULL."""

    def decode_tables(lines: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        returned = _Returned(returned_bytes)
        for batch in lines:
            parts = []
            for name, cell in zip(batch.column(TABLE).to_pylist(), batch.column(PACKED), strict=True):
                for records in unpacked_cells([cell]) if name in decoders else ():
                    rows = decoders[name].decoded(records)
                    if returned.takes(name, rows):
                        parts.append((name, rows))
            for of_cells, cells in pack(parts):
                yield pa.RecordBatch.from_arrays([of_cells, cells], [TABLE, PACKED])
        kept = pa.array(sorted(returned.kept), pa.string())
        yield pa.RecordBatch.from_arrays([kept, pa.nulls(len(kept), pa.binary())], [TABLE, PACKED])

    return decode_tables


class _Returned:
    """Which rows a task returns to the driver. kept: the tables of the others. sizes: the bytes of all, by table."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self.kept: set[str] = set()
        self.sizes: dict[str, int] = {}

    def takes(self, name: str, rows: pa.RecordBatch) -> bool:
        """Return whether rows of a table are returned, and count their bytes."""
        self.sizes[name] = self.sizes.get(name, 0) + rows.nbytes
        if name in self.kept or rows.nbytes > self._left:
            self.kept.add(name)
            return False
        self._left -= rows.nbytes
        return True


def _rows_by_table(lines: pa.Table, kept: Set[str]) -> dict[TableId, pa.Table]:
    """Return the rows of cells by their table, without those of some tables. Lines without a table have no rows."""
    rows: dict[str, list[pa.RecordBatch]] = {}
    for name, cell in zip(lines[TABLE].to_pylist(), lines[PACKED], strict=True):
        if name is not None and name not in kept:
            rows.setdefault(name, []).extend(unpacked_cells([cell]))
    return {table_of(name): pa.Table.from_batches(batches) for name, batches in rows.items()}


class _TaskLook:
    """The look of one Spark task: its lookers, and the news so far."""

    def __init__(self, stage: LookStage) -> None:
        self._values = stage.value_format.looker(stage.value)
        self._value_format, self._key_format, self._declared = stage.value_format, stage.key_format, stage.declared
        self._keys = None
        if stage.key_format is not None and stage.key is not None:
            self._keys = stage.key_format.looker(stage.key)
        self._tables: dict[str, Cause] = {}
        self._records: dict[str, int] = {}
        self._columns: dict[tuple[str, Part, str], NewColumn] = {}
        self._new_keys: dict[tuple[str, tuple[str, ...]], NewKey] = {}
        self._changes: list[WholeTableChange] = []
        self._errors, self._is_empty = 0, True
        self._decoders = {table_name(table): decoder for table, decoder in stage.decoders.items()}
        self._decoded: dict[str, int] = {}
        self._bad: dict[str, int] = {}
        self._most_returned = stage.returned_bytes
        self._returned = _Returned(stage.returned_bytes // stage.tasks)

    def limit(self, tasks: int) -> None:
        """Set how many tasks the look has, before its first records."""
        if self._is_empty:
            self._returned = _Returned(self._most_returned // tasks)

    def looked(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the records of a batch that have a table or an error, packed, or the rows of a table."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        values = _messages(batch, "value", self._value_format)
        look = self._with_columns("value", self._values.look(values, columns["topic"]))
        places = _Places(columns)
        names = [table_name(TableId(table)) for table in look.tables]
        tables = look.indices
        for message, kind in look.changes.items():
            table = TableId(look.tables[tables[message].as_py()])
            self._changes.append(WholeTableChange(table, kind, places.cause(message), places.time(message)))
        if look.changes:  # such a message has no rows
            gives_rows = pa.array([row not in look.changes for row in range(len(batch))])
            tables = pc.if_else(gives_rows, tables, pa.scalar(None, pa.int32()))
        self._note(look, tables, places)
        errors = pa.nulls(len(batch), pa.string())
        if look.errors:
            errors = pa.array([look.errors.get(i) for i in range(len(batch))], pa.string())
        kept = pc.or_(tables.is_valid(), errors.is_valid())
        if self._keys is not None:
            keys = _messages(batch, "key", self._key_format)
            self._look_at_keys(keys, pa.array(names, pa.string()).take(tables), places)
        records = pa.RecordBatch.from_arrays([*batch.columns, errors], [*batch.schema.names, ERROR])
        for column in look.columns:
            self._decoders.pop(table_name(TableId(column.table)), None)
        of_lines: dict[tuple[bool, bool], list[tuple[str | None, pa.RecordBatch]]] = {}
        for name, part in by_table(records, names, tables, kept):
            rows = None if name is None else self._rows(name, part)
            if name is not None and rows is not None:
                of_lines.setdefault((True, self._returned.takes(name, rows)), []).append((name, rows))
                part = self._bad_records(name, part, rows)
            of_lines.setdefault((False, False), []).append((name, part))
        for (is_decoded, is_returned), cells_of in of_lines.items():
            for of_cells, cells in pack(cells_of):
                flags = [pa.repeat(flag, len(cells)) for flag in (is_decoded, is_returned)]
                yield _lines(of_cells, cells, flags[0], pa.nulls(len(cells), pa.string()), flags[1])

    def _with_columns(self, part: Part, look: Looked) -> Looked:
        """Return what the messages contribute, without members that are not columns."""
        kept = tuple(column for column in look.columns if self._declared.is_column(part, column.name))
        return look if len(kept) == len(look.columns) else replace(look, columns=kept)

    def _rows(self, name: str, records: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the rows of a table's records; None if they are not decoded here."""
        decoder = self._decoders.get(name)
        if decoder is None or not len(records):
            return None
        self._decoded[name] = self._decoded.get(name, 0) + len(records)
        return decoder.decoded(records)

    def _bad_records(self, name: str, records: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records that are bad: the dead letters need them."""
        if rows.column(ROW_ERROR).null_count == len(rows):
            return records.slice(0, 0)
        bad = rows.filter(rows.column(ROW_ERROR).is_valid())
        self._bad[name] = self._bad.get(name, 0) + len(bad)
        places = {*zip(*(bad.column(column).to_pylist() for column in POSITION), strict=True)}
        of_records = zip(*(records.column(column).to_pylist() for column in _PLACE), strict=True)
        return records.filter(pa.array([place in places for place in of_records]))

    def _look_at_keys(self, keys: pa.BinaryArray, tables: pa.StringArray, places: _Places) -> None:
        assert self._keys is not None
        rows = np.flatnonzero(np.asarray(tables.is_valid()))
        look = self._with_columns("key", self._keys.look(keys.take(pa.array(rows)), tables.take(pa.array(rows))))
        for column in look.columns:
            cause = places.cause(int(rows[column.message]))
            table = table_of(column.table[0])
            self._add(_new_column(table, "key", column, cause))

    def _note(self, look: Looked, tables: pa.Int32Array, places: _Places) -> None:
        """Remember what a batch contributes; `tables` are the tables of the records with rows."""
        rows = np.flatnonzero(np.asarray(tables.is_valid()))
        of_rows = np.asarray(tables.take(pa.array(rows)))
        indices, first, counts = np.unique(of_rows, return_index=True, return_counts=True)
        for index, row, count in zip(indices.tolist(), rows[first].tolist(), counts.tolist(), strict=True):
            name, cause = table_name(TableId(look.tables[index])), places.cause(row)
            self._records[name] = self._records.get(name, 0) + count
            self._tables[name] = min(self._tables.get(name, cause), cause, key=_cause_order)
        self._errors += len(look.errors)
        self._is_empty = False
        for column in look.columns:
            cause = places.cause(column.message)
            self._add(_new_column(TableId(column.table), "value", column, cause))
        for key in look.keys:
            new = NewKey(TableId(key.table), key.names, places.cause(key.message))
            known = self._new_keys.setdefault((table_name(new.table), new.names), new)
            if _cause_order(new.cause) < _cause_order(known.cause):
                self._new_keys[table_name(new.table), new.names] = new

    def _add(self, new: NewColumn) -> None:
        """Merge a column with what is known of it: the types of both, and the first record."""
        key = table_name(new.table), new.part, new.name
        known = self._columns.get(key)
        if known is not None:
            types = dict.fromkeys((*known.types, *new.types))
            first = min(known, new, key=NewColumn.order)
            forms = merged_forms(known.forms, new.forms)
            new = replace(first, types=tuple(types), as_text=known.as_text or new.as_text, forms=forms)
        self._columns[key] = new

    def news_line(self) -> Iterator[pa.RecordBatch]:
        """Return the line with all news, nothing for a task without records."""
        if self._is_empty:
            return
        news = BatchNews(
            {table_of(name): cause for name, cause in self._tables.items()},
            tuple(self._columns.values()),
            tuple(self._new_keys.values()),
            tuple(self._changes),
            {table_of(name): count for name, count in self._records.items()},
            self._errors,
            {table_of(name): count for name, count in self._decoded.items()},
            {table_of(name): count for name, count in self._bad.items()},
            frozenset(map(table_of, self._returned.kept)),
            {table_of(name): size for name, size in self._returned.sizes.items()},
        )
        line = pa.nulls(1, pa.string()), pa.nulls(1, pa.binary()), pa.nulls(1, pa.bool_())
        yield _lines(*line, pa.array([news_to_text(news)]), pa.array([True]))


def _new_column(table: TableId, part: Part, seen: SeenColumn, cause: Cause) -> NewColumn:
    return NewColumn(table, part, seen.name, seen.types, cause, seen.place, seen.as_text, seen.forms)


def _messages(records: pa.RecordBatch, part: Part, format: Format | None) -> pa.BinaryArray:
    """Return the keys or values that a format reads, for the headers that belong to them."""
    messages = binary_messages(records.column(part))
    name = None if format is None else format.record_headers.get(part)
    if format is None or name is None:
        return messages
    return with_header(format, messages, headers_of(records, {part: name}).get(part))


def _lines(*columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*columns], [TABLE, PACKED, DECODED, NEWS, RETURNED])


class _Places:
    """The places of the records of a batch in Kafka."""

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        self._topics, self._partitions, self._offsets = (columns[name] for name in ("topic", "partition", "offset"))
        self._times = columns["timestamp"]

    def cause(self, row: int) -> Cause:
        """Return the place of a record."""
        return Cause(self._topics[row].as_py(), self._partitions[row].as_py(), self._offsets[row].as_py())

    def time(self, row: int) -> int:
        """Return the timestamp of a record in milliseconds, 0 for null."""
        microseconds = self._times[row].cast(pa.timestamp("us", self._times.type.tz)).value
        return int((microseconds or 0) // 1000)


def _cause_order(cause: Cause) -> tuple[str, int, int]:
    return cause.topic, cause.partition, cause.offset


# --- the line of news ----------------------------------------------------------------------------------------


def news_to_text(news: BatchNews) -> str:
    """Return the JSON of the news of a task."""
    members = {
        "tables": [[t.parts, news.records[t], *_cause_order(cause)] for t, cause in news.tables.items()],
        "columns": [
            [c.table.parts, c.part, c.name, [*map(str, c.types)], *_cause_order(c.cause), c.place, c.as_text, c.forms]
            for c in news.columns
        ],
        "keys": [[key.table.parts, key.names, *_cause_order(key.cause)] for key in news.keys],
        "changes": [[c.table.parts, c.kind, *_cause_order(c.cause), c.timestamp] for c in news.changes],
        "errors": news.errors,
        "decoded": [[table.parts, count] for table, count in news.decoded.items()],
        "bad": [[table.parts, count] for table, count in news.bad.items()],
        "kept": [table.parts for table in sorted(news.kept)],
        "sizes": [[table.parts, size] for table, size in news.sizes.items()],
    }
    return json.dumps(members)


def merged_news(texts: Iterable[str]) -> BatchNews:
    """Return the news of a batch from the lines of its tasks."""
    tables: dict[TableId, Cause] = {}
    records: dict[TableId, int] = {}
    columns: list[NewColumn] = []
    keys: list[NewKey] = []
    changes: list[WholeTableChange] = []
    decoded: dict[TableId, int] = {}
    bad: dict[TableId, int] = {}
    sizes: dict[TableId, int] = {}
    kept: set[TableId] = set()
    errors = tasks = 0
    for text in texts:
        members = json.loads(text)
        tasks += 1
        errors += members["errors"]
        for counts, of_task in ((decoded, members["decoded"]), (bad, members["bad"]), (sizes, members["sizes"])):
            for parts, count in of_task:
                counts[TableId(tuple(parts))] = counts.get(TableId(tuple(parts)), 0) + count
        kept |= {TableId(tuple(parts)) for parts in members["kept"]}
        for parts, count, *place in members["tables"]:
            cause, table = Cause(*place), TableId(tuple(parts))
            records[table] = records.get(table, 0) + count
            tables[table] = min(tables.get(table, cause), cause, key=_cause_order)
        for parts, part, name, types, topic, partition, offset, *more in members["columns"]:
            cause, parsed = Cause(topic, partition, offset), tuple(map(parse_column_type, types))
            columns.append(NewColumn(TableId(tuple(parts)), part, name, parsed, cause, *more))
        keys += (NewKey(TableId(tuple(parts)), tuple(names), Cause(*at)) for parts, names, *at in members["keys"])
        for parts, kind, *at, timestamp in members["changes"]:
            changes.append(WholeTableChange(TableId(tuple(parts)), kind, Cause(*at), timestamp))
    known = tables, tuple(columns), tuple(keys), tuple(changes), records
    return BatchNews(*known, errors, decoded, bad, frozenset(kept), sizes, max(1, tasks))
