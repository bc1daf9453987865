"""The decoding of a table's records, planned for an input with known columns: input, decoder, columns of the result.

    plan of a table, metadata, policy for errors, columns of the input -> DecodeStage
        .decoder     decodes batches of the stage's input in a Python worker
        .wire        the columns that the decoder gives, as Spark types
        .columns     the columns of the result, with their final types

`decode_frame.py` runs the stage between Spark expressions, `record_input.py` on batches of Kafka's columns in Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import needs_extra
from kvformat.registry.contract.types import nullable, spark_type, with_time_digits
from kvformat.registry.spark.decoded_columns import ERROR, KINDS_KEY, ROW_INDEX, ROW_KIND, with_nullable_parts
from kvformat.registry.table.record_decoding import DecodedColumn, RecordDecoding

with needs_extra("DataFrames need PySpark 4.1 or newer", extra="spark"):
    from pyspark.sql import types as T

if TYPE_CHECKING:
    from kvformat.registry.format import Errors
    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.table_plan import TablePlan

HEADERS = T.ArrayType(T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())]))
KAFKA_COLUMNS: Mapping[str, T.DataType] = {
    "key": T.BinaryType(),
    "value": T.BinaryType(),
    "headers": HEADERS,
    "topic": T.StringType(),
    "partition": T.IntegerType(),
    "offset": T.LongType(),
    "timestamp": T.TimestampType(),
    "timestampType": T.IntegerType(),
}
"""The columns of Spark's Kafka source with their types."""


def record_schema() -> T.StructType:
    """Return the schema of Spark's Kafka source, with headers."""
    order = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    return T.StructType([T.StructField(name, KAFKA_COLUMNS[name]) for name in order])


@dataclass(frozen=True, slots=True)
class StageColumn(DecodedColumn):
    """A column of the result, with Spark's types for the decoder and for the table."""

    wire: T.DataType
    final: T.DataType


class DecodeStage(RecordDecoding):
    """The decoding of a table's records with Spark's types: of the input, of the decoder's columns, of the result."""

    columns: Sequence[StageColumn]

    def __init__(
        self,
        plan: TablePlan,
        extra: Sequence[MetadataColumn],
        *,
        errors: Errors,
        row_index: bool,
        input_types: Mapping[str, T.DataType],
        zone: str,
    ) -> None:
        """Plan the stage for an input with the columns `input_types`, by name.

        The other arguments and the exceptions are those of `RecordDecoding`.
        """
        self.input_types = input_types
        super().__init__(
            plan,
            extra,
            errors=errors,
            row_index=row_index,
            zone=zone,
            columns=input_types,
            kafka_columns=[name for name in input_types if _is_kafkas(name, input_types)],
        )
        digits = self.layout.value_format.time_digits
        self.columns = [
            StageColumn(
                *(column.name, column.wire_name, column.decoded, column.declared),
                wire=spark_type(column.decoded, wire=True),
                final=spark_type(nullable(with_time_digits(column.declared, digits))),
            )
            for column in self.columns
        ]
        self.wire = self._wire()

    def _wire(self) -> T.StructType:
        wire, types = T.StructType(), {column.wire_name: column.wire for column in self.columns}
        for name in self.names[: len(types)]:
            wire.add(name, types[name])
        return T.StructType([*wire.fields, *self.last_fields()])

    def last_fields(self) -> list[T.StructField]:
        """Return the columns after those of the table: row kind, row index and error."""
        struct = T.StructType()
        if self.layout.has_kinds:
            struct.add(ROW_KIND, T.StringType(), metadata=self._known_kinds())
        if self.row_index:
            struct.add(ROW_INDEX, T.IntegerType())
        if self.capture:
            struct.add(ERROR, self._error_column())
        return struct.fields

    def _known_kinds(self) -> dict[str, str] | None:
        """Return the metadata of `row_kind`: the kinds that can occur, if it is known that not all can."""
        if self.layout.upsert:
            return {KINDS_KEY: "+U,-D"}
        return {KINDS_KEY: "+I,+U,-D"} if self.layout.by_key else None

    def _error_column(self) -> T.StructType:
        struct = T.StructType([T.StructField(name, T.StringType()) for name in ("part", "reason")])
        struct.add("key", T.BinaryType()).add("value", T.BinaryType())
        for name in self.error_columns:
            struct.add(name, with_nullable_parts(self.input_types[name]))
        return struct.add("code", T.StringType())


def _is_kafkas(name: str, types: Mapping[str, T.DataType]) -> bool:
    """Return whether a column has the type that Spark's Kafka source gives it."""
    return has_headers(types) if name == "headers" else types[name] == KAFKA_COLUMNS.get(name)


def has_headers(types: Mapping[str, T.DataType]) -> bool:
    """Return whether there is a column `headers` of the type that Spark's Kafka source gives it."""
    type_ = types.get("headers")
    entry = type_.elementType if isinstance(type_, T.ArrayType) else None
    if not isinstance(entry, T.StructType) or entry.names != ["key", "value"]:
        return False
    key, value = (field.dataType for field in entry.fields)
    return isinstance(key, T.StringType) and isinstance(value, T.BinaryType)


def same_type(left: T.DataType, right: T.DataType) -> bool:
    """Return whether two types differ at most in what may be null."""
    return with_nullable_parts(left) == with_nullable_parts(right)
