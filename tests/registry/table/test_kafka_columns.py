"""What a DataFrame of Spark Connect tells about its columns without its server. Plans are stand-ins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as T

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.table.decode_stage import KAFKA_COLUMNS
from kvformat.registry.table.kafka_columns import _check_headers, column_types, is_streaming
from kvformat.registry.table.metadata import MetadataColumn, connector_type


class _Frame:
    """A DataFrame that notes whether Spark is asked."""

    def __init__(self, plan: Any) -> None:
        self._plan, self.asked = plan, False

    @property
    def schema(self) -> T.StructType:
        self.asked = True
        return T.StructType([T.StructField("value", T.StringType())])

    @property
    def isStreaming(self) -> bool:
        self.asked = True
        return False


def _source(format: str | None = "kafka", options: dict[str, str] | None = None) -> Any:
    return SimpleNamespace(_is_streaming=True, _format=format, _options=options)


@pytest.mark.parametrize(
    ("options", "headers"),
    [
        (None, False),
        ({"includeHeaders": "false"}, False),
        ({"includeHeaders": "true"}, True),
        ({"INCLUDEHEADERS": "TRUE"}, True),
    ],
)
def test_the_columns_of_sparks_kafka_source_are_known(options: dict[str, str] | None, headers: bool) -> None:
    frame: Any = _Frame(_source(options=options))
    assert column_types(frame) == {name: t for name, t in KAFKA_COLUMNS.items() if headers or name != "headers"}
    assert not frame.asked


@pytest.mark.parametrize("plan", [None, _source("delta"), SimpleNamespace(_child=_source())])
def test_other_columns_are_those_that_spark_tells(plan: Any) -> None:
    frame: Any = _Frame(plan)
    assert column_types(frame) == {"value": T.StringType()}
    assert frame.asked


def test_columns_that_are_given_are_not_asked_for() -> None:
    frame: Any = _Frame(None)
    assert column_types(frame, "value BINARY, n BIGINT") == {"value": T.BinaryType(), "n": T.LongType()}
    assert not frame.asked


@pytest.mark.parametrize(
    ("plan", "known"),
    [
        (_source(), True),
        (SimpleNamespace(_child=SimpleNamespace(_child=_source("delta"))), True),
        (SimpleNamespace(_child=_source(), right=_source()), False),
        (SimpleNamespace(_child=None), False),
    ],
)
def test_a_dataframe_of_one_source_is_a_stream_if_its_source_is_one(plan: Any, known: bool) -> None:
    frame: Any = _Frame(plan)
    assert is_streaming(frame) is known
    assert frame.asked is not known


@pytest.mark.parametrize("names", [("key", "value"), ("value", "key"), ("key", "val")], ids=["types", "order", "names"])
def test_headers_of_another_type_are_refused(names: tuple[str, str]) -> None:
    entry = T.StructType([T.StructField(name, T.StringType()) for name in names])
    type_ = connector_type("headers")
    with pytest.raises(SchemaError, match=r"column 'h' is read from the column 'headers', which must be ARRAY<STRUCT<"):
        _check_headers({"headers": T.ArrayType(entry)}, MetadataColumn("h", "headers", type_, type_))
    _check_headers(KAFKA_COLUMNS, MetadataColumn("h", "headers", type_, type_))
