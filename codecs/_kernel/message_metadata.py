"""What change messages say beside their rows: read once for each message, and repeated for each of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import BAD, MOST_OF_A_BATCH, MOST_OF_A_MESSAGE
from kvformat.codecs._kernel.columns import Column
from kvformat.codecs._kernel.containers import Maps, Members
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import byte


class MessageMetadata:
    """The columns of metadata, with a value for every message that has rows: `count` of them so far.

    `columns` are tuples: a column, the number of its member, whether that is outside of the payload, and whether what
    is no object has no entries. `plan` is a `_changes.read.EnvelopePlan`, which names the members.
    """

    def __init__(self, columns: list[Any], plan: Any) -> None:
        self.columns, self.plan = columns, plan
        self.count = self.repeated = self.weighed = 0

    def start(self, messages: int) -> int:
        """Begin with another batch of so many messages."""
        for column, _, _, _ in self.columns:
            column.start(messages)
        self.count = self.repeated = self.weighed = 0
        return 0

    def read_values(self, r: Reader, members: Members, outer: Members, needed: bool) -> int:
        """Take a message's values. If they are not needed, one that is wrong for itself is not looked at, as in Flink.

        `members` are those of the object that has the rows, `outer` those of the message around it.
        """
        for column, number, outside, is_map in self.columns:
            found = self.read_member(r, outer if outside else members, column, number, is_map)
            if found == BAD:
                r.steps.append(self.plan.outer_members[number] if outside else self.plan.members[number])
                if self.plan.wrapped and not outside:
                    r.steps.append("payload")
            if found < 0 and (needed or r.final is None):
                return found
        return 0

    def read_member(self, r: Reader, members: Members, column: Column, number: int, is_map: bool) -> int:
        """Take the value of a member into a column, null where there is none."""
        place = members.places[number] if number >= 0 else -1
        c = byte(r.data, place, r.end) if place >= 0 else 110
        if c == 110:
            return column.null()
        if is_map and c != 123:
            return self.no_entries(column) if isinstance(column, Maps) else column.null()
        length = column.length
        r.final = r.final_of = None
        found = column.read_value(r, place)
        if r.lenient and r.final is not None:
            raise r.final
        if found == BAD and r.lenient:
            column.truncate(length)
            return column.null()
        return found if found < 0 else 0

    def no_entries(self, column: Maps) -> int:
        """Take a map without entries."""
        return column.end()

    def end(self, rows: int) -> int:
        """End a message of so many rows: 0, or the bytes that each of them would repeat where that is too much."""
        if rows == 0:
            return self.undo()
        weighed = 0
        for column, _, _, _ in self.columns:
            weighed += column.weight()
        weight = weighed - self.weighed
        if rows > 1 and (weight * rows > MOST_OF_A_MESSAGE or self.repeated + weight * rows > MOST_OF_A_BATCH):
            return weight
        self.repeated += weight * rows
        self.weighed = weighed
        self.count += 1
        return 0

    def undo(self) -> int:
        """Take back the values of a message that has not ended."""
        for column, _, _, _ in self.columns:
            column.truncate(self.count)
        return 0

    def finish(self, rows: Any) -> list[pa.Array]:
        """The values for each row, given how many rows each message of the batch has."""
        arrays = [column.finish() for column, _, _, _ in self.columns]
        rows = rows[rows > 0]
        if (rows == 1).all():
            return arrays
        owners = pa.array(np.repeat(np.arange(self.count, dtype=np.int32), rows))
        return [array.take(owners) for array in arrays]
