"""Reads rows ahead: while the members of a message are looked for, before its operation is known.

Without this module, each row is parsed twice: once to find where the members of the message are, and once into the
columns. Most messages have exactly the rows that their operation gives, so these are parsed into the columns at once:

    {"before": {...}, "after": {...}, "op": "u"}            both rows are read ahead and closed
    {"data": [{...}], "old": [{...}], "type": "UPDATE"}     the row in data is read ahead and stays open

An open row has values in its columns, but does not count as a row yet. The values in `old` can still be laid over it.

`accept` compares the rows with the operation, once that is known. If they are not the rows that it gives, the batch
removes them and reads by the rule in `changes.py`. Reading ahead is for speed alone: the answers are the same without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.codecs._kernel.codes import AFTER, BAD, BEFORE, FAULT, TOO_LARGE, TOO_MANY_CELLS
from kvformat.codecs._kernel.containers import Members, Rows
from kvformat.codecs._kernel.memory import grown
from kvformat.codecs._kernel.operation_rows import OperationRows
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import LEFT_BRACE, LEFT_BRACKET, LOWER_N, RIGHT_BRACKET, byte, token


class ReadAhead:
    """The rows of a message that were read ahead into `image`.

    `in_arrays` says that the rows are in arrays; an array is read ahead if it has one row. `keeps_open` says that
    BEFORE may have to be laid over AFTER. Then only AFTER is read ahead, and its row stays open.
    """

    def __init__(self, image: Rows, *, in_arrays: bool, keeps_open: bool) -> None:
        self.image, self.in_arrays, self.keeps_open = image, in_arrays, keeps_open
        self.most = 1 if keeps_open else 2
        self.started = self.active = self.accepted = False
        self.count = self.rows_before = self.cells = 0
        self.members: memoryview[int] = grown(None, 0, 2, "i")
        self.offsets: memoryview[int] = grown(None, 0, 2, "q")
        self.own, self.laid = Members(image.names), Members(image.names)

    def begin_message(self, rows_before: int) -> int:
        """Begin a message; `rows_before` is the number of rows that the columns have already."""
        self.rows_before = rows_before
        self.started = self.active = self.accepted = False
        return 0

    def begin_object(self, r: Reader) -> int:
        """Begin the object with the rows. If a message has several payloads, the rows of the last one count."""
        if self.started:
            self.image.truncate(self.rows_before)
            r.cells = 0
        self.started = True
        self.active = not r.careful
        self.count = self.cells = 0
        return 0

    def wants(self, number: int) -> bool:
        """Whether the value of the member with this number is to be read ahead."""
        return self.active and (number == AFTER or (number == BEFORE and not self.keeps_open))

    def read_value(self, r: Reader, number: int, at: int) -> int:
        """Read the value of a member ahead, and return the offset after it, or FAULT.

        A value other than a row or null ends reading ahead for this message, and is skipped.
        """
        c = byte(r.data, at, r.end)
        if c == LOWER_N:
            return r.skip(at)
        if (c == LEFT_BRACKET) == self.in_arrays and self.count < self.most:
            row = token(r.data, at + 1, r.end) if self.in_arrays else at
            if byte(r.data, row, r.end) == LEFT_BRACE:
                end = self.read_row(r, row)
                if end >= 0 or (end == FAULT and r.code != TOO_MANY_CELLS and r.code != TOO_LARGE):
                    self.members[self.count] = number
                    self.offsets[self.count] = at
                    self.count += 1
                    return end
        self.active = False
        return r.skip(at)

    def read_row(self, r: Reader, at: int) -> int:
        """Read a row into the columns, and close it unless it stays open.

        Returns the offset after the row, or after the array that has this one row. BAD if the array has more rows.
        """
        depth = r.depth
        r.depth += 2 if self.in_arrays else 1
        end = r.count_cells(at, self.image.cells)
        if end >= 0:
            end = self.read_noting(r, self.own, at) if self.keeps_open else self.image.read_members(r, at)
        r.depth = depth
        if end >= 0 and self.in_arrays:
            end = token(r.data, end, r.end)
            end = end + 1 if byte(r.data, end, r.end) == RIGHT_BRACKET else BAD
        if end >= 0 and not self.keeps_open:
            end = self.image.close(r, end)
        self.cells = r.cells
        return end

    def read_noting(self, r: Reader, members: Members, at: int) -> int:
        """Read the values of a row into the columns, and note their offsets in `members`. Returns the row's end."""
        members.forget()
        self.image.noted = members
        end = self.image.read_members(r, at)
        self.image.noted = None
        return end

    def accept(self, r: Reader, members: Members, operation: OperationRows) -> bool:
        """Whether the columns now have the rows of the operation, given the offsets of the message's members.

        An open row is finished here.
        """
        if not self.active:
            return False
        r.cells = self.cells
        if self.keeps_open:
            self.accepted = self.finish_open_row(r, members, operation)
        else:
            self.accepted = self.are_wanted(members, operation)
        return self.accepted

    def are_wanted(self, members: Members, operation: OperationRows) -> bool:
        """Whether the closed rows are those of the operation, read from the last member of each name."""
        if self.count != operation.count:
            return False
        for i in range(self.count):
            if operation.members[i] != self.members[i] or members.places[self.members[i]] != self.offsets[i]:
                return False
        return True

    def finish_open_row(self, r: Reader, members: Members, operation: OperationRows) -> bool:
        """Close the open row as the first row of the operation, and repeat it for the others.

        Returns False if the operation needs other rows.
        """
        if self.count != 1 or members.places[AFTER] != self.offsets[0]:
            return False
        for i in range(operation.count):
            if operation.members[i] != AFTER or (i > 0 and (operation.overlays[i] or not operation.overlays[0])):
                return False
        if operation.overlays[0] and not self.lay_over(r, members.places[BEFORE]):
            return False
        if self.image.close(r, self.offsets[0]) < 0:
            return False
        for _ in range(1, operation.count):
            if r.count_cells(self.offsets[0], self.image.cells) < 0:
                return False
            if self.image.repeat_row(r, self.own, self.laid) < 0:
                return False
        return True

    def lay_over(self, r: Reader, at: int) -> bool:
        """Lay the values of the row in BEFORE, at an offset or -1, over the open row. False if there is not one row."""
        if self.in_arrays:
            if byte(r.data, at, r.end) != LEFT_BRACKET:
                return False
            at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) != LEFT_BRACE:
            return False
        end = self.read_noting(r, self.laid, at)
        return end >= 0 and (not self.in_arrays or byte(r.data, token(r.data, end, r.end), r.end) == RIGHT_BRACKET)
