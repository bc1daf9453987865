"""Parts, sums and differences of times: rules at boundaries, and columns that NumPy computes as a whole."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable

import numpy as np
import pytest

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.expressions.local_times import offsets_of
from kvformat.registry.java.zones import (
    Zone,
    offset_of_local,
    offset_of_moment,
    util_offset_of_local,
    util_offset_of_moment,
    zone_named,
)
from kvformat.registry.sql.expressions import read_expression
from tests.registry.expressions.time_rows import TYPES, evaluated, failure, value

NEW_YORK = "America/New_York"


def _random_dates(count: int) -> list[dt.date]:
    numbers = random.Random(1)
    usual = [dt.date.fromordinal(numbers.randrange(1, dt.date.max.toordinal())) for _ in range(count)]
    return [*usual, dt.date.min, dt.date.max, dt.date(1900, 2, 28), dt.date(1900, 3, 1), dt.date(2000, 2, 29)]


# --- casts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "cut"),
    [
        ("1969-12-31T23:59:58.123456", ["59", "58.2", "58.13", "58.123", "58.1234", "58.12345", "58.123456"]),
        ("1969-12-31T23:59:58.500000", ["59", "58.5", "58.50", "58.500", "58.5000", "58.50000", "58.500000"]),
        ("1970-01-01T23:59:58.123456", ["58", "58.1", "58.12", "58.123", "58.1234", "58.12345", "58.123456"]),
    ],
)
def test_a_cast_drops_digits_of_milliseconds_towards_1970_and_those_of_microseconds_downwards(
    moment: str, cut: list[str]
) -> None:
    casts = [value(f"CAST(CAST(ts AS TIMESTAMP({digits})) AS STRING)", ts=moment) for digits in range(7)]
    assert casts == [f"{moment[:10]} 23:59:{seconds}" for seconds in cut]


_NO_TIMESTAMPS = ["", "x", "2024-13-01", "2024-00-01", "2024-01-00", "2024-01-01 25:00"]
_NO_TIMESTAMPS += ["+9999999999-01-01", "+300000-01-01"]


@pytest.mark.parametrize(
    ("target", "texts"),
    [
        ("DATE", ["", "x", "2024-02-30", "2024-13-01", "10000-01-01", "2147483648-01-01", "2024-99999999999-1"]),
        ("TIME(0)", ["", "x", "24:00", "12:60", "12:00:00+13:00", "2147483648:00", "12:00+99999999999"]),
        ("TIMESTAMP(3)", _NO_TIMESTAMPS),
        ("TIMESTAMP_LTZ(3)", _NO_TIMESTAMPS),
        ("INT", ["", "x", "2147483648", "-2147483649", "9" * 5000, "1e3"]),
        ("BIGINT", ["", "x", "9223372036854775808", "9" * 5000]),
        ("DECIMAL(10, 2)", ["", "xx", "+", "1..2", "1.2.3", "1e+", "123456789", "1e99", "9" * 5000, "1e99999999999"]),
        ("DECIMAL(3, 0)", ["0012", "1e3"]),  # a zero is a digit, too
        ("DECIMAL(38, 2)", ["", "xx", "9" * 37, "1e99", "1e99999999999", "1e-99999999999x"]),
        ("DOUBLE", ["", "x", "1..2", "1e"]),
        ("FLOAT", ["", "x", "1..2", "1e"]),
        ("BOOLEAN", ["", "x", "2"]),
    ],
)
def test_a_text_that_is_no_value_of_a_type_fails_its_row_and_is_null_if_the_cast_is_tried(
    target: str, texts: list[str]
) -> None:
    values, failures = evaluated(f"CAST(s AS {target})", s=[*texts, None])
    assert (values, list(failures)) == ([None] * (len(texts) + 1), list(range(len(texts))))
    assert {reason.partition(": ")[0] for reason in failures.values()} == {f"CAST to {target}"}
    assert evaluated(f"TRY_CAST(s AS {target})", s=[*texts, None]) == ([None] * (len(texts) + 1), {})


def test_a_column_of_texts_that_are_no_dates_equals_none_but_has_no_order() -> None:
    assert value("d = s", d="2024-03-09", s="x") is None
    for expression in ("d < s", "d = 'x'"):  # a literal fails with any operator
        assert "'x' is not a date" in failure(expression, d="2024-03-09", s="x")


@pytest.mark.parametrize(
    ("target", "found", "text"),
    [
        ("TIME(0)", 81_296_000, "22:34:56"),
        ("TIME(1)", 81_296_700, "22:34:56.7"),
        ("TIME(2)", 81_296_780, "22:34:56.78"),
        ("TIME(3)", 81_296_789, "22:34:56.789"),
        ("TIMESTAMP(3)", "1970-01-01T22:34:56.789000", "1970-01-01 22:34:56.789"),
        ("TIMESTAMP_LTZ(3)", "1970-01-02T03:34:56.789000", "1970-01-01 22:34:56.789"),
    ],
)
def test_a_time_of_the_day_is_cast_to_fewer_digits_and_to_the_first_day_of_1970(
    target: str, found: int | str, text: str
) -> None:
    expression, moment = f"CAST(CAST(ts AS TIME(3)) AS {target})", "2024-03-09T22:34:56.789999"
    assert value(expression, zone=NEW_YORK, ts=moment) == found
    assert value(f"CAST({expression} AS STRING)", zone=NEW_YORK, ts=moment) == text


@pytest.mark.parametrize(
    ("text", "time"),
    [
        # each number is read twice: with two digits, and with any number of them
        ("2024-033-0909", "2024-03-09T00:00:00"),
        ("2024-034-09", None),
        ("2024-01-31 24:00:00", "2024-02-01T00:00:00"),
        ("2024-01-31 24::", "2024-02-01T00:00:00"),
        ("2024-01-31 24::00", None),
        ("2024-01- 24:00:00", "2024-01-01T00:00:00"),
    ],
)
def test_a_text_of_a_timestamp_may_lack_numbers_and_repeat_them(text: str, time: str | None) -> None:
    assert value("TRY_CAST(s AS TIMESTAMP(3))", s=text) == time


@pytest.mark.parametrize(("text", "minutes"), [("12:00:00+01:30", 810), ("12:00:00-01:30", 630), ("12:00+2", 840)])
def test_an_offset_in_a_text_of_a_time_moves_the_time(text: str, minutes: int) -> None:
    assert value("CAST(s AS TIME)", s=text) == minutes * 60_000


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ("'1-2' YEAR TO MONTH", "+1-02"),
        ("'-1-2' YEAR TO MONTH", "-1-02"),
        ("'1 02:03:04.5' DAY TO SECOND", "+1 02:03:04.500"),
        ("'-1 02:03:04.5' DAY TO SECOND", "-1 02:03:04.500"),
    ],
)
def test_an_interval_is_written_with_a_sign(interval: str, text: str) -> None:
    assert value(f"CAST(INTERVAL {interval} AS STRING)") == text


@pytest.mark.parametrize(
    ("fraction", "millis"), [("0004", 0), ("0005", 1), ("9995", 1000), ("12", 120), ("1x3", 103), ("", 0)]
)
def test_the_fraction_of_a_text_is_rounded_to_milliseconds(fraction: str, millis: int) -> None:
    assert value("CAST(s AS TIME(3))", s=f"00:00:00.{fraction}") == millis


@pytest.mark.parametrize("number", ["n", "CAST(n AS DECIMAL(20, 1))", "CAST(n AS DOUBLE)"])
@pytest.mark.parametrize("places", range(7))
def test_the_precision_of_a_number_is_the_same_as_a_literal_and_as_a_column_with_milliseconds(
    number: str, places: int
) -> None:
    numbers = [1_700_000_000 * 10**places + 7, -7, 0, -(10**17), None]
    literal = evaluated(f"CAST(TO_TIMESTAMP_LTZ({number}, {places}) AS TIMESTAMP_LTZ(3))", n=numbers)
    assert [moment is None for moment in literal[0]] == [False, False, False, True, True]
    assert evaluated(f"TO_TIMESTAMP_LTZ({number}, i)", n=numbers, i=[places] * len(numbers)) == literal


def test_a_precision_that_is_negative_fails_its_row() -> None:
    values, failures = evaluated("TO_TIMESTAMP_LTZ(n, i)", n=[1, 1, 1, 1], i=[-1, None, 20, 0])
    assert values == [None, None, "1970-01-01T00:00:00", "1970-01-01T00:00:01"]
    assert list(failures) == [0]
    assert "the precision -1 is negative" in failures[0]


@pytest.mark.parametrize("number", ["n", "f", "CAST(n AS DECIMAL(20, 1))"])
def test_with_a_precision_that_is_very_large_every_number_is_less_than_a_second(number: str) -> None:
    assert value(f"TO_TIMESTAMP_LTZ({number}, i)", n=7, f=7.0, i=2**31 - 1) == "1970-01-01T00:00:00"


# --- parts ---------------------------------------------------------------------------------------------------


def test_parts_of_dates_are_those_of_the_calendar() -> None:
    dates = _random_dates(3000)
    column = [date.isoformat() for date in dates]
    for expression, part in {
        "YEAR(d)": lambda date: date.year,
        "QUARTER(d)": lambda date: (date.month + 2) // 3,
        "MONTH(d)": lambda date: date.month,
        "DAYOFMONTH(d)": lambda date: date.day,
        "DAYOFYEAR(d)": lambda date: date.timetuple().tm_yday,
        "DAYOFWEEK(d)": lambda date: date.isoweekday() % 7 + 1,
        "WEEK(d)": lambda date: date.isocalendar().week,
        "EXTRACT(ISOYEAR FROM d)": lambda date: date.isocalendar().year,
        "EXTRACT(CENTURY FROM d)": lambda date: (date.year + 99) // 100,
        "EXTRACT(DECADE FROM d)": lambda date: date.year // 10,
    }.items():
        assert evaluated(expression, d=column) == ([part(date) for date in dates], {}), expression


def test_parts_of_times_before_1970_are_those_of_the_clock() -> None:
    moment = "1969-12-31T22:58:57.123456"
    for expression, part in {
        "YEAR(ts)": 1969, "DAYOFYEAR(ts)": 365, "HOUR(ts)": 22, "MINUTE(ts)": 58, "SECOND(ts)": 57,
        "EXTRACT(MILLISECOND FROM ts)": 123, "EXTRACT(MICROSECOND FROM ts)": 123_456,
        "EXTRACT(NANOSECOND FROM ts)": 123_456_000,
    }.items():  # fmt: skip
        assert value(expression, ts=moment) == part, expression


@pytest.mark.parametrize(
    ("moment", "seconds", "in_new_york"),
    [
        ("1969-12-31T23:59:59.500000", 0, -18_000),
        ("1969-12-31T23:59:59.000000", -1, -18_001),
        ("1969-12-31T23:59:58.999999", -1, -18_001),
        ("1970-01-01T00:00:00.999999", 0, -17_999),
        ("1970-01-01T00:00:01.999999", 1, -17_998),
    ],
)
def test_the_seconds_since_1970_of_a_local_time_are_truncated(moment: str, seconds: int, in_new_york: int) -> None:
    assert value("EXTRACT(EPOCH FROM ts)", zone=NEW_YORK, ts=moment) == seconds
    assert value("EXTRACT(EPOCH FROM lz)", lz=moment) == seconds
    assert value("EXTRACT(EPOCH FROM lz)", zone=NEW_YORK, lz=moment) == in_new_york


@pytest.mark.parametrize("sign", [1, -1])
def test_the_parts_of_a_negative_interval_are_negative(sign: int) -> None:
    for interval, parts in {
        "i * INTERVAL '1 02:03:04.5' DAY TO SECOND": {
            "DAY": 1, "HOUR": 2, "MINUTE": 3, "SECOND": 4, "MILLISECOND": 500,
        },
        "i * INTERVAL '1-2' YEAR TO MONTH": {"YEAR": 1, "MONTH": 2},
    }.items():  # fmt: skip
        for unit, part in parts.items():
            assert value(f"EXTRACT({unit} FROM {interval})", i=sign) == sign * part, (unit, interval)


def test_the_quarter_of_an_interval_ends_with_its_third_month() -> None:
    quarters = {months: value("EXTRACT(QUARTER FROM i * INTERVAL '1' MONTH)", i=months) for months in (1, 3, 4, 11, 15)}
    assert quarters == {1: 1, 3: 1, 4: 2, 11: 4, 15: 1}


@pytest.mark.parametrize(("date", "century"), [("-0100-01-01", -1), ("-0101-01-01", -2), ("0001-01-01", 1)])
def test_centuries_before_the_first_are_negative(date: str, century: int) -> None:
    assert value("EXTRACT(CENTURY FROM d)", d=date) == century


@pytest.mark.parametrize(("moment", "hour"), [("2024-11-03T05:30:00", 1), ("2024-11-03T06:30:00", 1)])
def test_an_hour_that_comes_twice_has_the_same_number(moment: str, hour: int) -> None:
    assert value("HOUR(lz)", zone=NEW_YORK, lz=moment) == hour


def test_instants_before_1900_have_the_offset_of_today_in_java_util() -> None:
    # java.time has the local mean time, 4:56:02 behind
    assert value("HOUR(lz)", zone=NEW_YORK, lz="1883-01-01T05:00:00") == 0
    assert value("CAST(lz AS STRING)", zone=NEW_YORK, lz="1883-01-01T05:00:00")[:19] == "1883-01-01 00:03:58"


# --- offsets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["UTC", NEW_YORK, "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Monrovia", "+05:30"]
)
@pytest.mark.parametrize(
    ("lookup", "offset_at"),
    [
        ("moment", offset_of_moment),
        ("local", offset_of_local),
        ("util moment", util_offset_of_moment),
        ("util local", util_offset_of_local),
    ],
)
def test_offsets_of_a_column_are_those_of_its_moments(
    name: str, lookup: str, offset_at: Callable[[Zone, int], int]
) -> None:
    numbers, zone = random.Random(2), zone_named(name)
    # hours of years with changes of clocks, of the years in which Apia left out a day and Monrovia dropped seconds
    begins = [dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (1883, 1899, 1972, 2011, 2024, 2050)]
    moments = [
        int(begin.timestamp()) * 1_000_000 + numbers.randrange(366 * 86_400) * 1_000_000
        for begin in begins
        for _ in range(2000)
    ]
    found = offsets_of(name, np.array(moments, np.int64), lookup) // 1_000_000
    assert found.tolist() == [offset_at(zone, moment) for moment in moments]


# --- sums and differences ------------------------------------------------------------------------------------


def test_a_multiple_of_months_keeps_the_low_bits() -> None:
    assert value("TIMESTAMPADD(YEAR, i, d)", d="2024-01-31", i=2**30) == "2024-01-31"


def test_a_date_out_of_range_fails_the_row_and_a_timestamp_is_null() -> None:
    assert "out of range" in failure("d + INTERVAL '1' DAY", d="5881580-07-11")
    assert "out of range" in failure("TIMESTAMPADD(YEAR, i, d)", d="2024-01-31", i=10_000_000)
    assert value("TIMESTAMPADD(YEAR, i, ts)", ts="2024-01-31", i=400_000) is None
    assert value("TIMESTAMPADD(DAY, n, ts)", ts="2024-01-31", n=2**31) is None


@pytest.mark.parametrize(
    "expression",
    ["ts + NULL", "ts - NULL", "CAST(NULL + INTERVAL '1' DAY AS STRING)", "ts - (INTERVAL '1' DAY - NULL)"],
)
def test_a_time_or_interval_and_null_are_null(expression: str) -> None:
    assert value(expression, ts="2024-01-31") is None


def test_a_day_that_a_month_does_not_have_is_its_last_one() -> None:
    column = ["2024-01-31T10:00:00", "2023-01-31T10:00:00", "2024-03-30T10:00:00"]
    assert evaluated("ts + INTERVAL '1' MONTH", ts=column)[0] == [
        "2024-02-29T10:00:00", "2023-02-28T10:00:00", "2024-04-30T10:00:00",
    ]  # fmt: skip


def test_a_day_of_an_instant_is_24_hours_where_clocks_change() -> None:
    moved = value("CAST(lz + INTERVAL '1' DAY AS STRING)", zone=NEW_YORK, lz="2024-03-09T17:00:00")
    assert moved[:19] == "2024-03-10 13:00:00"


@pytest.mark.parametrize(
    ("first", "second", "months"),
    [
        ("2024-01-31T00:00:00", "2024-02-29T00:00:00", 1),
        ("2024-01-15T10:00:00", "2024-02-15T09:59:59", 0),
        ("2024-02-15T10:00:00", "2024-01-15T11:00:00", -1),
        ("2024-02-15T11:00:00", "2024-01-15T10:00:00", -2),
        ("2024-01-15T10:00:00", "2024-01-15T00:00:00", -1),
    ],
)
def test_months_compare_the_times_of_the_day_in_one_direction_only(first: str, second: str, months: int) -> None:
    assert value("TIMESTAMPDIFF(MONTH, ts, tt)", ts=first, tt=second) == months


def test_a_difference_in_milliseconds_has_whole_seconds() -> None:
    first, second = "1970-01-01T00:00:01.999000", "1970-01-01T00:00:00"
    assert value("TIMESTAMPDIFF(MILLISECOND, tt, ts)", ts=first, tt=second) == 1000
    assert value("TIMESTAMPDIFF(MILLISECOND, ts, tt)", ts=first, tt=second) == -1000


def test_a_difference_that_an_int_does_not_hold_is_null() -> None:
    assert value("TIMESTAMPDIFF(SECOND, ts, tt)", ts="1970-01-01", tt="2038-01-19T03:14:07") == 2**31 - 1
    assert value("TIMESTAMPDIFF(SECOND, ts, tt)", ts="1970-01-01", tt="2038-01-19T03:14:08") is None
    assert value("TIMESTAMPDIFF(SECOND, tt, ts)", ts="1970-01-01", tt="2038-01-19T03:14:08") == -(2**31)


@pytest.mark.parametrize(
    "expression",
    [
        "TIMESTAMPDIFF(MICROSECOND, ts, tt)",
        "FLOOR(ts TO MICROSECOND)",
        "INTERVAL '1' DAY + lz",
        "YEAR(NULL)",
        "ts - tt",
        "FLOOR(CAST(ts AS TIME) TO DAY)",
        "EXTRACT(MILLISECOND FROM d)",
        "EXTRACT(MICROSECOND FROM d)",
        "EXTRACT(MICROSECOND FROM CAST(ts AS TIME))",
        "TIMESTAMPADD(DAY, f, ts)",
        "TIMESTAMPADD(MILLISECOND, i, d)",
        "TIMESTAMPDIFF(DAY, lz, ts)",
        "TIMESTAMPDIFF(MONTH, CAST(ts AS TIME), CAST(tt AS TIME))",
        "DATE_FORMAT(d, 'yyyy')",
    ],
)
def test_what_is_no_value_in_flink_is_refused(expression: str) -> None:
    with pytest.raises(SchemaError, match="at character"):
        read_expression(expression, TYPES)


# --- rounding ------------------------------------------------------------------------------------------------


def test_rounding_an_instant_keeps_its_offset() -> None:
    # midnight of the day on which clocks go forward is 05:00 in UTC; Flink takes the offset of the afternoon
    assert value("FLOOR(lz TO DAY)", zone=NEW_YORK, lz="2024-03-10T16:00:00") == "2024-03-10T04:00:00"


@pytest.mark.parametrize(
    ("date", "ceil"), [("2024-01-01", "2024-01-01"), ("2024-04-01", "2024-07-01"), ("2024-05-07", "2024-07-01")]
)
def test_the_next_quarter_follows_the_first_day_of_one_except_january_1(date: str, ceil: str) -> None:
    assert value("CEIL(d TO QUARTER)", d=date) == ceil


def test_dates_before_1582_are_rounded_by_the_julian_calendar() -> None:
    # 1500-03-01 of the Gregorian calendar is February 20 of the Julian one
    assert value("FLOOR(d TO MONTH)", d="1500-03-01") == "1500-02-01"


def test_a_time_rounded_to_24_00_fails_the_row() -> None:
    assert "24:00" in failure("CEIL(CAST(ts AS TIME) TO HOUR)", ts="2024-03-09T23:30:00")


# --- the current time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("CURRENT_DATE", "2024-03-09"),
        ("CURRENT_TIME", "22:30:15"),
        ("LOCALTIME", "22:30:15"),
        ("LOCALTIMESTAMP", "2024-03-09 22:30:15.678"),
        ("CURRENT_TIMESTAMP", "2024-03-09 22:30:15.678"),
        ("NOW()", "2024-03-09 22:30:15.678"),
        ("CURRENT_ROW_TIMESTAMP()", "2024-03-09 22:30:15.678"),
        ("PROCTIME()", "2024-03-09 22:30:15.678"),
    ],
)
def test_the_current_time_is_that_of_the_session_in_milliseconds(expression: str, text: str) -> None:
    found = value(f"CAST({expression} AS STRING)", zone=NEW_YORK, now="2024-03-10T03:30:15.678901")
    assert found == text
