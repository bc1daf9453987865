"""JSON, token by token: where a value ends, and what a string or a number says.

What reads takes a place in the data and returns the place behind what it has read: behind `"abc"`, at the comma. A
negative number is no place: `FAULT`, the message is not JSON (`code` and `where` say more), or `BAD`, it is, but a
column can't take a value (`bad_at`, `culprit`, `reason`).

Rules for all code of this room, so that it answers the same compiled and as it stands:

* An integer fits 64 bits. What holds more than 31 has its type in the `.pxd`; a literal above 31 bits is a constant
  with a type there. What may need more than 64 is done by Python, outside of this room.
* Memory is touched by checked indexes and by the functions of `memory`.
* `//` and `%` mean what they mean in Python.
* Loops over bytes are `nogil`: a Python object in them fails the build.

The grammar is RFC 8259 with raw control characters allowed in strings; like Jackson, the parser in Flink, it refuses
more than 1000 levels and numbers of more than 1000 digits.
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
        word,
    )

HUGE_EXPONENT = 100_000_000_000
"""More than any exponent that Java has; a number with more is written this way."""
MIN_CACHED = 256
"""Of so many bytes a value is remembered; most are not the same in the next message."""
HIGHS = 0x8080808080808080
ALL = 0xFFFFFFFFFFFFFFFF

HEX: memoryview[int] = memoryview(bytes("0123456789abcdef".find(chr(c).lower()) % 256 for c in range(256)))
"""What hexadecimal digits are worth, by their byte; 255 for other bytes."""
_ESCAPED = dict(zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True))
ESCAPES: memoryview[int] = memoryview(bytes(_ESCAPED.get(c, 0) for c in range(256)))
"""What a letter behind a backslash stands for, 0 for nothing."""
_DIGITS = re.compile(rb"[0-9]*")
_CONTROL = re.compile(rb"[\x00-\x1f]")


def four_hex_digits(found: int) -> int:
    """The lowest four bytes of a word, hexadecimal digits, as a number; -1 if they are not."""
    a = HEX[found & 255]
    b = HEX[found >> 8 & 255]
    c = HEX[found >> 16 & 255]
    d = HEX[found >> 24 & 255]
    return -1 if (a | b | c | d) > 15 else a << 12 | b << 8 | c << 4 | d


class Reader:
    """A batch of messages, one of which is being read: `data[begin:end]`, proper UTF-8.

    `streaming`, `lenient` and `fail_on_missing` as in `ReadSettings`; with `decimals` a number whose exponent Java's
    BigDecimal can't hold is no JSON; without `raw_controls` control characters in strings must be escaped. `careful`
    is how a message is read again in which a column could not take a value: an object's members by their last place
    and in the order of the columns, with the way to the value in `steps`.
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
        self.careful = False
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
        """Take the bytes of other messages."""
        self.data = data
        self.begin = self.end = 0
        self.cached_at = self.cached_size = 0
        self.openings += 1
        return 0

    def start_message(self, begin: int, end: int) -> int:
        """Begin with a message."""
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
        """Begin with a batch whose messages may have so many cells whatever their size is."""
        self.usual_cells = cells
        self.cells_left = MOST_CELLS_OF_A_BATCH
        self.free_cells = cells + MOST_CELLS
        return 0

    def count_cells(self, at: int, cells: int) -> int:
        """Note that the value at a place becomes so many cells; returns that, or FAULT where these are too many."""
        self.cells += cells
        return at if self.cells <= self.most_cells else self.fail(at, TOO_MANY_CELLS)

    def charge_cells(self) -> int:
        """End a message of more cells than usual: those that its bytes do not allow for count for the batch."""
        out = self.cells - self.usual_cells - CELLS_PER_BYTE * (self.end - self.begin)
        if out > 0:
            self.cells_left -= out
            self.free_cells = self.usual_cells + min(MOST_CELLS, self.cells_left)
        return 0

    def open_message(self, message: bytes) -> None:
        """Take the bytes of one message."""
        self.open(memoryview(message))
        self.start_message(0, len(message))

    def first_token(self) -> int:
        """Where the message begins, behind blanks."""
        return token(self.data, self.begin, self.end)

    def fail(self, at: int, code: int) -> int:
        """Note why and where the message is not JSON."""
        self.code = code
        self.where = min(at, self.end)
        return FAULT

    def reject(self, at: int, culprit: Any) -> int:
        """Note which value a column can't take."""
        self.bad_at = at
        self.culprit = culprit
        self.reason = None
        if self.steps:
            self.steps = []
        return BAD

    def literal(self, at: int, text: int, size: int) -> int:
        """`null`, `true` or `false`, given as a word of so many bytes."""
        if at + size > self.end or (word(self.data, at) ^ text) & ALL >> 64 - 8 * size:
            return self.fail_value(at)
        return at + size

    def fail_value(self, at: int) -> int:
        """Fail at what is no value: NaN, Infinity, or anything else."""
        c = byte(self.data, at + 1 if byte(self.data, at, self.end) == MINUS else at, self.end)
        return self.fail(at, CONSTANT if c in (UPPER_N, UPPER_I) else EXPECTED_VALUE)

    # --- strings ---------------------------------------------------------------------------------------

    def string(self, at: int) -> int:
        """The end of the string whose opening quote is at a place."""
        stop = special(self.data, at + 1, self.end)
        if byte(self.data, stop, self.end) == QUOTE:
            return stop + 1
        return self.escaped_string(at, stop)

    def escaped_string(self, opening: int, at: int) -> int:
        """The end of a string, from its first backslash on."""
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
        """Append what a string says, as UTF-8 with `?` for half a surrogate pair; returns its end."""
        stop = special(self.data, at + 1, self.end)
        append(out, self.data, at + 1, min(stop, self.end))
        if byte(self.data, stop, self.end) == QUOTE:
            return stop + 1
        return self.escapes_into(at, stop, out)

    def escapes_into(self, opening: int, at: int, out: Bytes) -> int:
        """Append what a string says from its first backslash on."""
        while at < self.end:
            found = word(self.data, at)
            if found & 0xFFFF == 0x755C and at + 6 <= self.end:  # backslash, u
                code = four_hex_digits(found >> 16)
                if code < 0:
                    return self.fail(at + 1, BAD_HEX)
                at += 6
                if 0xD800 <= code < 0xE000:
                    low = -1
                    found = word(self.data, at)
                    if code < 0xDC00 and found & 0xFFFF == 0x755C and at + 6 <= self.end:
                        low = four_hex_digits(found >> 16)
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
        """Fail at a backslash that begins no escape, perhaps because the message ends behind it."""
        if at + 1 < self.end:
            return self.fail(at, BAD_ESCAPE)
        return self.fail(opening, OPEN_STRING)

    def is_plain(self, at: int, stop: int) -> bool:
        """Whether the inside of a string has no escapes and no control characters."""
        if cython.compiled:
            while at < stop:
                c = byte(self.data, at, self.end)
                if c < SPACE or c == BACKSLASH:
                    return False
                at += 1
            return True
        else:  # Cython drops what is behind `else`, not what is behind `return`
            inside = bytes(self.data[at:stop])
            return b"\\" not in inside and not _CONTROL.search(inside)

    # --- numbers ---------------------------------------------------------------------------------------

    def digits(self, at: int) -> int:
        """Where the digits end; they are added to the mantissa, modulo 2**64."""
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
            if end - at <= MAX_DIGITS:  # more are refused
                self.mantissa = (self.mantissa * 10 ** (end - at) + int(bytes(self.data[at:end]) or b"0")) & ALL
            return end

    def number(self, at: int) -> int:
        """Read a number: `mantissa` * 10**`exponent`, right where `digit_count` is below 20; `whole` if no fraction."""
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
        """The exponent of a number, from its letter on."""
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
        """The value behind a name that ends at a place."""
        at = token(self.data, at, self.end)
        if byte(self.data, at, self.end) != COLON:
            return self.fail(at, EXPECTED_COLON)
        return token(self.data, at + 1, self.end)

    def name(self, at: int) -> int:
        """The value behind a name and its colon."""
        if byte(self.data, at, self.end) != QUOTE:
            return self.fail(at, EXPECTED_NAME)
        at = self.string(at)
        return at if at < 0 else self.colon(at)

    def scalar(self, at: int) -> int:
        """The end of a value that is no object and no array."""
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
        """The end of any value, all of it checked."""
        c = byte(self.data, at, self.end)
        if c != LEFT_BRACE and c != LEFT_BRACKET:
            return self.scalar(at)
        depth = 0
        closing = 0  # of the array or object we are in
        while True:
            c = byte(self.data, at, self.end)  # of a value
            if c in (LEFT_BRACE, LEFT_BRACKET):
                if self.depth + depth >= MAX_DEPTH:
                    return self.fail(at, TOO_DEEP)
                self.stack[depth] = closing
                depth += 1
                closing = c + 2
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
        """As `skip`, for a large value that is the same in many messages, such as a schema: equal bytes end alike."""
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
        """Append a value as JSON without blanks, as Jackson writes its tree; returns its end.

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
        """Append the tokens of a value that was skipped."""
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
        """Whether Java writes the number that was just read as it stands: as a double, and as a BigDecimal.

        So it is where it has no exponent and at most 15 digits, the last one not 0, and from 0.001 up to 10 million.
        """
        c = byte(self.data, end - 1, self.end)
        if self.digit_count > 15 or c < DIGIT_1 or c > DIGIT_9 or self.exponent < -14 or self.exponent >= 0:
            return False
        whole = self.digit_count + self.exponent  # digits before the point
        if end - at != self.digit_count + 1 + self.negative or whole > 7:
            return False
        # without digits before the point but 0, one of the first three behind it
        first = at + self.negative
        if whole == 1 and byte(self.data, first, self.end) == DIGIT_0:
            for i in range(2, 5):  # noqa: SIM110 - a generator is an object
                if DIGIT_1 <= byte(self.data, first + i, self.end) <= DIGIT_9:
                    return True
            return False
        return True

    # --- for Python, and for words ---------------------------------------------------------------------

    def utf8_end(self, at: int, stop: int) -> int:
        """Where bytes end to be proper UTF-8, by the table of the Unicode standard (3-7)."""
        while at < stop:
            c = byte(self.data, at, stop)
            if c < 0x80:
                at = ascii_end(self.data, at, stop)
                continue
            first = at
            at += 1
            least, most = 0x80, 0xBF
            if 0xC2 <= c <= 0xDF:
                need = 1
            elif 0xE0 <= c <= 0xEF:
                need = 2
                if c == 0xE0:
                    least = 0xA0
                elif c == 0xED:
                    most = 0x9F
            elif 0xF0 <= c <= 0xF4:
                need = 3
                if c == 0xF0:
                    least = 0x90
                elif c == 0xF4:
                    most = 0x8F
            else:
                return first
            for _ in range(need):
                c = byte(self.data, at, stop)
                if c < least or c > most:
                    return first
                least, most = 0x80, 0xBF
                at += 1
        return stop

    def is_loose(self, at: int, stop: int) -> bool:
        """Whether bytes that are not proper UTF-8 have its shape: Jackson then reads them."""
        c = byte(self.data, at, stop)
        need = 1 if 0xC0 <= c <= 0xDF else 2 if 0xE0 <= c <= 0xEF else 3 if 0xF0 <= c <= 0xF7 else 0
        for i in range(1, need + 1):
            if byte(self.data, at + i, stop) & 0xC0 != 0x80:
                return False
        return need > 0

    def text(self, start: int, stop: int) -> str:
        """A part of the message, without what is left of a character that it cuts."""
        return part(self.data, start, stop).decode("utf-8", "ignore")

    def string_text(self, start: int, stop: int) -> str:
        """What a string says, with half surrogate pairs as they are; both places are behind its quotes."""
        if special(self.data, start, stop) == stop - 1:
            return self.text(start, stop - 1)
        said: str = scanstring(self.text(start, stop), 0, False)[0]
        return said

    def characters(self, start: int, stop: int) -> int:
        """How many characters a part of the message has."""
        count = 0
        while start < stop:
            if start + 8 <= stop and word(self.data, start) & HIGHS == 0:
                start += 8
                count += 8
            else:
                count += byte(self.data, start, self.end) & 0xC0 != 0x80
                start += 1
        return count
