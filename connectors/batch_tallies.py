"""What an ingestion of this process says of its finished batches, for listeners: bad records by code, and tables.

    tell(spark, batch_id, tally)        from `foreachBatch`, when a batch is done
    told(query_id, batch_id)            from a listener, when Spark reports the batch

A query's progress has no numbers from inside `foreachBatch`. With Spark Connect `foreachBatch` runs in a process of the
server, so a listener in the client has no tallies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.fork_safe import Guarded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_BATCHES: Final = 100  # that are remembered; a listener hears of a batch some moments after it is done
_QUERY_ID: Final = "sql.streaming.queryId"  # StreamExecution.QUERY_ID_KEY


@dataclass(frozen=True, slots=True)
class TableTally:
    """What a batch wrote to a table: the records that had rows for it, and how long it took."""

    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchTally:
    """A finished batch: its bad records by code, and the tables that it wrote."""

    codes: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, TableTally] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Numbers with the names of `observe_records`."""
        bad = {code: count for code, count in self.codes.items() if code != ErrorCode.SKIPPED.value}
        skipped = self.codes.get(ErrorCode.SKIPPED.value, 0)
        return {"bad": sum(bad.values()), "skipped": skipped, **dict(sorted(bad.items()))}


_told: Guarded[dict[tuple[str, int], BatchTally]] = Guarded(dict)


def tell(spark: SparkSession, batch_id: int, tally: BatchTally) -> None:
    """Keep the tally of a batch of the query whose `foreachBatch` calls this; that of a repeated batch is replaced."""
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none
    query = None if context is None else context.getLocalProperty(_QUERY_ID)
    if query is None:
        return
    with _told.use() as tallies:
        tallies[query, batch_id] = tally
        while len(tallies) > _MOST_BATCHES:
            del tallies[next(iter(tallies))]


def told(query_id: str, batch_id: int) -> BatchTally | None:
    """Return the tally of a batch; None if it has none."""
    with _told.use() as tallies:
        return tallies.get((query_id, batch_id))
