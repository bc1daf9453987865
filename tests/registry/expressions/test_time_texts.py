"""Times to texts and back: rules at boundaries, and columns that NumPy reads and writes as a whole."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.expressions.java_times.fixed_layouts import (
    FIRST,
    LAST,
    FixedTexts,
    layout_of_java_time,
    read,
    written,
)
from kvformat.registry.expressions.java_times.formatter_parsing import parsed
from kvformat.registry.expressions.java_times.formatter_patterns import compiled
from kvformat.registry.expressions.java_times.formatter_resolving import resolved
from kvformat.registry.expressions.java_times.formatter_writing import formatted
from kvformat.registry.expressions.local_times import DAY_MICROS
from kvformat.registry.sql.expressions import read_expression
from tests.registry.expressions.time_rows import TYPES, evaluated, failure, value

NEW_YORK = "America/New_York"
LEAST_BIGINT = -(2**63)


# --- whole columns -------------------------------------------------------------------------------------------

_FIXED = ["yyyy-MM-dd HH:mm:ss", "uuuuMMddHHmmss", "dd/MM/yyyy'T'HH:mm:ss.SSSSSS", "yyyy-MM-dd HH:mm:ss.SSS", "HH:mm"]


@pytest.mark.parametrize("pattern", _FIXED)
def test_a_column_with_fixed_places_is_as_its_single_values(pattern: str) -> None:
    elements = compiled(pattern)
    layout = layout_of_java_time(elements)
    assert layout is not None
    numbers = random.Random(3)
    micros = [FIRST, LAST, -1, 0, *(numbers.randrange(FIRST, LAST + 1) for _ in range(2000))]
    valid = np.array([i % 7 != 3 for i in range(len(micros))], np.bool_)
    texts = written(layout, np.array(micros, np.int64), valid)
    assert texts.to_pylist() == [formatted(elements, m) if v else None for m, v in zip(micros, valid, strict=True)]

    found, usual = read(layout, FixedTexts.of(texts))
    assert usual.tolist() == valid.tolist()
    for number, text in zip(found[valid].tolist(), texts.drop_null().to_pylist(), strict=True):
        days, nanos = resolved(parsed(elements, text))
        assert number == days * DAY_MICROS + nanos // 1000


def test_usual_and_other_texts_of_a_column() -> None:
    texts = ["2024-03-09 12:34:56", None, "2024-3-9", "", "2024-03-09 12:34:56.7", "2024-02-30 00:00:00", "é" * 5]
    texts = [*texts, "2024-03-09", "0001-01-01 00:00:00", "2024-03-09 12:34:60", "９024-03-09"]
    expected = [value("TO_TIMESTAMP(s)", s=text) for text in texts]
    assert expected[:5] == ["2024-03-09T12:34:56", None, "2024-03-09T00:00:00", None, "2024-03-09T12:34:56.700000"]
    assert evaluated("TO_TIMESTAMP(s)", s=texts) == (expected, {})
    sliced = FixedTexts.of(pa.array(["x", *texts])[1:])
    assert sliced.lengths.tolist() == [0 if text is None else len(text.encode()) for text in texts]


@pytest.mark.parametrize("form", ["yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "yyyy-MM-dd", "HH:mm:ss"])
def test_usual_and_other_texts_of_simple_date_format(form: str) -> None:
    texts = ["2024-03-09 12:34:56", "2024-03-09 12:34:5x", "20240309", "202403090", "2024-3-9 1:2:3", "99999-01-01"]
    texts = [*texts, "2024-13-45 25:61:61", "2024-03-09 12:34:567", "12:34:56", "-2024-01-01 00:00:00", "1582-10-10"]
    for function in ("UNIX_TIMESTAMP", "TO_DATE"):
        expression = f"{function}(s, '{form}')"
        assert evaluated(expression, s=texts)[0] == [
            evaluated(f"{function}(s, p)", s=[text], p=[form])[0][0] for text in texts
        ]


@pytest.mark.parametrize(
    "zones", [("UTC", NEW_YORK), (NEW_YORK, "Asia/Kolkata"), ("EST", "No/Zone"), ("+05:30", "PST")]
)
def test_zones_of_convert_tz_are_the_same_as_literals_and_as_columns(zones: tuple[str, str]) -> None:
    texts = ["2024-03-10 02:30:00", "2024-11-03 01:30:00", "1899-12-31 23:59:59", "1500-01-01 00:00:00", "x", None]
    source, target = zones
    by_literals = evaluated(f"CONVERT_TZ(s, '{source}', '{target}')", s=texts)
    assert by_literals == evaluated(f"CONVERT_TZ(s, p, '{target}')", s=texts, p=[source] * len(texts))


@pytest.mark.parametrize(
    "call", ["DATE_FORMAT(s, {})", "DATE_FORMAT(ts, {})", "DATE_FORMAT(lz, {})", "FROM_UNIXTIME(n, {})"]
)
@pytest.mark.parametrize("form", ["dd.MM.yyyy HH:mm", "yyyy", "yyyy-MM-dd HH:mm:ss", "EEE, d MMM"])
def test_a_form_is_the_same_as_a_literal_and_as_a_column(call: str, form: str) -> None:
    moments = ["2024-03-09T12:34:56", "1969-12-31T23:59:59", None]
    given = {"ts": moments, "lz": moments, "n": [1_710_006_896, -1, None]}
    given["s"] = [moment and moment.replace("T", " ") for moment in moments]
    literal = evaluated(call.format(f"'{form}'"), zone=NEW_YORK, **given)
    assert [text is None for text in literal[0]] == [False, False, True]
    assert evaluated(call.format("p"), zone=NEW_YORK, **given, p=[form] * 3) == literal


@pytest.mark.parametrize(
    "call",
    [
        *("DATE_FORMAT(s, {})", "DATE_FORMAT(ts, {})", "DATE_FORMAT(lz, {})", "FROM_UNIXTIME(n, {})"),
        *("UNIX_TIMESTAMP(s, {})", "TO_DATE(s, {})", "TO_TIMESTAMP(s, {})", "TO_TIMESTAMP_LTZ(s, {}, 'UTC')"),
        *("CONVERT_TZ(s, {}, 'UTC')", "CONVERT_TZ(s, 'UTC', {})"),
    ],
)
def test_a_pattern_or_zone_that_is_null_gives_null(call: str) -> None:
    given = {"s": "2024-03-09 12:34:56", "ts": "2024-03-09", "lz": "2024-03-09", "n": 0}
    for null in ("CAST(NULL AS STRING)", "p"):
        assert value(call.format(null), **given) is None


# --- java.time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pattern", "time"),
    [
        ("2023-02-31", "yyyy-MM-dd", "2023-02-28T00:00:00"),
        ("2023-02-32", "yyyy-MM-dd", None),
        ("2024-03-09 24:00", "yyyy-MM-dd HH:mm", "2024-03-10T00:00:00"),
        ("2024-03-09 24:01", "yyyy-MM-dd HH:mm", None),
        ("99", "yy", "2099-01-01T00:00:00"),
        ("2024-03-09 2024", "yyyy-MM-dd uuuu", "2024-03-09T00:00:00"),
        ("2024-03-09 2023", "yyyy-MM-dd uuuu", None),
        ("12 AM", "hh a", "1970-01-01T00:00:00"),
        ("20240309123456789", "yyyyMMddHHmmssSSS", "2024-03-09T12:34:56.789000"),
        ("Sat 9 Mar 2024", "EEE d MMM yyyy", "2024-03-09T00:00:00"),
        ("Sun 9 Mar 2024", "EEE d MMM yyyy", None),
        # what does not fit is read once more, as java.sql.Timestamp.valueOf does
        ("2024-03-09 12:34:56.7", "dd.MM.yyyy", "2024-03-09T12:34:56.700000"),
        ("\t2024-3-9 1:2:3\n", "dd.MM.yyyy", "2024-03-09T01:02:03"),
        # the digits of a padded number are not kept free for it
        ("58922999999000  22", "NNppppmm", "1970-01-01T16:22:02.999000"),
        # an optional section that does not fit leaves no fields, but a wrong offset in it fails
        ("09.03.2024", "[MM/dd/yyyy][dd.MM.yyyy]", "2024-03-09T00:00:00"),
        ("2024-03-09 10:00", "yyyy-MM-dd[ XXX][ HH:mm]", "2024-03-09T10:00:00"),
        ("2024-03-09", "yyyy-MM-dd[ XXX]", "2024-03-09T00:00:00"),
        ("09.03.2024 +24:00", "dd.MM.yyyy[ XXX][ +HH:mm]", None),
        ("09.03.2024 10:00 +18:00", "dd.MM.yyyy HH:mm XXX", "2024-03-09T10:00:00"),
        ("09.03.2024 10:00 +19:00", "dd.MM.yyyy HH:mm XXX", None),
        # parts of the day, alone and with others
        ("81296123", "A", "1970-01-01T22:34:56.123000"),
        ("22:34:56 81296123", "HH:mm:ss A", "1970-01-01T22:34:56.123000"),
        ("81296123 123456", "A SSSSSS", "1970-01-01T22:34:56.123000"),
        ("81296123 5", "A n", None),
        ("00:30", "kk:mm", "1970-01-01T00:30:00"),
        ("AM", "a", "1970-01-01T06:00:00"),
        ("PM", "a", "1970-01-01T18:00:00"),
        ("13:00 AM", "HH:mm a", None),
        ("10 at night", "h B", "1970-01-01T22:00:00"),
        ("12 at night", "h B", "1970-01-01T00:00:00"),
        ("24", "HH", "1970-01-01T00:00:00"),
        ("09.03.2024 24", "dd.MM.yyyy HH", "2024-03-10T00:00:00"),
        ("24:30", "HH:mm", None),
        ("24 00", "HH ss", None),
        # a year of 52 weeks ends with week 53, too
        ("2022 53 1", "YYYY ww e", "2022-12-25T00:00:00"),
        ("2023 52 1", "YYYY ww e", "2023-12-24T00:00:00"),
        ("2023 53 1", "YYYY ww e", "2023-12-24T00:00:00"),
        ("2023 54 1", "YYYY ww e", None),
        # numbers: signs, and digits that are too many
        ("12024", "yyyy", None),
        ("+12024", "yyyy", "12024-01-01T00:00:00"),
        ("+2024", "yyyy", None),
        ("-0", "u", None),
        ("024", "yy", None),
        ("  9 03", "pppd MM", "1970-03-09T00:00:00"),
        ("123", "ppd", None),
        ("2024", "pppu4", "0202-01-01T00:00:00"),
        ("02-30", "MM-dd", None),
        ("300000", "u", None),
    ],
)
def test_to_timestamp_reads_as_java_time(text: str, pattern: str, time: str | None) -> None:
    assert value(f"TO_TIMESTAMP(s, '{pattern}')", s=text) == time


@pytest.mark.parametrize(
    ("digits", "time"),
    [("1", "00:00:00.1"), ("123", "00:00:00.123"), ("123456", "00:00:00.123456"), ("123456789", "00:00:00.123456")],
)
def test_a_fraction_is_read_and_written_with_all_its_digits(digits: str, time: str) -> None:
    form, moment = "S" * len(digits), f"1970-01-01T{time}"
    found = value(f"DATE_FORMAT(TO_TIMESTAMP_LTZ(s, '{form}'), 'ss.SSSSSSSSS')", s=digits)
    assert found == f"00.{digits[:6]:0<9}"
    assert value(f"DATE_FORMAT(ts, '{form}')", ts=moment) == digits[:6].ljust(len(digits), "0")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd''HH", "2024-03-09'22"),
        ("yyyyy yy y", "02024 24 2024"),
        ("EEEE, d MMMM, MMMMM", "Saturday, 9 March, M"),
        ("YYYY 'W'ww e", "2024 W10 7"),
        ("Q QQQ QQQQ", "1 Q1 1st quarter"),
        ("n N A", "123456000 81296123456000 81296123"),
        ("h B, K a, k", "10 at night, 10 PM, 22"),
        ("G D g", "AD 69 60378"),
        ("ppppd|HH[ XXX]", "   9|22"),
        # only the date is computed if no letter is of the time
        ("ppppd|ppH", "   9|22"),
        ("d[ HH]", "9 22"),
        ("d B", "9 at night"),
    ],
)
def test_date_format_writes_as_java_time(pattern: str, text: str) -> None:
    quoted = pattern.replace("'", "''")
    assert value(f"DATE_FORMAT(ts, '{quoted}')", ts="2024-03-09T22:34:56.123456") == text
    assert value("DATE_FORMAT(ts, p)", ts="2024-03-09T22:34:56.123456", p=pattern) == text


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("yyyy XXX", "time zone"),
        ("yyyy [", ""),
        ("yyyy ]", "]"),
        ("bb", "letter b"),
        ("'x", "quote"),
        ("ddd", "letters d"),
        ("pppyyyy", "more characters than the letters p"),
    ],
)
def test_a_pattern_that_java_refuses_fails_each_row(pattern: str, reason: str) -> None:
    quoted = pattern.replace("'", "''")
    if reason:
        assert reason in failure(f"DATE_FORMAT(ts, '{quoted}')", ts="2024-03-09")
    else:
        assert value(f"DATE_FORMAT(ts, '{quoted}')", ts="2024-03-09") == "2024 "
    assert value(f"DATE_FORMAT(ts, '{quoted}')") is None


def test_years_of_date_format() -> None:
    for moment, text in {
        "10000-01-01": "+10000", "-0001-01-01": "0002", "0000-01-01": "0001", "0001-01-01": "0001",
    }.items():  # fmt: skip
        assert value("DATE_FORMAT(ts, 'yyyy')", ts=moment) == text
    assert value("DATE_FORMAT(ts, 'uuuu')", ts="-0001-01-01") == "-0001"


@pytest.mark.parametrize(
    ("type_", "last", "none"),
    [
        ("DATE", "2000-02-29", "2000-02-30"),
        ("DATE", "1900-02-28", "1900-02-29"),
        ("DATE", "1904-02-29", "1903-02-29"),
        ("TIME", "23:00:00", "24:00:00"),
        ("TIME", "10:59:00", "10:60:00"),
        ("TIME", "10:20:59", "10:20:60"),
    ],
)
def test_a_text_is_cast_up_to_the_last_day_hour_minute_and_second(type_: str, last: str, none: str) -> None:
    assert value(f"CAST(CAST(s AS {type_}) AS STRING)", s=last) == last
    assert f"'{none}' is not a {type_.lower()}" in failure(f"CAST(s AS {type_})", s=none)


# --- SimpleDateFormat ----------------------------------------------------------------------------------------


def test_dates_before_1582_10_15_are_julian() -> None:
    assert value("FROM_UNIXTIME(n)", n=-12_219_292_801) == "1582-10-04 23:59:59"
    assert value("FROM_UNIXTIME(n)", n=-12_219_292_800) == "1582-10-15 00:00:00"
    assert value("UNIX_TIMESTAMP('1582-10-04 23:59:59')") == -12_219_292_801
    assert value("UNIX_TIMESTAMP(s)", s="1582-10-10 00:00:00") == value("UNIX_TIMESTAMP(s)", s="1582-10-20 00:00:00")
    assert value("UNIX_TIMESTAMP(s)", s="1500-02-29 00:00:00") == value("UNIX_TIMESTAMP(s)", s="1500-02-28 24:00:00")


@pytest.mark.parametrize("date", ["1500-01-31", "1500-02-01", "1500-02-29", "1500-03-01", "1501-02-01", "1501-03-01"])
def test_julian_dates_are_written_as_they_were_read(date: str) -> None:
    assert value("FROM_UNIXTIME(UNIX_TIMESTAMP(s))", s=f"{date} 00:00:00") == f"{date} 00:00:00"


def test_a_day_that_only_the_julian_calendar_has_is_not_read_as_a_timestamp() -> None:
    text = "1500-02-29 00:00:00"
    assert value("TO_TIMESTAMP(s, 'dd.MM.yyyy')", s=text) is None
    assert "is not a date" in failure("TO_TIMESTAMP_LTZ(s, 'dd.MM.yyyy')", s=text)


@pytest.mark.parametrize(
    ("seconds", "week"),
    [(1_672_444_800, "2022 53"), (1_703_980_800, "2024 1"), (1_735_344_000, "2024 52"), (1_735_430_400, "2025 1")],
)
def test_the_week_with_january_1_is_the_first_of_its_year_and_begins_on_sunday(seconds: int, week: str) -> None:
    assert value("FROM_UNIXTIME(n, 'YYYY w')", n=seconds) == week


@pytest.mark.parametrize(
    ("number", "date"), [("2", "2024-03-10"), ("0", "2024-02-25"), ("-1", "2024-03-31"), ("-2", "2024-03-24")]
)
def test_the_weekday_of_a_month_counts_from_its_beginning_or_its_end(number: str, date: str) -> None:
    read = "FROM_UNIXTIME(UNIX_TIMESTAMP(s, 'yyyy/MM/F'), 'yyyy-MM-dd')"
    assert value(read, s=f"2024/03/{number}") == date


@pytest.mark.parametrize("text", ["1582 1", "1582 277", "1582 300", "1582 355", "1583 1"])
def test_a_day_of_1582_is_written_as_it_was_read(text: str) -> None:
    assert value("FROM_UNIXTIME(UNIX_TIMESTAMP(s, 'yyyy D'), 'yyyy D')", s=text) == text


@pytest.mark.parametrize(("offset", "seconds"), [("+0230", -9000), ("-0230", 9000), ("+0000", 0), ("-1100", 39_600)])
def test_an_offset_in_a_text_has_hours_and_minutes(offset: str, seconds: int) -> None:
    assert value("UNIX_TIMESTAMP(s, 'yyyy-MM-dd HH:mm Z')", s=f"1970-01-01 00:00 {offset}") == seconds


def test_fields_that_are_too_large_go_on_to_the_next() -> None:
    assert value("UNIX_TIMESTAMP(s)", s="1970-13-32 24:60:60") == value("UNIX_TIMESTAMP(s)", s="1971-02-02 01:01:00")


@pytest.mark.parametrize("form", ["'bb'", "p"])
def test_a_wrong_pattern_fails_its_row_before_the_text_is_read(form: str) -> None:
    for function in ("DATE_FORMAT", "UNIX_TIMESTAMP", "TO_DATE"):
        assert "does not know the letter b" in failure(f"{function}(s, {form})", s="x", p="bb")
    assert "does not know the letter b" in failure(f"FROM_UNIXTIME(n, {form})", n=0, p="bb")


def test_a_text_that_does_not_fit() -> None:
    assert value("UNIX_TIMESTAMP(s)", s="x") == LEAST_BIGINT
    assert value("DATE_FORMAT(s, 'yyyy')", s="x") is None
    assert value("CONVERT_TZ(s, 'UTC', 'UTC')", s="x") is None
    assert value("TO_DATE(s)", s="x") is None
    assert value("TO_DATE(s, 'yyyy')", s="x") == "1705471-09-27"


@pytest.mark.parametrize("letters", ["yy", "y"])
def test_a_year_of_two_digits_is_at_most_20_years_ahead(letters: str) -> None:
    read = f"FROM_UNIXTIME(UNIX_TIMESTAMP(s, '{letters}-MM-dd'), 'yyyy-MM-dd')"
    for now, date in {"2024-06-01": "2044-01-01", "2023-12-31": "1944-01-01"}.items():
        assert value(read, now=now, s="44-01-01") == date
    for text, date in {"44-05-31": "2044-05-31", "44-06-01": "1944-06-01"}.items():  # 80 years ago to the day
        assert value(read, now="2024-06-01", s=text) == date


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        # a gap has the offset before it, and of an hour that comes twice it is the second
        ("2024-03-10 02:30:00", 1_710_055_800),
        ("2024-11-03 01:30:00", 1_730_615_400),
        # the offset of today, not the local mean time
        ("1883-01-01 00:00:00", -2_745_428_400),
    ],
)
def test_unix_timestamp_takes_the_offsets_of_java_util(text: str, seconds: int) -> None:
    assert value("UNIX_TIMESTAMP(s)", zone=NEW_YORK, s=text) == seconds


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("1969-12-31 23:59:58.500", -1),
        ("1969-12-31 23:59:59.000", -1),
        ("1969-12-31 23:59:59.500", 0),
        ("1970-01-01 00:00:01.999", 1),
    ],
)
def test_unix_timestamp_drops_milliseconds_towards_1970(time: str, seconds: int) -> None:
    for form in ("yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd H:mm:ss.SSS"):  # the second has no fixed places
        assert value(f"UNIX_TIMESTAMP(s, '{form}')", s=time) == seconds
        assert value("UNIX_TIMESTAMP(s, p)", s=time, p=form) == seconds


def test_seconds_overflow_as_a_long() -> None:
    assert value("FROM_UNIXTIME(n)", n=2**61) == "1970-01-01 00:00:00"


def test_zone_names() -> None:
    assert value("FROM_UNIXTIME(n, 'z Z X XXX')", zone=NEW_YORK, n=1_720_000_000) == "EDT -0400 -04 -04:00"
    assert value("FROM_UNIXTIME(n, 'z Z X XXX')", zone="UTC", n=0) == "UTC +0000 Z Z"
    assert value("FROM_UNIXTIME(n, 'z')", zone="+05:30", n=0) == "GMT+05:30"
    assert value("FROM_UNIXTIME(n, 'Z X XX XXX')", zone="America/St_Johns", n=0) == "-0330 -03 -0330 -03:30"
    assert "zzzz" in failure("FROM_UNIXTIME(n, 'zzzz')", n=0)
    summers = {"Europe/Dublin": ("IST", 1_720_000_000), "America/Anchorage": ("AKDT", 47_217_600)}
    for zone, (name, moment) in summers.items():  # in Alaska, the daylight time of 1971 was the standard time of today
        assert value("FROM_UNIXTIME(n, 'z')", zone=zone, n=moment) == name
    assert value("FROM_UNIXTIME(n, 'z')", zone="Europe/Dublin", n=1_704_067_200) == "GMT"
    for zone, moment in {"America/Adak": 0, "Africa/Windhoek": 0, "America/Bahia_Banderas": 1_183_291_200}.items():
        assert f"the time zone {zone} is not known" in failure("FROM_UNIXTIME(n, 'z')", zone=zone, n=moment)


@pytest.mark.parametrize(
    ("zone", "offset", "hours"),
    [
        # of the session's zone: standard time, and an hour more in daylight time
        *((NEW_YORK, "EST", -5), (NEW_YORK, "EDT", -4), (NEW_YORK, "est", -5)),
        *((NEW_YORK, "MST", -7), (NEW_YORK, "CET", 1), (NEW_YORK, "utc", 0), ("Europe/Dublin", "GMT", 0)),
        *(("America/Inuvik", "MST", -7), ("America/Inuvik", "MDT", -6)),  # Python has two hours of daylight time there
        *(("UTC", "GMT+2:30", 2.5), ("UTC", "GMT-11:00", -11), ("UTC", "+0259", 2 + 59 / 60)),
    ],
)
@pytest.mark.parametrize(("date", "midnight"), [("2024-01-01", 1_704_067_200), ("2024-07-01", 1_719_792_000)])
def test_the_zone_of_a_text_has_its_offset_in_summer_and_winter(
    zone: str, offset: str, hours: float, date: str, midnight: int
) -> None:
    found = value("UNIX_TIMESTAMP(s, 'yyyy-MM-dd HH:mm z')", zone=zone, s=f"{date} 00:00 {offset}")
    assert found == midnight - hours * 3600


@pytest.mark.parametrize(
    ("zone", "name", "date"),
    [
        *(("America/Phoenix", "MDT", "2024-07-01"), ("Europe/Dublin", "IST", "2024-07-01")),
        *(("America/Adak", "HDT", "2024-07-01"), (NEW_YORK, "EST", "1969-12-31")),
    ],
)
def test_a_zone_of_a_text_that_is_not_known_fails_its_row(zone: str, name: str, date: str) -> None:
    assert "the letter z" in failure("UNIX_TIMESTAMP(s, 'yyyy-MM-dd z')", zone=zone, s=f"{date} {name}")


@pytest.mark.parametrize(
    ("letters", "offset", "seconds"),
    [
        *(("X", "+02", -7200), ("XX", "+0230", -9000), ("XXX", "+02:30", -9000), ("XXX", "Z", 0)),
        *(("XXX", "+0230", LEAST_BIGINT), ("Z", "+0260", LEAST_BIGINT), ("Z", "+2400", LEAST_BIGINT)),
    ],
)
def test_each_letter_of_an_offset_has_its_form(letters: str, offset: str, seconds: int) -> None:
    assert value(f"UNIX_TIMESTAMP(s, 'yyyy {letters}')", zone=NEW_YORK, s=f"1970 {offset}") == seconds


@pytest.mark.parametrize(
    ("pattern", "text", "seconds"),
    [
        # names in any case; of H and h a, and of fields that are repeated, those that were set last
        *(("d MMM yyyy", "9 jAn 1970", 691_200), ("HH h a", "10 11 PM", 82_800), ("h a HH", "11 PM 10", 36_000)),
        *(("HH a", "10 PM", 36_000), ("dd D dd", "01 40 02", 86_400), ("D dd D", "40 03 41", 3_456_000)),
        # numbers have an exponent, and the low bits of an int
        *(("ss", "1E2", 100), ("dd", "4294967297", 0), ("HH:mm:ss", "00:00:05E1", 50), ("HH:mm:ss", "00:00:05E", 5)),
        *(("HH:mm:ss", "00:00:05\u0661", 51), ("HH:mm:ss", "00:00:05x", 5), ("HH:mm:ss", "00:00:05é", 5)),
        ("''yyyy'x''y'", "'1970x'y", 0),
    ],
)
def test_unix_timestamp_reads_as_simple_date_format(pattern: str, text: str, seconds: int) -> None:
    assert value("UNIX_TIMESTAMP(s, p)", s=text, p=pattern) == seconds
    quoted = pattern.replace("'", "''")
    assert value(f"UNIX_TIMESTAMP(s, '{quoted}')", s=text) == seconds


@pytest.mark.parametrize(
    ("expression", "text", "why"),
    [
        ("UNIX_TIMESTAMP(s, 'yyyy')", "2147483647", "three million years"),
        ("TO_DATE(s, 'yyyy')", "2147483647", "three million years"),
        ("UNIX_TIMESTAMP(s, 'ww')", "200000000", "too large"),
        ("UNIX_TIMESTAMP(s, 'XXXX')", "1970", "at most 3 letters X"),
        ("CONVERT_TZ(s, p, 'UTC')", "1970-01-01 00:00:00", "SystemV"),
        ("UNIX_TIMESTAMP(s, 'G YYYY')", "BC 0001", "letter Y"),
        ("FROM_UNIXTIME(n, 'YYYY')", "", "letter Y"),
    ],
)
def test_what_java_computes_and_this_library_does_not_fails_its_row(expression: str, text: str, why: str) -> None:
    assert why in failure(expression, s=text, p="SystemV/EST5", n=-62_200_000_000)


# --- dates and instants --------------------------------------------------------------------------------------


def test_a_constant_to_date_has_the_last_four_digits_of_its_year() -> None:
    assert value("TO_DATE('12024-03-09', 'yyyy-MM-dd')") == "2024-03-09"
    assert value("TO_DATE(s, 'yyyy-MM-dd')", s="12024-03-09") == "12024-03-09"
    assert "0000" in failure("TO_DATE('10000-03-09', 'yyyy-MM-dd')")


@pytest.mark.parametrize(
    ("number", "precision", "instant"),
    [
        (253_402_300_799, 0, "9999-12-31T23:59:59"),
        (253_402_300_800, 0, None),
        (-62_167_219_200, 0, "0000-01-01T00:00:00"),
        (-62_167_219_201, 0, None),
        (-1, 3, "1969-12-31T23:59:59.999000"),
        (-1, 6, "1969-12-31T23:59:59.999999"),
    ],
)
def test_numbers_of_to_timestamp_ltz_are_of_the_years_0_to_9999(
    number: int, precision: int, instant: str | None
) -> None:
    assert value(f"TO_TIMESTAMP_LTZ(n, {precision})", n=number) == instant


@pytest.mark.parametrize(
    ("number", "instant"), [(float("nan"), "1970-01-01T00:00:00"), (float("inf"), None), (-1e300, None)]
)
def test_a_double_that_is_no_number_is_0(number: float, instant: str | None) -> None:
    assert value("TO_TIMESTAMP_LTZ(f, 0)", f=number) == instant


def test_a_pattern_of_to_timestamp_ltz_gives_its_precision() -> None:
    for form, precision in {"yyyy": 3, "yyyy SS": 3, "yyyy SSSSSS": 6}.items():
        found = read_expression(f"TO_TIMESTAMP_LTZ(s, '{form}')", TYPES)
        assert (found.type.root, found.type.precision) == ("TIMESTAMP_LTZ", precision)


@pytest.mark.parametrize(
    ("zone", "instant"),
    [
        *(("+18:00", "1970-01-01T06:00:00"), ("-18:00", "1970-01-02T18:00:00"), ("UTC+18", "1970-01-01T06:00:00")),
        *(("+5", "1970-01-01T19:00:00"), ("UT-05:30:30", "1970-01-02T05:30:30"), ("GMT0", "1970-01-02T00:00:00")),
        *(("+18:01", None), ("+18:00:01", None), ("EST", None), ("ROC", None), ("nope", None)),
    ],
)
def test_a_zone_of_a_column_is_one_of_java_time_or_gives_null(zone: str, instant: str | None) -> None:
    assert value("TO_TIMESTAMP_LTZ(s, 'dd.MM.yyyy', p)", s="02.01.1970", p=zone) == instant


@pytest.mark.parametrize(
    ("zone", "hours"),
    [
        *(("GMT+23:59", 23 + 59 / 60), ("GMT+5", 5), ("GMT-0530", -5.5), ("EST", -5), ("ECT", 1), ("MST", -7)),
        *(("GMT-:30", -0.5), ("GMT+24:00", 0), ("GMT+23:60", 0), ("+05:30", 0), ("ROC", 0), ("nope", 0)),
    ],
)
def test_a_zone_that_java_util_does_not_know_is_gmt(zone: str, hours: float) -> None:
    for converted in (f"CONVERT_TZ(s, 'UTC', '{zone}')", "CONVERT_TZ(s, 'UTC', p)"):
        assert value(f"UNIX_TIMESTAMP({converted})", s="1970-01-02 00:00:00", p=zone) == 86_400 + hours * 3600


@pytest.mark.parametrize(
    "expression",
    [
        *("TO_TIMESTAMP_LTZ(s, 'bb')", "TO_TIMESTAMP_LTZ(s, 'yyyy', 'No/Zone')", "TO_TIMESTAMP_LTZ(n, 3, 'UTC')"),
        *("TO_TIMESTAMP_LTZ(n, -1)", "TO_TIMESTAMP_LTZ(n, 7)", "TO_TIMESTAMP_LTZ(n, 10)", "TO_TIMESTAMP_LTZ(n, n)"),
    ],
)
def test_literals_of_to_timestamp_ltz_are_checked_before_any_row(expression: str) -> None:
    with pytest.raises(SchemaError, match="TO_TIMESTAMP_LTZ"):
        read_expression(expression, TYPES)
