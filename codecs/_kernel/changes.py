"""Change messages: an envelope around the rows before and after a change, read as rows with kinds.

A message is gone over once to find the members of its envelope. Then each row is read where it is, in the order in
which the rows come out: a row that another one changes is read as it is and once more with what was other in it.
What the members are called and which rows an operation gives say the formats: see `_changes.envelope.Envelope`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import (
    AFTER,
    BAD,
    BEFORE,
    EXPECTED_COMMA,
    FAULT,
    MAX_DEPTH,
    MOST_OF_A_BATCH,
    MOST_OF_A_MESSAGE,
    OPERATION,
    TOO_DEEP,
    TOO_LARGE,
    TOO_MANY_CELLS,
)
from kvformat.codecs._kernel.containers import Members, Names, Rows
from kvformat.codecs._kernel.memory import Bytes
from kvformat.codecs._kernel.message_metadata import MessageMetadata
from kvformat.codecs._kernel.messages import Batch, ErrorWords
from kvformat.codecs._kernel.previous_value import PreviousValueCache
from kvformat.codecs._kernel.reader import Reader
from kvformat.registry.contract.error_codes import ErrorCode

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import byte, matches, token

MOST_COMPARED = 8
"""So many objects and arrays beside the rows are compared with those of the message before, by their number in it."""


class OperationRows:
    """What an operation gives: of each row the kind, the number of the member it is in, and the number of the member
    with what was other in it, or -1. `others` are the members that no row is in.
    """

    def __init__(self, rows: list[tuple[int, int, int]], others: list[int]) -> None:
        self.count, self.others = len(rows), others
        kinds, members, overs = ([row[i] for row in rows] for i in range(3))
        self.kinds, self.members, self.overs = _numbers(kinds), _numbers(members), _numbers(overs)


def _numbers(numbers: list[int]) -> memoryview[int]:
    view: memoryview[int] = memoryview(bytearray(np.array([*numbers, -1], np.int32).tobytes())).cast("i")
    return view


class ChangeBatch(Batch):
    """Reads batches of change messages as rows of `image`, with kinds and metadata.

    `plan` is a `_changes.read.EnvelopePlan`. Its `operations` have for each operation the rows that it gives.
    """

    def __init__(self, plan: Any, image: Rows, metadata: list[Any], reader: Reader, words: ErrorWords) -> None:
        super().__init__(reader, words)
        self.plan, self.image, self.metadata = plan, image, MessageMetadata(metadata, plan)
        self.members = Parts(plan.members, self, outer=False)
        self.wrapped, self.many = plan.wrapped, plan.many
        self.filters = plan.filters
        self.root = Parts(plan.outer_members, self, outer=True)
        self.operations: list[OperationRows] = list(plan.operations.values())
        self.upsert = plan.upsert
        self.partial = self.upsert or any(max(operation.overs) >= 0 for operation in self.operations)
        texts = [f'"{text}"'.encode() for text in plan.operations]
        self.operation_texts = memoryview(b"".join(texts) + bytes(8))
        self.operation_starts = _numbers([sum(map(len, texts[:i])) for i in range(len(texts) + 1)])
        self.own, self.laid = Members(image.names), Members(image.names)
        self.reading_ahead = self.read_ahead_accepted = False
        self.found = False
        self.previous_values = [PreviousValueCache() for _ in range(MOST_COMPARED)]
        self.containers_seen = 0
        self.element = self.taken = self.first = self.second = self.first_at = self.second_at = 0
        self.kinds = Bytes(8)

    def read_batch(self, messages: pa.BinaryArray) -> tuple[pa.Array, list[pa.Array], Any]:
        """The rows of the batch, the metadata of each, and their kinds, a byte each."""
        self.image.start(self.capacity(len(messages)))
        self.reader.start_batch(2 * self.image.cells)
        self.metadata.start(len(messages))
        self.kinds = Bytes(self.capacity(len(messages)))
        self.run(messages)
        metadata = self.metadata.finish(np.diff(np.frombuffer(memoryview(self.offsets), np.int32)))
        kinds = np.frombuffer(memoryview(self.kinds.view), np.uint8, self.rows)
        return self.image.finish(), metadata, kinds

    def read_message(self, begin: int, end: int, loose: bool) -> int:
        r = self.reader
        r.start_message(begin, end)
        at = token(r.data, begin, end)
        rows = self.rows
        self.read_ahead_accepted = False
        try:
            found = self.message(at, loose)
            if found == BAD:
                self.undo(rows)
                self.rows = rows
                r.start_message(begin, end)
                r.steps = []
                r.careful = True
                found = self.message(at, loose)
        except self.plan.error as fault:
            if r.lenient and fault.code != "TOO_LARGE":  # the rows that were complete before stay, as in Flink
                return self.finish_message(rows)
            return self.add_error(fault.said)
        if found == FAULT:
            if r.lenient and r.code != TOO_LARGE and r.code != TOO_MANY_CELLS:
                self.rows = rows
                return self.finish_message(rows)
            return self.add_syntax_error(loose)
        return self.add_value_error() if found == BAD else self.finish_message(rows)

    def finish_message(self, rows: int) -> int:
        """End a message that has all rows behind the first ones."""
        if not self.read_ahead_accepted:
            self.image.truncate(self.rows)
            self.kinds.size = self.rows
        count = self.rows - rows
        weight = self.metadata.end(count)
        if weight == 0:
            return 1
        text = (
            f"the metadata of this message has {weight} bytes, and each of its {count} rows would repeat it: at "
            f"most {MOST_OF_A_MESSAGE} bytes are allowed for a message, {MOST_OF_A_BATCH} for a batch; ask for "
            "less metadata, or take smaller batches"
        )
        return self.add_error((ErrorCode.TOO_LARGE, text))

    def undo(self, rows: int) -> int:
        self.image.truncate(rows)
        self.kinds.size = rows
        self.metadata.undo()
        return 0

    # --- the envelope ----------------------------------------------------------------------------------

    def message(self, at: int, loose: bool) -> int:
        """Read a message from its first token on: 0, FAULT or BAD. Raises an error of the plan for another value."""
        r = self.reader
        c = byte(r.data, at, r.end)
        if c != 123:
            if c == 91 and self.plan.array:
                at = self.only_element(at, loose)
                return at if at < 0 else self.changes(at)
            return self.no_object(at, loose)
        r.depth = 1
        end = self.find(at)
        if end < 0:
            return end
        end = self.check_end(end, loose)
        return end if end < 0 else self.changes(at)

    def find(self, at: int) -> int:
        """Find the members of the message, and of its payload if it is wrapped; returns the end.

        Rows are read where they are found, in the hope that just these come out, in this order.
        """
        self.found = False
        if self.wrapped:
            return self.root.find_members(self.reader, at)
        return self.find_inside(at)

    def find_inside(self, at: int) -> int:
        """Find the members of the object that has the rows; returns its end."""
        if self.found:  # another payload was there before
            self.image.truncate(self.rows)
        self.found = True
        self.reading_ahead = not self.reader.careful
        self.taken = self.containers_seen = 0
        return self.members.find_members(self.reader, at)

    def outer_value(self, number: int, at: int) -> int:
        """Go past a member of the message: into the payload."""
        r = self.reader
        if number != 0 or byte(r.data, at, r.end) != 123:
            return r.skip_cached(at)
        if r.depth >= MAX_DEPTH:
            return r.fail(at, TOO_DEEP)
        r.depth += 1
        at = self.find_inside(at)
        r.depth -= 1
        return at

    def inner_value(self, number: int, at: int) -> int:
        """Go past a member of the object that has the rows: read a row that may come out."""
        if self.reading_ahead and (number == AFTER or (number == BEFORE and not self.partial)):
            return self.read_ahead(number, at)
        r = self.reader
        c = byte(r.data, at, r.end)
        if (c == 123 or c == 91) and self.containers_seen < MOST_COMPARED:
            self.containers_seen += 1
            cache: PreviousValueCache = cython.cast(PreviousValueCache, self.previous_values[self.containers_seen - 1])
            return cache.skip(r, at)
        return r.skip(at)

    def read_ahead(self, number: int, at: int) -> int:
        """Read the row in a member: closed, or open where another may have to be laid over it. Returns its end."""
        r = self.reader
        row = at
        c = byte(r.data, at, r.end)
        if self.many and c == 91:
            row = token(r.data, at + 1, r.end)
        elif c == 110:
            return r.skip(at)
        fine = byte(r.data, row, r.end) == 123 and (c == 91) == self.many and self.taken < (1 if self.partial else 2)
        if fine:
            depth = r.depth
            r.depth += 2 if self.many else 1
            end = self.noting(self.own, row) if self.partial else self.image.read_members(r, row)
            r.depth = depth
            if end >= 0 and self.many:  # just one row
                end = token(r.data, end, r.end)
                end = end + 1 if byte(r.data, end, r.end) == 93 else BAD
            if end >= 0 and not self.partial:
                self.image.close(r, end)
            if end >= 0 or (end == FAULT and r.code != TOO_MANY_CELLS):
                self.element = row
                if self.taken == 0:
                    self.first, self.first_at = number, at
                else:
                    self.second, self.second_at = number, at
                self.taken += 1
                return end
        self.reading_ahead = False
        return r.skip(at)

    def noting(self, members: Members, at: int) -> int:
        """Take the members of a row, and note their places."""
        members.forget()
        self.image.noted = members
        end = self.image.read_members(self.reader, at)
        self.image.noted = None
        return end

    def accept_read_ahead(self, operation: OperationRows) -> int:
        """Take the rows that were read on the way: 1, or 0 if others are wanted."""
        if self.partial:
            return self.accept_open_row(operation)
        if operation.count != self.taken:
            return 0
        if not self.is_row_or_null(BEFORE) or not self.is_row_or_null(AFTER):
            return 0
        wanted, place = self.first, self.first_at
        for i in range(operation.count):
            if operation.members[i] != wanted or self.members.places[wanted] != place:
                return 0
            wanted, place = self.second, self.second_at
        for i in range(operation.count):
            self.kinds.put(operation.kinds[i])
        self.rows += operation.count
        return 1

    def is_row_or_null(self, number: int) -> bool:
        """Whether a member is an object, null or not there."""
        place = self.members.places[number]
        c = byte(self.reader.data, place, self.reader.end) if place >= 0 else 110
        return c == 110 or c == 123

    def accept_open_row(self, operation: OperationRows) -> int:
        """The same for the one row that another may have to be laid over."""
        r = self.reader
        if self.taken != 1 or self.members.places[AFTER] != self.first_at:
            return 0
        old = self.members.places[BEFORE]
        c = byte(r.data, old, r.end) if old >= 0 else 110
        if operation.overs[0] < 0:
            if operation.count != 1 or operation.members[0] != AFTER or (c != 110 and not self.upsert):
                return 0
        else:
            if self.many:
                if c != 91:
                    return 0
                old = token(r.data, old + 1, r.end)
            if byte(r.data, old, r.end) != 123:
                return 0
            end = self.noting(self.laid, old)
            if end < 0:
                return 0
            if self.many and byte(r.data, token(r.data, end, r.end), r.end) != 93:
                return 0
        self.image.close(r, self.element)
        for i in range(1, operation.count):
            if operation.overs[i] >= 0 or self.image.repeat_row(r, self.own, self.laid) < 0:
                return 0
        for i in range(operation.count):
            self.kinds.put(operation.kinds[i])
        self.rows += operation.count
        return 1

    def no_object(self, at: int, loose: bool) -> int:
        """Read a message that is no object, which is not good."""
        node = self.only_value(at, loose)
        if self.value_end < 0:
            return self.value_end
        raise self.plan.not_an_object(node)

    def only_element(self, at: int, loose: bool) -> int:
        """Find the members in an array of one message, which counts as that message; returns where it is."""
        r = self.reader
        found: list[int] = []
        r.depth = 1
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) != 93:
            while True:
                c = byte(r.data, at, r.end)
                if c != 110 and (c == 123 or not r.lenient):
                    found.append(at)
                at = r.skip(at)
                if at < 0:
                    return at
                at = token(r.data, at, r.end)
                if byte(r.data, at, r.end) != 44:
                    break
                at = token(r.data, at + 1, r.end)
            if byte(r.data, at, r.end) != 93:
                return r.fail(at, EXPECTED_COMMA)
        at = self.check_end(at + 1, loose)
        if at < 0:
            return at
        if len(found) != 1:
            raise self.plan.not_one_object(len(found))
        here = found[0]
        if byte(r.data, here, r.end) != 123:
            raise self.plan.not_an_object(self.nodes.read_node(r, here))
        r.depth = 2
        at = self.find(here)
        return at if at < 0 else here

    def changes(self, at: int) -> int:
        """Read the rows of a message whose members were found."""
        r = self.reader
        if self.wrapped:
            place = self.root.places[0]
            if place < 0 or byte(r.data, place, r.end) == 110:
                raise self.plan.no_payload()
            if byte(r.data, place, r.end) != 123:
                if r.lenient:
                    raise self.plan.no_payload()
                self.not_a(place, self.plan.payload)
                r.steps.append("payload")
                return BAD
        for number, pattern, member in self.filters:
            if not self.is_wanted(number, pattern, member):
                return 0
        operation = self.find_operation(at)
        if operation.count == 0 and r.lenient:
            return 0
        found = self.metadata.read_values(r, self.members, self.root, operation.count > 0)
        if found < 0:
            return found
        if operation.count:
            before = self.rows
            if self.reading_ahead and self.accept_read_ahead(operation):
                self.read_ahead_accepted = True
                return 0
            self.rows = before
            self.image.truncate(before)
            self.kinds.size = before
            r.cells = 0
            found = self.several(operation) if self.many else self.single(operation)
            if found < 0:
                return found
        return 0 if r.lenient else self.others(operation.others)

    def not_a(self, at: int, column: Any) -> int:
        """Note that a value is none of a column's type."""
        return self.reader.reject(at, column)

    def is_wanted(self, number: int, pattern: Any, member: str) -> bool:
        """Whether the text of a member matches a filter."""
        place = self.members.places[number]
        if place < 0:
            return bool(self.plan.is_wanted_without(member))
        return bool(self.plan.matches(pattern, member, self.nodes.read_node(self.reader, place)))

    def find_operation(self, at: int) -> OperationRows:
        """What the message's operation gives, no rows for one that is skipped."""
        r = self.reader
        place = self.members.places[OPERATION]
        if place >= 0:
            for i in range(len(self.operation_starts) - 2):
                start = self.operation_starts[i]
                if matches(r.data, place, r.end, self.operation_texts, start, self.operation_starts[i + 1] - start):
                    operation: OperationRows = cython.cast(OperationRows, self.operations[i])
                    return operation
        node = self.nodes.read_node(r, place) if place >= 0 else None
        unusual: OperationRows = self.plan.find_operation(node, self.whole(at) if node is None else None)
        return unusual

    def whole(self, at: int) -> Any:
        """All of a message, which says without an operation what it is."""
        self.reader.depth = 0
        return self.nodes.read_node(self.reader, at)

    # --- rows ------------------------------------------------------------------------------------------

    def single(self, operation: OperationRows) -> int:
        """Read the rows of a message that has at most one before and one after its change."""
        if self.is_bare(operation):
            self.image.null()
            self.kinds.put(operation.kinds[0])
            self.rows += 1
            return 0
        for i in range(operation.count):
            member, over = operation.members[i], operation.overs[i]
            if over >= 0 and not self.is_there(over, self.members.places[over], 123, -1):
                return BAD
            if not self.is_there(member, self.members.places[member], 123, -1):
                return BAD
        for i in range(operation.count):
            member, over = operation.members[i], operation.overs[i]
            old = self.members.places[over] if over >= 0 else -1
            found = self.row(self.members.places[member], old, operation.kinds[i])
            if found < 0:
                return self.add_error_path(found, member, over, -1)
        return 0

    def is_bare(self, operation: OperationRows) -> bool:
        """Whether the row of a message is one of nulls: of a deletion that has no row, but need not."""
        if not self.plan.bare_deletes or operation.count != 1 or operation.members[0] != BEFORE:
            return False
        place = self.members.places[BEFORE]
        return place < 0 or byte(self.reader.data, place, self.reader.end) == 110

    def several(self, operation: OperationRows) -> int:
        """Read the rows of a message that has arrays of them: for each after the change, the one before it, too."""
        r = self.reader
        over = operation.overs[0]
        if not self.is_there(AFTER, self.members.places[AFTER], 91, -1):
            return BAD
        new = token(r.data, self.members.places[AFTER] + 1, r.end)
        old = -1
        if over >= 0 and byte(r.data, new, r.end) != 93:
            old = self.members.places[over]
            if not self.is_there(over, old, 91, -1):
                return BAD
            old = token(r.data, old + 1, r.end)
        index = 0
        while byte(r.data, new, r.end) != 93:
            if not self.is_there(AFTER, new, 123, index):
                return BAD
            if old >= 0:
                if byte(r.data, old, r.end) == 93:
                    raise self.plan.fewer_rows(*self.lengths())
                if not self.is_there(over, old, 123, index):
                    return BAD
            end_of_new = end_of_old = new
            for i in range(operation.count):
                found = self.row(new, old if operation.overs[i] >= 0 else -1, operation.kinds[i])
                if found < 0:
                    return self.add_error_path(found, AFTER, over, index)
                if operation.overs[i] >= 0:
                    end_of_old = found
                else:
                    end_of_new = found
            new = self.next_element(end_of_new)
            if old >= 0:
                old = self.next_element(end_of_old)
            index += 1
        if over >= 0 and not r.lenient:
            return self.other_elements(over, old, index)
        return 0

    def others(self, members: Any) -> int:
        """Read the rows that no change comes from: they must be good, too."""
        for member in members:
            place = self.members.places[member]
            found = self.other_elements(member, -1, 0) if self.many else self.other_row(member, place, -1)
            if found < 0:
                return found
        return 0

    def other_elements(self, member: int, at: int, index: int) -> int:
        """Read the elements of an array, from one on (the first if that is not known), that no change comes from."""
        r = self.reader
        if at < 0:
            at = self.members.places[member]
            if at < 0 or byte(r.data, at, r.end) == 110:
                return 0
            if not self.is_there(member, at, 91, -1):
                return BAD
            at = token(r.data, at + 1, r.end)
        while byte(r.data, at, r.end) != 93:
            found = self.other_row(member, at, index)
            if found < 0:
                return found
            at = self.next_element(r.skip(at))
            index += 1
        return 0

    def other_row(self, member: int, at: int, index: int) -> int:
        """Read a row and forget it."""
        if at < 0 or byte(self.reader.data, at, self.reader.end) == 110:
            return 0
        found = self.reader.count_cells(at, self.image.cells)
        if found >= 0:
            found = self.image.read_value(self.reader, at)
        self.image.truncate(self.rows)
        return found if found >= 0 else self.add_error_path(found, member, -1, index)

    def lengths(self) -> tuple[int, int]:
        """How many rows there are before and after the change."""
        r, places = self.reader, self.members.places
        return len(self.nodes.read_node(r, places[BEFORE])), len(self.nodes.read_node(r, places[AFTER]))

    def next_element(self, at: int) -> int:
        """The element of an array behind one that ends at a place, or the end of the array."""
        r = self.reader
        at = token(r.data, at, r.end)
        return token(r.data, at + 1, r.end) if byte(r.data, at, r.end) == 44 else at

    def is_there(self, member: int, at: int, opening: int, index: int) -> bool:
        """Whether a row or array of rows is at a place. Raises an error of the plan where there is none at all."""
        r = self.reader
        c = byte(r.data, at, r.end) if at >= 0 else 110
        if c == opening:
            return True
        if c == 110 or r.lenient:
            raise self.plan.no_rows(member, index, self.nodes.read_node(r, self.members.places[OPERATION]))
        self.not_a(at, self.plan.rows if opening == 91 else self.plan.row)
        self.add_error_path(BAD, member, -1, index)
        return False

    def row(self, at: int, over: int, kind: int) -> int:
        """Read a row, with the members of the object at `over` instead of its own; returns the end of the last one."""
        r = self.reader
        image = self.image
        at = r.count_cells(at, image.cells)
        if at < 0:
            return at
        r.depth += 1
        if r.careful:
            end = image.read_members_carefully(r, at)
            if end >= 0 and over >= 0:
                end = image.read_members_carefully(r, over)
        else:
            end = image.read_members(r, at)
            if end >= 0 and over >= 0:
                end = image.read_members(r, over)
        r.depth -= 1
        if end < 0:
            return end
        end = image.close(r, end)
        if end >= 0:
            self.kinds.put(kind)
            self.rows += 1
        return end

    def add_error_path(self, code: int, member: int, over: int, index: int) -> int:
        """Add the way from the message to a row, where a value in it is bad: in a member, or in the one over it."""
        r = self.reader
        if code == BAD:
            if over >= 0:
                place = self.members.places[over]
                if place <= r.bad_at < r.skip(place):
                    member = over
            if index >= 0:
                r.steps.append(index)
            r.steps.append(self.plan.members[member])
            if self.wrapped:
                r.steps.append("payload")
        return code


class Parts(Members):
    """The members of a message or of its payload, whose values the batch goes past."""

    def __init__(self, names: list[str], batch: ChangeBatch, *, outer: bool) -> None:
        super().__init__(Names(names))
        self.batch, self.outer = batch, outer

    def skip_value(self, r: Reader, number: int, at: int) -> int:
        return self.batch.outer_value(number, at) if self.outer else self.batch.inner_value(number, at)
