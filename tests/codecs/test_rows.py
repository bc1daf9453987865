"""Messages after a frame, whose first bytes `RowReader.read_framed` compares, and batches that are taken and joined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kvformat.codecs._rows import error_count, join_parts, replace_columns, take_messages
from kvformat.codecs.json.read import JsonReader
from kvformat.codecs.json.settings import ReadSettings
from kvformat.registry.contract.batches import DecodedBatch
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


def test_messages_are_taken_with_their_kinds_errors_and_codes() -> None:
    batch = _READER.read(pa.array([b'[{"id":1},{"id":2}]', b'{"id":"x"}', None, b"[]", b"{", b'{"id":3}']))
    batch = replace(batch, row_kinds=pa.array(["-U", "+U", "-D"]))
    whole = _answers(batch)
    assert error_count(batch) == 2
    for places in ([5, 4, 3, 2, 1, 0], [4, 1], [0, 5], [1, 1, 0], []):
        assert _answers(take_messages(batch, np.array(places, np.int64))) == [whole[place] for place in places]
    parts = [(np.array(at), take_messages(batch, np.array(at))) for at in ([4, 0], [1], [5, 2, 3])]
    assert _answers(join_parts(parts)) == whole


def _answers(batch: DecodedBatch) -> list[tuple[Any, ...]]:
    """Return the rows, the kinds, the error and the code of each message."""
    assert batch.row_kinds is not None
    kinds, answers = iter(batch.row_kinds.to_pylist()), []
    for at, rows in enumerate(batch.rows.to_pylist()):
        said = [None if texts is None else texts[at].as_py() for texts in (batch.errors, batch.codes)]
        answers.append((rows, [next(kinds) for _ in rows or ()], *said))
    assert next(kinds, None) is None
    return answers


def test_columns_are_replaced_in_the_rows_of_each_message() -> None:
    batch = _READER.read(pa.array([b'[{"id":1},{"id":2}]', b'{"id":"x"}', None, b'{"id":3}']))
    found = replace_columns(batch, [pa.array(["a", None, "c"])])
    assert found.rows.to_pylist() == [[{"id": "a"}, {"id": None}], None, None, [{"id": "c"}]]
    renamed = replace_columns(batch, [pa.array([7, 8, 9]), pa.array([1.5, 2.5, 3.5])], ("x", "y"))
    assert renamed.rows[0].as_py() == [{"x": 7, "y": 1.5}, {"x": 8, "y": 2.5}]
    assert (renamed.errors, renamed.codes) == (batch.errors, batch.codes)
