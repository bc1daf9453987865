"""Find the tables of records without a value, which delete the row of their key. Only the topic's name tells the table.

    pg.def.alt     shop.def.alt, whose name ends as the topic's does
    all            all.alt, the only known table whose name begins with the topic's; or else an error
    customers      customers, if the rows of all topics are of tables named as their topics

A topic with rows of any other name may have several tables, some of them not in this batch, so a record without a value
is an error there. Rows with `__deleted` say which rows are deleted. Records without a value repeat that, so none of
them is needed on a topic with such rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvformat.codecs.discovery.findings import Findings
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.look import TableName

MARK = "__deleted"


class DeletionTables:
    """The tables of a batch's records without a value. Call `note` and `add` for its records, then `place`."""

    def __init__(self, known: Iterable[TableName]) -> None:
        self._known = frozenset(known)
        self._seen: dict[str, set[TableName]] = {}
        self._marked: set[str] = set()
        self._added: list[tuple[int, str]] = []

    def note(self, topic: str, table: TableName, *, marked: bool) -> None:
        """Remember the table of a row on a topic, and whether the row says if it is deleted."""
        self._seen.setdefault(topic, set()).add(table)
        if marked:
            self._marked.add(topic)

    def add(self, message: int, topic: str) -> None:
        """Remember a record without a value."""
        self._added.append((message, topic))

    def place(self, findings: Findings) -> None:
        """Give the added records their tables, after all rows of the batch were noted."""
        for message, topic in self._added:
            table = self._table(topic)
            if table is not None:
                findings.set_table(message, findings.table(table))
            elif topic not in self._marked:
                findings.fail(
                    message,
                    Reason(
                        ErrorCode.TABLE_ID,
                        f"the record has no value, so it deletes a row, but topic '{topic}' does not tell of which "
                        "table. Let the connector mark deleted rows ('delete.tombstone.handling.mode' = 'rewrite'), or "
                        "write each table to a topic that ends with its name",
                    ),
                )
        self._added.clear()

    def _table(self, topic: str) -> TableName | None:
        """Return the table of a record without a value; None if it may be one of several."""
        names = self._known | self._seen.get(topic, set())
        if (topic,) in names or all(len(name) == 1 for name in names):
            return (topic,)
        parts = {name: _last_parts(topic, name) for name in names}
        best = max(parts.values())
        candidates = [name for name, count in parts.items() if (count == best if best else name[0] == topic)]
        return candidates[0] if len(candidates) == 1 else None


def _last_parts(topic: str, name: TableName) -> int:
    """Return how many parts at the end of a table's name are the end of a topic's name."""
    ends = (len(name) - at for at in range(len(name)) if f".{topic}".endswith("." + ".".join(name[at:])))
    return next(ends, 0)
