"""Rows of a DataFrame: to the driver as Arrow arrays if they are few, else to files that Spark's tasks write.

A task returns its rows, packed in cells, if they are small. If they are not, it writes them to files of the table and
returns their names, or returns nothing but that they are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kvformat.registry.streams.delta.files import DataFile, conformed, written_batches
from kvformat.registry.streams.delta.storage import TableStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LEAST = 2**20  # bytes that a task may return, however many tasks there are
_RESULT = pa.schema([("rows", pa.binary()), ("name", pa.string()), ("size", pa.int64()), ("stats", pa.string())])
_DDL = "rows BINARY, name STRING, size BIGINT, stats STRING"
_Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Transferred:
    """The results of tasks: rows, and files with further rows. too_many: some rows are in neither."""

    rows: pa.Table
    files: tuple[DataFile, ...] = ()
    too_many: bool = False


def transferred(rows: DataFrame, schema: pa.Schema, most_bytes: int, storage: TableStorage | None) -> Transferred:
    """Run the job that makes the rows. Above `most_bytes`, tasks write files to `storage`, or return no rows.

    `schema` has all columns of the rows; files have its columns, too.
    """
    tasks = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    stage = _stage(rows.columns, schema, max(_LEAST, most_bytes // tasks), storage)
    numbered = rows.toDF(*(f"c{n}" for n in range(len(rows.columns))))  # mapInArrow takes no names with dots
    lines = numbered.mapInArrow(stage, _DDL).collect()
    batches: list[pa.RecordBatch] = []
    files = []
    for line in lines:
        if line["rows"] is not None:
            with pa.ipc.open_stream(pa.py_buffer(line["rows"])) as stream:
                batches += stream
        elif line["name"]:
            files.append(DataFile(line["name"], line["size"], None, stats=line["stats"]))
    too_many = any(line["rows"] is None and not line["name"] for line in lines)
    return Transferred(pa.Table.from_batches(batches, schema), tuple(files), too_many)


def _stage(
    names: list[str], schema: pa.Schema, most_bytes: int, storage: TableStorage | None
) -> Callable[[_Batches], _Batches]:
    def transfer_rows(numbered: _Batches) -> _Batches:
        batches = (batch.rename_columns(names) for batch in numbered)
        first: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            first.append(batch)
            size += batch.nbytes
            if size > most_bytes:
                yield from _files(storage, schema, _joined(first, batches))
                return
        if sum(batch.num_rows for batch in first):
            sink = pa.BufferOutputStream()
            rows = conformed(pa.Table.from_batches(first), schema)
            with pa.ipc.new_stream(sink, schema) as stream:
                stream.write_table(rows)
            yield _line(rows=sink.getvalue().to_pybytes())

    return transfer_rows


def _joined(first: list[pa.RecordBatch], others: _Batches) -> _Batches:
    while first:
        yield first.pop(0)
    yield from others


def _files(storage: TableStorage | None, schema: pa.Schema, batches: _Batches) -> _Batches:
    if storage is None:
        yield _line(name="")
        return
    for file in written_batches(storage, schema, batches):
        yield _line(name=file.name, size=file.size, stats=file.stats)


def _line(**values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([values], schema=_RESULT)
