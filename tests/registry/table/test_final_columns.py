"""Columns of a decoder with the types of a table, in Arrow: local times and instants in the zone of the session."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.table.final_columns import FinalColumns, check_cast, final_array
from kvformat.registry.table.record_decoding import DecodedColumn

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


@pytest.mark.parametrize(
    ("given", "declared", "cast"),
    [
        ("INT", "DECIMAL(12, 2)", True),
        ("BIGINT", "STRING", True),
        ("DOUBLE", "STRING", False),
        ("STRING", "BIGINT", False),
        ("STRING", "CHAR(3)", True),
        ("BYTES", "BINARY(3)", True),
        ("STRING", "BYTES", False),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3)", True),
        ("TIMESTAMP_LTZ(3)", "DATE", False),
        ("BOOLEAN", "INT", False),
        ("MAP<STRING, BYTES> NOT NULL", "MAP<STRING, BYTES>", True),
        ("MAP<STRING, BYTES>", "MAP<STRING, STRING>", False),
    ],
)
def test_metadata_is_cast_without_spark_or_refused(given: str, declared: str, cast: bool) -> None:
    column = DecodedColumn("m", "m", parse_type(given), parse_type(declared))
    if cast:
        check_cast(column, "t")
        return
    with pytest.raises(SchemaError, match=r"column 'm' of table 't' is declared as .*only Spark casts that"):
        check_cast(column, "t")


@pytest.mark.parametrize(
    ("column", "path"), [("m INTERVAL YEAR TO MONTH", "m"), ("r ROW<n INTERVAL YEAR TO MONTH>", "r.n")]
)
def test_a_data_source_has_no_intervals_of_months_at_any_depth(column: str, path: str) -> None:
    stage = KeyValueFormat(column, {"format": "json"}).decode_stage()
    with pytest.raises(SchemaError, match=f"column '{path}' of table 'table' is INTERVAL YEAR TO MONTH"):
        FinalColumns.of(stage)
