"""The pattern language of `java.time.format.DateTimeFormatter`, as `DateTimeFormatter.ofPattern` compiles it.

    compiled("yyyy-MM-dd[ HH:mm]")
    (NumberElement("YEAR_OF_ERA", 4, 19, Sign.EXCEEDS_PAD), TextElement("-"), NumberElement("MONTH", 2, 2), ...)

Flink uses it for DATE_FORMAT of a timestamp, TO_TIMESTAMP and TO_TIMESTAMP_LTZ. `formatter_writing.py` writes texts,
`formatter_parsing.py` reads them. Rules: Java 17's `DateTimeFormatterBuilder.appendPattern`.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, replace

_MOST_WIDTH, _MOST_FRACTION = 19, 9
"""Digits of Java's long, and of a fraction of a second."""
_NUMERIC_FIELDS = {
    "F": "ALIGNED_DAY", "d": "DAY_OF_MONTH", "h": "CLOCK_HOUR_OF_HALF", "H": "HOUR", "k": "CLOCK_HOUR",
    "K": "HOUR_OF_HALF", "m": "MINUTE", "s": "SECOND", "D": "DAY_OF_YEAR", "g": "MODIFIED_JULIAN_DAY",
    "A": "MILLI_OF_DAY", "n": "NANO", "N": "NANO_OF_DAY",
}  # fmt: skip
_TEXT_FIELDS = {
    "G": "ERA", "Q": "QUARTER", "q": "QUARTER", "M": "MONTH", "L": "MONTH", "E": "WEEKDAY", "c": "WEEKDAY",
    "e": "WEEKDAY", "a": "HALF",
}  # fmt: skip
_YEARS = {"y": "YEAR_OF_ERA", "u": "YEAR"}
_WEEKS = {"W": "WEEK_OF_MONTH", "w": "WEEK", "Y": "WEEK_YEAR", "e": "LOCAL_WEEKDAY", "c": "LOCAL_WEEKDAY"}
ZONE_LETTERS = "zVvZOXx"
_OFFSET_FORMS = ("+HH", "+HHmm", "+HH:mm", "+HHMM", "+HH:MM", "+HHMMss", "+HH:MM:ss")


class PatternError(ValueError):
    """A pattern that Java refuses; the text says why.

    is_illegal: whether Java raises `IllegalArgumentException`, which Flink's TO_TIMESTAMP_LTZ turns to NULL.
    """

    def __init__(self, why: str, *, is_illegal: bool = True) -> None:
        super().__init__(why)
        self.is_illegal = is_illegal


class Sign(enum.Enum):
    """Which signs a number has, as `java.time.format.SignStyle`."""

    NORMAL, EXCEEDS_PAD, NOT_NEGATIVE = range(3)


class Style(enum.Enum):
    """How long a text is, as `java.time.format.TextStyle`."""

    SHORT, FULL, NARROW = range(3)


@dataclass(frozen=True, slots=True)
class NumberElement:
    """A field as a number.

    is_reduced: whether it is a year of two digits, from 2000 to 2099.
    is_fraction: whether its digits are a fraction of a second.
    followed_by: the digits of the numbers that follow directly, -1 for a number of fixed width.
    """

    field: str
    least: int
    most: int
    sign: Sign = Sign.NOT_NEGATIVE
    is_reduced: bool = False
    is_fraction: bool = False
    followed_by: int = 0

    @property
    def is_fixed(self) -> bool:
        """Return whether this number can follow another one directly."""
        return self.least == self.most and (self.sign is Sign.NOT_NEGATIVE or self.field == "WEEK_YEAR")


@dataclass(frozen=True, slots=True)
class Text:
    """A field as an English text."""

    field: str
    style: Style


@dataclass(frozen=True, slots=True)
class DayPeriod:
    """A part of the day, such as `in the morning`."""

    is_narrow: bool


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset from UTC such as +02:00; `zero` is the text of no offset, a form of GMT is `GMT` or `GMT:`."""

    form: str
    zero: str


@dataclass(frozen=True, slots=True)
class ZoneName:
    """A time zone by its name: the letters z, v or VV."""

    letter: str


@dataclass(frozen=True, slots=True)
class TextElement:
    """A text that is as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Padded:
    """An element with blanks before it."""

    element: Element
    width: int


@dataclass(frozen=True, slots=True)
class OptionalElement:
    """An optional section."""

    elements: tuple[Element, ...]


Element = NumberElement | Text | DayPeriod | Offset | ZoneName | TextElement | Padded | OptionalElement


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> tuple[Element, ...]:
    """Return the elements of a pattern. Raises `PatternError`."""
    return _Builder(pattern).build()


class _Builder:
    """Compiles one pattern. `levels` are the open optional sections, and for each the number that others may follow."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.levels: list[list[Element]] = [[]]
        self.numbers: list[int | None] = [None]
        self.padding = 0

    def build(self) -> tuple[Element, ...]:
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char.isascii() and char.isalpha():
                self._letters()
            elif char == "'":
                self._quoted()
            elif char == "[":
                self.numbers[-1] = None
                self.levels.append([])
                self.numbers.append(None)
                self.at += 1
            elif char == "]":
                if len(self.levels) == 1:
                    raise PatternError("Java finds ] without [")
                self._close()
                self.at += 1
            elif char in "{}#":
                raise PatternError(f"Java reserves the character {char}")
            else:
                self._add(TextElement(char))
                self.at += 1
        while len(self.levels) > 1:
            self._close()
        return tuple(self.levels[0])

    def _close(self) -> None:
        elements = self.levels.pop()
        self.numbers.pop()
        if elements:
            self._add(OptionalElement(tuple(elements)))

    def _quoted(self) -> None:
        at = self.at + 1
        while True:
            end = self.pattern.find("'", at)
            if end < 0:
                raise PatternError("Java finds a quote that is not closed")
            if self.pattern[end + 1 : end + 2] != "'":
                break
            at = end + 2
        text = self.pattern[self.at + 1 : end]
        self._add(TextElement(text.replace("''", "'") or "'"))
        self.at = end + 1

    def _count(self) -> tuple[str, int]:
        letter, start = self.pattern[self.at], self.at
        while self.at < len(self.pattern) and self.pattern[self.at] == letter:
            self.at += 1
        return letter, self.at - start

    def _letters(self) -> None:
        letter, count = self._count()
        if letter == "p":
            after = self.pattern[self.at : self.at + 1]
            if not (after.isascii() and after.isalpha()):
                raise PatternError("Java expects a letter after the letter p")
            self.padding, self.numbers[-1] = count, None
            letter, count = self._count()
        element = _element(letter, count)
        if isinstance(element, NumberElement):
            self._add_number(element)
        else:
            self._add(element)

    def _add(self, element: Element) -> int:
        """Add an element and return its index."""
        if self.padding:
            element, self.padding = Padded(element, self.padding), 0
        self.levels[-1].append(element)
        self.numbers[-1] = None
        return len(self.levels[-1]) - 1

    def _add_number(self, number: NumberElement) -> None:
        """Add a number. Of numbers with nothing between them the first one gets the digits that the others leave."""
        index = self.numbers[-1]
        if index is None:
            self.numbers[-1] = self._add(number)
            return
        base = self.levels[-1][index]
        if not isinstance(base, NumberElement):
            raise PatternError("Java does not support a number after one with the letter p", is_illegal=False)
        if number.is_fixed:
            base = replace(base, followed_by=base.followed_by + number.most)
            self._add(replace(number, followed_by=-1))
            self.numbers[-1] = index
        else:
            base = replace(base, followed_by=-1)
            self.numbers[-1] = self._add(number)
        self.levels[-1][index] = base


# --- letters -------------------------------------------------------------------------------------------------


def _element(letter: str, count: int) -> Element:
    if letter in _YEARS:
        if count == 2:
            return NumberElement(_YEARS[letter], 2, 2, is_reduced=True)
        return _wide(
            letter, NumberElement(_YEARS[letter], count, _MOST_WIDTH, Sign.NORMAL if count < 4 else Sign.EXCEEDS_PAD)
        )
    if letter in _TEXT_FIELDS:
        return _text(letter, count)
    if letter in "WwY":
        return _week(letter, count)
    if letter == "S":
        if count > _MOST_FRACTION:
            raise PatternError("Java allows at most 9 letters S")
        return NumberElement("NANO", count, count, is_fraction=True)
    if letter in _NUMERIC_FIELDS:
        return _number(letter, count)
    if letter == "B":
        if count not in (1, 4, 5):
            raise PatternError("Java allows 1, 4 or 5 letters B")
        return DayPeriod(is_narrow=count == 5)
    if letter in ZONE_LETTERS:
        return _zone(letter, count)
    raise PatternError(f"Java's DateTimeFormatter does not know the letter {letter}")


def _too_many(letter: str) -> PatternError:
    return PatternError(f"Java does not allow so many letters {letter}")


def _wide(letter: str, number: NumberElement) -> NumberElement:
    if number.least > _MOST_WIDTH:
        raise _too_many(letter)
    return number


def _number(letter: str, count: int) -> NumberElement:
    field = _NUMERIC_FIELDS[letter]
    if letter in "AnN":
        return _wide(letter, NumberElement(field, count, _MOST_WIDTH))
    if letter == "g":
        return _wide(letter, NumberElement(field, count, _MOST_WIDTH, Sign.NORMAL))
    if count > {"F": 1, "D": 3}.get(letter, 2):
        raise _too_many(letter)
    if count == 1:
        return NumberElement(field, 1, _MOST_WIDTH, Sign.NORMAL)
    return NumberElement(field, count, 3 if letter == "D" else count)


def _text(letter: str, count: int) -> Element:
    field = _TEXT_FIELDS[letter]
    if count > (1 if letter == "a" else 5):
        raise _too_many(letter)
    if letter in "ec" and count <= 2:
        if letter == "c" and count == 2:
            raise PatternError("Java does not allow two letters c")
        return NumberElement(_WEEKS[letter], count, count)
    if letter in "QqML" and count <= 2:
        return NumberElement(field, 1, _MOST_WIDTH, Sign.NORMAL) if count == 1 else NumberElement(field, 2, 2)
    return Text(field, {4: Style.FULL, 5: Style.NARROW}.get(count, Style.SHORT))


def _week(letter: str, count: int) -> NumberElement:
    field = _WEEKS[letter]
    if letter == "Y":
        if count == 2:
            return NumberElement(field, 2, 2, is_reduced=True)
        return NumberElement(field, count, _MOST_WIDTH, Sign.NORMAL if count < 4 else Sign.EXCEEDS_PAD)
    if count > (1 if letter == "W" else 2):
        raise _too_many(letter)
    return NumberElement(field, count, count if letter == "W" else 2)


def _zone(letter: str, count: int) -> Element:
    allowed = {"z": (1, 2, 3, 4), "V": (2,), "v": (1, 4), "O": (1, 4)}
    if count not in allowed.get(letter, (1, 2, 3, 4, 5)):
        raise PatternError(f"Java does not allow {count} letters {letter}")
    if letter in "zVv":
        return ZoneName(letter)
    if letter == "O" or (letter == "Z" and count == 4):
        return Offset("GMT:" if count == 4 else "GMT", "")
    if letter == "Z":
        return Offset("+HHMM", "+0000") if count < 4 else Offset("+HH:MM:ss", "Z")
    form = _OFFSET_FORMS[count + (count != 1)]
    if letter == "X":
        return Offset(form, "Z")
    return Offset(form, "+00" if count == 1 else "+0000" if count % 2 == 0 else "+00:00")
