"""The rows of one table in a batch, packed: what decoding and fitting give, with the number of bad records.

    one Python stage -> _kvformat_packed, _kvformat_bad -> cached -> rows, each time that they are read

A row has the columns of its table, its kind and index, the position and timestamp of its record, and an error. A bad
record is one line with null columns. Cells of bytes are cached, because Spark takes longer to make its own columns of
rows than Python to return them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.ingestion.packing import PACKED, pack, unpack
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.schemas.types import STRING, parse_column_type
from kvformat.registry.contract.types import FlinkType, spark_type
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column
from kvformat.registry.streams.change_columns import ADDED_KINDS
from kvformat.registry.streams.delta.matching import last_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_ERROR = "_kvformat_error"
ERROR_FIELDS = ("part", "reason", "code")
POSITION = ("_kvformat_topic", "_kvformat_partition", "_kvformat_offset")
"""The columns of a row that say where its record is."""
TIMESTAMP = "_kvformat_timestamp"
"""The timestamp of a row's record, in milliseconds (BIGINT)."""
METADATA = "_kvformat_metadata_"
"""The beginning of the name of a metadata column beside the records."""
_BAD = "_kvformat_bad"  # how many bad records the batch of a cell has
_Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, eq=False)
class DecodedRows:
    """Rows of a source table in packed lines. own: the formats' own columns, which are after those of the table."""

    table: TableId
    lines: DataFrame
    columns: TableSchema
    own_columns: Mapping[str, str]

    @classmethod
    def of(
        cls,
        table: TableId,
        records: DataFrame,
        decoded: Callable[[_Batches], _Batches],
        columns: TableSchema,
        own_columns: Mapping[str, str],
    ) -> DecodedRows:
        """Return the rows that a Python stage makes. `decoded` returns columns with `wire_names`."""
        from pyspark.sql import types as T

        stage = T.StructType([T.StructField(PACKED, T.BinaryType()), T.StructField(_BAD, T.LongType())])
        return cls(table, records.mapInArrow(_packing(decoded), stage), columns, own_columns)

    def rows(self) -> DataFrame:
        """Return the rows and the lines with errors, with the names and types of the table."""
        rows = self.lines.select(PACKED).mapInArrow(_unpack_rows, _wire(self.columns, self.own_columns))
        columns = []
        for place, column in enumerate(self.columns.columns):
            wire, final = wire_type(column.type), _final_type(column.type)
            values = exact_column(f"c{place}")
            columns.append((values if wire == final else values.cast(final)).alias(column.name))
        count = len(self.columns.columns)
        columns += [exact_column(f"c{count + n}").alias(name) for n, name in enumerate(self.own_columns)]
        return rows.select(*columns, ROW_KIND, ROW_INDEX, *POSITION, TIMESTAMP, ROW_ERROR)


def with_bad_records(decoded: Sequence[DecodedRows]) -> list[DecodedRows]:
    """Return those that have bad records, by one job, which makes the rows of all."""
    from pyspark.sql import functions as F

    frames = [rows.lines.select(F.lit(n).alias("n"), _BAD) for n, rows in enumerate(decoded)]
    if not frames:
        return []
    lines = united(frames).where(exact_column(_BAD) > 0).select("n").collect()
    return [decoded[n] for n in sorted({line["n"] for line in lines})]


def united(frames: list[DataFrame]) -> DataFrame:
    """Return the rows of all frames. Pairs are united, because Spark analyzes a chain of unions in quadratic time."""
    while len(frames) > 1:
        pairs = [frames[place : place + 2] for place in range(0, len(frames), 2)]
        frames = [reduce(lambda frame, other: frame.unionByName(other), pair) for pair in pairs]
    return frames[0]


def _packing(decoded: Callable[[_Batches], _Batches]) -> Callable[[_Batches], _Batches]:
    """Return a stage that packs the rows of another one, with the name of that one."""

    def pack_decoded(batches: _Batches) -> _Batches:
        for rows in decoded(batches):
            bad = len(rows) - rows.column(ROW_ERROR).null_count
            for _, cells in pack([(None, rows)]):
                yield pa.RecordBatch.from_arrays([cells, pa.repeat(pa.scalar(bad), len(cells))], [PACKED, _BAD])

    pack_decoded.__name__ = decoded.__name__
    return pack_decoded


def _unpack_rows(batches: _Batches) -> _Batches:
    return unpack(batches)


# --- the last row of each key ----------------------------------------------------------------------------------


def in_order(rows: pa.Table, names: Sequence[str] = (*POSITION, ROW_INDEX)) -> pa.Table:
    """Return rows sorted by columns without nulls. Rows of one task are sorted already, so that is looked at first."""
    is_same, is_sorted = np.ones(max(rows.num_rows - 1, 0), np.bool_), True
    for name in names:
        column = rows.column(name).combine_chunks()
        if pa.types.is_string(column.type):
            encoded = column.dictionary_encode()
            ranks = np.argsort(np.argsort(np.asarray(encoded.dictionary.to_pylist(), object)))
            numbers = ranks[np.asarray(encoded.indices)]
        else:
            numbers = np.asarray(column)
        is_sorted &= not (is_same & (numbers[:-1] > numbers[1:])).any()
        is_same &= numbers[:-1] == numbers[1:]
    return rows if is_sorted else rows.sort_by([(name, "ascending") for name in names])


def latest_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the last row of each key with `row_kind` '+U' or '-D', as `latest_by_key` does; without keys all rows."""
    if not keys:
        return rows.drop_columns([ROW_KIND])
    rows = last_rows(rows, keys)
    is_row = pc.is_in(rows.column(ROW_KIND), value_set=pa.array(ADDED_KINDS))
    return rows.set_column(rows.column_names.index(ROW_KIND), ROW_KIND, pc.if_else(is_row, "+U", "-D"))


# --- columns of the stage ------------------------------------------------------------------------------------


def wire_names(count: int) -> list[str]:
    """Return the names of the stage's columns: `count` columns of the table and its formats, then those of each row."""
    return [*(f"c{n}" for n in range(count)), ROW_KIND, ROW_INDEX, *POSITION, TIMESTAMP, ROW_ERROR]


def error_type() -> pa.DataType:
    """Return the type of an error."""
    return pa.struct([(name, pa.string()) for name in ERROR_FIELDS])


def wire_type(t: FlinkType) -> Any:
    """Return the Spark type of a column between Spark and Python."""
    return spark_type(STRING if t.root in ("TIMESTAMP_TZ", "VARIANT") else t, wire=True)


def _final_type(t: FlinkType) -> Any:
    return spark_type(STRING if t.root in ("TIMESTAMP_TZ", "VARIANT") else replace(t, nullable=True))


def _wire(schema: TableSchema, own_columns: Mapping[str, str]) -> Any:
    """Return the Spark type of the rows."""
    from pyspark.sql import types as T

    types = [wire_type(c.type) for c in schema.columns]
    types += [spark_type(parse_column_type(text), wire=True) for text in own_columns.values()]
    names = wire_names(len(types))
    return T.StructType([T.StructField(n, t) for n, t in zip(names, [*types, *types_of_rows()], strict=True)])


def types_of_rows() -> list[Any]:
    """Return the Spark types of the columns that each row has after those of its table, from ROW_KIND to ROW_ERROR."""
    from pyspark.sql import types as T

    error = T.StructType([T.StructField(name, T.StringType()) for name in ERROR_FIELDS])
    return [T.StringType(), T.IntegerType(), T.StringType(), T.IntegerType(), T.LongType(), T.LongType(), error]
