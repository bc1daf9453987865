"""Recognized formats of samples, and proposed columns, at the limits of the rules."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import pytest

from kvformat.codecs.csv.columns import delimiter_of
from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.discovery.message_kinds import text_indices
from kvformat.codecs.raw import RawFormat
from kvformat.registry import MessageSample, get_format


def _sample(*messages: Any) -> MessageSample:
    return MessageSample(tuple(one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages))


@pytest.mark.parametrize(
    ("code", "values", "description"),
    [
        (">i", (1, -5, 70000), "have 4 bytes, the first always one of a whole number (INT) in big-endian order"),
        (">q", (1, -5, 2**40), "have 8 bytes, the first always one of a whole number (BIGINT) in big-endian order"),
        (">d", (1.5, -2.5, 100.25), "have 8 bytes, the first always one of a DOUBLE in big-endian order"),
    ],
)
def test_numbers_of_kafkas_serializers_have_their_size(code: str, values: tuple[float, ...], description: str) -> None:
    (found,) = RawFormat.recognize(_sample(*(struct.pack(code, value) for value in values)))
    assert found.description.startswith(description)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([b"a,b,c;d"], (",", 3, 1.0)),
        ([b"a,b;c;d"], (";", 3, 1.0)),
        ([b"a,b|c"], (",", 2, 1.0)),
        ([b"a,b,c;d", b"a;b"], (";", 2, 1.0)),
        ([b"a", b"b"], (",", 1, 1.0)),
    ],
)
def test_the_delimiter_of_most_messages_and_then_of_most_columns_is_found(
    messages: list[bytes], expected: tuple[str, int, float]
) -> None:
    assert delimiter_of(messages) == expected


@pytest.mark.parametrize(
    ("part", "first", "texts"), [("value", b"{}", (2,)), ("key", b"{}", (1, 2)), ("value", b"y", (0, 1, 2))]
)
def test_a_null_of_json_is_a_text_except_among_values_of_json(part: Any, first: bytes, texts: tuple[int, ...]) -> None:
    assert text_indices(replace(_sample(first, b"null", b"x"), part=part)) == texts


def test_notes_are_told_once_with_their_columns() -> None:
    notes, others = Notes(), Notes()
    for what, place in (("general", ""), ("x", "a"), ("x", "b"), ("x", "a"), ("y", "a")):
        notes.add(what, place)
    assert notes.texts() == ("general", "a, b: x", "a: y")
    assert notes.without(["a"]).texts() == ("general", "b: x")
    others.add("x", "c")
    others.extend(notes)
    assert others.texts() == ("c, a, b: x", "general", "a: y")


def _nested(levels: int) -> Any:
    return 1 if not levels else dict.fromkeys("12", _nested(levels - 1))


@pytest.mark.parametrize("levels", [1, 3, 4, 6])
def test_names_that_are_data_are_maps_at_three_levels(levels: int) -> None:
    (column,) = get_format("json").propose_schema(_sample({"v": _nested(levels)})).fields
    assert str(column.type).count("MAP<") == min(levels, 3)
    assert str(column.type).count("ROW<") == sum(2**level for level in range(max(levels - 3, 0)))


@pytest.mark.parametrize("flattened", ["true", "false"])
def test_messages_with_and_without_schemas_are_counted(flattened: str) -> None:
    row = {"id": 1, "__op": "c"} if flattened == "true" else {"op": "c", "before": None, "after": {"id": 1}}
    wrapped = {"schema": {"type": "struct", "fields": []}, "payload": row}
    found = get_format("debezium-json", {"flattened": flattened}).propose_schema(
        _sample(wrapped, row, wrapped, row, row)
    )
    assert "2 messages have a schema and a payload, 3 have not: a table reads one kind only" in found.notes
    for plain, include in ((0, True), (1, True), (2, False)):
        found = get_format("debezium-json", {"flattened": flattened}).propose_schema(
            _sample(wrapped, wrapped, *[row] * plain)
        )
        assert ("schema-include" in found.options) is include
