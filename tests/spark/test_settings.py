"""The settings that are recommended: what they look like, that Spark takes them, and that batches follow them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kvformat import codecs
from kvformat.registry import get_format, recommended_settings
from kvformat.registry.errors import ConfigurationError

DIRECTIONS = ("decode", "encode")
MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_settings_are_texts_of_the_callers_own(direction: Any) -> None:
    settings = recommended_settings(direction)
    assert settings
    assert all(name.startswith("spark.sql.") for name in settings)
    assert all(isinstance(value, str) for value in settings.values())
    settings.clear()
    assert recommended_settings(direction)
    assert codecs.recommended_settings is recommended_settings


def test_decoding_is_the_default_and_another_direction_an_error() -> None:
    assert recommended_settings() == recommended_settings("decode")
    with pytest.raises(ConfigurationError, match="'decode' or 'encode', not 'both'"):
        recommended_settings("both")  # type: ignore[arg-type]


@pytest.fixture
def restored(spark: Any) -> Iterator[None]:
    """Puts Spark's own values back."""
    yield
    for direction in DIRECTIONS:
        for name in recommended_settings(direction):  # type: ignore[arg-type]
            spark.conf.unset(name)


@pytest.mark.spark
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_running_session_takes_each(direction: Any, spark: Any, restored: None) -> None:
    for name, value in recommended_settings(direction).items():
        assert spark.conf.isModifiable(name)
        spark.conf.set(name, value)
        assert spark.conf.get(name) == value


@pytest.mark.spark
def test_batches_follow_and_rows_stay(spark: Any, restored: None) -> None:
    """300 messages of 10 KB, that are one batch by Spark's defaults, in UDFs and in mapInArrow."""
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
