"""Required fields of proto2 in the values of a map, of which the last one of a key counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import vectors
from tests.support.decoding import decoded
from tests.support.protobuf_types import a_format, descriptor_set, fields

_MINUS_ONE = b"\xff" * 9 + b"\x01"
_LOW_BITS = b"\xff" * 4 + b"\x0f"
_COLUMNS = {"bool": "BOOLEAN", "string": "STRING", "int64": "BIGINT", "sint64": "BIGINT", "uint64": "BIGINT"}


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
