"""The rows of a table from ranges of its topic's partitions: what a task does, and the columns that it gives Spark.

read_range -> scan.header-filter -> RecordInput -> TaskDecoder -> FinalColumns
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.connectors.range_records import RangeRecords, range_rows
from kvformat.registry.contract.errors import OptionError, SchemaError, listed
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.table.decode_stage import DecodeStage, same_type
from kvformat.registry.table.final_columns import FinalColumns, final_array, spark_arrow_schema
from kvformat.registry.table.record_decoder import TaskDecoder
from kvformat.registry.table.record_input import RecordInput

if TYPE_CHECKING:
    from pyspark.sql import types as T

    from kvformat.connectors.data_source.batch import RangesOfTask
    from kvformat.connectors.data_source.options import SourceOptions

_ZONE = "spark.sql.session.timeZone"
_MOST_ERRORS = "ingestion.error-tolerance.max-count"


@dataclass(frozen=True, repr=False)
class PlainRows:
    """Gives Spark the records themselves, with the columns of its own Kafka source."""

    records: RangeRecords
    types: T.StructType

    def read(self, task: RangesOfTask) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's ranges, in order."""
        schema = spark_arrow_schema(self.types)
        for batch in self.records.read(task.ranges, tuple(schema.names)):
            yield pa.RecordBatch.from_arrays(
                [final_array(batch.column(field.name), field.type, "UTC") for field in schema], schema=schema
            )


@dataclass(frozen=True)
class RangeRows:
    """Gives Spark the ranges themselves. skips_lost: whether their reader skips lost records."""

    skips_lost: bool

    def read(self, task: RangesOfTask) -> Iterator[pa.RecordBatch]:
        """Yield the ranges of a task."""
        yield range_rows(task.ranges, skips_lost=self.skips_lost, tasks=task.tasks)


@dataclass(frozen=True, repr=False)
class RecordRows:
    """Reads and decodes ranges in a Python worker; pickled to it.

    zone: the session's time zone; None is that of the running task's session.
    """

    records: RangeRecords
    input: RecordInput
    decoder: TaskDecoder
    final: FinalColumns
    zone: str | None

    def read(self, task: RangesOfTask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's ranges, in order.

        Raises `DecodeError` for a bad record, `DataLossError` for lost records, `ReadError`.
        """
        zone = self.zone or task_zone()
        decoder = self.decoder
        if decoder.computed is not None:
            decoder = replace(decoder, computed=replace(decoder.computed, zone=zone))
        cast = self.final.casts()
        before = 0
        for records in self.records.read(task.ranges, self.input.fields):
            rows = decoder.decoded(self.input.of(records, task.now), before)
            before += len(records)
            if len(rows):
                yield cast(rows, zone)


def task_zone() -> str:
    """Return the time zone of the session whose task is running."""
    from pyspark import TaskContext

    context = TaskContext.get()
    zone = None if context is None else context.getLocalProperty(_ZONE)
    if zone:
        return str(zone)
    # A session without the setting has the time zone of the machine.
    place = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    return os.environ.get("TZ", "") or place or "UTC"


def _records(kv: KeyValueFormat, options: SourceOptions) -> RangeRecords:
    return RangeRecords.of(kv, skips_lost=not options.values["failOnDataLoss"])


def stage_of(kv: KeyValueFormat, options: SourceOptions) -> DecodeStage:
    """Return the decoding of a table's records, as the options want it. Raises `ConfigurationError`."""
    values = options.values
    _check_changes(kv, values)
    most = kv.connector_options("decode")[_MOST_ERRORS]
    if values["errors"] == "raise" and kv.connector_options("decode")["ingestion.ignore-errors"] and most >= 0:
        raise OptionError(
            f"table '{kv.name}': '{_MOST_ERRORS}' counts the bad records of a whole batch, and a task of the data "
            "source knows only its own. Read the table with KafkaTable.from_ddl(...).read(spark), or set the option "
            "to -1, which drops any number of bad records",
            option=_MOST_ERRORS,
        )
    return kv.decode_stage(
        metadata=options.metadata,
        errors=values["errors"],
        row_index=values["row_index"],
        zone=values["time_zone"] or "UTC",
    )


def _check_changes(kv: KeyValueFormat, values: Mapping[str, object]) -> None:
    from kvformat.connectors.table_rows import gives_changes

    if values["changelog"] is False and kv.primary_key:
        raise OptionError(
            f"table '{kv.name}', 'changelog' = 'false': the current row of each key needs an aggregation by Spark, "
            "which a data source can't add. Leave 'changelog' out and reduce the changes, "
            "latest_by_key(df, table) with metadata 'partition,offset' and option row_index, or read the table with "
            "KafkaTable.from_ddl(...).read(spark)",
            option="changelog",
        )
    if values["changelog"]:
        gives_changes(kv, changelog=True, errors="raise", row_index=False)


def rows_of(kv: KeyValueFormat, options: SourceOptions, schema: T.StructType) -> RecordRows | PlainRows | RangeRows:
    """Return the reader of a table's rows, of its records, or of ranges, whose columns are those of `schema`.

    Raises `ConfigurationError`, also for settings that only Java's client has, and `SchemaError` if `schema` has
    columns that the table does not give.
    """
    if options.ranges:
        return RangeRows(skips_lost=not options.values["failOnDataLoss"])
    if options.records:
        return PlainRows(_records(kv, options), schema)
    stage = stage_of(kv, options)
    final = FinalColumns.of_wire(stage) if options.wire else FinalColumns.of(stage)
    final = _selected(kv, final, schema)
    return RecordRows(_records(kv, options), stage.input, stage.decoder, final, options.values["time_zone"])


def _selected(kv: KeyValueFormat, final: FinalColumns, schema: T.StructType) -> FinalColumns:
    """Return the columns of a schema that Spark asks for, which may be fewer or in another order."""
    there = {field.name: (place, field.dataType) for place, field in zip(final.places, final.types.fields, strict=True)}
    places = []
    for field in schema.fields:
        if field.name not in there:
            raise SchemaError(
                f"the schema has column '{field.name}', which table '{kv.name}' does not give: it gives "
                f"{listed(there)}",
                field=field.name,
            )
        place, type_ = there[field.name]
        if not same_type(type_, field.dataType):
            raise SchemaError(
                f"the schema has column '{field.name}' as {field.dataType.simpleString().upper()}, but table "
                f"'{kv.name}' gives {type_.simpleString().upper()}",
                field=field.name,
            )
        places.append(place)
    return FinalColumns(tuple(places), schema)
