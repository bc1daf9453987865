"""Batches of the data source: ranges of partitions as Spark's tasks, planned once for a DataFrame.

Spark plans a DataFrame at its first action. The offsets stay the same for its next actions: a DataFrame with newer
records is made by another `load()`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from kvformat.connectors.data_source.filters import keys_of, narrowed
from kvformat.connectors.data_source.options import SourceOptions
from kvformat.connectors.data_source.rows import RecordRows, rows_of
from kvformat.connectors.offset_plan import BatchOffsets, OffsetPlan
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.registry.contract.errors import DataLossError, KafkaSourceWarning
from kvformat.registry.key_value_format import KeyValueFormat

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as T


class RangesOfTask(InputPartition):
    """The ranges that a task reads, in order; none for a table without records.

    now: in microseconds. tasks: how many tasks the batch has.
    """

    def __init__(self, ranges: tuple[PartitionRange, ...], now: int, tasks: int = 1) -> None:
        self.ranges, self.now, self.tasks = ranges, now, tasks


class KafkaBatchReader(DataSourceReader):
    """Plans the ranges of a batch on the driver, and reads them in tasks."""

    def __init__(self, kv: KeyValueFormat, options: SourceOptions, schema: T.StructType) -> None:
        self._kv, self._values, self._rows = kv, options.values, rows_of(kv, options, schema)
        self._filters: list[Filter] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": self._rows}  # tasks need nothing else, and the table takes long to unpickle

    def partitions(self) -> list[InputPartition]:
        """Return the tasks of the batch. Raises `OptionError`, `BrokerError`, or `DataLossError` for lost records."""
        plan = OffsetPlan(self._kv)
        offsets = plan.batch()
        for note in offsets.notes.values():
            warnings.warn(f"table '{self._kv.name}': {note}", KafkaSourceWarning, stacklevel=1)
        check_losses(self._kv, self._values, offsets)
        tasks = self._kv.connector_options("decode")["scan.parallelism"]
        ranges = offsets.ranges
        if self._filters and isinstance(self._rows, RecordRows):
            ranges = narrowed(ranges, self._filters, keys_of(self._rows.input.metadata), plan.at)
        return tasks_of(ranges, self._values, tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's ranges."""
        assert isinstance(partition, RangesOfTask)
        return self._rows.read(partition)


class FilteringBatchReader(KafkaBatchReader):
    """A batch whose ranges Spark's filters narrow.

    A class of its own: Spark refuses a reader with `pushFilters` unless the session allows them.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters for the plan, and return all of them, because Spark has to apply them, too."""
        self._filters = list(filters)
        return filters


def check_losses(kv: KeyValueFormat, values: Mapping[str, Any], offsets: BatchOffsets) -> None:
    """Raise `DataLossError` if records were lost, or warn with `failOnDataLoss` = false."""
    if not offsets.losses:
        return
    told = f"table '{kv.name}': records were lost before they were read: {'; '.join(offsets.losses)}"
    if values["failOnDataLoss"]:
        raise DataLossError(f"{told}. To read on without them, set the option failOnDataLoss to false")
    warnings.warn(told, KafkaSourceWarning, stacklevel=1)


def tasks_of(
    ranges: Iterable[PartitionRange], values: Mapping[str, Any], most_tasks: int | None
) -> list[InputPartition]:
    """Return tasks for ranges: one for each, or more with `minPartitions`, or at most `most_tasks` of whole ranges."""
    now, divided = time.time_ns() // 1000, [*_divided([*ranges], values, most_tasks)]
    # Spark would make a partition of its own of no task.
    return [RangesOfTask(of_task, now, len(divided)) for of_task in divided or [()]]


def _divided(
    ranges: Sequence[PartitionRange], values: Mapping[str, Any], most_tasks: int | None
) -> Iterator[tuple[PartitionRange, ...]]:
    if most_tasks is not None and len(ranges) > most_tasks:
        for task in range(most_tasks):
            start, end = (number * len(ranges) // most_tasks for number in (task, task + 1))
            yield tuple(ranges[start:end])
        return
    total = sum(partition.count for partition in ranges)
    least, most_records = values["minPartitions"] or 0, values["maxRecordsPerPartition"]
    for partition in ranges:
        parts = max(1, round(partition.count * least / total)) if least > len(ranges) else 1
        if most_records:
            parts = max(parts, -(-partition.count // most_records))
        for part in range(parts):
            start, end = (partition.start + partition.count * number // parts for number in (part, part + 1))
            if start < end:
                yield (replace(partition, start=start, end=end),)
