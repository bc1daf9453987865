"""Checks whether change data fits the known columns of its tables: `look` for messages with rows in members.

known     db.t: id BIGINT, v DOUBLE
message   {"after": {"id": 1, "v": 2.5}, "op": "c", "source": {"db": "db", "table": "t"}}     fits db.t
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.codecs._kernel.codes import FALSE_TEXT, MAX_DEPTH, NULL_TEXT
from kvformat.codecs._kernel.containers import Names
from kvformat.codecs._kernel.look import LookBatch, LookTable
from kvformat.codecs._kernel.look_codes import CLOSER
from kvformat.codecs._kernel.memory import Bytes, grown
from kvformat.codecs._kernel.previous_value import PreviousValueCache

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        COMMA,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_F,
        LOWER_N,
        QUOTE,
        RIGHT_BRACE,
        RIGHT_BRACKET,
        append,
        byte,
        matches,
        part,
        special,
        token,
        word,
    )
    from kvformat.codecs._kernel.previous_value import NEVER_ALIKE, WORTH_COMPARING

# numbers of the first members of an envelope
FIRST, SECOND, OPERATION, KEY, DECLARED, STATEMENT, NAMES = 0, 1, 2, 3, 4, 5, 6
ALL = 0xFFFFFFFFFFFFFFFF
DOUBTFUL = 16
"""From about this many messages of other tables than the last one on, rows are checked after the table is known."""
MOST_PARTS = 3
"""Parts of a table's name."""
MOST_MOVED = 12
"""How many bytes before or after the last place the name of a table is guessed."""


class EnvelopeLookBatch(LookBatch):
    """Looks at change data: messages with rows in members, and members that name the table.

    members: the names of the first and the second row, the operation, the key, the declared types, and of the member
    that is true for a statement, "" for those that the format does not have; then the parts of the table's name.
    source: the member with the parts, "" if they are members of the envelope. A part that is missing or null is left
    out; the first and the last one must be there, and the others too unless `optional`. The first may be null then.
    others: names of members that are skipped.
    operations: those with rows, of at most eight bytes. With `wrapped` a message is an object of `schema`, the
    declaration, and `payload`.

    Rows usually come before the name of their table. They are compared with the table of the last message. Where that
    was wrong for many messages, the name is guessed first, from where the last one was: by its distance to the end.
    """

    def __init__(
        self,
        members: list[str],
        parts: list[str],
        others: list[str],
        operations: list[bytes],
        *,
        source: str,
        optional: bool,
        in_arrays: bool,
        wrapped: bool,
    ) -> None:
        super().__init__()
        # an odd name stands for a member that the format does not have: a message with it is looked at closer
        used = [name or f"\ud7ff{place}" for place, name in enumerate(members)]
        used += [source] if source else parts
        self.members = Names([*used, *(name for name in others if name not in used)])
        self.used = len(used)
        self.parts = Names(parts)
        self.previous = PreviousValueCache()
        self.scalars: memoryview[int] = grown(None, 0, MOST_PARTS, "i")
        self.distance = 0
        self.part_count = len(parts)
        self.outer = Names(["payload", "schema"])
        self.has_source = bool(source)
        self.optional, self.in_arrays, self.wrapped = optional, in_arrays, wrapped
        self.operations: memoryview[int] = grown(None, 0, max(len(operations), 1), "Q")
        self.sizes: memoryview[int] = grown(None, 0, max(len(operations), 1), "i")
        self.operation_count = len(operations)
        for place, text in enumerate(operations):
            self.operations[place] = int.from_bytes(text, "little")
            self.sizes[place] = len(text)
        self.by_name: dict[bytes, LookTable] = {}
        self.by_last_part: dict[bytes, LookTable] = {}
        self.last: LookTable | None = None
        self.doubt = 0
        self.guessed = False
        self.name = Bytes(256)
        self.starts: memoryview[int] = grown(None, 0, MOST_PARTS, "q")
        self.stops: memoryview[int] = grown(None, 0, MOST_PARTS, "q")
        self.key_at = self.declared_at = 0

    def set_table(self, table: LookTable) -> None:
        """Add a table, or replace the one of the same name."""
        self.by_name[bytes(table.name[: table.name_size])] = table
        self.by_last_part[self.last_part(table)] = table
        self.last = table

    def last_part(self, table: LookTable) -> bytes:
        """Return the last part of the text of a table's name, with quotes."""
        name = bytes(table.name[: table.name_size - 1])
        return name[name.rfind(b'"') :] + b'"'

    def forget(self, *names: bytes) -> None:
        """Forget the tables with these texts of their names."""
        for name in names:
            table = self.by_name.pop(name, None)
            if table is not None:
                self.by_last_part.pop(self.last_part(table), None)
        self.last = None

    def knows(self, name: bytes, key: bytes, declaration: bytes) -> bool:
        """Return whether the table of a name has this key and declaration."""
        table = self.by_name.get(name)
        if table is None:
            return False
        known = bytes(table.key[: table.key_size]), bytes(table.declared[: table.declared_size])
        return known == (key, declaration)

    def spans(self, message: bytes) -> tuple[bytes, bytes, bytes]:
        """Return the bytes of a message's table name, key and declaration, empty for missing ones.

        All are empty if the message is not one of a known shape. Not called while a batch is read.
        """
        r = self.reader
        last = self.last
        self.last = None
        r.open_message(message)
        at = self.envelope_of(token(r.data, 0, r.end))
        self.last = last
        if at < 0 or not self.read_table_name():
            return b"", b"", b""
        name = part(self.name.view, 0, self.name.size)
        key = b"" if self.key_at == 0 else part(r.data, self.key_at, r.skip(self.key_at))
        declared = b"" if self.declared_at == 0 else part(r.data, self.declared_at, r.skip(self.declared_at))
        return name, key, declared

    def table_of(self, at: int) -> int:
        r = self.reader
        before = self.last
        begin = at
        self.guessed = False
        if self.doubt >= DOUBTFUL - 2:
            self.guess()
        end = self.envelope_of(at)
        if end < 0 or not self.is_end(end) or not self.read_table_name():
            return CLOSER
        place = self.starts[self.part_count - 1]
        if place > begin:
            self.distance = r.end - place
        table = self.last
        if table is None or not self.has_name(table):
            table = self.by_name.get(part(self.name.view, 0, self.name.size))
            if table is None:
                return CLOSER
            self.last = table
            if self.doubt < DOUBTFUL:
                self.doubt += 2
            r.depth = 2 if self.wrapped else 1
            if self.image(table, self.first_at) < 0 or self.image(table, self.second_at) < 0:
                return CLOSER
        elif self.skipped:
            self.doubt -= 1
            r.depth = 2 if self.wrapped else 1
            if self.image(table, self.first_at) < 0 or self.image(table, self.second_at) < 0:
                return CLOSER
        elif self.misfits:
            return CLOSER
        elif self.doubt and table is before:
            self.doubt -= 1
        return table.number if self.is_same(table) else CLOSER

    def is_same(self, table: LookTable) -> bool:
        """Return whether the message has the key and the declaration of the table."""
        r = self.reader
        if self.key_at:
            if not matches(r.data, self.key_at, r.end, table.key, 0, table.key_size):
                return False
        elif table.key_size:
            return False
        if self.declared_at == 0:
            return table.declared_size == 0
        return matches(r.data, self.declared_at, r.end, table.declared, 0, table.declared_size)

    def has_name(self, table: LookTable) -> bool:
        """Return whether the message names this table."""
        size = table.name_size
        return self.name.size == size and matches(self.name.view, 0, self.name.size, table.name, 0, size)

    def read_table_name(self) -> bool:
        """Put the texts of the table's name into `name`. Return False if it can't be told."""
        r = self.reader
        self.name.size = 0
        for number in range(self.part_count):
            start = self.starts[number]
            c = byte(r.data, start, r.end) if start else LOWER_N
            if start == 0 and number == 0:
                return False
            if c == QUOTE and self.stops[number] - start > 2:
                append(self.name, r.data, start, self.stops[number])
            elif c != LOWER_N or not self.optional or number == self.part_count - 1:
                return False
        return True

    def envelope_of(self, at: int) -> int:
        """Read the members of a message's envelope. Return the end of the message's object, or a negative number."""
        r = self.reader
        self.first_at = self.second_at = self.key_at = self.declared_at = 0
        self.misfits = False
        self.skipped = self.doubt >= DOUBTFUL - 2 and not self.guessed
        for number in range(MOST_PARTS):
            self.starts[number] = 0
        if byte(r.data, at, r.end) != LEFT_BRACE:
            return CLOSER
        return self.wrapper(at) if self.wrapped else self.envelope(at)

    def wrapper(self, at: int) -> int:
        """Read an object of `schema` and `payload`."""
        r = self.reader
        before = self.outer.count
        has_payload = False
        r.depth += 1
        at = token(r.data, at + 1, r.end)
        while True:
            number = self.outer.read_name(r, at, before)
            at = self.outer.value
            if at < 0:
                return at
            if number == 0:
                if has_payload or byte(r.data, at, r.end) != LEFT_BRACE:
                    return CLOSER
                has_payload = True
                at = self.envelope(at)
            elif number == 1:
                if self.declared_at:
                    return CLOSER
                self.declared_at = at
                at = self.skip_declared(at)
            else:
                return CLOSER
            if at < 0:
                return at
            before = number
            at = token(r.data, at, r.end)
            if byte(r.data, at, r.end) != COMMA:
                break
            at = token(r.data, at + 1, r.end)
        r.depth -= 1
        return at + 1 if has_payload and byte(r.data, at, r.end) == RIGHT_BRACE else CLOSER

    def skip_declared(self, at: int) -> int:
        """Skip a declaration; compare it with that of the last table first."""
        r = self.reader
        table = self.last
        if table is not None and matches(r.data, at, r.end, table.declared, 0, table.declared_size):
            return at + table.declared_size
        return r.skip(at)

    def envelope(self, at: int) -> int:
        """Read the object with the change. Return its end, or a negative number."""
        r = self.reader
        members = self.members
        before = members.count
        seen = 0
        r.depth += 1
        at = token(r.data, at + 1, r.end)
        while True:
            number = members.read_name(r, at, before)
            at = members.value
            if at < 0:
                return at
            if number < 0:
                at = r.skip(at)
            elif number >= self.used:
                before = number
                at = r.skip(at)
            else:
                if seen >> number & 1:
                    return CLOSER
                seen |= 1 << number
                before = number
                at = self.member(number, at)
            if at < 0:
                return at
            at = token(r.data, at, r.end)
            if byte(r.data, at, r.end) != COMMA:
                break
            at = token(r.data, at + 1, r.end)
        r.depth -= 1
        return at + 1 if seen >> OPERATION & 1 and byte(r.data, at, r.end) == RIGHT_BRACE else CLOSER

    def member(self, number: int, at: int) -> int:
        """Read a known member of the envelope."""
        r = self.reader
        if number in (FIRST, SECOND):
            if number == FIRST:
                self.first_at = at
            else:
                self.second_at = at
            table = self.last
            if self.skipped:
                return r.skip(at)
            if table is not None and not self.misfits:
                depth = r.depth
                end = self.image(table, at)
                if end >= 0:
                    return end
                r.depth = depth
            self.misfits = True
            return r.skip(at)
        if number == OPERATION:
            end = r.string(at) if byte(r.data, at, r.end) == QUOTE else CLOSER
            return end if end < 0 or self.is_known_operation(at + 1, end - at - 2) else CLOSER
        if number == KEY:
            self.key_at = at
            return r.skip(at)
        if number == DECLARED:
            self.declared_at = at
            return self.skip_declared(at)
        if number == STATEMENT:
            return r.literal(at, FALSE_TEXT, 5) if byte(r.data, at, r.end) == LOWER_F else CLOSER
        if self.has_source:
            return self.source(at) if byte(r.data, at, r.end) == LEFT_BRACE else CLOSER
        self.starts[number - NAMES] = at
        end = r.skip(at)
        self.stops[number - NAMES] = end
        return end

    def source(self, at: int) -> int:
        """Read the object with the parts of the table's name."""
        r = self.reader
        parts = self.parts
        previous = self.previous
        before = parts.count
        begin = at
        at = previous.compare(r, at)
        if at > 0:
            for number in range(self.part_count):
                place = self.scalars[number]
                if place < 0:
                    continue
                if previous.changed >> place & 1:
                    self.starts[number] = previous.new_starts[place]
                    self.stops[number] = previous.new_ends[place]
                else:
                    self.starts[number] = previous.starts[place]
                    self.stops[number] = previous.ends[place]
            return at
        at = begin
        r.depth += 1
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) == RIGHT_BRACE:
            return CLOSER
        while True:
            number = parts.read_name(r, at, before)
            at = parts.value
            if at < 0:
                return at
            start = at
            at = r.skip(at)
            if at < 0:
                return at
            if number >= 0:
                if self.starts[number]:
                    return CLOSER
                before = number
                self.starts[number] = start
                self.stops[number] = at
            at = token(r.data, at, r.end)
            if byte(r.data, at, r.end) != COMMA:
                break
            at = token(r.data, at + 1, r.end)
        r.depth -= 1
        if byte(r.data, at, r.end) != RIGHT_BRACE:
            return CLOSER
        at += 1
        if at - begin >= WORTH_COMPARING and previous.doubt < NEVER_ALIKE:
            self.note_source(begin, at)
        return at

    def note_source(self, begin: int, end: int) -> int:
        """Keep an object with the parts of a table's name, with the places of its parts among its scalars."""
        previous = self.previous
        previous.note_value(self.reader, begin, end)
        for number in range(self.part_count):
            self.scalars[number] = -1
            if self.starts[number] == 0:
                continue
            for place in range(previous.count):
                if previous.starts[place] == self.starts[number]:
                    self.scalars[number] = place
            if self.scalars[number] < 0:  # the part is an object or an array
                previous.size = 0
        return 0

    def guess(self) -> int:
        """Find the table of a message by the last part of its name, without reading the message."""
        r = self.reader
        names = self.parts if self.has_source else self.members
        number = self.part_count - 1 if self.has_source else NAMES + self.part_count - 1
        start = names.starts[number]
        size = names.starts[number + 1] - start
        at = r.end - self.distance
        for step in range(2 * MOST_MOVED + 1):
            at += -step if step & 1 else step  # 0, 1 before, 1 after, 2 before, ...
            if matches(r.data, at - size, r.end, names.texts, start, size):
                table = self.by_last_part.get(part(r.data, at, special(r.data, at + 1, r.end) + 1))
                if table is not None:
                    self.last = table
                    self.guessed = True
                break
        return 0

    def is_known_operation(self, at: int, size: int) -> bool:
        """Return whether an operation gives rows."""
        r = self.reader
        if size < 1 or size > 8:
            return False
        operation = word(r.data, at)
        for place in range(self.operation_count):
            if self.sizes[place] == size and (operation ^ self.operations[place]) & ALL >> 64 - 8 * size == 0:
                return True
        return False

    def image(self, table: LookTable, at: int) -> int:
        """Return the end of a row, or of an array of rows, that fits a table; a negative number for others."""
        r = self.reader
        if at == 0:
            return 0
        c = byte(r.data, at, r.end)
        if c == LOWER_N:
            return r.literal(at, NULL_TEXT, 4)
        if r.depth + 2 > MAX_DEPTH:
            return CLOSER
        if not self.in_arrays:
            return self.row(table, at) if c == LEFT_BRACE else CLOSER
        if c != LEFT_BRACKET:
            return CLOSER
        r.depth += 1
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) != RIGHT_BRACKET:
            while True:
                c = byte(r.data, at, r.end)
                if c == LEFT_BRACE:
                    at = self.row(table, at)
                elif c == LOWER_N:
                    at = r.literal(at, NULL_TEXT, 4)
                else:
                    return CLOSER
                if at < 0:
                    return at
                at = token(r.data, at, r.end)
                if byte(r.data, at, r.end) != COMMA:
                    break
                at = token(r.data, at + 1, r.end)
            if byte(r.data, at, r.end) != RIGHT_BRACKET:
                return CLOSER
        r.depth -= 1
        return at + 1
