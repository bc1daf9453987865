r"""Read and write Avro with Spark's `from_avro` and `to_avro`, if spark-avro is available and gives equal results.

Results are equal for BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, BYTES, DATE, TIMESTAMP, TIMESTAMP_LTZ, ARRAY and ROW. Arrow
handles all other types:

| type | Spark |
| --- | --- |
| CHAR, VARCHAR, read | keeps invalid UTF-8; with many strings, Arrow is faster than a search for it |
| more than eight CHAR, VARCHAR, written | does not repair invalid UTF-8; with many strings, Arrow is faster |
| DECIMAL, read | a number that does not fit its precision fails, or becomes another number |
| TINYINT, SMALLINT, read | reads an INT, without a check of its range |
| TIME | has other types |
| MAP, MULTISET | keeps the first and the last of equal keys; writes in the order of a hash table |

Spark's settings do not change results: dates and timestamps are read with the proleptic Gregorian calendar
(`CORRECTED`). They are written as numbers or as timestamps without a zone, which ignore the settings. For a surrogate,
Spark's `make_valid_utf8` gives several U+FFFD, Java gives one. So strings with surrogates are changed before writing.
"""

from __future__ import annotations

import functools
import json
import operator
import weakref
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from kvformat.codecs.avro.schema import Schema
from kvformat.registry.contract.types import FlinkType, nullable, spark_type

_SAME = ("BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "BINARY", "VARBINARY")
_TEXTS = ("CHAR", "VARCHAR")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
_READ = (*_SAME, *_TIMES, "ARRAY", "ROW")
_WRITTEN = (*_READ, *_TEXTS, "TINYINT", "SMALLINT", "DECIMAL")
_MOST_TEXTS = 8  # Spark checks each column: with three it writes faster than Arrow, with thirty slower
_PROBE = "SELECT from_avro(X'00', '\"string\"', map())"
_SURROGATE = r"\G((?:..)*?)ED[AB].(?:[89AB].)?"  # in hexadecimal digits
_REPLACED = "$1EFBFBD"

_available: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def decode_native(message: Column, schema: Schema, row: FlinkType) -> Column | None:
    """Return the struct of a message, or None if Arrow must read it. A bad message fails with Spark's error."""
    if not _serves(row, _READ) or not _is_available():
        return None
    options = F.create_map(*(F.lit(text) for text in ("mode", "FAILFAST", "datetimeRebaseMode", "CORRECTED")))
    text = json.dumps(_without_zone(json.loads(schema.text), row))
    decoded = F.call_function("from_avro", message, F.lit(text), options)
    wanted = nullable(row)
    return decoded if wanted.fields == row.fields else decoded.cast(spark_type(wanted))


def encode_native(struct: Column, schema: Schema, row: FlinkType, prefix: bytes = b"") -> Column | None:
    """Return the message of a struct after a prefix, or None if Arrow must write it."""
    texts = sum(t.root in _TEXTS for _, t in row.walk())
    if texts > _MOST_TEXTS or not _serves(row, _WRITTEN) or not _is_available():
        return None
    text = F.lit(json.dumps(_as_numbers(json.loads(schema.text), row)))
    datum = F.call_function("to_avro", _changed(struct, row, _number), text)
    if texts:
        repaired = F.call_function("to_avro", _changed(struct, row, _number_or_text), text)
        datum = F.when(_is_bad(struct, row), repaired).otherwise(datum)
    return F.concat(F.lit(prefix), datum) if prefix else datum


def _serves(row: FlinkType, roots: tuple[str, ...]) -> bool:
    for _, t in row.walk():
        names = [field.name.casefold() for field in t.fields]
        if t.root not in roots or len(set(names)) < len(names) or (t.root == "ROW" and not names):
            return False
    return True


def _is_available() -> bool:
    """Return whether the session has spark-avro. Cached for each session."""
    try:
        session = SparkSession.active()
    except PySparkException:
        return False
    known = _available.get(session)
    if known is None:
        try:
            session.sql(_PROBE).schema  # noqa: B018 - Spark Connect analyses the query for its schema
            known = True
        except PySparkException:
            known = False
        _available[session] = known
    return known


# --- schemas -------------------------------------------------------------------------------------------


def _without_zone(node: Any, t: FlinkType) -> Any:
    """Change TIMESTAMP to `local-timestamp-*`, which Spark reads as TimestampNTZType."""

    def local(node: dict[str, Any], t: FlinkType) -> Any:
        if t.root != "TIMESTAMP":
            return node
        return node | {"logicalType": "local-" + node["logicalType"].removeprefix("local-")}

    return _rewritten(node, t, local)


def _as_numbers(node: Any, t: FlinkType) -> Any:
    """Return the schema to write the values of `_number`."""

    def plain(node: dict[str, Any], t: FlinkType) -> Any:
        return node["type"] if t.root in ("DATE", "TIMESTAMP_LTZ") else node

    return _rewritten(_without_zone(node, t), t, plain)


def _rewritten(node: Any, t: FlinkType, leaf: Callable[[dict[str, Any], FlinkType], Any]) -> Any:
    """Change the leaves of a derived schema that have a logical type. Keep names of records."""
    if isinstance(node, list):
        return [branch if branch == "null" else _rewritten(branch, t, leaf) for branch in node]
    if not isinstance(node, dict):
        return node
    if t.root == "ROW":
        members = zip(node["fields"], t.fields, strict=True)
        return node | {"fields": [f | {"type": _rewritten(f["type"], c.type, leaf)} for f, c in members]}
    if t.root == "ARRAY":
        return node | {"items": _rewritten(node["items"], t.fields[0].type, leaf)}
    return leaf(node, t)


# --- values --------------------------------------------------------------------------------------------


def _changed(value: Column, t: FlinkType, leaf: Callable[[Column, FlinkType], Column | None]) -> Column:
    """Change the leaves of a value. Keep parts without leaves to change."""
    changed = _change(value, t, leaf)
    return value if changed is None else changed


def _change(value: Column, t: FlinkType, leaf: Callable[[Column, FlinkType], Column | None]) -> Column | None:
    if t.root == "ARRAY":
        element = t.fields[0].type
        if _change(F.lit(None), element, leaf) is None:
            return None
        return F.transform(value, lambda item: _changed(item, element, leaf))
    if t.root != "ROW":
        return leaf(value, t)
    members = [_change(value.getField(f.name), f.type, leaf) for f in t.fields]
    if all(member is None for member in members):
        return None
    columns = [
        (value.getField(f.name) if member is None else member).alias(f.name)
        for f, member in zip(t.fields, members, strict=True)
    ]
    return F.when(value.isNotNull(), F.struct(*columns))


def _number(value: Column, t: FlinkType) -> Column | None:
    """Convert dates and instants to numbers, which do not depend on Spark's settings."""
    if t.root == "DATE":
        return F.unix_date(value)
    if t.root == "TIMESTAMP_LTZ":
        return F.unix_millis(value) if (t.precision or 0) <= 3 else F.unix_micros(value)
    return None


def _number_or_text(value: Column, t: FlinkType) -> Column | None:
    """Convert dates and instants to numbers, and invalid UTF-8 in strings to U+FFFD, as Java does."""
    if t.root not in _TEXTS:
        return _number(value, t)
    digits = F.regexp_replace(F.hex(value.cast("binary")), _SURROGATE, _REPLACED)
    return F.when(F.is_valid_utf8(value), value).otherwise(F.make_valid_utf8(F.unhex(digits).cast("string")))


def _has_text(t: FlinkType) -> bool:
    return any(part.root in _TEXTS for _, part in t.walk())


def _is_bad(value: Column, t: FlinkType) -> Column:
    """Return whether a value contains invalid UTF-8: true, or else false or null. Its type must have strings."""
    if t.root in _TEXTS:
        return ~F.is_valid_utf8(value)
    if t.root == "ARRAY":
        return F.exists(value, lambda item: _is_bad(item, t.fields[0].type))
    return functools.reduce(
        operator.or_, (_is_bad(value.getField(f.name), f.type) for f in t.fields if _has_text(f.type))
    )
