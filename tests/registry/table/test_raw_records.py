"""`__raw_key__` and `__raw_value__` without Spark: bytes of records as they are, in both directions."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import MetadataError, SchemaError
from kvformat.registry.java.charsets import find_charset
from kvformat.registry.table.raw_records import raw_array
from tests.support.raw_records import BOTH, table


def test_each_row_has_the_bytes_of_its_record() -> None:
    kv = KeyValueFormat("id INT, v STRING", {"format": "canal-json"})
    insert = b'{"data":[{"id":1,"v":"a"},{"id":2,"v":"b"}],"type":"INSERT","table":"t"}'
    values = pa.array([insert, b"{", None, b'{"data":[{"id":3}],"type":"DELETE","table":"u"}'], pa.binary())
    keys = pa.array([b"k", b"bad", b"none", None], pa.binary())
    decoded = kv.decode_batch(keys, values, metadata=["__raw_key__", "value.table", "__raw_value__"])
    assert decoded.rows.type.value_type.names == ["id", "v", "__raw_key__", "value.table", "__raw_value__"]
    assert decoded.rows.to_pylist()[1:3] == [None, []]
    rows = [tuple(row.values()) for row in decoded.rows.values.to_pylist()]
    assert rows == [
        (1, "a", "k", "t", insert.decode()),
        (2, "b", "k", "t", insert.decode()),
        (3, None, None, "u", values[3].as_py().decode()),
    ]
    assert decoded.errors is not None
    assert decoded.errors.is_valid().to_pylist() == [False, True, False, False]
    without = kv.decode_batch(None, values, metadata=["__raw_key__"])
    assert set(without.rows.values.field("__raw_key__").to_pylist()) == {None}


def test_no_records_have_no_rows() -> None:
    kv = KeyValueFormat("id INT", {"format": "json"})
    decoded = kv.decode_batch(None, pa.array([], pa.binary()), metadata=BOTH)
    assert decoded.rows.to_pylist() == []
    assert decoded.rows.type.value_type.names == ["id", *BOTH]


def test_text_has_javas_replacement_characters() -> None:
    randoms = random.Random(11)
    pieces = [
        b"a",
        b"\xc3\xa9",
        b"\xf0\x9f\x98\x80",
        b"\xed\xa0\x80",
        b"\xed\xb0",
        b"\xff",
        b"\xe2\x82",
        b"\x80",
        b"\xc0",
    ]
    messages = [b"".join(randoms.choices(pieces, k=randoms.randrange(6))) for _ in range(2000)]
    array = pa.array([*messages, None], pa.binary())
    texts = raw_array(array, parse_type("STRING"))
    assert texts == find_charset("UTF-8").decode(array)
    assert sum("\ufffd" in text for text in texts.to_pylist()[:-1]) > 500
    assert raw_array(array, parse_type("BYTES")) is array


def test_keys_and_values_are_written_as_they_are() -> None:
    kv = table("k BYTES METADATA FROM '__raw_key__', v STRING METADATA FROM '__raw_value__'")
    rows = [{"k": b"\xff", "v": "not JSON"}, {"k": None, "v": None}, {"k": b"", "v": ""}]
    encoded = kv.encode_batch(pa.array(rows, pa.struct([("k", pa.large_binary()), ("v", pa.string())])))
    assert encoded.keys is not None
    assert encoded.keys.to_pylist() == [b"\xff", None, b""]
    assert encoded.values.to_pylist() == [b"not JSON", None, b""]
    assert encoded.errors is None
    chunked = pa.chunked_array(
        [pa.array(rows[:1]), pa.array(rows[1:], pa.struct([("k", pa.binary()), ("v", pa.string())]))]
    )
    assert kv.encode_batch(chunked).values.to_pylist() == [b"not JSON", None, b""]


def test_a_raw_key_stands_beside_columns_of_the_value() -> None:
    rows = pa.array([{"id": 1, "k": "one"}, {"id": 2, "k": None}])
    declared = table("id BIGINT, k STRING METADATA FROM '__raw_key__'")
    asked = KeyValueFormat("id BIGINT", {"format": "json"})
    for encoded in (declared.encode_batch(rows), asked.encode_batch(rows, metadata={"k": "__raw_key__"})):
        assert encoded.keys is not None
        assert encoded.keys.to_pylist() == [b"one", None]
        assert encoded.values.to_pylist() == [b'{"id":1}', b'{"id":2}']
    beside_others = asked.encode_batch(rows, metadata={"h": "headers", "k": "__raw_key__"})
    assert beside_others.keys is not None
    assert beside_others.keys.to_pylist() == [b"one", None]
    assert asked.encode_batch(rows).keys is None
    assert asked.encode_batch(rows, metadata={"k": "headers"}).keys is None  # not part of the message
    with pytest.raises(SchemaError, match="the rows lack the column 'k', which is written as metadata '__raw_key__'"):
        declared.encode_batch(pa.array([{"id": 1}]))
    with pytest.raises(SchemaError, match=r"column 'k', written as metadata '__raw_key__': .*not int64"):
        declared.encode_batch(pa.array([{"id": 1, "k": 2}]))


def test_virtual_columns_are_not_written() -> None:
    kv = table("id BIGINT, k STRING METADATA FROM '__raw_key__' VIRTUAL, v BYTES METADATA FROM '__raw_value__' VIRTUAL")
    encoded = kv.encode_batch(pa.array([{"id": 1}]))
    assert (encoded.keys, encoded.values.to_pylist()) == (None, [b'{"id":1}'])


_KEYED = "'key.format' = 'raw', 'key.fields' = 'id', 'value.format' = 'json'"


@pytest.mark.parametrize(
    ("columns", "options", "connector", "message"),
    [
        ("id INT, k STRING METADATA FROM '__raw_key__'", _KEYED, "kafka", "'key.format' writes 'key.fields'"),
        ("id INT, v STRING METADATA FROM '__raw_value__'", _KEYED, "kafka", "of the value would not be written: id"),
        ("id INT, x INT, v STRING METADATA FROM '__raw_value__'", "'format' = 'csv'", "kafka", "not be written: id, x"),
        ("v STRING METADATA FROM '__raw_value__'", "'format' = 'debezium-json'", "kafka", "the kind of each row"),
        ("id INT, k STRING METADATA FROM '__raw_key__', PRIMARY KEY (id) NOT ENFORCED", "'value.format' = 'json'",
         "upsert-kafka", "writes its PRIMARY KEY as the key"),
        ("id INT, v STRING METADATA FROM '__raw_value__', PRIMARY KEY (id) NOT ENFORCED", "'value.format' = 'json'",
         "upsert-kafka", "NULL as the value of deleted rows"),
    ],
)  # fmt: skip
def test_contradictions_are_refused_for_writing_only(columns: str, options: str, connector: str, message: str) -> None:
    kv = table(columns, options, connector)
    kv.decode_batch(None, pa.array([], pa.binary()))
    with pytest.raises(MetadataError, match=rf"table 't': column '[kv]' can't be written as .*{message}.*VIRTUAL"):
        kv.encode_batch(pa.array([], pa.struct([])))


def test_a_raw_value_may_stand_beside_a_key() -> None:
    kv = table("id BIGINT, v STRING METADATA FROM '__raw_value__'", f"{_KEYED}, 'value.fields-include' = 'EXCEPT_KEY'")
    encoded = kv.encode_batch(pa.array([{"id": 1, "v": "x"}]))
    assert encoded.keys is not None
    assert (encoded.keys.to_pylist(), encoded.values.to_pylist()) == ([b"\0\0\0\0\0\0\0\x01"], [b"x"])


def test_contradictions_of_a_call_are_refused() -> None:
    kv = table("id INT, k STRING METADATA FROM '__raw_key__'")
    assert kv.written_metadata() == ("__raw_key__",)
    with pytest.raises(MetadataError, match="columns 'k', 'other' are written as the same metadata key '__raw_key__'"):
        kv.written_metadata({"other": "__raw_key__"})
    with pytest.raises(MetadataError, match="columns of the value would not be written: id"):
        kv.written_metadata(["__raw_value__"])


@pytest.mark.parametrize("declared", ["INT", "MAP<STRING, BYTES>", "TIMESTAMP(3)", "ROW<a STRING>"])
def test_other_types_are_refused(declared: str) -> None:
    with pytest.raises(SchemaError, match="has the value of each record as it is, so it must be STRING or BYTES, not"):
        table(f"id INT, v {declared} METADATA FROM '__raw_value__'")


@pytest.mark.parametrize("key", ["topic", "offset", "headers", "timestamp"])
def test_a_batch_without_its_records_has_no_metadata_of_the_connector(key: str) -> None:
    kv = KeyValueFormat("id BIGINT", {"format": "debezium-json"})
    message = pa.array([b'{"after":{"id":1},"op":"c","ts_ms":5}'])
    found = kv.decode_batch(None, message, metadata=["__raw_value__", "value.ingestion-timestamp"])
    assert [len(rows[0]) for rows in found.rows.to_pylist()] == [3]
    with pytest.raises(MetadataError, match=f"'{key}' is not part of the message"):
        kv.decode_batch(None, message, metadata=["__raw_value__", key])


def test_misspelt_keys_are_suggested() -> None:
    with pytest.raises(MetadataError, match="Did you mean '__raw_value__'"):
        KeyValueFormat("id INT", {"format": "json"}).decode_batch(None, pa.array([b"1"]), metadata=["raw_value"])
