"""Parse a batch of csv messages together: numpy splits them into columns, Arrow converts the columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kvformat.codecs._columnar import Mask, MessageBytes
from kvformat.codecs._csv.batch_columns import column_reader
from kvformat.codecs._csv.settings import ReadSettings
from kvformat.codecs._csv.split_batch import Splitter, can_split
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

_LONGEST = 2**20  # bytes; a longer message gains nothing, and the list of its delimiters costs memory
_CHUNK_BYTES, _CHUNK = 2**26, 2**16
_HIGH_BITS = np.uint64(0x8080808080808080)


class CsvBatchReader:
    """Parses the messages of a batch that are formatted in the usual way."""

    def __init__(self, row: FlinkType, settings: ReadSettings) -> None:
        self._kind = arrow_type(nullable(row))
        self._fields = list(self._kind)
        self._splitter = Splitter(settings, len(row.fields)) if can_split(settings) and row.fields else None
        self._columns = [column_reader(field.type, settings) for field in row.fields]

    def read(self, messages: pa.BinaryArray) -> tuple[pa.StructArray, Mask]:
        """Parse messages. Returns a row for every message, and a mask of refused messages, whose rows are undefined."""
        count = len(messages)
        if self._splitter is None or not count:
            return pa.nulls(count, self._kind), np.ones(count, bool)
        parts = [self._read_chunk(messages[a:b], self._splitter) for a, b in _chunks(messages)]
        if len(parts) == 1:
            return parts[0]
        return pa.concat_arrays([rows for rows, _ in parts]), np.concatenate([refused for _, refused in parts])

    def _read_chunk(self, messages: pa.BinaryArray, splitter: Splitter) -> tuple[pa.StructArray, Mask]:
        sizes = np.diff(_offsets(messages))
        wanted: Mask = (sizes > 0) & (sizes <= _LONGEST)
        if messages.null_count:
            wanted &= np.asarray(messages.is_valid())
        if wanted.all():
            return self._read_rows(messages, splitter)
        every = np.ones(len(messages), bool)
        rows = np.flatnonzero(wanted)
        if not len(rows):
            return pa.nulls(len(messages), self._kind), every
        taken, every[rows] = self._read_rows(messages.take(pa.array(rows)), splitter)
        places = np.zeros(len(messages), np.int64)
        places[rows] = np.arange(len(rows))
        return taken.take(pa.array(places)), every

    def _read_rows(self, messages: pa.BinaryArray, splitter: Splitter) -> tuple[pa.StructArray, Mask]:
        batch = MessageBytes(messages)
        columns = splitter.split(batch, _malformed(batch, messages))
        refused = columns.refused
        present = ~refused if refused.any() else None
        arrays = []
        for index, column in enumerate(self._columns):
            values, bad = column.convert(columns.texts(index), present)
            arrays.append(values)
            if bad is not None:
                refused = refused | bad
        return pa.StructArray.from_arrays(arrays, fields=self._fields), refused


def _offsets(messages: pa.BinaryArray) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.frombuffer(messages.buffers()[1], np.int32)[messages.offset :][: len(messages) + 1]


def _chunks(messages: pa.BinaryArray) -> list[tuple[int, int]]:
    """Split a batch into slices with a limited number of messages and bytes. Returns start and stop of each slice."""
    offsets = _offsets(messages)
    chunks, start = [], 0
    while start < len(messages):
        stop = int(np.searchsorted(offsets, int(offsets[start]) + _CHUNK_BYTES, "right")) - 1
        stop = min(max(stop, start + 1), start + _CHUNK, len(messages))
        chunks.append((start, stop))
        start = stop
    return chunks


def _malformed(batch: MessageBytes, messages: pa.BinaryArray) -> Mask:
    """Return a mask of the messages that are not UTF-8."""
    found = np.zeros(len(messages), bool)
    whole = batch.bytes[: len(batch.bytes) // 8 * 8].view(np.uint64)
    if not np.bitwise_or.reduce(whole) & _HIGH_BITS:
        return found
    if not _is_utf8(batch.raw) or (batch.byte(batch.start) & 0xC0 == 0x80).any():
        found[:] = [not _is_utf8(message) for message in messages.to_pylist()]
    return found


def _is_utf8(data: bytes | bytearray) -> bool:
    bounds = pa.py_buffer(np.array([0, len(data)], np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, bounds, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
