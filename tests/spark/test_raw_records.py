"""`__raw_key__` and `__raw_value__` with DataFrames: read as text and as bytes, written as they are, round trips."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat, split_errors
from kvformat.registry.contract.errors import MetadataError, SchemaError
from kvformat.registry.java.charsets import find_charset
from kvformat.registry.table.kafka_columns import header_column
from kvformat.registry.table.record_headers import HEADERS_TYPE, last_header, part_headers
from tests.support.raw_records import BOTH, table

pytestmark = pytest.mark.spark

_INSERT = b'{"data":[{"id":1},{"id":2}],"type":"INSERT"}'


def _frame(spark: Any, *records: tuple[bytes | None, bytes | None]) -> Any:
    return spark.createDataFrame(list(records), "key BINARY, value BINARY").coalesce(1)


def _dicts(df: Any) -> list[dict[str, Any]]:
    return [
        {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict().items()}
        for row in df.collect()
    ]


def test_raw_columns_are_text_or_bytes(spark: Any) -> None:
    kv = table(
        "id INT, k BYTES METADATA FROM '__raw_key__' VIRTUAL, v STRING NOT NULL METADATA FROM '__raw_value__' VIRTUAL"
    )
    frame = _frame(spark, (b"\xff\x00", b'{"id":1}'), (None, b' {"id": 2, "new": "\xc3\xa9"}\n'))
    assert kv.decode(frame).dtypes == [("id", "int"), ("k", "binary"), ("v", "string")]
    assert _dicts(kv.decode(frame, metadata={"text": "__raw_key__"})) == [
        {"id": 1, "k": b"\xff\x00", "v": '{"id":1}', "text": "\ufffd\x00"},
        {"id": 2, "k": None, "v": ' {"id": 2, "new": "é"}\n', "text": None},
    ]
    of_text = frame.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
    assert _dicts(kv.decode(of_text)) == _dicts(kv.decode(frame))
    with pytest.raises(SchemaError, match="metadata column 'k' needs the column 'key'"):
        kv.decode(frame.drop("key"))
    with pytest.raises(SchemaError, match="column 'key' must be BINARY"):
        kv.decode(frame.withColumn("key", frame["key"].isNull()))


def test_text_has_the_replacement_characters_of_java(spark: Any) -> None:
    randoms = random.Random(5)
    pieces = [
        b"a",
        b"\xc3\xa9",
        b"\xed\xa0\x80",
        b"\xed\xb0",
        b"\xff",
        b"\xe2\x82",
        b"\x80",
        b"\xf0\x9f\x98\x80",
        b"\n",
    ]
    keys = [b"".join(randoms.choices(pieces, k=randoms.randrange(6))) for _ in range(1000)]
    kv = KeyValueFormat("id INT", {"format": "json"})
    found = _dicts(kv.decode(_frame(spark, *((key, b"{}") for key in keys)), metadata=["__raw_key__"]))
    texts = [row["__raw_key__"] for row in found]
    assert texts == find_charset("UTF-8").decode(pa.array(keys)).to_pylist()
    assert sum("\ufffd" in text for text in texts) > 300


def test_each_row_and_each_bad_record_has_its_bytes(spark: Any) -> None:
    kv = KeyValueFormat("id INT", {"format": "canal-json"})
    decoded = kv.decode(_frame(spark, (b"a", _INSERT), (b"b", b"{")), metadata=BOTH, errors="capture")
    text = _INSERT.decode()
    assert [(row["id"], row["__raw_key__"], row["__raw_value__"]) for row in _dicts(decoded)] == [
        (1, "a", text),
        (2, "a", text),
        (None, "b", "{"),
    ]
    good, bad = split_errors(decoded)
    assert [row["__raw_value__"] for row in _dicts(good)] == [text, text]
    assert [(row["key"], row["value"]) for row in _dicts(bad)] == [(b"b", b"{")]


def test_raw_columns_are_written_as_they_are(spark: Any) -> None:
    kv = table("k BYTES METADATA FROM '__raw_key__', v STRING METADATA FROM '__raw_value__'")
    rows = spark.createDataFrame([(b"\xff", "not JSON", 1), (None, None, 2)], "k BINARY, v STRING, other INT").coalesce(
        1
    )
    wanted = [{"key": b"\xff", "value": b"not JSON"}, {"key": None, "value": None}]
    assert _dicts(kv.encode(rows)) == wanted
    assert _dicts(kv.encode(rows.selectExpr("CAST(k AS BINARY) k", "CAST(v AS BINARY) v"))) == wanted
    assert _dicts(kv.encode(rows.selectExpr("NULL AS k", "v"))) == [{**row, "key": None} for row in wanted]
    with pytest.raises(
        SchemaError, match="column 'k' is written as metadata '__raw_key__' and must be STRING or BINARY"
    ):
        kv.encode(rows.selectExpr("1 AS k", "v"))
    with pytest.raises(SchemaError, match="lacks the column v, which is written as metadata '__raw_value__'"):
        kv.encode(rows.select("k"))
    with pytest.raises(Exception, match="'row_kind' is -D, but must be one of"):
        kv.encode(rows.selectExpr("k", "v", "'-D' AS row_kind")).collect()


def test_a_raw_key_stands_beside_columns_of_the_value(spark: Any) -> None:
    rows = spark.createDataFrame([(1, "one")], "id INT, k STRING")
    kv = KeyValueFormat("id INT", {"format": "json"})
    assert _dicts(kv.encode(rows, metadata={"k": "__raw_key__"})) == [{"key": b"one", "value": b'{"id":1}'}]
    with pytest.raises(MetadataError, match="columns of the value would not be written: id"):
        kv.encode(rows, metadata={"k": "__raw_value__"})
    keyed = KeyValueFormat("id INT", {"key.format": "json", "key.fields": "id", "value.format": "json"})
    with pytest.raises(MetadataError, match=r"'key.format' writes 'key.fields' as the key"):
        keyed.encode(rows, metadata={"k": "__raw_key__"})


def test_records_are_unchanged_after_a_round_trip(spark: Any) -> None:
    randoms = random.Random(7)
    records = [
        (
            None if randoms.random() < 0.2 else randoms.randbytes(randoms.randrange(20)),
            None if randoms.random() < 0.2 else randoms.randbytes(randoms.randrange(200)),
        )
        for _ in range(500)
    ]
    frame = _frame(spark, *records)
    source = table(
        "v BYTES, k BYTES METADATA FROM '__raw_key__' VIRTUAL, same BYTES METADATA FROM '__raw_value__' VIRTUAL",
        "'format' = 'raw'",
    )
    copies = {
        "raw value": table("k BYTES METADATA FROM '__raw_key__', same BYTES METADATA FROM '__raw_value__'"),
        "raw format": table("v BYTES, k BYTES METADATA FROM '__raw_key__'", "'format' = 'raw'"),
    }
    decoded = source.decode(frame)
    for name, copy in copies.items():
        written = [(row["key"], row["value"]) for row in _dicts(copy.encode(decoded))]
        assert written == records, name


def test_the_last_header_with_a_value_counts_as_without_spark(spark: Any) -> None:
    """A header without a value hides no earlier one, for messages whose formats read headers."""
    records = [[("id", b"1"), ("id", b"2"), ("id", None)], [("id", None)], [], None, [("other", b""), ("ID", b"3")]]
    frame = spark.createDataFrame([(one,) for one in records], "headers ARRAY<STRUCT<key: STRING, value: BINARY>>")
    names = ("id", "other")
    columns = [header_column("id").alias("one"), header_column(names).alias("both")]
    found = frame.coalesce(1).select("headers", *columns).toArrow()
    headers = found["headers"].combine_chunks().cast(HEADERS_TYPE)
    assert found["one"].to_pylist() == last_header(headers, "id").to_pylist() == [b"2", *[None] * 4]
    both = [one and tuple(one.values()) for one in found["both"].to_pylist()]
    assert both == [one and tuple(one.values()) for one in part_headers(headers, names).to_pylist()]
    assert both == [(b"2", None), None, None, None, (None, b"")]
