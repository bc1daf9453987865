"""The `recognize` and `propose_schema` hooks of formats: those of another package, and protobuf's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from kvformat.connectors import infer_schema, inspect_topic
from kvformat.registry import (
    DecodedBatch,
    EncodedBatch,
    Format,
    MessageSample,
    OptionError,
    Recognition,
    SchemaError,
    SchemaProposal,
    register_format,
)
from kvformat.registry.contract import discovery
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable
from tests.support.protobuf_types import descriptor_set, fields

STRING = FlinkType("VARCHAR", length=2**31 - 1)


class FormsFormat(Format):
    """Columns of text in `application/x-www-form-urlencoded`."""

    identifier = "forms"

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        found = tuple(index for index, message in sample.indexed() if _form(message))
        return [Recognition(found, 0.95, "are forms: names and values with = and & between")]

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        names = dict.fromkeys(name for message in sample.present() for name in _form(message))
        return SchemaProposal(tuple(FlinkField(name, STRING) for name in names))

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        rows = [None if message is None else [_form(message)] for message in messages.to_pylist()]
        return DecodedBatch(pa.array(rows, pa.list_(arrow_type(nullable(row_type(schema))))))

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        raise self.unsupported("encode")


def _form(message: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(message.decode(), strict_parsing=True))
    except ValueError:
        return {}


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> type[Format]:
    monkeypatch.setattr(discovery, "_registered", {})
    return register_format(FormsFormat)


def test_a_format_of_another_package_is_recognized_and_proposes_columns(forms: type[Format]) -> None:
    messages = [b"id=1&name=Ada", b"id=2&city=Paris", b"no form"]
    found = inspect_topic(messages, name="visits")
    assert [(guess.format, guess.confidence) for guess in found.guesses] == [("forms", 0.633), ("raw", 0.2)]
    assert found.guesses[0].reason == "2 of 3 messages are forms: names and values with = and & between"
    assert found.ddl is not None
    assert "`id` STRING,\n  `name` STRING,\n  `city` STRING" in found.ddl
    assert "'format' = 'forms'" in found.ddl
    assert infer_schema(messages, format="forms").ddl == "`id` STRING, `name` STRING, `city` STRING"


def test_errors_in_recognition_are_isolated(forms: type[Format], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "recognize", classmethod(lambda cls, sample: 1 / 0))
    found = inspect_topic([b'{"id":1}'])
    assert found.guesses[0].format == "json"
    assert "format 'forms' can't recognize messages: ZeroDivisionError division by zero" in found.notes


def test_the_text_of_an_error_is_not_shown_if_it_may_have_secrets_of_a_registry(
    forms: type[Format], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def recognize(_: type[Format], sample: MessageSample) -> Sequence[Recognition]:
        raise ValueError(f"no {sample.registry['url']}" if sample.registry else "no registry")

    monkeypatch.setattr(forms, "recognize", classmethod(recognize))
    (found,) = inspect_topic([b'{"id":1}'], registry=f"file:{tmp_path}/sesame", topic="t", bootstrap="b").notes
    assert found.startswith("format 'forms' can't recognize messages: ValueError (its text is not shown, because")
    assert "sesame" not in found


def test_formats_without_a_proposal_are_reported(forms: type[Format], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(forms, "propose_schema")
    with pytest.raises(SchemaError, match="format 'forms' does not propose columns"):
        infer_schema([b"a=1"], format="forms")


PROTO = f"""name: "a.proto" package: "acme" message_type {{ name: "Order"
    {fields("int32 id = 1; string name = 2; repeated uint64 n = 3; .acme.Order.Item item = 4;")}
    {fields(".acme.Order parent = 5; repeated .acme.Order.PEntry p = 6; bool paid = 7;")}
    {fields("repeated .acme.Order.QEntry q = 8; .acme.Order.None none = 9;")}
    nested_type {{ name: "Item" {fields("double x = 1; bytes raw = 2;")} }}
    nested_type {{ name: "PEntry" options {{ map_entry: true }} {fields("string key = 1; float value = 2;")} }}
    nested_type {{ name: "QEntry" options {{ map_entry: true }} {fields("string key = 1; .acme.Order value = 2;")} }}
    nested_type {{ name: "None" }} }}"""


def test_protobuf_proposes_the_fields_of_its_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "a.desc"
    path.write_bytes(descriptor_set(PROTO))
    options = {"message-class-name": "acme.Order", "descriptor-file": str(path)}
    found = infer_schema([b"\x08\x07\x12\x03Ada"], format="protobuf", options=options)
    assert found.ddl == (
        "`id` INT, `name` STRING, `n` ARRAY<BIGINT>, `item` ROW<`x` DOUBLE, `raw` BYTES>, `p` MAP<STRING, FLOAT>, "
        "`paid` BOOLEAN"
    )
    assert found.notes == (
        "parent, q.value: the message acme.Order contains itself, which no table type does: left out",
        "none: a message without fields: left out",
    )
    with pytest.raises(OptionError, match="message-class-name"):
        infer_schema([b"\x08\x07"], format="protobuf")


def test_protobuf_is_recognized_from_bytes() -> None:
    found = inspect_topic([b"\x08\x07\x12\x03Ada", b"\x08\x96\x01\x12\x02Bo", b"\x08\x01\x1d\0\0\0\0"])
    assert [(guess.format, guess.confidence) for guess in found.guesses] == [("protobuf", 0.5)]
    assert found.ddl is None
    assert any("needs the option 'message-class-name'" in note for note in found.notes)
    others = (b"\x08\x07\x12\x03Ad", b"\x08\x07\x12\x01A", b"\x08\x07\x13\x03Ada", b"\x00\x07\x12\x03Ada", b"\x80")
    cut = (
        b"\x12\x04Ada",
        b"\x12\x03Ada\x08",
        b"\x12\x03Ada\x08\x80",
        b"\x12\x03Ada\x09" + bytes(7),
        b"\x12\x03Ada\x0d\0\0\0",
    )
    for message in (*others, *cut):
        assert [guess.format for guess in inspect_topic([message]).guesses] != ["protobuf"], message


def test_a_part_of_a_sample_has_the_keys_and_the_frames_of_its_messages() -> None:
    sample = MessageSample((b"a", b"b", None, b"d"), (b"1", None, b"3", b"4"), framed=frozenset({0, 3}), cut="rest")
    for indices, values, keys, framed in (
        ([3, 1], (b"d", b"b"), (b"4", None), {0}),
        ([1, 2, 0], (b"b", None, b"a"), (None, b"3", b"1"), {2}),
        ([], (), (), set()),
    ):
        part = sample.only(indices)
        assert (part.values, part.keys, part.framed, part.cut) == (values, keys, framed, "rest")
    assert replace(sample, keys=None).only([0]).keys is None


@pytest.mark.parametrize(("part", "by"), [("key", "avro-confluent"), ("value", "debezium-avro-confluent")])
def test_rows_of_debezium_without_an_envelope_are_records_as_keys(part: Any, by: str, tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "__deleted", "type": "string"}]
    (tmp_path / "1.avsc").write_text(json.dumps({"type": "record", "name": "R", "fields": fields}))
    sample = MessageSample((b"\0\0\0\0\1\2\nfalse",), part=part, registry={"url": f"file:{tmp_path}"})
    names = ("avro-confluent", "debezium-avro-confluent")
    assert [name for name in names if get_format(name, sample.registry).recognize(sample)] == [by]
