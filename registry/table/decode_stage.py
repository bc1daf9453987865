"""The decoding of a table's records, planned for an input with known columns: input, decoder, columns of the result.

    plan of a table, metadata, policy for errors, columns of the input -> DecodeStage
        .decoder     decodes batches of the stage's input in a Python worker
        .wire        the columns that the decoder gives, as Spark types
        .columns     the columns of the result, with their final types

`decode_frame.py` runs the stage between Spark expressions, `record_input.py` on batches of Kafka's columns in Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError, SchemaError
from kvformat.registry.contract.types import FlinkType, nullable, spark_type, with_time_digits
from kvformat.registry.spark.decoded_columns import ERROR, KINDS_KEY, ROW_INDEX, ROW_KIND
from kvformat.registry.table.computed_columns import computed_columns
from kvformat.registry.table.record_decoder import POSITION, TaskDecoder

try:
    from pyspark.sql import types as T
except ImportError as cause:
    raise MissingExtraError("DataFrames need PySpark 4.1 or newer: pip install 'kvformat[spark]'") from cause

if TYPE_CHECKING:
    from kvformat.registry.format import Errors
    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.table_plan import TablePlan

_ERROR_COLUMNS = (*POSITION, "timestamp", "headers")
"""Kafka's columns that `error` contains if the input has them."""
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
class StageColumn:
    """A column of the result: its name, its name and type as the decoder gives it, and its type in the table.

    `given` and `declared` are Flink's types, `wire` and `final` Spark's.
    """

    name: str
    wire_name: str
    given: FlinkType
    declared: FlinkType
    wire: T.DataType
    final: T.DataType


class DecodeStage:
    """The Python stage: its input columns, its decoder, its result columns, and the checks of both."""

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

        `extra` is the metadata that the caller asks for; `zone` the session's time zone, for computed columns.
        Raises `ConfigurationError` or `SchemaError` if the input does not fit.
        """
        self.plan, self.layout, self.input_types = plan, plan.layout, input_types
        self.row_index, self.capture = row_index, errors == "capture"
        self.policy = errors if self.capture or not plan.ignore_errors else "drop"
        self.metadata = [*plan.metadata, *extra]
        self.computed = computed_columns(plan.table, plan.metadata, zone)
        self.value_metadata = [column for column in self.metadata if column.of_value is not None]
        self.kafka_metadata = [column for column in self.metadata if column.of_value is None]
        self.topic = plan.topics[0] if plan.topics is not None and len(plan.topics) == 1 else None
        self.error_columns = [name for name in _ERROR_COLUMNS if self.capture and name in input_types]
        if self.policy == "raise":
            self.error_columns = self._position_columns()
        self.record_headers = plan.layout.record_headers if has_headers(input_types) else {}
        self.last = [ROW_KIND] * self.layout.has_kinds + [ROW_INDEX] * row_index + [ERROR] * self.capture
        self._check_names([*(column.name for column in extra)])
        if "value" not in input_types:
            raise SchemaError("the DataFrame has no column 'value'", field="value")
        if self.layout.key_format is not None and "key" not in input_types:
            raise SchemaError(
                f"the DataFrame has no column 'key', which key format '{self.layout.key_format.identifier}' reads",
                field="key",
            )
        self.sends_key = self.layout.key_format is not None or (self.capture and "key" in input_types)
        self.uses_now = self.computed is not None and self.computed.uses_now
        self.columns = self._columns()
        self.wire = self._wire()
        self.decoder = self._decoder()

    def _position_columns(self) -> list[str]:
        """Return the columns that are sent only for the position of a bad record: those not known without them."""
        known = [column.key for column in self.kafka_metadata]
        if self.topic is not None:
            known.append("topic")
        return [name for name in POSITION if name not in known and self.input_types.get(name) == KAFKA_COLUMNS[name]]

    def _check_names(self, extra: Sequence[str]) -> None:
        names = [*(column.name for column in self.plan.table.columns), *extra, *self.last]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(
                f"the result would have two columns '{twice}'; give one of them another name", field=twice
            )

    # --- result --------------------------------------------------------------------------------------------

    def _given(self) -> dict[str, FlinkType]:
        """Return the columns of the decoder in their order, with their types there, without `last`."""
        found = {field.name: field.type for field in self.layout.physical.fields}
        found |= {column.name: column.given for column in (*self.value_metadata, *self.kafka_metadata)}
        computed = (column for column in self.plan.table.columns if column.kind == "computed")
        return found | {column.name: column.type for column in computed if column.type is not None}

    def _columns(self) -> tuple[StageColumn, ...]:
        """Return the columns of the result in order, without `last`."""
        given = self._given()
        wire_names = self._wire_names(given)
        declared = {column.name: column.type for column in self.plan.table.columns if column.type is not None}
        declared |= {column.name: column.declared for column in self.metadata}
        digits = self.layout.value_format.time_digits
        return tuple(
            StageColumn(
                name,
                wire_names[name],
                given[name],
                type_,
                spark_type(given[name], wire=True),
                spark_type(nullable(with_time_digits(type_, digits))),
            )
            for name, type_ in declared.items()
        )

    def _wire_names(self, names: Mapping[str, FlinkType]) -> dict[str, str]:
        """Return the names of the decoder's columns: the final ones, so that Spark need not copy rows to rename them.

        Returns generated names if two names differ in letter case only.
        """
        clash = len({name.lower() for name in [*names, *self.last]}) < len(names) + len(self.last)
        return {name: f"c{i}" if clash else name for i, name in enumerate(names)}

    def _wire(self) -> T.StructType:
        wire, by_name = T.StructType(), {column.name: column for column in self.columns}
        for name in self._given():
            wire.add(by_name[name].wire_name, by_name[name].wire)
        return T.StructType([*wire.fields, *self.last_fields()])

    def last_fields(self) -> list[T.StructField]:
        """Return the columns after those of the table: row kind, row index and error."""
        found = T.StructType()
        if self.layout.has_kinds:
            found.add(ROW_KIND, T.StringType(), metadata=self._known_kinds())
        if self.row_index:
            found.add(ROW_INDEX, T.IntegerType())
        if self.capture:
            found.add(ERROR, self._error_type())
        return found.fields

    def _known_kinds(self) -> dict[str, str] | None:
        """Return the metadata of `row_kind`: the kinds that can occur, if it is known that not all can."""
        if self.layout.upsert:
            return {KINDS_KEY: "+U,-D"}
        return {KINDS_KEY: "+I,+U,-D"} if self.layout.by_key else None

    def _error_type(self) -> T.StructType:
        found = T.StructType([T.StructField(name, T.StringType()) for name in ("part", "reason")])
        found.add("key", T.BinaryType()).add("value", T.BinaryType())
        for name in self.error_columns:
            found.add(name, _nullable(self.input_types[name]))
        return found.add("code", T.StringType())

    # --- decoder -------------------------------------------------------------------------------------------

    def _decoder(self) -> TaskDecoder:
        own = self.layout.value_format.own_columns
        count = len(self.kafka_metadata)
        return replace(
            self.counter(),
            policy=self.policy,
            has_key=self.sends_key,
            names=tuple(self.wire.names),
            metadata=tuple(str(c.of_value) for c in self.value_metadata if c.of_value not in own),
            metadata_count=count,
            error_columns=tuple(self.error_columns),
            row_index=self.row_index,
            position=tuple((c.key, i) for i, c in enumerate(self.kafka_metadata) if c.key in POSITION)
            + tuple((name, count + i) for i, name in enumerate(self.error_columns)),
            topic=self.topic,
            computed=self.computed,
            computed_inputs=self._computed_inputs(),
            uses_now=self.uses_now,
        )

    def counter(self) -> TaskDecoder:
        """Return the decoder that gives `reason` and `code` of the bad records only; its input is key and value."""
        has_key = self.layout.key_format is not None
        return TaskDecoder(self.layout, "count", has_key, tuple(self.record_headers.items()), ("reason", "code"))

    def _computed_inputs(self) -> tuple[int, ...]:
        """Return the places of the columns that computed ones may use, among the rows' columns and Kafka's metadata."""
        if self.computed is None:
            return ()
        names = [field.name for field in self.layout.physical.fields]
        names += [column.name for column in (*self.value_metadata, *self.kafka_metadata)]
        return tuple(names.index(name) for name in self.computed.inputs)


def has_headers(types: Mapping[str, T.DataType]) -> bool:
    """Return whether there is a column `headers` of the type that Spark's Kafka source gives it."""
    found = types.get("headers")
    entry = found.elementType if isinstance(found, T.ArrayType) else None
    if not isinstance(entry, T.StructType) or entry.names != ["key", "value"]:
        return False
    key, value = (field.dataType for field in entry.fields)
    return isinstance(key, T.StringType) and isinstance(value, T.BinaryType)


def same_type(one: T.DataType, other: T.DataType) -> bool:
    """Return whether two types differ at most in what may be null."""
    return _nullable(one) == _nullable(other)


def _nullable(type_: T.DataType) -> T.DataType:
    """Return the type with every nested field nullable."""
    if isinstance(type_, T.StructType):
        return T.StructType([T.StructField(f.name, _nullable(f.dataType)) for f in type_.fields])
    if isinstance(type_, T.ArrayType):
        return T.ArrayType(_nullable(type_.elementType))
    if isinstance(type_, T.MapType):
        return T.MapType(_nullable(type_.keyType), _nullable(type_.valueType))
    return type_
