"""Change messages: an envelope around a row before and after a change, read as rows with kinds.

The rule. A message has an operation, a row before the change and a row after it, each in a member of its own. The
operation says which rows come out, in which order (`OperationRows`). Each row has a kind, and is read from one of the
two members. The values of BEFORE may be laid over the row in AFTER, if a format sends only the old values that differ:

    {"op": "u", "before": {...}, "after": {...}}                      -U is before, +U is after
    {"type": "UPDATE", "old": [{"b": 1}], "data": [{"a": 5, "b": 2}]}    -U is data with old over it, +U is data

    operation without rows    the message is skipped
    arrays of rows            the rule holds for each element of AFTER, and the element of BEFORE at the same index
    member without a row      an error if the operation needs the row; that of a deletion may be in BEFORE instead
    member that is not used   must be readable too, unless the reader is lenient

`ChangeBatch.read_change_message` follows the rule in this order: parse the message once and note the offsets of its
members, look up the operation, read the metadata, read the rows. `read_ahead.py` reads rows earlier, for speed; each
answer is the same without it. The plan has the names of the members and the rows of each operation. It comes
from the format's `changes.envelope.Envelope`.
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
    MOST_OF_A_BATCH,
    MOST_OF_A_MESSAGE,
    OPERATION,
    PAYLOAD,
    TOO_LARGE,
    TOO_MANY_CELLS,
)
from kvformat.codecs._kernel.containers import Members, Names, Rows
from kvformat.codecs._kernel.memory import Bytes
from kvformat.codecs._kernel.message_metadata import MemberColumn, MessageMetadata
from kvformat.codecs._kernel.messages import Batch
from kvformat.codecs._kernel.operation_rows import OperationRows, int_view
from kvformat.codecs._kernel.previous_value import PreviousValueCache
from kvformat.codecs._kernel.read_ahead import ReadAhead
from kvformat.codecs._kernel.reader import Reader
from kvformat.registry.contract.error_codes import ErrorCode

if TYPE_CHECKING:
    import cython

    from kvformat.codecs.changes.read import EnvelopePlan
    from kvformat.codecs.json.errors import JsonErrorMessages
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        COMMA,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_N,
        RIGHT_BRACE,
        RIGHT_BRACKET,
        byte,
        matches,
        token,
    )

MOST_COMPARED = 8
"""The most objects and arrays of a message that are compared with those of the previous message."""


class EnvelopeMembers(Members):
    """The offsets of the members of the object with the rows.

    `ahead` reads rows while the members are found; None if rows are not read ahead. `is_row` says that the object is
    itself the row after the change.
    """

    def __init__(self, names: list[str], ahead: ReadAhead | None) -> None:
        super().__init__(Names(names))
        self.ahead, self.is_row = ahead, False
        self.previous_values = [PreviousValueCache() for _ in range(MOST_COMPARED)]
        self.compared = 0

    def find_members(self, r: Reader, at: int) -> int:
        self.compared = 0
        if self.ahead is not None:
            self.ahead.begin_object(r)
        end = Members.find_members(self, r, at)
        if self.is_row:
            self.places[AFTER] = at
        return end

    def skip_value(self, r: Reader, number: int, at: int) -> int:
        if number in (BEFORE, AFTER) and self.ahead is not None and self.ahead.wants(number):
            return self.ahead.read_value(r, number, at)
        c = byte(r.data, at, r.end)
        if c in (LEFT_BRACE, LEFT_BRACKET) and self.compared < MOST_COMPARED:
            self.compared += 1
            cache: PreviousValueCache = cython.cast(PreviousValueCache, self.previous_values[self.compared - 1])
            return cache.skip(r, at)
        return r.skip(at)


class OuterMembers(Members):
    """The offsets of the members of a wrapped message, and inside of its `payload` those of the envelope."""

    def __init__(self, names: list[str], payload: EnvelopeMembers) -> None:
        super().__init__(Names(names))
        self.payload = payload

    def skip_value(self, r: Reader, number: int, at: int) -> int:
        if number != PAYLOAD or byte(r.data, at, r.end) != LEFT_BRACE:
            return r.skip_cached(at)
        r.depth += 1
        at = self.payload.find_members(r, at)
        r.depth -= 1
        return at


class ChangeBatch(Batch):
    """Reads batches of change messages as rows of `image`, with kinds and metadata."""

    def __init__(
        self, plan: EnvelopePlan, image: Rows, metadata: list[MemberColumn], reader: Reader, words: JsonErrorMessages
    ) -> None:
        super().__init__(reader, words)
        self.plan, self.image, self.metadata = plan, image, MessageMetadata(metadata)
        self.wrapped, self.in_arrays = plan.wrapped, plan.rows_in_arrays
        self.filters = plan.filters
        self.operations: list[OperationRows] = list(plan.operations.values())
        self.ahead: ReadAhead | None = None
        if plan.reads_ahead:
            self.ahead = ReadAhead(image, in_arrays=plan.rows_in_arrays, keeps_open=plan.keeps_open)
        self.members = EnvelopeMembers(plan.members, self.ahead)
        self.outer = OuterMembers(plan.outer_members, self.members)
        texts = [f'"{text}"'.encode() for text in plan.operations]
        self.operation_texts = memoryview(b"".join(texts) + bytes(8))
        self.operation_starts = int_view([sum(map(len, texts[:i])) for i in range(len(texts) + 1)])
        self.kinds = Bytes(8)
        self.after_end = self.before_end = 0

    def read_batch(self, messages: pa.BinaryArray) -> tuple[pa.Array, list[pa.Array], Any]:
        """The rows of the batch, the metadata of each row, and the kinds of the rows as bytes."""
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
        try:
            status = self.read_change_message(at, loose)
            if status == BAD:
                self.undo(rows)
                self.rows = rows
                r.start_message(begin, end)
                r.steps = []
                r.careful = True
                status = self.read_change_message(at, loose)
        except self.plan.error as error:
            if r.lenient and error.code != "TOO_LARGE":  # the rows that were complete before stay, as in Flink
                return self.finish_message(rows)
            return self.add_error(error.said)
        if status == FAULT:
            if r.lenient and r.code != TOO_LARGE and r.code != TOO_MANY_CELLS:
                self.rows = rows
                return self.finish_message(rows)
            return self.add_syntax_error(loose)
        return self.add_value_error() if status == BAD else self.finish_message(rows)

    def finish_message(self, rows: int) -> int:
        """End a message whose rows are those after the first `rows` ones. Returns 1, or 0 if it failed."""
        if self.ahead is None or not self.ahead.accepted:
            self.image.truncate(self.rows)
            self.kinds.size = self.rows
        count = self.rows - rows
        weight = self.metadata.end_message(count)
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

    def read_change_message(self, at: int, loose: bool) -> int:
        """Read a message from its first token on. Returns 0, FAULT or BAD, and raises errors of the plan."""
        r = self.reader
        if self.ahead is not None:
            self.ahead.begin_message(self.rows)
        c = byte(r.data, at, r.end)
        if c != LEFT_BRACE:
            if c == LEFT_BRACKET and self.plan.array_of_one:
                at = self.find_only_element(at, loose)
                return at if at < 0 else self.read_change(at)
            return self.refuse_value(at, loose)
        r.depth = 1
        end = self.find_envelope(at)
        if end < 0:
            return end
        end = self.check_end(end, loose)
        return end if end < 0 else self.read_change(at)

    def find_envelope(self, at: int) -> int:
        """Parse the object of the message, and note the offsets of its members. Returns its end, or FAULT."""
        return self.outer.find_members(self.reader, at) if self.wrapped else self.members.find_members(self.reader, at)

    def find_only_element(self, at: int, loose: bool) -> int:
        """Find the members of the only message in an array. Returns the offset of that message, or FAULT."""
        r = self.reader
        elements: list[int] = []
        r.depth = 1
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) != RIGHT_BRACKET:
            while True:
                c = byte(r.data, at, r.end)
                if c != LOWER_N and (c == LEFT_BRACE or not r.lenient):
                    elements.append(at)
                at = r.skip(at)
                if at < 0:
                    return at
                at = token(r.data, at, r.end)
                if byte(r.data, at, r.end) != COMMA:
                    break
                at = token(r.data, at + 1, r.end)
            if byte(r.data, at, r.end) != RIGHT_BRACKET:
                return r.fail(at, EXPECTED_COMMA)
        at = self.check_end(at + 1, loose)
        if at < 0:
            return at
        if len(elements) != 1:
            raise self.plan.not_one_object(len(elements))
        element = elements[0]
        if byte(r.data, element, r.end) != LEFT_BRACE:
            raise self.plan.not_an_object(self.nodes.read_node(r, element))
        r.depth = 2
        at = self.find_envelope(element)
        return at if at < 0 else element

    def refuse_value(self, at: int, loose: bool) -> int:
        """Return FAULT for a message that is not JSON; raise the plan's error for a value other than an object."""
        node = self.only_value(at, loose)
        if self.value_end < 0:
            return self.value_end
        raise self.plan.not_an_object(node)

    def read_change(self, at: int) -> int:
        """Read the metadata and the rows of a message whose members were found. Returns 0, FAULT or BAD."""
        r = self.reader
        if self.wrapped and not self.has_payload():
            return BAD
        for number in self.filters:
            if not self.passes_filter(number):
                return 0
        operation = self.find_operation(at)
        if operation.count == 0 and r.lenient:
            return 0
        r.cells = 0
        status = self.metadata.read_values(r, self.members, self.outer, operation.count > 0)
        if status >= 0 and operation.count:
            status = self.read_rows(operation)
        if status < 0:
            return status
        return 0 if r.lenient else self.check_unused(operation.unused)

    def has_payload(self) -> bool:
        """Whether a wrapped message has an object as its payload. Raises the plan's error if it has none."""
        r = self.reader
        offset = self.outer.places[PAYLOAD]
        if offset >= 0 and byte(r.data, offset, r.end) == LEFT_BRACE:
            return True
        if offset < 0 or byte(r.data, offset, r.end) == LOWER_N or r.lenient:
            raise self.plan.no_payload()
        r.reject(offset, self.plan.payload)
        r.steps.append(self.plan.outer_members[PAYLOAD])
        return False

    def passes_filter(self, number: int) -> bool:
        """Whether the member with this number matches its filter."""
        offset = self.members.places[number]
        if offset < 0:
            return bool(self.plan.is_wanted_without(number))
        return bool(self.plan.matches(number, self.nodes.read_node(self.reader, offset)))

    def find_operation(self, at: int) -> OperationRows:
        """The rows that the message's operation gives. `at` is the offset of the message."""
        r = self.reader
        offset = self.members.places[OPERATION]
        if offset >= 0:
            for i in range(len(self.operation_starts) - 2):
                start = self.operation_starts[i]
                if matches(r.data, offset, r.end, self.operation_texts, start, self.operation_starts[i + 1] - start):
                    operation: OperationRows = cython.cast(OperationRows, self.operations[i])
                    return operation
        node = self.nodes.read_node(r, offset) if offset >= 0 else None
        uncommon: OperationRows = self.plan.find_operation(node, self.message_node(at) if node is None else None)
        return uncommon

    def message_node(self, at: int) -> Any:
        """The whole message as a JSON node: without an operation, its members say what it is."""
        self.reader.depth = 0
        return self.nodes.read_node(self.reader, at)

    # --- the rows --------------------------------------------------------------------------------------

    def read_rows(self, operation: OperationRows) -> int:
        """Read the rows of a message, or accept those that were read ahead. Returns 0, FAULT or BAD."""
        r = self.reader
        moved = operation.or_before and self.is_empty(AFTER) and not self.is_empty(BEFORE)
        if moved:
            self.members.places[AFTER] = self.members.places[BEFORE]
        if self.ahead is not None:
            if not moved and self.ahead.accept(r, self.members, operation):
                for i in range(operation.count):
                    self.kinds.put(operation.kinds[i])
                self.rows += operation.count
                return 0
            self.image.truncate(self.rows)
        r.cells = 0
        if operation.count > 1 and operation.overlays[0] > 0 and self.lacks_before():
            operation = self.plan.without_before(operation)
        if self.is_delete_without_row(operation):
            self.image.null()
            self.kinds.put(operation.kinds[0])
            self.rows += 1
            return 0
        if self.in_arrays:
            return self.read_row_arrays(operation)
        return self.read_row_pair(operation, self.members.places[BEFORE], self.members.places[AFTER], -1)

    def lacks_before(self) -> bool:
        """Whether BEFORE is missing or null."""
        offset = self.members.places[BEFORE]
        return offset < 0 or byte(self.reader.data, offset, self.reader.end) == LOWER_N

    def is_empty(self, member: int) -> bool:
        """Whether a member is missing or null, or an object or an array without anything in it."""
        r = self.reader
        at = self.members.places[member]
        c = byte(r.data, at, r.end) if at >= 0 else LOWER_N
        if c != LEFT_BRACE and c != LEFT_BRACKET:
            return c == LOWER_N
        after = token(r.data, at + 1, r.end)
        return bool(byte(r.data, after, r.end) == (RIGHT_BRACKET if c == LEFT_BRACKET else RIGHT_BRACE))

    def is_delete_without_row(self, operation: OperationRows) -> bool:
        """Whether a deletion has no row, and gives a row of nulls because the record's key says what it deletes."""
        if not self.plan.bare_deletes or operation.count != 1:
            return False
        if operation.members[0] != BEFORE and not operation.or_before:
            return False
        offset = self.members.places[operation.members[0]]
        return offset < 0 or byte(self.reader.data, offset, self.reader.end) == LOWER_N

    def read_row_arrays(self, operation: OperationRows) -> int:
        """Read the rows of each element of AFTER, with the element of BEFORE at the same index if it is laid over."""
        r = self.reader
        if not self.is_opened(LEFT_BRACKET, AFTER, self.members.places[AFTER], -1):
            return BAD
        after = token(r.data, self.members.places[AFTER] + 1, r.end)
        before = -1
        if operation.overlays[0] > 0 and byte(r.data, after, r.end) != RIGHT_BRACKET:
            before = self.members.places[BEFORE]
            if not self.is_opened(LEFT_BRACKET, BEFORE, before, -1):
                return BAD
            before = token(r.data, before + 1, r.end)
        index = 0
        while byte(r.data, after, r.end) != RIGHT_BRACKET:
            if not self.is_opened(LEFT_BRACE, AFTER, after, index):
                return BAD
            if before >= 0 and byte(r.data, before, r.end) == RIGHT_BRACKET:
                raise self.plan.fewer_rows(*self.array_lengths())
            status = self.read_row_pair(operation, before, after, index)
            if status < 0:
                return status
            after = self.next_element(self.after_end)
            if before >= 0:
                before = self.next_element(self.before_end)
            index += 1
        if operation.overlays[0] > 0 and not r.lenient:
            return self.check_elements(BEFORE, before, index)
        return 0

    def array_lengths(self) -> tuple[int, int]:
        """The numbers of rows before and after the change."""
        r, places = self.reader, self.members.places
        return len(self.nodes.read_node(r, places[BEFORE])), len(self.nodes.read_node(r, places[AFTER]))

    def read_row_pair(self, operation: OperationRows, before: int, after: int, index: int) -> int:
        """Read the rows that the operation gives for one row before and one row after the change.

        `before` and `after` are their offsets, -1 for a missing one. `index` is their index if they are in arrays,
        else -1. Sets `before_end` and `after_end`.
        """
        for i in range(operation.count):
            member = operation.members[i]
            if operation.overlays[i] and not self.is_opened(LEFT_BRACE, BEFORE, before, index):
                return BAD
            if not self.is_opened(LEFT_BRACE, member, before if member == BEFORE else after, index):
                return BAD
        self.after_end = after
        for i in range(operation.count):
            member = operation.members[i]
            row = before if member == BEFORE else after
            laid = before if operation.overlays[i] else -1
            end = self.read_row(row, laid, operation.kinds[i])
            if end < 0:
                return self.add_error_path(end, member, operation.overlays[i] > 0, index)
            if laid >= 0:
                self.before_end = end
            else:
                self.after_end = end
        return 0

    def read_row(self, at: int, laid: int, kind: int) -> int:
        """Read the row at an offset, with the values of the object at `laid` over it unless that is -1.

        Returns the offset after the object that was read last, FAULT or BAD.
        """
        r = self.reader
        image = self.image
        at = r.count_cells(at, image.cells)
        if at < 0:
            return at
        r.depth += 1
        end = image.read_members_carefully(r, at) if r.careful else image.read_members(r, at)
        if end >= 0 and laid >= 0:
            end = image.read_members_carefully(r, laid) if r.careful else image.read_members(r, laid)
        r.depth -= 1
        if end >= 0:
            end = image.close(r, end)
        if end >= 0:
            self.kinds.put(kind)
            self.rows += 1
        return end

    def check_unused(self, members: Any) -> int:
        """Check that members are readable that no row is read from. Returns 0, FAULT or BAD."""
        for member in members:
            if self.in_arrays:
                status = self.check_elements(member, -1, 0)
            else:
                status = self.check_row(member, self.members.places[member], -1)
            if status < 0:
                return status
        return 0

    def check_elements(self, member: int, at: int, index: int) -> int:
        """Check the elements of an array from an offset on, which is that of the element at `index`.

        -1 as the offset is the first element of the member.
        """
        r = self.reader
        if at < 0:
            at = self.members.places[member]
            if at < 0 or byte(r.data, at, r.end) == LOWER_N:
                return 0
            if not self.is_opened(LEFT_BRACKET, member, at, -1):
                return BAD
            at = token(r.data, at + 1, r.end)
        while byte(r.data, at, r.end) != RIGHT_BRACKET:
            status = self.check_row(member, at, index)
            if status < 0:
                return status
            at = self.next_element(r.skip(at))
            index += 1
        return 0

    def check_row(self, member: int, at: int, index: int) -> int:
        """Read a row and remove it again. A missing row and null are good."""
        if at < 0 or byte(self.reader.data, at, self.reader.end) == LOWER_N:
            return 0
        end = self.reader.count_cells(at, self.image.cells)
        if end >= 0:
            end = self.image.read_value(self.reader, at)
        self.image.truncate(self.rows)
        return end if end >= 0 else self.add_error_path(end, member, False, index)

    def next_element(self, at: int) -> int:
        """The offset of the next element of an array, or of the bracket that closes it, given the end of an element."""
        r = self.reader
        at = token(r.data, at, r.end)
        return token(r.data, at + 1, r.end) if byte(r.data, at, r.end) == COMMA else at

    def is_opened(self, opening: int, member: int, at: int, index: int) -> bool:
        """Whether a value begins with a bracket or brace, so that it is an array of rows or a row.

        Otherwise notes that it is bad. Raises the plan's error if it is missing or null, or if the reader is lenient.
        """
        r = self.reader
        c = byte(r.data, at, r.end) if at >= 0 else LOWER_N
        if c == opening:
            return True
        if c == LOWER_N or r.lenient:
            raise self.plan.no_rows(member, index, self.nodes.read_node(r, self.members.places[OPERATION]))
        r.reject(at, self.plan.rows if opening == LEFT_BRACKET else self.plan.row)
        self.add_error_path(BAD, member, False, index)
        return False

    def add_error_path(self, code: int, member: int, overlaid: bool, index: int) -> int:
        """Add the way from a row to the message to the path of a bad value, and return the code.

        If BEFORE was laid over the row, the value may be in either member: its offset tells.
        """
        r = self.reader
        if code == BAD:
            if overlaid:
                offset = self.members.places[BEFORE]
                if offset <= r.bad_at < r.skip(offset):
                    member = BEFORE
            elif self.members.places[member] == self.members.places[BEFORE]:
                member = BEFORE
            if index >= 0:
                r.steps.append(index)
            r.steps.append(self.plan.members[member])
            if self.wrapped:
                r.steps.append(self.plan.outer_members[PAYLOAD])
        return code
