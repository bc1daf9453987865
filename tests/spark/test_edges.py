"""Edge values in Spark: both engines encode rows that were decoded from Avro to the bytes of `encode_batch`."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from kvformat.registry import ConfigurationError, get_format
from kvformat.registry.testing.edges import NO_TIMES, rows_of, value_texts

pytestmark = pytest.mark.spark

_FORMATS: dict[str, dict[str, str]] = {"json": {}, "csv": {"null-literal": "<null>"}, "debezium-json": {}}
_TYPES = (
    *("BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 18)", "DECIMAL(38, 38)", "DECIMAL(1, 0)"),
    *("STRING", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "ARRAY<INT>", "ROW<a INT, b STRING>"),
)
_LEAST_CASES = 1600
_AVRO = {"timestamp_mapping.legacy": "false"}


def _possible(flink: str) -> pa.StructArray:
    """Return the edge values that Spark's types can hold."""
    rows = rows_of(flink)
    return rows.filter(pa.array([flink != "TIME(3)" or value not in NO_TIMES for value in value_texts(rows)]))


def _messages(flink: str, longest: int) -> pa.BinaryArray:
    messages = get_format("avro", _AVRO).encode_batch(_possible(flink), f"v {flink}").messages
    return pa.concat_arrays([messages, pa.nulls(longest - len(messages), pa.binary())])


def test_both_engines_write_edge_values_as_encode_batch(spark: Any, time_zone: str) -> None:
    longest = max(len(_possible(flink)) for flink in _TYPES)
    columns = {f"m{i}": _messages(flink, longest) for i, flink in enumerate(_TYPES)}
    frame = spark.createDataFrame(pa.table({"n": list(range(longest)), **columns}))
    avro = get_format("avro", _AVRO)
    rows = frame.select(
        "n", *(avro.decode(f"m{i}", f"v {t}", engine="arrow").alias(f"r{i}") for i, t in enumerate(_TYPES))
    )
    written, engines = {}, set()
    for i, flink in enumerate(_TYPES):
        for name, options in _FORMATS.items():
            for engine in ("arrow", "native"):
                if engine == "native" and flink in ("FLOAT", "DOUBLE"):
                    continue  # the JVM's own text
                try:
                    column = get_format(name, options).encode(f"r{i}", f"v {flink}", engine=engine)
                except ConfigurationError:
                    assert engine == "native"
                    continue
                written[name, flink, engine] = column
                engines.add((name, engine))
    assert len(engines) == 2 * len(_FORMATS)
    table = rows.select("n", *(column.alias("|".join(key)) for key, column in written.items())).toArrow().sort_by("n")
    cases = 0
    for name, flink, engine in written:
        possible = _possible(flink)
        wanted = get_format(name, _FORMATS[name]).encode_batch(possible, f"v {flink}").messages
        found = table[f"{name}|{flink}|{engine}"].combine_chunks()[: len(possible)]
        for value, got, expected in zip(value_texts(possible), found.to_pylist(), wanted.to_pylist(), strict=True):
            assert got == expected, (name, flink, engine, value)
        cases += len(possible)
    print(f"\n{cases} messages compared")
    assert cases >= _LEAST_CASES


def test_spark_keeps_edge_values(spark: Any, time_zone: str) -> None:
    numbers = {"DATE": F.unix_date, "TIMESTAMP_LTZ(6)": F.unix_micros}
    for flink, number in numbers.items():
        messages = _messages(flink, len(_possible(flink)))
        frame = spark.createDataFrame(pa.table({"n": list(range(len(messages))), "m": messages}))
        row = get_format("avro", _AVRO).decode("m", f"v {flink}", engine="arrow")
        found = frame.select("n", number(row.getField("v")).alias("v")).toArrow().sort_by("n")["v"].to_pylist()
        assert [repr(value) for value in found] == value_texts(_possible(flink))


@pytest.mark.parametrize("time_zone", ["America/New_York"], indirect=True)
def test_times_are_written_as_they_are_in_utc_in_a_session_of_another_zone(spark: Any, time_zone: str) -> None:
    frame = spark.sql(
        "SELECT named_struct('z', timestamp_micros(1709208000500000), 'a', array(timestamp_micros(0)), "
        "'t', TIMESTAMP_NTZ'2024-03-10 02:30:00', 'd', DATE'2024-03-10') AS row"
    )
    schema = "z TIMESTAMP_LTZ(3), a ARRAY<TIMESTAMP_LTZ(3)>, t TIMESTAMP(3), d DATE"
    csv = b'"2024-02-29 12:00:00.5Z","1970-01-01 00:00:00Z","2024-03-10 02:30:00",2024-03-10'
    json = b'{"z":"2024-02-29 12:00:00.5Z","a":["1970-01-01 00:00:00Z"],"t":"2024-03-10 02:30:00","d":"2024-03-10"}'
    wanted = {"json": json, "csv": csv, "debezium-json": b'{"before":null,"after":%s,"op":"c"}' % json}
    written = {
        (name, engine): get_format(name, _FORMATS[name]).encode("row", schema, engine=engine)
        for name in wanted
        for engine in ("arrow", "native")
    }
    line = frame.select(*(column.alias(" ".join(key)) for key, column in written.items())).first()
    assert {key: bytes(message) for key, message in zip(written, line, strict=True)} == {
        key: wanted[key[0]] for key in written
    }


def test_a_time_outside_a_day_is_an_error_of_its_message(spark: Any) -> None:
    wide, schema = "t INT", "t TIME(3)"
    avro = get_format("avro")
    millis = [-1, 0, 86_400_000, 86_399_999, None, 2**31 - 1]
    rows = pa.StructArray.from_arrays([pa.array(millis, pa.int32())], names=["t"])
    messages = avro.encode_batch(rows, wide).messages
    frame = spark.createDataFrame(pa.table({"n": list(range(len(millis))), "m": messages}))
    found = frame.select("n", avro.decode("m", schema, errors="capture").alias("v")).orderBy("n").collect()
    assert [row.v.row and row.v.row.t for row in found] == [
        *(None, dt.time(0), None, dt.time(23, 59, 59, 999_000), None, None)
    ]
    errors = [row.v.error and row.v.error.reason for row in found]
    assert [bool(error) for error in errors] == [True, False, True, False, False, True]
    assert str(errors[0]).startswith("avro: field 't': a TIME must be at least 00:00:00 and before 24:00:00")
    with pytest.raises(Exception, match="a TIME must be at least 00:00:00 and before 24:00:00"):
        frame.select(avro.decode("m", schema)).toArrow()
