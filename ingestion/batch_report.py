"""What a query says of a batch: while it is read and its tables are written, and when it is done.

A line every few seconds says how many tables are written ("12 of 30 tables"). A table has a line of its own at INFO if
it took long, and otherwise at DEBUG: a batch may have a thousand tables. Changes of tables are logged when they are
planned. The line at the end has the totals and the slowest tables; with bad records it is a warning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Final

from kvformat.connectors.batch_tallies import BatchTally, TableTally
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry.contract.fork_safe import Guarded

_LOG = logging.getLogger("kvformat.ingest")
_LONG: Final = 10.0
"""Seconds after which the write of a table is worth a line."""
_PAUSE: Final = 5.0
"""Seconds between two lines about a batch that is not done."""
_MOST_SLOW = 3  # tables that the line at the end names


@dataclass(frozen=True)
class BatchReport:
    """The report of one batch. begun: when the batch began. records: those of each source table in the batch."""

    batch_id: int
    records: Mapping[TableId, int] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)
    _tables: Guarded[dict[TableId, TableTally]] = field(default_factory=lambda: Guarded(dict))

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self.begun

    def was_read(self) -> None:
        """Say that the records are read, if that took long."""
        if self._seconds >= _PAUSE:
            total, tables = sum(self.records.values()), len(self.records)
            _LOG.info("batch %d: read %d records of %d tables in %.0f s", self.batch_id, total, tables, self._seconds)

    def wait(self, writes: Iterable[Future[Any]]) -> None:
        """Wait until all tables are written or have failed, and say from time to time how many are."""
        every = pending = {*writes}
        while pending:
            _, pending = wait(pending, _PAUSE)
            if pending:
                count = len(every) - len(pending)
                _LOG.info("batch %d: %d of %d tables in %.0f s", self.batch_id, count, len(every), self._seconds)

    def wrote(self, table: TableId, sources: Iterable[TableId], seconds: float) -> None:
        """Count and log a written table."""
        records = sum(self.records.get(source, 0) for source in sources)
        with self._tables.use() as tables:
            tables[table] = TableTally(records, seconds)
        level = logging.INFO if seconds >= _LONG else logging.DEBUG
        _LOG.log(level, "batch %d: table %s: %d records in %.1f s", self.batch_id, table, records, seconds)

    def done(self, codes: Mapping[str, int], source_tables: int) -> BatchTally:
        """Log the end of the batch, and return its tally. `codes` are the bad records by code."""
        with self._tables.use() as written:
            tables = dict(written)
        slowest = sorted(tables, key=lambda table: -tables[table].seconds)[:_MOST_SLOW]
        slow = ", ".join(f"{table} {tables[table].seconds:.1f} s" for table in slowest)
        tally = BatchTally(codes, {str(table): of_table for table, of_table in tables.items()})
        faults = ", ".join(f"{name} {count}" for name, count in tally.counts.items() if count)
        _LOG.log(
            logging.WARNING if tally.counts["bad"] else logging.INFO,
            "batch %d: wrote %d tables (%d source tables), %d records in %.1f s%s%s",
            *(self.batch_id, len(tables), source_tables, sum(self.records.values()), self._seconds),
            f"; the slowest: {slow}" if slow else "",
            f"; {faults}" if faults else "",
        )
        return tally
