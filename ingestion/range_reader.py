"""Read the records of a micro-batch where they are looked at.

    ranges of offsets   ->   key, value, topic, ..., _kvformat_timestamp, _kvformat_metadata_*

Spark gets the ranges of the data source, and not the records: each record that goes through the JVM to a Python worker
costs about as much as it costs to decode it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.connectors.range_records import RangeRecords
from kvformat.ingestion.decoded_rows import METADATA, TIMESTAMP
from kvformat.registry.contract.types import spark_type
from kvformat.registry.table.metadata import MetadataColumn
from kvformat.registry.table.record_input import field_of, metadata_array

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kvformat.registry.key_value_format import KeyValueFormat

_PER_MILLISECOND = 1000


@dataclass(frozen=True, repr=False)
class RangeReader:
    """Reads the records of ranges in a task; pickled to it, with the secrets of the client's settings.

    types: the columns of the records, as `decodable_records` gives them. zone: the time zone of casts of metadata.
    """

    records: RangeRecords
    metadata: tuple[MetadataColumn, ...]
    types: StructType
    zone: str

    @classmethod
    def of(cls, kv: KeyValueFormat, metadata: Sequence[MetadataColumn], zone: str) -> RangeReader:
        """Return the reader of a table's records. Raises `OptionError` for settings that only Java's client has."""
        from pyspark.sql.types import LongType, StructField, StructType

        from kvformat.registry.table.decode_stage import record_schema

        fields = [*record_schema().fields, StructField(TIMESTAMP, LongType())]
        fields += [StructField(METADATA + c.name, spark_type(c.declared, wire=True)) for c in metadata]
        return cls(RangeRecords.of(kv), tuple(metadata), StructType(fields), zone)

    @staticmethod
    def tasks(ranges: pa.RecordBatch) -> int:
        """Return how many tasks read ranges."""
        return int(pc.max(ranges.column("tasks")).as_py() or 1)

    def read(self, ranges: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the records of ranges, in order. Raises `DataLossError` for lost records, `ReadError`."""
        from kvformat.registry.table.final_columns import final_array, spark_arrow_schema

        schema = spark_arrow_schema(self.types)
        names = schema.names[: schema.names.index(TIMESTAMP)]
        fields = tuple(dict.fromkeys([*names, *map(field_of, self.metadata)]))
        for records in self.records.read_rows(ranges, fields):
            columns = [records.column(name) for name in names]
            micros = records.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            columns.append(pc.divide(micros, _PER_MILLISECOND))
            columns += [metadata_array(column, records) for column in self.metadata]
            arrays = [final_array(a, field.type, self.zone) for a, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
