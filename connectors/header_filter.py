"""`scan.header-filter` of Ververica's Kafka connector: selects records by their headers, before decoding.

    depart:toy|depart:book&!env:test        from left to right: (toy or book) and not test

A condition is `key:value`, up to the next `&` or `|`. It is true if any header of that key has that value, and false
without headers. `!` negates it. There are no parentheses, and `&` and `|` have the same precedence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import Column

OPTION = "scan.header-filter"
_OPERATOR = re.compile("([&|])")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition `key:value`, or its negation; `operator` joins it to the conditions before it."""

    operator: str
    negated: bool
    key: str
    value: str


def parse(text: str) -> tuple[Condition, ...]:
    """Parse an expression to its conditions, in order; raises `OptionError` with the position of an error."""
    conditions: list[Condition] = []
    operator, place = "", 0
    for piece in _OPERATOR.split(text):  # condition, operator, condition ...
        if piece in ("&", "|"):
            operator = piece
        else:
            conditions.append(_condition(operator, piece, place))
        place += len(piece)
    return tuple(conditions)


def _condition(operator: str, written: str, place: int) -> Condition:
    negated = written.startswith("!")
    key, colon, value = written[negated:].partition(":")
    wrong = ""
    if not written:
        wrong = "a condition is missing"
    elif written != written.strip() or key != key.strip():
        wrong = "it is not specified whether blanks around a condition count, so remove them"
    elif "(" in key or key.startswith("!"):
        wrong = "parentheses are not supported, and at most one '!'"
    elif not colon or not key:
        wrong = "a condition must be key:value or !key:value"
    if wrong:
        raise OptionError(
            f"option '{OPTION}', character {place + 1} ({written!r}): {wrong}. Conditions are joined by & and |, from "
            "left to right, as in 'depart:toy|depart:book&!env:test'",
            option=OPTION,
            reason=wrong,
        )
    return Condition(operator, negated, key, value)


def column(conditions: tuple[Condition, ...]) -> Column:
    """Return a Column that is true for records to be read, by their column `headers`; it is never NULL."""
    from pyspark.sql import functions as F

    kept = F.lit(True)
    for condition in conditions:
        named = _has(condition.key, condition.value)
        named = ~named if condition.negated else named
        operator = condition.operator
        kept = named if not operator else kept & named if operator == "&" else kept | named
    return kept


def mask(conditions: tuple[Condition, ...], headers: pa.ListArray) -> pa.BooleanArray:
    """Return whether each record is to be read, by its headers; it is never null."""
    counts = np.asarray(pc.fill_null(pc.list_value_length(headers), 0))
    record_of, entries = np.repeat(np.arange(len(headers)), counts), headers.flatten()
    keys, values = pc.struct_field(entries, "key"), pc.struct_field(entries, "value")
    kept = np.ones(len(headers), np.bool_)
    for condition in conditions:
        equal = pc.and_(pc.equal(keys, condition.key), pc.equal(values, condition.value.encode()))
        named = np.zeros(len(headers), np.bool_)
        named[record_of[np.asarray(pc.fill_null(equal, False))]] = True
        named ^= condition.negated
        operator = condition.operator
        kept = named if not operator else kept & named if operator == "&" else kept | named
    return pa.array(kept)


def _has(key: str, value: str) -> Column:
    """Return a Column that is true if a header has this key and value, which are compared as UTF-8."""
    from pyspark.sql import functions as F

    wanted = F.lit(value.encode())
    has_header = F.exists("headers", lambda header: (header["key"] == key) & header["value"].eqNullSafe(wanted))
    return F.coalesce(has_header, F.lit(False))
