"""Checks whether JSON messages fit the known columns of their tables, without building values.

    known     db.t: id BIGINT, v DOUBLE          rules of the columns: whole numbers of 64 bits; any number
    message   {..., "after": {"id": 1, "v": 2.5}, "source": {"db": "db", "table": "t"}}     fits db.t

A message gets the number of its table if it surely contributes nothing. Every other message goes to `closer`, the
Python rule of `json.discover`, which says what it contributes and may replace the tables. So the check may be stricter
than the rule, but never less strict.

Members that repeat a declaration in each message, such as `mysqlType`, are compared as bytes with the last ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kvformat.codecs._kernel.codes import EXPECTED_COMMA, FALSE_TEXT, MAX_DEPTH, NULL_TEXT, TRUE_TEXT
from kvformat.codecs._kernel.containers import Names
from kvformat.codecs._kernel.look_codes import (
    ANY,
    ARRAY,
    AS_WRITTEN,
    AT_LEAST_ONE,
    BOOLEAN,
    CLOCK,
    CLOSER,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    GROUPED,
    LATIN,
    LOCAL,
    MAP,
    MOST_FIXED,
    NESTED,
    NOTED,
    NUMBER_TEXT,
    ROW,
    SHORT,
    STRIDE,
    TIMES,
    TRIMMED,
    TRUTH_TEXT,
    WHOLE,
    WITH_LETTER,
    WITH_SPACE,
    ZONED,
)
from kvformat.codecs._kernel.memory import grown
from kvformat.codecs._kernel.messages import TextBatch
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        BACKSLASH,
        COMMA,
        DIGIT_0,
        DIGIT_9,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_E,
        LOWER_F,
        LOWER_N,
        LOWER_T,
        MINUS,
        POINT,
        QUOTE,
        RIGHT_BRACE,
        SPACE,
        UPPER_E,
        UPPER_Z,
        byte,
        token,
    )
    from kvformat.codecs._kernel.times import FIRST_DAY, days_of, micros_of_day

UPPER_T = 84
FLOAT_DIGITS = 6
"""Decimal digits that every FLOAT keeps."""
FLOAT_SCALE = 30
"""Digits after the point up to which the check takes a number for a FLOAT; smaller numbers are looked at closer."""
EXACT_DIGITS = 19
"""Digits of a number that surely fit into 64 bits."""
USUAL_DIGITS = 100
"""Digits on each side of the point of a number that every JSON reader takes."""
MOST = 0x7FFFFFFFFFFFFFFF  # the largest BIGINT


class LookTable:
    """The known columns of a table, with which messages are compared.

    `names` are its columns, `rules` has `STRIDE` numbers for each. `key` and `declared` are the bytes of these members
    in messages that contribute nothing; empty if there are none. `is_strict` says that columns without a value
    contribute, too, because messages declare them. `number` is the index of the table in the batch.

    `nested` has the table of each column of `NESTED` values, None for the others: of a ROW its fields, of an ARRAY or
    MAP one column, the elements or values.
    """

    def __init__(
        self,
        names: list[str],
        rules: list[int],
        nested: list[LookTable | None],
        key: bytes,
        declared: bytes,
        *,
        is_strict: bool,
    ) -> None:
        self.names = Names(names)
        self.nested = nested
        self.rules: memoryview[int] = grown(None, 0, max(len(rules), 1), "q")
        for place, number in enumerate(rules):
            self.rules[place] = number
        self.key, self.key_size = memoryview(key + bytes(8)), len(key)
        self.declared, self.declared_size = memoryview(declared + bytes(8)), len(declared)
        self.is_strict = is_strict
        self.name = memoryview(bytes(8))
        self.name_size = 0
        self.number = -1

    def set_name(self, name: bytes) -> None:
        """Set the texts of the table's name in messages, with quotes and one after the other."""
        self.name, self.name_size = memoryview(name + bytes(8)), len(name)


class LookBatch(TextBatch):
    """Looks at messages that are rows of the table of their topic.

    `closer` is called with the index of a message that may contribute something. `tables` has the table of each topic
    by its number in `topics`, None for one without known columns. Both are set before `look`.
    """

    def __init__(self) -> None:
        super().__init__(Reader(raw_controls=True, decimals=True))
        self.closer: Callable[[int], None] | None = None
        self.answers: memoryview[int] = grown(None, 0, 1, "i")
        self.tables: list[LookTable | None] = []
        self.topics: memoryview[int] = grown(None, 0, 1, "i")

    def look(self, messages: pa.BinaryArray, closer: Callable[[int], None]) -> memoryview[int]:
        """Return for each message the number of the table that it fits; -1 for a null one and one for `closer`."""
        self.closer = closer
        self.answers = grown(None, 0, len(messages), "i")
        for place in range(len(self.answers)):
            self.answers[place] = -1
        self.run(messages)
        self.closer = None
        return self.answers

    def recode(self, message: bytes) -> Any:
        return None

    def reject_encoding(self) -> int:
        return self.look_closer()

    def read_empty(self, at: int) -> int:
        return self.look_closer()

    def look_closer(self) -> int:
        """Let the Python rule look at the current message. Return 1."""
        assert self.closer is not None
        self.closer(self.current)
        return 1

    def read_message(self, begin: int, end: int, loose: bool) -> int:
        if loose:
            return self.look_closer()
        r = self.reader
        r.start_message(begin, end)
        number = self.table_of(token(r.data, begin, end))
        if number < 0:
            return self.look_closer()
        self.answers[self.current] = number
        return 1

    def table_of(self, at: int) -> int:
        """Return the number of the table that the message with its first token at an offset fits, or CLOSER."""
        r = self.reader
        table = self.tables[self.topics[self.current]]
        if table is None or byte(r.data, at, r.end) != LEFT_BRACE:
            return CLOSER
        return table.number if self.is_end(self.row(table, at)) else CLOSER

    def is_end(self, at: int) -> bool:
        """Return whether only blanks follow an offset."""
        r = self.reader
        return at >= 0 and token(r.data, at, r.end) == r.end

    def row(self, table: LookTable, at: int) -> int:
        """Return the end of an object whose members fit the table, or a negative number."""
        r = self.reader
        names = table.names
        before = names.count
        r.depth += 1
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) == RIGHT_BRACE:
            r.depth -= 1
            return at + 1
        while True:
            number = names.read_name(r, at, before)
            at = names.value
            if at < 0:
                return at
            if number >= 0:
                before = number
                if byte(r.data, at, r.end) == QUOTE and table.rules[number * STRIDE] & ANY:
                    at = r.string(at)
                else:
                    at = self.value(table, number, at)
            elif byte(r.data, at, r.end) == LOWER_N and not table.is_strict:
                at = r.literal(at, NULL_TEXT, 4)
            else:
                return CLOSER
            if at < 0:
                return at
            at = token(r.data, at, r.end)
            if byte(r.data, at, r.end) != COMMA:
                break
            at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) != RIGHT_BRACE:
            return r.fail(at, EXPECTED_COMMA)
        r.depth -= 1
        return at + 1

    def value(self, table: LookTable, number: int, at: int) -> int:
        """Return the end of a value that fits a column, or a negative number."""
        r = self.reader
        place = number * STRIDE
        flags = table.rules[place]
        c = byte(r.data, at, r.end)
        if flags & ANY:
            return r.string(at) if c == QUOTE else r.skip(at)
        if c == QUOTE:
            return self.text(table, place, at)
        if c == LOWER_N:
            return CLOSER if flags & NOTED else r.literal(at, NULL_TEXT, 4)
        if c in (LOWER_T, LOWER_F):
            if flags & BOOLEAN:
                return r.literal(at, TRUE_TEXT, 4) if c == LOWER_T else r.literal(at, FALSE_TEXT, 5)
            return CLOSER
        if c == MINUS or DIGIT_0 <= c <= DIGIT_9:
            end = self.usual_number(table, place, at)
            if end <= 0:
                end = r.number(at)
                if end >= 0 and not self.is_number_of(table, place, at, end):
                    return CLOSER
            if end > 0 and flags & DOUBLE and not self.has_number_forms(table, place, at, end):
                return CLOSER
            return end
        return self.nested_value(table, number, at) if flags & NESTED else CLOSER

    def nested_value(self, table: LookTable, number: int, at: int) -> int:
        """Return the end of an object or an array that fits a column, or a negative number."""
        r = self.reader
        flags = table.rules[number * STRIDE]
        inner: LookTable = cython.cast(LookTable, table.nested[number])
        c = byte(r.data, at, r.end)
        if r.depth >= MAX_DEPTH or c != (LEFT_BRACKET if flags & ARRAY else LEFT_BRACE):
            return CLOSER
        if flags & ROW:
            return self.row(inner, at)
        closing = c + 2  # from [ to ], from { to }
        r.depth += 1
        at = token(r.data, at + 1, r.end)
        if byte(r.data, at, r.end) != closing:
            while True:
                if flags & MAP:
                    at = r.name(at)
                    if at < 0:
                        return at
                at = self.value(inner, 0, at)
                if at < 0:
                    return at
                at = token(r.data, at, r.end)
                if byte(r.data, at, r.end) != COMMA:
                    break
                at = token(r.data, at + 1, r.end)
            if byte(r.data, at, r.end) != closing:
                return CLOSER
        r.depth -= 1
        return at + 1

    def usual_number(self, table: LookTable, place: int, at: int) -> int:
        """Return the end of a number in a usual form that fits a column of 64 bits or a DECIMAL; 0 for others."""
        r = self.reader
        flags = table.rules[place]
        if byte(r.data, at, r.end) == MINUS:
            at += 1
        start = at
        c = byte(r.data, at, r.end)
        if c == DIGIT_0 and byte(r.data, at + 1, r.end) != POINT:
            return 0
        while DIGIT_0 <= c <= DIGIT_9:
            at += 1
            c = byte(r.data, at, r.end)
        whole = at - start
        if whole == 0 or c in (LOWER_E, UPPER_E):
            return 0
        if c != POINT:
            if flags & (WHOLE | DOUBLE) and whole < EXACT_DIGITS and table.rules[place + 1] == MOST:
                return at
            return at if flags & DECIMAL and whole <= table.rules[place + 2] else 0
        start = at + 1
        at = start
        c = byte(r.data, at, r.end)
        while DIGIT_0 <= c <= DIGIT_9:
            at += 1
            c = byte(r.data, at, r.end)
        fraction = at - start
        if fraction == 0 or c in (LOWER_E, UPPER_E):
            return 0
        if flags & DOUBLE:
            return at if whole <= USUAL_DIGITS and fraction <= USUAL_DIGITS else 0
        if flags & DECIMAL and whole <= table.rules[place + 2] and fraction <= table.rules[place + 3]:
            return at
        return 0

    def is_number_of(self, table: LookTable, place: int, at: int, end: int) -> bool:
        """Return whether the column reads the last number without loss."""
        r = self.reader
        flags = table.rules[place]
        if flags & SHORT:
            return end - at <= table.rules[place + 1]
        if flags & CLOCK and byte(r.data, at, r.end) == MINUS:
            return False
        if flags & DOUBLE and not r.whole:
            return True
        if flags & (WHOLE | DOUBLE):
            return r.whole and r.digit_count <= EXACT_DIGITS and r.mantissa <= table.rules[place + 1]
        if flags & DECIMAL:
            if r.exponent > 0 or (not r.whole and table.rules[place + 3] == 0):
                return False
            return r.digit_count + r.exponent <= table.rules[place + 2] and -r.exponent <= table.rules[place + 3]
        if flags & FLOAT:
            return r.digit_count <= FLOAT_DIGITS and -FLOAT_SCALE < r.exponent <= 0
        return False

    def text(self, table: LookTable, place: int, at: int) -> int:
        """Return the end of a string that fits a column, or a negative number."""
        r = self.reader
        flags = table.rules[place]
        if flags & SHORT:
            end = r.string(at)
            return end if end < 0 or end - at - 2 <= table.rules[place + 1] else CLOSER
        if flags & TIMES:
            return self.time(table, place, at)
        if flags & NUMBER_TEXT:
            c = byte(r.data, at + 1, r.end)
            if c != MINUS and not DIGIT_0 <= c <= DIGIT_9:
                return CLOSER
            end = r.number(at + 1)
            if end < 0 or byte(r.data, end, r.end) != QUOTE or not self.is_number_of(table, place, at + 1, end):
                return CLOSER
            if r.negative and r.mantissa == 0:
                return CLOSER  # the text of -0 is not that of its value
            return end + 1 if self.has_forms(table.rules[place + 4], at + 1, end) else CLOSER
        if flags & TRUTH_TEXT:
            c = byte(r.data, at + 1, r.end)
            return at + 3 if DIGIT_0 <= c <= DIGIT_0 + 1 and byte(r.data, at + 2, r.end) == QUOTE else CLOSER
        if flags & LATIN:
            return self.latin(at)
        if flags & CLOCK:
            end = self.clock(at + 1, table.rules[place + 3])
            if end < 0 or byte(r.data, end, r.end) != QUOTE:
                return CLOSER
            return end + 1 if self.has_forms(table.rules[place + 4], at + 1, end) else CLOSER
        return CLOSER

    def has_number_forms(self, table: LookTable, place: int, at: int, end: int) -> bool:
        """Return whether a number of JSON has the forms of a column of DOUBLEs."""
        r = self.reader
        forms = table.rules[place + 4]
        if forms == 0:
            return True
        if table.rules[place] & AS_WRITTEN:
            return self.has_forms(forms, at, end)
        present = TRIMMED
        while at < end:
            c = byte(r.data, at, end)
            at += 1
            if c == POINT:
                present = AT_LEAST_ONE
            elif c in (LOWER_E, UPPER_E):
                return False
            elif present == AT_LEAST_ONE and c != DIGIT_0:
                present = TRIMMED | AT_LEAST_ONE
        return present & forms == forms

    def has_forms(self, forms: int, at: int, end: int) -> bool:
        """Return whether a number or a time of day has these forms; see `codecs/discovery/text_forms.py`."""
        r = self.reader
        if forms == 0:
            return True
        while at < end and byte(r.data, at, end) != POINT:
            if byte(r.data, at, end) in (LOWER_E, UPPER_E):
                return False
            at += 1
        at = at + 1 if at < end else end
        digits = end - at
        zeros = 0
        while zeros < digits and byte(r.data, end - 1 - zeros, end) == DIGIT_0:
            zeros += 1
        present = 1
        if digits > MOST_FIXED:
            return False
        present <<= digits
        if zeros == 0:
            present |= TRIMMED
        if digits in (0, 3, 6) and zeros < 3:
            present |= GROUPED
        if digits == 1 or (digits and zeros == 0):
            present |= AT_LEAST_ONE
        return present & forms == forms

    def latin(self, at: int) -> int:
        """Return the end of a string without escapes and with characters up to U+00FF, or CLOSER."""
        r = self.reader
        at += 1
        while at < r.end:
            c = byte(r.data, at, r.end)
            if c == QUOTE:
                return at + 1
            if c == BACKSLASH or c >= 0xC4:
                return CLOSER
            at += 1
        return CLOSER

    def time(self, table: LookTable, place: int, at: int) -> int:
        """Return the end of a string with a date or a timestamp that the column reads, or CLOSER."""
        r = self.reader
        flags = table.rules[place]
        at = self.day(at + 1)
        if at < 0:
            return CLOSER
        c = byte(r.data, at, r.end)
        if c == QUOTE:
            return at + 1 if flags & DATE else CLOSER
        if not (c == SPACE and flags & WITH_SPACE) and not (c == UPPER_T and flags & WITH_LETTER):
            return CLOSER
        clock = at + 1
        at = self.clock(clock, table.rules[place + 3])
        if at < 0 or not self.has_forms(table.rules[place + 4], clock, at):
            return CLOSER
        c = byte(r.data, at, r.end)
        if c == QUOTE:
            return at + 1 if flags & LOCAL else CLOSER
        return at + 2 if c == UPPER_Z and flags & ZONED and byte(r.data, at + 1, r.end) == QUOTE else CLOSER

    def day(self, at: int) -> int:
        """Return the end of a date that exists, or CLOSER."""
        r = self.reader
        return at + 10 if days_of(r, at, r.end) >= FIRST_DAY else CLOSER

    def clock(self, at: int, most: int) -> int:
        """Return the end of a time of day with at most `most` digits after the point, or CLOSER."""
        r = self.reader
        if at + 8 > r.end or micros_of_day(r, at, at + 8) < 0:
            return CLOSER
        at += 8
        if byte(r.data, at, r.end) != POINT:
            return at
        start = at + 1
        at = start
        while DIGIT_0 <= byte(r.data, at, r.end) <= DIGIT_9:
            at += 1
        return at if 0 < at - start <= most else CLOSER
