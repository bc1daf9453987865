"""Writing to the data source: a task encodes its rows and writes them with librdkafka, at least once.

Exactly-once delivery needs a shuffle by the contents of records, which a data source can't ask Spark for.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kvformat.connectors import sink, topics
from kvformat.connectors.buffer import buffered
from kvformat.connectors.data_source.rows import task_zone
from kvformat.connectors.producer_settings import without_effect
from kvformat.connectors.record_producer import ProducerSettings, write_records
from kvformat.registry.contract.errors import KafkaSinkWarning, OptionError
from kvformat.registry.sql.connector_options import delivery_guarantee
from kvformat.registry.table.row_encoder import RowEncoder

if TYPE_CHECKING:
    from pyspark.sql import types as T

    from kvformat.connectors.data_source.options import SourceOptions
    from kvformat.registry.key_value_format import KeyValueFormat

_BUFFER = "sink.buffer-flush.max-rows"
_PARALLEL = "sink.parallelism"


@dataclass
class Written(WriterCommitMessage):
    """The number of records that a task has written."""

    count: int


@dataclass(frozen=True, repr=False)
class TaskWriter:
    """Writes the rows of a task; pickled to a Python worker, with the secrets of the client's settings.

    buffer: how many records of a task are reduced to the last of each key. partitions: the number of partitions of each
    topic, for the partitioner 'fixed'. zone: the session's time zone; None is that of the running task's session.
    """

    encoder: RowEncoder
    settings: ProducerSettings
    buffer: int | None
    partitions: dict[str, int] | None
    zone: str | None

    @classmethod
    def of(cls, kv: KeyValueFormat, options: SourceOptions, schema: T.StructType) -> TaskWriter:
        """Check table, rows and topics. Raises `ConfigurationError`, `BrokerError`."""
        values = kv.connector_options("encode")
        key, guarantee = delivery_guarantee(values)
        if guarantee == "exactly-once":
            raise OptionError(
                f"table '{kv.name}': '{key}' = '{values[key]}': a data source writes at least once, because "
                "transactions need a shuffle by the contents of records. Write with "
                "KafkaTable.from_ddl(...).write_stream(df, checkpoint_location=...), or write(df, job_id=...), which "
                f"write exactly once; or set '{key}' to 'at-least-once'",
                option=key,
            )
        metadata = options.metadata
        sink.check_topic(kv, metadata)
        sink.check_columns(kv, schema.names, metadata, options.values["extra_columns"], stacklevel=1)
        for told in (*sink.differences(kv), *without_effect(kv.options).values()):
            warnings.warn(f"table '{kv.name}': {told}", KafkaSinkWarning, stacklevel=1)
        if values[_PARALLEL] is not None:
            warnings.warn(
                f"table '{kv.name}': '{_PARALLEL}' has no effect: each task of the rows writes its own. Use "
                "df.repartition, or KafkaTable.from_ddl(...).write(df)",
                KafkaSinkWarning,
                stacklevel=1,
            )
        encoder = kv.row_encoder(schema, metadata=metadata)
        settings = ProducerSettings.of(kv)
        topics.check(kv, values["topic"] or (), None)
        partitions = topics.partitions(kv) if values.get("sink.partitioner") == "fixed" else None
        return cls(encoder, settings, values.get(_BUFFER) or None, partitions, options.values["time_zone"])

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task. Raises `EncodeError`, `BrokerError`."""
        records = self.encoder.records(batches, self.zone or task_zone())
        if self.buffer is not None:
            records = self._buffered(records, self.buffer)
        if self.partitions is not None:
            records = map(self._placed, records)
        return Written(write_records(self.settings, records))

    def _buffered(self, records: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
        first = next(records, None)
        if first is None:
            return
        keys = [i for i, name in enumerate(first.schema.names) if name in ("topic", "key")]
        yield from buffered(most, keys)(itertools.chain([first], records))

    def _placed(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Add the partition of each record, for the partitioner 'fixed': that of the task's number."""
        from pyspark import TaskContext

        assert self.partitions is not None
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        if "topic" in records.schema.names:
            numbers = [task % self.partitions[topic] for topic in records.column("topic").to_pylist()]
        else:
            numbers = [task % next(iter(self.partitions.values()))] * len(records)
        return records.append_column("partition", pa.array(numbers, pa.int32()))


class _Writer:
    def __init__(self, writer: TaskWriter) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task."""
        return self._writer.write(iterator)


class KafkaBatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a batch."""


class KafkaStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: brokers have the records when a task ends."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was written stays, and the next attempt writes it again."""
