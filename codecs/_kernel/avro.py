"""Binary Avro: readers of values that fill columns, and batches of messages.

A plan of a writer's schema becomes a tree of readers. `reader.read_value(wire, at)` reads the value at the offset `at`
of the message, appends it to the reader's column, and returns the offset after the value. Records append to their
columns field by field, in the writer's order. Readers of all plans for one reader's schema share their columns, so
messages of different writers may follow each other in a batch. The offsets are those of the batch's data:
`AvroWire.open` sets the data, `AvroWire.start` the bounds of a message.

If the value can't be read, the result is FAULT, and `AvroWire` has the details; an exception is a bug. After a fault,
the columns may have a part of the value, and the caller truncates the column of the message. The readers of `avro_wire`
skip values. The module `reader` has the rules for all code of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.avro_codes import (
    AS_DOUBLE,
    AS_SINGLE,
    BOOLEAN,
    COLUMN_TOO_LARGE,
    CUT_VALUE,
    DOUBLE,
    KNOWN_TEXT,
    LOW_32_BITS,
    NO_DATUM,
    NO_SYMBOL,
    NUMBER_OUT_OF_RANGE,
    PLAIN,
    SINGLE,
    SINGLE_AS_DOUBLE,
)
from kvformat.codecs._kernel.avro_columns import Choices
from kvformat.codecs._kernel.avro_wire import AvroReader, AvroWire
from kvformat.codecs._kernel.codes import MOST_BYTES
from kvformat.codecs._kernel.columns import Column, Decimals, Int64Column
from kvformat.codecs._kernel.containers import Lists, Rows
from kvformat.codecs._kernel.messages import Messages, Said
from kvformat.codecs._kernel.protobuf_columns import Pairs
from kvformat.codecs._kernel.text_columns import Texts
from kvformat.registry.contract.error_codes import ErrorCode

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.avro_codes import (
        ANY_FORM,
        BOOLEAN_FORM,
        DOUBLE_FORM,
        INT_FORM,
        LONG_FORM,
        SKIPPED_INT,
        TEXT_FORM,
    )
    from kvformat.codecs._kernel.avro_wire import read_int, read_long, read_size
    from kvformat.codecs._kernel.columns import add_integer, add_null_integer
    from kvformat.codecs._kernel.memory import (
        append,
        append_bytes,
        bits_of,
        bits_of_single,
        byte,
        nearest_single,
        part,
        single_of_bits,
        word,
    )
    from kvformat.codecs._kernel.text_columns import add_null_text, end_text

ALL = 0xFFFFFFFFFFFFFFFF
LARGEST = 2**63 - 1  # largest signed 64-bit integer
_WIDTHS = {BOOLEAN: 1, SINGLE: 4, DOUBLE: 8, SINGLE_AS_DOUBLE: 4}


def read_field(reader: AvroReader, w: AvroWire, at: int) -> int:
    """Read a value, or the union with null in which it is. The result is that of `AvroReader.read_value`.

    The forms of most values are read here, without a call.
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
        if c == reader.null_branch:
            if form == TEXT_FORM:
                return add_null_text(cython.cast(ByteStringReader, reader).text, at)
            if ANY_FORM < form < SKIPPED_INT:
                return add_null_integer(cython.cast(WordReader, reader).words, at)
            reader.add_null()
            return at
    if form == TEXT_FORM:
        at = read_size(w, at)
        return at if at < 0 else add_text(cython.cast(ByteStringReader, reader).text, w, at, w.size)
    if form in (LONG_FORM, INT_FORM):
        at = read_long(w, at) if form == LONG_FORM else read_int(w, at)
        return at if at < 0 else add_integer(cython.cast(WordReader, reader).words, w.value, at)
    if form == DOUBLE_FORM and w.end - at >= 8:
        raw = word(w.data, at)
        value = raw if raw <= LARGEST else raw - ALL - 1
        return add_integer(cython.cast(WordReader, reader).words, value, at + 8)
    if form == BOOLEAN_FORM and at < w.end:
        return add_integer(cython.cast(WordReader, reader).words, byte(w.data, at, w.end) == 1, at + 1)
    return reader.read_value(w, at)


def add_text(column: Texts, w: AvroWire, at: int, size: int) -> int:
    """Append so many bytes from an offset on as a value. Return their end, or FAULT if the column gets too large."""
    append(column.text, w.data, at, at + size)
    if column.text.size > MOST_BYTES:
        return w.fail(COLUMN_TOO_LARGE, 0, 0)
    end_text(column)
    return at + size


class ColumnReader(AvroReader):
    """Reads a value into a column."""

    def __init__(self, column: Column) -> None:
        super().__init__()
        self.column = column

    def add_null(self) -> int:
        self.column.null()
        return 0

    def read_values(self, w: AvroWire, at: int, count: int) -> int:
        for _ in range(count):
            at = read_field(self, w, at)
            if at < 0:
                return at
        return at


class WordReader(ColumnReader):
    """Reads a value into a column of 64-bit integers."""

    def __init__(self, column: Int64Column) -> None:
        super().__init__(column)
        self.words = column


class NullReader(ColumnReader):
    """Reads null, which has no bytes; also for a default that is null."""

    def read_value(self, w: AvroWire, at: int) -> int:
        self.column.null()
        return at


class DefaultReader(ColumnReader):
    """Appends a default, which has no bytes."""

    def __init__(self, column: Column, value: Any) -> None:
        super().__init__(column)
        self.value = value

    def read_value(self, w: AvroWire, at: int) -> int:
        self.column.put(self.value)
        if self.column.weight() > MOST_BYTES:
            return w.fail(COLUMN_TOO_LARGE, 0, 0)
        return at


class FailReader(AvroReader):
    """Fails, because the writer's and the reader's schema do not match here."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__()
        self.error, self.text = code.number, text.encode()

    def read_value(self, w: AvroWire, at: int) -> int:
        w.error, w.text = self.error, self.text
        return w.fail(KNOWN_TEXT, 0, 0)


class IntegerReader(WordReader):
    """Reads an int or a long in the way `how`. SCALED: the number times `times`, or divided by `divisor`.

    `least` and `most` are the smallest and the largest number that fit the column. `kind` is the reader's type.
    """

    def __init__(
        self,
        column: Int64Column,
        how: int,
        kind: str,
        *,
        is_int: bool,
        times: int = 1,
        divisor: int = 1,
        least: int = 0,
        most: int = 0,
    ) -> None:
        super().__init__(column)
        self.how, self.kind, self.is_int = how, kind, is_int
        if how == PLAIN:
            self.form = INT_FORM if is_int else LONG_FORM
        self.times, self.divisor, self.least, self.most = times, divisor, least, most

    def read_value(self, w: AvroWire, at: int) -> int:
        at = read_int(w, at) if self.is_int else read_long(w, at)
        if at < 0:
            return at
        return add_integer(self.words, w.value, at) if self.how == PLAIN else self.convert(w, at)

    def convert(self, w: AvroWire, at: int) -> int:
        """Append `AvroWire.value` as another number."""
        if self.how == AS_DOUBLE:
            return add_integer(self.words, bits_of(float(w.value)), at)
        if self.how == AS_SINGLE:
            return add_integer(self.words, bits_of_single(nearest_single(w.value)), at)
        if w.value < self.least or w.value > self.most:
            w.culprit = self
            return w.fail(NUMBER_OUT_OF_RANGE, w.value, 0)
        return add_integer(self.words, w.value * self.times // self.divisor, at)


class FixedWidthReader(WordReader):
    """Reads a boolean, a float or a double in the way `how`."""

    def __init__(self, column: Int64Column, how: int) -> None:
        super().__init__(column)
        self.how, self.width = how, _WIDTHS[how]
        self.form = DOUBLE_FORM if how == DOUBLE else BOOLEAN_FORM if how == BOOLEAN else ANY_FORM

    def read_value(self, w: AvroWire, at: int) -> int:
        if self.width > w.end - at:
            return w.fail(CUT_VALUE, self.width, w.end - at)
        if self.how == BOOLEAN:
            return add_integer(self.words, byte(w.data, at, w.end) == 1, at + 1)
        raw = word(w.data, at)
        if self.how == DOUBLE:
            return add_integer(self.words, raw if raw <= LARGEST else raw - ALL - 1, at + 8)
        if self.how == SINGLE:
            return add_integer(self.words, raw & LOW_32_BITS, at + 4)
        return add_integer(self.words, bits_of(single_of_bits(raw)), at + 4)


class ByteStringReader(ColumnReader):
    """Reads a string or bytes."""

    def __init__(self, column: Texts) -> None:
        super().__init__(column)
        self.text = column
        self.form = TEXT_FORM

    def read_value(self, w: AvroWire, at: int) -> int:
        at = read_size(w, at)
        return at if at < 0 else add_text(self.text, w, at, w.size)


class FixedReader(ByteStringReader):
    """Reads a fixed of `size` bytes."""

    def __init__(self, column: Texts, size: int) -> None:
        super().__init__(column)
        self.size, self.form = size, ANY_FORM

    def read_value(self, w: AvroWire, at: int) -> int:
        if self.size > w.end - at:
            return w.fail(CUT_VALUE, self.size, w.end - at)
        return add_text(self.text, w, at, self.size)


class EnumReader(ColumnReader):
    """Reads an enum as the reader's symbol for the writer's. Symbols without one have the error texts `unknown`."""

    def __init__(self, column: Texts, symbols: list[str | None], unknown: list[tuple[ErrorCode, str] | None]) -> None:
        super().__init__(column)
        self.text, self.count = column, len(symbols)
        texts = [(symbol or "").encode() for symbol in symbols]
        self.texts = memoryview(b"".join(texts) + bytes(16))  # `append` copies short texts with sixteen bytes
        self.starts: memoryview[int] = memoryview(np.cumsum([0, *map(len, texts)]).astype(np.int32).tobytes()).cast("i")
        self.unknown = [None if said is None else (said[0].number, said[1].encode()) for said in unknown]

    def read_value(self, w: AvroWire, at: int) -> int:
        at = read_int(w, at)
        if at < 0:
            return at
        if w.value < 0 or w.value >= self.count:
            return w.fail(NO_SYMBOL, w.value, self.count)
        index = w.value
        start = self.starts[index]
        stop = self.starts[index + 1]
        if start == stop:  # no symbol is empty
            w.error, w.text = self.unknown[index]  # type: ignore[misc]
            return w.fail(KNOWN_TEXT, 0, 0)
        append(self.text.text, self.texts, start, stop)
        if self.text.text.size > MOST_BYTES:
            return w.fail(COLUMN_TOO_LARGE, 0, 0)
        end_text(self.text)
        return at


class DecimalReader(ColumnReader):
    """Reads a decimal from bytes, or from a fixed if `size` is not negative.

    `convert` returns the decimal of bytes, or None for null. It raises ValueError if there is none. Numbers of up to
    eight bytes within `most` do not need it: they are multiplied by `times`, or divided by `divisor` if that is exact.
    """

    def __init__(
        self,
        column: Decimals,
        size: int,
        convert: Callable[[bytes], Any],
        describe: Callable[[bytes, ValueError], Said],
        *,
        most: int,
        times: int,
        divisor: int,
    ) -> None:
        super().__init__(column)
        self.size, self.convert, self.describe = size, convert, describe
        self.is_short = max(times, divisor) <= LARGEST
        self.decimals = column
        self.most, self.times, self.divisor = (most, times, divisor) if self.is_short else (0, 1, 1)

    def read_value(self, w: AvroWire, at: int) -> int:
        size = self.size
        if size < 0:
            at = read_size(w, at)
            if at < 0:
                return at
            size = w.size
        elif size > w.end - at:
            return w.fail(CUT_VALUE, size, w.end - at)
        if not self.is_short or size == 0 or size > 8:
            return self.read_any(w, at, size)
        first = byte(w.data, at, w.end)
        number = first - 256 if first > 127 else first
        for i in range(1, size):
            number = number * 256 + byte(w.data, at + i, w.end)
        if number > self.most or number < -self.most:
            return self.read_any(w, at, size)
        if self.divisor > 1:
            if number % self.divisor:
                return self.read_any(w, at, size)
            number = number // self.divisor
        number *= self.times
        self.decimals.add_decimal(number & ALL, ALL if number < 0 else 0)
        return at + size

    def read_any(self, w: AvroWire, at: int, size: int) -> int:
        """Read a decimal of any size in Python."""
        data = part(w.data, at, at + size)
        try:
            value = self.convert(data)
        except ValueError as cause:
            code, text = self.describe(data, cause)
            w.error, w.text = code.number, text.encode()
            return w.fail(KNOWN_TEXT, 0, 0)
        self.column.put_or_null(value)
        return at + size


class RecordReader(ColumnReader):
    """Reads the fields of a record in the writer's order, then appends the defaults of the reader's other fields.

    `readers` are those of all fields, also of skipped ones, and of the defaults. `paths` are the words of their errors.
    """

    def __init__(self, column: Rows, readers: list[AvroReader], paths: list[bytes]) -> None:
        super().__init__(column)
        self.rows, self.readers, self.paths, self.count = column, list(readers), paths, len(readers)

    def read_value(self, w: AvroWire, at: int) -> int:
        readers = self.readers
        for i in range(self.count):
            at = read_field(cython.cast(AvroReader, readers[i]), w, at)
            if at < 0:
                if w.path is None:
                    w.path = self.paths[i]
                return at
        rows = self.rows
        if type(rows) is not Rows:  # the columns of an envelope do more at the end of a row
            rows.end_row()
            return at
        if rows.length == rows.capacity:
            rows.grow(rows.capacity * 2)
        rows.valid[rows.length] = True  # `Rows.finish` checks that all columns are equally long
        rows.length += 1
        return at


class ArrayReader(ColumnReader):
    """Reads an array: blocks of items.

    An item has at least `least_size` bytes, and may add `added` bytes. `path` are the words of errors in an item.
    """

    def __init__(self, column: Lists, item: AvroReader, path: bytes, *, least_size: int, added: int) -> None:
        super().__init__(column)
        self.lists, self.item, self.path, self.least_size, self.added = column, item, path, least_size, added

    def read_value(self, w: AvroWire, at: int) -> int:
        while True:
            at = w.read_count(at)
            if at < 0:
                break
            if w.count == 0:
                self.end()
                return at
            at = w.check_count(at, self.least_size, self.added)
            if at < 0:
                break
            at = self.read_items(w, at, w.count)
            if at < 0:
                break
            if self.lists.element.length > MOST_BYTES:
                at = w.fail(COLUMN_TOO_LARGE, 0, 0)
                break
        if w.path is None:
            w.path = self.path
        return at

    def read_items(self, w: AvroWire, at: int, count: int) -> int:
        """Read the items of a block."""
        return self.item.read_values(w, at, count)

    def end(self) -> int:
        """End the array."""
        return self.lists.end()


class MapReader(ArrayReader):
    """Reads a map: blocks of keys and values. The last value of a repeated key counts."""

    def __init__(self, column: Pairs, key: ByteStringReader, value: AvroReader, path: bytes, *, added: int) -> None:
        super().__init__(column, value, path, least_size=1, added=added)
        self.pairs, self.key = column, key

    def read_items(self, w: AvroWire, at: int, count: int) -> int:
        for _ in range(count):
            at = self.key.read_value(w, at)
            if at >= 0:
                at = read_field(self.item, w, at)
            if at < 0:
                return at
        return at

    def end(self) -> int:
        self.pairs.compare()
        return self.pairs.end()


class UnionReader(AvroReader):
    """Reads a union with a reader for each branch."""

    def __init__(self, branches: list[AvroReader]) -> None:
        super().__init__()
        self.branches, self.count = list(branches), len(branches)

    def read_value(self, w: AvroWire, at: int) -> int:
        at = w.read_branch(at, self.count)
        if at < 0:
            return at
        branch: AvroReader = cython.cast(AvroReader, self.branches[w.value])
        return branch.read_value(w, at)


class ChoiceReader(AvroReader):
    """Reads a value into one of the columns of `Choices`."""

    def __init__(self, choices: Choices, number: int, value: AvroReader) -> None:
        super().__init__()
        self.choices, self.number, self.value = choices, number, value

    def read_value(self, w: AvroWire, at: int) -> int:
        at = read_field(self.value, w, at)
        if at >= 0:
            self.choices.choose(self.number)
        return at


class AvroBatch(Messages):
    """Reads batches of messages with one datum each. `root` gets the values.

    `texts` has, by the number of a fault, the number of the error's code and the words before, between and after the
    numbers `AvroWire.first` and `AvroWire.second`; None if only `describe` knows the text.
    """

    def __init__(
        self, root: Column, texts: list[tuple[int, list[bytes]] | None], describe: Callable[[AvroWire], Said]
    ) -> None:
        super().__init__()
        self.root, self.texts, self.describe = root, list(texts), describe
        self.wire = AvroWire()
        self.readers: list[AvroReader] = []

    def add_reader(self, reader: AvroReader) -> int:
        """Add a reader of messages. Return its number."""
        self.readers.append(reader)
        return len(self.readers) - 1

    def read_batch(
        self, messages: pa.BinaryArray, numbers: memoryview[int], start: int, *, with_nulls: bool
    ) -> pa.Array:
        """Read the datum of each message, which begins after `start` bytes.

        `numbers` has the number of each message's reader, -1 for a message to skip. With `with_nulls`, return one value
        per message, null for null messages, skipped messages and errors. Otherwise return one list of values per
        message: null for those, and empty for the datum null.
        """
        self.root.start(self.capacity(len(messages)))
        self.run(messages, numbers, start, with_nulls)
        values = self.root.finish()
        return values if with_nulls else self.lists(values)

    def run(self, messages: pa.BinaryArray, numbers: memoryview[int], start: int, with_nulls: bool) -> int:
        """Read all messages of a batch."""
        valid, offsets, data = self.begin(messages)
        shift = messages.offset
        has_nulls = len(valid) > 0
        w = self.wire
        root = self.root
        w.open(data)
        for i in range(self.count):
            self.offsets[i + 1] = self.rows
            self.present[i] = 0
            place = i + shift
            number = numbers[i]
            if number < 0 or (has_nulls and not valid[place >> 3] >> (place & 7) & 1):
                if with_nulls:
                    root.null()
                    self.rows += 1
                continue
            begin = offsets[place]
            end = offsets[place + 1]
            if not 0 <= begin <= end <= len(w.data):
                raise ValueError("a message outside of the data")
            w.start(begin, end)
            if start > end - begin:
                at = w.fail(NO_DATUM, end - begin, start)
            else:
                at = read_field(cython.cast(AvroReader, self.readers[number]), w, begin + start)
            if at < 0:
                root.truncate(self.rows)
                self.current = i
                self.add_fault()
                if with_nulls:
                    root.null()
                    self.rows += 1
                continue
            self.present[i] = 1
            if w.added:
                w.charge()
            if not with_nulls and not root.valid[self.rows]:
                root.truncate(self.rows)
                continue
            self.rows += 1
            self.offsets[i + 1] = self.rows
        w.open(memoryview(b""))
        return 0

    def add_fault(self) -> int:
        """Add the error of the fault in `wire`. Return 0."""
        w = self.wire
        out = self.faults.text
        path = w.path
        if path is not None:
            append_bytes(out, path)
        if w.code == KNOWN_TEXT:
            append_bytes(out, w.text)
            return self.faults.end(self.current, w.error)
        known = self.texts[w.code]
        if known is None or w.first > LARGEST:
            code, text = self.describe(w)
            append_bytes(out, text.encode())
            return self.faults.end(self.current, code.number)
        number, words = known
        append_bytes(out, words[0])
        if len(words) > 1:
            out.number(w.first)
            append_bytes(out, words[1])
        if len(words) > 2:
            out.number(w.second)
            append_bytes(out, words[2])
        return self.faults.end(self.current, number)
