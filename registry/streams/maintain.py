"""Keep a table current from a stream of Kafka records: the implementation of `KeyValueFormat.maintain`.

    stream -> decode once, count -> bad records -> dead letters
                                 -> the last row of each key -> merge(changes, batch_id), or a Delta table at a path

Spark repeats a failed batch with the same records, so each step gives the same result when it is repeated. The dead
letters of a batch are written before its rows: once the rows are in the table, the bad records are safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import ConfigurationError, too_many_bad
from kvformat.registry.streams.change_columns import HasKeyColumns
from kvformat.registry.streams.changes import latest_by_key, observe_table, split_errors
from kvformat.registry.streams.current_table import CurrentTable
from kvformat.registry.streams.dead_letters import DeadLetters
from kvformat.registry.streams.foreach_batch import foreach_batch
from kvformat.registry.table.producer import producer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from kvformat.registry.contract.options import Direction
    from kvformat.registry.format import Errors
    from kvformat.registry.streams.dead_letters import DeadLetterTarget

    Merge: TypeAlias = Callable[[DataFrame, int], None]

_KAFKA_METADATA = {"_kvformat_partition": "partition", "_kvformat_offset": "offset"}
"""The metadata that orders the changes, under names that do not clash with the table's columns."""


class MaintainableTable(HasKeyColumns, Protocol):
    """The part of a `KeyValueFormat` that keeping a table current needs."""

    @property
    def name(self) -> str:
        """The table's name."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options as given."""

    def connector_options(self, direction: Direction) -> Mapping[str, Any]:
        """The connector's options, parsed."""

    def decode(self, df: DataFrame, *, metadata: Mapping[str, str], errors: Errors, row_index: bool) -> DataFrame:
        """Decode Kafka records to rows of the table."""


@runtime_checkable
class TargetOfTables(Protocol):
    """A place for tables that makes merge functions, such as `kvformat.ingestion.Target`."""

    def merging(self, table: MaintainableTable) -> Merge:
        """Return the function that merges the changes of a table."""


def start_maintaining(
    table: MaintainableTable,
    stream: DataFrame,
    target: str | PathLike[str] | Merge | TargetOfTables,
    *,
    checkpoint_location: str,
    dead_letters: DeadLetterTarget | None,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
) -> StreamingQuery:
    """Check the arguments and start the query; `KeyValueFormat.maintain` describes them."""
    if not stream.isStreaming:
        raise ConfigurationError(
            "maintain takes a stream of Kafka records (spark.readStream); for the current table of a batch use "
            "latest_by_key(kv.decode(batch, metadata=['partition', 'offset'], row_index=True), kv)"
        )
    letters = None
    if dead_letters is not None:
        letters = DeadLetters.of(dead_letters, producer_options(table.options))
        letters.check_reading(table.connector_options("decode"))
    if isinstance(target, TargetOfTables):
        target = target.merging(table)
    elif not callable(target):
        target = CurrentTable.at(target, table.key_columns)
    batch = MaintainedBatch(table, target, letters)
    batch.check()
    writer = foreach_batch(batch.decoded(stream), batch).option("checkpointLocation", checkpoint_location)
    writer = writer.trigger(**trigger) if trigger else writer
    return (writer.queryName(query_name) if query_name else writer).start()


@dataclass(frozen=True, repr=False)
class MaintainedBatch:
    """The function that `foreachBatch` calls with each micro-batch; Spark Connect pickles it to the server."""

    table: MaintainableTable
    merge: Merge
    dead_letters: DeadLetters | None

    def check(self) -> None:
        """Raise `ConfigurationError` if the table has no key."""
        if not self.table.key_columns:
            raise ConfigurationError(f"table '{self.table.name}' has no key: give it a PRIMARY KEY or 'key.fields'")

    def decoded(self, stream: DataFrame) -> DataFrame:
        """Return the stream of decoded records that the micro-batches are made of.

        With dead letters its rows and bad records are counted. Raises `ConfigurationError` or `SchemaError` for errors
        in the table or the stream's columns.
        """
        errors: Errors = "capture" if self._captures() else "raise"
        decoded = self.table.decode(stream, metadata=_KAFKA_METADATA, errors=errors, row_index=True)
        return decoded if self.dead_letters is None else observe_table(decoded, self.table.name)

    def __call__(self, decoded: DataFrame, batch_id: int) -> None:
        """Write the dead letters, then the rows. After an error Spark repeats both."""
        most = self._most_errors()
        decoded = decoded.persist()
        try:
            good = decoded
            if self._captures():
                good, bad = split_errors(decoded)
                if self.dead_letters is not None:
                    self.dead_letters.write(bad, batch_id)
                if most is not None:
                    _check_count(bad, most)
            if not good.isEmpty():
                changes = latest_by_key(good, self.table, list(_KAFKA_METADATA), deletes=True)
                self.merge(changes.drop(*_KAFKA_METADATA), batch_id)
        finally:
            decoded.unpersist()

    def _captures(self) -> bool:
        """Return whether bad records are kept apart, and are no error."""
        return self.dead_letters is not None or self._most_errors() is not None

    def _most_errors(self) -> int | None:
        """Return how many bad records of a batch may be dropped; None if they are not counted."""
        options = self.table.connector_options("decode")
        most: int = options["ingestion.error-tolerance.max-count"]
        return most if options["ingestion.ignore-errors"] and most >= 0 else None


def _check_count(bad: DataFrame, most: int) -> None:
    """Raise `DecodeError` for more than `most` bad records. Messages that the format skips are not counted."""
    faults = bad.where(bad["code"] != ErrorCode.SKIPPED.value).select("reason", "code").limit(most + 1).collect()
    if len(faults) > most:
        raise too_many_bad(most, *faults[0], where=" in a micro-batch")
