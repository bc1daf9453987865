"""Expressions of watermarks: what is a fixed delay, and what is refused.

The delays are those in the plans of Flink 2.3.0, which also refuses the texts of intervals that are refused here.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.sql.table_definition import Watermark, create_table_text


def _watermark(expression: str, columns: str = "ts TIMESTAMP(3)") -> Watermark | None:
    table = parse_create_table(f"CREATE TABLE t ({columns}, WATERMARK FOR ts AS {expression}) WITH ('k' = 'v')")
    assert parse_create_table(create_table_text(table, table.options)) == table
    return table.watermark


@pytest.mark.parametrize(
    ("interval", "milliseconds"),
    [
        ("'5' SECOND", 5000),
        ("5 SECOND", 5000),
        ("5 SECONDS", 5000),
        ("+5 SECOND", 5000),
        ("05 second", 5000),
        ("+'5' SECOND", 5000),
        ("'+5' SECOND", 5000),
        ("' 5 'SECOND", 5000),
        ("'-0' SECOND", 0),
        ("-'-5' SECOND", 5000),
        ("0 DAY", 0),
        ("5 SECOND(1)", 5000),
        ("'123' SECOND(3)", 123_000),
        ("'5.5' SECOND", 5500),
        ("'5.0001' SECOND", 5000),
        ("'1.9999' SECOND", 1999),
        ("5 MINUTE", 300_000),
        ("5 HOURS", 18_000_000),
        ("5 DAY", 432_000_000),
        ("5 WEEKS", 3_024_000_000),
        ("99999 DAY", 8_639_913_600_000),
        ("'1:5' MINUTE TO SECOND", 65_000),
        ("'+1:30.5' MINUTE TO SECOND", 90_500),
        ("'1 2' DAY TO HOUR", 93_600_000),
        ("'1 02:03' DAY TO MINUTE", 93_780_000),
        ("'1 02:03:04.5678' DAY TO SECOND", 93_784_567),
        ("'999 02:03:04.567' DAY(3) TO SECOND(3)", 86_320_984_567),
    ],
)
def test_an_interval_is_a_number_of_milliseconds(interval: str, milliseconds: int) -> None:
    assert _watermark(f"ts - INTERVAL {interval}") == Watermark("ts", milliseconds)


@pytest.mark.parametrize(
    ("expression", "milliseconds"),
    [
        ("ts", 0),
        ("((`ts`))", 0),
        ("(ts - INTERVAL '5' SECOND)", 5000),
        ("ts - (INTERVAL 5 SECOND)", 5000),
        ("ts + INTERVAL -5 SECOND", 5000),
        ("ts + INTERVAL '-1:30' MINUTE TO SECOND", 90_000),
        ("ts - + INTERVAL '5' SECOND", 5000),
        ("ts - - INTERVAL -'5' SECOND", 5000),
        ("- INTERVAL '5' SECOND + ts", 5000),
        ("INTERVAL '-5' SECOND + ts", 5000),
        ("ts - INTERVAL '5' SECOND - INTERVAL 1 MINUTE", 65_000),
        ("ts - INTERVAL '5' SECOND + INTERVAL '2' SECOND", 3000),
        ("ts - (INTERVAL '5' SECOND + INTERVAL '1' MINUTE)", 65_000),
        ("CAST(ts AS TIMESTAMP(3))", 0),
        ("CAST(ts AS TIMESTAMP(3)) - INTERVAL '5' SECOND", 5000),
        ("cast(ts as timestamp(3) without time zone) - interval 5 second", 5000),
        ("TRY_CAST((ts - INTERVAL '5' SECOND) AS TIMESTAMP(3))", 5000),
    ],
)
def test_a_sum_of_the_column_and_intervals_is_a_delay(expression: str, milliseconds: int) -> None:
    assert _watermark(expression) == Watermark("ts", milliseconds)


def test_a_column_with_a_backtick_in_its_name_has_a_delay() -> None:
    name = "`a``b`"
    text = f"CREATE TABLE t ({name} TIMESTAMP(3), WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND)"
    assert parse_create_table(text).watermark == Watermark("a`b", 5000)


@pytest.mark.parametrize(
    ("columns", "cast"),
    [
        ("ts TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(3)"),
        ("ts TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("ts TIMESTAMP(0)", "TIMESTAMP(0)"),
        ("ts TIMESTAMP(0)", "TIMESTAMP(2)"),
        ("ts TIMESTAMP(6)", "TIMESTAMP(3)"),  # Spark's watermarks have milliseconds
        ("s STRING, ts AS TO_TIMESTAMP(s)", "TIMESTAMP(3)"),
        ("s STRING, ts AS UNKNOWN_FUNCTION(s)", "TIMESTAMP(3)"),
    ],
)
def test_a_cast_that_changes_nothing_is_left_out(columns: str, cast: str) -> None:
    assert _watermark(f"CAST(ts AS {cast}) - INTERVAL '5' SECOND", columns) == Watermark("ts", 5000)


@pytest.mark.parametrize(
    ("columns", "cast", "why"),
    [
        ("ts TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", r"a CAST to TIMESTAMP_LTZ\(3\) changes the type of 'ts'"),
        ("ts TIMESTAMP_LTZ(3)", "TIMESTAMP(3)", r"a CAST to TIMESTAMP\(3\) changes the type of 'ts'"),
        ("ts TIMESTAMP(3)", "STRING", "a CAST to STRING changes the type of 'ts', which Flink refuses"),
        ("s STRING, ts AS TO_TIMESTAMP(s)", "BIGINT", "a CAST to BIGINT changes the type of 'ts'"),
        ("ts TIMESTAMP(3)", "TIMESTAMP(0)", r"a CAST to TIMESTAMP\(0\) cuts off a part of each second"),
        ("s STRING, ts AS TO_TIMESTAMP(s)", "TIMESTAMP(2)", r"a CAST to TIMESTAMP\(2\) cuts off a part"),
        ("s STRING, ts AS UNKNOWN_FUNCTION(s)", "TIMESTAMP(2)", r"a CAST to TIMESTAMP\(2\) cuts off a part"),
    ],
)
def test_a_cast_that_changes_something_is_refused(columns: str, cast: str, why: str) -> None:
    with pytest.raises(SchemaError, match=f"{why}.*: write ts, or ts - INTERVAL '5' SECOND, at line 1, column "):
        _watermark(f"CAST(ts AS {cast}) - INTERVAL '5' SECOND", columns)


@pytest.mark.parametrize(
    "expression",
    ["ts + INTERVAL 5 SECOND", "ts - INTERVAL '-5' SECOND", "ts - INTERVAL -5 SECOND", "INTERVAL '5' SECOND + ts",
     "ts - INTERVAL '1' SECOND + INTERVAL '6' SECOND"],
)  # fmt: skip
def test_a_watermark_that_is_later_than_its_column_is_refused(expression: str) -> None:
    with pytest.raises(
        SchemaError,
        match="the WATERMARK of 'ts' is 5000 ms later than ts, but a watermark of Spark can't be later than its "
        "column: write ts, or ts - INTERVAL '5' SECOND, at line 1, column ",
    ):
        _watermark(expression)


@pytest.mark.parametrize("interval", ["'5' MONTH", "5 MONTHS", "1 YEAR", "'1-2' YEAR TO MONTH", "5 QUARTER"])
def test_an_interval_of_months_is_refused_because_months_differ(interval: str) -> None:
    with pytest.raises(
        SchemaError, match=r"because months differ, .*: write days, such as INTERVAL '30' DAY, at line 1"
    ):
        _watermark(f"ts - INTERVAL {interval}")


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("TIMESTAMPADD(SECOND, -5, ts)", "TIMESTAMPADD"),
        ("CASE WHEN ts IS NULL THEN ts ELSE ts END", "CASE"),
        ("TO_TIMESTAMP('2024-01-01')", "TO_TIMESTAMP"),
        ("FLOOR(ts TO MINUTE)", "FLOOR"),
        ("NULL", "NULL"),
        ("other - INTERVAL '5' SECOND", "other"),
        ("TS - INTERVAL '5' SECOND", "TS"),
        ("ts - 2 * INTERVAL '5' SECOND", "2"),
        ("ts - INTERVAL '5' SECOND * 2", "[*]"),
        ("ts - 5000", "5000"),
        ("ts - CAST(x AS INTERVAL SECOND)", "x"),
        ("ts - INTERVAL 5 DAY TO SECOND", "TO"),
        ("ts - INTERVAL '5' SECOND COMMENT 'x'", "COMMENT"),
    ],
)
def test_what_is_no_fixed_delay_is_refused_by_name(expression: str, named: str) -> None:
    with pytest.raises(
        SchemaError,
        match=f"'{named}' can't be in the WATERMARK of 'ts', because Spark supports only the column itself with a "
        "fixed delay: write ts, or ts - INTERVAL '5' SECOND, at line 1, column ",
    ):
        _watermark(expression, "ts TIMESTAMP(3), other TIMESTAMP(3), x STRING")


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("SOURCE_WATERMARK()", r"Spark does not have SOURCE_WATERMARK\(\): write ts, or"),
        ("INTERVAL '5' SECOND", "must contain ts exactly once"),
        ("-ts", "must contain ts exactly once"),
        ("ts + ts", "must contain ts exactly once"),
        ("ts - INTERVAL 5.5 SECOND", "without quotes, the length of an interval must be a whole number, not '5.5'"),
        ("ts - INTERVAL 5e0 SECOND", "must be a whole number, not '5e0'"),
        ("ts - INTERVAL (5) SECOND", "expected the length of an interval, such as '5' or 5, found '\\('"),
        ("ts - INTERVAL '5 seconds'", "expected one of YEAR, QUARTER, MONTH, DAY, .*, found '\\)'"),
        ("ts - INTERVAL '5' MILLISECOND", "does not have MILLISECOND: write INTERVAL '0.005' SECOND"),
        ("ts - INTERVAL '5' SECOND TO MINUTE", "'TO' can't be"),
        ("ts - INTERVAL '1' DAY TO WEEK", "expected one of HOUR, MINUTE, SECOND"),
        *(
            (f"ts - INTERVAL {interval}", "is not an interval of")
            for interval in (
                "'' SECOND", "'x' DAY", "'- 5' SECOND", "'5.' SECOND", "'.5' SECOND", "'1.5' MINUTE", "'--5' SECOND",
                "'1' DAY TO SECOND", "'1:60' MINUTE TO SECOND", "'1 24' DAY TO HOUR", "'1:2' DAY TO HOUR",
                "'1  2' DAY TO HOUR", "'1:2:3' MINUTE TO SECOND", "'1:.5' MINUTE TO SECOND", "'5 SECOND' SECOND",
            )
        ),
        (f"{'(' * 500}ts{')' * 500}", "nested more than 60 levels deep"),
    ],
)  # fmt: skip
def test_a_watermark_that_is_not_valid_is_an_error_with_a_position(expression: str, why: str) -> None:
    with pytest.raises(SchemaError, match=f"{why}.*at line 1, column "):
        _watermark(expression)


@pytest.mark.parametrize(
    ("milliseconds", "written"),
    [
        (0, "'0' SECOND"),
        (1, "'0.001' SECOND"),
        (99_999, "'99.999' SECOND"),
        (120_000, "'2' MINUTE"),
        (432_000_000, "'5' DAY"),
        (100_001, "'0 00:01:40.001' DAY(3) TO SECOND(3)"),
        (93_784_500, "'1 02:03:04.500' DAY(3) TO SECOND(3)"),
        (86_400_000 * 1000, "'1000 00:00:00.000' DAY(4) TO SECOND(3)"),
    ],
)
def test_a_delay_is_written_with_few_digits_because_flink_refuses_more(milliseconds: int, written: str) -> None:
    """A number has two digits, and after DAY(3) three: Flink 2.3 refuses '100' SECOND and '1000' DAY(4)."""
    table = parse_create_table("CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('k' = 'v')")
    text = create_table_text(replace(table, watermark=Watermark("ts", milliseconds)), table.options)
    assert f"`ts` - INTERVAL {written})" in text
    assert parse_create_table(text).watermark == Watermark("ts", milliseconds)


def test_errors_of_a_watermark_do_not_show_options() -> None:
    for text in ("ts - INTERVAL '5' SECOND WITH ('password' = 'hunter2')", "ts - ('password' = 'hunter2')"):
        with pytest.raises(SchemaError, match="line 1, column") as raised:
            parse_create_table(f"CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS {text}")
        assert "hunter2" not in str(raised.value)
