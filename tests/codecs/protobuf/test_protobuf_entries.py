"""The order of entries of maps when they are written, and required fields of proto2 in their values and in oneofs."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from kvformat.registry import get_format
from tests.support import vectors
from tests.support.decoding import decoded
from tests.support.protobuf_types import a_format, class_of, descriptor_set, fields

_MINUS_ONE = b"\xff" * 9 + b"\x01"
_LOW_BITS = b"\xff" * 4 + b"\x0f"
_COLUMNS = {"bool": "BOOLEAN", "string": "STRING", "int64": "BIGINT", "sint64": "BIGINT", "uint64": "BIGINT"}


@pytest.mark.parametrize("keys", ["aba", "bab", "aab"])
@pytest.mark.parametrize("name", ["protobuf", "proto-registry"])
def test_all_entries_of_a_key_are_written_in_their_order(name: str, keys: str, tmp_path: Path) -> None:
    entry = fields("string key = 1; int32 value = 2;")
    file = f"""name: "m.proto" syntax: "proto3" message_type {{ name: "M" {fields("repeated .M.PEntry p = 1;")}
        nested_type {{ name: "PEntry" options {{ map_entry: true }} {entry} }} }}"""
    registry = get_format("proto-registry", {"url": "mock://entries", "subject": "s"})
    format = a_format(tmp_path, "M", file) if name == "protobuf" else registry
    maps = pa.array([None, [*zip(keys, (1, 2, 3), strict=True)]], pa.map_(pa.string(), pa.int32()))
    written = format.encode_batch(pa.StructArray.from_arrays([maps], ["p"]), "p MAP<STRING, INT>").messages[1].as_py()
    entries = [b"\x0a\x05\x0a\x01" + key.encode() + b"\x10" + bytes([value]) for value, key in enumerate(keys, 1)]
    assert written.endswith(b"".join(entries))


@pytest.mark.parametrize("lacks_first", [True, False])
@pytest.mark.parametrize(
    ("kind", "key", "again", "same"),
    [
        ("int32", _MINUS_ONE, _LOW_BITS, True),
        ("uint32", _MINUS_ONE, _LOW_BITS, True),
        ("sint32", b"\x01", b"\x81\x80\x80\x80\x10", True),
        ("sint32", b"\x01", b"\x02", False),
        ("int64", _MINUS_ONE, _LOW_BITS, False),
        ("uint64", _MINUS_ONE, _LOW_BITS, False),
        ("sint64", b"\x01", b"\x81\x00", True),
        ("sint64", b"\x01", b"\x81\x80\x80\x80\x10", False),
        ("bool", b"\x01", b"\x85\x01", True),
        ("bool", b"\x00", b"\x01", False),
        ("string", b"\x01a", b"\x81\x00a", True),
        ("string", b"\x01a", b"\x02aa", False),
    ],
)
def test_a_later_entry_of_the_same_key_has_the_fields_that_an_earlier_one_lacks(
    kind: str, key: bytes, again: bytes, same: bool, lacks_first: bool, tmp_path: Path
) -> None:
    """Whatever bytes the key has in each of them."""
    entry = fields(f"{kind} key = 1; .R value = 2;")
    file = f"""name: "m.proto" message_type {{ name: "M" {fields("repeated .M.PEntry p = 1;")}
        nested_type {{ name: "PEntry" options {{ map_entry: true }} {entry} }} }}
        message_type {{ name: "R" {fields("required int32 x = 1;")} }}"""
    tag = b"\x0a" if kind == "string" else b"\x08"
    values = [b"\x12\x00", b"\x12\x02\x08\x01"] if lacks_first else [b"\x12\x02\x08\x01", b"\x12\x00"]
    entries = [tag + written + value for written, value in zip((key, again), values, strict=True)]
    message = b"".join(b"\x0a" + bytes([len(each)]) + each for each in entries)
    good = same and lacks_first
    assert vectors.protobuf_class(descriptor_set(file), "M").FromString(message).IsInitialized() == good
    columns = f"p MAP<{_COLUMNS.get(kind, 'INT')}, ROW<x INT>>"
    batch = decoded(a_format(tmp_path, "M", file), [message, message[: 2 + len(entries[0])]], columns)
    assert [error is None for error in batch.errors.to_pylist()] == [good, not lacks_first]


def test_only_the_last_member_of_a_oneof_must_have_its_required_fields(tmp_path: Path) -> None:
    """As in Google's library, for all messages of up to three members. An unknown value of an enum is none of them."""
    text = """syntax = "proto2"; message M { oneof pick { R a = 1; R b = 2; int32 c = 3; E e = 4;
        group G = 5 { required int32 x = 1; } } message R { required int32 x = 1; } enum E { ZERO = 0; } }"""
    (tmp_path / "1.proto").write_text(text)
    parts = list(
        map(bytes.fromhex, ("0a00", "0a020801", "1200", "12020801", "1801", "2000", "2009", "2b2c", "2b08012c"))
    )
    messages = [b"".join(some) for count in range(4) for some in itertools.product(parts, repeat=count)]
    format = get_format("proto-registry", {"url": f"file:{tmp_path}"})
    framed = pa.array([b"\0\0\0\0\1\0" + message for message in messages])
    peer = class_of(text)
    good = [peer.FromString(message).IsInitialized() for message in messages]
    assert {True, False} == set(good)
    for columns in ("a ROW<x INT>, b ROW<x INT>, c INT, e STRING, g ROW<x INT>", "a ROW<x INT>", "c INT"):
        errors = format.decode_batch(framed, columns).errors.to_pylist()
        assert [error is None for error in errors] == good


def test_each_of_many_required_fields_is_missed(tmp_path: Path) -> None:
    """Google's package takes 63 in a message."""
    numbers = range(1, 64)
    text = " ".join(f"required int32 f{number} = {number};" for number in numbers)
    (tmp_path / "1.proto").write_text(f'syntax = "proto2"; message M {{ {text} }}')
    parts = [bytes([number << 3 & 127 | 128, number >> 4, 5]) for number in numbers]
    messages = [b"".join(parts), b"".join(parts[1:]), b"".join(parts[:-1]), b"".join(reversed(parts))]
    format = get_format("proto-registry", {"url": f"file:{tmp_path}"})
    batch = format.decode_batch(pa.array([b"\0\0\0\0\1\0" + message for message in messages]), "f2 INT")
    lacks = [f"Message missing required fields: f{number}" for number in (1, 63)]
    assert batch.errors.to_pylist() == [None, *lacks, None]


_WRITTEN = """syntax = "proto2"; message M { optional int32 b = 2; optional int32 a = 1;
    repeated int32 n = 3 [packed = true]; oneof pick { int32 p = 4; string q = 5; }
    repeated group G = 6 { optional int32 x = 1; } repeated R r = 7; message R { required int32 x = 1; } }"""


@pytest.mark.parametrize(
    ("columns", "row", "written"),
    [
        ("b INT, a INT", {"b": 1, "a": 2}, "0802 1001"),
        ("n ARRAY<INT>", {"n": [1, 2]}, "1a020102"),
        ("n ARRAY<INT>", {"n": []}, ""),
        ("p INT, q STRING", {"p": 1, "q": "x"}, "2a0178"),
        ("q STRING, p INT", {"q": "x", "p": 1}, "2001"),
        ("q STRING, p INT", {"q": "x", "p": None}, "2a0178"),
        ("g ARRAY<ROW<x INT>>", {"g": [{"x": 1}, None]}, "33080134 3334"),
        ("r ARRAY<ROW<x INT>>", {"r": [{"x": 1}]}, "3a020801"),
        ("r ARRAY<ROW<x INT>>", {"r": [{"x": 1}, None]}, "Message missing required fields: r.x"),
    ],
)
def test_fields_are_written_by_number_and_the_last_column_of_a_oneof_counts(
    columns: str, row: dict[str, object], written: str
) -> None:
    format = get_format("proto-registry", {"url": "mock://written", "subject": "s", "schema": _WRITTEN})
    kind = format.decode_batch(pa.array([None], pa.binary()), columns).rows.type.value_type
    batch = format.encode_batch(pa.array([row], kind), columns)
    if "missing" in written:
        assert (batch.messages.to_pylist(), batch.errors.to_pylist()) == ([None], [written])
    else:
        assert batch.messages.to_pylist() == [b"\0\0\0\0\1\0" + bytes.fromhex(written)]
