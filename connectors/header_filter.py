"""`scan.header-filter` of Ververica's Kafka connector: which records are read, by their headers, before decoding.

    depart:toy|depart:book&!env:test        from left to right: (toy or book) and not test

A condition is `key:value`, up to the next `&` or `|`; it holds where any header of that key has that value, and not
where there are no headers. `!` before it turns it round. There are no parentheses, and `&` does not bind more than `|`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import Column

OPTION = "scan.header-filter"
_OPERATOR = re.compile("([&|])")


@dataclass(frozen=True, slots=True)
class Condition:
    """`key:value`, or with `negated` anything else; `operator` joins it to what stands before it."""

    operator: str
    negated: bool
    key: str
    value: str


def parse(text: str) -> tuple[Condition, ...]:
    """The conditions of an expression, in order; raises `OptionError` with the place of what is wrong."""
    found: list[Condition] = []
    operator, place = "", 0
    for piece in _OPERATOR.split(text):  # condition, operator, condition ...
        if piece in ("&", "|"):
            operator = piece
        else:
            found.append(_condition(operator, piece, place))
        place += len(piece)
    return tuple(found)


def _condition(operator: str, written: str, place: int) -> Condition:
    negated = written.startswith("!")
    key, colon, value = written[negated:].partition(":")
    wrong = ""
    if not written:
        wrong = "a condition is missing"
    elif written != written.strip() or key != key.strip():
        wrong = "it is nowhere said whether blanks around a condition count, so leave them out"
    elif "(" in key or key.startswith("!"):
        wrong = "there are no parentheses, and one '!' at most"
    elif not colon or not key:
        wrong = "a condition is key:value, or !key:value"
    if wrong:
        raise OptionError(
            f"option '{OPTION}', character {place + 1} ({written!r}): {wrong}. Conditions are joined by & and |, from "
            "left to right, as in 'depart:toy|depart:book&!env:test'",
            option=OPTION,
            reason=wrong,
        )
    return Condition(operator, negated, key, value)


def column(conditions: tuple[Condition, ...]) -> Column:
    """Whether a record of Spark's Kafka source is read, of its column `headers`; never NULL."""
    from pyspark.sql import functions as F

    kept = F.lit(True)
    for one in conditions:
        named = _has(one.key, one.value)
        named = ~named if one.negated else named
        kept = named if not one.operator else kept & named if one.operator == "&" else kept | named
    return kept


def _has(key: str, value: str) -> Column:
    """Whether a header has this key and value. Texts are compared as their UTF-8, which says the same of valid ones."""
    from pyspark.sql import functions as F

    wanted = F.lit(value.encode())
    found = F.exists("headers", lambda header: (header["key"] == key) & header["value"].eqNullSafe(wanted))
    return F.coalesce(found, F.lit(False))
