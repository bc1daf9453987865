"""The recommended settings: their form, that Spark accepts them, and their effect on batches."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from kvformat import codecs
from kvformat.registry import KeyValueFormat, get_format, recommended_settings
from kvformat.registry.contract.errors import ConfigurationError

DIRECTIONS = ("decode", "encode")
MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@pytest.mark.parametrize("use", [*DIRECTIONS, "start"])
def test_settings_are_a_new_dict_of_texts(use: Any) -> None:
    settings = recommended_settings(use)
    assert settings
    assert all(name.startswith("spark.python." if use == "start" else "spark.sql.") for name in settings)
    assert all(isinstance(value, str) for value in settings.values())
    settings.clear()
    assert recommended_settings(use)
    assert codecs.recommended_settings is recommended_settings


@pytest.mark.parametrize(("use", "most"), [("decode", "2097152"), ("encode", "2147483647")])
def test_each_direction_has_its_own_size_of_batches(use: Any, most: str) -> None:
    assert recommended_settings(use) == {MAX_BYTES: most}


def test_the_use_of_settings_is_checked() -> None:
    assert recommended_settings() == recommended_settings("decode")
    with pytest.raises(ConfigurationError, match="'decode', 'encode' or 'start', not 'both'"):
        recommended_settings("both")  # type: ignore[arg-type]


_JOB = """
import os
from kvformat.registry import get_format, recommended_settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
builder = SparkSession.builder.{start}.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
# YARN's containers have temporary folders whose paths are too long for sockets.
builder = builder.config("spark.driver.extraJavaOptions", "-Djava.io.tmpdir={folder}")
for name, value in recommended_settings("start").items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
frame = spark.range(1000).select(F.expr("concat('{{\\"id\\":', id, '}}')").cast("binary").alias("value"))
print("sum", frame.select(get_format("json").decode("value", "id INT").alias("v")).agg(F.sum("v.id")).first()[0])
enabled = F.udf(lambda _: os.environ["PYTHON_UNIX_DOMAIN_ENABLED"], "string")
print("unix", spark.range(1).select(enabled("id")).first()[0])
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.spark
@pytest.mark.parametrize("start", ["master('local[1]')", "remote('local[1]')"])
def test_a_session_starts_with_unix_sockets(start: str, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    job = tmp_path / "job.py"
    job.write_text(_JOB.format(start=start, folder=folder), encoding="utf-8")
    environment = {**os.environ, "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, str(job)], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["sum", "499500", "unix", "True"], done.stderr


@pytest.mark.spark
def test_a_running_session_refuses_the_settings_of_its_start(spark: Any) -> None:
    assert not any(spark.conf.isModifiable(name) for name in recommended_settings("start"))


@pytest.fixture
def restored(spark: Any) -> Iterator[None]:
    """Restore Spark's default values."""
    yield
    for direction in DIRECTIONS:
        for name in recommended_settings(direction):  # type: ignore[arg-type]
            spark.conf.unset(name)


@pytest.mark.spark
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_running_session_accepts_each_setting(direction: Any, spark: Any, restored: None) -> None:
    for name, value in recommended_settings(direction).items():
        assert spark.conf.isModifiable(name)
        spark.conf.set(name, value)
        assert spark.conf.get(name) == value


@pytest.mark.spark
def test_settings_change_batches_but_not_rows(spark: Any, restored: None) -> None:
    """300 messages of 10 KB are one batch with Spark's defaults, in UDFs and in mapInArrow."""
    from pyspark.sql import functions as F

    def sizes(values: pa.Array) -> pa.Array:
        return pa.array([len(values)] * len(values), pa.int32())

    def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.array([len(batch)], pa.int32())], ["n"])

    text = "concat('{\"id\":', id, ',\"pad\":\"', repeat('x', 10000), '\"}')"
    frame = spark.range(0, 300, 1, 1).select(F.expr(text).cast("binary").alias("value"))
    largest = F.max(F.arrow_udf(sizes, "INT")("value"))
    decoded = frame.select(get_format("json").decode("value", "id BIGINT").alias("v")).groupBy().sum("v.id")
    found = {}
    for direction in DIRECTIONS:
        for name, value in recommended_settings(direction).items():  # type: ignore[arg-type]
            spark.conf.set(name, value)
        by_map = max(row.n for row in frame.mapInArrow(mapped, "n INT").collect())
        found[direction] = (frame.select(largest).first()[0], by_map, decoded.first()[0])
    assert found["encode"] == (300, 300, sum(range(300)))
    assert 200 <= found["decode"][0] <= 220
    assert 200 <= found["decode"][1] <= 220
    assert found["decode"][2] == sum(range(300))


TIME_TYPE = "spark.sql.timeType.enabled"


@pytest.fixture
def without_time(spark: Any) -> Iterator[None]:
    """Disable the type TIME, as in Spark's defaults."""
    before = spark.conf.get(TIME_TYPE)
    spark.conf.set(TIME_TYPE, "false")
    yield
    spark.conf.set(TIME_TYPE, before)


def _clocks(spark: Any) -> Any:
    return spark.sql("SELECT named_struct('t', TIME'05:30:00') AS row, TIME'05:30:00' AS t, X'7B7D' AS value")


TIME_CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    ("t", lambda df: df.select(get_format("json").decode("value", "id INT, t TIME(3)"))),
    ("t", lambda df: df.select(get_format("avro").decode("value", "t TIME(3)", errors="capture"))),
    ("r.a.element", lambda df: df.select(get_format("canal-json").decode_rows("value", "r ROW<a ARRAY<TIME(3)>>"))),
    ("t", lambda df: df.select(get_format("maxwell-json").decode_rows("value", "t TIME(3)"))),
    ("t", lambda df: df.select(get_format("json").encode("row", "t TIME(3)"))),
    ("t", lambda df: df.select(get_format("avro").encode("row", "t TIME(3)", engine="arrow"))),
    ("t", lambda df: KeyValueFormat("t TIME(3)", {"format": "json"}).decode(df)),
    ("t", lambda df: KeyValueFormat("t TIME(3)", {"format": "json"}).encode(df)),
]


@pytest.mark.spark
@pytest.mark.parametrize(("path", "call"), TIME_CALLS)
def test_the_error_of_a_disabled_time_type_names_the_setting(
    path: str, call: Callable[[Any], Any], spark: Any, without_time: None
) -> None:
    frame = _clocks(spark)
    with pytest.raises(ConfigurationError) as caught:
        call(frame)
    text = f"column '{path}' is TIME(3), but the Spark session does not allow the type TIME: '{TIME_TYPE}' is false. "
    assert str(caught.value).startswith(text)
    assert f"spark.conf.set('{TIME_TYPE}', 'true')" in str(caught.value)
    assert caught.value.option == TIME_TYPE
    assert spark.conf.get(TIME_TYPE) == "false", "a setting was changed"
    spark.conf.set(TIME_TYPE, "true")
    assert call(frame).schema


@pytest.mark.spark
def test_other_columns_are_read_without_the_time_type(spark: Any, without_time: None) -> None:
    frame = spark.sql("SELECT CAST('{\"id\":1}' AS BINARY) AS value")
    assert frame.select(get_format("json").decode("value", "id INT").alias("r")).first().r.id == 1
    assert KeyValueFormat("id INT", {"format": "json"}).decode(frame).first().id == 1


@pytest.mark.slow
@pytest.mark.spark
def test_spark_keeps_the_microseconds_of_debeziums_times(spark: Any) -> None:
    """Arrow's type has no precision, so a TIME(3) keeps Debezium's microseconds, and Spark's column keeps them too."""
    options = {"types": "debezium", "time.precision.mode": "microseconds"}
    message = b'{"before":null,"after":{"t":5123456},"op":"c"}'
    frame = spark.createDataFrame([(message,)], "value BINARY")
    for precision in (0, 3, 6):
        schema = f"t TIME({precision})"
        named = {f"debezium-json.{name}": value for name, value in options.items()}
        decoded = KeyValueFormat(schema, {"format": "debezium-json"} | named)
        assert decoded.decode(frame).first().t == dt.time(0, 0, 5, 123_456)
        fmt = get_format("debezium-json", options)
        assert decoded.decode(frame).schema["t"].dataType == T.TimeType(6)
        assert frame.select(fmt.decode_rows("value", schema).alias("r")).first().r[0].t == dt.time(0, 0, 5, 123_456)
        batch = fmt.decode_batch(pa.array([message]), schema)
        assert batch.rows.to_pylist() == [[{"t": dt.time(0, 0, 5, 123_456)}]]
