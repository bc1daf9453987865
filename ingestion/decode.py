"""Decode the records of one table to rows of its schema, in Spark: one Python stage.

    packed records -> decoded columns -> columns that are read as text -> columns of the target -> rows, errors

A record is decoded by the known schema of its table. A column whose values the format can't all read by their type is
decoded as STRING and converted. A record with one bad row is bad: all its rows become one line with an error.
Bad are messages that can't be decoded, NULL keys, and values that their column can't hold.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.discovery.text_forms import size_of_bits
from kvformat.ingestion.decoded_rows import (
    ERROR_FIELDS,
    METADATA,
    POSITION,
    ROW_ERROR,
    TIMESTAMP,
    DecodedRows,
    error_type,
    in_order,
    wire_names,
    wire_type,
)
from kvformat.ingestion.looking import Looking
from kvformat.ingestion.packing import PACKED, unpack
from kvformat.ingestion.planning import PlanRules
from kvformat.ingestion.schemas.coerce import arrow_type_of, coerce, fit_rows
from kvformat.ingestion.schemas.flattened import FlattenedColumns
from kvformat.ingestion.schemas.from_texts import from_numbers, from_texts
from kvformat.ingestion.schemas.known import SourceTable
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.schemas.types import BINARY_ROOTS, INTEGER_DIGITS, NESTED_ROOTS, STRING, TEXT_ROOTS, merge_types
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.normalize_input import binary_messages
from kvformat.registry.contract.schemas import arrow_schema
from kvformat.registry.contract.types import FlinkField, FlinkType, nullable, spark_type
from kvformat.registry.format import Format
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column
from kvformat.registry.streams.delta.matching import last_places
from kvformat.registry.table.decode_records import decode_records
from kvformat.registry.table.metadata import MetadataColumn
from kvformat.registry.table.record_headers import headers_of, with_header
from kvformat.registry.table.record_layout import RecordLayout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_KEY = "NO_KEY"
"""The code of an update or a deletion of a table without a key. It is an error of the table, not of the record."""
_PLACE = ("topic", "partition", "offset")
_PARSED = (*INTEGER_DIGITS, "DECIMAL", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
"""Types of columns into which texts are parsed."""
_NOT_PLAIN = r"^[+-]?0[0-9]|^\+|\s$|^\s|^[+-]?\."
_FRACTION = r"^-?[0-9]{1,40}(\.[0-9]{1,40}([eE][+-]?[0-9]{1,4})?|[eE][+-]?[0-9]{1,4})$"
_BEYOND_INTEGERS = 10**19
_Bools = npt.NDArray[np.bool_]


def layout_of(
    table: SourceTable,
    schema: TableSchema,
    rules: PlanRules,
    value_format: Format,
    key_format: Format | None,
    *,
    flatten: bool = False,
) -> tuple[RecordLayout, FlattenedColumns | None]:
    """Return how the records of a table are decoded; columns that are read as text are STRING.

    `schema` is the table's schema before its transform: its first columns are those of the key and of the value. With
    `flatten`, columns of the value are named by paths; the layout has the nested columns then.
    """
    as_text = {rules.value_prefix + name for name in table.value.as_text}
    as_text |= {rules.key_prefix + name for name in table.key.as_text} - {
        rules.value_prefix + name for name in table.value.columns
    }
    columns = [column for column in schema.columns if column.name not in rules.metadata]
    types = {c.name: STRING if c.name in as_text else replace(c.type, nullable=True) for c in columns}
    places = {name: place for place, name in enumerate(types)}

    def row(names: Mapping[str, str]) -> FlinkType:
        return FlinkType("ROW", nullable=False, fields=tuple(FlinkField(n, types[c]) for n, c in names.items()))

    flat = None
    values = {name: rules.value_prefix + name for name in table.value.columns}
    if flatten:
        flat = FlattenedColumns({name: types.pop(column) for name, column in values.items()})
        values = {field.name: rules.value_prefix + field.name for field in flat.schema.fields}
        types |= {values[field.name]: field.type for field in flat.schema.fields}
        places = {name: place for place, name in enumerate(types)}
    keys = {name: rules.key_prefix + name for name in table.key.columns} if key_format is not None else {}
    row_key = tuple(places[name] for name in schema.primary_key if name in places)
    key_indexes = tuple(places[name] for name in keys.values())
    in_value = [name for name, column in values.items() if places[column] in row_key]
    layout = RecordLayout(
        row({name: name for name in types}),
        None if not keys or key_format is None else value_format.for_key(key_format),
        value_format.for_rows(in_value, in_record=bool(keys) and {*row_key} <= {*key_indexes}),
        arrow_schema(row(keys)) if keys else None,
        arrow_schema(row(values)),
        key_indexes,
        tuple(places[column] for column in values.values()),
        False,
        row_key,
    )
    return layout, flat


def decodable_records(records: DataFrame, metadata: Sequence[MetadataColumn]) -> DataFrame:
    """Return records with the columns that a `TableDecoder` reads beside them: the timestamp and the metadata.

    `records` have the columns of Spark's Kafka source. Raises `SchemaError` for metadata that they do not have.
    """
    from pyspark.sql import functions as F

    from kvformat.registry.table.kafka_columns import column_types, metadata_column

    types = column_types(records)
    columns = []
    for column in metadata:
        expression, wire = metadata_column(column, types), spark_type(column.declared, wire=True)
        expression = expression if wire == spark_type(column.key_type, wire=True) else expression.cast(wire)
        columns.append(expression.alias(METADATA + column.name))
    return records.select(*records.columns, F.unix_millis("timestamp").alias(TIMESTAMP), *columns)


@dataclass(frozen=True)
class TableDecoder:
    """Decodes the records of one table; pickled to Spark's workers.

    schema: the table's columns before its transform. target: the columns that the rows are fitted to; None leaves them.
    inserts_only: whether an update or a deletion is an error, because the table has no key. in_one_task: whether one
    task decodes all records, so that grouping the rows by their key needs no shuffle. not_null: the columns for which
    each row needs a value, beside the key. last_only: whether rows are left out if a later one of the same records has
    their key, because the target takes the last row of each key; only if `in_arrow`.
    """

    table: TableId
    layout: RecordLayout
    schema: TableSchema
    metadata: tuple[MetadataColumn, ...]
    target: TableSchema | None
    inserts_only: bool
    time_zone: str
    flat: FlattenedColumns | None = None
    in_one_task: bool = field(default=False, compare=False)
    not_null: frozenset[str] = frozenset()
    last_only: bool = False

    @property
    def result(self) -> TableSchema:
        """The columns of the rows."""
        return self.schema if self.target is None else self.target

    @property
    def in_arrow(self) -> bool:
        """Whether rows can be merged by Arrow alone: no key is nested, and the formats add no columns."""
        types = {column.name: column.type.root for column in self.result.columns}
        has_nested_key = any(types.get(key) in NESTED_ROOTS for key in self.result.primary_key)
        return not has_nested_key and not self.layout.value_format.own_columns

    def rows(self, looked: Looking) -> DecodedRows:
        """Return the rows of the table's records: columns, `row_kind`, `row_index`, the position, and the error.

        The look has the rows already if it has a decoder of the table. Its records are `decodable_records`. A line with
        an error has null columns and the position of its record. The formats' own columns, such as `unchanged_columns`,
        are after those of the table.
        """
        lines = looked.of_table(self.table).select(PACKED)
        lines = lines.coalesce(1) if self.in_one_task else lines
        own_columns = self.layout.value_format.own_columns
        if self.table in looked.decoders:
            return DecodedRows(self.table, lines, self.result, own_columns)
        return DecodedRows.of(self.table, lines, self.mapped(), self.result, own_columns)

    def mapped(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function for `mapInArrow`, with the name that Spark shows in plans."""

        def decode_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in unpack(batches):
                yield self.decoded(batch)

        return decode_table

    def decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch of records."""
        parts = list(self._by_written_columns(batch))
        if len(parts) == 1:
            return parts[0][0]._decoded(batch)
        rows = pa.Table.from_batches([decoder._decoded(batch.take(records)) for decoder, records in parts])
        return _one_batch(rows.sort_by([(name, "ascending") for name in (*POSITION, ROW_INDEX)]))

    def _by_written_columns(self, batch: pa.RecordBatch) -> Iterator[tuple[TableDecoder, pa.Array]]:
        """Yield the decoder of each group of records: it reads the columns by the types of their own schemas.

        A schema may have another type than its table's column, which holds both. Then the values are converted.
        """
        layout, value_format = self.layout, self.layout.value_format
        headers = headers_of(batch, layout.record_headers)
        values = with_header(value_format, binary_messages(batch.column("value")), headers.get("value"))
        written = None if self.flat is not None else value_format.written_columns(values)
        if written is None:
            yield self, None
            return
        groups: dict[tuple[tuple[int, FlinkType], ...], list[int]] = {}
        for number, columns in enumerate(written.columns):
            groups.setdefault(self._own_types(columns), []).append(number)
        if not groups or (len(groups) == 1 and written.numbers.null_count == 0):
            yield self._with_types(next(iter(groups), ())), None
            return
        groups.setdefault((), [])
        numbers = np.asarray(written.numbers.fill_null(-1))
        for types, schemas in groups.items():
            records = np.flatnonzero(np.isin(numbers, [*schemas, -1] if not types else schemas))
            if len(records):
                yield self._with_types(types), pa.array(records)

    def _own_types(self, columns: Mapping[str, FlinkType]) -> tuple[tuple[int, FlinkType], ...]:
        """Return the columns that are read by another type than their own, by place, with the type of a schema."""
        types = []
        for name, place in zip(self.layout.value_schema.names, self.layout.value_indexes, strict=True):
            written, read = columns.get(name), self.layout.physical.fields[place].type
            column = nullable(self.schema.columns[place].type)
            if written is None or written == nullable(read) or column.root in NESTED_ROOTS:
                continue
            if nullable(merge_types(written, column)) == column:
                types.append((place, written))
        return tuple(types)

    def _with_types(self, types: tuple[tuple[int, FlinkType], ...]) -> TableDecoder:
        """Return the decoder that reads columns, given by place, by other types, and converts their values."""
        if not types:
            return self
        of_place = dict(types)
        physical = [replace(f, type=of_place.get(n, f.type)) for n, f in enumerate(self.layout.physical.fields)]
        names, places = self.layout.value_schema.names, self.layout.value_indexes
        row = tuple(FlinkField(name, physical[place].type) for name, place in zip(names, places, strict=True))
        layout = replace(
            self.layout,
            physical=replace(self.layout.physical, fields=tuple(physical)),
            value_schema=arrow_schema(FlinkType("ROW", nullable=False, fields=row)),
        )
        schema = self.schema.with_types([(self.schema.columns[place].name, t) for place, t in types])
        return replace(self, layout=layout, schema=schema, target=self.result)

    def _decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch of records, all read by the types of `layout`."""
        position = [batch.column(name) for name in (*_PLACE, TIMESTAMP)]
        keys = binary_messages(batch.column("key")) if self.layout.key_format is not None else None
        metadata = [batch.column(METADATA + column.name) for column in self.metadata]
        headers = headers_of(batch, self.layout.record_headers)
        rows = decode_records(self.layout, keys, binary_messages(batch.column("value")), headers=headers)
        records = np.repeat(np.arange(len(batch)), rows.counts)
        taken = pa.array(records)
        physical = len(self.layout.physical.fields)
        columns = [*self._unnested(rows.columns[:physical]), *(column.take(taken) for column in metadata)]
        kinds = rows.kinds if self.layout.has_kinds else pa.repeat(pa.scalar("+I"), len(records))
        errors = _RowErrors(len(records))
        if self.inserts_only:
            errors.add(pa.array(np.asarray(pc.equal(kinds, "+I").fill_null(True))), "updates or deletes a row", NO_KEY)
        columns = self._from_texts(columns, errors)
        self._check_not_null(columns, kinds, errors)
        columns = self._fitted(columns, errors)
        lines = _Lines(
            [*columns, *rows.columns[physical:]], kinds, rows.indexes(), [c.take(taken) for c in position], taken
        )
        bad = errors.by_record(records)
        if rows.reasons is not None:
            for at in np.flatnonzero(np.asarray(rows.reasons.is_valid())).tolist():
                bad[at] = rows.parts[at].as_py(), rows.reasons[at].as_py(), rows.codes[at].as_py()  # type: ignore[index]
        names = wire_names(len(columns) + len(self.layout.value_format.own_columns))
        keys = [self.result.names.index(key) for key in self.result.primary_key] if self.last_only else []
        return lines.batch(bad, position, names, [names[place] for place in keys])

    def _unnested(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Return the columns that are named by paths instead of the nested columns of the value."""
        if self.flat is None:
            return columns
        nested = [columns[place] for place in self.layout.value_indexes]
        fields = [
            pa.field(field.name, array.type) for field, array in zip(self.flat.schema.fields, nested, strict=True)
        ]
        selected = self.flat.select(
            pa.StructArray.from_arrays(nested, fields=fields), self.layout.value_format, self.time_zone
        )
        of_key = [array for place, array in enumerate(columns) if place not in self.layout.value_indexes]
        return [*of_key, *selected.flatten()]

    def _from_texts(self, columns: list[pa.Array], errors: _RowErrors) -> list[pa.Array]:
        """Convert the columns that were read as text."""
        for place, column in enumerate(self.schema.columns[: len(self.schema.columns) - len(self.metadata)]):
            texts = columns[place]
            if pa.types.is_string(texts.type) and arrow_type_of(column.type) != texts.type:
                if column.type.root in INTEGER_DIGITS:
                    texts = _with_whole_numbers(texts)
                size = size_of_bits(column.forms) if column.type.root in BINARY_ROOTS else 0
                wanted = replace(column.type, nullable=True)
                columns[place] = from_numbers(texts, size) if size else from_texts(texts, wanted, self.time_zone)
                lost = np.asarray(texts.is_valid()) & np.asarray(columns[place].is_null())
                errors.add(
                    pa.array(~lost), f"column {column.name!r}: a text does not fit {column.type}", ErrorCode.SCHEMA
                )
        return columns

    def _check_not_null(self, columns: list[pa.Array], kinds: pa.StringArray, errors: _RowErrors) -> None:
        """Add an error to rows without a value for a NOT NULL column. A deleted row may have only its key."""
        if not self.not_null:
            return
        deleted = pc.fill_null(pc.is_in(kinds, value_set=pa.array(["-U", "-D"])), False)
        for column, values in zip(self.schema.columns, columns, strict=True):
            if column.name in self.not_null and values.null_count:
                reason = f"column {column.name!r} is NOT NULL, and the record has no value for it"
                errors.add(pc.or_(values.is_valid(), deleted), reason, ErrorCode.SCHEMA)

    def _fitted(self, columns: list[pa.Array], errors: _RowErrors) -> list[pa.Array]:
        """Convert the columns to those of the target."""
        if self.target is None:
            return columns
        fitted = fit_columns(columns, self.schema, self.target, self.time_zone, errors.length)
        errors.add_reasons(fitted[1])
        return fitted[0]


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(rows.to_struct_array().combine_chunks())


def _with_whole_numbers(texts: pa.StringArray) -> pa.StringArray:
    """Return texts with the digits of whole numbers that have a fraction or an exponent: 7.0 and 1.2E3."""
    strings = texts.to_pylist()
    for row in np.flatnonzero(np.asarray(pc.fill_null(pc.match_substring_regex(texts, _FRACTION), False))).tolist():
        number = Decimal(strings[row])
        if abs(number) < _BEYOND_INTEGERS and number == number.to_integral_value():
            strings[row] = str(int(number))
    return pa.array(strings, pa.string())


def fit_columns(
    columns: list[pa.Array], source: TableSchema, target: TableSchema, time_zone: str, length: int
) -> tuple[list[pa.Array], Mapping[int, Reason]]:
    """Return columns of one schema as those of another, and the error of each bad row by its index."""
    plain = [pa.field(f"c{n}", array.type) for n, array in enumerate(columns)]
    struct = pa.StructArray.from_arrays(columns, fields=plain) if columns else pa.array([{}] * length, pa.struct([]))
    fitted = fit_rows(struct, source, target, time_zone, _converted)
    return [fitted.rows.field(n) for n in range(len(target.columns))], fitted.errors


def _converted(values: pa.Array, source: FlinkType, target: FlinkType, time_zone: str, forms: int | None) -> pa.Array:
    """Convert values as `coerce` does, and parse texts of a column that became STRING, while the target kept its type.

    A text that is written in another way than the value, such as '007', does not fit.
    """
    if source.root not in TEXT_ROOTS or target.root not in _PARSED:
        return coerce(values, source, target, time_zone, forms)
    texts = values.cast(pa.string())
    plain = pc.if_else(pc.match_substring_regex(texts, _NOT_PLAIN), pa.scalar(None, pa.string()), texts)
    return from_texts(plain, replace(target, nullable=True), time_zone)


class PickledDecoder:
    """A decoder that is pickled once for many batches, and that a task unpickles if it has records of its table."""

    def __init__(self, decoder: TableDecoder | None, pickled: bytes = b"") -> None:
        self._decoder, self._pickled = decoder, pickled

    def __reduce__(self) -> tuple[type[PickledDecoder], tuple[None, bytes]]:
        if not self._pickled:
            from pyspark.cloudpickle import dumps

            self._pickled = dumps(self._decoder)  # type: ignore[no-untyped-call]
        return PickledDecoder, (None, self._pickled)

    @property
    def decoder(self) -> TableDecoder:
        """The decoder."""
        if self._decoder is None:
            self._decoder = pickle.loads(self._pickled)
        return self._decoder

    def decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch of records."""
        return self.decoder.decoded(batch)


# --- errors --------------------------------------------------------------------------------------------------


class _RowErrors:
    """The first error of each row of a batch."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._by_row: dict[int, tuple[str, str]] = {}

    def add(self, good: pa.BooleanArray, reason: str, code: str) -> None:
        """Add an error to the rows that are not good."""
        for row in np.flatnonzero(~np.asarray(good)).tolist():
            self._by_row.setdefault(row, (reason, str(code)))

    def add_reasons(self, errors: Mapping[int, Reason]) -> None:
        """Add errors by the index of their row."""
        for row, reason in errors.items():
            self._by_row.setdefault(row, (reason.text, str(reason.code)))

    def by_record(self, records: npt.NDArray[np.int64]) -> dict[int, tuple[str, str, str]]:
        """Return part, reason and code of the first bad row of each record."""
        errors: dict[int, tuple[str, str, str]] = {}
        for row in sorted(self._by_row):
            errors.setdefault(int(records[row]), ("record", *self._by_row[row]))
        return errors


@dataclass(frozen=True)
class _Lines:
    """The decoded rows of a batch; `records` has the record of each."""

    columns: list[pa.Array]
    kinds: pa.StringArray
    indexes: pa.Int32Array
    position: list[pa.Array]
    records: pa.Int64Array

    def batch(
        self, bad: Mapping[int, tuple[str, str, str]], position: list[pa.Array], names: list[str], keys: list[str]
    ) -> pa.RecordBatch:
        """Return the rows of good records, then a line for each bad record.

        With `keys`, rows that a later row of their key replaces are left out, also if a TRUNCATE comes between: of the
        rows of a key, those that are later than its last row by their time stay.
        """
        *names, error = names
        rows = pa.table([*self.columns, self.kinds, self.indexes, *self.position], names)
        if bad:
            rows = rows.filter(pa.array(~np.isin(np.asarray(self.records), list(bad))))
        if keys:
            rows = in_order(rows)
            last, times = last_places(rows, keys), np.asarray(pc.fill_null(rows.column(TIMESTAMP), 0))
            rows = rows.filter(pa.array((last == np.arange(rows.num_rows)) | (times > times[last])))
        rows = rows.append_column(error, pa.nulls(rows.num_rows, error_type()))
        if not bad:
            return _one_batch(rows)
        lines = pa.array(sorted(bad))
        errors = pa.array([dict(zip(ERROR_FIELDS, bad[at], strict=True)) for at in sorted(bad)], error_type())
        added = [pa.nulls(len(lines), column_type) for column_type in rows.schema.types[: -len(position) - 1]]
        added += [*(column.take(lines) for column in position), errors]
        return _one_batch(pa.concat_tables([rows, pa.table(added, schema=rows.schema)]))


# --- rows that were transformed ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FitStage:
    """Fits rows of a table to another schema after a transform; pickled to Spark's workers."""

    table: TableId
    source: TableSchema
    target: TableSchema
    time_zone: str

    def fitted(self, rows: DataFrame) -> DecodedRows:
        """Return rows with the columns of the target. A row that does not fit has an error and null columns.

        `rows` have the columns of the source, and those of `TableDecoder.rows` without the formats' own.
        """
        from pyspark.sql import functions as F

        there = {field.name: field.dataType for field in rows.schema.fields}
        columns = []
        for place, column in enumerate(self.source.columns):
            wire = wire_type(column.type)
            expression = exact_column(column.name) if column.name in there else F.lit(None)
            columns.append((expression if there.get(column.name) == wire else expression.cast(wire)).alias(f"c{place}"))
        lines = rows.select(*columns, ROW_KIND, ROW_INDEX, *POSITION, TIMESTAMP, F.col(ROW_ERROR))
        return DecodedRows.of(self.table, lines, self.mapped(), self.target, {})

    def mapped(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function for `mapInArrow`, with the name that Spark shows in plans."""

        def fit_to_target(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield self.batch(batch)

        return fit_to_target

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the fitted rows of a batch."""
        count = len(self.source.columns)
        columns, reasons = fit_columns(batch.columns[:count], self.source, self.target, self.time_zone, len(batch))
        rest = batch.columns[count:]
        errors = _RowErrors(len(batch))
        errors.add_reasons(reasons)
        bad = errors.by_record(np.arange(len(batch)))
        earlier = rest[-1]
        for row in np.flatnonzero(np.asarray(earlier.is_valid())).tolist():
            bad[row] = tuple(earlier[row][name].as_py() for name in ERROR_FIELDS)
        if bad:
            rows = range(len(batch))
            structs = [dict(zip(ERROR_FIELDS, bad[row], strict=True)) if row in bad else None for row in rows]
            rest = [*rest[:-1], pa.array(structs, error_type())]
        return pa.RecordBatch.from_arrays([*columns, *rest], wire_names(len(columns)))
