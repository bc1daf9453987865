"""Metadata of change messages: values beside the rows, read once per message and repeated for each of its rows."""

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
    from kvformat.codecs._kernel.memory import LEFT_BRACE, LOWER_N, byte


class MemberColumn:
    """A column of metadata, and the member that it is read from.

    `member` is the member's number, -1 if messages do not have it. `is_outer` says that it stands beside the payload.
    `is_map` says that a value other than an object has no entries. `path` is the way from the value to the message in
    error texts: the member's name, then the payload's if it stands in that.
    """

    def __init__(self, column: Column, member: int, path: list[str], *, is_outer: bool, is_map: bool) -> None:
        self.column, self.member, self.path = column, member, path
        self.is_outer, self.is_map = is_outer, is_map

    def read_value(self, r: Reader, members: Members) -> int:
        """Read the value of the member into the column, null if it is missing. Returns 0, FAULT or BAD."""
        column = self.column
        offset = members.places[self.member] if self.member >= 0 else -1
        c = byte(r.data, offset, r.end) if offset >= 0 else LOWER_N
        if c == LOWER_N:
            return column.null()
        if self.is_map and c != LEFT_BRACE:
            return self.put_empty_map(column) if isinstance(column, Maps) else column.null()
        length = column.length
        r.final = r.final_of = None
        end = column.read_value(r, offset)
        if r.lenient and r.final is not None:
            raise r.final
        if end == BAD:
            if r.lenient:
                column.truncate(length)
                return column.null()
            r.steps.extend(self.path)
        return end if end < 0 else 0

    def put_empty_map(self, column: Maps) -> int:
        """Append a map without entries."""
        return column.end()


class MessageMetadata:
    """The columns of metadata. They have one value for each message with rows, `count` so far."""

    def __init__(self, columns: list[MemberColumn]) -> None:
        self.columns = columns
        self.count = self.repeated = self.weighed = 0

    def start(self, messages: int) -> int:
        """Begin a batch of so many messages."""
        for column in self.columns:
            column.column.start(messages)
        self.count = self.repeated = self.weighed = 0
        return 0

    def read_values(self, r: Reader, members: Members, outer: Members, needed: bool) -> int:
        """Read the values of a message, from the offsets of its members. Returns 0, FAULT or BAD.

        `members` are those of the object with the rows, `outer` those of the message around it. If the values are not
        `needed`, one that its column can't take is ignored, as in Flink.
        """
        for column in self.columns:
            status = column.read_value(r, outer if column.is_outer else members)
            if status < 0 and (needed or r.final is None):
                return status
        return 0

    def end_message(self, rows: int) -> int:
        """End a message of so many rows.

        Returns 0, or the bytes that each row would repeat if those are more than a message or a batch may have.
        """
        if rows == 0:
            return self.undo()
        weighed = 0
        for column in self.columns:
            weighed += column.column.weight()
        weight = weighed - self.weighed
        if rows > 1 and (weight * rows > MOST_OF_A_MESSAGE or self.repeated + weight * rows > MOST_OF_A_BATCH):
            return weight
        self.repeated += weight * rows
        self.weighed = weighed
        self.count += 1
        return 0

    def undo(self) -> int:
        """Remove the values of a message that has not ended."""
        for column in self.columns:
            column.column.truncate(self.count)
        return 0

    def finish(self, rows: Any) -> list[pa.Array]:
        """The values for each row as arrays; `rows` has the number of rows of each message of the batch."""
        arrays = [column.column.finish() for column in self.columns]
        rows = rows[rows > 0]
        if (rows == 1).all():
            return arrays
        owners = pa.array(np.repeat(np.arange(self.count, dtype=np.int32), rows))
        return [array.take(owners) for array in arrays]
