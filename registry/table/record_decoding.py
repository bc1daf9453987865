"""Input and output of decoding a table's records, for known columns of the input. It does not know Spark.

    plan of a table, metadata, policy for errors, columns of the input -> RecordDecoding
        .input       makes the decoder's input from Kafka's columns in Arrow
        .decoder     decodes batches of this input
        .columns     the columns of the result, with their types

`decode_stage.py` adds Spark's types. Others use it as it is: `KafkaTable.read_arrow`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.registry.contract.errors import ConfigurationError, SchemaError
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable, with_time_digits
from kvformat.registry.spark.decoded_columns import ERROR, ROW_INDEX, ROW_KIND
from kvformat.registry.table.computed_columns import computed_columns
from kvformat.registry.table.record_decoder import POSITION, TaskDecoder
from kvformat.registry.table.record_headers import HEADERS_TYPE
from kvformat.registry.table.record_input import RecordInput

if TYPE_CHECKING:
    from kvformat.registry.format import Errors
    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.table_plan import TablePlan

KAFKA_TYPES: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS_TYPE,
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
}
"""The columns of Spark's Kafka source, with their types in Arrow."""
_ERROR_COLUMNS = (*POSITION, "timestamp", "headers")
"""Kafka's columns that `error` contains if the input has them."""


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """A column of the result: its name, its name as the decoder gives it, its type there, and its type in the table."""

    name: str
    wire_name: str
    decoded: FlinkType
    declared: FlinkType


class RecordDecoding:
    """The decoding of a table's records: input columns, decoder, result columns, and the checks of both."""

    def __init__(
        self,
        plan: TablePlan,
        extra: Sequence[MetadataColumn],
        *,
        errors: Errors,
        row_index: bool,
        zone: str,
        columns: Collection[str] = tuple(KAFKA_TYPES),
        kafka_columns: Collection[str] = tuple(KAFKA_TYPES),
    ) -> None:
        """Plan the decoding of an input with the given columns, of which `kafka_columns` have the types of Kafka's.

        `extra` is the metadata that the caller asks for; `zone` the session's time zone, for computed columns.
        Raises `ConfigurationError` or `SchemaError` if the input does not fit.
        """
        self.plan, self.layout = plan, plan.layout
        self.row_index, self.capture = row_index, errors == "capture"
        self.policy = errors if self.capture or not plan.ignore_errors else "drop"
        self.metadata = [*plan.metadata, *extra]
        self.computed = computed_columns(plan.table, plan.metadata, zone)
        self.value_metadata = [column for column in self.metadata if column.of_value is not None]
        self.kafka_metadata = [column for column in self.metadata if column.of_value is None]
        self.topic = plan.topics[0] if plan.topics is not None and len(plan.topics) == 1 else None
        self.error_columns = [name for name in _ERROR_COLUMNS if self.capture and name in columns]
        if self.policy == "raise":
            self.error_columns = self._position_columns(kafka_columns)
        self.record_headers = plan.layout.record_headers if "headers" in kafka_columns else {}
        self.last = [ROW_KIND] * self.layout.has_kinds + [ROW_INDEX] * row_index + [ERROR] * self.capture
        self._check_names([*(column.name for column in extra)])
        if "value" not in columns:
            raise SchemaError("the DataFrame has no column 'value'", field="value")
        if self.layout.key_format is not None and "key" not in columns:
            raise SchemaError(
                f"the DataFrame has no column 'key', which key format '{self.layout.key_format.identifier}' reads",
                field="key",
            )
        self.sends_key = self.layout.key_format is not None or (self.capture and "key" in columns)
        self.uses_now = self.computed is not None and self.computed.uses_now
        self.columns: Sequence[DecodedColumn] = self._columns()
        self.decoder = self._decoder()

    def _position_columns(self, kafka_columns: Collection[str]) -> list[str]:
        """Return the columns that are sent only for the position of a bad record: those not known without them."""
        known = [column.key for column in self.kafka_metadata]
        if self.topic is not None:
            known.append("topic")
        return [name for name in POSITION if name not in known and name in kafka_columns]

    def _check_names(self, extra: Sequence[str]) -> None:
        names = [*(column.name for column in self.plan.table.columns), *extra, *self.last]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(
                f"the result would have two columns '{twice}'; give one of them another name", field=twice
            )

    # --- result --------------------------------------------------------------------------------------------

    def _decoder_types(self) -> dict[str, FlinkType]:
        """Return the columns of the decoder in their order, with their types there, without `last`."""
        types = {field.name: field.type for field in self.layout.physical.fields}
        types |= {column.name: column.key_type for column in (*self.value_metadata, *self.kafka_metadata)}
        computed = (column for column in self.plan.table.columns if column.kind == "computed")
        return types | {column.name: column.type for column in computed if column.type is not None}

    def _columns(self) -> list[DecodedColumn]:
        """Return the columns of the result in order, without `last`."""
        types = self._decoder_types()
        wire_names = self._wire_names(types)
        declared = {column.name: column.type for column in self.plan.table.columns if column.type is not None}
        declared |= {column.name: column.declared for column in self.metadata}
        return [DecodedColumn(name, wire_names[name], types[name], type_) for name, type_ in declared.items()]

    def _wire_names(self, names: Mapping[str, FlinkType]) -> dict[str, str]:
        """Return the names of the decoder's columns: the final ones, so that Spark need not copy rows to rename them.

        Returns generated names if two names differ in letter case only.
        """
        clash = len({name.lower() for name in [*names, *self.last]}) < len(names) + len(self.last)
        return {name: f"c{i}" if clash else name for i, name in enumerate(names)}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the decoder's columns, in order."""
        by_name = {column.name: column.wire_name for column in self.columns}
        return (*(by_name[name] for name in self._decoder_types()), *self.last)

    def arrow_fields(self) -> list[pa.Field]:
        """Return the columns of the result, and those after them, as fields of Arrow."""
        digits = self.layout.value_format.time_digits
        fields = [pa.field(c.name, arrow_type(nullable(with_time_digits(c.declared, digits)))) for c in self.columns]
        last = {ROW_KIND: pa.string(), ROW_INDEX: pa.int32()}
        return [*fields, *(pa.field(name, last[name] if name in last else self._error_type()) for name in self.last)]

    def _error_type(self) -> pa.DataType:
        bytes_ = [("key", pa.binary()), ("value", pa.binary())]
        position = [(name, KAFKA_TYPES[name]) for name in self.error_columns]
        return pa.struct([("part", pa.string()), ("reason", pa.string()), *bytes_, *position, ("code", pa.string())])

    # --- decoder -------------------------------------------------------------------------------------------

    def _decoder(self) -> TaskDecoder:
        own_columns = self.layout.value_format.own_columns
        count = len(self.kafka_metadata)
        return replace(
            self.counter(),
            policy=self.policy,
            has_key=self.sends_key,
            names=self.names,
            metadata=tuple(str(c.of_value) for c in self.value_metadata if c.of_value not in own_columns),
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

    @property
    def input(self) -> RecordInput:
        """Makes the decoder's input from batches of Kafka's columns."""
        return RecordInput(
            self.sends_key, self.record_headers, tuple(self.kafka_metadata), tuple(self.error_columns), self.uses_now
        )
