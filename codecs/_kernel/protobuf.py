"""Protocol Buffers' wire format: what reads it, and the fields of a message, which read values into columns.

Of a field that comes twice the last value counts, or both together, so a field keeps what came (`take`) until the row
ends (`close`) and its column gets it. The elements of a list go into their column at once: a list only grows.

What reads takes a place and where its message ends, and returns the place behind, or FAULT (`Wire.code`, `where`). The
rules for all code of this room are those of `reader`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import BYTES_OF_A_CELL, FAULT, MOST_BYTES
from kvformat.codecs._kernel.columns import Column, Int64Column, Texts
from kvformat.codecs._kernel.containers import Lists, Rows
from kvformat.codecs._kernel.memory import grown
from kvformat.codecs._kernel.messages import Messages, Said
from kvformat.codecs._kernel.protobuf_codes import (
    BITS32,
    BITS32_SIGNED,
    BITS64,
    FIXED32,
    FIXED64,
    GROUP_END,
    GROUP_START,
    LONG_VARINT,
    LOW,
    MAX_LEVELS,
    NEGATIVE_SIZE,
    NESTED_TOO_DEEPLY,
    NO_MESSAGE,
    NO_UTF8,
    SIGNED32,
    SIGNED64,
    SIZED,
    STRAY_GROUP_END,
    TOO_MANY_CELLS,
    TOO_MUCH_TEXT,
    TORN,
    TRUTH,
    VARINT,
    WRONG_WIRE_TYPE,
    ZERO_TAG,
    ZIGZAG32,
)
from kvformat.codecs._kernel.protobuf_columns import EnumNames, Pairs
from kvformat.codecs._kernel.reader import Reader
from kvformat.registry.contract.cells import CELLS_PER_BYTE

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import append, append_bytes, byte, part, word

SIGN = 0x80000000
LARGEST = 2**63 - 1  # of a signed word
ALL = 0xFFFFFFFFFFFFFFFF
_DENSE = 4096
"""Up to this number a field is found in a table, beyond it in a dict."""


class Wire:
    """A batch of messages: its bytes, the last tag and the last value, and what is wrong with the message."""

    def __init__(self) -> None:
        self.data = memoryview(b"")
        self.texts = Reader()
        self.value = self.integer = 0
        self.number = self.kind = 0
        self.size = self.begin = self.where = self.code = self.depth = 0
        self.is_unknown = self.is_doubtful = False
        self.steps: list[str] = []

    def open(self, data: memoryview[int]) -> int:
        """Take the bytes of other messages."""
        self.data = data
        return self.texts.open(data)

    def start(self, begin: int, end: int) -> int:
        """Begin with a message."""
        self.begin = begin
        self.texts.start_message(begin, end)
        self.depth = 0
        self.is_unknown = self.is_doubtful = False
        if self.steps:
            self.steps = []
        return 0

    def fail(self, at: int, code: int) -> int:
        """Note why and where the message is no protobuf."""
        self.code = code
        self.where = at
        return FAULT

    def count_cells(self, at: int, cells: int) -> int:
        """Note that a value becomes so many cells; returns its place, or FAULT where these are too many."""
        return at if self.texts.count_cells(at, cells) >= 0 else self.fail(at, TOO_MANY_CELLS)

    def varint(self, at: int, end: int) -> int:
        """Read a varint into `value`: the low 64 bits of up to ten bytes."""
        if at >= end:
            return self.fail(at, TORN)
        c = byte(self.data, at, end)
        if c < 128:
            self.value = c
            return at + 1
        return self.long_varint(at, end)

    def long_varint(self, at: int, end: int) -> int:
        """The same for more than one byte."""
        found = 0
        start = at
        for i in range(10):
            if at >= end:
                return self.fail(start, TORN)
            c = byte(self.data, at, end)
            found |= (c & 127) << 7 * i
            at += 1
            if c < 128:
                self.value = found & ALL
                return at
        return self.fail(start, LONG_VARINT)

    def sized(self, at: int, end: int) -> int:
        """Read a size, of which the low 32 bits count, into `size`; returns where that many bytes begin."""
        start = at
        at = self.varint(at, end)
        if at < 0:
            return at
        size = self.value & LOW
        if size >= SIGN:
            return self.fail(start, NEGATIVE_SIZE)
        self.size = size
        return self.fail(start, TORN) if self.size > end - at else at

    def tag(self, at: int, end: int) -> int:
        """Read the tag of a field into `number` and `kind`, its wire type."""
        start = at
        at = self.varint(at, end)
        if at < 0:
            return at
        tag = self.value & LOW
        self.number = tag >> 3
        self.kind = tag & 7
        if self.number == 0:
            return self.fail(start, ZERO_TAG)
        return self.fail(start, WRONG_WIRE_TYPE) if self.kind > FIXED32 else at

    def fixed(self, at: int, end: int, size: int) -> int:
        """Go past so many bytes."""
        return self.fail(at, TORN) if end - at < size else at + size

    def scalar(self, how: int, at: int, end: int) -> int:
        """Read a number into `integer`."""
        start = at
        if how >= BITS32:
            at = self.fixed(at, end, 8 if how == BITS64 else 4)
            if at < 0:
                return at
            found = word(self.data, start)
            if how != BITS64:
                found &= LOW
        else:
            at = self.varint(at, end)
            if at < 0:
                return at
            found = self.value
        if how in (SIGNED64, BITS64):
            self.integer = found if found <= LARGEST else -1 - self.plain(ALL - found)
        elif how in (SIGNED32, BITS32_SIGNED):
            found &= LOW
            self.integer = found if found < SIGN else -1 - self.plain(LOW - found)
        elif how == TRUTH:
            self.integer = found != 0
        elif how == BITS32:
            self.integer = found
        else:
            if how == ZIGZAG32:
                found &= LOW
            self.integer = -1 - self.plain(found >> 1) if found & 1 else self.plain(found >> 1)
        return at

    def plain(self, found: int) -> int:
        """A number of up to 63 bits as one with a sign."""
        return found

    def skip(self, at: int, end: int) -> int:
        """Go past a field whose tag was just read."""
        if self.kind == VARINT:
            return self.varint(at, end)
        if self.kind == FIXED64:
            return self.fixed(at, end, 8)
        if self.kind == FIXED32:
            return self.fixed(at, end, 4)
        if self.kind == GROUP_START:
            return self.skip_group(at, end)
        if self.kind == GROUP_END:
            return self.fail(at, STRAY_GROUP_END)
        at = self.sized(at, end)
        return at if at < 0 else at + self.size

    def skip_group(self, at: int, end: int) -> int:
        """Go past the fields of a group, and its end."""
        number = self.number
        if self.depth >= MAX_LEVELS:
            return self.fail(at, NESTED_TOO_DEEPLY)
        self.depth += 1
        while at < end:
            start = at
            at = self.tag(at, end)
            if at < 0:
                return at
            if self.kind == GROUP_END:
                self.depth -= 1
                return at if self.number == number else self.fail(start, STRAY_GROUP_END)
            at = self.skip(at, end)
            if at < 0:
                return at
        return self.fail(at, STRAY_GROUP_END)


class FieldReader:
    """A field of a message. `wire` is the type its values have on the wire; `bit` says which required one it is.

    `column` gets the values; without one they are only looked at, and the field is never closed. `rivals` is its
    oneof, if a column is in there. A field is `touched` from its first value in a row on, until the row ends.
    """

    def __init__(self, name: str, wire: int, column: Column | None) -> None:
        self.name, self.wire = name, wire
        self.column: Column = column  # type: ignore[assignment]
        self.bit = 0
        self.rivals: Rivals | None = None
        self.has_column = column is not None
        self.is_list = self.came = self.has_default = self.touched = False

    def take(self, w: Wire, at: int, end: int) -> int:
        """Read a value that has the wire type."""
        raise NotImplementedError

    def packed(self, w: Wire, at: int, end: int) -> int:
        """Read a block of values."""
        raise NotImplementedError

    def close(self, w: Wire) -> int:
        """Give the column what came, or what an absent field is; 0, or FAULT."""
        raise NotImplementedError

    def drop(self) -> int:
        """Forget what came since the last row."""
        self.came = False
        return 0


class Rivals:
    """The fields of a oneof. Only the `last` one that came may hold anything, of this row or of one before."""

    def __init__(self) -> None:
        self.last: FieldReader | None = None

    def give_way(self, field: FieldReader) -> int:
        """Forget what came of another field, as this one has come."""
        if self.last is not field:
            if self.last is not None:
                self.last.drop()
            self.last = field
        return 0


class NumberReader(FieldReader):
    """A number, bool or enum; `how` it is on the wire. Of an enum that is closed only the `known` numbers count."""

    def __init__(
        self, name: str, column: Int64Column | None, how: int, default: int | None, known: list[int] | None
    ) -> None:
        wire = FIXED64 if how == BITS64 else FIXED32 if how >= BITS32 else VARINT
        super().__init__(name, wire, column)
        self.words: Int64Column = column  # type: ignore[assignment]
        self.how = how
        self.most = column.most if isinstance(column, EnumNames) else MOST_BYTES
        self.has_default, self.default = default is not None, default or 0
        self.is_closed = known is not None
        self.known: memoryview[int] = memoryview(np.array(sorted(known or [0]), np.int64).tobytes()).cast("q")
        self.value = 0

    def take(self, w: Wire, at: int, end: int) -> int:
        at = w.scalar(self.how, at, end)
        if at < 0:
            return at
        if self.is_closed and not self.knows(w.integer):
            w.is_unknown = True
            return at
        self.value = w.integer
        self.came = True
        return at

    def knows(self, number: int) -> bool:
        """Whether an enum has a number."""
        low = 0
        high = len(self.known)
        while low < high:
            middle = (low + high) // 2
            if self.known[middle] < number:
                low = middle + 1
            else:
                high = middle
        return low < len(self.known) and self.known[low] == number

    def close(self, w: Wire) -> int:
        if self.came:
            self.came = False
            self.words.add_value(self.value, 0)
        elif self.has_default:
            self.words.add_value(self.default, 0)
        else:
            self.words.null()
        if self.words.length > self.most:
            w.steps.append(self.name)
            return w.fail(w.begin, TOO_MUCH_TEXT)
        return 0


class TextReader(FieldReader):
    """A string or bytes. `mend` makes proper UTF-8 of other bytes; without it they are an error, if it is `checked`."""

    def __init__(
        self,
        name: str,
        column: Texts | None,
        default: bytes | None,
        *,
        checked: bool,
        mend: Callable[[bytes], bytes] | None,
    ) -> None:
        super().__init__(name, SIZED, column)
        self.text: Texts = column  # type: ignore[assignment]
        self.checked, self.mend = checked, mend
        self.has_default, self.default = default is not None, default or b""
        if column is not None:
            column.cells += len(self.default) // BYTES_OF_A_CELL
        self.start = self.stop = 0
        self.is_broken = False

    def take(self, w: Wire, at: int, end: int) -> int:
        at = w.sized(at, end)
        if at < 0:
            return at
        stop = at + w.size
        if self.checked:
            good = w.texts.utf8_end(at, stop)
            self.is_broken = good < stop
            if self.is_broken and self.mend is None:
                return w.fail(good, NO_UTF8)
        self.start, self.stop = at, stop
        self.came = True
        return stop

    def close(self, w: Wire) -> int:
        if not self.came:
            if not self.has_default:
                self.text.null()
                return 0
            append_bytes(self.text.text, self.default)
            self.start = w.begin
        elif self.is_broken:
            append_bytes(self.text.text, self.mend(part(w.data, self.start, self.stop)))  # type: ignore[misc]
        else:
            append(self.text.text, w.data, self.start, self.stop)
        self.came = False
        if self.text.weight() > MOST_BYTES:
            w.steps.append(self.name)
            return w.fail(self.start, TOO_MUCH_TEXT)
        return self.text.ended(True)


class MessageReader:
    """What the fields of a message are by their numbers; those with a column are closed in the order of the columns.

    `required` has the bits of all fields that must be there. A message without one is `is_doubtful`: two of them that
    are merged may have all.
    """

    def __init__(self) -> None:
        self.fields: list[FieldReader] = []
        self.closing: list[FieldReader] = []
        self.touched: memoryview[int] = grown(None, 0, 1, "i")
        self.touches = 0
        self.required = 0
        self.table = memoryview(bytes(4)).cast("i")
        self.far: dict[int, int] = {}

    def fill(self, numbers: list[int], fields: list[FieldReader], closing: list[FieldReader], required: int) -> None:
        """Take the fields: only now, as a message may hold itself."""
        self.fields, self.closing, self.required = fields, closing, required
        self.touched = grown(None, 0, len(fields) + 1, "i")
        near = [number for number in numbers if number < _DENSE]
        table = np.full(max(near, default=0) + 1, -1, np.int32)
        for slot, number in enumerate(numbers):
            if number < _DENSE:
                table[number] = slot
            else:
                self.far[number] = slot
        self.table = memoryview(table.tobytes()).cast("i")

    def find(self, number: int) -> int:
        """The place of a field in `fields`, -1 for an unknown one."""
        if number < len(self.table):
            return self.table[number]
        return self.far.get(number, -1) if self.far else -1

    def read_fields(self, w: Wire, at: int, end: int, group: int) -> int:
        """Read all fields up to the end, or up to the end of the group of that number."""
        seen = 0
        while at < end:
            start = at
            at = w.tag(at, end)
            if at < 0:
                return at
            slot = self.find(w.number)
            if slot < 0:
                if w.kind == GROUP_END and group > 0 and w.number == group:
                    group = -1
                    break
                at = w.fail(start, STRAY_GROUP_END) if w.kind == GROUP_END else w.skip(at, end)
                if at < 0:
                    return at
                continue
            field = cython.cast(FieldReader, self.fields[slot])
            if field.has_column and not field.touched:
                field.touched = True
                self.touched[self.touches] = slot
                self.touches += 1
            if w.kind == field.wire:
                at = field.take(w, at, end)
            elif w.kind == SIZED and field.is_list:
                at = field.packed(w, at, end)
            elif w.kind == GROUP_END:
                if w.number == group:
                    group = -1
                    break
                at = w.fail(start, STRAY_GROUP_END)
            else:
                at = w.skip(at, end)
                w.is_unknown = True
            if at < 0:
                w.steps.append(field.name)
                return at
            if w.is_unknown:
                w.is_unknown = False
                continue
            seen |= field.bit
            if field.rivals is not None:
                field.rivals.give_way(field)
        if group > 0:
            return w.fail(at, STRAY_GROUP_END)
        if seen & self.required != self.required:
            w.is_doubtful = True
        return at

    def close(self, w: Wire) -> int:
        """End the row: each column gets a value."""
        for i in range(self.touches):
            cython.cast(FieldReader, self.fields[self.touched[i]]).touched = False
        self.touches = 0
        for i in range(len(self.closing)):
            if cython.cast(FieldReader, self.closing[i]).close(w) < 0:
                return FAULT
        return 0

    def drop(self) -> int:
        """Forget the fields that came."""
        for i in range(self.touches):
            field = cython.cast(FieldReader, self.fields[self.touched[i]])
            field.touched = False
            field.drop()
        self.touches = 0
        return 0


class SubmessageReader(FieldReader):
    """A message, or a `group` of that number (0 if it is none). An absent one is a null, or a row of defaults."""

    def __init__(
        self, name: str, column: Rows | None, message: MessageReader, group: int, *, has_default: bool
    ) -> None:
        super().__init__(name, GROUP_START if group else SIZED, column)
        self.rows: Rows = column  # type: ignore[assignment]
        self.message, self.group, self.has_default = message, group, has_default

    def take(self, w: Wire, at: int, end: int) -> int:
        if self.group == 0:
            at = w.sized(at, end)
            if at < 0:
                return at
            end = at + w.size
        if w.depth >= MAX_LEVELS:
            return w.fail(at, NESTED_TOO_DEEPLY)
        w.depth += 1
        self.came = True
        at = self.message.read_fields(w, at, end, self.group)
        w.depth -= 1
        return at

    def close(self, w: Wire) -> int:
        if not self.came and not self.has_default:
            self.rows.null()
            return 0
        self.came = False
        if self.message.close(w) < 0:
            w.steps.append(self.name)
            return FAULT
        return self.rows.end_row()

    def drop(self) -> int:
        self.came = False
        return self.message.drop()


def counted(column: Column | None) -> int:
    """How many cells each element of a column counts for: an element has a byte, so few of them are never too many."""
    return 0 if column is None or column.cells <= CELLS_PER_BYTE else column.cells


class RepeatedReader(FieldReader):
    """A list of what `element` reads; numbers may come in blocks, too. An absent one is a null, or empty."""

    def __init__(self, column: Lists | None, element: FieldReader, *, has_default: bool) -> None:
        super().__init__(element.name, element.wire, column)
        self.lists: Lists = column  # type: ignore[assignment]
        self.element, self.has_default = element, has_default
        self.is_list = isinstance(element, NumberReader)
        self.counted = counted(None if column is None else column.element)

    def take(self, w: Wire, at: int, end: int) -> int:
        if self.counted:
            at = w.count_cells(at, self.counted)
            if at < 0:
                return at
        at = self.element.take(w, at, end)
        if at < 0:
            return at
        if w.is_unknown:
            return at
        if self.lists is not None and self.element.close(w) < 0:
            return FAULT
        return at

    def packed(self, w: Wire, at: int, end: int) -> int:
        at = w.sized(at, end)
        if at < 0:
            return at
        stop = at + w.size
        while at < stop:
            at = self.take(w, at, stop)
            w.is_unknown = False
            if at < 0:
                return at
        return at

    def close(self, w: Wire) -> int:
        if self.has_default or self.lists.has_open():
            return self.lists.end()
        return self.lists.null()

    def drop(self) -> int:
        self.element.drop()
        return self.lists.truncate(self.lists.length)


class EntriesReader(FieldReader):
    """A map: a list of messages of a key and a value. `number` is a closed enum: entries of others are left out."""

    def __init__(
        self, name: str, column: Pairs | None, entry: MessageReader, number: NumberReader | None, *, has_default: bool
    ) -> None:
        super().__init__(name, SIZED, column)
        self.pairs: Pairs = column  # type: ignore[assignment]
        self.entry, self.number, self.has_default = entry, number, has_default
        self.counted = counted(None if column is None else column.items)
        if number is not None:
            number.is_closed = False  # the last value of an entry counts, be it known or not

    def take(self, w: Wire, at: int, end: int) -> int:
        at = w.sized(at, end)
        if at < 0:
            return at
        if w.depth >= MAX_LEVELS:
            return w.fail(at, NESTED_TOO_DEEPLY)
        if self.counted:
            at = w.count_cells(at, self.counted)
            if at < 0:
                return at
        w.depth += 1
        at = self.entry.read_fields(w, at, at + w.size, 0)
        if at < 0:
            return at
        w.depth -= 1
        number = self.number
        if number is not None and number.came and not number.knows(number.value):
            self.entry.drop()
            w.is_unknown = True
        elif self.pairs is not None and self.entry.close(w) < 0:
            return FAULT
        return at

    def close(self, w: Wire) -> int:
        if self.has_default or self.pairs.has_open():
            self.pairs.compare()
            return self.pairs.end()
        return self.pairs.null()

    def drop(self) -> int:
        self.entry.drop()
        return self.pairs.truncate(self.pairs.length)


class ProtobufBatch(Messages):
    """Reads batches of messages, one row each.

    `said` has the words for a fault: of its number, its place in the message, and the names of the fields around it,
    innermost first. `lacking` has those for a message without a required field, None where it has all.
    """

    def __init__(
        self,
        root: Rows,
        message: MessageReader,
        said: Callable[[int, int, list[str]], Said],
        lacking: Callable[[bytes], Said | None],
        *,
        lenient: bool,
    ) -> None:
        super().__init__()
        self.root, self.message = root, message
        self.said, self.lacking, self.lenient = said, lacking, lenient
        self.wire = Wire()

    def read_batch(self, messages: pa.BinaryArray) -> pa.ListArray:
        """The rows of each message. A null one is an error."""
        self.root.start(self.capacity(len(messages)))
        self.wire.texts.start_batch(self.root.cells)
        self.run(messages)
        return self.lists(self.root.finish())

    def run(self, messages: pa.BinaryArray) -> int:
        """Read all messages of a batch."""
        count = len(messages)
        self.begin(count)
        shift = messages.offset
        validity, places, data = messages.buffers()
        offsets = memoryview(places if places is not None else bytes(8)).cast("B").cast("i")
        has_nulls = validity is not None
        valid = memoryview(validity if has_nulls else b"\0").cast("B")
        w = self.wire
        w.open(memoryview(data if data is not None else b"").cast("B"))
        for i in range(count):
            self.offsets[i + 1] = self.rows
            self.current = i
            place = i + shift
            if has_nulls and not valid[place >> 3] >> (place & 7) & 1:
                self.present[i] = 0
                if not self.lenient:
                    self.add_error(self.said(NO_MESSAGE, 0, []))
                continue
            begin = offsets[place]
            end = offsets[place + 1]
            if not 0 <= begin <= end <= len(w.data):
                raise ValueError("a message outside of the data")
            if self.read_message(begin, end):
                self.present[i] = 1
                self.rows += 1
                self.offsets[i + 1] = self.rows
                if w.texts.cells > self.root.cells:
                    w.texts.charge_cells()
            else:
                self.message.drop()
                self.root.truncate(self.rows)
        w.open(memoryview(b""))
        return 0

    def read_message(self, begin: int, end: int) -> bool:
        """Read a message; whether it is good. One that becomes too large is an error, others are none if lenient."""
        w = self.wire
        w.start(begin, end)
        self.present[self.current] = self.lenient
        if self.message.read_fields(w, begin, end, 0) >= 0:
            lack: Any = self.lacking(part(w.data, begin, end)) if w.is_doubtful else None
            if lack is not None:
                if not self.lenient:
                    self.add_error(lack)
                return False
            if self.message.close(w) >= 0:
                self.root.end_row()
                return True
        if not self.lenient or w.code == TOO_MANY_CELLS or w.code == TOO_MUCH_TEXT:
            self.present[self.current] = False
            self.add_error(self.said(w.code, w.where - begin, w.steps))
        return False
