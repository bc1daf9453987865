"""Types that Protobuf calls compatible: messages of the old and the new schema in one column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from kvformat.registry.contract.errors import SchemaError

_TEXT = """syntax = "proto3"; import "google/protobuf/wrappers.proto"; message M { %s a = 1; }
message Point { int32 x = 1; } message Wide { int64 x = 1; }
message Pair { string key = 1; int64 value = 2; } enum Color { RED = 0; BLUE = 1; }"""
_INT, _LONG, _NEGATIVE = "0805", "08" + "80" * 5 + "01", "08fbffffffffffffffff01"


def _folder(folder: Path, *kinds: str, text: str = _TEXT) -> Path:
    for number, kind in enumerate(kinds, 1):
        (folder / f"{number}.proto").write_text(text % kind)
    return folder


def _read(folder: Path, column: str, *messages: str, **options: str) -> list[Any]:
    """Read messages, the first of schema 1, the second of schema 2, and so on. An error is a string."""
    fmt = get_format("proto-registry", {"url": f"file:{folder}", **options})
    framed = [number.to_bytes(5, "big") + b"\0" + bytes.fromhex(m) for number, m in enumerate(messages, 1)]
    batch = fmt.decode_batch(pa.array(framed, pa.binary()), f"a {column}")
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    return [error or rows[0]["a"] for rows, error in zip(batch.rows.to_pylist(), errors, strict=True)]


@pytest.mark.parametrize(
    ("old", "new", "column", "messages", "values"),
    [
        ("int32", "int64", "BIGINT", (_NEGATIVE, _LONG), [-5, 2**35]),
        ("int32", "int64", "INT", (_NEGATIVE, _NEGATIVE), [-5, -5]),
        ("int32", "int64", "SMALLINT", (_INT, _NEGATIVE), [5, -5]),
        ("sint32", "sint64", "BIGINT", ("0809", "0809"), [-5, -5]),
        ("sint32", "sint64", "TINYINT", ("0809", "0809"), [-5, -5]),
        ("uint32", "uint64", "BIGINT", ("08ffffffff0f", "08ffffffff0f"), [2**32 - 1] * 2),
        ("uint32", "int64", "BIGINT", (_INT, _NEGATIVE), [5, -5]),
        ("sfixed32", "sfixed64", "BIGINT", ("0dfbffffff", "09fbffffffffffffff"), [-5, -5]),
        ("fixed32", "fixed64", "INT", ("0d05000000", "090500000000000000"), [5, 5]),
        ("float", "double", "DOUBLE", ("0d0000c03f", "09000000000000f83f"), [1.5, 1.5]),
        ("bool", "int32", "INT", ("0801", _INT), [1, 5]),
        ("bool", "int64", "BIGINT", ("0801", ""), [1, 0]),
        ("int32", "bool", "BOOLEAN", (_INT, "0801"), [True, True]),
        ("sint64", "bool", "BOOLEAN", ("0809", ""), [True, False]),
        ("uint64", "bool", "BOOLEAN", ("", "0801"), [False, True]),
        ("Color", "int32", "INT", ("0801", _INT), [1, 5]),
        ("Color", "int64", "BIGINT", ("0801", _LONG), [1, 2**35]),
        ("string", "bytes", "BYTES", ("0a0178", "0a01ff"), [b"x", b"\xff"]),
        ("bytes", "string", "STRING", ("0a0178", "0a0178"), ["x", "x"]),
        ("Point", "bytes", "BYTES", ("0a020805", "0a020805"), [b"\x08\x05"] * 2),
        ("string", "repeated string", "ARRAY<STRING>", ("0a0178", "0a01780a0179"), [["x"], ["x", "y"]]),
        ("string", "repeated string", "STRING", ("0a0178", "0a0179"), ["x", "y"]),
        ("int32", "repeated int32", "ARRAY<INT>", (_INT, "0a020506"), [[5], [5, 6]]),
        ("int32", "repeated int64", "ARRAY<BIGINT>", (_NEGATIVE, "0a020506"), [[-5], [5, 6]]),
        ("int32", "repeated int64", "INT", (_INT, "0a0106"), [5, 6]),
        ("string", "repeated string", "ARRAY<STRING>", ("", ""), [[], []]),
        ("string", "repeated string", "STRING", ("", ""), ["", None]),
        ("Point", "repeated Point", "ARRAY<ROW<x INT>>", ("0a020805", "0a020805"), [[{"x": 5}]] * 2),
        ("Point", "repeated Wide", "ROW<x BIGINT>", ("0a020805", "0a020805"), [{"x": 5}] * 2),
        ("Point", "Wide", "ROW<x BIGINT>", ("0a020805", "0a0708808080808001"), [{"x": 5}, {"x": 2**35}]),
        ("repeated Point", "repeated Wide", "ARRAY<ROW<x BIGINT>>", ("0a020805", "0a020805"), [[{"x": 5}]] * 2),
        (
            "google.protobuf.Int32Value",
            "google.protobuf.Int64Value",
            "BIGINT",
            ("0a020805", "0a0708808080808001"),
            [5, 2**35],
        ),
        ("google.protobuf.Int32Value", "google.protobuf.Int64Value", "INT", ("0a020805", ""), [5, None]),
        ("google.protobuf.StringValue", "google.protobuf.BytesValue", "BYTES", ("0a030a0178",) * 2, [b"x", b"x"]),
        ("google.protobuf.FloatValue", "google.protobuf.DoubleValue", "DOUBLE", ("0a050d0000c03f", ""), [1.5, None]),
        ("int32", "google.protobuf.Int32Value", "BIGINT", (_INT, "0a020805"), [5, 5]),
        ("optional int32", "int64", "BIGINT", ("", ""), [None, 0]),
        (
            "map<string, int32>",
            "map<string, int64>",
            "MAP<STRING, BIGINT>",
            ("0a050a01781005", "0a050a01781005"),
            [[("x", 5)]] * 2,
        ),
        (
            "map<string, Point>",
            "map<string, Wide>",
            "MAP<STRING, ROW<x BIGINT>>",
            ("0a070a017812020805",) * 2,
            [[("x", {"x": 5})]] * 2,
        ),
        (
            "map<string, int32>",
            "map<string, int32>",
            "ARRAY<ROW<`value` BIGINT, `key` STRING>>",
            ("0a050a01781005",) * 2,
            [[{"value": 5, "key": "x"}]] * 2,
        ),
    ],
)
def test_messages_of_both_schemas_are_read(
    old: str, new: str, column: str, messages: tuple[str, str], values: list[Any], tmp_path: Path
) -> None:
    assert _read(_folder(tmp_path, old, new), column, *messages) == values


@pytest.mark.parametrize(
    ("kind", "column", "message", "reason"),
    [
        ("int64", "INT", _LONG, "field 'a'"),
        ("int64", "TINYINT", "08ac02", "field 'a'"),
        ("uint64", "INT", _NEGATIVE, "field 'a'"),
        ("uint32", "TINYINT", "08ffffffff0f", "field 'a'"),
        ("bytes", "STRING", "0a01ff", "not UTF-8"),
        ("repeated string", "STRING", "0a01780a0179", "2 values of a repeated string, but the column has one"),
        ("repeated int32", "INT", "0a020506", "Declare it as ARRAY<INT>"),
        ("google.protobuf.Int64Value", "INT", "0a0708808080808001", "field 'a'"),
    ],
)
def test_a_value_that_the_column_does_not_have_is_an_error_of_its_message(
    kind: str, column: str, message: str, reason: str, tmp_path: Path
) -> None:
    before, found, after = _read(_folder(tmp_path, *[kind] * 3), column, "", message, "")
    assert (before, after) == ((None, None) if "repeated" in kind or "Value" in kind else (before, before))
    assert reason in found


@pytest.mark.parametrize("syntax", ['syntax = "proto2"', 'syntax = "proto3"', 'edition = "2023"'])
@pytest.mark.parametrize(
    ("kind", "column", "message"),
    [
        ("repeated bytes", "ARRAY<STRING>", "0a01780a01ff"),
        ("repeated bytes", "STRING", "0a01ff"),
        ("map<string, bytes>", "MAP<STRING, STRING>", "0a060a01781201ff"),
        ("bytes", "STRING", "0a01ff"),
    ],
)
def test_bytes_in_a_string_column_must_be_utf8_in_any_syntax(
    syntax: str, kind: str, column: str, message: str, tmp_path: Path
) -> None:
    label = "optional " if "proto2" in syntax and " " not in kind else ""
    found = _read(
        _folder(tmp_path, kind, kind, text=f"{syntax}; message M {{ {label}%s a = 1; }}"), column, "", message
    )
    assert "not UTF-8" in str(found[1])


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("string", "INT"),
        ("double", "FLOAT"),
        ("int32", "STRING"),
        ("Point", "INT"),
        ("fixed32", "BOOLEAN"),
        ("string", "BOOLEAN"),
    ],
)
def test_other_types_are_an_error(kind: str, column: str, tmp_path: Path) -> None:
    assert "can't be read" in _read(_folder(tmp_path, kind), column, "")[0]


@pytest.mark.parametrize(
    ("kind", "column", "told"),
    [
        ("repeated string", "MAP<STRING, STRING>", "A repeated string is read as: ARRAY (column 'a')"),
        ("repeated Point", "MULTISET<INT>", "LogicalType: MULTISET<INT>. It should be ArrayType (column 'a')"),
        ("map<string, int32>", "INT", "LogicalType: INT. It should be MapType (column 'a')"),
    ],
)
def test_the_error_of_a_repeated_field_has_the_type_of_the_column(
    kind: str, column: str, told: str, tmp_path: Path
) -> None:
    """Only a single value of the field's own type is read from a repeated field, too."""
    assert told in _read(_folder(tmp_path, kind), column, "")[0]


def test_a_group_ends_at_its_number_also_if_a_field_in_it_has_that_number(tmp_path: Path) -> None:
    text = 'syntax = "proto2"; message M { optional group A = 1 { optional %s x = 1; } optional int32 y = 2; }'
    fmt = get_format("proto-registry", {"url": f"file:{_folder(tmp_path, 'int32', text=text)}"})
    framed = b"\0\0\0\0\1\0" + bytes.fromhex("0b08050c1007")
    batch = fmt.decode_batch(pa.array([framed, framed[:-2]], pa.binary()), "a ROW<x INT>, y INT")
    assert batch.errors is None
    assert batch.rows.to_pylist() == [[{"a": {"x": 5}, "y": 7}], [{"a": {"x": 5}, "y": None}]]


def test_two_columns_of_one_message_type_have_different_types(tmp_path: Path) -> None:
    text = 'syntax = "proto3"; message M { %s a = 1; P b = 2; message P { int32 x = 1; } message a { int32 x = 1; } }'
    fmt = get_format("proto-registry", {"url": f"file:{_folder(tmp_path, 'P', text=text)}"})
    message = b"\0\0\0\0\1\0" + bytes.fromhex("0a02080512020806")
    rows = fmt.decode_batch(pa.array([message]), "a ROW<x BIGINT>, b ROW<x BOOLEAN>").rows.to_pylist()
    assert rows == [[{"a": {"x": 5}, "b": {"x": True}}]]


def test_a_key_may_come_in_several_messages_and_once_in_each(tmp_path: Path) -> None:
    fmt = get_format("proto-registry", {"url": f"file:{_folder(tmp_path, 'repeated Pair')}"})
    one = b"\0\0\0\0\1\0" + bytes.fromhex("0a050a01781005")
    batch = fmt.decode_batch(pa.array([one, one, one + one[6:], one]), "a MAP<STRING, BIGINT>")
    good = [{"a": [("x", 5)]}]
    assert batch.rows.to_pylist() == [good, good, None, good]


@pytest.mark.parametrize(
    ("kind", "column", "hint"),
    [
        ("int64", "INT", "Declare it as BIGINT"),
        ("repeated int64", "ARRAY<INT>", "Declare it as BIGINT"),
        ("map<string, int64>", "MAP<STRING, INT>", "Declare it as BIGINT"),
        ("repeated Pair", "MAP<STRING, INT>", "Declare it as BIGINT"),
        ("google.protobuf.Int64Value", "INT", "Declare it as BIGINT"),
        ("Wide", "ROW<x INT>", "Declare it as BIGINT"),
        ("int32", "BIGINT", "is read as: INT"),
        ("float", "DOUBLE", "Declare it as the type of the field"),
        ("repeated string", "STRING", "Declare it as an ARRAY"),
        ("bytes", "STRING", "is read as: BINARY"),
    ],
)
def test_writing_needs_the_type_of_the_field(kind: str, column: str, hint: str, tmp_path: Path) -> None:
    options = {"url": "mock://evolution", "subject": "s", "schema": _TEXT % kind}
    fmt = get_format("proto-registry", options)
    row = fmt.decode_batch(pa.array([None], pa.binary()), f"a {column}").rows.type.value_type
    with pytest.raises(SchemaError, match=hint):
        fmt.encode_batch(pa.array([{"a": None}], row), f"a {column}")
