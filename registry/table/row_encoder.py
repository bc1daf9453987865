"""Rows of a table to Kafka records in a Python worker, for a sink that writes them there.

    columns by name -> row kinds -> encode_records -> key, value, and the metadata to write

`encode_frame.py` does the same for a DataFrame, with the formats' own engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import ConfigurationError, EncodeError, SchemaError
from kvformat.registry.contract.normalize_input import normalize_rows
from kvformat.registry.contract.schemas import arrow_schema
from kvformat.registry.contract.types import nullable, spark_type
from kvformat.registry.expressions.local_times import locals_of_instants
from kvformat.registry.java.regex import compile_java
from kvformat.registry.spark.decoded_columns import ERROR, ROW_KIND
from kvformat.registry.table.change_types import CHANGE_TYPE, kinds_column, kinds_of
from kvformat.registry.table.encode_records import checked_kinds, encode_records, hold_back
from kvformat.registry.table.raw_records import raw_messages
from kvformat.registry.table.record_headers import HEADERS_TYPE
from kvformat.registry.table.record_layout import RecordLayout

if TYPE_CHECKING:
    from pyspark.sql import types as T

    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.table_plan import TablePlan

_LOCAL = pa.timestamp("us")


@dataclass(frozen=True)
class RowEncoder:
    """Encodes the rows of one task; pickled to a Python worker.

    metadata: the metadata columns to write. kinds: the column with the kinds of the rows, if they have one. event_time:
    the column that Spark's streams have with a time zone, if it is one. topics, topic_pattern: the topics that rows
    may name.
    """

    layout: RecordLayout
    metadata: tuple[MetadataColumn, ...]
    kinds: str | None
    event_time: str | None
    topics: tuple[str, ...] | None
    topic_pattern: str | None

    @classmethod
    def of(cls, plan: TablePlan, extra: Sequence[MetadataColumn], schema: T.StructType) -> RowEncoder:
        """Return the encoder for rows with this schema. Raises `SchemaError` if they do not fit the table."""
        from pyspark.sql import types as T

        from kvformat.registry.table.encode_frame import check_metadata, checked_columns

        names, declared = schema.names, [column.name for column in plan.table.columns]
        if ERROR in names and ERROR not in declared and isinstance(schema[ERROR].dataType, T.StructType):
            raise ConfigurationError(
                "the rows hold bad records too, in their column 'error': good, bad = split_errors(df), write the good "
                "rows, and keep the bad ones elsewhere"
            )
        watermark = plan.table.watermark
        event_time = None if watermark is None else watermark.column
        key = plan.table.primary_key or ()
        fields = plan.layout.physical.fields
        existing = checked_columns(schema, fields, table=plan.table.name, primary_key=key, event_time=event_time)
        metadata = (*plan.metadata, *extra)
        for column in metadata:
            if column.name not in names:
                raise SchemaError(
                    f"the rows lack the column {column.name}, which is written as metadata '{column.key}'",
                    field=column.name,
                )
            type_ = schema[column.name].dataType
            check_metadata(column, type_, spark_type(nullable(column.key_type)))
            if column.key == "timestamp" and not isinstance(type_, T.TimestampType | T.NullType):
                raise SchemaError(
                    f"column '{column.name}' is written as metadata 'timestamp' and must be TIMESTAMP, not "
                    f"{type_.simpleString().upper()}: cast it first",
                    field=column.name,
                )
        local = next(
            (
                existing_field.name
                for field, existing_field in zip(fields, existing, strict=True)
                if field.name == event_time
                and field.type.root == "TIMESTAMP"
                and isinstance(existing_field.dataType, T.TimestampType)
            ),
            None,
        )
        return cls(
            plan.layout.for_encoding(), metadata, kinds_column(names, declared), local, plan.topics, plan.topic_pattern
        )

    def records(self, batches: Iterator[pa.RecordBatch], zone: str) -> Iterator[pa.RecordBatch]:
        """Yield the records of rows: `key`, `value`, and the metadata `topic`, `headers` and `timestamp` (in ms).

        `zone` is the session's time zone. Raises `EncodeError` for a row that can't be written.
        """
        with_kinds = map(self._with_kinds, batches) if self.kinds == CHANGE_TYPE else batches
        held = hold_back(with_kinds, self._is_open) if self.layout.upsert and self.kinds else with_kinds
        for batch in held:
            if len(batch):
                yield self._encoded(batch, zone)

    def _with_kinds(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        place = batch.schema.get_field_index(CHANGE_TYPE)
        return batch.set_column(place, ROW_KIND, kinds_of(batch.column(place)))

    @staticmethod
    def _is_open(batch: pa.RecordBatch) -> bool:
        """Return whether the last row is a -U, whose output depends on the next row."""
        return bool(batch.column(ROW_KIND)[-1].as_py() == RowKind.UPDATE_BEFORE.value)

    def _encoded(self, batch: pa.RecordBatch, zone: str) -> pa.RecordBatch:
        kinds = None if self.kinds is None else self._checked_kinds(batch.column(ROW_KIND))
        columns = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
        if self.event_time is not None:
            columns[self.event_time] = _local(columns[self.event_time], zone)
        rows = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
        physical = normalize_rows(rows, arrow_schema(nullable(self.layout.physical)))
        records = encode_records(self.layout, physical, kinds, raw=raw_messages(rows, self.metadata))
        if records.errors is not None:
            assert records.codes is not None
            reason, code = records.errors.drop_null()[0].as_py(), records.codes.drop_null()[0].as_py()
            raise EncodeError(f"cannot encode a row: {reason}", reason=reason, code=code)
        keys = pa.nulls(len(batch), pa.binary()) if records.keys is None else records.keys
        result = {"key": keys, "value": records.values}
        result |= {
            "headers" if column.key == "header-list" else column.key: self._metadata(column, columns[column.name])
            for column in self.metadata
            if column.raw_part is None
        }
        written = pa.RecordBatch.from_arrays(list(result.values()), list(result))
        return written if records.kept is None else written.filter(records.kept)

    def _checked_kinds(self, column: pa.Array) -> pa.StringArray:
        kinds = checked_kinds(column)
        if not self.layout.has_kinds:
            wrong = pc.not_equal(kinds, RowKind.INSERT.value)
            if pc.any(wrong, min_count=0).as_py():
                kind = kinds[pc.index(wrong, True).as_py()].as_py()
                raise EncodeError(
                    f"column '{ROW_KIND}' is {kind}, but must be one of +I; format "
                    f"'{self.layout.value_format.identifier}' writes inserts only",
                    code=ErrorCode.UNKNOWN_OPERATION,
                )
        return kinds

    def _metadata(self, column: MetadataColumn, values: pa.Array) -> pa.Array:
        if column.key == "topic":
            return self._checked_topics(values.cast(pa.string()))
        if column.key == "timestamp":
            return pc.divide(values.cast(pa.timestamp("us", "UTC")).view(pa.int64()), 1000)
        if pa.types.is_null(values.type):
            return pa.nulls(len(values), HEADERS_TYPE)
        return _headers(values, by_key=column.key == "headers")

    def _checked_topics(self, topics: pa.StringArray) -> pa.StringArray:
        """Return the topics, with Flink's errors for a topic that the table does not have."""
        wrong = "The topic of the sink record is not valid. "
        if topics.null_count:
            raise EncodeError(f"{wrong}Expected a single topic but no topic is set.")
        if self.topics is not None:
            known = pc.is_in(topics, pa.array(self.topics, pa.string()))
            if not pc.all(known, min_count=0).as_py():
                topic = topics[pc.index(known, False).as_py()].as_py()
                raise EncodeError(f"{wrong}Expected topic to be in: {{{', '.join(self.topics)}}} but was: {topic}")
        elif self.topic_pattern is not None:
            pattern = compile_java(self.topic_pattern)
            for topic in topics.unique().to_pylist():
                if not pattern.matches(topic):
                    raise EncodeError(f"{wrong}Expected topic to match: {self.topic_pattern} but was: {topic}")
        return topics


def _local(array: pa.Array, zone: str) -> pa.Array:
    """Return instants as local times."""
    micros = array.cast(pa.timestamp("us", "UTC")).view(pa.int64())
    mask = np.asarray(array.is_null()) if array.null_count else None
    return pa.array(locals_of_instants(zone, np.asarray(pc.fill_null(micros, 0))), pa.int64(), mask=mask).view(_LOCAL)


def _headers(values: pa.Array, *, by_key: bool) -> pa.ListArray:
    """Return the headers of a map without the entries that have no value, or those of a list that have a key."""
    entries = (
        values.cast(HEADERS_TYPE)
        if not by_key
        else pa.ListArray.from_arrays(
            values.offsets, pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
        ).cast(HEADERS_TYPE)
    )
    counts = np.asarray(pc.fill_null(pc.list_value_length(entries), 0))
    flat = entries.flatten()
    kept = np.asarray(pc.struct_field(flat, "value" if by_key else "key").is_valid())
    record_of = np.repeat(np.arange(len(entries)), counts)[kept]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(record_of, minlength=len(entries)))))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat.filter(pa.array(kept))).cast(HEADERS_TYPE)
