"""Batches of messages, and JSON messages as rows.

A message adds all its rows or none: the batch removes the values of a bad message from the columns. A bad message does
not change its neighbours. Each format has a subclass of `Batch` that reads one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import (
    BAD,
    EXPECTED_COMMA,
    EXPECTED_VALUE,
    FAULT,
    TOO_LARGE,
    TOO_MANY_CELLS,
    TRAILING,
)
from kvformat.codecs._kernel.containers import Rows
from kvformat.codecs._kernel.memory import Bytes, filled, grown
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.tree import Tree
from kvformat.registry.contract.error_codes import ErrorCode, error_arrays

if TYPE_CHECKING:
    import cython

    from kvformat.codecs.json.errors import JsonErrorMessages
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        COMMA,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_N,
        RIGHT_BRACKET,
        append_bytes,
        byte,
        part,
        token,
        word,
    )

Said: TypeAlias = "tuple[ErrorCode, str]"
"""The code and the text of an error."""
Recoded: TypeAlias = "tuple[bytes, bool]"
"""A message as UTF-8, and whether it was malformed."""


class Faults:
    """The errors of a batch in order: their concatenated texts, and three numbers for each.

    The numbers are the index of the message, the number of the `ErrorCode`, and the end of the text.
    """

    def __init__(self) -> None:
        self.text = Bytes(4096)
        self.numbers: memoryview[int] = grown(None, 0, 3 * 64, "q")
        self.count = 0

    def end(self, message: int, code: int) -> int:
        """End the text of an error, given the index of its message and the number of its code."""
        size = 3 * self.count
        if size == len(self.numbers):
            self.numbers = grown(self.numbers, size, 2 * size, "q")
        self.numbers[size] = message
        self.numbers[size + 1] = code
        self.numbers[size + 2] = self.text.size
        self.count += 1
        return 0

    def arrays(self, messages: int) -> tuple[pa.StringArray | None, pa.StringArray | None]:
        """Return the texts and the codes, with one entry per message, or None if there are no errors."""
        if not self.count:
            return None, None
        numbers = np.frombuffer(memoryview(self.numbers), np.int64, 3 * self.count)
        return error_arrays(numbers[::3], numbers[1::3], numbers[2::3], self.text.to_bytes(), messages)


class Messages:
    """The result of a batch of messages in any format.

    `offsets` has the first row of each message, `present` is 0 for a null message and for a message with an error,
    `faults` has the errors, and `rows` is the number of rows so far. `skip` is the number of bytes before each message,
    such as those of a frame. Without `mask`, no message that is not null is shorter. With it, the first bytes of a
    message as a little-endian word must be `head` where `mask` has ones. Others, and shorter ones, are not read: they
    are null, and `unframed` is their number.
    """

    def __init__(self) -> None:
        self.skip = 0
        self.head = self.mask = 0
        self.unframed = 0
        self.faults = Faults()
        self.rows = 0
        self.usual_rows = 0
        self.count = self.current = 0

    def begin(self, messages: pa.BinaryArray) -> tuple[memoryview[int], memoryview[int], memoryview[int]]:
        """Start a batch. Return its validity bits, empty if no message is null, its offsets and its data."""
        self.count = len(messages)
        self.offsets = grown(None, 0, self.count + 1, "i")
        self.offsets[0] = 0
        self.present = grown(None, 0, self.count, "B")
        self.faults = Faults()
        self.rows = self.unframed = 0
        validity, offsets, data = [memoryview(buffer or b"").cast("B") for buffer in messages.buffers()]
        return validity, (offsets or memoryview(bytes(8))).cast("i"), data

    def capacity(self, messages: int) -> int:
        """Return the initial capacity in rows: the usual number of recent batches, within limits."""
        return min(max(messages, self.usual_rows), 4 * messages + 64)

    def add_error(self, said: Any) -> int:
        """Add the error of the current message. Return 0."""
        code, text = said
        append_bytes(self.faults.text, text.encode())
        self.faults.end(self.current, code.number)
        return 0

    def lists(self, rows: pa.Array) -> pa.ListArray:
        """Return one list of rows per message, null for a null message or an error."""
        count = self.count
        present = np.frombuffer(memoryview(self.present), np.uint8, count)
        validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
        kind = pa.list_(pa.field("element", rows.type))
        return pa.Array.from_buffers(kind, count, [validity, filled(self.offsets, count + 1)], children=[rows])

    def errors(self) -> tuple[pa.StringArray | None, pa.StringArray | None]:
        """Return the error texts and codes, with one entry per message, or None if there are no errors."""
        return self.faults.arrays(self.count)


class TextBatch(Messages):
    """Reads batches of text messages in any encoding that Jackson knows. Call `run`, then take the arrays."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.reader = reader

    def recode(self, message: bytes) -> Recoded | None:
        """Return a message as UTF-8, and whether it was malformed. Return None if its encoding is not supported.

        A malformed message ends where Jackson fails.
        """
        raise NotImplementedError

    def is_usual(self, begin: int, end: int) -> bool:
        """Return whether a message may be UTF-8 without a byte order mark. It is not empty.

        JSON in UTF-8 without a mark begins with ASCII. In UTF-16 and UTF-32 one of the first two bytes is zero.
        """
        r = self.reader
        first = byte(r.data, begin, end)
        return 0 < first < 128 and (byte(r.data, begin + 1, end) != 0 or begin + 1 == end)

    def read_empty(self, at: int) -> int:
        """Read an empty message. The result is that of `read_message`."""
        return 1

    def read_message(self, begin: int, end: int, loose: bool) -> int:
        """Read a message that is not empty. Return 1, or 0 if it is bad and its error was added.

        With `loose` the message is malformed: like Flink, read only its first value.
        """
        raise NotImplementedError

    def undo(self, rows: int) -> int:
        """Keep only the first `rows` rows. A bad message of this batch has added none."""
        return 0

    def end_batch(self) -> int:
        """Finish the rows after the last message, while the reader still has the data."""
        return 0

    def run(self, messages: pa.BinaryArray) -> int:
        """Read all messages of a batch."""
        valid, offsets, data = self.begin(messages)
        count = self.count
        shift = messages.offset
        has_nulls = len(valid) > 0
        r = self.reader
        r.open(data)
        last = min(offsets[shift + count], len(r.data))
        checked = 0  # up to this offset all is UTF-8, from the end of some message on
        ahead = True  # whether bytes before messages are text too, as those of small ids are
        for i in range(count):
            self.offsets[i + 1] = self.rows
            place = i + shift
            if has_nulls and not valid[place >> 3] >> (place & 7) & 1:
                self.present[i] = 0
                continue
            self.present[i] = 1
            begin = offsets[place] + self.skip
            end = offsets[place + 1]
            if self.mask and (begin > end or word(r.data, offsets[place]) & self.mask != self.head):
                self.present[i] = 0
                self.unframed += 1
                continue
            if not 0 <= begin <= end <= len(r.data):
                raise ValueError("a message outside of the data")
            rows = self.rows
            self.current = i
            plain = begin < end and self.is_usual(begin, end)
            stop = end
            # inside of valid UTF-8, a message is valid if it begins and ends at a character
            if plain and (
                end > checked
                or byte(r.data, end, len(r.data)) & 0xC0 == 0x80
                or byte(r.data, begin, end) & 0xC0 == 0x80
            ):
                stop = r.utf8_end(begin, end)
                if ahead and end > checked:
                    checked = r.utf8_end(end, last)
                    ahead = checked == last or checked - end >= self.skip
            if begin == end:
                status = self.read_empty(begin)
            elif plain and stop == end:
                status = self.read_message(begin, end, False)
            elif plain and not r.is_loose(stop, end):
                status = self.read_message(begin, stop, True)
            else:
                status = self.read_recoded(part(r.data, begin, end))
            if status == 1:
                self.offsets[i + 1] = self.rows
                if r.cells > r.usual_cells:
                    r.charge_cells()
            else:
                self.undo(rows)
                self.rows = rows
                self.present[i] = 0
        self.end_batch()
        r.open(memoryview(b""))
        self.usual_rows = (self.usual_rows + self.rows) // 2
        return 0

    def read_recoded(self, message: bytes) -> int:
        """Convert a message to UTF-8 and read it."""
        data = self.reader.data
        recoded = self.recode(message)
        if recoded is None:
            return self.reject_encoding()
        text, malformed = recoded
        self.reader.open(memoryview(text))
        try:
            status: int = self.read_message(0, len(text), malformed)
        finally:
            self.reader.open(data)
        return status

    def reject_encoding(self) -> int:
        """Reject a message whose encoding is not supported. The result is that of `read_message`."""
        raise NotImplementedError


class Batch(TextBatch):
    """Reads batches of JSON messages."""

    def __init__(self, reader: Reader, words: JsonErrorMessages) -> None:
        super().__init__(reader)
        self.words = words
        self.placed = {fault: (code.number, text.encode()) for fault, (code, text) in words.placed().items()}
        self.malformed = words.malformed()
        self.nodes = Tree(keep_repeats=False)
        self.value_end = 0

    def recode(self, message: bytes) -> Recoded | None:
        return self.words.recoded(message)

    def check_end(self, end: int, loose: bool) -> int:
        """Return `end` if only blanks follow the value that ends there, else FAULT. Return a code unchanged."""
        r = self.reader
        if end >= 0 and not loose:
            end = token(r.data, end, r.end)
            if end < r.end:
                return r.fail(end, TRAILING)
        return end

    def add_value_error(self) -> int:
        """Add the error that a value can't be read. Return 0. The text does not contain objects and arrays."""
        r = self.reader
        c = byte(r.data, r.bad_at, r.end)
        value: Any = {} if c == LEFT_BRACE else [] if c == LEFT_BRACKET else self.nodes.read_node(r, r.bad_at)
        return self.add_error(self.words.bad_value(r.steps, r.reason, r.culprit.name, value))

    def only_value(self, at: int, loose: bool) -> Any:
        """Return the node of a message that is not an object, None if it is blank. Set `value_end`, maybe to FAULT."""
        r = self.reader
        node: Any = None
        end = at
        if at < r.end:
            node = self.nodes.read_node(r, at)
            end = self.check_end(self.nodes.end, loose)
        elif loose:
            end = r.fail(at, EXPECTED_VALUE)
        self.value_end = end
        return node

    def add_syntax_error(self, loose: bool) -> int:
        """Add the error that the message is not JSON. Return 0."""
        r = self.reader
        if loose and r.code != TOO_MANY_CELLS:
            return self.add_error(self.malformed)
        known = self.placed.get(r.code)
        if known is None:
            return self.add_error(self.words.fault(r))
        code, text = known
        append_bytes(self.faults.text, text)
        self.faults.text.number(r.characters(r.begin, r.where) + 1)
        self.faults.end(self.current, code)
        return 0


class JsonBatch(Batch):
    """Reads messages that are a row or an array of rows."""

    def __init__(self, root: Rows, reader: Reader, words: JsonErrorMessages) -> None:
        super().__init__(reader, words)
        self.root = root

    def read_batch(self, messages: pa.BinaryArray) -> pa.ListArray:
        """Return the rows of each message."""
        self.root.start(self.capacity(len(messages)))
        self.reader.start_batch(self.root.cells)
        self.run(messages)
        return self.lists(self.root.finish())

    def undo(self, rows: int) -> int:
        return self.root.truncate(rows)

    def read_message(self, begin: int, end: int, loose: bool) -> int:
        r = self.reader
        r.start_message(begin, end)
        at = token(r.data, begin, end)
        rows = self.rows
        c = byte(r.data, at, end)
        if c != LEFT_BRACE and c != LEFT_BRACKET:
            return self.no_rows(at, loose)
        status = self.document(at, loose)
        if status == BAD:
            return self.reread(at, rows, loose)
        if status == FAULT:
            if not r.lenient or r.code == TOO_LARGE or r.code == TOO_MANY_CELLS:
                return self.add_syntax_error(loose)
            # a streaming reader keeps the elements before a fault inside of an array
            if not r.streaming or c != LEFT_BRACKET or r.code == TRAILING:
                self.rows = rows
            self.root.truncate(self.rows)
        return 1

    def document(self, at: int, loose: bool) -> int:
        """Read a message from its bracket on. Return its end, FAULT or BAD."""
        r = self.reader
        if byte(r.data, at, r.end) == LEFT_BRACE:
            r.cells = self.root.cells
            at = self.root.read_value(r, at)
            if at >= 0:
                self.rows += 1
        else:
            at = self.elements(at)
        return self.check_end(at, loose)

    def elements(self, at: int) -> int:
        """Read the rows of an array. Skip nulls. A lenient reader skips all elements that are not objects."""
        r = self.reader
        index = 0
        r.depth += 1
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) != RIGHT_BRACKET:
            while True:
                c = byte(r.data, at, r.end)
                if c == LEFT_BRACE:
                    at = r.count_cells(at, self.root.cells)
                    if at >= 0:
                        at = self.root.read_value(r, at)
                    if at >= 0:
                        self.rows += 1
                    elif at == BAD:
                        r.steps.append(index)
                else:
                    start = at
                    at = r.skip(at)
                    if at >= 0 and c != LOWER_N and not r.lenient:
                        at = r.reject(start, self.root)
                        r.steps.append(index)
                if at < 0:
                    return at
                index += 1
                at = token(r.data, at, r.end)
                if byte(r.data, at, r.end) != COMMA:
                    break
                at = token(r.data, at + 1, r.end)
            if byte(r.data, at, r.end) != RIGHT_BRACKET:
                return r.fail(at, EXPECTED_COMMA)
        r.depth -= 1
        return at + 1

    def no_rows(self, at: int, loose: bool) -> int:
        """Read a message that is neither an object nor an array: blanks, null, a number, ..."""
        r = self.reader
        node = self.only_value(at, loose)
        if self.value_end < 0:
            return 1 if r.lenient else self.add_syntax_error(loose)
        if r.lenient or (node is None and not r.streaming):
            return 1
        return self.add_error(self.words.no_rows(node))

    def reread(self, at: int, rows: int, loose: bool) -> int:
        """Read a message again after a BAD value, with the last value of each name."""
        r = self.reader
        end = 0
        if byte(r.data, at, r.end) == LEFT_BRACKET:  # for an object, the careful reading checks the whole syntax first
            r.depth = 0
            end = self.check_end(r.skip(at), loose)
        if end < 0:
            return self.add_syntax_error(loose)
        status = self.read_carefully(at, rows, loose)
        if status == BAD and (end > 0 or self.check_end(self.root.looked_at, loose) >= 0):
            return self.add_value_error()
        return self.add_syntax_error(loose) if status < 0 else 1

    def read_carefully(self, at: int, rows: int, loose: bool) -> int:
        """Remove the rows of the message and read it again with `Reader.careful`."""
        r = self.reader
        self.undo(rows)
        self.rows = rows
        r.depth = 0
        r.cells = 0
        r.in_map = False
        r.steps = []
        r.careful = True
        return self.document(at, loose)
