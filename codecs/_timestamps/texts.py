"""Arrays of dates, times and timestamps as texts, as Flink writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.java.numbers import replace_where

TEXT = pa.large_string()


def date_texts(values: pa.Array) -> pa.LargeStringArray:
    """Format a date32 array as ISO dates."""
    return _fix_distant_years(values.cast(TEXT), values.view(pa.int32()), "D", " ")


def time_texts(values: pa.Array) -> pa.LargeStringArray:
    """Format times of day, truncated to milliseconds as in Flink's TIME, without trailing zeros."""
    return without_zeros(values.cast(pa.time32("ms"), safe=False).cast(TEXT))


def timestamp_texts(values: pa.Array, between: str = " ") -> pa.LargeStringArray:
    """Format timestamps in UTC, without trailing zeros. `between` separates date and time."""
    unit = values.type.unit
    texts = values.view(pa.timestamp(unit)).cast(TEXT)
    if between != " ":
        texts = pc.utf8_replace_slice(texts, 10, 11, between)
    if unit != "s":
        texts = without_zeros(texts)
    return _fix_distant_years(texts, values.view(pa.int64()), unit, between)


def without_zeros(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Remove trailing zeros of the fraction, which each text must have."""
    return pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")


_YEAR_0, _YEAR_10000 = -719528, 2932897  # first days, from 1970-01-01
PER_DAY = {"D": 1, "s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
"""Units of a day, by Arrow's names of units."""


def _fix_distant_years(texts: pa.LargeStringArray, values: pa.Array, unit: str, between: str) -> pa.LargeStringArray:
    """Reformat the texts of years outside of 0 to 9999 as Java does: `+12020-...`, `-0005-...`."""
    low, high = (day * PER_DAY[unit] for day in (_YEAR_0, _YEAR_10000))
    least, most = (limit.as_py() for limit in pc.min_max(values).values())
    if least is None or (least >= low and most < high):
        return texts
    numbers = values.fill_null(low).to_numpy(zero_copy_only=False)
    far = (numbers < low) | (numbers >= high)
    return replace_where(
        texts, far, lambda _: pa.array([_distant_text(int(value), unit, between) for value in numbers[far]], TEXT)
    )


def _distant_text(value: int, unit: Any, between: str) -> str:
    days, rest = divmod(value, PER_DAY[unit])  # split, because numpy reads the lowest number as "not a time"
    day = str(np.datetime64(days, "D"))
    time = "" if unit == "D" else str(np.datetime64(rest, unit)).partition("T")[2]
    year, month_and_day = day[:-6], day[-6:]
    if "." in time:
        time = time.rstrip("0").rstrip(".")
    return f"{int(year):+05d}{month_and_day}{between if time else ''}{time}"
