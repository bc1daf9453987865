"""Rows of a table in Spark to the records of its topic.

    columns by name, cast where nothing is lost -> mapInArrow: TableRecords -> key, value
                                                                            -> headers, topic, partition

Rows go through Python batch by batch, in the order of the DataFrame: nothing is shuffled. A `-U` at the end of a batch
is held back for the next one, so that pairs are found across the batches of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.sink.changes import changes_of_rows
from kvformat.ingestion.sink.records import TableRecords, UpsertTableRecords
from kvformat.registry.contract.changelog import UNCHANGED, RowKind
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import EncodeError, SchemaError
from kvformat.registry.contract.normalize_input import normalize_rows
from kvformat.registry.contract.types import arrow_type, nullable
from kvformat.registry.spark.decoded_columns import ROW_KIND, check_errors_split, exact_column
from kvformat.registry.spark.settings import check_time
from kvformat.registry.spark.workers import check_workers, for_workers
from kvformat.registry.table.encode_records import checked_kinds, hold_back

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HEADERS = "array<struct<key:string,value:binary>>"


def records_frame(
    df: DataFrame, table: str, schema: TableSchema, make: Callable[[], TableRecords | UpsertTableRecords]
) -> DataFrame:
    """Return the records of rows: `key`, `value`, `headers`, `topic` and `partition`, as Spark's Kafka sink takes them.

    `df` has the columns of the schema, and may have `row_kind`; without it all rows are inserts. `table` is the name
    for errors. `make` is pickled to the workers. `headers` is NULL without headers, `partition` is NULL if the producer
    hashes the key. Raises `SchemaError` before a job if `df` does not fit; a row that can't be written fails the job
    with `EncodeError`. A row with `unchanged_columns` fails it too, because its old values are unknown.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from kvformat.registry.spark.columns import wire_column
    from kvformat.registry.table.encode_frame import declared_columns

    writer = make()
    fields = schema.row_type().fields
    check_workers(df.sparkSession)
    check_time(fields, df.sparkSession)
    check_errors_split(df)
    columns = declared_columns(df, fields, table=table, primary_key=schema.primary_key)
    typed = zip(columns, fields, strict=True)
    wire = [wire_column(column, field.type).alias(f"c{i}") for i, (column, field) in enumerate(typed)]
    if ROW_KIND in df.columns:
        kind = df.schema[ROW_KIND].dataType
        if not isinstance(kind, T.StringType):
            raise SchemaError(f"column '{ROW_KIND}' must be STRING, not {kind.simpleString()}", field=ROW_KIND)
        wire.append(exact_column(ROW_KIND).alias(ROW_KIND))
    if UNCHANGED in df.columns and UNCHANGED not in schema.names:
        text = (
            f"table {table}: cannot encode a row: the value of a column did not change, and the message has no value: "
        )
        unknown = F.raise_error(F.concat(F.lit(ErrorCode.NULL_VALUE.marked(text)), F.array_join(UNCHANGED, ", ")))
        wire[0] = F.when(F.size(UNCHANGED) > 0, unknown).otherwise(wire[0]).alias("c0")
    result = T.StructType([T.StructField("key", T.BinaryType()), T.StructField("value", T.BinaryType())])
    write = for_workers(RecordStage(table, schema, make).mapped(), df.sparkSession)
    records = df.select(*wire).mapInArrow(write, result)
    headers = [F.struct(F.lit(name).alias("key"), F.lit(value).alias("value")) for name, value in writer.headers]
    return records.select(
        "key",
        "value",
        (F.array(*headers) if headers else F.lit(None)).cast(_HEADERS).alias("headers"),
        F.lit(writer.topic).alias("topic"),
        F.lit(writer.partition).cast("int").alias("partition"),
    )


@dataclass(frozen=True)
class RecordStage:
    """Writes the records of a task in a Python worker; pickled to it.

    An input batch has the columns of the schema in their order, and may have the row kind after them.
    """

    table: str
    schema: TableSchema
    make: Callable[[], TableRecords | UpsertTableRecords]

    def mapped(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function for `mapInArrow`, with the name that Spark shows in plans."""

        def table_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            writer = self.make()
            for batch in hold_back(batches, self._is_open):
                yield self.written(writer, batch)

        return table_records

    def _is_open(self, batch: pa.RecordBatch) -> bool:
        """Return whether the last row is a -U, whose record depends on the next row."""
        if batch.num_columns == len(self.schema.columns):
            return False
        last: str | None = batch.column(batch.num_columns - 1)[-1].as_py()
        return last == RowKind.UPDATE_BEFORE.value

    def written(self, writer: TableRecords | UpsertTableRecords, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return key and value of each change; raises `EncodeError`."""
        names, columns = self.schema.names, batch.columns
        kinds = checked_kinds(columns[len(names)]) if len(columns) > len(names) else None
        for name in self.schema.primary_key:
            if columns[names.index(name)].null_count:
                raise EncodeError(
                    f"table {self.table}: cannot encode a row: column '{name}' of the PRIMARY KEY is NULL",
                    code=ErrorCode.NULL_KEY,
                )
        struct = pa.StructArray.from_arrays(columns[: len(names)], names=list(names))
        rows = normalize_rows(struct, arrow_type(nullable(self.schema.row_type())))
        records = writer.write(changes_of_rows(rows, kinds, writer.same))
        bad = next(filter(None, records.reasons), None)
        if bad is not None:
            text = f"table {self.table}: cannot encode a row: {bad.text}"
            raise EncodeError(text, reason=bad.text, code=bad.code)
        return pa.RecordBatch.from_arrays([records.keys, records.values], ["key", "value"])
