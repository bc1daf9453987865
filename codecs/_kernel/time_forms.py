"""Timestamps in forms of the user's choice: programs of patterns, and numbers since 1970.

`TimeForms` has the programs of all forms of one format, which `_timestamps.patterns` compiles. It reads bytes without
making Python objects, and calls Python only for time zones with a name and for numbers of more than 18 digits.
A text is read by the first form that matches all of it. Its result is in microseconds, or `NO_MOMENT`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.time_form_codes import (
    ANY,
    COLON_MINUTES,
    COLON_SECONDS,
    DATE_AT_ONCE,
    DAY,
    DIGITS,
    FRACTION,
    HALF,
    HOUR,
    HOUR_OF_HALF,
    LITERAL,
    MINUTE,
    MINUTES,
    MONTH,
    OFFSET,
    OPTIONAL,
    SHORT,
    SHORT_YEAR,
    TIME_AT_ONCE,
    UNKNOWN,
    WIDTH,
    YEAR,
    Z_ZERO,
)
from kvformat.codecs._kernel.times import Moments

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.columns import LARGEST, TENS
    from kvformat.codecs._kernel.memory import (
        COLON,
        DIGIT_0,
        DIGIT_9,
        LOWER_E,
        MINUS,
        PLUS,
        POINT,
        QUOTE,
        UPPER_E,
        UPPER_Z,
        byte,
        eight_digits,
        few_digits,
        part,
        word,
    )
    from kvformat.codecs._kernel.times import (
        MICROS_OF_A_DAY,
        NO_TIME,
        day_number,
        days_of,
        micros_of_day,
        seconds_of_day,
    )

NO_MOMENT = -(2**63)
"""The result for a text that is not a moment."""
MOST_DAYS = 106_751_990
"""Days from 1970-01-01: microseconds up to there, with any offset, fit in 64 bits."""
MICROS_OF_A_SECOND = 1_000_000
EXACT_DIGITS = 18  # of a number that is read here
KINDS = 5  # numbers of a form in `TimeForms.kinds`


class Program(NamedTuple):
    """The steps of a form; an epoch form has one step, (power, low, high).

    A number times ten to the `power` is in microseconds. Its whole part has more than `low` and at most `high` digits.
    `dated` is for a form that begins with a date like 2024-02-29: the two characters that may follow, and the greatest
    length of a text that ends with a time like 23:59:59 and maybe a fraction, or 0. With `with_z` an offset may follow.
    """

    is_epoch: bool
    steps: Sequence[tuple[int, ...]]
    dated: tuple[int, int, int] = (0, 0, 0)
    with_z: bool = False


def words(numbers: Any) -> memoryview[int]:
    """Return numbers as a flat view of 64-bit integers."""
    flat: Any = np.array(numbers, np.int64).reshape(-1)
    return memoryview(flat).cast("B").cast("q")


class TimeForms:
    """The forms of timestamps of a format, for TIMESTAMP_LTZ (`zoned`) or TIMESTAMP.

    programs: see `Program`.
    offset: that of texts without one in seconds, `UNKNOWN` if `zone` knows it, None if such texts are not moments.
    zone: takes the name of a zone, "" for that of texts without one, and local microseconds. Returns the offset in
        seconds, or None if there is no such zone.
    number: takes the text of a number and the number of a form. Returns microseconds, or None.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        zoned: bool,
        offset: int | None,
        zone: Callable[[str, int], int | None],
        number: Callable[[str, int], int | None],
    ) -> None:
        self.steps = words([(*step, 0, 0, 0)[:WIDTH] for program in programs for step in program.steps])
        self.ends = words(np.cumsum([0, *(len(program.steps) for program in programs)]))
        self.kinds = words([(program.is_epoch, *program.dated, program.with_z) for program in programs])
        (self.between, _, self.longest), self.with_z = programs[0].dated, programs[0].with_z  # of the first form
        self.count = len(programs)
        self.has_epochs = any(program.is_epoch for program in programs)
        self.zoned = zoned
        self.lacks_zone = offset is None
        self.usual_offset = UNKNOWN if offset is None else offset
        self.zone, self.number = zone, number
        self.missed_zone = False
        self.scratch = Reader()
        self.days = self.micros = self.offset = self.zone_start = self.zone_stop = 0
        self.year = self.month = self.day = self.hour = self.minute = self.second = self.half = self.clock = 0

    def parse(self, text: bytes) -> int | None:
        """Parse a text that is not in a message. Returns microseconds or None.

        `missed_zone` is then whether a form matched, but the offset is missing.
        """
        self.scratch.open_message(text)
        self.missed_zone = False
        moment = self.text(self.scratch, 0, len(text))
        return None if moment == NO_MOMENT else moment

    def text(self, r: Reader, at: int, stop: int) -> int:
        """Parse `r.data[at:stop]`. Return microseconds, or `NO_MOMENT`."""
        moment = self.dated(r, at, stop, self.between, self.longest, self.with_z)
        if moment != NO_MOMENT:
            return moment
        for form in range(self.count):
            base = form * KINDS
            if self.kinds[base]:
                moment = self.digits(r, at, stop, form)
            else:
                if form > 0:
                    with_z = self.kinds[base + 4] != 0
                    moment = self.dated(r, at, stop, self.kinds[base + 1], self.kinds[base + 3], with_z)
                if moment != NO_MOMENT:
                    return moment
                if self.is_other_date(r, at, stop, form):
                    continue
                self.clear()
                if self.run(r, at, stop, self.ends[form], self.ends[form + 1]) != stop:
                    continue
                moment = self.moment(r)
            if moment != NO_MOMENT:
                return moment
        return NO_MOMENT

    def dated(self, r: Reader, at: int, stop: int, between: int, longest: int, with_z: bool) -> int:
        """Parse a text like `2024-02-29 23:59:59.123`, if the form has it. Return microseconds, or `NO_MOMENT`."""
        if longest == 0 or byte(r.data, at + 10, stop) != between:
            return NO_MOMENT
        has_z = with_z and byte(r.data, stop - 1, stop) == UPPER_Z
        if has_z:
            stop -= 1
        elif self.zoned and self.usual_offset == UNKNOWN:
            return NO_MOMENT
        if stop - at > longest:
            return NO_MOMENT
        days = days_of(r, at, stop)
        micros = micros_of_day(r, at + 11, stop)
        if days == NO_TIME or micros == NO_TIME:
            return NO_MOMENT
        local = days * MICROS_OF_A_DAY + micros
        return local - self.usual_offset * MICROS_OF_A_SECOND if self.zoned and not has_z else local

    def is_other_date(self, r: Reader, at: int, stop: int, form: int) -> bool:
        """Return whether the character after the date shows that the text has another form."""
        base = form * KINDS
        if self.kinds[base + 1] == 0 or not DIGIT_0 <= byte(r.data, at, stop) <= DIGIT_9:
            return False
        return byte(r.data, at + 10, stop) not in (self.kinds[base + 1], self.kinds[base + 2])

    # --- numbers ---------------------------------------------------------------------------------------

    def json_number(self, r: Reader, start: int, stop: int) -> int:
        """Return the moment of the number that `r` has just read from `start` to `stop`, or `NO_MOMENT`."""
        for form in range(self.count):
            if self.kinds[form * KINDS]:
                if r.digit_count > EXACT_DIGITS or not -EXACT_DIGITS <= r.exponent <= EXACT_DIGITS:
                    moment = self.long_number(r, start, stop, form)
                else:
                    moment = self.epoch(form, r.mantissa, r.exponent, r.negative)
                if moment != NO_MOMENT:
                    return moment
        return NO_MOMENT

    def digits(self, r: Reader, at: int, stop: int, form: int) -> int:
        """Parse a text as a number, `-1709208000.123` or `1.7092E9`. Return microseconds, or `NO_MOMENT`."""
        start = at
        size = stop - at
        if 8 < size <= 16:  # the common case: only digits
            value = few_digits(word(r.data, at), size - 8)
            low = eight_digits(word(r.data, stop - 8))
            if value >= 0 and low >= 0:
                return self.epoch(form, value * 100_000_000 + low, 0, False)
        negative = byte(r.data, at, stop) == MINUS
        if negative:
            at += 1
        first = at
        point = -1
        mantissa = 0
        while at < stop:
            c = byte(r.data, at, stop)
            if DIGIT_0 <= c <= DIGIT_9:
                if at - first < EXACT_DIGITS:
                    mantissa = mantissa * 10 + (c - DIGIT_0)
            elif c == POINT and point < 0 and at > first:
                point = at
            elif c in (LOWER_E, UPPER_E) and at > first:
                return self.long_number(r, start, stop, form)
            else:
                return NO_MOMENT
            at += 1
        if at == first or point == stop - 1:
            return NO_MOMENT
        if at - first > EXACT_DIGITS:
            return self.long_number(r, start, stop, form)
        return self.epoch(form, mantissa, point + 1 - stop if point >= 0 else 0, negative)

    def long_number(self, r: Reader, start: int, stop: int, form: int) -> int:
        """Let Python parse a number."""
        moment: Any = self.number(part(r.data, start, stop).decode("utf-8", "replace"), form)
        return NO_MOMENT if moment is None else moment

    def epoch(self, form: int, mantissa: int, exponent: int, negative: bool) -> int:
        """Return the moment of `mantissa * 10**exponent`, which has at most 18 digits, or `NO_MOMENT`."""
        step = self.ends[form] * WIDTH
        power = exponent + self.steps[step]
        low = self.steps[step + 1] - exponent
        high = self.steps[step + 2] - exponent
        if self.steps[step + 1] >= 0 and (low > EXACT_DIGITS or (low >= 0 and mantissa < TENS[low])):
            return NO_MOMENT
        if high < 0 and mantissa != 0:
            return NO_MOMENT
        if 0 <= high <= EXACT_DIGITS and mantissa >= TENS[high]:
            return NO_MOMENT
        if power >= 0:
            if mantissa == 0:
                return 0
            if power > EXACT_DIGITS or mantissa > LARGEST // TENS[power]:
                return NO_MOMENT
            mantissa = mantissa * TENS[power]
            return -mantissa if negative else mantissa
        if power < -EXACT_DIGITS:
            return -1 if negative and mantissa else 0
        whole = mantissa // TENS[-power]
        if not negative:
            return whole
        return -whole if whole * TENS[-power] == mantissa else -whole - 1

    # --- patterns --------------------------------------------------------------------------------------

    def clear(self) -> int:
        """Forget the fields of the last text."""
        self.year = UNKNOWN
        self.half = -1
        self.hour = self.minute = self.second = 0
        self.clock = self.micros = -1
        self.offset = UNKNOWN
        self.zone_stop = -1
        return 0

    def run(self, r: Reader, at: int, stop: int, step: int, last: int) -> int:
        """Run the steps from `step` to `last` on a text. Return the offset where the match ends, or -1."""
        while step < last:
            base = step * WIDTH
            kind = self.steps[base]
            a = self.steps[base + 1]
            b = self.steps[base + 2]
            step += 1
            if kind == LITERAL:
                c = byte(r.data, at, stop)
                if at >= stop or (c != a and c != b):
                    return -1
                at += 1
            elif kind == DATE_AT_ONCE:
                days = days_of(r, at, stop)
                if days != NO_TIME:
                    self.days = days
                    at += 10
                    step += a
            elif kind == TIME_AT_ONCE:
                seconds = seconds_of_day(r, at, stop)
                if seconds != NO_TIME:
                    self.clock = seconds
                    at += 8
                    step += a
            elif kind == OPTIONAL:
                # most sections begin with a character, which says at once whether they are there
                base += WIDTH
                c = byte(r.data, at, stop)
                if self.steps[base] != LITERAL or c in (self.steps[base + 1], self.steps[base + 2]):
                    at = self.run_optional(r, at, stop, step, step + a)
                step += a
            elif kind == DIGITS:
                at = self.run_digits(r, at, stop, a, b, self.steps[base + 3])
            elif kind == FRACTION:
                at = self.run_fraction(r, at, stop, a, b)
            elif kind == OFFSET:
                at = self.run_offset(r, at, stop, a)
            elif kind == YEAR:
                at = self.run_year(r, at, stop, a != 0)
            elif kind == SHORT_YEAR:
                self.year = 2000 + few_digits(word(r.data, at), 2)
                at = at + 2 if self.year >= 2000 and at + 2 <= stop else -1
            elif kind == HALF:
                c = byte(r.data, at, stop) | 32
                self.half = 0 if c == 97 else 1  # a
                at = at + 2 if c in (97, 112) and byte(r.data, at + 1, stop) | 32 == 109 else -1  # p, m
            else:
                at = self.run_zone(r, at, stop)
            if at < 0:
                return -1
        return at

    def run_optional(self, r: Reader, at: int, stop: int, step: int, last: int) -> int:
        """Run the steps of an optional section. If they do not match, undo them and return `at`."""
        hour = self.hour
        minute = self.minute
        second = self.second
        half = self.half
        clock = self.clock
        micros = self.micros
        offset = self.offset
        zone_start = self.zone_start
        zone_stop = self.zone_stop
        end = self.run(r, at, stop, step, last)
        if end >= 0:
            return end
        self.hour = hour
        self.minute = minute
        self.second = second
        self.half = half
        self.clock = clock
        self.micros = micros
        self.offset = offset
        self.zone_start = zone_start
        self.zone_stop = zone_stop
        return at

    def count_digits(self, r: Reader, at: int, stop: int, most: int) -> int:
        """Return how many digits there are from an offset on, at most `most`."""
        count = 0
        while count < most and DIGIT_0 <= byte(r.data, at + count, stop) <= DIGIT_9:
            count += 1
        return count

    def run_digits(self, r: Reader, at: int, stop: int, field: int, least: int, most: int) -> int:
        """Read a field of one or two digits."""
        count = self.count_digits(r, at, stop, most)
        if count < least:
            return -1
        value = few_digits(word(r.data, at), count)
        if field == MONTH:
            self.month = value
        elif field == DAY:
            self.day = value
        elif field in (HOUR, HOUR_OF_HALF):
            self.hour = value
        elif field == MINUTE:
            self.minute = value
        else:
            self.second = value
        return at + count

    def run_year(self, r: Reader, at: int, stop: int, signed: bool) -> int:
        """Read a year: four digits, or more with a plus, or four or more with a minus."""
        sign = byte(r.data, at, stop)
        if not signed or sign not in (PLUS, MINUS):
            if self.count_digits(r, at, stop, 4) < 4 or (signed and self.count_digits(r, at, stop, 5) > 4):
                return -1
            self.year = few_digits(word(r.data, at), 4)
            return at + 4
        at += 1
        count = self.count_digits(r, at, stop, 9)
        if count < (5 if sign == PLUS else 4) or count > 8:
            return -1
        self.year = few_digits(word(r.data, at), count)
        if sign == MINUS:
            if self.year == 0:
                return -1
            self.year = -self.year
        return at + count

    def run_fraction(self, r: Reader, at: int, stop: int, least: int, most: int) -> int:
        """Read digits of a fraction of a second. Those below a microsecond are dropped."""
        count = self.count_digits(r, at, stop, most)
        if count < least:
            return -1
        kept = count if count < 6 else 6
        micros = few_digits(word(r.data, at), kept) * TENS[6 - kept]
        if self.micros not in (-1, micros):
            return -1
        self.micros = micros
        return at + count

    def run_offset(self, r: Reader, at: int, stop: int, style: int) -> int:
        """Read an offset from UTC. A second one must be equal."""
        with_z = style >= Z_ZERO
        if with_z:
            style -= Z_ZERO
        c = byte(r.data, at, stop)
        if with_z and (c == UPPER_Z or (style == ANY and c == UPPER_Z + 32)):
            return self.set_offset(0, at + 1)
        if c not in (PLUS, MINUS) or self.count_digits(r, at + 1, stop, 2) < 2:
            return -1
        negative = c == MINUS
        seconds = few_digits(word(r.data, at + 1), 2) * 3600
        at += 3
        parts = 0
        colon = style in (COLON_MINUTES, COLON_SECONDS) or (style == ANY and byte(r.data, at, stop) == COLON)
        most = 1 if style in (SHORT, MINUTES, COLON_MINUTES) else 2
        while parts < most:
            begin = at + 1 if colon else at
            if (colon and byte(r.data, at, stop) != COLON) or self.count_digits(r, begin, stop, 2) < 2:
                break
            value = few_digits(word(r.data, begin), 2)
            if value > 59:
                return -1
            seconds += value * (60 if parts == 0 else 1)
            parts += 1
            at = begin + 2
        if (parts == 0 and style not in (ANY, SHORT)) or seconds > 64_800:
            return -1
        return self.set_offset(-seconds if negative else seconds, at)

    def set_offset(self, seconds: int, end: int) -> int:
        """Set the offset. Return `end`, or -1 if another offset is set."""
        if self.offset not in (UNKNOWN, seconds):
            return -1
        self.offset = seconds
        return end

    def run_zone(self, r: Reader, at: int, stop: int) -> int:
        """Find the name of a zone: letters, digits and `/_+-:`. An offset must be like +02:00."""
        if byte(r.data, at, stop) in (PLUS, MINUS) and byte(r.data, at + 3, stop) != COLON:
            return -1
        self.zone_start = at
        while at < stop:
            c = byte(r.data, at, stop)
            lower = c | 32
            if not 97 <= lower <= 122 and not DIGIT_0 <= c <= COLON and c not in (PLUS, MINUS, 95, 47):  # _, /
                break
            at += 1
        self.zone_stop = at
        return at if at > self.zone_start else -1

    def moment(self, r: Reader) -> int:
        """Return the moment of the fields in microseconds, or `NO_MOMENT`."""
        if self.year != UNKNOWN:
            if not 1 <= self.month <= 12 or self.day < 1:
                return NO_MOMENT
            cycles = self.year // 400
            days = day_number(self.year - cycles * 400, self.month, self.day)
            if days == NO_TIME:
                return NO_MOMENT
            self.days = days + cycles * 146_097
            if not -MOST_DAYS <= self.days <= MOST_DAYS:
                return NO_MOMENT
        seconds = self.clock
        if seconds < 0:
            hour = self.hour
            if self.half >= 0:
                if not 1 <= hour <= 12:
                    return NO_MOMENT
                hour = hour % 12 + 12 * self.half
            if hour > 23 or self.minute > 59 or self.second > 59:
                return NO_MOMENT
            seconds = (hour * 60 + self.minute) * 60 + self.second
        local = self.days * MICROS_OF_A_DAY + seconds * MICROS_OF_A_SECOND
        if self.micros > 0:
            local += self.micros
        if not self.zoned and self.zone_stop < 0:
            return local
        return self.zoned_moment(r, local)

    def zoned_moment(self, r: Reader, local: int) -> int:
        """Return the moment of local microseconds with the offset or zone of the text, or that of the option."""
        offset = self.offset
        if self.zone_stop >= 0:
            named: Any = self.zone(part(r.data, self.zone_start, self.zone_stop).decode("ascii"), local)
            if named is None:
                return NO_MOMENT
            if not self.zoned:
                return local
            if offset == UNKNOWN:
                offset = named
        elif offset == UNKNOWN:
            if self.lacks_zone:
                self.missed_zone = True
                return NO_MOMENT
            offset = self.usual_offset
            if offset == UNKNOWN:
                usual: Any = self.zone("", local)
                offset = usual
        return local - offset * MICROS_OF_A_SECOND


class FormTimestamps(Moments):
    """TIMESTAMP and TIMESTAMP_LTZ in the forms `forms`, in microseconds.

    A number is read as in `Moments` if no form is a number.
    """

    def __init__(
        self, type: Any, kind: pa.DataType, convert: Callable[[Any], Any], forms: TimeForms, factor: int = 0
    ) -> None:
        super().__init__(type, kind, convert, np.int64, factor)
        self.forms = forms

    def read_value(self, r: Reader, at: int) -> int:
        c = byte(r.data, at, r.end)
        if c == QUOTE:
            end = r.string(at)
            if end < 0:
                return end
            moment = self.forms.text(r, at + 1, end - 1)
        elif self.forms.has_epochs and (c == MINUS or DIGIT_0 <= c <= DIGIT_9):
            end = r.number(at)
            if end < 0:
                return end
            moment = self.forms.json_number(r, at, end)
        else:
            return self.read_number(r, at)
        return self.read_slow(r, at) if moment == NO_MOMENT else self.add_value(moment, end)
