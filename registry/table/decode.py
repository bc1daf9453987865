"""Kafka records to rows of a table, in Spark: one Python stage for key and value together.

    select what is needed -> mapInArrow: RecordCodec.decode, error policy -> casts, names, computed columns, watermark

`mapInArrow` rather than a UDF: a record may give no row or several, Spark keeps no copy of its input row, and no
filter on the result is pushed below it or copies it. Metadata of the connector is cheap and native; it only
travels through the stage beside its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    listed,
    too_many_bad,
)
from kvformat.registry.contract.normalize_input import binary_messages
from kvformat.registry.contract.types import nullable, quoted, spark_type, with_time_digits
from kvformat.registry.spark.settings import check_time
from kvformat.registry.spark.workers import check_workers
from kvformat.registry.sql.ddl import parse_type
from kvformat.registry.table.metadata import READABLE
from kvformat.registry.table.records import RecordCodec, TableRows

try:
    from pyspark import TaskContext
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
except ImportError as cause:
    raise MissingExtraError("DataFrames need PySpark 4.1 or newer: pip install 'kvformat[spark]'") from cause

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kvformat.registry.contract.format import Errors
    from kvformat.registry.table.metadata import MetadataColumn
    from kvformat.registry.table.planner import TablePlan

ROW_KIND, ROW_INDEX, ERROR = "row_kind", "row_index", "error"
#: metadata of `row_kind`: the kinds that a DataFrame can hold, with commas between
KINDS_KEY = "kvformat.kinds"
_ERROR_EXTRAS = ("topic", "partition", "offset", "timestamp", "headers")
#: what says where a record is, with its type in Spark's Kafka source
_PLACE = {"topic": T.StringType(), "partition": T.IntegerType(), "offset": T.LongType()}
_HEAD = 100  # so many bytes of a bad record are quoted in an error


def decode(
    plan: TablePlan, extra: Sequence[MetadataColumn], df: DataFrame, errors: Errors, row_index: bool
) -> DataFrame:
    """`KeyValueFormat.decode`, everything but the DataFrame checked."""
    check_workers()
    check_time(plan.codec.physical.fields, df.sparkSession)
    stage = _Stage(plan, extra, df, errors, row_index)
    if errors == "raise" and plan.ignore_errors and plan.most_errors >= 0:
        stage.check_count()
    decoded = stage.frame()
    return _with_watermark(plan, _with_computed(plan, decoded, stage))


class _Stage:
    """The Python stage: what goes in, what comes out."""

    def __init__(
        self, plan: TablePlan, extra: Sequence[MetadataColumn], df: DataFrame, errors: Errors, row_index: bool
    ) -> None:
        self.plan, self.df, self.codec, self.row_index = plan, df, plan.codec, row_index
        self.capture = errors == "capture"
        self.policy = errors if self.capture or not plan.ignore_errors else "drop"
        self.given = _kafka_columns(df)
        self.metadata = [*plan.metadata, *extra]
        self.of_value = [column for column in self.metadata if column.of_value is not None]
        self.of_kafka = [column for column in self.metadata if column.of_value is None]
        self.extras = [name for name in _ERROR_EXTRAS if self.capture and name in self.given]
        if self.policy == "raise":
            self.extras = self._place()
        self.last = [ROW_KIND] * self.codec.has_kinds + [ROW_INDEX] * row_index + [ERROR] * self.capture
        self._check_names([*(column.name for column in extra)])
        if "value" not in self.given:
            raise SchemaError("the DataFrame has no column 'value'", field="value")
        if self.codec.key_format is not None and "key" not in self.given:
            raise SchemaError(
                f"the DataFrame has no column 'key', which key format '{self.codec.key_format.identifier}' reads",
                field="key",
            )

    def _place(self) -> list[str]:
        """The columns that are sent only for an error to say where its record is: not what is known without them."""
        known = [column.key for column in self.of_kafka]
        if self.plan.topics is not None and len(self.plan.topics) == 1:
            known.append("topic")
        return [name for name, t in _PLACE.items() if name not in known and self.given.get(name) == t]

    def _check_names(self, extra: Sequence[str]) -> None:
        names = [*(column.name for column in self.plan.table.columns), *extra, *self.last]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(f"the result would have two columns '{twice}'; give one another name", field=twice)

    # --- what goes in --------------------------------------------------------------------------------------

    def _input(self) -> DataFrame:
        sends_key = self.codec.key_format is not None or (self.capture and "key" in self.given)
        columns = [_binary(self.given, "key").alias("k")] if sends_key else []
        columns.append(_binary(self.given, "value").alias("v"))
        columns += [_of_kafka(c, self.given).alias(f"m{i}") for i, c in enumerate(self.of_kafka)]
        columns += [F.col(name).alias(f"x{i}") for i, name in enumerate(self.extras)]
        return self.df.select(columns)

    # --- what comes out ------------------------------------------------------------------------------------

    def frame(self) -> DataFrame:
        records = self._input()
        fields = [(field.type, field.name) for field in self.codec.physical.fields]
        fields += [(column.given, column.name) for column in self.of_value]
        fields += [(column.given, column.name) for column in self.of_kafka]
        names = self._wire_names([name for _, name in fields])
        wire = T.StructType()
        for name, (t, _) in zip(names, fields, strict=True):
            wire.add(name, spark_type(t, wire=True))
        if self.codec.has_kinds:
            wire.add(ROW_KIND, T.StringType(), metadata=self._known_kinds())
        if self.row_index:
            wire.add(ROW_INDEX, T.IntegerType())
        if self.capture:
            wire.add(ERROR, self._error_type(records))
        work = _Work(
            self.codec,
            tuple(str(c.of_value) for c in self.of_value if c.of_value not in self.codec.value_format.own_columns),
            self.policy,
            len(self.of_kafka),
            tuple(self.extras),
            records.columns[0] == "k",
            tuple(wire.names),
            self.row_index,
            tuple((column.key, i) for i, column in enumerate(self.of_kafka) if column.key in _PLACE)
            + tuple((name, len(self.of_kafka) + i) for i, name in enumerate(self.extras)),
            self.plan.topics[0] if self.plan.topics is not None and len(self.plan.topics) == 1 else None,
        )
        decoded = records.mapInArrow(work.mapped(), wire)
        return decoded.select(self._output(dict(zip([name for _, name in fields], names, strict=True))))

    def _known_kinds(self) -> dict[str, str] | None:
        """What is known of the kinds beforehand, if it is less than all."""
        if self.codec.upsert:
            return {KINDS_KEY: "+U,-D"}
        return {KINDS_KEY: "+I,+U,-D"} if self.codec.by_key else None

    def _wire_names(self, names: list[str]) -> list[str]:
        """The names that the stage's columns have: their own, so that Spark need not copy rows to rename them.

        Others where two names differ in nothing but letter case.
        """
        clash = len({name.lower() for name in [*names, *self.last]}) < len(names) + len(self.last)
        return [f"c{i}" for i in range(len(names))] if clash else names

    def _error_type(self, records: DataFrame) -> T.StructType:
        found = T.StructType([T.StructField(n, T.StringType()) for n in ("part", "reason")])
        found.add("key", T.BinaryType()).add("value", T.BinaryType())
        for i, name in enumerate(self.extras):
            found.add(name, _nullable(records.schema[f"x{i}"].dataType))
        return found.add("code", T.StringType())

    def _output(self, places: dict[str, str]) -> list[Column]:
        """The result's columns in order; computed ones come later."""
        types = {column.name: column.type for column in self.plan.table.columns if column.type is not None}
        types |= {column.name: column.declared for column in self.metadata}
        given = {field.name: field.type for field in self.codec.physical.fields}
        given |= {column.name: column.given for column in self.metadata}
        columns = []
        digits = self.codec.value_format.time_digits
        for name, t in types.items():
            wire, plain = spark_type(given[name], wire=True), spark_type(nullable(with_time_digits(t, digits)))
            column = F.col(quoted(places[name]))
            if wire != plain:
                column = column.cast(plain)
            columns.append(column if wire == plain and places[name] == name else column.alias(name))
        return [*columns, *map(F.col, self.last)]

    # --- tolerated errors ----------------------------------------------------------------------------------

    def check_count(self) -> None:
        """Count the bad records of a batch before its good rows are used; raises `DecodeError` for too many."""
        most = self.plan.most_errors
        if self.df.isStreaming:
            raise ConfigurationError(
                "'ingestion.error-tolerance.max-count' is counted per batch, which a stream's plan can't do: call "
                "decode in foreachBatch, on its DataFrame, or set the option to -1",
                option="ingestion.error-tolerance.max-count",
            )
        work = _Work(self.codec, (), "count", 0, (), self.codec.key_format is not None, ("reason", "code"))
        columns = [_binary(self.given, "key").alias("k")] if self.codec.key_format is not None else []
        records = self.df.select(*columns, _binary(self.given, "value").alias("v"))
        faults = records.mapInArrow(work.mapped(), "reason STRING, code STRING").limit(most + 1).collect()
        if len(faults) > most:
            raise too_many_bad(most, *faults[0])


@dataclass(frozen=True)
class _Work:
    """What a Python worker does with its batches; pickled to it."""

    codec: RecordCodec
    metadata: tuple[str, ...]
    policy: str
    kafka_columns: int
    extras: tuple[str, ...]
    has_key: bool
    names: tuple[str, ...]
    row_index: bool = False
    #: the columns beside the record that say where it is
    places: tuple[tuple[str, int], ...] = ()
    #: the topic, where the table has one
    topic: str | None = None

    def mapped(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The function for `mapInArrow`, under the name that plans show."""

        def key_value_decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            before = 0
            for batch in batches:
                yield self.decoded(batch, before)
                before += len(batch)

        return key_value_decode

    def decoded(self, batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
        """The rows of a batch, the records of which follow so many others of the same task."""
        columns = batch.columns
        key = binary_messages(columns[0]) if self.has_key else None
        value, *beside = columns[int(self.has_key) :]
        value = binary_messages(value)
        capture = self.policy == "capture"
        rows = self.codec.decode(key, value, self.metadata, skips_are_faults=capture, fault_rows=capture)
        if self.policy == "count":
            none = pa.nulls(0, pa.string())
            faults = [none if texts is None else texts.drop_null() for texts in (rows.reasons, rows.codes)]
            return pa.RecordBatch.from_arrays(faults, self.names)
        if self.policy == "raise" and rows.reasons is not None:
            raise self._error(rows, key, value, beside, before)
        places = None if rows.records is None else pa.array(rows.records)
        kafka = beside[: self.kafka_columns]
        result = [*rows.columns, *(kafka if places is None else [column.take(places) for column in kafka])]
        if self.codec.has_kinds:
            result.append(rows.kinds)
        if self.row_index:
            result.append(rows.indexes())
        if capture:
            result.append(self._captured(rows, key, value, beside[self.kafka_columns :], places))
        return pa.RecordBatch.from_arrays(result, self.names)

    def _captured(
        self,
        rows: TableRows,
        key: pa.BinaryArray | None,
        value: pa.BinaryArray,
        extras: Sequence[pa.Array],
        places: pa.Int64Array | None,
    ) -> pa.StructArray:
        """The column `error`, null for good rows; the bytes of good records are not copied."""
        length = len(value)
        reasons = pa.nulls(length, pa.string()) if rows.reasons is None else rows.reasons
        parts = pa.nulls(length, pa.string()) if rows.parts is None else rows.parts
        codes = pa.nulls(length, pa.string()) if rows.codes is None else rows.codes
        bad = np.asarray(reasons.is_valid())
        of = np.arange(length) if places is None else np.asarray(places)
        at = pa.array(of, mask=~bad[of])
        keys = pa.nulls(length, pa.binary()) if key is None else key
        fields = [parts, reasons, keys, value, *extras, codes]
        return pa.StructArray.from_arrays(
            [field.take(at) for field in fields],
            names=["part", "reason", "key", "value", *self.extras, "code"],
            mask=pa.array(~bad[of]),
        )

    def _error(
        self,
        rows: TableRows,
        key: pa.BinaryArray | None,
        value: pa.BinaryArray,
        beside: Sequence[pa.Array],
        before: int,
    ) -> DecodeError:
        assert rows.reasons is not None
        assert rows.parts is not None
        assert rows.codes is not None
        at = pc.index(rows.reasons.is_valid(), True).as_py()
        part, reason, code = rows.parts[at].as_py(), rows.reasons[at].as_py(), rows.codes[at].as_py()
        formats = {"key": self.codec.key_format, "value": self.codec.value_format}
        format = formats.get(part)
        task = TaskContext.get()
        where = "" if task is None else f"number {before + at + 1} of Spark's partition {task.partitionId()}, "
        place = {} if self.topic is None else {"topic": self.topic}
        place |= {name: beside[i][at].as_py() for name, i in self.places}
        where += "".join(f"{name} {place[name]}, " for name in _PLACE if name in place)
        quotes = f"key {_head(key[at].as_py())}, " if key is not None else ""
        message = (key if part == "key" else value)[at].as_py()  # type: ignore[index]
        return DecodeError(
            f"cannot decode the {part} of a record: {reason}. The record: {where}{quotes}value "
            f"{_head(value[at].as_py())}. To keep bad records as data, use errors='capture'",
            format=None if format is None else format.identifier,
            reason=reason,
            head=None if message is None else message[:_HEAD],
            code=code,
        )


def _head(data: bytes | None) -> str:
    if data is None:
        return "null"
    more = f" and {len(data) - _HEAD} more bytes" if len(data) > _HEAD else ""
    return f"{data[:_HEAD]!r}{more}"


# --- Kafka's columns ---------------------------------------------------------------------------------------

_HEADER_LIST = parse_type(READABLE["header-list"])
_NEEDS = {"header-list": "headers", "timestamp-type": "timestampType", "leader-epoch": None}


def _kafka_columns(df: DataFrame) -> dict[str, T.DataType]:
    return {field.name: field.dataType for field in df.schema.fields}


def _binary(given: dict[str, T.DataType], name: str) -> Column:
    t = given[name]
    if isinstance(t, T.BinaryType):
        return F.col(name)
    if isinstance(t, T.StringType | T.NullType):
        return F.col(name).cast("binary")
    raise SchemaError(f"column '{name}' must be BINARY (or STRING), not {t.simpleString().upper()}", field=name)


def _of_kafka(column: MetadataColumn, given: dict[str, T.DataType]) -> Column:
    """The value of a metadata key, from the columns of Spark's Kafka source."""
    need = _NEEDS.get(column.key, column.key)
    wire = spark_type(column.given, wire=True)
    if need is None:
        return F.lit(None).cast(wire)  # Spark does not give it
    if need not in given:
        hint = "; Spark's Kafka source gives it with option('includeHeaders', 'true')" if need == "headers" else ""
        raise SchemaError(
            f"metadata column '{column.name}' needs the column '{need}'{hint}; the DataFrame has {listed(given)}",
            field=column.name,
        )
    source = F.col(need)
    if column.key == "timestamp-type":
        names = {0: "CreateTime", 1: "LogAppendTime"}
        cases = F.when(source == 0, names[0]).when(source == 1, names[1])
        return F.when(source.isNotNull(), cases.otherwise("NoTimestampType"))
    if column.key in ("headers", "header-list"):
        _check_headers(given[need], column)
        entries = F.coalesce(source, F.array().cast(spark_type(_HEADER_LIST, wire=True)))
        return entries if column.key == "header-list" else _last_by_key(entries).cast(wire)
    return source.cast(wire)


def _check_headers(t: T.DataType, column: MetadataColumn) -> None:
    """Raise for a column `headers` that is not as Spark's Kafka source gives it."""
    entry = t.elementType if isinstance(t, T.ArrayType) else None
    types = [field.dataType for field in entry.fields] if isinstance(entry, T.StructType) else []
    fits = isinstance(entry, T.StructType) and entry.names == ["key", "value"]
    if not fits or not isinstance(types[0], T.StringType) or not isinstance(types[1], T.BinaryType):
        raise SchemaError(
            f"metadata column '{column.name}' is read from the column 'headers', which must be "
            f"ARRAY<STRUCT<key: STRING, value: BINARY>>, as Spark's Kafka source gives it, not "
            f"{t.simpleString().upper()}: cast it first, or drop it and read with option('includeHeaders', 'true')",
            field=column.name,
        )


def _last_by_key(entries: Column) -> Column:
    """Headers as a map: of equal keys the last counts. Sorted by key and place, so that each looks at the next one."""
    placed = F.transform(entries, lambda header, i: F.struct(header["key"].alias("key"), i.alias("i"), header["value"]))
    ordered = F.array(F.array_sort(placed))  # in an array of one, so that it is computed once
    last = F.transform(
        ordered,
        lambda headers: F.filter(
            headers, lambda header, i: F.coalesce(F.get(headers, i + 1)["key"] != header["key"], F.lit(True))
        ),
    )
    pairs = F.transform(F.flatten(last), lambda header: F.struct(header["key"], header["value"]))
    return F.map_from_entries(pairs)


def _nullable(t: T.DataType) -> T.DataType:
    if isinstance(t, T.StructType):
        return T.StructType([T.StructField(f.name, _nullable(f.dataType)) for f in t.fields])
    if isinstance(t, T.ArrayType):
        return T.ArrayType(_nullable(t.elementType))
    if isinstance(t, T.MapType):
        return T.MapType(_nullable(t.keyType), _nullable(t.valueType))
    return t


# --- computed columns --------------------------------------------------------------------------------------


def _with_computed(plan: TablePlan, decoded: DataFrame, stage: _Stage) -> DataFrame:
    """The table's columns in their declared order, computed ones among them."""
    computed = {column.name: column for column in plan.table.columns if column.kind == "computed"}
    if not computed:
        return decoded
    for column in computed.values():
        if column.refused:
            raise ConfigurationError(
                f"computed column '{column.name}' can't be evaluated in Spark. {column.refused}", field=column.name
            )
    good = F.col(ERROR).isNull() if stage.capture else None

    def expression(name: str) -> Column:
        value = F.expr(computed[name].expression)
        return (value if good is None else F.when(good, value)).alias(name)

    for name in computed:
        try:
            decoded.select("*", expression(name)).schema  # noqa: B018 - makes Spark Connect analyse it now
        except AnalysisException as cause:
            raise ConfigurationError(
                f"computed column '{name}' can't be evaluated in Spark: {computed[name].expression}: {cause}",
                field=name,
            ) from cause
    names = [column.name for column in plan.table.columns]
    names += [name for name in decoded.columns if name not in names]
    return decoded.select([expression(name) if name in computed else F.col(quoted(name)) for name in names])


# --- watermark ---------------------------------------------------------------------------------------------


def _with_watermark(plan: TablePlan, decoded: DataFrame) -> DataFrame:
    """The table's WATERMARK in a stream; a batch has no use for one.

    Spark's event time has a time zone: a TIMESTAMP becomes one in that of the session, as in `CAST(ts AS TIMESTAMP)`.
    """
    watermark = plan.table.watermark
    if watermark is None or not decoded.isStreaming:
        return decoded
    name = watermark.column
    given = decoded.schema[name].dataType
    if not isinstance(given, T.TimestampType | T.TimestampNTZType):
        raise ConfigurationError(
            f"column '{name}' of the WATERMARK is {given.simpleString().upper()}, but must be a timestamp", field=name
        )
    if isinstance(given, T.TimestampNTZType):
        columns = [F.col(quoted(column)) for column in decoded.columns]
        columns[decoded.columns.index(name)] = F.col(quoted(name)).cast(T.TimestampType()).alias(name)
        decoded = decoded.select(columns)
    return decoded.withWatermark(quoted(name), f"{watermark.delay_ms} milliseconds")
