"""Debezium's values in messages without a schema: a value is read by its JSON form, or it is an error.

Connect's `JsonConverter` writes these values for the types of `io.debezium.data` and `io.debezium.time`. Debezium's
connectors make them (`JdbcValueConverters`, `PostgresValueConverter`, `BinlogValueConverters`).
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import DecodedBatch, KeyValueFormat, get_format
from tests.support.extent import case_count

PRECISE, STRING, DOUBLE = ({"decimal.handling.mode": mode} for mode in ("precise", "string", "double"))
HEX, URL_SAFE, BASE64 = ({"binary.handling.mode": mode} for mode in ("hex", "base64-url-safe", "base64"))
ADAPTIVE, MICROSECONDS, CONNECT, ISO, STRUCTURED, NANOSECONDS, MYSQL = (
    {"time.precision.mode": mode}
    for mode in (
        "adaptive",
        "microseconds",
        "connect",
        "isostring",
        "structured",
        "nanoseconds",
        "adaptive_time_microseconds",
    )
)
_TIMES = (ADAPTIVE, MICROSECONDS, CONNECT, NANOSECONDS, MYSQL)
_FIRST_DAY, _LAST_DAY = -106_751_992, 106_751_991
_FIRST, _LAST = -9_223_372_036_832_400_000, 9_223_372_036_825_200_000
_AT_FIVE = 5 * 3600 + 30 * 60
_LAST_NANO, _AT_HALF = 86_400 * 10**9 - 1, {"minute": 30, "second": 0, "nanos": 0}
_LAST_CLOCK = {"hour": 23, "minute": 59, "second": 59, "nanos": 999_999_999}
_NEW_YEAR, _NO_TIME = {"year": 1970, "month": 1, "day": 1}, {"hour": 0, "minute": 0, "second": 0, "nanos": 0}
_NOTHING = dict.fromkeys(("years", "months", "days", "hours", "minutes", "seconds", "nanos"), 0)
GOOD: list[tuple[dict[str, str], str, Any, Any]] = [
    # booleans
    ({}, "BOOLEAN", True, True),
    ({}, "BOOLEAN", 1, True),
    ({}, "BOOLEAN", 0, False),
    ({}, "BOOLEAN", "true", True),
    ({}, "ARRAY<BOOLEAN>", [1, False, None], [True, False, None]),
    # whole numbers, bits
    ({}, "BIGINT", 7, 7),
    ({}, "TINYINT", -128, -128),
    ({}, "INT", 7.0, 7),
    ({}, "BIGINT", "8w==", 0xF3),
    ({}, "BIGINT", "BQE=", 261),
    ({}, "BIGINT", "fM0F", 0x05CD7C),
    ({}, "BIGINT", "", 0),
    ({}, "SMALLINT", "8w==", 0xF3),
    ({}, "BIGINT", "/////////38=", 2**63 - 1),
    ({}, "BIGINT", "12345", 12345),
    ({}, "BYTES", "8w==", b"\xf3"),
    # decimals
    (PRECISE, "DECIMAL(10, 2)", "AdTA", Decimal("1200.00")),
    (PRECISE, "DECIMAL(38, 12)", {"scale": 12, "value": "Aw=="}, Decimal("0.000000000003")),
    (PRECISE, "DECIMAL(10, 2)", {"scale": 0, "value": "/w=="}, Decimal("-1.00")),
    (PRECISE, "DECIMAL(10, 2)", {"scale": -3, "value": "BQ=="}, Decimal("5000.00")),
    (PRECISE, "DECIMAL(10, 2)", 1200.5, Decimal("1200.50")),  # `decimal.format` = NUMERIC of the converter
    (PRECISE, "DECIMAL(5, 1)", 7, Decimal("7.0")),
    (PRECISE, "ARRAY<DECIMAL(8, 2)>", ["AdTA", {"scale": 1, "value": "Aw=="}], [Decimal("1200.00"), Decimal("0.30")]),
    (PRECISE, "STRING", {"scale": 12, "value": "Aw=="}, "0.000000000003"),
    ({}, "STRING", {"scale": 2, "value": "/w=="}, "-0.01"),
    (PRECISE, "STRING", {"value": "Aw==", "scale": -2}, "300"),
    (STRING, "DECIMAL(10, 2)", "1200.50", Decimal("1200.50")),
    (STRING, "DECIMAL(10, 2)", "-0.5", Decimal("-0.50")),
    (STRING, "DECIMAL(38, 0)", "1" * 38, Decimal("1" * 38)),
    (STRING, "DECIMAL(20, 0)", "AA==", Decimal(0)),
    (STRING, "DECIMAL(20, 0)", "fw==", Decimal(127)),
    (STRING, "DECIMAL(20, 0)", "AIA=", Decimal(128)),
    (STRING, "DECIMAL(20, 0)", "AP//////////", Decimal(2**64 - 1)),
    (DOUBLE, "DECIMAL(20, 0)", "f/////////8=", Decimal(2**63 - 1)),
    (STRING, "DECIMAL(20, 0)", "12345678", Decimal(12345678)),
    (DOUBLE, "DECIMAL(10, 2)", 1200.5, Decimal("1200.50")),
    (DOUBLE, "DECIMAL(10, 2)", 0.30000000000000004, Decimal("0.30")),
    (STRING, "DECIMAL(10, 2)", 5, Decimal("5.00")),
    # floating-point numbers
    ({}, "DOUBLE", -0.0, -0.0),
    (STRING, "ROW<a DOUBLE, f FLOAT, d DECIMAL(3, 2)>", {"a": -0.0, "f": -0.0, "d": "1"},
     (-0.0, -0.0, Decimal("1.00"))),
    (DOUBLE, "ROW<a ARRAY<DOUBLE>, d DECIMAL(5, 2)>", {"a": [-0.0], "d": 1}, ([-0.0], Decimal("1.00"))),
    ({}, "DOUBLE", "NaN", math.nan),
    ({}, "FLOAT", "-Infinity", -math.inf),
    ({}, "DOUBLE", "1200.5", 1200.5),
    (STRING, "DOUBLE", "1200", 1200.0),
    # texts, JSON documents
    ({}, "STRING", "12", "12"),
    ({}, "STRING", {"scale": "2", "value": "Aw=="}, '{"scale":"2","value":"Aw=="}'),  # an HSTORE
    ({}, "STRING", '{"scale":2,"value":"Aw=="}', '{"scale":2,"value":"Aw=="}'),  # a document
    (STRING, "STRING", {"scale": 2, "value": "Aw=="}, '{"scale":2,"value":"Aw=="}'),
    ({}, "STRING", {"wkb": "AQ==", "srid": None}, '{"wkb":"AQ==","srid":null}'),
    ({}, "ARRAY<STRING>", "red,blue", ["red", "blue"]),
    ({}, "ARRAY<STRING>", "[a]", ["[a]"]),
    ({}, "ARRAY<STRING>", "", []),
    ({}, "ARRAY<STRING>", ["red,blue", None], ["red,blue", None]),
    ({}, "MAP<STRING, STRING>", {"a": None}, [("a", None)]),
    # bytes
    (HEX, "BYTES", "00ff3e", b"\0\xff>"),
    (HEX, "BYTES", "", b""),
    (HEX, "BYTES", "8w==", b"\xf3"),
    (HEX, "BIGINT", "8w==", 0xF3),
    (HEX, "ARRAY<BYTES>", ["00ff"], [b"\0\xff"]),
    (HEX, "ROW<wkb BYTES, srid INT>", {"wkb": "AQEA", "srid": None}, (b"\1\1\0", None)),
    (HEX, "ROW<wkb BYTES>", {"wkb": "00ff"}, (b"\xd3\x47\xdf",)),
    (URL_SAFE, "ROW<wkb BYTES>", {"wkb": "AP8+"}, (b"\0\xff>",)),
    (URL_SAFE, "BYTES", "-_8=", b"\xfb\xff"),
    (URL_SAFE, "BYTES", "+/8=", b"\xfb\xff"),
    (URL_SAFE, "BYTES", "AP8+", b"\0\xff>"),
    (BASE64, "BYTES", "AP8+", b"\0\xff>"),
    # dates
    *((mode, "DATE", count, days) for mode in _TIMES for count, days in [
        (20_150, 20_150),
        (-2_147_472_692, _LAST_DAY),
        (-2_147_472_691, _FIRST_DAY),
        (-622_191_234, _LAST_DAY),
        (-625_821_272, _FIRST_DAY),
    ]),
    (ISO, "DATE", "2025-03-03Z", 20_150),
    (ISO, "DATE", "2025-03-03", 20_150),
    (ISO, "DATE", "2025-03-03+14:00", 20_150),
    (ISO, "DATE", "+10000-01-01Z", 2_932_897),
    (ISO, "DATE", "+5881580-07-11Z", 2**31 - 1),
    (ISO, "DATE", "-5877641-06-23Z", -(2**31)),
    (ISO, "DATE", "-5877611-06-21Z", _LAST_DAY),
    (ISO, "DATE", "-5877611-06-22Z", _FIRST_DAY),
    (ISO, "DATE", "+292278994-08-16Z", _LAST_DAY),
    (ISO, "DATE", "+292269055-12-02Z", _FIRST_DAY),
    (ISO, "ARRAY<DATE>", ["-5877611-06-21Z"], [_LAST_DAY]),
    # times of day: TIMETZ is a text in UTC in each mode
    *((mode, "TIME(6)", "05:30:00.101067Z", _AT_FIVE * 10**9 + 101_067_000) for mode in (*_TIMES, ISO)),
    *((ADAPTIVE, f"TIME({p})", "05:30:00Z", _AT_FIVE * 10**9) for p in (0, 3)),
    *((mode, f"TIME({p})", _AT_FIVE * per_second, _AT_FIVE * 10**9) for mode, p, per_second in [
        (ADAPTIVE, 4, 10**6),
        (ADAPTIVE, 6, 10**6),
        (ADAPTIVE, 9, 10**9),
        (MYSQL, 0, 10**6),
        (MICROSECONDS, 3, 10**6),
        (CONNECT, 6, 10**3),
        (NANOSECONDS, 3, 10**9),
    ]),
    (STRUCTURED, "TIME(6)", {"hour": 5, "minute": 30, "second": 0, "nanos": 1}, _AT_FIVE * 10**9 + 1),
    (STRUCTURED, "TIME(6)", {"hour": 7, "minute": 30, "second": 0, "nanos": 0, "offsetSeconds": 7200},
     _AT_FIVE * 10**9),
    (STRUCTURED, "TIME(6)", {"hours": 5, "minutes": 30, "seconds": 0, "nanos": 0, "days": 0}, _AT_FIVE * 10**9),
    (STRUCTURED, "TIME(6)", _LAST_CLOCK, _LAST_NANO),
    (STRUCTURED, "TIME(6)", _NO_TIME, 0),
    (STRUCTURED, "TIME(6)", {**_AT_HALF, "hour": 0, "offsetSeconds": 3600}, (23 * 3600 + 1800) * 10**9),
    (STRUCTURED, "TIME(6)", {**_AT_HALF, "hour": 23, "offsetSeconds": -3600}, 1800 * 10**9),
    (STRUCTURED, "TIME(6)", {"hours": 23, "minutes": 59, "seconds": 59, "nanos": 999_999_999}, _LAST_NANO),
    (STRUCTURED, "TIME(6)", _NOTHING, 0),
    *((ISO, "TIME(6)", text, nanos) for text, nanos in [
        ("23:59:59.999999999Z", _LAST_NANO),
        ("00:30:00+01:00", (23 * 3600 + 1800) * 10**9),
        ("23:30:00-01:00", 1800 * 10**9),
        ("05:30:00+00:00:30", (_AT_FIVE - 30) * 10**9),
        ("05:30:00+23:59:59", (_AT_FIVE + 1) * 10**9),
        ("05:30Z", _AT_FIVE * 10**9),
        ("07:30:00+0200", _AT_FIVE * 10**9),
    ]),
    # timestamps
    (STRUCTURED, "TIMESTAMP(6)", {"year": 1969, "month": 12, "day": 31, **_LAST_CLOCK}, -1),
    (STRUCTURED, "TIMESTAMP(6)", {**_NEW_YEAR, **_NO_TIME, "nanos": 1999}, 1),
    (STRUCTURED, "TIMESTAMP_LTZ(6)", {**_NEW_YEAR, **_NO_TIME, "hour": 1, "offsetSeconds": 3600}, 0),
    (STRUCTURED, "TIMESTAMP_LTZ(6)", {**_NEW_YEAR, **_NO_TIME, "hour": 1, "offsetSeconds": -3600}, 7200 * 10**6),
    *(({}, "TIMESTAMP_LTZ(6)", text, micros) for text, micros in [
        ("1969-12-31T23:59:59.9999999Z", -1),
        ("1970-01-01T00:00:00.0000019Z", 1),
        ("1970-01-01T00:00:00.5Z", 500_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("1970-01-01T23:59:59+23:59:59", 0),
        ("1970-01-01T00:00Z", 0),
        ("1969-12-31T23:00:00-0100", 0),
    ]),
    (ISO, "TIMESTAMP(6)", "+294247-01-10T04:00:25.2Z", _LAST),
    (ISO, "TIMESTAMP(6)", "+292278994-08-16T23:00:00Z", _LAST),
    (ISO, "TIMESTAMP(6)", "-292275055-05-16T23:00:00Z", _FIRST),
    ({}, "TIMESTAMP_LTZ(6)", "infinity", _LAST),
    ({}, "TIMESTAMP_LTZ(6)", "+292278994-08-16T23:00:00Z", _LAST),
    (CONNECT, "TIMESTAMP(6)", _LAST // 1000, _LAST),
    (MICROSECONDS, "TIMESTAMP(0)", _FIRST, _FIRST),
    # durations
    *((mode, "INTERVAL DAY TO SECOND", 1_500_000, 1_500_000) for mode in ({}, *_TIMES, ISO)),
    ({}, "INTERVAL DAY TO SECOND", -1, -1),
    ({}, "INTERVAL DAY TO SECOND", "P0Y0M0DT0H0M1.5S", 1_500_000),
    ({}, "INTERVAL DAY TO SECOND", "P0Y0M-3DT-4H0M-0.000001S", -3 * 86_400 * 10**6 - 4 * 3600 * 10**6 - 1),
    ({}, "INTERVAL DAY TO SECOND", "PT0.0000019S", 1),
    ({}, "INTERVAL DAY TO SECOND", "PT-0.0000001S", -1),
    ({}, "INTERVAL DAY TO SECOND", "P106751991DT14454.775807S", 2**63 - 1),
    ({}, "INTERVAL DAY TO SECOND", "P-106751991DT-14454.775807S", 1 - 2**63),
    (STRUCTURED, "INTERVAL DAY TO SECOND", {**_NOTHING, "nanos": -1}, -1),
    (STRUCTURED, "INTERVAL DAY TO SECOND", {**_NOTHING, "nanos": 1999, "days": 1}, 86_400 * 10**6 + 1),
    ({}, "INTERVAL YEAR TO MONTH", "P1Y2M0DT0H0M0S", 14),
    ({}, "INTERVAL YEAR TO MONTH", "P178956970Y7M", 2**31 - 1),
    ({}, "INTERVAL YEAR TO MONTH", "P-178956970Y-8M", -(2**31)),
    # numbers at the end of a type, as bits, numbers and texts
    *(({}, type, value, int(float(value)) if isinstance(value, float) else int(value)) for type, value in [
        ("TINYINT", 127), ("TINYINT", 127.0), ("TINYINT", -128.0), ("TINYINT", "127"), ("TINYINT", "-128"),
        ("SMALLINT", 2**15 - 1), ("SMALLINT", -(2**15)), ("SMALLINT", "32767"), ("SMALLINT", "-32768"),
        ("INT", 2**31 - 1), ("INT", -(2**31)), ("INT", "2147483647"), ("INT", "-2147483648"),
        ("BIGINT", 2**63 - 1), ("BIGINT", -(2**63)), ("BIGINT", str(2**63 - 1)), ("BIGINT", str(-(2**63))),
    ]),
    *((mode, "DECIMAL(10, 2)", value, Decimal("99999999.99")) for mode, value in [
        (PRECISE, "AlQL4/8="), (PRECISE, {"scale": 2, "value": "AlQL4/8="}), (PRECISE, 99999999.99),
        (STRING, "99999999.99"), (STRING, "99999999.990"), (DOUBLE, 99999999.99),
    ]),
    ({}, "TINYINT", "fw==", 127),
    ({}, "SMALLINT", "/38=", 2**15 - 1),
    (URL_SAFE, "BYTES", "AP8", b"\0\xff"),
]  # fmt: skip
BAD: list[tuple[dict[str, str], str, Any]] = [
    *(({}, "BOOLEAN", value) for value in (2, -1, 1.0, "yes", "", "1", {}, [])),
    *(({}, "BIGINT", value) for value in (7.9, 1e300, True, "x", "1.5", "1234", {}, "AAAAAAAAAIA=", 2**63)),
    *(({}, "BIGINT", text) for text in ("8x==", "٧")),  # Base64 that Jackson does not write, and another script
    *(({}, "TINYINT", value) for value in (128, "8w==")),
    *((PRECISE, "DECIMAL(10, 2)", value) for value in (
        "12.5", {"scale": 3, "value": "AQ=="}, 1.234, 10**9, {"scale": 2}, {"scale": 2, "value": "x"}, [], True,
        {"scale": 2, "value": "AQ==", "more": 1}, {"scale": 1e3, "value": "AQ=="}, {"scale": 2, "value": ""},
    )),
    *((STRING, "DECIMAL(10, 2)", value) for value in (
        "1.234", "123456789", "NaN", "NAN", "Infinity", "POSITIVE_INFINITY", "/w==", "AAA=", "AH8=", "x", {}, True,
        10**9, "fx==", "٧",
    )),
    (DOUBLE, "DECIMAL(4, 2)", 100.0),
    (DOUBLE, "DECIMAL(4, 2)", "NaN"),
    *(({}, "DOUBLE", value) for value in ("1234", "AdTA", True, {}, "x")),
    ({}, "FLOAT", 1e300),
    *(({}, "ARRAY<INT>", value) for value in ("1,2", {}, 5)),
    *(({}, "ARRAY<STRING>", value) for value in (5, {}, True)),
    *((HEX, "BYTES", value) for value in ("0", "xyz", "*")),
    (HEX, "ROW<wkb BYTES>", {"wkb": "00f"}),
    (BASE64, "BYTES", "*"),
    (BASE64, "BYTES", 5),
    *((mode, "DATE", "2025-03-03") for mode in _TIMES),
    (MICROSECONDS, "DATE", "5"),
    (ISO, "DATE", "+9999999-01-01Z"),
    (ISO, "DATE", 5),
    (ISO, "DATE", "+5881580-07-12Z"),
    (ISO, "DATE", "-5877641-06-22Z"),
    *((STRUCTURED, "TIME(6)", {**_LAST_CLOCK, name: value}) for name, value in (
        ("hour", 24), ("minute", 60), ("second", 60), ("nanos", 10**9), ("nanos", None), *((n, -1) for n in _LAST_CLOCK)
    )),
    *((STRUCTURED, "TIME(6)", {**_NOTHING, name: value}) for name, value in (
        ("days", 1), ("hours", 24), ("hours", -1), ("nanos", -1), ("seconds", 86_400),
    )),
    *((STRUCTURED, "TIMESTAMP(6)", {**_NEW_YEAR, **_NO_TIME, name: value}) for name, value in (
        ("month", 13), ("month", 0), ("day", 32), ("hour", 24), ("minute", 60), ("second", None), ("offsetSeconds", 0),
    )),
    *((STRUCTURED, "INTERVAL DAY TO SECOND", {**_NOTHING, name: 1}) for name in ("years", "months")),
    *((ISO, "TIME(6)", text) for text in ("24:00:00Z", "05:60:00Z", "05:00:60Z", "05:00:00+24:00", "05:00:00")),
    *(({}, "TIMESTAMP_LTZ(6)", f"1970-01-01T{text}") for text in (
        "24:00:00Z", "05:60:00Z", "05:00:60Z", "05:00:00+24:00", "05:00:00.1234567890Z", "05:00:00",
    )),
    ({}, "TIMESTAMP_LTZ(6)", "1970-01-01 05:00:00Z"),
    *((mode, "TIME(3)", value) for mode in _TIMES for value in ("24:00:00Z", -1, 86_400 * 10**9, "5", 1.5)),
    *((ADAPTIVE, f"TIME({p})", value) for p in (0, 3) for value in (5, 5_000, 5_000_000, "5000", "05:30:00")),
    *((mode, "TIMESTAMP(3)", value) for mode in _TIMES for value in ("2025-03-03T00:00:00Z", "5", 1.5)),
    ({}, "TIMESTAMP_LTZ(3)", 5),
    (STRUCTURED, "TIMESTAMP(3)", {"year": 2025, "month": 3, "day": 3, "hour": 1, "minute": 1, "second": 1, "nanos": 0,
                                  "offsetSeconds": 60}),
    *(({}, "INTERVAL DAY TO SECOND", value) for value in (
        "P1Y0M0DT0H0M0S", "P0Y1M", "P106751991DT14454.775808S", "P-106751991DT-14454.775809S",
        "P", "5", 1.5, {}, "P999999999DT1S", "PT1",
    )),
    *(({}, "INTERVAL YEAR TO MONTH", value) for value in (
        "P0Y0M1DT0H0M0S", "P1YT0.000001S", "P178956970Y8M", "P-178956970Y-9M", "5",
    )),
    *(({}, type, value) for type, value in (("TINYINT", "gA=="), ("SMALLINT", "AIA="))),
    *(({}, type, value) for type, values in (
        ("TINYINT", (128.0, -129, "128", "-129")),
        ("SMALLINT", (2**15, -(2**15) - 1, "32768", "-32769")),
        ("INT", (2**31, -(2**31) - 1, "2147483648", "-2147483649")),
        ("BIGINT", (-(2**63) - 1, str(2**63), str(-(2**63) - 1), "1" * 40)),
    ) for value in values),
    *((mode, "DECIMAL(10, 2)", value) for mode, value in (
        (PRECISE, "AlQL5AA="), (PRECISE, {"scale": 2, "value": "AlQL5AA="}), (PRECISE, 100000000.0),
        (STRING, "100000000.00"), (STRING, "-100000000"), (DOUBLE, 99999999.995), (DOUBLE, 1e8),
    )),
    (URL_SAFE, "BYTES", "AP8\n"),

]  # fmt: skip


def decoded(options: dict[str, str], type: str, *values: Any) -> DecodedBatch:
    fmt = get_format("debezium-json", {"types": "debezium"} | options)
    events = [json.dumps({"after": {"v": value}, "op": "c"}).encode() for value in values]
    return fmt.decode_batch(pa.array(events), f"v {type}")


def plain(array: pa.Array) -> list[Any]:
    """Return values, with times as numbers of days, microseconds or nanoseconds: Python does not have all years."""
    if pa.types.is_struct(array.type):
        return list(zip(*(plain(child) for child in array.flatten()), strict=True))
    if pa.types.is_list(array.type):
        whole = pa.ListArray.from_arrays(array.offsets, pa.array(plain(array.values)))
        found: list[Any] = whole.to_pylist()
        return found
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.cast(pa.int64())
    return list(array.to_pylist())


@pytest.mark.parametrize(("options", "type", "given", "value"), GOOD)
def test_a_value_is_read_by_its_form(options: dict[str, str], type: str, given: Any, value: Any) -> None:
    batch = decoded(options, type, given, None, given)
    assert batch.errors is None, batch.errors
    column = batch.rows.values.field(0)
    first, _, last = plain(column)
    assert repr(first) == repr(last) == repr(value)  # repr tells -0.0 from 0.0
    assert column.is_null().to_pylist() == [False, True, False]


@pytest.mark.parametrize(("options", "type", "given"), BAD)
def test_a_value_of_another_form_is_an_error(options: dict[str, str], type: str, given: Any) -> None:
    good = decoded(options, type, None, given, None)
    assert [error is None for error in good.errors.to_pylist()] == [True, False, True]  # type: ignore[union-attr]
    assert re.match("field '(after[.])?v", good.errors[1].as_py())  # type: ignore[index]
    lenient = decoded({**options, "ignore-parse-errors": "true"}, type, given)
    assert lenient.errors is None
    (row,) = lenient.rows.to_pylist()
    assert row in ([{"v": None}], [{"v": {"wkb": None}}], [{"v": []}]), "a bad value becomes null or is left out"


@pytest.mark.parametrize(("column", "zero"), [("DOUBLE", "0.0"), ("FLOAT", "0.0"), ("ARRAY<DOUBLE>", "[0.0]")])
def test_an_integer_has_no_negative_zero(column: str, zero: str) -> None:
    value = "[-0]" if "ARRAY" in column else "-0"
    message = f'{{"after":{{"v":{value}}},"op":"c"}}'.encode()
    batch = get_format("debezium-json", {"types": "debezium"}).decode_batch(pa.array([message]), f"v {column}")
    assert repr(batch.rows.values.field(0).to_pylist()[0]) == zero


def test_a_time_of_day_without_its_precision_is_an_error() -> None:
    """Flink plans `TIME(6)` of a CREATE TABLE as `TIME(3)`, so `adaptive` does not determine the unit."""
    ddl = """CREATE TABLE t (a {}, tz TIME(6), r ROW<a BIGINT>) WITH (
        'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1',
        'scan.startup.mode' = 'earliest-offset', 'value.format' = 'debezium-json',
        'value.debezium-json.types' = 'debezium', 'value.debezium-json.time.precision.mode' = '{}')"""
    values = [
        json.dumps({"after": {"a": count, "tz": "05:30:00.5Z", "r": {"a": 1}}, "op": "c"}).encode()
        for count in (5_000_000, None)
    ]

    def read(type: str, mode: str) -> Any:
        batch = KeyValueFormat.from_ddl(ddl.format(type, mode)).decode_batch(None, pa.array(values))
        return batch.rows.to_pylist(), batch.errors

    clock, row = dt.time(5, 30, 0, 500_000), {"a": 1}
    rows, errors = read("TIME(6)", "adaptive")
    reason, none = errors.to_pylist()
    assert none is None
    assert rows[1] == [{"a": None, "tz": clock, "r": row}]
    assert "field 'a': cannot read \"5000000\" ('time.precision.mode' is adaptive" in reason
    assert "declare it as BIGINT, or have the connector put the schema into the messages" in reason
    for type, mode, value in (
        ("BIGINT", "adaptive", 5_000_000),
        ("TIME(6)", "microseconds", dt.time(0, 0, 5)),
        ("TIME(6)", "adaptive_time_microseconds", dt.time(0, 0, 5)),
    ):
        rows, errors = read(type, mode)
        assert errors is None, errors
        assert rows[0] == [{"a": value, "tz": clock, "r": row}]


_OWN = ("DECIMAL(5, 2)", "DATE", "TIME(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "BYTES", "DOUBLE")


@pytest.mark.parametrize("type", [*_OWN, "INT", "FLOAT", "ROW<a INT>"])
def test_an_error_with_flinks_types_names_the_option_where_debezium_has_types_of_its_own(type: str) -> None:
    message = b'{"after":{"v":[1,2]},"op":"c"}'
    batch = get_format("debezium-json").decode_batch(pa.array([message]), f"v {type}")
    assert batch.errors is not None
    assert ("set 'types' = 'debezium'" in batch.errors[0].as_py()) == (type in _OWN)
    assert "set 'types'" not in decoded({}, "DOUBLE", "x").errors[0].as_py()  # type: ignore[index]


def test_there_are_many_forms() -> None:
    assert len(GOOD) > 110, len(GOOD)
    assert len(BAD) > 90, len(BAD)


# --- every value in every column ----------------------------------------------------------------------------

_VALUES: list[Any] = [
    True, 0, 1, 7, -5, 128, 1.5, -0.0, 2**40, "", "1", "7", "1234", "AdTA", "8w==", "AA==", "12.50", "NaN", "Infinity",
    "true", "red,blue", "2025-03-03Z", "05:30:00Z", "2025-03-03T05:30:00Z", "infinity", "P0Y0M0DT0H0M1.5S", "00ff3e",
    {"scale": 1, "value": "AQ=="}, {"hour": 1, "minute": 2, "second": 3, "nanos": 0}, {"a": "b"}, [], [1], ["a"],
    ["AA=="], -2_147_472_692, 1_500_000,
]  # fmt: skip
_COLUMNS = [
    "BOOLEAN", "TINYINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "STRING", "BYTES", "DATE", "TIME(3)",
    "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "INTERVAL DAY TO SECOND", "ARRAY<STRING>", "ARRAY<DECIMAL(5, 1)>",
    "MAP<STRING, STRING>", "ROW<a BYTES, hour BIGINT>",
]  # fmt: skip


@pytest.mark.parametrize("column", _COLUMNS)
def test_any_value_gets_the_same_answer_in_a_batch_and_by_itself(column: str) -> None:
    """In all modes, no exception is raised: each value is read or is an error."""
    compared = 0
    modes = [*itertools.product((PRECISE, STRING, DOUBLE), (ADAPTIVE, ISO, STRUCTURED), (HEX, URL_SAFE, {}))]
    tested = modes[:: case_count(quick=4, night=1)]  # 4 has no divisor of 3: each value of an option is among them
    for decimal, time, binary in tested:
        options = decimal | time | binary
        batch = decoded(options, column, *_VALUES)
        errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(_VALUES)
        for value, error, rows in zip(_VALUES, errors, batch.rows.value_lengths().to_pylist(), strict=True):
            alone = decoded(options, column, value)
            assert (None if alone.errors is None else alone.errors[0].as_py()) == error
            assert rows == (None if error else 1)
            compared += 1
    assert compared == len(tested) * len(_VALUES)
