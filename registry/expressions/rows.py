"""The rows for which an expression is evaluated, and the rows that it fails for.

Flink fails the job at a row that it can't compute, such as `1 / 0`. Here such a row gets an error, and the other rows
are evaluated. A part of the expression that a row does not need is not evaluated for it (`CASE`, `AND`, `COALESCE`), so
it does not fail there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions.vectors import Bools, Vector

MOST_CHARACTERS, PER_CHARACTER = 1 << 16, 16
"""The most characters of a computed text: a number, and more for each character that it is made of."""


class RowError(Exception):
    """A value for which Flink would fail the job; the text says why."""


def check_length(count: int, *sources: str | bytes) -> None:
    """Raise `RowError` for a text of `count` characters, or bytes, that is much longer than those it is made of.

    Flink's limit is the memory of its workers; here a few bytes of a message must not fill it.
    """
    most = MOST_CHARACTERS + PER_CHARACTER * sum(map(len, sources))
    if count > most:
        raise RowError(f"a text of {count} characters; from these arguments, at most {most} are computed")


@dataclass(frozen=True, slots=True)
class Session:
    """Inputs of some functions beside their arguments: the session's time zone, the current time in microseconds."""

    zone: str = "UTC"
    now: int = 0


@dataclass(slots=True)
class Rows:
    """Some rows of a batch: all of them, or those that a condition selects.

    columns, types: the columns of the table by name.
    indexes: the index of each row in the batch; None for the whole batch.
    failures: of each failed row of the batch the first reason; shared by all selections of a batch.
    """

    columns: Mapping[str, pa.Array]
    types: Mapping[str, FlinkType]
    length: int
    session: Session
    failures: dict[int, str] = field(default_factory=dict)
    indexes: npt.NDArray[np.intp] | None = None
    _taken: dict[str, Vector] = field(default_factory=dict)
    _evaluated: dict[Callable[[Rows], Vector], Vector] = field(default_factory=dict)

    def column(self, name: str) -> Vector:
        """Return a column of these rows."""
        if name not in self._taken:
            array = self.columns[name]
            if self.indexes is not None:
                array = array.take(pa.array(self.indexes))
            self._taken[name] = Vector.of_array(self.types[name], array)
        return self._taken[name]

    def once(self, evaluate: Callable[[Rows], Vector]) -> Vector:
        """Return the values of an expression for these rows. It is evaluated the first time only."""
        if evaluate not in self._evaluated:
            self._evaluated[evaluate] = evaluate(self)
        return self._evaluated[evaluate]

    def where(self, mask: Bools) -> Rows:
        """Return the selected rows."""
        if mask.all():
            return self
        chosen = np.flatnonzero(mask)
        indexes = chosen if self.indexes is None else self.indexes[chosen]
        return Rows(self.columns, self.types, len(chosen), self.session, self.failures, indexes)

    def part(self, start: int, count: int) -> Rows:
        """Return `count` rows of a batch, from index `start` on, as a batch of their own with failures of its own."""
        if count == self.length:
            return Rows(self.columns, self.types, count, self.session, _taken=self._taken)
        columns = {name: array.slice(start, count) for name, array in self.columns.items()}
        return Rows(columns, self.types, count, self.session)

    def fail(self, index: int, reason: str) -> None:
        """Note that a row fails; only its first reason counts."""
        self.failures.setdefault(index if self.indexes is None else int(self.indexes[index]), reason)
