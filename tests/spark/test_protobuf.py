"""`protobuf` as Columns, and as key and value of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from kvformat.registry import KeyValueFormat
from tests.support.protobuf_types import a_file, a_format, fields

pytestmark = pytest.mark.spark

_ORDER = f"""name: "orders.proto" package: "shop" options {{ java_package: "com.shop" }}
    message_type {{ name: "Order"
        {fields("int32 id = 1; string name = 2; .shop.Order.Item item = 3; repeated int64 n = 4;")}
        nested_type {{ name: "Item" {fields("string sku = 1; double price = 2;")} }} }}
    message_type {{ name: "Key" {fields("int32 id = 1;")} }}"""
_SCHEMA = "id INT, name STRING, item ROW<sku STRING, price DOUBLE>, n ARRAY<BIGINT>"


@pytest.mark.once
def test_columns_are_unchanged_after_encoding_and_decoding(spark: Any, tmp_path: Path) -> None:
    format = a_format(tmp_path, "shop.Order", _ORDER)
    Path(format.options["descriptor-file"]).unlink()  # workers do not read the file
    rows = [(7, "Ada", ("a-1", 2.5), [1, -1]), (None, None, None, None), (-1, "é😀", (None, None), [2**40])]
    frame = spark.createDataFrame(rows, "id INT, name STRING, item STRUCT<sku: STRING, price: DOUBLE>, n ARRAY<BIGINT>")
    written = frame.select(format.encode(F.struct("*"), _SCHEMA).alias("value"))
    found = written.select("value", format.decode("value", _SCHEMA).alias("o")).select("value", "o.*").collect()
    assert (
        found[0][0]
        == b"\x08\x07\x12\x03Ada\x1a\x0e\x0a\x03a-1\x11\0\0\0\0\0\0\x04@\x20\x01\x20" + b"\xff" * 9 + b"\x01"
    )
    assert [(row.id, row.name, row.item and tuple(row.item), row.n) for row in found] == rows


@pytest.mark.once
def test_a_table_with_good_and_bad_records(spark: Any, tmp_path: Path) -> None:
    file = a_file(tmp_path, _ORDER)
    table = KeyValueFormat.from_ddl(
        f"""CREATE TABLE orders (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
            'connector' = 'upsert-kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092',
            'key.format' = 'protobuf', 'value.format' = 'protobuf',
            'key.protobuf.message-class-name' = 'com.shop.Orders$Key', 'key.protobuf.descriptor-file' = '{file}',
            'value.protobuf.message-class-name' = 'com.shop.Orders$Order',
            'value.protobuf.descriptor-file' = '{file}')"""
    )
    records = [(b"\x08\x07", b"\x08\x07\x12\x03Ada"), (b"\x08\x08", None), (b"\x08\x09", b"\x12\x09x")]
    frame = spark.createDataFrame(records, "key BINARY, value BINARY")
    found = table.decode(frame, errors="capture").collect()
    assert [(row.id, row.name, row.row_kind) for row in found if row.error is None] == [
        (7, "Ada", "+U"),
        (8, None, "-D"),
    ]
    (bad,) = (row.error for row in found if row.error is not None)
    assert "the input ends in the middle of a field" in bad.reason
    good = table.decode(frame.limit(2))
    assert [tuple(row) for row in table.encode(good).select("key", "value").collect()] == records[:2]
