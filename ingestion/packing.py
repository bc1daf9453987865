"""Record batches as cells of bytes, which Spark caches and moves: one cell for many records of a table.

    key, value, topic, ..., table   ->   table, records (Arrow's IPC stream)

Spark copies a cell of some megabytes at the speed of memory. Records that are rows of their own would be converted
between Arrow, rows and cached columns, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

PACKED = "_kvformat_packed"
"""The column of cells."""
_MOST_BYTES = 2**24  # of a cell with more than one record
_MOST_TOGETHER = 2**28  # of cells that are returned at once: Arrow's offsets have 31 bits
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")  # a byte costs more on its way through the JVM
_TOGETHER = 2**20  # bytes of records that are unpacked as one batch, if their cells are smaller


def by_table(
    batch: pa.RecordBatch, names: Sequence[str], tables: pa.Int32Array, kept: pa.BooleanArray
) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Return the records of each table, in the order of the tables' names; the records without a table are last.

    tables: the index of each record's table in `names`, null without a table. kept: which records are returned.
    """
    order = sorted(range(len(names)), key=names.__getitem__)
    ranks = np.empty(len(names) + 1, np.int64)
    ranks[order] = np.arange(len(names))
    ranks[-1] = len(names)
    rows = np.flatnonzero(np.asarray(kept))
    of_rows = ranks[np.asarray(tables.fill_null(-1))[rows]]
    sorting = np.argsort(of_rows, kind="stable")
    if len(rows) < len(batch) or bool((np.diff(of_rows) < 0).any()):
        batch = batch.take(pa.array(rows[sorting]))
    starts = np.searchsorted(of_rows[sorting], np.arange(len(names) + 2)).tolist()
    for place, name in enumerate([*(names[n] for n in order), None]):
        yield name, batch.slice(starts[place], starts[place + 1] - starts[place])


def pack(parts: Iterable[tuple[str | None, pa.RecordBatch]]) -> Iterator[tuple[pa.StringArray, pa.BinaryArray]]:
    """Return tables and cells, in the order of the parts. Empty parts have no cell, and large parts have several."""
    cells = _Cells()
    for name, batch in parts:
        for piece in _pieces(batch):
            cells.add(name, piece)
            if cells.size > _MOST_TOGETHER:
                yield cells.arrays()
                cells = _Cells()
    if cells.size:
        yield cells.arrays()


class _Cells:
    """Cells that are written one after the other to the same memory."""

    def __init__(self) -> None:
        self._names: list[str | None] = []
        self._offsets = [0]
        self._sink = pa.BufferOutputStream()

    @property
    def size(self) -> int:
        """The number of bytes so far."""
        return self._offsets[-1]

    def add(self, name: str | None, records: pa.RecordBatch) -> None:
        """Add a cell."""
        with pa.ipc.new_stream(self._sink, records.schema, options=_COMPRESSED) as stream:
            stream.write_batch(records)
        self._names.append(name)
        self._offsets.append(self._sink.tell())

    def arrays(self) -> tuple[pa.StringArray, pa.BinaryArray]:
        """Return the tables and the cells."""
        buffers = [None, pa.array(self._offsets, pa.int32()).buffers()[1], self._sink.getvalue()]
        return pa.array(self._names, pa.string()), pa.BinaryArray.from_buffers(pa.binary(), len(self._names), buffers)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes > _MOST_BYTES and len(batch) > 1:
        half = len(batch) // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    elif len(batch):
        yield batch


def unpack(cells: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the records of cells, which are the only column of the batches."""
    for batch in cells:
        yield from unpacked_cells(batch.column(0))


def unpacked_cells(cells: Iterable[pa.BinaryScalar]) -> Iterator[pa.RecordBatch]:
    """Return the records of cells. Those of small cells are together in one batch."""
    batches: list[pa.RecordBatch] = []
    for cell in cells:
        with pa.ipc.open_stream(cell.as_buffer()) as stream:
            batches += stream
        if sum(records.nbytes for records in batches) >= _TOGETHER:
            yield from _together(batches)
            batches = []
    yield from _together(batches)


def _together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return batches if len(batches) < 2 else pa.Table.from_batches(batches).combine_chunks().to_batches()
