"""The rows of a table's topic as Arrow batches, without Spark: for `KafkaTable.read_arrow`.

OffsetPlan.batch -> read_range -> RecordInput -> TaskDecoder -> types of the table -> LatestRows for current rows
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence

import pyarrow as pa

from kvformat.connectors.latest_rows import LatestRows, check_latest
from kvformat.connectors.offset_plan import OffsetPlan
from kvformat.connectors.range_records import RangeRecords
from kvformat.connectors.reader.client_settings import unsupported
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.table_rows import gives_changes
from kvformat.registry.contract.errors import KafkaSourceWarning, OptionError
from kvformat.registry.format import Errors
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.table.final_columns import check_cast, final_array
from kvformat.registry.table.metadata import MetadataKeys
from kvformat.registry.table.record_decoding import RecordDecoding

_MOST_ERRORS = "ingestion.error-tolerance.max-count"


def arrow_reader(
    kv: KeyValueFormat,
    *,
    changelog: bool | None,
    metadata: MetadataKeys | None,
    errors: Errors,
    row_index: bool,
    time_zone: str,
    stacklevel: int,
) -> pa.RecordBatchReader:
    """Return the rows of a bounded topic; `KafkaTable.read_arrow` describes it.

    The brokers are asked for the offsets now, and the records are read while the reader is.
    """
    changes = gives_changes(kv, changelog=changelog, errors=errors, row_index=row_index)
    _check(kv, errors)
    decoding = kv.record_decoding(metadata=metadata, errors=errors, row_index=row_index, zone=time_zone)
    for column in decoding.columns:
        check_cast(column, kv.name)
    schema = pa.schema(decoding.arrow_fields())
    if not changes:
        check_latest(kv, schema)
    records, plan = RangeRecords.of(kv), OffsetPlan(kv).batch()
    for note in plan.notes.values():
        warnings.warn(f"table '{kv.name}': {note}", KafkaSourceWarning, stacklevel=stacklevel + 1)
    rows = _rows(records, decoding, schema, plan.ranges, time_zone)
    if not changes:
        latest = LatestRows(schema, kv.key_columns)
        rows, schema = latest.of(rows), latest.schema
    return pa.RecordBatchReader.from_batches(schema, rows)


def _check(kv: KeyValueFormat, errors: Errors) -> None:
    """Raise `OptionError` for what only Spark, or only Java's client, can do."""
    why = unsupported(kv)
    if why is not None:
        raise OptionError(
            f"table '{kv.name}': {why}. Only Java's Kafka client supports that: read the table by Spark, read(spark), "
            "or change the option",
            reason=why,
        )
    values = kv.connector_options("decode")
    if errors == "raise" and values["ingestion.ignore-errors"] and values[_MOST_ERRORS] >= 0:
        raise OptionError(
            f"table '{kv.name}': '{_MOST_ERRORS}' counts the bad records of the whole topic before a row is returned. "
            "Read the table by Spark, read(spark), or set the option to -1, which drops any number of bad records",
            option=_MOST_ERRORS,
        )


def _rows(
    records: RangeRecords, decoding: RecordDecoding, schema: pa.Schema, ranges: Sequence[PartitionRange], zone: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges, in order, with the types of the table."""
    names, record_input = decoding.names, decoding.input
    wire_names = [*(column.wire_name for column in decoding.columns), *decoding.last]
    places = [names.index(name) for name in wire_names]
    now, before = time.time_ns() // 1000, 0
    for batch in records.read(ranges, record_input.fields):
        rows = decoding.decoder.decoded(record_input.of(batch, now), before)
        before += len(batch)
        if len(rows):
            columns = [
                final_array(rows.column(place), type_, zone) for place, type_ in zip(places, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
