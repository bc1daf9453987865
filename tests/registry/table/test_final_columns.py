"""Columns of a decoder with the types of a table, in Arrow: local times and instants in the zone of the session."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from kvformat.registry.table.final_columns import final_array

_LOCAL = pa.array([None, dt.datetime(2026, 3, 9, 8), None, dt.datetime(1969, 12, 31, 19)], pa.timestamp("us"))
_INSTANT = pa.array([None, dt.datetime(2026, 3, 9, 12), None, dt.datetime(1970, 1, 1)], pa.timestamp("us", "UTC"))
"""The same moments in New York, where the clocks have changed the day before the first one."""


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize(("given", "wanted"), [(_LOCAL, _INSTANT), (_INSTANT, _LOCAL)], ids=["local", "instant"])
def test_a_time_moves_by_the_offset_of_its_zone_and_null_stays_null(
    unit: str, given: pa.Array, wanted: pa.Array
) -> None:
    array = given.cast(pa.timestamp(unit, given.type.tz))
    for start in range(len(array)):
        assert final_array(array[start:], wanted.type, "America/New_York").equals(wanted[start:])
