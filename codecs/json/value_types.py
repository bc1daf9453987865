"""The type of a JSON value, and whether the known type of a column reads it.

| value | type |
| --- | --- |
| true, false | BOOLEAN |
| whole number | BIGINT; beyond 64 bits DECIMAL(20 to 38, 0); beyond 38 digits STRING |
| number with a fraction or an exponent | DOUBLE |
| text that is a date | DATE |
| text that is a timestamp of `timestamp-format.standard` | TIMESTAMP(p), with Z TIMESTAMP_LTZ(p); p is 0, 3 or 6 |
| other text, object, array | STRING |

A timestamp that its type can't give back as the same text, as one with nanoseconds, is other text.

A value that the known type of its column reads without loss has no type of its own. A type of this table reads only
values whose types it holds, so the order of messages can't change the merged type. A column of numbers reads a text
only if a person or a database declared its type.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np

from kvformat.codecs._kernel.tree import Fraction, Integer, Node
from kvformat.codecs.discovery.text_forms import forms_of
from kvformat.codecs.discovery.value_summary import DATE, ISO, ISO_ZONED, MOST_DIGITS, SQL, SQL_ZONED, TIME, form_of
from kvformat.codecs.json.scalars import Converter, ScalarRules, scalar_converter
from kvformat.registry.contract.types import INTEGER_BITS, MAX_LENGTH, STRING, FlinkType

BOOLEAN, BIGINT, DOUBLE = FlinkType("BOOLEAN"), FlinkType("BIGINT"), FlinkType("DOUBLE")
DAY = FlinkType("DATE")
_FINEST = 9
_LEAST_DIGITS = 20  # of a DECIMAL for whole numbers
_LONG_DIGITS = 19
_SHORTEST_FORM, _LONGEST_FORM = 8, 40  # characters of a text that may be a date or a time
_LONGEST_NUMBER = 400  # characters of a text that is compared with a number
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
READ_FROM_TEXTS = frozenset((*INTEGER_BITS, "DECIMAL", "FLOAT", "DOUBLE", "BOOLEAN", "TIME", *_TIMES))
"""Types whose columns can be read as text whatever the format is. The texts of bytes differ."""
_PLAIN, _ZONED = (SQL, ISO), (SQL_ZONED, ISO_ZONED)
_DECIMALS = {p: FlinkType("DECIMAL", precision=p, scale=0) for p in range(_LEAST_DIGITS, MOST_DIGITS + 1)}
_OF_FORMS = {(root, p): FlinkType(root, precision=p) for root in ("TIMESTAMP", "TIMESTAMP_LTZ") for p in (0, 3, 6)}
_TRUTHS = ("true", "false")


class Fit(Enum):
    """How a known type reads a value: as it is, only from the value's text, or not."""

    READS = "reads"
    AS_TEXT = "as text"
    MISFITS = "misfits"


@dataclass(frozen=True, slots=True)
class ValueRules:
    """How values are typed.

    iso: whether `timestamp-format.standard` is ISO-8601. as_strings: whether booleans, numbers and dates are STRING.
    texts: whether all values are texts, as a database writes them (Canal). flexible_booleans: whether the format reads
    0 and 1 as BOOLEAN. as_written: whether a STRING column has the digits of a number as they are in the message.
    latin: whether the format reads BYTES from texts in ISO-8859-1; None for base64.
    """

    iso: bool = False
    as_strings: bool = False
    texts: bool = False
    flexible_booleans: bool = False
    as_written: bool = False
    latin: bool | None = None


def value_type(value: Node, rules: ValueRules) -> FlinkType | None:
    """Return the type of a value by the table of this module; None for null."""
    if value is None:
        return None
    if rules.as_strings or isinstance(value, dict | list):
        return STRING
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, Integer):
        return _whole_type(value)
    if isinstance(value, Fraction):
        return DOUBLE
    form, digits = _form(value)
    if form == DATE:
        return DAY
    if form and not forms_of(value, _OF_FORMS["TIMESTAMP", 0]):
        return STRING
    if form == (ISO if rules.iso else SQL):
        return _OF_FORMS["TIMESTAMP", _precision(digits)]
    return _OF_FORMS["TIMESTAMP_LTZ", _precision(digits)] if form == (ISO_ZONED if rules.iso else SQL_ZONED) else STRING


def _whole_type(token: str) -> FlinkType:
    digits = len(token) - token.startswith("-")
    if digits < _LONG_DIGITS or (digits == _LONG_DIGITS and -(2**63) <= int(token) < 2**63):
        return BIGINT
    return _DECIMALS[max(digits, _LEAST_DIGITS)] if digits <= MOST_DIGITS else STRING


def _precision(digits: int) -> int:
    return -(-digits // 3) * 3


def _form(text: str) -> tuple[str, int]:
    return form_of(text) if _SHORTEST_FORM <= len(text) <= _LONGEST_FORM else ("", 0)


def fit(t: FlinkType, value: Node, rules: ValueRules, *, declared: bool = False) -> Fit:
    """Return how a column of type `t` reads a value that is not null.

    `declared` says that the message declares the type of the column: both standards of timestamps are read then.
    """
    if t.root in ("CHAR", "VARCHAR"):
        return Fit.READS if t.length == MAX_LENGTH or _is_short(value, t.length or 0) else Fit.MISFITS
    if t.root == "BOOLEAN":
        return _fit_boolean(value, rules)
    if t.root in _TIMES:
        return _fit_time(t, value, rules, declared=declared)
    if t.root in ("BINARY", "VARBINARY") and rules.latin is not None:
        if not isinstance(value, str) or (not value.isascii() and max(value) > "\xff"):
            return Fit.MISFITS
        return Fit.READS if rules.latin else Fit.AS_TEXT
    if t.root == "TIME":
        form, digits = _form(value) if type(value) is str else ("", 0)
        return Fit.READS if form == TIME and digits <= min(t.precision or 0, 3) else Fit.MISFITS
    if t.root in (*INTEGER_BITS, "DECIMAL", "FLOAT", "DOUBLE"):
        return Fit.READS if _is_number_of(t, value, rules, declared=declared) else Fit.MISFITS
    return Fit.READS if _reads(t, value, iso=rules.iso) else Fit.MISFITS


def _is_short(value: Node, length: int) -> bool:
    if isinstance(value, dict | list):
        return False
    return len(value if isinstance(value, str) else "true" if value else "false") <= length


def _fit_boolean(value: Node, rules: ValueRules) -> Fit:
    if isinstance(value, bool):
        return Fit.READS
    if rules.flexible_booleans and isinstance(value, str) and type(value) is not Fraction and value in ("0", "1"):
        return Fit.READS
    if rules.texts and type(value) is str:
        if value.lower() in _TRUTHS:
            return Fit.READS
        if value in ("0", "1"):
            return Fit.AS_TEXT
    return Fit.MISFITS


def _fit_time(t: FlinkType, value: Node, rules: ValueRules, *, declared: bool) -> Fit:
    form, digits = _form(value) if type(value) is str else ("", 0)
    if t.root == "DATE":
        return Fit.READS if form == DATE else Fit.MISFITS
    precision = _FINEST if t.precision is None else t.precision
    if form == DATE:
        return Fit.AS_TEXT if precision == _FINEST or declared else Fit.MISFITS
    is_plain, is_zoned = form in _PLAIN, form in _ZONED
    if not (is_plain or is_zoned) or digits > precision or (is_zoned and t.root == "TIMESTAMP"):
        return Fit.MISFITS
    is_usual = (form in (ISO, ISO_ZONED)) == rules.iso
    if not is_usual and not declared:
        return Fit.MISFITS
    return Fit.READS if is_usual and is_zoned == (t.root == "TIMESTAMP_LTZ") else Fit.AS_TEXT


def units_of_a_day(t: FlinkType) -> int:
    """Return how many units a day has, if a TIME(p) is a count of milli-, micro- or nanoseconds."""
    return 86_400 * int(10 ** (t.precision or 0))


def is_time_of_day(t: FlinkType, value: Node) -> bool:
    """Whether a TIME(p) holds a value, if it is a count. MySQL's TIME has longer and negative ones."""
    return not isinstance(value, Integer) or 0 <= int(value) < units_of_a_day(t)


def is_inferred(t: FlinkType) -> bool:
    """Whether a type of numbers is one that values have, by the table of this module."""
    return t.root in ("BIGINT", "DOUBLE") or (t.root == "DECIMAL" and t.scale == 0 and t.precision in _DECIMALS)


def _is_number_of(t: FlinkType, value: Node, rules: ValueRules, *, declared: bool) -> bool:
    if type(value) is Fraction and t.root == "DOUBLE":
        return True
    if not isinstance(value, str) or len(value) > _LONGEST_NUMBER:
        return False
    if type(value) is str and is_inferred(t) and not rules.texts and not declared:
        return False
    whole = type(value) is not Fraction
    if t.root in INTEGER_BITS:
        return whole and _converted(t, value) is not None
    if type(value) is Integer and t.root == "DOUBLE":
        return _whole_type(value) == BIGINT
    if not whole and t.root == "DECIMAL" and not t.scale:
        return False
    converted = _converted(t, value)
    if converted is None:
        return False
    if t.root == "DECIMAL":
        return bool(converted == Decimal(str(value).strip()))
    if t.root == "FLOAT":
        return bool(np.isfinite(converted)) and Decimal(str(np.float32(converted))) == Decimal(str(value).strip())
    return True


def _converted(t: FlinkType, value: Node) -> Any:
    try:
        return _converter(t, iso=False, decimals=True)(value)
    except (ValueError, ArithmeticError):
        return None


@functools.lru_cache(maxsize=256)
def _converter(t: FlinkType, *, iso: bool, decimals: bool) -> Converter:
    return scalar_converter(t, ScalarRules(streaming=False, iso=iso, decimals=decimals))


def _reads(t: FlinkType, node: Node, *, iso: bool) -> bool:
    """Return whether a column of the type reads a value without an error, without rounding and with all its members."""
    if node is None:
        return True
    if t.root == "ROW":
        types = {field.name: field.type for field in t.fields}
        return isinstance(node, dict) and all(
            name in types and _reads(types[name], value, iso=iso) for name, value in node.items()
        )
    if t.root == "ARRAY":
        return isinstance(node, list) and all(_reads(t.fields[0].type, element, iso=iso) for element in node)
    if t.root == "MAP":
        return isinstance(node, dict) and all(_reads(t.fields[1].type, value, iso=iso) for value in node.values())
    if t == STRING:
        return True
    if isinstance(node, dict | list) or (t.root == "BOOLEAN") != isinstance(node, bool):
        return False
    if t.root in INTEGER_BITS and isinstance(node, Fraction):
        return False
    try:
        if t.root.startswith("TIME") and isinstance(node, str) and form_of(node)[1] > (t.precision or 0):
            return False
        value = _converter(t, iso=iso, decimals=False)(node)
        return value is not None and (t.root != "DECIMAL" or value == Decimal(str(node)))
    except (ValueError, ArithmeticError):
        return False
