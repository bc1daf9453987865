"""Messages after a frame: `RowReader.read_framed` compares the first bytes of all frames while it reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvformat.codecs.json.read import JsonReader
from kvformat.codecs.json.settings import ReadSettings
from kvformat.registry.contract.ddl import parse_schema

_READER = JsonReader(parse_schema("id INT"), ReadSettings())


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_each_byte_of_a_frames_head_is_compared(size: int) -> None:
    head = bytes(range(7, 7 + size))
    frame = head + b"more"
    found, alike = _READER.read_framed(pa.array([frame + b'{"id":1}', None, frame + b'{"id":2}']), len(frame), head)
    assert (found.rows.to_pylist(), alike) == ([[{"id": 1}], None, [{"id": 2}]], True)
    for place in range(size):
        other = bytearray(frame)
        other[place] ^= 0x80
        messages = pa.array([frame + b'{"id":1}', bytes(other) + b'{"id":2}'])
        found, alike = _READER.read_framed(messages, len(frame), head)
        assert (found.rows.to_pylist(), alike) == ([[{"id": 1}], None], False), place


def test_bytes_of_a_frame_after_its_head_are_not_compared() -> None:
    messages = pa.array([b'\0abcd{"id":1}', b'\0efgh{"id":2}', b"\0ijk"])
    found, alike = _READER.read_framed(messages[:2], 5, b"\0")
    assert (found.rows.to_pylist(), alike) == ([[{"id": 1}], [{"id": 2}]], True)
    found, alike = _READER.read_framed(messages, 5, b"\0")  # the last message ends in its frame
    assert (found.rows.to_pylist(), alike) == ([[{"id": 1}], [{"id": 2}], None], False)
