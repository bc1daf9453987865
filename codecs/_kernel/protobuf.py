"""Protocol Buffers: a reader of the wire format, and readers of fields that fill columns.

If a field comes twice, the last value counts, or both are merged. So a field keeps its value (`read_value`) until the
row ends (`close`), and then gives it to its column. The elements of a list go into their column at once, because a list
only grows.

Each read function takes a start offset and the end of its message. It returns the offset after the value, or FAULT;
`Wire.code` and `where` then have the details. The module `reader` has the rules for all code of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import BYTES_OF_A_CELL, FAULT, MOST_BYTES
from kvformat.codecs._kernel.columns import Column, Int64Column
from kvformat.codecs._kernel.containers import Lists, Rows
from kvformat.codecs._kernel.memory import grown
from kvformat.codecs._kernel.messages import Messages, Said
from kvformat.codecs._kernel.protobuf_codes import (
    BITS32,
    BITS32_SIGNED,
    BITS64,
    BOOL,
    FIXED32,
    FIXED64,
    GROUP_END,
    GROUP_START,
    INVALID_UTF8,
    LONG_VARINT,
    LOW_32_BITS,
    MAX_LEVELS,
    NEGATIVE_SIZE,
    NESTED_TOO_DEEPLY,
    NULL_MESSAGE,
    SIGNED32,
    SIGNED64,
    SIZED,
    STRAY_GROUP_END,
    TOO_MANY_CELLS,
    TOO_MUCH_TEXT,
    TRUNCATED,
    VARINT,
    WRONG_WIRE_TYPE,
    ZERO_TAG,
    ZIGZAG32,
)
from kvformat.codecs._kernel.protobuf_columns import EnumNames, Pairs
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.text_columns import Texts
from kvformat.registry.contract.cells import CELLS_PER_BYTE

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import append, append_bytes, byte, part, word
    from kvformat.codecs._kernel.text_columns import end_text

SIGN = 0x80000000
LARGEST = 2**63 - 1  # largest signed 64-bit integer
ALL = 0xFFFFFFFFFFFFFFFF
_DENSE = 4096
"""Fields below this number are in a lookup table, the others in a dict."""


class Wire:
    """Tokenizer of a batch of messages. It keeps the last tag, the last value, and the fault of the message."""

    def __init__(self) -> None:
        self.data = memoryview(b"")
        self.texts = Reader()
        self.value = self.integer = 0
        self.number = self.kind = 0
        self.size = self.begin = self.where = self.code = self.depth = 0
        self.is_unknown = self.is_doubtful = False
        self.steps: list[str] = []

    def open(self, data: memoryview[int]) -> int:
        """Use other data."""
        self.data = data
        return self.texts.open(data)

    def start(self, begin: int, end: int) -> int:
        """Start reading the message `data[begin:end]`."""
        self.begin = begin
        self.texts.start_message(begin, end)
        self.depth = 0
        self.is_unknown = self.is_doubtful = False
        if self.steps:
            self.steps = []
        return 0

    def fail(self, at: int, code: int) -> int:
        """Record why and where the message is not protobuf. Return FAULT."""
        self.code = code
        self.where = at
        return FAULT

    def count_cells(self, at: int, cells: int) -> int:
        """Count the cells of the value at an offset. Return the offset, or FAULT if the message has too many cells."""
        return at if self.texts.count_cells(at, cells) >= 0 else self.fail(at, TOO_MANY_CELLS)

    def read_varint(self, at: int, end: int) -> int:
        """Read a varint of up to ten bytes. Set `value` to its low 64 bits."""
        if at >= end:
            return self.fail(at, TRUNCATED)
        c = byte(self.data, at, end)
        if c < 128:
            self.value = c
            return at + 1
        return self.read_long_varint(at, end)

    def read_long_varint(self, at: int, end: int) -> int:
        """Read a varint of two to ten bytes into `value`."""
        raw = 0
        start = at
        for i in range(10):
            if at >= end:
                return self.fail(start, TRUNCATED)
            c = byte(self.data, at, end)
            raw |= (c & 127) << 7 * i
            at += 1
            if c < 128:
                self.value = raw & ALL
                return at
        return self.fail(start, LONG_VARINT)

    def read_size(self, at: int, end: int) -> int:
        """Read a size into `size`; only its low 32 bits count. Return the offset of the sized bytes."""
        start = at
        at = self.read_varint(at, end)
        if at < 0:
            return at
        size = self.value & LOW_32_BITS
        if size >= SIGN:
            return self.fail(start, NEGATIVE_SIZE)
        self.size = size
        return self.fail(start, TRUNCATED) if self.size > end - at else at

    def read_tag(self, at: int, end: int) -> int:
        """Read a field's tag. Set `number`, and `kind` to the wire type."""
        start = at
        at = self.read_varint(at, end)
        if at < 0:
            return at
        tag = self.value & LOW_32_BITS
        self.number = tag >> 3
        self.kind = tag & 7
        if self.number == 0:
            return self.fail(start, ZERO_TAG)
        return self.fail(start, WRONG_WIRE_TYPE) if self.kind > FIXED32 else at

    def skip_fixed(self, at: int, end: int, size: int) -> int:
        """Skip `size` bytes."""
        return self.fail(at, TRUNCATED) if end - at < size else at + size

    def read_number(self, how: int, at: int, end: int) -> int:
        """Read a number with the given encoding into `integer`."""
        start = at
        if how >= BITS32:
            at = self.skip_fixed(at, end, 8 if how == BITS64 else 4)
            if at < 0:
                return at
            raw = word(self.data, start)
            if how != BITS64:
                raw &= LOW_32_BITS
        else:
            at = self.read_varint(at, end)
            if at < 0:
                return at
            raw = self.value
        if how in (SIGNED64, BITS64):
            self.integer = raw if raw <= LARGEST else -1 - self.as_signed(ALL - raw)
        elif how in (SIGNED32, BITS32_SIGNED):
            raw &= LOW_32_BITS
            self.integer = raw if raw < SIGN else -1 - self.as_signed(LOW_32_BITS - raw)
        elif how == BOOL:
            self.integer = raw != 0
        elif how == BITS32:
            self.integer = raw
        else:
            if how == ZIGZAG32:
                raw &= LOW_32_BITS
            self.integer = -1 - self.as_signed(raw >> 1) if raw & 1 else self.as_signed(raw >> 1)
        return at

    def as_signed(self, number: int) -> int:
        """Return a number of up to 63 bits as a signed integer."""
        return number

    def skip(self, at: int, end: int) -> int:
        """Skip the value of the field whose tag was just read."""
        if self.kind == VARINT:
            return self.read_varint(at, end)
        if self.kind == FIXED64:
            return self.skip_fixed(at, end, 8)
        if self.kind == FIXED32:
            return self.skip_fixed(at, end, 4)
        if self.kind == GROUP_START:
            return self.skip_group(at, end)
        if self.kind == GROUP_END:
            return self.fail(at, STRAY_GROUP_END)
        at = self.read_size(at, end)
        return at if at < 0 else at + self.size

    def skip_group(self, at: int, end: int) -> int:
        """Skip the fields of a group and its end tag."""
        number = self.number
        if self.depth >= MAX_LEVELS:
            return self.fail(at, NESTED_TOO_DEEPLY)
        self.depth += 1
        while at < end:
            start = at
            at = self.read_tag(at, end)
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
    """Reads a field of a message.

    `wire` is the wire type of its values. `bit` marks a required field. `column` gets the values; without a column
    the field only checks them, and is never closed. `oneof` is the field's oneof, if that has a column. A field is
    `touched` from its first value in a row until the row ends.
    """

    def __init__(self, name: str, wire: int, column: Column | None) -> None:
        self.name, self.wire = name, wire
        self.column: Column = column  # type: ignore[assignment]
        self.bit = 0
        self.oneof: Oneof | None = None
        self.has_column = column is not None
        self.is_list = self.has_value = self.has_default = self.touched = False

    def read_value(self, w: Wire, at: int, end: int) -> int:
        """Read a value of the field's wire type."""
        raise NotImplementedError

    def read_packed(self, w: Wire, at: int, end: int) -> int:
        """Read a packed block of values."""
        raise NotImplementedError

    def close(self, w: Wire) -> int:
        """Append the field's value to the column, or the value of an absent field. Return 0 or FAULT."""
        raise NotImplementedError

    def discard(self) -> int:
        """Discard the values of the current row."""
        self.has_value = False
        return 0


class Oneof:
    """The fields of a oneof. Only its `last` field may hold a value, from the current row or an earlier row."""

    def __init__(self) -> None:
        self.last: FieldReader | None = None

    def select(self, field: FieldReader) -> int:
        """Make a field the last one. Discard the value of the previous last field."""
        if self.last is not field:
            if self.last is not None:
                self.last.discard()
            self.last = field
        return 0


class NumberReader(FieldReader):
    """Reads a number, bool or enum with the wire encoding `how`. A closed enum ignores numbers that are not `known`."""

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

    def read_value(self, w: Wire, at: int, end: int) -> int:
        at = w.read_number(self.how, at, end)
        if at < 0:
            return at
        if self.is_closed and not self.is_known(w.integer):
            w.is_unknown = True
            return at
        self.value = w.integer
        self.has_value = True
        return at

    def is_known(self, number: int) -> bool:
        """Return whether the enum has a number."""
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
        if self.has_value:
            self.has_value = False
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
    """Reads a string or bytes. `repair` mends invalid UTF-8 in a `checked` string; without it, it is an error."""

    def __init__(
        self,
        name: str,
        column: Texts | None,
        default: bytes | None,
        *,
        checked: bool,
        repair: Callable[[bytes], bytes] | None,
    ) -> None:
        super().__init__(name, SIZED, column)
        self.text: Texts = column  # type: ignore[assignment]
        self.checked, self.repair = checked, repair
        self.has_default, self.default = default is not None, default or b""
        if column is not None:
            column.cells += len(self.default) // BYTES_OF_A_CELL
        self.start = self.stop = 0
        self.is_broken = False

    def read_value(self, w: Wire, at: int, end: int) -> int:
        at = w.read_size(at, end)
        if at < 0:
            return at
        stop = at + w.size
        if self.checked:
            good = w.texts.utf8_end(at, stop)
            self.is_broken = good < stop
            if self.is_broken and self.repair is None:
                return w.fail(good, INVALID_UTF8)
        self.start, self.stop = at, stop
        self.has_value = True
        return stop

    def close(self, w: Wire) -> int:
        if not self.has_value:
            if not self.has_default:
                self.text.null()
                return 0
            append_bytes(self.text.text, self.default)
            self.start = w.begin
        elif self.is_broken:
            append_bytes(self.text.text, self.repair(part(w.data, self.start, self.stop)))  # type: ignore[misc]
        else:
            append(self.text.text, w.data, self.start, self.stop)
        self.has_value = False
        if self.text.weight() > MOST_BYTES:
            w.steps.append(self.name)
            return w.fail(self.start, TOO_MUCH_TEXT)
        return end_text(self.text)


class MessageReader:
    """Reads the fields of a message by their numbers, and closes fields with a column in the order of the columns.

    `required` has the bits of all required fields. If one is missing, the reader sets `Wire.is_doubtful`: another part
    of the same message, to be merged with this part, may have it.
    """

    def __init__(self) -> None:
        self.fields: list[FieldReader] = []
        self.closing: list[FieldReader] = []
        self.touched: memoryview[int] = grown(None, 0, 1, "i")
        self.touches = 0
        self.required = 0
        self.table = memoryview(bytes(4)).cast("i")
        self.sparse: dict[int, int] = {}

    def fill(self, numbers: list[int], fields: list[FieldReader], closing: list[FieldReader], required: int) -> None:
        """Set the fields. This is not part of the constructor because a message type may contain itself."""
        self.fields, self.closing, self.required = fields, closing, required
        self.touched = grown(None, 0, len(fields) + 1, "i")
        near = [number for number in numbers if number < _DENSE]
        table = np.full(max(near, default=0) + 1, -1, np.int32)
        for slot, number in enumerate(numbers):
            if number < _DENSE:
                table[number] = slot
            else:
                self.sparse[number] = slot
        self.table = memoryview(table.tobytes()).cast("i")

    def find(self, number: int) -> int:
        """Return the index in `fields` of a field number, -1 if it is unknown."""
        if number < len(self.table):
            return self.table[number]
        return self.sparse.get(number, -1) if self.sparse else -1

    def read_fields(self, w: Wire, at: int, end: int, group: int) -> int:
        """Read all fields up to `end`, or up to the end tag of the group with the number `group`."""
        seen = 0
        while at < end:
            start = at
            at = w.read_tag(at, end)
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
                at = field.read_value(w, at, end)
            elif w.kind == SIZED and field.is_list:
                at = field.read_packed(w, at, end)
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
            if field.oneof is not None:
                field.oneof.select(field)
        if group > 0:
            return w.fail(at, STRAY_GROUP_END)
        if seen & self.required != self.required:
            w.is_doubtful = True
        return at

    def close(self, w: Wire) -> int:
        """End the row: append a value to each column. Return 0 or FAULT."""
        for i in range(self.touches):
            cython.cast(FieldReader, self.fields[self.touched[i]]).touched = False
        self.touches = 0
        for i in range(len(self.closing)):
            if cython.cast(FieldReader, self.closing[i]).close(w) < 0:
                return FAULT
        return 0

    def discard(self) -> int:
        """Discard the values of all touched fields."""
        for i in range(self.touches):
            field = cython.cast(FieldReader, self.fields[self.touched[i]])
            field.touched = False
            field.discard()
        self.touches = 0
        return 0


class SubmessageReader(FieldReader):
    """Reads a message, or a group if its number `group` is not 0. An absent message is null or a row of defaults."""

    def __init__(
        self, name: str, column: Rows | None, message: MessageReader, group: int, *, has_default: bool
    ) -> None:
        super().__init__(name, GROUP_START if group else SIZED, column)
        self.rows: Rows = column  # type: ignore[assignment]
        self.message, self.group, self.has_default = message, group, has_default

    def read_value(self, w: Wire, at: int, end: int) -> int:
        if self.group == 0:
            at = w.read_size(at, end)
            if at < 0:
                return at
            end = at + w.size
        if w.depth >= MAX_LEVELS:
            return w.fail(at, NESTED_TOO_DEEPLY)
        w.depth += 1
        self.has_value = True
        at = self.message.read_fields(w, at, end, self.group)
        w.depth -= 1
        return at

    def close(self, w: Wire) -> int:
        if not self.has_value and not self.has_default:
            self.rows.null()
            return 0
        self.has_value = False
        if self.message.close(w) < 0:
            w.steps.append(self.name)
            return FAULT
        return self.rows.end_row()

    def discard(self) -> int:
        self.has_value = False
        return self.message.discard()


def counted(column: Column | None) -> int:
    """Return the cells to count per element, 0 for a few: an element has at least one byte, which allows for them."""
    return 0 if column is None or column.cells <= CELLS_PER_BYTE else column.cells


class RepeatedReader(FieldReader):
    """Reads a list of the values of `element`. Numbers may be packed. An absent list is null or empty."""

    def __init__(self, column: Lists | None, element: FieldReader, *, has_default: bool) -> None:
        super().__init__(element.name, element.wire, column)
        self.lists: Lists = column  # type: ignore[assignment]
        self.element, self.has_default = element, has_default
        self.is_list = isinstance(element, NumberReader)
        self.counted = counted(None if column is None else column.element)

    def read_value(self, w: Wire, at: int, end: int) -> int:
        if self.counted:
            at = w.count_cells(at, self.counted)
            if at < 0:
                return at
        at = self.element.read_value(w, at, end)
        if at < 0:
            return at
        if w.is_unknown:
            return at
        if self.lists is not None and self.element.close(w) < 0:
            return FAULT
        return at

    def read_packed(self, w: Wire, at: int, end: int) -> int:
        at = w.read_size(at, end)
        if at < 0:
            return at
        stop = at + w.size
        while at < stop:
            at = self.read_value(w, at, stop)
            w.is_unknown = False
            if at < 0:
                return at
        return at

    def close(self, w: Wire) -> int:
        if self.has_default or self.lists.has_open():
            return self.lists.end()
        return self.lists.null()

    def discard(self) -> int:
        self.element.discard()
        return self.lists.truncate(self.lists.length)


class EntriesReader(FieldReader):
    """Reads a map: a list of messages with a key and a value.

    `number` reads values of a closed enum. Entries with an unknown number are left out.
    """

    def __init__(
        self, name: str, column: Pairs | None, entry: MessageReader, number: NumberReader | None, *, has_default: bool
    ) -> None:
        super().__init__(name, SIZED, column)
        self.pairs: Pairs = column  # type: ignore[assignment]
        self.entry, self.number, self.has_default = entry, number, has_default
        self.counted = counted(None if column is None else column.items)
        if number is not None:
            number.is_closed = False  # the last value of an entry counts, even if it is unknown

    def read_value(self, w: Wire, at: int, end: int) -> int:
        at = w.read_size(at, end)
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
        if number is not None and number.has_value and not number.is_known(number.value):
            self.entry.discard()
            w.is_unknown = True
        elif self.pairs is not None and self.entry.close(w) < 0:
            return FAULT
        return at

    def close(self, w: Wire) -> int:
        if self.has_default or self.pairs.has_open():
            self.pairs.compare()
            return self.pairs.end()
        return self.pairs.null()

    def discard(self) -> int:
        self.entry.discard()
        return self.pairs.truncate(self.pairs.length)


class ProtobufBatch(Messages):
    """Reads batches of messages, one row per message.

    `describe` returns the error of a fault, given its code, its offset in the message, and the names of the fields
    around it, innermost first. `find_missing` returns the error of a message without a required field, else None.
    """

    def __init__(
        self,
        root: Rows,
        message: MessageReader,
        describe: Callable[[int, int, list[str]], Said],
        find_missing: Callable[[bytes], Said | None],
        *,
        lenient: bool,
    ) -> None:
        super().__init__()
        self.root, self.message = root, message
        self.describe, self.find_missing, self.lenient = describe, find_missing, lenient
        self.wire = Wire()

    def read_batch(self, messages: pa.BinaryArray) -> pa.ListArray:
        """Return the rows of each message. A null message is an error."""
        self.root.start(self.capacity(len(messages)))
        self.wire.texts.start_batch(self.root.cells)
        self.run(messages)
        return self.lists(self.root.finish())

    def run(self, messages: pa.BinaryArray) -> int:
        """Read all messages of a batch."""
        valid, offsets, data = self.begin(messages)
        shift = messages.offset
        has_nulls = len(valid) > 0
        w = self.wire
        w.open(data)
        for i in range(self.count):
            self.offsets[i + 1] = self.rows
            self.current = i
            place = i + shift
            if has_nulls and not valid[place >> 3] >> (place & 7) & 1:
                self.present[i] = 0
                if not self.lenient:
                    self.add_error(self.describe(NULL_MESSAGE, 0, []))
                continue
            begin = offsets[place] + self.skip
            end = offsets[place + 1]
            if self.mask and (self.unframed or begin > end or word(w.data, offsets[place]) & self.mask != self.head):
                self.present[i] = 0  # so are all after it: they are read again
                self.unframed += 1
                continue
            if not 0 <= begin <= end <= len(w.data):
                raise ValueError("a message outside of the data")
            if self.read_message(begin, end):
                self.present[i] = 1
                self.rows += 1
                self.offsets[i + 1] = self.rows
                if w.texts.cells > self.root.cells:
                    w.texts.charge_cells()
            else:
                self.message.discard()
                self.root.truncate(self.rows)
        w.open(memoryview(b""))
        return 0

    def read_message(self, begin: int, end: int) -> bool:
        """Read a message. Return whether it is good. If lenient, only a message that is too large adds an error."""
        w = self.wire
        w.start(begin, end)
        self.present[self.current] = self.lenient
        if self.message.read_fields(w, begin, end, 0) >= 0:
            lack: Any = self.find_missing(part(w.data, begin, end)) if w.is_doubtful else None
            if lack is not None:
                if not self.lenient:
                    self.add_error(lack)
                return False
            if self.message.close(w) >= 0:
                self.root.end_row()
                return True
        if not self.lenient or w.code == TOO_MANY_CELLS or w.code == TOO_MUCH_TEXT:
            self.present[self.current] = False
            self.add_error(self.describe(w.code, w.where - begin, w.steps))
        return False
