"""csv as Columns: equal results in two time zones, equal bytes of the native and the Arrow engine, a stream."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.schemas import spark_schema

pytestmark = pytest.mark.spark

_EVERYTHING = (
    "b BOOLEAN, i1 TINYINT, i2 SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, de DECIMAL(10, 2) NOT NULL, s STRING, "
    "by BYTES, da DATE, t TIME(3), ts TIMESTAMP(6), z TIMESTAMP_LTZ(3), a ARRAY<STRING>, "
    "r ROW<x INT NOT NULL, y STRING>, tiny DECIMAL(12, 9)"
)
_MESSAGES = [
    b'true,-1,300,7,9007199254740993,1.5,-2.5E-3,12.5,"\xc3\xa9 ""x""",AAH/,2024-02-29,10:11:12.5,'
    b'"2024-03-10 02:30:00.123","2024-03-10 02:30:00.5Z",a;;b,1;q,0.000000001',
    b"false,0,0,0,0,0,0,0,,,1970-01-01,00:00,1969-12-31 23:59:59.999,2024-11-03 05:30:00Z,,,0",
    b'1,"torn',
    None,
    b"",
    b"too,few",
]
_TEXTS = [
    "",
    " ",
    "a",
    "a,b",
    'say "hi"',
    "back\\slash",
    "it's",
    "a;b|c",
    "é😀",
    "two\nlines",
    "tab\t",
    "x" * 24,
    "x" * 25,
]
_TEXTS += ["😀" * 12, "😀" * 12 + "a", "\x00", "#c", "-1", "+1", "NULL", "1\u2028", "~^`", "A-b.c/d:e"]
_OPTIONS: list[dict[str, str]] = [
    {},
    {"null-literal": "NULL", "write-bigdecimal-in-scientific-notation": "true"},
    {"field-delimiter": ";", "quote-character": "'", "escape-character": "\\", "array-element-delimiter": ","},
]
_MORE_OPTIONS: list[dict[str, str]] = [
    {"field-delimiter": "\\t", "escape-character": "^"},
    {"field-delimiter": "é", "null-literal": "n,a"},
    {"disable-quote-character": "true", "field-delimiter": "|"},
]


def _frame(spark: Any, messages: list[bytes | None]) -> Any:
    return spark.createDataFrame(list(enumerate(messages)), "n INT, value BINARY").repartition(3)


def _collected(frame: Any) -> list[dict[str, Any]]:
    return sorted(frame.toArrow().to_pylist(), key=lambda row: row["n"])


def _plain(value: Any) -> Any:
    """Normalize values of Arrow: instants become UTC."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value.timestamp() if isinstance(value, dt.datetime) and value.tzinfo is not None else value


def test_columns_equal_decode_batch(spark: Any, time_zone: str) -> None:
    format = get_format("csv")
    decoded = format.decode("value", _EVERYTHING, errors="capture")
    captured = _collected(_frame(spark, _MESSAGES).select("n", decoded.alias("v")))
    kernel = format.decode_batch(pa.array(_MESSAGES, pa.binary()), _EVERYTHING).rows.to_pylist()
    for got, rows in zip(captured, kernel, strict=True):
        assert _plain(got["v"]["row"]) == (_plain(rows[0]) if rows else None)
    assert [row["n"] for row in captured if row["v"]["error"] is not None] == [2, 4, 5]
    assert captured[5]["v"]["error"] == {
        "reason": "csv: row length mismatch: 17 fields expected but was 2",
        "message": b"too,few",
        "code": "MISSING_FIELD",
    }
    assert captured[0]["v"]["row"]["de"] == Decimal("12.50")


def test_a_raised_error_names_format_reason_and_bytes(spark: Any) -> None:
    frame = _frame(spark, [b"1", b"x"])
    with pytest.raises(Exception, match=r"format 'csv' cannot decode a message: field 'i'") as caught:
        frame.select(get_format("csv").decode("value", "i INT").alias("o")).collect()
    assert "b'x'" in str(caught.value)


def _rows(spark: Any) -> Any:
    """Return rows with texts of all kinds and with edge values of types. Each row has one null column."""
    row = parse_schema(_EVERYTHING)
    count = len(row.fields)
    moments = [dt.datetime(2024, 3, 10, 2, 30, 0, 123456), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)]
    days = [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)]
    values = []
    for n, text in enumerate(_TEXTS):
        moment = moments[n % 3]
        value = [
            n % 2 == 0,
            [-128, 127, 0][n % 3],
            [-32768, 32767][n % 2],
            [-(2**31), 2**31 - 1, 5][n % 3],
            [-(2**63), 2**63 - 1][n % 2],
            [1.5, -0.0, 1e10, float("nan")][n % 4],
            [0.001, 1e-4, 1.5e300, float("inf"), -float("inf"), 12345678.9][n % 6],
            [Decimal("0.00"), Decimal("100.00"), Decimal("-12.50"), Decimal("99999999.99")][n % 4],
            text,
            text.encode() + bytes([0xFB, 0xFF]),
            days[n % 4],
            dt.time(n % 24, 5, n, 1000 * (n % 3) * 45),
            moment,
            moment.replace(tzinfo=dt.UTC) if 1 < moment.year < 9999 else dt.datetime(2024, 11, 3, 5, 30, tzinfo=dt.UTC),
            [text, None, "q"][: n % 4],
            (n, text),
            [Decimal("0.000000027"), Decimal("0E-9"), Decimal("123.100000000"), Decimal("-0.000000100")][n % 4],
        ]
        if n % 3:
            value[(7 * n) % count if (7 * n) % count != 7 else 0] = None
        values.append(tuple(value))
    # Connect accepts only this precision from Python
    frame = spark.createDataFrame(values, spark_schema(parse_schema(_EVERYTHING.replace("TIME(3)", "TIME(6)"))))
    return frame.withColumn("t", F.col("t").cast(spark_schema(row)["t"].dataType))


@pytest.mark.parametrize(
    "options", [*_OPTIONS, *(pytest.param(more, marks=pytest.mark.once) for more in _MORE_OPTIONS)], ids=str
)
def test_the_native_engine_equals_encode_batch(spark: Any, time_zone: str, options: dict[str, str]) -> None:
    format, frame = get_format("csv", options), _rows(spark)
    row = F.struct(*frame.columns)
    native = format.encode(row, _EVERYTHING, engine="native")
    arrow = format.encode(row, _EVERYTHING, engine="arrow")
    found = frame.select(native.alias("native"), arrow.alias("arrow"), "s").collect()
    assert len(found) == len(_TEXTS)
    for line in found:
        assert bytes(line.native) == bytes(line.arrow), line.s


def test_a_null_row_and_names_that_differ_in_case_only(spark: Any) -> None:
    frame = spark.sql(
        "SELECT CAST(NULL AS STRUCT<a: INT>) AS n, named_struct('a', CAST(id AS INT), 'A', 'x y') AS r FROM range(1, 2)"
    )
    format = get_format("csv")
    line = frame.select(
        format.encode("n", "a INT", engine="native").alias("null"),
        format.encode("r", "a INT, A STRING", engine="native").alias("row"),
    ).collect()[0]
    assert line.null is None
    assert bytes(line.row) == b'1,"x y"'


def test_invalid_utf8_is_written_as_in_java(spark: Any) -> None:
    frame = spark.sql("SELECT named_struct('s', CAST(X'61FF62' AS STRING)) AS r FROM range(1)")
    format = get_format("csv")
    line = frame.select(
        format.encode("r", "s STRING", engine="native").alias("native"),
        format.encode("r", "s STRING", engine="arrow").alias("arrow"),
    ).collect()[0]
    assert bytes(line.native) == bytes(line.arrow) == "a\ufffdb".encode()


def test_times_of_microseconds_and_distant_years_are_written_as_in_flink(spark: Any) -> None:
    """Values that only Spark can hold."""
    row = spark.sql(
        "SELECT named_struct('t', TIME'10:11:12.123456', 'a', array(TIME'00:00:00.000999', TIME'23:59:59.999999'), "
        "'r', named_struct('t', TIME'10:11:12.120456'), 'd', DATE'-0044-03-15', "
        "'z', timestamp_micros(-67768040609740800), 'n', TIMESTAMP_NTZ'+12020-01-02 03:04:05') AS row"
    )
    schema = "t TIME(6), a ARRAY<TIME(6)>, r ROW<t TIME(6)>, d DATE, z TIMESTAMP_LTZ(6), n TIMESTAMP(6)"
    line = row.select(get_format("csv").encode("row", schema, engine="native").cast("string").alias("csv")).collect()[0]
    assert line.csv == (
        "10:11:12.123,00:00:00;23:59:59.999,10:11:12.12,-0044-03-15,"
        '"-0178-07-08 16:16:30.2592Z","+12020-01-02 03:04:05"'
    )


def test_a_stream_of_files(spark: Any, tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    format = get_format("csv")
    schema = "id INT, name STRING"
    stream = (
        spark.readStream.schema("value STRING")
        .text(str(source))
        .select("value", format.decode("value", schema, errors="capture").alias("v"))
        .select(
            "value", "v.row.*", "v.error.reason", format.encode(F.col("v.row"), schema).cast("string").alias("again")
        )
    )

    def run() -> None:
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(sink))
        )
        query.awaitTermination()

    (source / "a.txt").write_text("\n".join(f"{n},n {n}" for n in range(100)))
    run()
    (source / "b.txt").write_text("100,x\nbroken,x\n")
    run()  # a restart reads only what is new
    rows = {row.value: row for row in spark.read.parquet(str(sink)).collect()}
    assert len(rows) == 102
    assert rows["7,n 7"].name == "n 7"
    assert rows["7,n 7"].again == '7,"n 7"'
    assert rows["broken,x"].id is None
    assert rows["broken,x"].reason.startswith("csv: field 'id'")
