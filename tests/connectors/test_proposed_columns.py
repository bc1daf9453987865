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


@pytest.mark.parametrize(("rows", "others", "found"), [(9, 1, True), (8, 1, False), (18, 2, True), (17, 2, False)])
def test_text_is_csv_if_nine_of_ten_messages_have_as_many_columns(rows: int, others: int, found: bool) -> None:
    sample = _sample(*[b"1,a"] * rows, *[b"1,a,b"] * others)
    assert bool(get_format("csv").recognize(sample)) == found


@pytest.mark.parametrize(
    ("messages", "found"),
    [([b"a,b"] * 2, False), ([b"a,b"] * 3, True), ([b"a,b,c"], True), ([b"a"] * 3, False), ([b'a,"b'] * 3, True)],
)
def test_text_is_csv_from_three_messages_or_three_columns_on(messages: list[bytes], found: bool) -> None:
    assert bool(get_format("csv").recognize(_sample(*messages))) == found


@pytest.mark.parametrize("given", ["\\t", "\t"])
def test_columns_are_those_by_the_delimiter_that_is_given_as_the_option_takes_it(given: str) -> None:
    found = get_format("csv", {"field-delimiter": given}).propose_schema(_sample(b"1\ta,b", b"2\tc,d"))
    assert [str(field.type) for field in found.fields] == ["INT", "STRING"]
    assert found.options == {"field-delimiter": given}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("7", "INT"), ("-7", "INT"), ("007", "STRING"), ("1e5", "DOUBLE"), ("1.", "STRING"), ("TRUE", "BOOLEAN")),
        *(
            ("2024-02-29", "DATE"),
            ("2024-02-29 10:00:00.5", "TIMESTAMP(3)"),
            ("2024-02-29 10:00:00Z", "TIMESTAMP_LTZ(3)"),
        ),
        *(
            ("2024-02-29T10:00:00", "STRING"),
            ("2024-02-29T10:00:00Z", "STRING"),
            ("2024-02-29 10:00:00+01:00", "STRING"),
        ),
        *(("2024-02-29T10:00:00+01:00", "STRING"), ("", "STRING"), ("x", "STRING")),
    ],
)
def test_columns_of_csv_are_of_types_that_csv_reads(text: str, expected: str) -> None:
    found = get_format("csv").propose_schema(_sample(f"{text},a".encode(), f"{text},b".encode()))
    assert [str(field.type) for field in found.fields] == [expected, "STRING"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\nb", "\r1,2,3", '\n"'])
@pytest.mark.parametrize("text", ["x", "x\u2028y", '"x\ny"', '"x\r\n1,2,3"'])
def test_only_the_first_record_of_a_message_is_csv(text: str, end: str) -> None:
    sample = _sample(*[f"{number},{text},z{end}".encode() for number in range(3)])
    assert get_format("csv").recognize(sample)
    found = get_format("csv").propose_schema(sample)
    assert [str(field.type) for field in found.fields] == ["INT", "STRING", "STRING"]
    assert found.notes == ()


def test_a_column_with_an_empty_text_is_text_unless_the_format_reads_it_and_the_others_are_not() -> None:
    sample = _sample(b"1,5,2024-02-29", b"2,,2024-02-28", b"3,7,2024-02-27")
    for options, wanted in (({}, ["INT", "STRING", "DATE"]), ({"null-literal": ""}, ["INT", "INT", "DATE"])):
        found = get_format("csv", options).propose_schema(sample)
        assert [str(field.type) for field in found.fields] == wanted


@pytest.mark.parametrize(
    ("message", "charset"),
    [
        (b"caf\xe9", "ISO-8859-1"),
        (b"12\xa0km \xe9", "ISO-8859-1"),
        (b"\x80 5,00 \xe9", "windows-1252"),
        (b"\x9fengine caf\xe9", "windows-1252"),
    ],
)
def test_text_with_bytes_from_80_to_9f_is_windows_1252(message: bytes, charset: str) -> None:
    (found,) = RawFormat.recognize(_sample(message))
    assert found.options == {"charset": charset}


@pytest.mark.parametrize(
    ("row", "wrapped"),
    [
        ({"schema": {}, "payload": {"id": 1}}, True),
        ({"payload": {"id": 1}, "schema": None}, True),
        ([{"schema": {}, "payload": {}}], True),
        ({"schema": {}, "payload": {}, "more": {}}, False),
        ({"schema": {}, "payload": {}, "id": None}, False),
        ({"schema": "public", "payload": {}}, False),
        ({"schema": {}, "payload": 5}, False),
        ({"payload": {}}, False),
    ],
)
def test_an_object_of_schema_and_payload_alone_is_connects_wrapper(row: Any, wrapped: bool) -> None:
    (found,) = get_format("json").recognize(_sample(row))
    assert (found.adapt is not None) == wrapped


@pytest.mark.parametrize(
    ("message", "is_change"),
    [
        ({"op": "m", "source": {"db": "d"}, "message": {}}, True),
        ({"op": "c", "after": {"id": 1}}, True),
        ({"op": "c", "id": 1}, False),
        ({"op": "sold", "after": 5}, False),
    ],
)
def test_an_object_with_an_operation_and_a_row_or_a_source_is_a_change_of_debezium(
    message: Any, is_change: bool
) -> None:
    assert bool(get_format("debezium-json").recognize(_sample(message))) is is_change


def test_a_change_may_have_a_member_named_payload() -> None:
    sample = _sample({"op": "c", "after": {"id": 1}, "payload": {"after": {"x": 1}}})
    assert [field.name for field in get_format("debezium-json").propose_schema(sample).fields] == ["id"]


def test_null_is_no_value_that_is_skipped_also_in_an_array() -> None:
    proposal = get_format("json").propose_schema(_sample([{"a": 1}, None], None, {"a": 2}))
    assert proposal.notes == ("1 messages are arrays, of a row for each element: read them with decode_rows",)
    proposal = get_format("json").propose_schema(_sample([{"a": 1}, 5, None, []], "x", b"{"))
    assert proposal.notes[:2] == (
        "1 messages are not valid JSON and are skipped",
        "3 values are not JSON objects and are skipped",
    )


def test_notes_are_told_once_with_their_columns() -> None:
    notes, others = Notes(), Notes()
    for what, place in (("general", ""), ("x", "a"), ("x", "b"), ("x", "a"), ("y", "a")):
        notes.add(what, place)
    assert notes.texts() == ("general", "a, b: x", "a: y")
    assert notes.without(["a"]).texts() == ("general", "b: x")
    others.add("x", "c")
    others.extend(notes)
    assert others.texts() == ("c, a, b: x", "general", "a: y")


@pytest.mark.parametrize(("count", "shown"), [(8, "a, b, c, d, e, f, g, h"), (10, "a, b, c, d, e, f, g, h and 2 more")])
def test_a_note_names_eight_columns_and_counts_the_others(count: int, shown: str) -> None:
    notes = Notes()
    for name in "abcdefghij"[:count]:
        notes.add("x", name)
    assert notes.texts() == (f"{shown}: x",)


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
