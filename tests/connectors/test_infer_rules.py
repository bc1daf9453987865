"""Rules of samples, and of the schemas and tables that are inferred from them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors import infer_schema
from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.connectors.infer.sample import sample_of
from kvformat.registry import KeyValueFormat, SchemaError
from kvformat.registry.contract.types import STRING, FlinkField
from kvformat.registry.table.record_headers import HEADERS_TYPE
from tests.codecs.debezium.debezium_types import TIME, Given, decimal, envelope, event

_ID = {"key": "__value_schema_id", "value": b"\0\0\0\0\7"}


def _canal(*key: str) -> bytes:
    row = {"a": "1", "b": "2"}
    return json.dumps({"database": "d", "table": "t", "type": "INSERT", "data": [row], "pkNames": key}).encode()


def test_a_key_in_another_order_is_the_same_key() -> None:
    for keys, other in (((("a", "b"), ("b", "a")), False), ((("b", "a"), ("a",)), True)):
        found = infer_schema([_canal(*key) for key in keys], format="canal-json", style="ingestion")
        assert found.primary_key == keys[0], "that of the first message"
        assert any("different keys" in note for note in found.notes) == other


def test_options_of_a_table_replace_those_that_were_inferred() -> None:
    found = infer_schema([b'{"at":"2024-02-29T12:00:00Z"}'], format="json")
    assert dict(found.options) == {"timestamp-format.standard": "ISO-8601"}
    given = {"json.timestamp-format.standard": "SQL", "topic": "other"}
    text = found.create_table("t", topic="t", bootstrap="b", options=given)
    assert given.items() <= KeyValueFormat.from_ddl(text).options.items()
    assert "ISO-8601" not in text


def test_names_and_texts_of_a_table_are_quoted() -> None:
    names = ("a b", "c`d")
    found = InferredSchema("json", tuple(FlinkField(name, STRING) for name in names), {}, names)
    text = found.create_table("t`t", topic="it's", bootstrap="b")
    assert "CREATE TABLE `t``t` (" in text
    key = ",\n  PRIMARY KEY (`a b`, `c``d`) NOT ENFORCED"
    assert key in text
    kv = KeyValueFormat.from_ddl(text.replace(key, ""))
    assert (kv.options["topic"], [column.name for column in kv.columns]) == ("it's", list(names))


def test_secrets_of_a_table_are_masked() -> None:
    found = infer_schema([b'{"a":1}'], format="json")
    given = {"properties.sasl.jaas.config": 'x required password="sesame";', "properties.ssl.key.password": "sesame-2"}
    text = found.create_table("t", topic="sesame", bootstrap="b", options=given)
    assert text.count("'******'") == 2
    assert text.count("sesame") == 1, "the topic, which is no secret"


def test_messages_that_no_format_reads_have_no_table() -> None:
    found = InferredSchema("json", (FlinkField("a", STRING),), unreadable="they are packed")
    with pytest.raises(SchemaError, match="no table reads these messages: they are packed"):
        found.create_table("t", topic="t", bootstrap="b")


@pytest.mark.parametrize("style", ["table", "ingestion"])
def test_headers_with_ids_of_schemas_are_only_for_formats_with_a_registry(style: Any) -> None:
    found = infer_schema([b'{"a":"x"}'], format="json", headers=[[_ID]], style=style)
    assert (found.ddl, found.notes) == ("`a` STRING", ())


def test_a_sample_frames_only_messages_with_an_id_in_a_header() -> None:
    frame = b"\0\0\0\0\7"
    headers = [[_ID], [], [{"key": "other", "value": frame}], [{**_ID, "key": "__key_schema_id"}]]
    found = sample_of([b"x"] * 4, [b"k"] * 4, 9, headers=headers)
    value, key = found.with_header_ids(), found.keys()
    assert (value.values, value.framed) == ((frame + b"x", b"x", b"x", b"x"), {0})
    assert (key.values, key.framed, key.part) == ((b"k", b"k", b"k", frame + b"k"), {3}, "key")
    assert value.keys == key.values


def test_headers_of_later_records_are_left_out() -> None:
    headers = [[_ID], [], [_ID]]
    for given in (headers, pa.array(headers, HEADERS_TYPE), iter(headers)):
        found = sample_of([b"a", b"b", b"c"], None, 2, headers=given)
        assert found.headers is not None
        assert found.headers.to_pylist() == headers[:2]


def test_messages_may_be_texts_or_views_of_bytes() -> None:
    found = sample_of(["ä\ud800", bytearray(b"b"), memoryview(b"m"), None], ["k", None, b"", "é"], 9).messages
    assert found.values == (b"\xc3\xa4\xed\xa0\x80", b"b", b"m", None)
    assert found.keys == (b"k", None, b"", b"\xc3\xa9")


def _debezium_ddl(*columns: Given) -> str:
    """Return the proposed column of these values, each with a schema, beside a column that Flink misreads."""
    day = Given("int32", f"{TIME}Date", 1)
    messages = [event({"v": one.value, "d": 1}, envelope({"v": one, "d": day})) for one in columns]
    return infer_schema(messages, format="debezium-json").ddl.replace("`", "").removesuffix(", d DATE")


@pytest.mark.parametrize(
    ("name", "text", "column"),
    [
        ("ZonedTime", "05:30:00.5Z", "v TIME(6)"),
        ("ZonedTime", "05:30:00.5+02:00", "v STRING"),
        ("IsoTime", "05:30:00.1234567Z", "v STRING"),
        ("ZonedTimestamp", "2025-03-03T05:30:00.123456+02:00", "v TIMESTAMP_LTZ(6)"),
        ("ZonedTimestamp", "2025-03-03T05:30:00.1234567Z", "v STRING"),
    ],
)
def test_a_time_whose_offset_or_digits_would_be_lost_is_a_text(name: str, text: str, column: str) -> None:
    assert _debezium_ddl(Given("string", f"{TIME}{name}", text)) == column


def test_decimals_that_no_type_holds_are_texts_and_not_their_unscaled_bytes() -> None:
    assert _debezium_ddl(decimal(5, 0, 38), decimal(5, 0, 38)) == "v DECIMAL(38, 0)"
    assert _debezium_ddl(decimal(5, 0, 38), decimal(5, 1, 2)) == "v STRING"
