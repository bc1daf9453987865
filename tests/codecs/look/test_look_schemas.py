"""What messages of a schema registry contribute by the schemas that wrote them, whatever their format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from tests.support.looking import columns, look

_LONG = "x" * 1025
_CASES = {
    "avro-confluent": (
        ".avsc",
        lambda name: json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": "long"}]}),
        lambda name: b"\x02",
    ),
    "proto-registry": (
        ".proto",
        lambda name: f'syntax = "proto3"; message R {{ int64 {name} = 1; }}',
        lambda name: b"\0\x08\x01",
    ),
    "json-registry": (
        ".json",
        lambda name: json.dumps({"type": "object", "properties": {name: {"type": "integer"}}}),
        lambda name: json.dumps({name: 1}).encode(),
    ),
}


@pytest.mark.parametrize("format", _CASES)
def test_messages_of_a_schema_that_no_table_can_have_are_errors_without_a_table(format: str, tmp_path: Path) -> None:
    """Here by the length of a column's name."""
    ending, schema, body = _CASES[format]
    messages: list[Any] = []
    for number, name in enumerate((_LONG, "id"), 1):
        (tmp_path / f"{number}{ending}").write_text(schema(name))
        messages.append(number.to_bytes(5, "big") + body(name))
    found = look(format, [messages[0], messages[1], messages[0], None], given={"url": f"file:{tmp_path}"})
    assert found.indices.to_pylist() == [None, 0, None, None]
    assert {at: error.partition("]")[0] for at, error in found.errors.items()} == dict.fromkeys((0, 2), "[TOO_LARGE")
    assert columns(found) == {"id": "BIGINT"}


@pytest.mark.parametrize("format", _CASES)
def test_a_schema_of_several_topics_gives_each_of_them_its_columns(format: str, tmp_path: Path) -> None:
    """Equal schemas of several subjects have one id in a registry."""
    ending, schema, body = _CASES[format]
    (tmp_path / f"1{ending}").write_text(schema("id"))
    message = b"\0\0\0\0\1" + body("id")
    found = look(format, [message] * 3, given={"url": f"file:{tmp_path}"}, topic=["a", "b", "a"])
    assert [found.tables[number] for number in found.indices.to_pylist()] == [("a",), ("b",), ("a",)]
    assert sorted((column.table, column.name) for column in found.columns) == [(("a",), "id"), (("b",), "id")]


def test_a_column_with_another_type_in_another_record_of_a_union_has_no_type(tmp_path: Path) -> None:
    """It gets one by its values. That one of them may be null makes no difference."""
    fields: list[dict[str, Any]] = [{"id": "int", "v": "int"}, {"id": ["null", "int"], "v": "string"}]
    union = [
        {"type": "record", "name": f"R{number}", "fields": [{"name": n, "type": t} for n, t in types.items()]}
        for number, types in enumerate(fields)
    ]
    (tmp_path / "1.avsc").write_text(json.dumps(union))
    format: Any = get_format("avro-confluent", {"url": f"file:{tmp_path}"})
    written = format.written_columns(pa.array([b"\0\0\0\0\1\0\2\2"]))
    assert [list(columns) for columns in written.columns] == [["id"]]
