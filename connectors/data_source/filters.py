"""Filters of a query on a record's place in Kafka: they narrow the ranges that a batch reads. Spark applies them again.

    `_partition` = 0                  only this partition
    `_offset` >= 100                  from this offset
    `_timestamp` >= TIMESTAMP '...'   from the first record of each partition that is not older

A filter on a column counts if the column has the key's value unchanged. Records may be older than those before them, so
an upper bound of the timestamp narrows nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.registry.table.metadata import MetadataColumn

_Offsets: TypeAlias = Mapping[tuple[str, int], int]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_KEYS = {"topic": ("VARCHAR",), "partition": ("INT", "BIGINT"), "offset": ("BIGINT",), "timestamp": ("TIMESTAMP_LTZ",)}
"""Metadata keys whose filters narrow ranges, with the types of columns that have their values unchanged."""
_PASSES: Mapping[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, wanted: bool(value == wanted),
    In: lambda value, wanted: value in wanted,
    GreaterThan: lambda value, wanted: bool(value > wanted),
    GreaterThanOrEqual: lambda value, wanted: bool(value >= wanted),
    LessThan: lambda value, wanted: bool(value < wanted),
    LessThanOrEqual: lambda value, wanted: bool(value <= wanted),
}


def keys_of(columns: Iterable[MetadataColumn]) -> dict[str, str]:
    """Return the key of each column by whose filters ranges can be narrowed."""
    return {column.name: column.key for column in columns if column.declared.root in _KEYS.get(column.key, ())}


def narrowed(
    ranges: Sequence[PartitionRange],
    filters: Iterable[Filter],
    keys: Mapping[str, str],
    first_at: Callable[[int], _Offsets],
) -> tuple[PartitionRange, ...]:
    """Return the ranges that can have records for which all filters are true.

    `keys` are the metadata keys by column. `first_at` returns the offset of the first record of each partition that is
    not older than a time in milliseconds.
    """
    passing = list(ranges)
    for condition in filters:
        path: tuple[str, ...] = getattr(condition, "attribute", ())
        value: Any = getattr(condition, "value", None)
        key = keys.get(path[0]) if len(path) == 1 else None
        if key is None or type(condition) not in _PASSES or value is None:
            continue
        if key in ("topic", "partition"):
            passes = _PASSES[type(condition)]
            passing = [at for at in passing if passes(at.topic if key == "topic" else at.partition, value)]
        elif key == "offset":
            passing = [_bounded(at, condition, value) for at in passing]
        elif isinstance(condition, EqualTo | GreaterThan | GreaterThanOrEqual) and _can_be_asked(value):
            offsets = first_at((value - _EPOCH) // dt.timedelta(milliseconds=1))
            passing = [
                replace(at, start=max(at.start, offsets.get((at.topic, at.partition), at.start))) for at in passing
            ]
    return tuple(at for at in passing if at.count)


def _can_be_asked(value: Any) -> bool:
    """Return whether brokers know the offset of a time. Negative numbers mean the end and the beginning to them."""
    return isinstance(value, dt.datetime) and value.tzinfo is not None and value >= _EPOCH


def _bounded(at: PartitionRange, condition: Filter, value: Any) -> PartitionRange:
    """Return the part of a range whose offsets pass a filter."""
    start, end = at.start, at.end
    if isinstance(condition, In):
        numbers = [number for number in value if number is not None]
        start, end = max(start, min(numbers, default=end)), min(end, max(numbers, default=start - 1) + 1)
    if isinstance(condition, EqualTo | GreaterThanOrEqual):
        start = max(start, value)
    if isinstance(condition, GreaterThan):
        start = max(start, value + 1)
    if isinstance(condition, EqualTo | LessThanOrEqual):
        end = min(end, value + 1)
    if isinstance(condition, LessThan):
        end = min(end, value)
    return replace(at, start=start, end=end)
