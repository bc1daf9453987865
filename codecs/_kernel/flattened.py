"""Change messages that are the row alone: what was done to it stands in members of its own beside the columns.

{"id": 1, "name": "pen", "__op": "u", "__deleted": "false"}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvformat.codecs._kernel.changes import ChangeBatch, OperationRows
from kvformat.codecs._kernel.codes import AFTER, BAD, BEFORE, OPERATION
from kvformat.codecs._kernel.containers import Rows
from kvformat.codecs._kernel.messages import ErrorWords
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import byte, matches


class FlatBatch(ChangeBatch):
    """Reads batches of such messages. The row after the change is the message; that before it says if it was deleted.

    `plan` is a `_changes.read.FlatPlan`. Its `watched` members may say that a message without an operation is no row.
    """

    def __init__(self, plan: Any, image: Rows, metadata: list[Any], reader: Reader, words: ErrorWords) -> None:
        super().__init__(plan, image, metadata, reader, words)
        self.upserted: OperationRows = plan.upserted
        self.deleted: OperationRows = plan.deleted
        self.watched: list[int] = plan.watched
        self.true = memoryview(b'"true"' + bytes(8))

    def find_inside(self, at: int) -> int:
        """Find the members beside the columns; returns the end of the row."""
        self.found, self.reading_ahead = True, False
        end = self.members.find_members(self.reader, at)
        self.members.places[AFTER] = at
        return end

    def find_operation(self, at: int) -> OperationRows:
        """What the members beside the columns say was done to the row: it is there now if they say nothing."""
        r = self.reader
        if not self.wrapped:
            r.depth = 0  # the row is no deeper than the message
        place = self.members.places[BEFORE]
        c = byte(r.data, place, r.end) if place >= 0 else 110
        if c == 116 or (c == 34 and matches(r.data, place, r.end, self.true, 0, 6)):
            return self.deleted
        place_of_operation = self.members.places[OPERATION]
        if place_of_operation >= 0 and byte(r.data, place_of_operation, r.end) != 110:
            return ChangeBatch.find_operation(self, at)
        if place < 0:
            for number in self.watched:
                if self.members.places[number] >= 0:
                    unusual: OperationRows = self.plan.find_operation(None, self.whole(at))
                    return unusual
        return self.upserted

    def add_error_path(self, code: int, member: int, over: int, index: int) -> int:
        """The way from the message to a row: there is none but the payload."""
        if code == BAD and self.wrapped:
            self.reader.steps.append("payload")
        return code
