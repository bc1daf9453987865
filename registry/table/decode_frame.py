"""Kafka records to rows of a table, in Spark: one Python stage decodes key and value together.

    select the input -> mapInArrow: decode_records, computed columns, error policy -> casts, names, watermark

It is a `mapInArrow` and not a UDF because a record may have no row or several, because Spark keeps no copy of the
input row, and because no filter on the result is pushed below it or copies it. The connector's metadata are cheap
native expressions, which pass through the stage beside their record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.errors import (
    ConfigurationError,
    DecodeError,
    MissingExtraError,
    SchemaError,
    too_many_bad,
)
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.normalize_input import binary_messages
from kvformat.registry.contract.types import FlinkField, nullable, spark_type, with_time_digits
from kvformat.registry.spark.decoded_columns import ERROR, KINDS_KEY, ROW_INDEX, ROW_KIND, exact_column
from kvformat.registry.spark.settings import check_time
from kvformat.registry.spark.workers import check_workers
from kvformat.registry.table.computed_columns import ComputedColumns, computed_columns
from kvformat.registry.table.decode_records import TableRows, decode_records
from kvformat.registry.table.record_headers import plain_headers
from kvformat.registry.table.record_layout import RecordLayout

try:
    from pyspark import TaskContext
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from kvformat.registry.table.kafka_columns import (
        binary_column,
        column_types,
        has_headers,
        header_column,
        metadata_column,
    )
    from kvformat.registry.table.watermark import with_watermark
except ImportError as cause:
    raise MissingExtraError("DataFrames need PySpark 4.1 or newer: pip install 'kvformat[spark]'") from cause

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kvformat.registry.format import Errors
    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.table_plan import TablePlan

_ERROR_COLUMNS = ("topic", "partition", "offset", "timestamp", "headers")
"""Kafka's columns that `error` contains if the input has them."""
_POSITION_TYPES = {"topic": T.StringType(), "partition": T.IntegerType(), "offset": T.LongType()}
"""The columns of a record's position in Kafka, with their types in Spark's Kafka source."""
_QUOTED_BYTES = 100  # bytes of a bad record that an error quotes


def decode_frame(
    plan: TablePlan, extra: Sequence[MetadataColumn], df: DataFrame, errors: Errors, row_index: bool
) -> DataFrame:
    """Decode a DataFrame of Kafka records; `KeyValueFormat.decode` describes it.

    `extra` is the metadata that the caller asks for. Raises `ConfigurationError` or `SchemaError` if `df` does not fit.
    """
    check_workers()
    check_time((FlinkField(c.name, c.type) for c in plan.table.columns if c.type is not None), df.sparkSession)
    stage = _DecodeStage(plan, extra, df, errors, row_index)
    if errors == "raise" and plan.ignore_errors and plan.most_errors >= 0:
        stage.check_error_count()
    return with_watermark(plan.table, stage.decoded())


class _DecodeStage:
    """The Python stage: its input columns, its result columns, and the checks of both."""

    def __init__(
        self, plan: TablePlan, extra: Sequence[MetadataColumn], df: DataFrame, errors: Errors, row_index: bool
    ) -> None:
        self.plan, self.df, self.layout, self.row_index = plan, df, plan.layout, row_index
        self.capture = errors == "capture"
        self.policy = errors if self.capture or not plan.ignore_errors else "drop"
        self.input_types = column_types(df)
        self.metadata = [*plan.metadata, *extra]
        zone = df.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
        self.computed = computed_columns(plan.table, plan.metadata, zone)
        self.value_metadata = [column for column in self.metadata if column.of_value is not None]
        self.kafka_metadata = [column for column in self.metadata if column.of_value is None]
        self.topic = plan.topics[0] if plan.topics is not None and len(plan.topics) == 1 else None
        self.error_columns = [name for name in _ERROR_COLUMNS if self.capture and name in self.input_types]
        if self.policy == "raise":
            self.error_columns = self._position_columns()
        self.record_headers = plan.layout.record_headers if has_headers(self.input_types) else {}
        self.last = [ROW_KIND] * self.layout.has_kinds + [ROW_INDEX] * row_index + [ERROR] * self.capture
        self._check_names([*(column.name for column in extra)])
        if "value" not in self.input_types:
            raise SchemaError("the DataFrame has no column 'value'", field="value")
        if self.layout.key_format is not None and "key" not in self.input_types:
            raise SchemaError(
                f"the DataFrame has no column 'key', which key format '{self.layout.key_format.identifier}' reads",
                field="key",
            )

    def _position_columns(self) -> list[str]:
        """Return the columns that are sent only for the position of a bad record: those not known without them."""
        known = [column.key for column in self.kafka_metadata]
        if self.topic is not None:
            known.append("topic")
        return [
            name for name, type_ in _POSITION_TYPES.items() if name not in known and self.input_types.get(name) == type_
        ]

    def _check_names(self, extra: Sequence[str]) -> None:
        names = [*(column.name for column in self.plan.table.columns), *extra, *self.last]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(
                f"the result would have two columns '{twice}'; give one of them another name", field=twice
            )

    # --- input ---------------------------------------------------------------------------------------------

    def _input(self, *, sends_key: bool) -> list[Column]:
        columns = [binary_column(self.input_types, "key").alias("k")] if sends_key else []
        columns.append(binary_column(self.input_types, "value").alias("v"))
        return [
            *columns,
            *(header_column(names).alias(f"{part}_header") for part, names in self.record_headers.items()),
        ]

    # --- result --------------------------------------------------------------------------------------------

    def decoded(self) -> DataFrame:
        """Return the rows with all columns."""
        sends_key = self.layout.key_format is not None or (self.capture and "key" in self.input_types)
        columns = self._input(sends_key=sends_key)
        columns += [metadata_column(c, self.input_types).alias(f"m{i}") for i, c in enumerate(self.kafka_metadata)]
        columns += [F.col(name).alias(f"x{i}") for i, name in enumerate(self.error_columns)]
        uses_now = self.computed is not None and self.computed.uses_now
        if uses_now:
            columns.append(F.current_timestamp().alias("now"))
        records = self.df.select(columns)
        fields = [(field.type, field.name) for field in self.layout.physical.fields]
        fields += [(column.given, column.name) for column in self.value_metadata]
        fields += [(column.given, column.name) for column in self.kafka_metadata]
        computed = [c for c in self.plan.table.columns if c.kind == "computed"]
        fields += [(c.type, c.name) for c in computed if c.type is not None]
        names = self._wire_names([name for _, name in fields])
        wire = T.StructType()
        for name, (type_, _) in zip(names, fields, strict=True):
            wire.add(name, spark_type(type_, wire=True))
        if self.layout.has_kinds:
            wire.add(ROW_KIND, T.StringType(), metadata=self._known_kinds())
        if self.row_index:
            wire.add(ROW_INDEX, T.IntegerType())
        if self.capture:
            wire.add(ERROR, self._error_type(records))
        own = self.layout.value_format.own_columns
        count = len(self.kafka_metadata)
        decoder = _RecordDecoder(
            layout=self.layout,
            policy=self.policy,
            has_key=sends_key,
            record_headers=tuple(self.record_headers.items()),
            names=tuple(wire.names),
            metadata=tuple(str(c.of_value) for c in self.value_metadata if c.of_value not in own),
            metadata_count=count,
            error_columns=tuple(self.error_columns),
            row_index=self.row_index,
            position=tuple((c.key, i) for i, c in enumerate(self.kafka_metadata) if c.key in _POSITION_TYPES)
            + tuple((name, count + i) for i, name in enumerate(self.error_columns)),
            topic=self.topic,
            computed=self.computed,
            computed_inputs=self._computed_inputs(),
            uses_now=uses_now,
        )
        decoded = records.mapInArrow(decoder.mapped(), wire)
        return decoded.select(self._result_columns(dict(zip([name for _, name in fields], names, strict=True))))

    def _computed_inputs(self) -> tuple[int, ...]:
        """Return the places of the columns that computed ones may use, among the rows' columns and Kafka's metadata."""
        if self.computed is None:
            return ()
        names = [field.name for field in self.layout.physical.fields]
        names += [column.name for column in (*self.value_metadata, *self.kafka_metadata)]
        return tuple(names.index(name) for name in self.computed.inputs)

    def _known_kinds(self) -> dict[str, str] | None:
        """Return the metadata of `row_kind`: the kinds that can occur, if it is known that not all can."""
        if self.layout.upsert:
            return {KINDS_KEY: "+U,-D"}
        return {KINDS_KEY: "+I,+U,-D"} if self.layout.by_key else None

    def _wire_names(self, names: list[str]) -> list[str]:
        """Return the names of the stage's columns: the final ones, so that Spark need not copy rows to rename them.

        Returns generated names if two names differ in letter case only.
        """
        clash = len({name.lower() for name in [*names, *self.last]}) < len(names) + len(self.last)
        return [f"c{i}" for i in range(len(names))] if clash else names

    def _error_type(self, records: DataFrame) -> T.StructType:
        found = T.StructType([T.StructField(name, T.StringType()) for name in ("part", "reason")])
        found.add("key", T.BinaryType()).add("value", T.BinaryType())
        for i, name in enumerate(self.error_columns):
            found.add(name, _nullable(records.schema[f"x{i}"].dataType))
        return found.add("code", T.StringType())

    def _result_columns(self, wire_names: dict[str, str]) -> list[Column]:
        """Return the columns of the result in order, with their final types."""
        types = {column.name: column.type for column in self.plan.table.columns if column.type is not None}
        types |= {column.name: column.declared for column in self.metadata}
        given = {field.name: field.type for field in self.layout.physical.fields}
        given |= {column.name: column.given for column in self.metadata}
        given |= {c.name: c.type for c in self.plan.table.columns if c.kind == "computed" and c.type is not None}
        columns = []
        digits = self.layout.value_format.time_digits
        for name, type_ in types.items():
            wire, final = spark_type(given[name], wire=True), spark_type(nullable(with_time_digits(type_, digits)))
            column = exact_column(wire_names[name])
            if isinstance(final, T.YearMonthIntervalType):
                column = F.make_ym_interval(F.lit(0), column)
            elif wire != final:
                column = column.cast(final)
            columns.append(column if wire == final and wire_names[name] == name else column.alias(name))
        return [*columns, *map(F.col, self.last)]

    # --- tolerated errors ----------------------------------------------------------------------------------

    def check_error_count(self) -> None:
        """Run a job that counts the bad records of a batch; raises `DecodeError` if there are too many."""
        most = self.plan.most_errors
        if self.df.isStreaming:
            raise ConfigurationError(
                "'ingestion.error-tolerance.max-count' counts the bad records of a batch, which is not possible in a "
                "stream: call decode in foreachBatch on its DataFrame, or set the option to -1",
                option="ingestion.error-tolerance.max-count",
            )
        has_key = self.layout.key_format is not None
        decoder = _RecordDecoder(self.layout, "count", has_key, tuple(self.record_headers.items()), ("reason", "code"))
        records = self.df.select(self._input(sends_key=has_key))
        faults = records.mapInArrow(decoder.mapped(), "reason STRING, code STRING").limit(most + 1).collect()
        if len(faults) > most:
            raise too_many_bad(most, *faults[0])


class _Computation:
    """Computes the computed columns of a batch: called for the failed rows, then for the columns of the rows kept."""

    def __init__(
        self, computed: ComputedColumns, inputs: Sequence[int], kafka_metadata: Sequence[pa.Array], now: int
    ) -> None:
        self.computed, self.inputs, self.kafka_metadata, self.now = computed, inputs, kafka_metadata, now
        self._of: TableRows | None = None
        self._columns: list[pa.Array] = []

    def __call__(self, rows: TableRows) -> Mapping[int, str]:
        """Return the reasons of the rows that fail."""
        metadata = self.kafka_metadata
        if rows.records is not None:
            metadata = [column.take(pa.array(rows.records)) for column in metadata]
        given = [*rows.columns, *metadata]
        length = int(rows.counts.sum())
        self._columns, failed = self.computed.evaluate([given[i] for i in self.inputs], length, self.now)
        self._of = rows
        return failed

    def columns(self, rows: TableRows) -> list[pa.Array]:
        """Return the columns, NULL in rows of bad records."""
        if self._of is not rows:
            self(rows)
        if rows.reasons is None:
            return self._columns
        bad = np.asarray(rows.reasons.is_valid())
        bad_rows = bad if rows.records is None else bad[rows.records]
        if not bad_rows.any():
            return self._columns
        indexes = pa.array(np.arange(len(bad_rows)), mask=bad_rows)
        return [column.take(indexes) for column in self._columns]


@dataclass(frozen=True)
class _RecordDecoder:
    """Decodes the batches of one Spark task in a Python worker; pickled to it.

    An input batch has the columns: key (if `has_key`), value, the headers of the parts `record_headers`, the
    connector's metadata (`metadata_count` columns), and the `error_columns`. `policy` is 'raise', 'drop', 'capture', or
    'count', which returns only the errors. `names` are the columns of the result, `metadata` the keys of the value
    format. `position` gives the index of each column, after the headers, that is part of a record's position in Kafka;
    `topic` is the table's only topic.
    """

    layout: RecordLayout
    policy: str
    has_key: bool
    record_headers: tuple[tuple[Part, HeaderNames], ...]
    names: tuple[str, ...]
    metadata: tuple[str, ...] = ()
    metadata_count: int = 0
    error_columns: tuple[str, ...] = ()
    row_index: bool = False
    position: tuple[tuple[str, int], ...] = ()
    topic: str | None = None
    computed: ComputedColumns | None = None
    computed_inputs: tuple[int, ...] = ()
    uses_now: bool = False

    def mapped(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function for `mapInArrow`, with the name that Spark shows in plans."""

        def key_value_decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            before = 0
            for batch in batches:
                yield self.decoded(batch, before)
                before += len(batch)

        return key_value_decode

    def decoded(self, batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
        """Return the rows of a batch; `before` is the number of records in earlier batches of the task."""
        columns = batch.columns
        key = binary_messages(columns[0]) if self.has_key else None
        value, *others = columns[int(self.has_key) :]
        value = binary_messages(value)
        found = zip(self.record_headers, others, strict=False)
        headers = {part: plain_headers(column, names) for (part, names), column in found}
        others = others[len(headers) :]
        capture = self.policy == "capture"
        now = 0
        if self.uses_now:
            now = others.pop().view(pa.int64())[0].as_py() if len(batch) else 0
        computation = None
        if self.computed is not None:
            kafka_metadata = others[: self.metadata_count]
            computation = _Computation(self.computed, self.computed_inputs, kafka_metadata, now)
        rows = decode_records(
            self.layout, key, value, self.metadata, capture=capture, headers=headers, failed_rows=computation
        )
        if self.policy == "count":
            none = pa.nulls(0, pa.string())
            faults = [none if texts is None else texts.drop_null() for texts in (rows.reasons, rows.codes)]
            return pa.RecordBatch.from_arrays(faults, self.names)
        if self.policy == "raise" and rows.reasons is not None:
            raise self._first_error(rows, key, value, others, before)
        records = None if rows.records is None else pa.array(rows.records)
        metadata = others[: self.metadata_count]
        result = [*rows.columns, *(metadata if records is None else [column.take(records) for column in metadata])]
        if computation is not None:
            result += computation.columns(rows)
        if self.layout.has_kinds:
            result.append(rows.kinds)
        if self.row_index:
            result.append(rows.indexes())
        if self.policy == "capture":
            result.append(self._error_column(rows, key, value, others[self.metadata_count :], records))
        return pa.RecordBatch.from_arrays(result, self.names)

    def _error_column(
        self,
        rows: TableRows,
        key: pa.BinaryArray | None,
        value: pa.BinaryArray,
        error_columns: Sequence[pa.Array],
        records: pa.Int64Array | None,
    ) -> pa.StructArray:
        """Return the column `error`, null for good rows; the bytes of good records are not copied."""
        length = len(value)
        reasons = pa.nulls(length, pa.string()) if rows.reasons is None else rows.reasons
        parts = pa.nulls(length, pa.string()) if rows.parts is None else rows.parts
        codes = pa.nulls(length, pa.string()) if rows.codes is None else rows.codes
        bad = np.asarray(reasons.is_valid())
        record_of = np.arange(length) if records is None else np.asarray(records)
        bad_records = pa.array(record_of, mask=~bad[record_of])
        keys = pa.nulls(length, pa.binary()) if key is None else key
        fields = [parts, reasons, keys, value, *error_columns, codes]
        return pa.StructArray.from_arrays(
            [field.take(bad_records) for field in fields],
            names=["part", "reason", "key", "value", *self.error_columns, "code"],
            mask=pa.array(~bad[record_of]),
        )

    def _first_error(
        self,
        rows: TableRows,
        key: pa.BinaryArray | None,
        value: pa.BinaryArray,
        others: Sequence[pa.Array],
        before: int,
    ) -> DecodeError:
        """Return the error of the first bad record, with the record's position and first bytes."""
        assert rows.reasons is not None
        assert rows.parts is not None
        assert rows.codes is not None
        bad = pc.index(rows.reasons.is_valid(), True).as_py()
        part, reason, code = rows.parts[bad].as_py(), rows.reasons[bad].as_py(), rows.codes[bad].as_py()
        format = {"key": self.layout.key_format, "value": self.layout.value_format}.get(part)
        task = TaskContext.get()
        where = "" if task is None else f"number {before + bad + 1} of Spark's partition {task.partitionId()}, "
        position = {} if self.topic is None else {"topic": self.topic}
        position |= {name: others[i][bad].as_py() for name, i in self.position}
        where += "".join(f"{name} {position[name]}, " for name in _POSITION_TYPES if name in position)
        quotes = f"key {_quoted_bytes(key[bad].as_py())}, " if key is not None else ""
        message = (key if part == "key" else value)[bad].as_py()  # type: ignore[index]
        return DecodeError(
            f"cannot decode the {part} of a record: {reason}. The record: {where}{quotes}value "
            f"{_quoted_bytes(value[bad].as_py())}. To keep bad records as data, use errors='capture'",
            format=None if format is None else format.identifier,
            reason=reason,
            head=None if message is None else message[:_QUOTED_BYTES],
            code=code,
        )


def _quoted_bytes(data: bytes | None) -> str:
    if data is None:
        return "null"
    more = f" and {len(data) - _QUOTED_BYTES} more bytes" if len(data) > _QUOTED_BYTES else ""
    return f"{data[:_QUOTED_BYTES]!r}{more}"


def _nullable(type_: T.DataType) -> T.DataType:
    """Return the type with every nested field nullable."""
    if isinstance(type_, T.StructType):
        return T.StructType([T.StructField(f.name, _nullable(f.dataType)) for f in type_.fields])
    if isinstance(type_, T.ArrayType):
        return T.ArrayType(_nullable(type_.elementType))
    if isinstance(type_, T.MapType):
        return T.MapType(_nullable(type_.keyType), _nullable(type_.valueType))
    return type_
