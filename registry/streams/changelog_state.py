"""Flink's ChangelogNormalize on Spark's state: the last row of each key, packed as JSON text, in a RocksDB store.

    columns -> bucket; key, row as text; kind; order -> transformWithState -> kind, row as text -> columns

Python sees texts only: it compares them, keeps the last one per key and passes them on. Spark itself packs and
unpacks the rows, so values never become Python objects, which would lose types and depend on time zones. What
JSON would not keep (decimals, dates, NaN, ...) goes as the text of Spark's own cast, instants as microseconds.
The state stays readable with Spark's `statestore` source, and a table may gain columns between two runs.
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kvformat.registry.contract.errors import ConfigurationError, SchemaError, needs_extra
from kvformat.registry.spark.decoded_columns import exact_column
from kvformat.registry.streams.change_columns import ADDED_KINDS

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_BUCKETS = 1024  # a part of the state's layout: it can't be changed
_KEY = T.StructType([T.StructField("key", T.StringType())])
_TEXT = T.StructType([T.StructField("row", T.StringType())])
_RESULT = T.StructType([T.StructField("row_kind", T.StringType()), *_TEXT.fields])
_AS_THEY_ARE = (T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.StringType, T.BinaryType)
_AS_TEXT = (
    *(T.FloatType, T.DoubleType, T.DecimalType, T.DateType, T.TimestampNTZType, T.TimeType),
    *(T.DayTimeIntervalType, T.YearMonthIntervalType),
)
_JSON = json.JSONDecoder()
_SORTABLE = (*_AS_THEY_ARE, *_AS_TEXT[:6], T.TimestampType)


def check_session(df: DataFrame) -> None:
    """Find before a query starts what would fail it: Spark's own errors come from the middle of the first batch."""
    provider = df.sparkSession.conf.get(_PROVIDER)
    if "RocksDB" not in str(provider):
        raise ConfigurationError(
            f"normalize_changes keeps state that only RocksDB's store can hold, but {_PROVIDER} is {provider!r}: "
            f'set it before the query starts, spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")',
            option=_PROVIDER,
        )
    with needs_extra("normalize_changes needs protobuf", extra="state"):
        importlib.import_module("google.protobuf")  # PySpark's state client imports it on the workers


def normalized(
    table: T.StructType,
    df: DataFrame,
    keys: list[Column],
    order: list[Column],
    kind: Column,
    unchanged: Column | None,
    *,
    update_before: bool,
) -> DataFrame:
    """The changes of `df` as `normalize_changes` describes them, with the columns of `table`.

    `unchanged` has the names of the columns that keep the value of the last row.
    """
    key_types = [field.dataType for field in df.select(*keys).schema]
    order_types = [field.dataType for field in df.select(*order).schema]
    cells = [cell for by in zip(order, order_types, strict=True) for cell in _sort_cells(*by)]
    key = [(f"k{n}", *by) for n, by in enumerate(zip(keys, key_types, strict=True))]
    row = [(field.name, exact_column(field.name), field.dataType) for field in table]
    texts = df.select(
        F.pmod(F.xxhash64(_text(key)), F.lit(_BUCKETS)).alias("bucket"),
        _text(key).alias("key"),
        _text(row).alias("row"),
        kind.alias("row_kind"),
        F.struct(*(cell.alias(f"o{n}") for n, cell in enumerate(cells))).alias("order"),
        *([] if unchanged is None else [unchanged.alias("unchanged")]),
    )
    changes = texts.groupBy("bucket").transformWithState(
        statefulProcessor=_Normalizer(update_before, None if unchanged is None else table.names),
        outputStructType=_RESULT,
        outputMode="Append",
        timeMode="None",
    )
    whole = F.from_json("row", _packed_struct(table), {"mode": "FAILFAST"}).alias("row")
    fields = [_unpacked(F.col("row").getField(field.name), field.dataType).alias(field.name) for field in table]
    return changes.select("row_kind", whole).select(*fields, "row_kind")


class _Normalizer(StatefulProcessor):
    """Normalizes the changes of each key by comparing them with the last row of the key.

    Keys are grouped into buckets, because a call costs more than a row. Each call handles a bucket, and the state is a
    map from key to row.
    """

    def __init__(self, update_before: bool, kept: list[str] | None) -> None:
        self._update_before, self._kept = update_before, kept

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._last = handle.getMapState("last", _KEY, _TEXT)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        ordered = sorted(rows, key=lambda row: (row["key"], *row["order"].values()))
        for of_key, changes in itertools.groupby(ordered, key=lambda row: str(row["key"])):
            yield from self._changes(of_key, list(changes))

    def _changes(self, key: str, ordered: list[Any]) -> list[Row]:
        """Return the normalized changes of one key, and store its last row."""
        known = self._last.getValue((key,)) if self._last.containsKey((key,)) else None  # getValue() alone would warn
        before: str | None = known[0] if known else None
        last, changes = before, list[Row]()
        for row, following in itertools.zip_longest(ordered, ordered[1:]):
            if row["row_kind"] == "-U" and following is not None and following["row_kind"] in ADDED_KINDS:
                continue  # the first half of an update; without the other half, which then has another key, it deletes
            text = row["row"] if row["row_kind"] in ADDED_KINDS else None
            if self._kept is not None and text is not None and last is not None and row["unchanged"]:
                text = _with_old(text, last, row["unchanged"], self._kept)
            changes += self._step(last, text)
            last = text
        if last is None and before is not None:
            self._last.removeKey((key,))
        elif last is not None and last != before:
            self._last.updateValue((key,), (last,))
        return changes

    def _step(self, last: str | None, text: str | None) -> list[Row]:
        """Return the changes from one row of a key (`last`) to the next (`text`); None means that there is no row."""
        if last == text:
            return []
        if text is None:
            return [Row(row_kind="-D", row=last)]
        if last is None:
            return [Row(row_kind="+I", row=text)]
        after = Row(row_kind="+U", row=text)
        return [Row(row_kind="-U", row=last), after] if self._update_before else [after]

    def close(self) -> None:
        pass


def _with_old(text: str, last: str, unchanged: Iterable[str], names: list[str]) -> str:
    """A row as text with these columns as the last row has them, in the order of all names."""
    old = _members(last)
    members = {**_members(text), **{name: old[name] for name in unchanged if name in old}}
    return f"{{{','.join(members[name] for name in names if name in members)}}}"


def _members(text: str) -> dict[str, str]:
    """The members of a row as text, name and value as they stand there."""
    members, at = dict[str, str](), 1
    while text[at] != "}":
        name, end = _JSON.raw_decode(text, at)
        _, end = _JSON.raw_decode(text, end + 1)
        members[name] = text[at:end]
        at = end + (text[end] == ",")
    return members


# --- order -----------------------------------------------------------------------------------------------


def _sort_cells(column: Column, type_: T.DataType) -> list[Column]:
    """Values that Python sorts as Spark does: NULL first, NaN last."""
    if not isinstance(type_, _SORTABLE):
        raise SchemaError(f"changes can't be put in order by a column of type {type_.simpleString()}")
    if isinstance(type_, (T.FloatType, T.DoubleType)):
        return [column.isNotNull(), F.isnan(column), F.nanvl(column, F.lit(0))]
    return [column.isNotNull(), F.unix_micros(column) if isinstance(type_, T.TimestampType) else column]


# --- rows as text ----------------------------------------------------------------------------------------


def _text(fields: list[tuple[str, Column, T.DataType]]) -> Column:
    """JSON that is equal for equal rows; NULL fields are left out, so that a new column changes nothing."""
    struct = F.struct(*(_packed(column, type_).alias(name) for name, column, type_ in fields))
    return F.to_json(struct, {"ignoreNullFields": "true"})


def _packed_struct(type_: T.StructType) -> T.StructType:
    return T.StructType([T.StructField(field.name, _packed_type(field.dataType)) for field in type_])


def _packed_type(type_: T.DataType) -> T.DataType:
    """The type in which values of a type are written as JSON."""
    match type_:
        case T.StructType():
            return _packed_struct(type_)
        case T.ArrayType():
            return T.ArrayType(_packed_type(type_.elementType))
        case T.MapType():
            return T.ArrayType(_packed_type(_entry_type(type_)))
        case T.TimestampType():
            return T.LongType()
    if isinstance(type_, _AS_THEY_ARE):
        return type_
    if isinstance(type_, _AS_TEXT):
        return T.StringType()
    raise SchemaError(f"the state can't hold a column of type {type_.simpleString()}")


def _packed(column: Column, type_: T.DataType) -> Column:
    if _as_it_is(type_):
        return column
    match type_:
        case T.StructType():
            fields = [_packed(column.getField(field.name), field.dataType).alias(field.name) for field in type_]
            return F.when(column.isNotNull(), F.struct(*fields))
        case T.ArrayType():
            return F.transform(column, lambda element: _packed(element, type_.elementType))
        case T.MapType():  # a map's order means nothing: sorted, equal maps are equal texts
            return F.array_sort(_packed(F.map_entries(column), T.ArrayType(_entry_type(type_))))
        case T.TimestampType():
            return F.unix_micros(column)
    return column.cast(T.StringType())


def _unpacked(column: Column, type_: T.DataType) -> Column:
    if _as_it_is(type_):
        return column
    match type_:
        case T.StructType():
            fields = [_unpacked(column.getField(field.name), field.dataType).alias(field.name) for field in type_]
            return F.when(column.isNotNull(), F.struct(*fields))
        case T.ArrayType():
            return F.transform(column, lambda element: _unpacked(element, type_.elementType))
        case T.MapType():
            return F.map_from_entries(_unpacked(column, T.ArrayType(_entry_type(type_))))
        case T.TimestampType():
            return F.timestamp_micros(column)
    return column.cast(type_)


def _as_it_is(type_: T.DataType) -> bool:
    return _packed_type(type_).simpleString() == type_.simpleString()


def _entry_type(type_: T.MapType) -> T.StructType:
    return T.StructType([T.StructField("key", type_.keyType), T.StructField("value", type_.valueType)])
