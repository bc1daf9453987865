"""Convert values to text for STRING columns. On the wire, days, times and timestamps are counts.

    18321                   2020-02-29
    -1500000                -00:00:01.500       MySQL's TIME is up to 838 hours long, and may be negative
    1582977600000001        2020-02-29T12:00:00.000001

The texts are ISO. A fraction of a second has 3, 6 or 9 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kvformat.codecs.debezium.parse_texts import INFINITE_COUNTS
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.numbers import double_text, float_text

_DAY = 86_400
_LAST_YEAR = 10_000  # Java writes a sign before years of more than four digits


def _date(days: int) -> str:
    text = str(np.datetime64(days, "D"))
    year = int(text.rsplit("-", 2)[0])
    return f"+{text}" if year >= _LAST_YEAR else text


def _clock(count: int, per_second: int) -> str:
    seconds, rest = divmod(count, per_second)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if not rest:
        return text
    digits = f"{rest * (10**9 // per_second):09}"
    return f"{text}.{digits.removesuffix('000').removesuffix('000')}"


def _time_text(per_second: int) -> Callable[[int], str]:
    return lambda count: f"{'-' if count < 0 else ''}{_clock(abs(count), per_second)}"


def _timestamp_text(per_second: int) -> Callable[[int], str]:
    def text(count: int) -> str:
        days, of_day = divmod(count, _DAY * per_second)
        return f"{_date(days)}T{_clock(of_day, per_second)}"

    return text


COUNT_TEXTS: Mapping[str, Callable[[int], Callable[[int], str]]] = {
    "DATE": lambda per_day: lambda days: _date(INFINITE_COUNTS.get(days, days)),
    "TIME": _time_text,
    "TIMESTAMP": _timestamp_text,
}
"""By type: a function of the units in a second. It returns the function that converts a count to text."""


VALUE_TEXTS: Mapping[str, tuple[FlinkType, Callable[..., str]]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), (FlinkType("BIGINT"), str)),
    "boolean": (FlinkType("BOOLEAN"), lambda value: str(value).lower()),
    "float32": (FlinkType("FLOAT"), float_text),
    "float64": (FlinkType("DOUBLE"), double_text),
}
"""By Arrow type: the Flink type of an Avro value, and the function that converts a value to text."""
