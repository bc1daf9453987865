"""JSON, token by token: the end of each value, and the content of strings and numbers.

Each read function takes a start offset and returns the offset after the value. After `"abc"` this is the offset of the
comma. A negative result is a code. `FAULT`: the message is not JSON; `code` and `where` have the details. `BAD`: the
message is JSON, but a column can't take a value; `bad_at`, `culprit` and `reason` have the details.

All code of this package follows these rules, so that it gives the same results compiled and uncompiled:

* Integers fit into 64 bits. A variable with more than 31 bits has its type in the `.pxd`. A literal above 31 bits is a
  constant with a type there. Python code outside of this package does everything that needs more than 64 bits.
* Only checked indexes and the functions of `memory` access memory.
* `//` and `%` have their meaning in Python.
* Loops over bytes are `nogil`: a Python object in such a loop fails the build.

The grammar is RFC 8259, but strings may contain raw control characters. Like Jackson, Flink's parser, it rejects more
than 1000 levels and numbers with more than 1000 digits.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # it has no stub
from typing import TYPE_CHECKING, Any

from kvformat.codecs._kernel.codes import (
    BAD,
    BAD_ESCAPE,
    BAD_EXPONENT,
    BAD_HEX,
    CONSTANT,
    EXPECTED_COLON,
    EXPECTED_COMMA,
    EXPECTED_NAME,
    EXPECTED_VALUE,
    FALSE_TEXT,
    FAULT,
    MAX_DEPTH,
    MAX_DIGITS,
    NEEDS_PYTHON,
    NULL_TEXT,
    OPEN_STRING,
    TOO_DEEP,
    TOO_MANY_CELLS,
    TOO_MANY_DIGITS,
    TRUE_TEXT,
)
from kvformat.codecs._kernel.memory import Bytes, Hashes, grown
from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        BACKSLASH,
        COLON,
        COMMA,
        DIGIT_0,
        DIGIT_1,
        DIGIT_9,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_E,
        LOWER_F,
        LOWER_N,
        LOWER_T,
        LOWER_U,
        MINUS,
        PLUS,
        POINT,
        QUESTION_MARK,
        QUOTE,
        RIGHT_BRACE,
        RIGHT_BRACKET,
        SPACE,
        UPPER_E,
        UPPER_I,
        UPPER_N,
        append,
        append_character,
        ascii_end,
        byte,
        part,
        same,
        special,
        token,
        utf8_blocks,
        word,
    )

HUGE_EXPONENT = 100_000_000_000
"""Larger than every exponent in Java. Larger exponents are cut to about this size."""
MIN_CACHED = 256
"""Smallest size in bytes of a value that `skip_cached` remembers."""
HIGHS, LOWS = 0x8080808080808080, 0x0101010101010101
FOUR_BYTES, FIRST_OF_FOUR = 0xC0C0C0F8, 0x808080F0
"""The bits that say how many bytes a character has, and those of a character of four bytes."""
ALL = 0xFFFFFFFFFFFFFFFF

HEX: memoryview[int] = memoryview(bytes("0123456789abcdef".find(chr(c).lower()) % 256 for c in range(256)))
"""Values of the hexadecimal digits by their byte; 255 for other bytes."""
_ESCAPED = dict(zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True))
ESCAPES: memoryview[int] = memoryview(bytes(_ESCAPED.get(c, 0) for c in range(256)))
"""The character for each letter after a backslash; 0 if the letter is not an escape."""
_DIGITS = re.compile(rb"[0-9]*")
_CONTROL = re.compile(rb"[\x00-\x1f]")


def four_hex_digits(characters: int) -> int:
    """Parse the lowest four bytes of a word as hexadecimal digits. Return -1 if they are not digits."""
    a = HEX[characters & 255]
    b = HEX[characters >> 8 & 255]
    c = HEX[characters >> 16 & 255]
    d = HEX[characters >> 24 & 255]
    return -1 if (a | b | c | d) > 15 else a << 12 | b << 8 | c << 4 | d


class Reader:
    """Tokenizer of a batch of messages. The current message is `data[begin:end]`, in valid UTF-8.

    `streaming`, `lenient` and `fail_on_missing` are those of `ReadSettings`. With `decimals`, an exponent outside of
    the range of Java's BigDecimal is a syntax error. Without `raw_controls`, strings must escape control characters.

    `has_surrogates`: lone surrogates may be encoded in the data.
    After a BAD value a message is read again with `careful` set. Containers then read the last value of each
    name in the order of the columns, and add the path to the bad value to `steps`.
    """

    def __init__(
        self,
        *,
        streaming: bool = False,
        lenient: bool = False,
        fail_on_missing: bool = False,
        decimals: bool = False,
        raw_controls: bool = True,
    ) -> None:
        self.streaming, self.lenient, self.fail_on_missing = streaming, lenient, fail_on_missing
        self.decimals, self.raw_controls = decimals, raw_controls
        self.data = memoryview(b"")
        self.begin = self.end = self.where = self.bad_at = 0
        self.cached_at = self.cached_size = self.openings = 0
        self.code = self.depth = self.rereads = 0
        self.careful = self.has_surrogates = False
        self.culprit: Any = None
        self.reason: Any = None
        self.final: Any = None
        self.final_of: Any = None
        self.steps: list[Any] = []
        self.in_map = self.repeats = False
        self.cells = self.most_cells = self.usual_cells = self.free_cells = self.cells_left = 0
        self.start_batch(0)
        self.mantissa = self.exponent = self.digit_count = 0
        self.negative = self.whole = False
        self.stack: memoryview[int] = grown(None, 0, MAX_DEPTH + 1, "B")
        self.bases: memoryview[int] = grown(None, 0, MAX_DEPTH + 1, "q")
        self.hashes = Hashes()

    def open(self, data: memoryview[int]) -> int:
        """Use other data. Forget the remembered value."""
        self.data = data
        self.begin = self.end = 0
        self.cached_at = self.cached_size = 0
        self.openings += 1
        return 0

    def start_message(self, begin: int, end: int) -> int:
        """Start reading the message `data[begin:end]`."""
        if not 0 <= begin <= end <= len(self.data):
            raise ValueError("a message outside of the data")
        self.begin = begin
        self.end = end
        self.depth = 0
        self.careful = False
        self.rereads = 0
        self.in_map = self.repeats = False
        self.hashes.size = 0
        self.cells = 0
        self.most_cells = self.free_cells + CELLS_PER_BYTE * (end - begin)
        return 0

    def start_batch(self, cells: int) -> int:
        """Start a batch whose messages may have `cells` cells whatever their size in bytes."""
        self.usual_cells = cells
        self.cells_left = MOST_CELLS_OF_A_BATCH
        self.free_cells = cells + MOST_CELLS
        return 0

    def count_cells(self, at: int, cells: int) -> int:
        """Count the cells of the value at an offset. Return the offset, or FAULT if the message has too many cells."""
        self.cells += cells
        return at if self.cells <= self.most_cells else self.fail(at, TOO_MANY_CELLS)

    def charge_cells(self) -> int:
        """Charge the batch with the cells that exceed the allowance of the message's size."""
        out = self.cells - self.usual_cells - CELLS_PER_BYTE * (self.end - self.begin)
        if out > 0:
            self.cells_left -= out
            self.free_cells = self.usual_cells + min(MOST_CELLS, self.cells_left)
        return 0

    def open_message(self, message: bytes) -> None:
        """Use the bytes of a single message."""
        self.open(memoryview(message))
        self.start_message(0, len(message))

    def first_token(self) -> int:
        """Return the offset of the first token."""
        return token(self.data, self.begin, self.end)

    def fail(self, at: int, code: int) -> int:
        """Record why and where the message is not JSON. Return FAULT."""
        self.code = code
        self.where = min(at, self.end)
        return FAULT

    def reject(self, at: int, culprit: Any) -> int:
        """Record the offset of a value that the column `culprit` can't take. Return BAD."""
        self.bad_at = at
        self.culprit = culprit
        self.reason = None
        if self.steps:
            self.steps = []
        return BAD

    def literal(self, at: int, text: int, size: int) -> int:
        """Skip `null`, `true` or `false`, given as a word of `size` bytes."""
        if at + size > self.end or (word(self.data, at) ^ text) & ALL >> 64 - 8 * size:
            return self.fail_value(at)
        return at + size

    def fail_value(self, at: int) -> int:
        """Fail at bytes that are not a value. NaN and Infinity have a code of their own."""
        c = byte(self.data, at + 1 if byte(self.data, at, self.end) == MINUS else at, self.end)
        return self.fail(at, CONSTANT if c in (UPPER_N, UPPER_I) else EXPECTED_VALUE)

    # --- strings ---------------------------------------------------------------------------------------

    def string(self, at: int) -> int:
        """Return the end of the string whose opening quote is at an offset."""
        stop = special(self.data, at + 1, self.end)
        if byte(self.data, stop, self.end) == QUOTE:
            return stop + 1
        return self.escaped_string(at, stop)

    def escaped_string(self, opening: int, at: int) -> int:
        """Return the end of a string whose first backslash is at an offset."""
        while at < self.end:
            if byte(self.data, at, self.end) == QUOTE:
                return at + 1
            c = byte(self.data, at + 1, self.end)
            if c == LOWER_U:
                if at + 6 > self.end or four_hex_digits(word(self.data, at + 2)) < 0:
                    return self.fail(at + 1, BAD_HEX)
                at += 6
            elif ESCAPES[c] == 0:
                return self.fail_escape(opening, at)
            else:
                at += 2
            at = special(self.data, at, self.end)
        return self.fail(opening, OPEN_STRING)

    def string_into(self, at: int, out: Bytes) -> int:
        """Append the content of a string as UTF-8, with `?` for a lone surrogate. Return the string's end."""
        stop = special(self.data, at + 1, self.end)
        append(out, self.data, at + 1, min(stop, self.end))
        if byte(self.data, stop, self.end) == QUOTE:
            return stop + 1
        return self.escapes_into(at, stop, out)

    def escapes_into(self, opening: int, at: int, out: Bytes) -> int:
        """Append the rest of a string from its first backslash on. Return the string's end."""
        while at < self.end:
            characters = word(self.data, at)
            if characters & 0xFFFF == 0x755C and at + 6 <= self.end:  # backslash, u
                code = four_hex_digits(characters >> 16)
                if code < 0:
                    return self.fail(at + 1, BAD_HEX)
                at += 6
                if 0xD800 <= code < 0xE000:
                    low = -1
                    characters = word(self.data, at)
                    if code < 0xDC00 and characters & 0xFFFF == 0x755C and at + 6 <= self.end:
                        low = four_hex_digits(characters >> 16)
                    if 0xDC00 <= low < 0xE000:
                        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                        at += 6
                    else:
                        code = QUESTION_MARK
                append_character(out, code)
                continue
            code = byte(self.data, at, self.end)
            if code == QUOTE:
                return at + 1
            if code != BACKSLASH:
                span = at
                at = special(self.data, at, self.end)
                append(out, self.data, span, min(at, self.end))
                continue
            code = byte(self.data, at + 1, self.end)
            if code == LOWER_U:
                return self.fail(at + 1, BAD_HEX)
            code = ESCAPES[code]
            if code == 0:
                return self.fail_escape(opening, at)
            at += 2
            append_character(out, code)
        return self.fail(opening, OPEN_STRING)

    def fail_escape(self, opening: int, at: int) -> int:
        """Fail at a backslash without a valid escape: an unknown letter, or the end of the message."""
        if at + 1 < self.end:
            return self.fail(at, BAD_ESCAPE)
        return self.fail(opening, OPEN_STRING)

    def is_plain(self, at: int, stop: int) -> bool:
        """Return whether the content of a string has no escapes and no control characters."""
        if cython.compiled:
            while at < stop:
                c = byte(self.data, at, self.end)
                if c < SPACE or c == BACKSLASH:
                    return False
                at += 1
            return True
        else:  # Cython drops an `else` branch, but not code after `return`
            inside = bytes(self.data[at:stop])
            return b"\\" not in inside and not _CONTROL.search(inside)

    # --- numbers ---------------------------------------------------------------------------------------

    def digits(self, at: int) -> int:
        """Append digits to the mantissa, modulo 2**64. Return their end."""
        if cython.compiled:
            mantissa = self.mantissa
            while True:
                c = byte(self.data, at, self.end) - DIGIT_0
                if c < 0 or c > 9:
                    break
                mantissa = mantissa * 10 + c
                at += 1
            self.mantissa = mantissa
            return at
        else:
            end = max(at, _DIGITS.match(self.data, at, self.end).end()) if at < self.end else at  # type: ignore[union-attr]
            if end - at <= MAX_DIGITS:  # longer numbers are rejected
                self.mantissa = (self.mantissa * 10 ** (end - at) + int(bytes(self.data[at:end]) or b"0")) & ALL
            return end

    def number(self, at: int) -> int:
        """Read a number into `mantissa` and `exponent` (of ten).

        `whole` is true without fraction and exponent. The mantissa is exact if `digit_count` is below 20.
        """
        begin = at
        self.negative = byte(self.data, at, self.end) == MINUS
        start = at + 1 if self.negative else at
        self.mantissa = 0
        self.exponent = 0
        self.whole = True
        at = self.digits(start)
        count = at - start
        if count == 0:
            return self.fail_value(begin)
        if count > 1 and byte(self.data, start, self.end) == DIGIT_0:
            return self.fail(start + 1, EXPECTED_COMMA)
        c = byte(self.data, at, self.end)
        fraction = 0
        if c == POINT:
            self.whole = False
            start = at + 1
            at = self.digits(start)
            fraction = at - start
            if fraction == 0:
                return self.fail(at - 1, EXPECTED_COMMA)
            count += fraction
            self.exponent = -fraction
            c = byte(self.data, at, self.end)
        if count > MAX_DIGITS:
            return self.fail(begin, TOO_MANY_DIGITS)
        self.digit_count = count
        if c in (LOWER_E, UPPER_E):
            return self.power(begin, at, fraction)
        return at

    def power(self, start: int, at: int, fraction: int) -> int:
        """Read the exponent of the number that begins at `start`, from the letter `e` on."""
        letter = at
        self.whole = False
        c = byte(self.data, at + 1, self.end)
        down = c == MINUS
        at += 2 if down or c == PLUS else 1
        first = at
        power = 0
        while True:
            c = byte(self.data, at, self.end)
            if c < DIGIT_0 or c > DIGIT_9:
                break
            if power < HUGE_EXPONENT:
                power = power * 10 + (c - DIGIT_0)
            at += 1
        if at == first:
            return self.fail(letter, EXPECTED_COMMA)
        if self.digit_count + (at - first) > MAX_DIGITS:
            return self.fail(start, TOO_MANY_DIGITS)
        if down:
            power = -power
        self.exponent += power
        if self.decimals:
            least = -0x7FFFFFFF - 1
            if power < least or power > 0x7FFFFFFF or fraction - power < least or fraction - power > 0x7FFFFFFF:
                return self.fail(start, BAD_EXPONENT)
        return at

    # --- any value -------------------------------------------------------------------------------------

    def colon(self, at: int) -> int:
        """Return the offset of the value after a name that ends at an offset."""
        at = token(self.data, at, self.end)
        if byte(self.data, at, self.end) != COLON:
            return self.fail(at, EXPECTED_COLON)
        return token(self.data, at + 1, self.end)

    def name(self, at: int) -> int:
        """Return the offset of the value after a name and its colon."""
        if byte(self.data, at, self.end) != QUOTE:
            return self.fail(at, EXPECTED_NAME)
        at = self.string(at)
        return at if at < 0 else self.colon(at)

    def scalar(self, at: int) -> int:
        """Return the end of a value that is neither an object nor an array."""
        c = byte(self.data, at, self.end)
        if c == QUOTE:
            return self.string(at)
        if c == MINUS or DIGIT_0 <= c <= DIGIT_9:
            return self.number(at)
        if c == LOWER_N:
            return self.literal(at, NULL_TEXT, 4)
        if c == LOWER_T:
            return self.literal(at, TRUE_TEXT, 4)
        if c == LOWER_F:
            return self.literal(at, FALSE_TEXT, 5)
        return self.fail_value(at)

    def skip(self, at: int) -> int:
        """Skip any value. Check its whole syntax."""
        c = byte(self.data, at, self.end)
        if c != LEFT_BRACE and c != LEFT_BRACKET:
            return self.scalar(at)
        depth = 0
        closing = 0  # closing bracket of the current array or object
        while True:
            c = byte(self.data, at, self.end)  # first byte of a value
            if c in (LEFT_BRACE, LEFT_BRACKET):
                if self.depth + depth >= MAX_DEPTH:
                    return self.fail(at, TOO_DEEP)
                self.stack[depth] = closing
                depth += 1
                closing = c + 2  # from [ to ], from { to }
                at = token(self.data, at + 1, self.end)
                if byte(self.data, at, self.end) != closing:
                    if c == LEFT_BRACE:
                        at = self.name(at)
                        if at < 0:
                            return at
                    continue
            else:
                if c == QUOTE:
                    at = self.string(at)
                elif DIGIT_1 <= c <= DIGIT_9:
                    start = at
                    while DIGIT_0 <= c <= DIGIT_9:
                        at += 1
                        c = byte(self.data, at, self.end)
                    if c in (POINT, LOWER_E, UPPER_E) or at - start > MAX_DIGITS:
                        at = self.number(start)
                else:
                    at = self.scalar(at)
                if at < 0:
                    return at
                at = token(self.data, at, self.end)
            while byte(self.data, at, self.end) == closing:
                depth -= 1
                closing = self.stack[depth]
                if depth == 0:
                    return at + 1
                at = token(self.data, at + 1, self.end)
            if byte(self.data, at, self.end) != COMMA:
                return self.fail(at, EXPECTED_COMMA)
            at = token(self.data, at + 1, self.end)
            if closing == RIGHT_BRACE:
                at = self.name(at)
                if at < 0:
                    return at

    def skip_cached(self, at: int) -> int:
        """Skip a value that is often the same in the next message, such as a schema: compare it with the last one."""
        size = self.cached_size
        if size and at + size <= self.end and same(self.data, at, self.cached_at, size):
            return at + size
        end = self.skip(at)
        c = byte(self.data, at, self.end)
        if end - at >= MIN_CACHED and c in (LEFT_BRACE, LEFT_BRACKET):
            self.cached_at = at
            self.cached_size = end - at
        return end

    def compact(self, at: int, out: Bytes) -> int:
        """Append a value as JSON without blanks, as Jackson writes its tree. Return its end.

        Returns NEEDS_PYTHON and appends nothing if Jackson would change more than the blanks: for a repeated name, an
        escape, or a fraction that Java writes in another way.
        """
        end = self.skip(at)
        if end < 0:
            return end
        size = out.size
        first = self.hashes.size
        done = self.compact_tokens(at, end, out)
        self.hashes.size = first
        if done < 0:
            out.size = size
            return done
        return end

    def compact_tokens(self, at: int, stop: int, out: Bytes) -> int:
        """Append the tokens of the value `data[at:stop]`, whose syntax is checked."""
        depth = 0
        is_name = False
        while at < stop:
            at = token(self.data, at, self.end)
            span = at
            c = byte(self.data, at, self.end)
            at += 1
            if c == QUOTE:
                at = self.string(span)
                if not self.is_plain(span + 1, at - 1):
                    return NEEDS_PYTHON
                if is_name:
                    self.hashes.push(self.data, span + 1, at - 1)
                    is_name = False
            elif c in (LEFT_BRACE, LEFT_BRACKET):
                self.stack[depth] = c
                self.bases[depth] = self.hashes.size
                depth += 1
                is_name = c == LEFT_BRACE
            elif c in (RIGHT_BRACE, RIGHT_BRACKET):
                depth -= 1
                base = self.bases[depth]
                if self.hashes.repeated(base):
                    return NEEDS_PYTHON
                self.hashes.size = base
                is_name = False
            elif c == COMMA:
                is_name = self.stack[depth - 1] == LEFT_BRACE
            elif c == MINUS or DIGIT_0 <= c <= DIGIT_9:
                at = self.number(span)
                if not self.whole:
                    if not self.is_usual_fraction(span, at):
                        return NEEDS_PYTHON
                elif self.negative and self.digit_count == 1 and self.mantissa == 0:
                    span += 1  # -0
            elif c != COLON:
                at = self.scalar(span)
            append(out, self.data, span, at)
        return at

    def is_usual_fraction(self, at: int, end: int) -> bool:
        """Return whether Java writes the last number with the same text, both as a double and as a BigDecimal.

        This holds for numbers from 0.001 to 10 million without an exponent, with at most 15 digits and no 0 at the end.
        """
        c = byte(self.data, end - 1, self.end)
        if self.digit_count > 15 or c < DIGIT_1 or c > DIGIT_9 or self.exponent < -14 or self.exponent >= 0:
            return False
        whole = self.digit_count + self.exponent  # digits before the point
        if end - at != self.digit_count + 1 + self.negative or whole > 7:
            return False
        # below 1, one of the first three digits after the point must not be 0
        first = at + self.negative
        if whole == 1 and byte(self.data, first, self.end) == DIGIT_0:
            for i in range(2, 5):  # noqa: SIM110 - a generator is an object
                if DIGIT_1 <= byte(self.data, first + i, self.end) <= DIGIT_9:
                    return True
            return False
        return True

    # --- UTF-8 and texts -------------------------------------------------------------------------------

    def utf8_end(self, at: int, stop: int) -> int:
        """Return the offset of the first byte that is not valid UTF-8, or `stop`. The rule is table 3-7 of Unicode."""
        begin = at
        while at < stop:
            chunk = word(self.data, at)
            high = chunk & HIGHS
            if high == 0:
                at = ascii_end(self.data, at, stop)
                continue
            if at - begin >= 3:
                checked = utf8_blocks(self.data, at, stop)
                if checked > at:
                    at = checked
                    continue
            if chunk & 0x80 == 0:  # skip the ASCII before the first other byte
                high &= ALL - high + 1
                at += ((((high - 1) & LOWS) * LOWS & ALL) >> 56) - 1
                chunk = word(self.data, at)
            c = chunk & 255
            second = chunk >> 8 & 255
            if chunk & 0xC0E0 == 0x80C0 and c >= 0xC2:
                size = 2
            elif chunk & 0xC0C0F0 == 0x8080E0 and (c != 0xE0 or second >= 0xA0) and (c != 0xED or second <= 0x9F):
                size = 3
            elif (
                chunk & FOUR_BYTES == FIRST_OF_FOUR
                and c <= 0xF4
                and (c != 0xF0 or second >= 0x90)
                and (c != 0xF4 or second <= 0x8F)
            ):
                size = 4
            else:
                size = stop + 1
            if size > stop - at:
                return min(at, stop)
            at += size
        return stop

    def is_loose(self, at: int, stop: int) -> bool:
        """Return whether invalid UTF-8 at an offset has the shape of a character. Jackson then reads it."""
        c = byte(self.data, at, stop)
        need = 1 if 0xC0 <= c <= 0xDF else 2 if 0xE0 <= c <= 0xEF else 3 if 0xF0 <= c <= 0xF7 else 0
        for i in range(1, need + 1):
            if byte(self.data, at + i, stop) & 0xC0 != 0x80:
                return False
        return need > 0

    def text(self, start: int, stop: int) -> str:
        """Return `data[start:stop]` as text, without the bytes of characters that are cut."""
        return part(self.data, start, stop).decode("utf-8", "ignore")

    def string_text(self, start: int, stop: int) -> str:
        """Return the content of a string, with lone surrogates. Both offsets are after the string's quotes."""
        if special(self.data, start, stop) == stop - 1:
            return self.text(start, stop - 1)
        said: str = scanstring(self.text(start, stop), 0, False)[0]
        return said

    def characters(self, start: int, stop: int) -> int:
        """Return the number of characters in `data[start:stop]`."""
        count = 0
        while start < stop:
            if start + 8 <= stop and word(self.data, start) & HIGHS == 0:
                start += 8
                count += 8
            else:
                count += byte(self.data, start, self.end) & 0xC0 != 0x80
                start += 1
        return count
