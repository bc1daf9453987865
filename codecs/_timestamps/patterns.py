"""The forms of `timestamp-format.patterns`, and their programs for the kernel.

| form | reads |
| --- | --- |
| `SQL` | `2024-02-29 23:59:59.123`, with an offset or without |
| `ISO-8601` | `2024-02-29T23:59:59.123`, with an offset or without, with seconds or without |
| `epoch-seconds`, `epoch-millis`, `epoch-micros`, `epoch-nanos` | numbers since 1970-01-01 00:00:00 UTC |
| any other | what Java's DateTimeFormatter of this pattern reads |

Rules: Java's `DateTimeFormatterBuilder.appendPattern`, with the resolver style STRICT, in which a day that does not
exist is an error. As in Spark, `y` is the year of the calendar (`u`), a fraction of n letters S may be shorter, missing
parts of a time are 0, and AM and PM may be in lower case.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from kvformat.codecs._kernel import time_form_codes as codes
from kvformat.codecs._kernel.time_forms import Program
from kvformat.registry.contract.errors import did_you_mean, listed

SQL, ISO = "SQL", "ISO-8601"
EPOCHS = {"epoch-seconds": 6, "epoch-millis": 3, "epoch-micros": 0, "epoch-nanos": -3}
"""The power of ten that makes a number of each form microseconds."""
NAMES = (SQL, ISO, *EPOCHS)

Step = tuple[int, ...]
OFFSETS = "XxZ"
_STYLES = (codes.SHORT, codes.MINUTES, codes.COLON_MINUTES, codes.SECONDS, codes.COLON_SECONDS)
_COUNTS = {
    **dict.fromkeys("yu", (2, 4)),
    **dict.fromkeys("MdHhms", (1, 2)),
    "S": tuple(range(1, 10)),
    "a": (1,),
    "V": (2,),
    **dict.fromkeys("Xx", (1, 2, 3, 4, 5)),
    "Z": (1, 2, 3, 5),
}
"""How often a letter may be repeated."""
_FIELDS = {
    "M": codes.MONTH,
    "d": codes.DAY,
    "H": codes.HOUR,
    "h": codes.HOUR_OF_HALF,
    "m": codes.MINUTE,
    "s": codes.SECOND,
}
_NUMBERS = "yuMdHhmsS"
_NEEDS = {"m": "Hh", "s": "m", "S": "s", "a": "h"}
_MEANT = {"Y": "y (Y is the year of a week)", "D": "d (D is the day of a year)", "k": "H", "K": "h", "n": "S", "A": "H"}
_MEANT |= {"z": "VV for names of zones, or X, x or Z for offsets", "O": "X, x or Z for offsets", "L": "M"}


@dataclass(frozen=True, slots=True)
class Token:
    """A letter, repeated `count` times, or a literal text if `letter` is empty. `place` is its first character."""

    letter: str
    count: int = 0
    text: str = ""
    place: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """An optional section."""

    items: tuple[Token | Section, ...]


Items = tuple[Token | Section, ...]


@dataclass(frozen=True, slots=True)
class TimestampForm:
    """A form as written in the option, and the pattern that it stands for; `items` is empty for numbers."""

    name: str
    items: Items = ()

    @property
    def is_epoch(self) -> bool:
        """Whether the form is a number."""
        return self.name in EPOCHS

    def letters(self) -> set[str]:
        """Return the letters of the pattern."""
        return {token.letter for token in tokens(self.items)}


@functools.lru_cache(maxsize=64)
def parse_forms(text: str) -> tuple[TimestampForm, ...]:
    """Parse the value of the option. Raises `ValueError` that says what is allowed, and where."""
    texts = [form.strip() for form in _split(text)]
    if not any(texts):
        raise ValueError(f"there is no form; forms are patterns such as yyyy-MM-dd HH:mm:ss, and {listed(NAMES)}")
    forms: list[TimestampForm] = []
    for number, form in enumerate(texts, 1):
        if not form and number == len(texts):
            continue  # after a last semicolon
        try:
            forms.append(_form(form))
        except ValueError as error:
            raise ValueError(f"form {number}, {form!r}: {error}") from None
        if form in texts[: number - 1]:
            raise ValueError(f"form {number}, {form!r}, is there twice")
    return tuple(forms)


def tokens(items: Items) -> Iterator[Token]:
    """Yield all tokens of a pattern, also those in sections."""
    for item in items:
        if isinstance(item, Section):
            yield from tokens(item.items)
        else:
            yield item


def _split(text: str) -> list[str]:
    """Split at semicolons that are not in quotes."""
    parts, quoted = [""], False
    for character in text:
        quoted ^= character == "'"
        if character == ";" and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _form(text: str) -> TimestampForm:
    if text in EPOCHS:
        return TimestampForm(text)
    if text == SQL:
        return TimestampForm(text, _items("yyyy-MM-dd HH:mm:ss[.SSSSSSSSS]"))
    if text == ISO:
        return TimestampForm(text, _items("yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS]"))
    hint = did_you_mean(text, NAMES)
    if hint:
        raise ValueError(f"it is not the name of a form.{hint} Names are {listed(NAMES)}")
    items = _items(text)
    _check(items)
    return TimestampForm(text, items)


# --- the syntax of patterns ----------------------------------------------------------------------------


def _items(text: str) -> Items:
    open_: list[tuple[int, list[Token | Section]]] = [(0, [])]
    at = 0
    while at < len(text):
        character, begin = text[at], at
        at += 1
        if character == "[":
            open_.append((at, []))
        elif character == "]":
            if len(open_) == 1:
                raise ValueError(f"] at character {at} has no [ before it")
            _, items = open_.pop()
            if items:
                open_[-1][1].append(Section(tuple(items)))
        elif character == "'":
            literal, at = _quoted(text, at)
            open_[-1][1].append(Token("", 0, literal, begin + 1))
        elif character.isascii() and character.isalpha():
            while text[at : at + 1] == character:
                at += 1
            open_[-1][1].append(_letter(character, at - begin, begin + 1))
        elif character in "{}#\\" or not character.isprintable():
            raise ValueError(f"{character!r} at character {at} is not allowed in a pattern")
        else:
            open_[-1][1].append(Token("", 0, character, begin + 1))
    if len(open_) > 1:
        raise ValueError(f"[ at character {open_[-1][0]} has no ] after it")
    return tuple(open_[0][1])


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return the text in quotes that begins before `at`, and its end. Two quotes are a quote."""
    if text[at : at + 1] == "'":
        return "'", at + 1
    begin, literal = at, ""
    while at < len(text):
        if text[at] != "'":
            literal += text[at]
            at += 1
        elif text[at + 1 : at + 2] == "'":
            literal += "'"
            at += 2
        elif "\\" in literal or not literal.isprintable():
            break
        else:
            return literal, at + 1
    raise ValueError(f"the quote at character {begin} is not closed, or has a character that is not allowed")


def _letter(letter: str, count: int, place: int) -> Token:
    allowed = _COUNTS.get(letter)
    if allowed is None:
        meant = f"use {_MEANT[letter]}" if letter in _MEANT else f"put texts in quotes, such as '{letter}'"
        raise ValueError(
            f"the letter {letter} at character {place} is not supported: {meant}. Letters are {listed(_COUNTS)}"
        )
    if count not in allowed:
        raise ValueError(
            f"{letter * count} at character {place} is not supported: use "
            f"{' or '.join(letter * n for n in (allowed if len(allowed) < 9 else (1, 9)))}"
        )
    return Token(letter, count, "", place)


def _check(items: Items) -> None:
    """Raise `ValueError` for a pattern that reads no date, or is ambiguous."""
    outside = {item.letter for item in items if isinstance(item, Token)}
    for letters, what in (("yu", "a year, yyyy"), ("M", "a month, MM"), ("d", "a day, dd")):
        if not outside & {*letters}:
            raise ValueError(f"it needs {what}, outside of [ and ]; separate several forms by ;")
    seen: list[Token] = []
    for token in tokens(items):
        if token.letter and token.letter not in f"S{OFFSETS}":
            same = next((group for group in ("yu", "Hh") if token.letter in group), token.letter)
            twice = [t for t in seen if t.letter and t.letter in same]
            if twice:
                raise ValueError(
                    f"{token.letter} at character {token.place} repeats {twice[0].letter} at character {twice[0].place}"
                    + ("; minutes are m" if token.letter == "M" else "; months are M" if token.letter == "m" else "")
                )
        seen.append(token)
    known = {token.letter for token in seen}
    for token in seen:
        if token.letter in _NEEDS and not known & {*_NEEDS[token.letter]}:
            needed = " or ".join(_NEEDS[token.letter])
            raise ValueError(f"{token.letter} at character {token.place} needs {needed} in the pattern")
    for group in _groups(items):
        if ("h" in group) != ("a" in group):
            raise ValueError("h needs a, for AM or PM, beside it; hours from 0 to 23 are H")
    for token, after in pairwise(seen):
        if token.letter in _FIELDS and token.count == 1 and _begins_with_digit(after):
            raise ValueError(
                f"{token.letter} at character {token.place} has one or two digits, and digits follow: "
                f"write {token.letter * 2}, or a separator"
            )


def _begins_with_digit(token: Token) -> bool:
    return token.letter in _NUMBERS if token.letter else token.text[0].isdigit()


def _groups(items: Items) -> Iterator[set[str]]:
    """Yield the letters of the pattern itself, and of each section."""
    yield {item.letter for item in items if isinstance(item, Token)}
    for item in items:
        if isinstance(item, Section):
            yield from _groups(item.items)


# --- programs ------------------------------------------------------------------------------------------

_DATE: tuple[Step, ...] = (
    (codes.YEAR, 1),
    (codes.LITERAL, 45, 45),
    (codes.DIGITS, codes.MONTH, 2, 2),
    (codes.LITERAL, 45, 45),
    (codes.DIGITS, codes.DAY, 2, 2),
)
_TIME: tuple[Step, ...] = (
    (codes.DIGITS, codes.HOUR, 2, 2),
    (codes.LITERAL, 58, 58),
    (codes.DIGITS, codes.MINUTE, 2, 2),
    (codes.LITERAL, 58, 58),
    (codes.DIGITS, codes.SECOND, 2, 2),
)
_ANY_OFFSET = ((codes.OPTIONAL, 1), (codes.OFFSET, codes.ANY + codes.Z_ZERO))
_T = (codes.LITERAL, ord("T"), ord("t"))
_WITHOUT_SECONDS = "yyyy-MM-dd'T'HH:mm"


def programs(forms: tuple[TimestampForm, ...]) -> list[Program]:
    """Return the programs of forms, for `TimeForms`."""
    result: list[Program] = []
    bands = _bands(forms)
    for form in forms:
        if form.is_epoch:
            result.append(Program(True, [(EPOCHS[form.name], *bands[form.name])]))
        elif form.name == SQL:
            result.append(_text_program([*_steps_of(form.items), *_ANY_OFFSET]))
        elif form.name == ISO:
            for items in (form.items, _items(_WITHOUT_SECONDS)):
                steps = [_T if step == _T[:2] + _T[1:2] else step for step in _steps_of(items)]
                result.append(_text_program([*steps, *_ANY_OFFSET]))
        else:
            result.append(_text_program(_steps_of(form.items)))
    return result


def _text_program(steps: list[Step]) -> Program:
    """Return the program with these steps, and what the kernel must know of its date."""
    date = _with_shortcut(_DATE)
    time = len(date) + 1
    if steps[: len(date)] != date or len(steps) < time or steps[len(date)][0] != codes.LITERAL:
        return Program(False, steps)
    with_z = steps[-2:] == [*_ANY_OFFSET]
    rest = steps[time : -2 if with_z else None]
    fraction = rest[len(_TIME) + 1 :]
    longest = 0
    if rest[: len(_TIME) + 1] == _with_shortcut(_TIME):
        if not fraction:
            longest = len("2024-02-29 23:59:59")
        elif len(fraction) == 3 and fraction[:2] == [(codes.OPTIONAL, 2), (codes.LITERAL, 46, 46)]:
            longest = len("2024-02-29 23:59:59.") + fraction[2][2]
    _, first, other = steps[len(date)]
    return Program(False, steps, (first, other, longest), with_z)


_SECONDS_DIGITS, _STEP, _NO_BOUND = 11, 3, 99


def _bands(forms: tuple[TimestampForm, ...]) -> dict[str, tuple[int, int]]:
    """Return how many digits the whole part of a number of each epoch form must exceed, and how many it may have.

    Several units are told apart by the size of numbers: up to 11 digits are seconds (until 5138), 12 to 14 digits
    milliseconds, 15 to 17 microseconds, more nanoseconds. The coarsest unit takes smaller numbers too.
    """
    names = [name for name in EPOCHS if any(form.name == name for form in forms)]
    if len(names) == 1:
        return {names[0]: (-1, _NO_BOUND)}
    bands = {}
    for number, name in enumerate(names):
        high = _SECONDS_DIGITS + _STEP * [*EPOCHS].index(name)
        bands[name] = (high - _STEP if number else -1, _NO_BOUND if name == "epoch-nanos" else high)
    return bands


def _steps_of(items: Items) -> list[Step]:
    all_tokens = [*tokens(items)]
    fixed: set[int] = set()  # digits follow a number, or a fraction follows digits
    for token, after in pairwise(all_tokens):
        fixed |= {id(token)} if _begins_with_digit(after) else set()
        fixed |= {id(after)} if token.letter and token.letter in _NUMBERS else set()

    def compiled(items: Items) -> list[Step]:
        steps: list[Step] = []
        own: list[Step] = []  # since the last section, which has its shortcuts already
        for item in items:
            if isinstance(item, Section):
                inner = compiled(item.items)
                steps += [*_with_shortcuts(own), (codes.OPTIONAL, len(inner)), *inner]
                own = []
            else:
                own += _steps(item, fixed=id(item) in fixed)
        return steps + _with_shortcuts(own)

    return compiled(items)


def _steps(token: Token, *, fixed: bool) -> list[Step]:
    letter, count = token.letter, token.count
    if not letter:
        return [(codes.LITERAL, byte, byte) for byte in token.text.encode()]
    if letter in "yu":
        return [(codes.SHORT_YEAR,) if count == 2 else (codes.YEAR, int(not fixed))]
    if letter in _FIELDS:
        return [(codes.DIGITS, _FIELDS[letter], count, 2)]
    if letter == "S":
        return [(codes.FRACTION, count if fixed else 1, count)]
    if letter in OFFSETS:
        style = codes.MINUTES if letter == "Z" and count < 5 else _STYLES[count - 1]
        with_z = letter == "X" or (letter == "Z" and count == 5)
        return [(codes.OFFSET, style + (codes.Z_ZERO if with_z else 0))]
    return [(codes.HALF if letter == "a" else codes.ZONE,)]


def _with_shortcuts(steps: list[Step]) -> list[Step]:
    """Put DATE_AT_ONCE and TIME_AT_ONCE before the steps that they stand for."""
    shortened: list[Step] = []
    for at, step in enumerate(steps):
        for known in (_DATE, _TIME):
            if tuple(steps[at : at + len(known)]) == known:
                shortened.append(_with_shortcut(known)[0])
        shortened.append(step)
    return shortened


def _with_shortcut(steps: tuple[Step, ...]) -> list[Step]:
    return [(codes.DATE_AT_ONCE if steps == _DATE else codes.TIME_AT_ONCE, len(steps)), *steps]
