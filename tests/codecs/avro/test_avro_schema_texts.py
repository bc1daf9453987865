"""Texts of schemas as tools write them: byte order marks, other encodings, defaults of later branches, null roots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from kvformat.codecs.avro.columns import columns_of_schema
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.discovery.column_types import Notes
from tests.support.avro_cases import read

_SCHEMA = json.dumps({"type": "record", "name": "A", "fields": [{"name": "id", "type": "int"}]})
_NULLS = json.dumps(["null", json.loads(_SCHEMA)])


def _decode(folder: Path, schema: bytes, *data: bytes, ending: str = "avsc", **options: str) -> Any:
    (folder / f"1.{ending}").write_bytes(schema)
    name = "avro-confluent" if ending == "avsc" else "proto-registry"
    fmt = get_format(name, {"url": f"file:{folder}"} | {key.replace("_", "-"): v for key, v in options.items()})
    return fmt.decode_batch(pa.array([b"\0\0\0\0\1" + one for one in data], pa.binary()), "id INT")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_file_of_a_schema_has_any_encoding_of_json(encoding: str, tmp_path: Path) -> None:
    assert _decode(tmp_path, _SCHEMA.encode(encoding), b"\2").rows.to_pylist() == [[{"id": 1}]]
    (tmp_path / "proto").mkdir()
    proto = 'syntax = "proto3"; message M { int32 id = 1; }'
    batch = _decode(tmp_path / "proto", proto.encode(encoding), b"\0\x08\1", ending="proto")
    assert batch.rows.to_pylist() == [[{"id": 1}]]


def test_a_file_that_is_not_text_is_an_error_of_its_messages(tmp_path: Path) -> None:
    errors = _decode(tmp_path, _SCHEMA.encode()[:-1] + b"\xff}", b"\2").errors.to_pylist()
    assert "the file 1.avsc is not text in utf-8" in errors[0]
    assert "Store it in UTF-8" in errors[0]


def test_the_option_schema_may_begin_with_a_byte_order_mark() -> None:
    assert parse_schema("\ufeff" + _SCHEMA) == parse_schema(_SCHEMA)


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        (["null", "int"], 5, 5),
        (["int", "null"], None, None),
        (["null", "string"], "x", "x"),
        (["null", {"type": "array", "items": "int"}], [1], [1]),
        (["null", {"type": "array", "items": ["null", "int"]}], [None, 1], [None, 1]),
        (
            ["null", {"type": "record", "name": "I", "fields": [{"name": "k", "type": ["null", "int"]}]}],
            {"k": 3},
            {"k": 3},
        ),
    ],
)
def test_a_default_may_be_one_of_a_later_branch(schema: Any, default: Any, value: Any) -> None:
    reader = {"type": "record", "name": "A", "fields": [{"name": "z", "type": schema, "default": default}]}
    assert read("", {"type": "record", "name": "A", "fields": []}, reader) == {"z": value}


@pytest.mark.parametrize("branches", [(0, 1), (1, 0)])
def test_the_datum_null_of_a_union_is_a_message_without_rows(branches: tuple[int, int], tmp_path: Path) -> None:
    both = json.loads(_NULLS)
    null, one = bytes([2 * branches.index(0)]), bytes([2 * branches.index(1), 2])
    schema = json.dumps([both[index] for index in branches]).encode()
    batch = _decode(tmp_path, schema, one, null, one)
    assert (batch.rows.to_pylist(), batch.errors) == ([[{"id": 1}], [], [{"id": 1}]], None)
    named = _decode(tmp_path, schema, one, null, record_name="A", other_messages="skip")
    assert (named.rows.to_pylist(), named.errors) == ([[{"id": 1}], []], None)


def test_a_null_beside_several_records_is_no_row_either(tmp_path: Path) -> None:
    other = {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}]}
    batch = _decode(tmp_path, json.dumps(["null", json.loads(_SCHEMA), other]).encode(), b"\0", b"\2\2", b"\4\2")
    assert batch.rows.to_pylist()[:2] == [[], [{"id": 1}]]


def test_a_fixed_without_bytes_is_left_out_of_proposed_columns() -> None:
    fields = [{"name": "a", "type": "int"}, {"name": "z", "type": {"type": "fixed", "name": "Z", "size": 0}}]
    notes = Notes()
    found = columns_of_schema(parse_schema(json.dumps({"type": "record", "name": "A", "fields": fields})), {}, notes)
    assert [field.name for field in found.fields] == ["a"]
    assert any("a fixed without bytes" in text for text in notes.texts())


@pytest.mark.parametrize("given", [{}, {"schema": "that of the user"}])
def test_only_without_the_option_schema_one_with_an_enum_is_proposed(given: dict[str, str]) -> None:
    enum = {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}}
    schema = parse_schema(json.dumps({"type": "record", "name": "R", "fields": [enum]}))
    assert columns_of_schema(schema, given, Notes()).options == {"schema": schema.text, **given}


def test_a_record_of_which_no_field_is_left_is_left_out_of_proposed_columns() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "null"}]}
    fields = [{"name": "a", "type": "int"}, {"name": "r", "type": inner}]
    notes = Notes()
    found = columns_of_schema(parse_schema(json.dumps({"type": "record", "name": "A", "fields": fields})), {}, notes)
    assert [field.name for field in found.fields] == ["a"]
    assert "r: a record without fields: left out" in notes.texts()


def test_the_option_schema_may_be_a_union_with_null() -> None:
    fmt = get_format("avro-confluent", {"url": "mock://nullable", "subject": "s", "schema": _NULLS})
    written = fmt.encode_batch(pa.array([{"id": 1}], pa.struct([("id", pa.int32())])), "id INT NOT NULL")
    assert written.messages.to_pylist() == [b"\0\0\0\0\1\2\2"]
    assert fmt.decode_batch(written.messages, "id INT NOT NULL").rows.to_pylist() == [[{"id": 1}]]
