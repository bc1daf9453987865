"""Binary Avro: a reader of the wire format, and readers that skip values.

Each read function takes a start offset and returns the offset after the value, or FAULT. `AvroWire` has the details.
The rules are those of `org.apache.avro.io.BinaryDecoder`. Negative sizes in skipped values make Java read backwards or
forever; here they are an error. Each size is checked before it is used. The module `reader` has the rules for all code
of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvformat.codecs._kernel.avro_codes import (
    ADDED_PER_BYTE,
    CUT_NUMBER,
    CUT_VALUE,
    INT_BYTES,
    LONG_BYTES,
    LONG_INT,
    LONG_LONG,
    LOW_32_BITS,
    MAX_ADDED,
    MAX_ADDED_OF_A_BATCH,
    MAX_EMPTY_ITEMS,
    MAX_LEVELS,
    NEGATIVE_SIZE,
    NESTED_TOO_DEEPLY,
    NO_BRANCH,
    TOO_MANY_ADDED_BYTES,
    TOO_MANY_EMPTY_ITEMS,
    TOO_MANY_ITEMS,
)
from kvformat.codecs._kernel.codes import FAULT

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.avro_codes import ANY_FORM, SKIPPED_INT, SKIPPED_LONG, SKIPPED_TEXT
    from kvformat.codecs._kernel.memory import byte

ALL = 0xFFFFFFFFFFFFFFFF
LARGEST = 2**63 - 1  # largest signed 64-bit integer


class AvroWire:
    """Tokenizer of a batch of messages. The current message is `data[begin:end]`.

    `value` is the last number, `size` the last size in bytes, and `count` the number of items of the last block.

    After a fault `code`, `first` and `second` say what is wrong, and `path` where: the words before the error text, or
    None. For `KNOWN_TEXT`, `text` is the error text and `error` the number of its `ErrorCode`. `culprit` is the reader
    of a number that is out of range.
    """

    def __init__(self) -> None:
        self.data = memoryview(b"")
        self.begin = self.end = 0
        self.value = self.count = self.size = 0
        self.code = self.first = self.second = self.error = 0
        self.path: bytes | None = None
        self.text = b""
        self.culprit: Any = None
        self.depth = self.empty = 0
        self.added = self.most_added = self.added_left = 0

    def open(self, data: memoryview[int]) -> int:
        """Start a batch."""
        self.data = data
        self.added_left = MAX_ADDED_OF_A_BATCH
        return 0

    def start(self, begin: int, end: int) -> int:
        """Start reading the message `data[begin:end]`."""
        self.begin = begin
        self.end = end
        self.depth = 0
        self.empty = 0
        self.added = 0
        self.most_added = min(MAX_ADDED, self.added_left) + ADDED_PER_BYTE * (end - begin)
        self.path = None
        return 0

    def charge(self) -> int:
        """Charge the batch with the added bytes that exceed the allowance of the message's size."""
        over = self.added - ADDED_PER_BYTE * (self.end - self.begin)
        if over > 0:
            self.added_left -= over
        return 0

    def fail(self, code: int, first: int, second: int) -> int:
        """Record why the message can't be read. Return FAULT."""
        self.code = code
        self.first = first & ALL
        self.second = second
        return FAULT

    # --- numbers ---------------------------------------------------------------------------------------

    def read_slow(self, at: int, most: int) -> int:
        """Read a number of at most `most` bytes into `value`, byte by byte. Drops bits beyond 32 or 64."""
        raw = 0
        for i in range(most):
            if at >= self.end:
                return self.fail(CUT_NUMBER, 0, 0)
            c = byte(self.data, at, self.end)
            raw |= (c & 127) << 7 * i
            at += 1
            if c < 128:
                raw &= LOW_32_BITS if most == INT_BYTES else ALL
                self.value = (raw >> 1) ^ -(raw & 1)
                return at
        return self.fail(LONG_INT if most == INT_BYTES else LONG_LONG, 0, 0)

    # --- sizes -----------------------------------------------------------------------------------------

    def fail_size(self, at: int) -> int:
        """Fail at a value of `value` bytes."""
        if self.value < 0:
            return self.fail(NEGATIVE_SIZE, self.value, 0)
        return self.fail(CUT_VALUE, self.value, self.end - at)

    def skip_bytes(self, at: int, size: int) -> int:
        """Skip a value of `size` bytes."""
        return at + size if size <= self.end - at else self.fail(CUT_VALUE, size, self.end - at)

    def read_branch(self, at: int, branches: int) -> int:
        """Read the index of one of so many branches of a union into `value`."""
        at = read_int(self, at)
        if at < 0:
            return at
        if self.value < 0 or self.value >= branches:
            return self.fail(NO_BRANCH, self.value, branches)
        return at

    # --- blocks ----------------------------------------------------------------------------------------

    def read_count(self, at: int) -> int:
        """Read the number of items of a block of an array or a map into `count`. Skip the block's size in bytes."""
        at = read_long(self, at)
        if at < 0:
            return at
        if self.value >= 0:
            self.count = self.value
            return at
        self.count = ALL - (self.value & ALL) + 1
        return read_long(self, at)

    def check_count(self, at: int, least_size: int, added: int) -> int:
        """Check that `count` items of at least `least_size` bytes fit into the message. Return the offset or FAULT.

        An item may add `added` bytes of cells, enum symbols and defaults.
        """
        left = self.end - at
        if least_size:
            if self.count > left // least_size:
                return self.fail(TOO_MANY_ITEMS, self.count, left)
        elif self.count > MAX_EMPTY_ITEMS - self.empty:
            return self.fail(TOO_MANY_EMPTY_ITEMS, self.count + self.empty, 0)
        else:
            self.empty += self.count
        if added:
            self.added += self.count * added
            if self.added > self.most_added:
                return self.fail(TOO_MANY_ADDED_BYTES, self.count, added)
        return at


if not cython.compiled:  # the compiled versions are in the .pxd, so that other modules can inline them

    def read_long(w: AvroWire, at: int) -> int:
        """Read a long into `AvroWire.value`."""
        return w.read_slow(at, LONG_BYTES)

    def read_int(w: AvroWire, at: int) -> int:
        """Read an int into `AvroWire.value`."""
        return w.read_slow(at, INT_BYTES)

    def read_size(w: AvroWire, at: int) -> int:
        """Read the size of a text or of bytes into `AvroWire.size`. Return the offset of the first byte."""
        at = w.read_slow(at, LONG_BYTES)
        if at < 0:
            return at
        if not 0 <= w.value <= w.end - at:
            return w.fail_size(at)
        w.size = w.value
        return at


def skip_field(reader: AvroReader, w: AvroWire, at: int) -> int:
    """Skip a value, or the union with null in which it is. The result is that of `AvroReader.read_value`.

    The forms of most values are skipped here, without a call.
    """
    form = reader.form
    if reader.null_branch >= 0:
        c = byte(w.data, at, w.end)
        if at < w.end and (c == 0 or c == 2):
            at += 1
        else:
            at = w.read_branch(at, 2)
            if at < 0:
                return at
            c = w.value * 2
        if w.depth >= MAX_LEVELS:
            return w.fail(NESTED_TOO_DEEPLY, 0, 0)
        if c == reader.null_branch:
            return at
    if form == SKIPPED_TEXT:
        at = read_size(w, at)
        return at if at < 0 else at + w.size
    if form == SKIPPED_LONG:
        return read_long(w, at)
    if form == SKIPPED_INT:
        return read_int(w, at)
    return reader.read_value(w, at)


class AvroReader:
    """Reads a value of the writer's schema.

    With a `null_branch`, the value is in a union of null and one other type. The attribute is twice the index of null,
    which is the byte that stands for it, and -1 for values outside of such a union. The functions `skip_field` and
    `read_field` (in the module `avro`) read the union, the methods read the other type. The functions also read values
    with a `form` other than ANY_FORM.
    """

    def __init__(self) -> None:
        self.null_branch = -1
        self.form = ANY_FORM

    def read_value(self, w: AvroWire, at: int) -> int:
        """Read the value at an offset. Return its end or FAULT. After FAULT a column may have a part of the value."""
        raise NotImplementedError

    def add_null(self) -> int:
        """Append a null in place of the value."""
        return 0

    def read_values(self, w: AvroWire, at: int, count: int) -> int:
        """Read so many values or unions with null, one after the other."""
        for _ in range(count):
            at = skip_field(self, w, at)
            if at < 0:
                return at
        return at


class NumberSkipper(AvroReader):
    """Skips an int, a long or an enum. The enum need not have the symbol, as in Java."""

    def __init__(self, *, is_int: bool) -> None:
        super().__init__()
        self.is_int = is_int
        self.form = SKIPPED_INT if is_int else SKIPPED_LONG

    def read_value(self, w: AvroWire, at: int) -> int:
        return read_int(w, at) if self.is_int else read_long(w, at)


class BytesSkipper(AvroReader):
    """Skips a string or bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.form = SKIPPED_TEXT

    def read_value(self, w: AvroWire, at: int) -> int:
        at = read_size(w, at)
        return at if at < 0 else at + w.size


class FixedSkipper(AvroReader):
    """Skips a value of `size` bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def read_value(self, w: AvroWire, at: int) -> int:
        return w.skip_bytes(at, self.size)

    def read_values(self, w: AvroWire, at: int, count: int) -> int:
        if self.size and count <= (w.end - at) // self.size:
            return at + count * self.size
        return AvroReader.read_values(self, w, at, count)


class RecordSkipper(AvroReader):
    """Skips a record. `fill` sets the fields, because a record may contain itself."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[AvroReader] = []
        self.count = 0

    def fill(self, fields: list[AvroReader]) -> None:
        """Set the readers that skip the fields."""
        self.fields, self.count = list(fields), len(fields)

    def read_value(self, w: AvroWire, at: int) -> int:
        if w.depth >= MAX_LEVELS and self.count:
            return w.fail(NESTED_TOO_DEEPLY, 0, 0)
        w.depth += 1
        fields = self.fields
        for i in range(self.count):
            at = skip_field(cython.cast(AvroReader, fields[i]), w, at)
            if at < 0:
                return at
        w.depth -= 1
        return at


class UnionSkipper(AvroReader):
    """Skips a union. `fill` sets the branches."""

    def __init__(self) -> None:
        super().__init__()
        self.branches: list[AvroReader] = []
        self.count = 0

    def fill(self, branches: list[AvroReader]) -> None:
        """Set the readers that skip the branches."""
        self.branches, self.count = list(branches), len(branches)

    def read_value(self, w: AvroWire, at: int) -> int:
        at = w.read_branch(at, self.count)
        if at < 0:
            return at
        if w.depth >= MAX_LEVELS:
            return w.fail(NESTED_TOO_DEEPLY, 0, 0)
        w.depth += 1
        at = cython.cast(AvroReader, self.branches[w.value]).read_value(w, at)
        w.depth -= 1
        return at


class BlocksSkipper(AvroReader):
    """Skips an array, or a map if it is `keyed`: blocks with a size in bytes at once, others item by item.

    An item has at least `least_size` bytes. `fill` sets the reader that skips it.
    """

    def __init__(self, least_size: int, *, keyed: bool) -> None:
        super().__init__()
        self.least_size, self.keyed = least_size, keyed
        self.item: AvroReader = self

    def fill(self, item: AvroReader) -> None:
        """Set the reader that skips an item."""
        self.item = item

    def read_value(self, w: AvroWire, at: int) -> int:
        while True:
            at = read_long(w, at)
            if at < 0 or w.value == 0:
                return at
            if w.value < 0:
                at = read_size(w, at)
                if at < 0:
                    return at
                at += w.size
            elif self.least_size:
                w.count = w.value
                at = w.check_count(at, self.least_size, 0)
                if at >= 0:
                    at = self.skip_items(w, at, w.count)
                if at < 0:
                    return at

    def skip_items(self, w: AvroWire, at: int, count: int) -> int:
        """Skip so many items."""
        if w.depth >= MAX_LEVELS:
            if self.keyed:
                at = read_size(w, at)
            return at if at < 0 else w.fail(NESTED_TOO_DEEPLY, 0, 0)
        w.depth += 1
        if self.keyed:
            for _ in range(count):
                at = read_size(w, at)
                if at >= 0:
                    at = skip_field(self.item, w, at + w.size)
                if at < 0:
                    return at
        else:
            at = self.item.read_values(w, at, count)
        w.depth -= 1
        return at
