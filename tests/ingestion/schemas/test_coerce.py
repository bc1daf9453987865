"""Values of one type as values of another type, and rows of one schema as rows of another."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.discovery.text_forms import WHOLE_NUMBERS, forms_of
from kvformat.ingestion.schemas.coerce import arrow_type_of, coerce, fit_rows, texts_of
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import merge_types, parse_column_type
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.errors import SchemaError

ZONE = "Asia/Shanghai"


def _schema(*columns: tuple[str, str]) -> TableSchema:
    return TableSchema(tuple(SchemaColumn(name, parse_column_type(text)) for name, text in columns), ("id",))


def _converted(values: list[Any], source: str, target: str, zone: str = ZONE) -> list[Any]:
    one, other = parse_column_type(source), parse_column_type(target)
    converted = coerce(pa.array(values, arrow_type_of(one)), one, other, zone)
    assert converted.type == arrow_type_of(other) or pa.types.is_timestamp(converted.type)
    return converted.to_pylist()


@pytest.mark.parametrize(
    ("source", "target", "values", "converted"),
    [
        ("BIGINT", "INT", [7, 2**31, -(2**31), None], [7, None, -(2**31), None]),
        ("DOUBLE", "BIGINT", [7.0, 0.5, float("nan"), 1e300], [7, None, None, None]),
        ("DECIMAL(10, 2)", "TINYINT", [Decimal("127.00"), Decimal("1.50"), Decimal("128.00")], [127, None, None]),
        (
            "DECIMAL(10, 4)",
            "DECIMAL(4, 2)",
            [Decimal("1.5"), Decimal("1.555"), Decimal("100")],
            [Decimal("1.50"), None, None],
        ),
        ("DOUBLE", "DECIMAL(4, 2)", [1.5, 0.1, float("inf")], [Decimal("1.50"), None, None]),
        ("DOUBLE", "FLOAT", [1.5, 0.1], [1.5, None]),
        ("BIGINT", "FLOAT", [16777217], [16777216.0]),
        ("BIGINT", "DOUBLE", [2**53 + 1], [float(2**53)]),
        ("DECIMAL(38, 0)", "DOUBLE", [Decimal(10**37)], [1e37]),
        ("INT", "TINYINT", [-129, -128, 127, 128], [None, -128, 127, None]),
        ("DECIMAL(10, 2)", "DECIMAL(4, 2)", [Decimal("99.99"), Decimal("-100.00")], [Decimal("99.99"), None]),
        ("DECIMAL(38, 0)", "DECIMAL(37, 0)", [Decimal(10**37 - 1), Decimal(10**37)], [Decimal(10**37 - 1), None]),
        ("DECIMAL(38, 0)", "BIGINT", [Decimal(2**63 - 1), Decimal(2**63)], [2**63 - 1, None]),
        ("DECIMAL(38, 38)", "DECIMAL(38, 37)", [Decimal("0.1"), Decimal(1).scaleb(-38)], [Decimal("0.1"), None]),
        ("DOUBLE", "BIGINT", [2.0**63, -(2.0**63)], [None, -(2**63)]),
        ("DOUBLE", "FLOAT", [float("inf"), 1e39], [float("inf"), None]),
        ("TIME(3)", "TIME(0)", [dt.time(1, 2, 3, 4000)], [dt.time(1, 2, 3, 4000)]),
        ("VARCHAR(4)", "VARCHAR(3)", ["abcd"], ["abcd"]),
        ("STRING", "INT", ["7"], [None]),
        ("INT", "BOOLEAN", [1], [None]),
        ("TIMESTAMP(3)", "DATE", [dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 1)], [dt.date(2024, 2, 29), None]),
    ],
)
def test_a_narrower_type_holds_what_loses_nothing(
    source: str, target: str, values: list[Any], converted: list[Any]
) -> None:
    assert _converted(values, source, target) == converted


@pytest.mark.parametrize(("target", "bits"), [("TINYINT", 8), ("SMALLINT", 16), ("INT", 32)])
def test_an_integer_fits_up_to_the_bounds_of_its_type(target: str, bits: int) -> None:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert _converted([least - 1, least, most, most + 1], "BIGINT", target) == [None, least, most, None]


def test_nan_stays_nan() -> None:
    (value,) = _converted([float("nan")], "DOUBLE", "FLOAT")
    assert value != value


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("UTC+8", -8), ("GMT+08:00", -8), ("+8", -8), ("-0330", 3.5), ("+530", -5.5), ("Z", 0), ("UT", 0)],
)
def test_offsets_are_time_zones(zone: str, hours: float) -> None:
    """Spark and the option `local-time-zone` take them."""
    local, utc = dt.datetime(2024, 2, 29, 12), dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC) + dt.timedelta(hours=hours)
    assert _converted([local], "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", zone) == [utc]
    assert _converted([utc], "TIMESTAMP_LTZ(3)", "TIMESTAMP(3)", zone) == [local]


def test_local_times_have_the_session_time_zone() -> None:
    noon = dt.datetime(2024, 2, 29, 12)
    utc = dt.datetime(2024, 2, 29, 4, tzinfo=dt.UTC)
    assert _converted([noon], "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)") == [utc]
    assert _converted([utc], "TIMESTAMP_LTZ(3)", "TIMESTAMP(3)") == [noon]
    midnight = dt.datetime(2024, 2, 28, 16, tzinfo=dt.UTC)
    assert _converted([dt.date(2024, 2, 29)], "DATE", "TIMESTAMP_LTZ(9)") == [midnight]
    assert _converted([midnight, utc], "TIMESTAMP_LTZ(9)", "DATE") == [dt.date(2024, 2, 29), None]
    skipped, repeated = dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30)
    assert _converted([skipped, repeated], "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "Europe/Berlin") == [
        dt.datetime(2024, 3, 31, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC),
    ]


@pytest.mark.parametrize(("source", "target"), [("TIMESTAMP(6)", "DATE"), ("TIMESTAMP_LTZ(6)", "INT"), ("DATE", "INT")])
def test_times_that_python_does_not_have_do_not_fit_either(source: str, target: str) -> None:
    """Debezium writes PostgreSQL's 'infinity' as a time in the year 294247."""
    kind = arrow_type_of(parse_column_type(source))
    infinity = pa.array([2**31 - 1], pa.int32()) if source == "DATE" else pa.array([9223372036825200000], pa.int64())
    fitted = fit_rows(
        pa.StructArray.from_arrays([infinity.cast(kind)], ["v"]), _schema(("v", source)), _schema(("v", target)), "UTC"
    )
    assert f"of type {source} does not fit {target}" in fitted.errors[0].text


def test_fractions_of_a_second_have_3_6_or_9_digits() -> None:
    times = pa.array([0, 10**8, 120 * 10**6, 123_400_000, 123_456_700], pa.time64("ns"))
    assert texts_of(times, parse_column_type("TIME(9)")).to_pylist() == [
        "00:00:00",
        "00:00:00.100",
        "00:00:00.120",
        "00:00:00.123400",
        "00:00:00.123456700",
    ]
    moments = pa.array([0, 100_000, None], pa.timestamp("us", "UTC"))
    texts = ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.100Z", None]
    assert texts_of(moments, parse_column_type("TIMESTAMP_LTZ(6)")).to_pylist() == texts


def test_intervals_become_milliseconds_and_months() -> None:
    times = pa.array([0, 1, -1500, -277_200_000_000, 2**63 - 1, None], pa.duration("us"))
    texts = ["0", "0.001", "-1.5", "-277200000", "9223372036854775.807", None]
    assert texts_of(times, parse_column_type("INTERVAL DAY TO SECOND(3)")).to_pylist() == texts
    months = pa.array([-14, 0, None], pa.int32())
    assert texts_of(months, parse_column_type("INTERVAL YEAR TO MONTH")).to_pylist() == ["-14", "0", None]


def test_nested_values_become_json_and_keep_their_nulls() -> None:
    values = [{"a": 'x"', "b": [1, None]}, None, {"a": None, "b": None}]
    texts = ['{"a":"x\\"","b":[1,null]}', None, '{"a":null,"b":null}']
    assert _converted(values, "ROW<a STRING, b ARRAY<INT>>", "STRING") == texts
    assert _converted([[], None], "ARRAY<INT>", "STRING") == ["[]", None]
    with pytest.raises(SchemaError, match="only the same type fits"):
        _converted([[1]], "ARRAY<INT>", "ARRAY<BIGINT>")


def test_a_merged_type_holds_every_value() -> None:
    random_source = random.Random(5)
    samples: dict[str, list[Any]] = {
        "BOOLEAN": [True, False],
        "TINYINT": [-128, 127],
        "INT": [2**31 - 1, -(2**31)],
        "BIGINT": [2**63 - 1, -(2**63)],
        "DECIMAL(5, 2)": [Decimal("999.99"), Decimal("-0.01")],
        "DECIMAL(38, 38)": [Decimal("0." + "9" * 38)],
        "FLOAT": [1.5, float("inf")],
        "DOUBLE": [1e300, -0.0, float("nan")],
        "VARCHAR(3)": ["abc", ""],
        "BYTES": [b"\xff", b""],
        "DATE": [dt.date(1, 1, 3), dt.date(9999, 12, 31)],
        "TIME(3)": [dt.time(23, 59, 59, 999000)],
        "TIMESTAMP(6)": [dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)],
        "TIMESTAMP_LTZ(3)": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
        "ARRAY<INT>": [[1], []],
        "MAP<STRING, INT>": [[("a", 1)], []],
        "ROW<a INT>": [{"a": 1}],
    }
    compared = 0
    for source, values in samples.items():
        for other in samples:
            merged = merge_types(parse_column_type(source), parse_column_type(other))
            if source == other:
                continue
            given = [*random_source.sample(values, len(values)), None]
            converted = _converted(given, source, str(merged))
            assert [value is None for value in converted] == [value is None for value in given], f"{source} {merged}"
            compared += len(given)
    assert compared >= 500


def test_rows_get_the_columns_of_the_target() -> None:
    source = _schema(("id", "INT"), ("v", "TIMESTAMP(3)"), ("gone", "INT"))
    target = _schema(("id", "BIGINT NOT NULL"), ("w", "DATE"), ("v", "STRING"))
    rows = pa.array(
        [{"id": 7, "v": dt.datetime(2024, 2, 29, 12), "gone": 1}, None, {"id": None}],
        pa.struct([("id", pa.int32()), ("v", pa.timestamp("us")), ("gone", pa.int32())]),
    )
    fitted = fit_rows(rows, source, target, ZONE)
    assert fitted.rows.to_pylist() == [
        {"id": 7, "w": None, "v": "2024-02-29T12:00:00"},
        None,
        {"id": None, "w": None, "v": None},
    ]
    assert fitted.rows.type.field("id").type == pa.int64()
    missing = "column 'id' is BIGINT NOT NULL, and the row has no value for it"
    assert fitted.errors == {2: Reason(ErrorCode.SCHEMA, missing)}
    assert fit_rows(rows.slice(0, 2), source, target, ZONE).errors == {}


def test_a_column_that_the_source_lacks_is_an_error_if_it_is_not_null() -> None:
    rows = pa.array([{"id": 1}, None], pa.struct([("id", pa.int32())]))
    errors = fit_rows(rows, _schema(("id", "INT")), _schema(("id", "INT"), ("new", "INT NOT NULL")), ZONE).errors
    assert errors == {0: Reason(ErrorCode.SCHEMA, "column 'new' is INT NOT NULL, and the row has no value for it")}


@pytest.mark.parametrize("text", ["2024-02-29 20:00:00", "2024-02-29T20:00:00.5", "2024-02-29T12:00:00Z"])
def test_an_instant_without_z_is_a_text_in_the_time_zone_of_the_session(text: str) -> None:
    t = parse_column_type("TIMESTAMP_LTZ(3)")
    noon = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC) + dt.timedelta(seconds=0.5 * text.endswith(".5"))
    assert texts_of(pa.array([noon], pa.timestamp("us", "UTC")), t, forms_of(text, t), ZONE).to_pylist() == [text]


def test_whole_doubles_have_no_exponent_below_two_to_the_53rd() -> None:
    large, whole = 2.0**53, 2.0**53 - 1
    texts = texts_of(pa.array([large, whole, -large, -whole, -1e300]), parse_column_type("DOUBLE"), WHOLE_NUMBERS)
    of_large = "9.007199254740992E15"
    assert texts.to_pylist() == [of_large, "9007199254740991", f"-{of_large}", "-9007199254740991", "-1.0E300"]


def test_a_bad_value_never_harms_its_neighbours() -> None:
    source, target = _schema(("id", "INT"), ("v", "BIGINT")), _schema(("id", "INT"), ("v", "SMALLINT"))
    rows = pa.array(
        [{"id": i, "v": v} for i, v in enumerate([7, 70000, -7])], pa.struct([("id", pa.int32()), ("v", pa.int64())])
    )
    fitted = fit_rows(rows, source, target, ZONE)
    assert fitted.rows.field("v").to_pylist() == [7, None, -7]
    refused = "column 'v': the value 70000 of type BIGINT does not fit SMALLINT"
    assert fitted.errors == {1: Reason(ErrorCode.SCHEMA, refused)}


def test_the_first_error_of_a_row_is_that_of_its_first_column() -> None:
    source = _schema(("id", "INT"), ("a", "INT"), ("b", "INT"))
    target = _schema(("id", "INT NOT NULL"), ("a", "TINYINT"), ("b", "TINYINT NOT NULL"))
    types = pa.struct([(name, pa.int32()) for name in source.names])
    rows = pa.array([{"id": None, "a": 300, "b": 300}, {"id": 1, "a": 300}, {"id": 1, "a": 1, "b": 300}], types)
    errors = fit_rows(rows, source, target, ZONE).errors
    assert [errors[row].text.partition(" is ")[0].partition(": the")[0] for row in range(len(rows))] == [
        "column 'id'",
        "column 'a'",
        "column 'b'",
    ]


def test_an_error_shows_the_beginning_of_a_long_value() -> None:
    for length, shown in ((40, "x" * 40), (10**6, "x" * 40)):
        rows = pa.array([{"v": "x" * length}])
        errors = fit_rows(rows, _schema(("v", "STRING")), _schema(("v", "INT")), ZONE).errors
        assert errors[0].text == f"column 'v': the value {shown} of type STRING does not fit INT"
