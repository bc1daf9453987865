"""Headers of records without an entry, a name or a value, and a table with a column `error`, in Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from kvformat.registry import KeyValueFormat, SchemaError

pytestmark = pytest.mark.spark

_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def test_a_record_without_headers_has_an_empty_list_of_them(spark: Any) -> None:
    frame = spark.createDataFrame([(b"{}", None), (b"{}", [])], f"value BINARY, {_HEADERS}")
    kv = KeyValueFormat("v STRING", {"format": "json"})
    decoded = kv.decode(frame, metadata=["header-list", "headers"])
    assert [tuple(row) for row in decoded.collect()] == [(None, [], {})] * 2
    for key in ("header-list", "headers"):
        with pytest.raises(SchemaError, match=f"column '{key}' is read from the column 'headers', which must be ARRAY"):
            kv.decode(frame.withColumn("headers", F.lit("h")), metadata=[key])


def test_headers_of_a_list_may_have_no_value_but_need_a_name(spark: Any) -> None:
    given = [("a", None), (None, b"1"), ("a", b"2")]
    rows = spark.createDataFrame([("x", given), ("y", None)], f"v STRING, {_HEADERS}").coalesce(1)
    written = KeyValueFormat("v STRING", {"format": "json"}).encode(rows, metadata={"headers": "header-list"})
    found = [row["headers"] and [tuple(header) for header in row["headers"]] for row in written.collect()]
    assert found == [[("a", None), ("a", b"2")], None]


def test_a_table_may_have_a_column_error_of_its_own(spark: Any) -> None:
    rows = spark.createDataFrame([(("late",),)], "error STRUCT<reason: STRING>")
    (record,) = KeyValueFormat("error ROW<reason STRING>", {"format": "json"}).encode(rows).collect()
    assert record["value"] == b'{"error":{"reason":"late"}}'
