"""Flattened change messages: the message is the row, and members beside its columns say what was done to it.

    {"id": 1, "name": "pen", "__op": "u", "__deleted": "false"}

AFTER is the message itself. BEFORE is the member that says whether the row was deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.codecs._kernel.changes import ChangeBatch
from kvformat.codecs._kernel.codes import BAD, BEFORE, OPERATION, PAYLOAD
from kvformat.codecs._kernel.containers import Rows
from kvformat.codecs._kernel.message_metadata import MemberColumn
from kvformat.codecs._kernel.operation_rows import OperationRows
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython

    from kvformat.codecs.changes.read import FlattenedPlan
    from kvformat.codecs.json.errors import JsonErrorMessages
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import LOWER_N, LOWER_T, QUOTE, byte, matches


class FlatBatch(ChangeBatch):
    """Reads batches of flattened change messages."""

    def __init__(
        self, plan: FlattenedPlan, image: Rows, metadata: list[MemberColumn], reader: Reader, words: JsonErrorMessages
    ) -> None:
        super().__init__(plan, image, metadata, reader, words)
        self.members.is_row = True
        self.upserted, self.deleted, self.watched = plan.upserted, plan.deleted, plan.watched
        self.true = memoryview(b'"true"' + bytes(8))

    def find_operation(self, at: int) -> OperationRows:
        """The rows that the members beside the columns ask for. Without such members, the row is the current one."""
        r = self.reader
        if not self.wrapped:
            r.depth = 0  # the row is as deep as the message
        deletion = self.members.places[BEFORE]
        c = byte(r.data, deletion, r.end) if deletion >= 0 else LOWER_N
        if c == LOWER_T or (c == QUOTE and matches(r.data, deletion, r.end, self.true, 0, 6)):
            return self.deleted
        offset = self.members.places[OPERATION]
        if offset >= 0 and byte(r.data, offset, r.end) != LOWER_N:
            return ChangeBatch.find_operation(self, at)
        if deletion < 0:
            for number in self.watched:
                if self.members.places[number] >= 0:
                    uncommon: OperationRows = self.plan.find_operation(None, self.message_node(at))
                    return uncommon
        return self.upserted

    def add_error_path(self, code: int, member: int, overlaid: bool, index: int) -> int:
        """Add the payload to the path of a bad value, if there is one: the row itself is the message or the payload."""
        if code == BAD and self.wrapped:
            self.reader.steps.append(self.plan.outer_members[PAYLOAD])
        return code
