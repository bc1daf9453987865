"""The types that databases declare for their columns in messages of changes: Canal's `mysqlType` and `sqlType`.

    mysql_type   "decimal(10,2)", "bigint(20) unsigned", "tinyint(1)"
    jdbc_type    a number of `java.sql.Types`
    holds        whether a column needs no change for values of a declared type

A declared type has two readings. `AS_FLINK_READS` gives the type that reads the value from the message by Flink's
rules. `Ingested` gives the type of the column as Ververica's ingestion has it. Rules: MySQL's "Data Types".
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from kvformat.codecs.discovery.value_summary import MOST_DIGITS
from kvformat.registry.contract.types import BYTES, STRING, FlinkType

_MYSQL = re.compile(r"\s*([a-z]+)(?:\s*\(\s*([0-9]{1,5})\s*(?:,\s*([0-9]{1,3})\s*)?\))?(.*)", re.IGNORECASE | re.DOTALL)
_LONGEST_TYPE = 200  # characters of a column type; an ENUM may be longer
_SMALL = re.compile(r"-?[0-9]{1,5}")
_BOOLEAN, _TIMESTAMP, _DAY = FlinkType("BOOLEAN"), FlinkType("TIMESTAMP", precision=6), FlinkType("DATE")
_FLOAT, _DOUBLE = FlinkType("FLOAT"), FlinkType("DOUBLE")
_UNSIGNED_LONG = FlinkType("DECIMAL", precision=20, scale=0)
_WHOLE = {  # signed, unsigned
    "tinyint": (FlinkType("TINYINT"), FlinkType("SMALLINT")),
    "smallint": (FlinkType("SMALLINT"), FlinkType("INT")),
    "mediumint": (FlinkType("INT"), FlinkType("INT")),
    "int": (FlinkType("INT"), FlinkType("BIGINT")),
    "integer": (FlinkType("INT"), FlinkType("BIGINT")),
    "year": (FlinkType("INT"), FlinkType("INT")),
    "bigint": (FlinkType("BIGINT"), _UNSIGNED_LONG),
}
_PLAIN = {"float": _FLOAT, "double": _DOUBLE, "real": _DOUBLE, "date": _DAY}
_JDBC = {
    -6: FlinkType("TINYINT"),
    5: FlinkType("SMALLINT"),
    4: FlinkType("INT"),
    -5: FlinkType("BIGINT"),
    7: _FLOAT,
    8: _DOUBLE,
    16: _BOOLEAN,
    91: _DAY,
    92: FlinkType("TIME", precision=3),
    93: _TIMESTAMP,
}
_JDBC_BINARY = (-2, -3, -4, 2004)
_JDBC_AS_FLINK_READS = {-7: FlinkType("TINYINT"), 6: _DOUBLE}
_JDBC_INGESTED = {
    **{-7: _BOOLEAN, 6: _FLOAT},
    **dict.fromkeys((3, 2), FlinkType("DECIMAL", precision=38, scale=18)),
    **dict.fromkeys(_JDBC_BINARY, BYTES),
}
_WIDER = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "INT": "BIGINT"}


@dataclass(frozen=True, slots=True)
class Ingested:
    """The reading of ingestion.

    `local_timestamps` says whether TIMESTAMP is TIMESTAMP, and not TIMESTAMP_LTZ; `boolean_tinyint` whether
    `tinyint(1)` is BOOLEAN.
    """

    local_timestamps: bool = True
    boolean_tinyint: bool = True


AS_FLINK_READS = None
"""The reading of Flink's formats: texts, bits and bytes are STRING."""


def mysql_type(text: Any, reading: Ingested | None) -> FlinkType:
    """Return the type for a column type of MySQL; STRING for unknown types, and for what is not a text."""
    return _mysql_type(text[:_LONGEST_TYPE], reading) if isinstance(text, str) else STRING


@functools.lru_cache(maxsize=4096)
def _mysql_type(text: str, reading: Ingested | None) -> FlinkType:
    match = _MYSQL.fullmatch(text)
    if match is None:
        return STRING
    word, length, scale = match[1].lower(), int(match[2] or 0), int(match[3] or 0)
    unsigned = "unsigned" in match[4].lower() or "zerofill" in match[4].lower()
    if reading is not None:
        other = _ingested(word, length, unsigned, reading)
        if other is not None:
            return other
    if word in _WHOLE:
        return _WHOLE[word][unsigned]
    if word in ("decimal", "numeric", "dec"):
        length = length or 10
        return FlinkType("DECIMAL", precision=length, scale=scale) if scale <= length <= MOST_DIGITS else STRING
    if word in ("datetime", "timestamp"):
        return FlinkType("TIMESTAMP", precision=min(length, 6))
    if word == "time" and length <= 3:
        return FlinkType("TIME", precision=length)
    return _PLAIN.get(word, STRING)


def _ingested(word: str, length: int, unsigned: bool, reading: Ingested) -> FlinkType | None:
    """Return the type of ingestion if it differs from the type that Flink's formats read.

    BINARY is only the type of BIT columns, whose texts are numbers. Their columns are BYTES.
    """
    if (word, length, unsigned) == ("tinyint", 1, False) and reading.boolean_tinyint:
        return _BOOLEAN
    if word == "bit":
        return _BOOLEAN if length <= 1 else FlinkType("BINARY", length=-(-length // 8))
    if word == "timestamp" and not reading.local_timestamps:
        return FlinkType("TIMESTAMP_LTZ", precision=min(length, 6))
    if word == "time":
        return FlinkType("TIME", precision=min(length, 3))
    if word in ("char", "varchar") and length:
        return FlinkType(word.upper(), length=length)
    return BYTES if _is_binary_word(word) else None


def _is_binary_word(word: str) -> bool:
    return word.endswith(("blob", "binary"))


def jdbc_type(number: Any, reading: Ingested | None) -> FlinkType:
    """Return the type for a number of `java.sql.Types`; STRING for texts and unknown numbers.

    Flink's formats read DECIMAL as STRING too, because its precision is not known.
    """
    if not isinstance(number, str) or not _SMALL.fullmatch(number):
        return STRING
    types = _JDBC_AS_FLINK_READS if reading is None else _JDBC_INGESTED
    return types.get(int(number)) or _JDBC.get(int(number), STRING)


def is_binary(text: Any) -> bool:
    """Return whether `mysqlType` or `sqlType` declares a binary column. Canal writes its bytes as ISO-8859-1 text."""
    match = _MYSQL.fullmatch(text) if isinstance(text, str) else None
    return text in map(str, _JDBC_BINARY) or (match is not None and _is_binary_word(match[1].lower()))


def wider(t: FlinkType) -> FlinkType | None:
    """Return the next larger integer type, because `sqlType` does not say whether a column is unsigned."""
    if t.root == "BIGINT":
        return _UNSIGNED_LONG
    return FlinkType(_WIDER[t.root]) if t.root in _WIDER else None
