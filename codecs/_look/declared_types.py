"""Types that messages declare for their columns, as ingestion reads them.

    mysql_column_type   Canal's `mysqlType`: "decimal(10,2)", "bigint(20) unsigned", "tinyint(1)"
    jdbc_column_type    Canal's `sqlType`: a number of `java.sql.Types`
    holds               whether a column needs no change for values of a declared type

Rules: the types that Ververica's ingestion gives to Canal's columns. `infer_schema` proposes other types for some of
them (`_infer.declared_types`): it takes the type that Flink's format reads.
"""

from __future__ import annotations

import functools
import re

from kvformat.codecs._infer.column_types import BYTES, STRING
from kvformat.codecs._infer.value_summary import MOST_DIGITS
from kvformat.codecs._kernel.tree import Node
from kvformat.registry.contract.types import MAX_LENGTH, FlinkType, nullable

_MYSQL = re.compile(r"\s*([a-z]+)(?:\s*\(\s*([0-9]{1,5})\s*(?:,\s*([0-9]{1,3})\s*)?\))?(.*)", re.IGNORECASE | re.DOTALL)
_SMALL = re.compile(r"-?[0-9]{1,5}")
_WHOLE = {  # signed, unsigned
    "tinyint": ("TINYINT", "SMALLINT"),
    "smallint": ("SMALLINT", "INT"),
    "mediumint": ("INT", "INT"),
    "int": ("INT", "BIGINT"),
    "integer": ("INT", "BIGINT"),
    "year": ("INT", "INT"),
}
_PLAIN = {"float": FlinkType("FLOAT"), "double": FlinkType("DOUBLE"), "real": FlinkType("DOUBLE")}
_UNSIGNED_LONG = FlinkType("DECIMAL", precision=20, scale=0)
_JDBC = {
    **dict.fromkeys((-7, 16), FlinkType("BOOLEAN")),
    -6: FlinkType("TINYINT"),
    5: FlinkType("SMALLINT"),
    4: FlinkType("INT"),
    -5: FlinkType("BIGINT"),
    **dict.fromkeys((3, 2), FlinkType("DECIMAL", precision=38, scale=18)),
    **dict.fromkeys((7, 6), FlinkType("FLOAT")),
    8: FlinkType("DOUBLE"),
    **dict.fromkeys((-2, -3, -4, 2004), BYTES),
    91: FlinkType("DATE"),
    92: FlinkType("TIME", precision=3),
    93: FlinkType("TIMESTAMP", precision=6),
}
_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}


@functools.lru_cache(maxsize=4096)
def mysql_column_type(text: str, *, local_timestamps: bool, boolean_tinyint: bool) -> FlinkType:
    """Return the type for a column type of MySQL; STRING for texts and unknown types.

    `local_timestamps` says whether TIMESTAMP is TIMESTAMP, and not TIMESTAMP_LTZ; `boolean_tinyint` whether
    `tinyint(1)` is BOOLEAN.
    """
    found = _MYSQL.fullmatch(text)
    if found is None:
        return STRING
    word, length, scale = found[1].lower(), int(found[2] or 0), int(found[3] or 0)
    rest = found[4].lower()
    unsigned = "unsigned" in rest or "zerofill" in rest
    if (word, length) == ("tinyint", 1) and boolean_tinyint and not unsigned:
        return FlinkType("BOOLEAN")
    if word in _WHOLE:
        return FlinkType(_WHOLE[word][unsigned])
    if word == "bigint":
        return _UNSIGNED_LONG if unsigned else FlinkType("BIGINT")
    if word in ("decimal", "numeric", "dec"):
        length = length or 10
        return FlinkType("DECIMAL", precision=length, scale=scale) if scale <= length <= MOST_DIGITS else STRING
    if word == "bit":
        return FlinkType("BOOLEAN") if length <= 1 else BYTES
    if word in ("datetime", "timestamp"):
        root = "TIMESTAMP" if word == "datetime" or local_timestamps else "TIMESTAMP_LTZ"
        return FlinkType(root, precision=min(length, 6))
    if word == "time":
        return FlinkType("TIME", precision=min(length, 3))
    if word in ("char", "varchar") and length:
        return FlinkType(word.upper(), length=length)
    if word.endswith(("blob", "binary")):
        return BYTES
    return FlinkType("DATE") if word == "date" else _PLAIN.get(word, STRING)


def jdbc_column_type(number: Node) -> FlinkType:
    """Return the type for a number of `java.sql.Types`; STRING for texts and unknown numbers."""
    return _JDBC.get(int(number), STRING) if isinstance(number, str) and _SMALL.fullmatch(number) else STRING


def holds(known: FlinkType, declared: FlinkType) -> bool:
    """Whether a column of the known type needs no change for values of the declared type.

    False does not mean that the merged type is another one: the caller merges the types.
    """
    one, other = nullable(known), nullable(declared)
    if one == other or (one.root == "VARCHAR" and one.length == MAX_LENGTH):
        return True
    if one.root in _INTEGER_DIGITS and other.root in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[one.root] >= _INTEGER_DIGITS[other.root]
    if one.root == "DECIMAL" and other.root in (*_INTEGER_DIGITS, "DECIMAL"):
        scale = other.scale or 0
        whole = _INTEGER_DIGITS.get(other.root) or (other.precision or 0) - scale
        return (one.scale or 0) >= scale and (one.precision or 0) - (one.scale or 0) >= whole
    if one.root == "DOUBLE":
        return other.root in (*_INTEGER_DIGITS, "FLOAT")
    if one.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        if other.root == "DATE":
            return one.precision == 9
        later = other.root == one.root or (other.root == "TIMESTAMP" and one.root == "TIMESTAMP_LTZ")
        return later and (one.precision or 0) >= (other.precision or 0)
    return False
