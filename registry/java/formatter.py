"""Format values as `java.util.Formatter` of Java 17 does, with the locale of the United States.

    JavaFormat("%s has %,d").format([Argument("text", "a"), Argument("int", 1234)])   "a has 1,234"

A text that is not a format, and a value that its conversion does not accept, raise `FormatError`. What Java formats but
this module does not raises `UnsupportedFormatError`: `%h`, `%a`, and times of numbers (`%tY`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_PREC, ROUND_HALF_UP, Context, Decimal
from typing import Any

from kvformat.registry.java.letter_case import upper
from kvformat.registry.java.numbers import double_text_java17
from kvformat.registry.java.parse import replace_lone_surrogates
from kvformat.registry.java.regex_search import as_units

_SPECIFIER = re.compile(r"%(?:([0-9]+)\$)?([-#+ 0,(<]*)([0-9]+)?(?:\.([0-9]+))?([tT])?([a-zA-Z%])")
_CONVERSIONS = frozenset("bBhHsScCdoxXeEgGfaA%n")
_TIMES = frozenset("HIklMNLQpsSTzZaAbBCdehjmyYrRcDF")
_MOST_INT = 2**31 - 1
"""Java's Integer.MAX_VALUE."""
_BITS = {"byte": 8, "short": 16, "int": 32}
_BAD_FLAGS = {
    **dict.fromkeys("bhs", "+ 0,("),
    **dict.fromkeys("ct", "#+ 0,("),
    "d": "#",
    **dict.fromkeys("ox", ","),
    "a": "(,",
    "e": ",",
    "g": "#",
    "f": "",
}
_ROUNDING = Context(prec=MAX_PREC, rounding=ROUND_HALF_UP)


class FormatError(ValueError):
    """Java's `IllegalFormatException`."""


class UnsupportedFormatError(Exception):
    """Java formats this value, but it is not supported here."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A value to format.

    kind: Java's class of it: byte, short, int, long, double, boolean, or text for all others.
    value: None for null. A double that was a float is converted.
    text: the result of `toString`, for a value that is not None.
    """

    kind: str
    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class _Specifier:
    """A format specifier. index: -1 for the previous argument, 0 for the next one; width, precision: -1 for none."""

    index: int
    flags: str
    width: int
    precision: int
    time: bool
    conversion: str
    upper: bool


class JavaFormat:
    """A format. Raises `FormatError` for a text that is not one.

    least_length: the length of the format with all its widths and precisions; the formatted text may have so many
    characters without the values.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._pieces: list[str | _Specifier] = []
        at = 0
        while (percent := text.find("%", at)) >= 0:
            if percent > at:
                self._pieces.append(text[at:percent])
            match = _SPECIFIER.match(text, percent)
            if match is None:
                raise FormatError(f"'{text[percent : percent + 10]}' is not a format specifier")
            self._pieces.append(_specifier(match))
            at = match.end()
        self._pieces.append(text[at:])
        specifiers = [piece for piece in self._pieces if not isinstance(piece, str)]
        self.least_length = len(text) + sum(
            max(specifier.width, 0) + max(specifier.precision, 0) for specifier in specifiers
        )

    def format(self, arguments: Sequence[Argument]) -> str:
        """Return the formatted text. Raises `FormatError` and `UnsupportedFormatError`."""
        texts = []
        last = ordinary = -1
        for piece in self._pieces:
            if isinstance(piece, str):
                texts.append(piece)
                continue
            if piece.conversion in ("%", "n"):
                texts.append(_justified(piece, "%") if piece.conversion == "%" else "\n")
                continue
            if piece.index == 0:
                ordinary += 1
                last = ordinary
            elif piece.index > 0:
                last = piece.index - 1
            if not 0 <= last < len(arguments):
                raise FormatError("an argument is missing")
            texts.append(_formatted(piece, arguments[last]))
        return replace_lone_surrogates("".join(texts))


# --- specifiers ----------------------------------------------------------------------------------------


def _specifier(match: re.Match[str]) -> _Specifier:
    """Return a format specifier. Raises `FormatError`."""
    index, flags, width, precision, time, letter = match.groups()
    if len(set(flags)) < len(flags):
        raise FormatError("a flag is given twice")
    if not time and letter not in _CONVERSIONS:
        raise FormatError(f"unknown conversion {letter!r}")
    specifier = _Specifier(
        -1 if "<" in flags else 0 if index is None else _number(index),
        flags,
        -1 if width is None else _number(width),
        -1 if precision is None else _number(precision),
        bool(time),
        letter if time else letter.lower(),
        time == "T" or (not time and letter.isupper()),
    )
    if index is not None and _number(index) < 1:
        raise FormatError("the index of an argument is 0")
    _check(specifier)
    return specifier


def _number(digits: str) -> int:
    number = int(digits[-20:]) if len(digits) > 20 and not digits[:-20].strip("0") else int(digits[:20])
    if number > _MOST_INT:
        raise FormatError("a number is too large")
    return number


def _check(specifier: _Specifier) -> None:
    """Raise `FormatError` for flags, a width or a precision that the conversion does not accept."""
    letter, flags = specifier.conversion, specifier.flags
    if specifier.time and letter not in _TIMES:
        raise FormatError(f"unknown conversion 't{letter}'")
    if specifier.precision >= 0 and (specifier.time or letter in "cdox%n"):
        raise FormatError(f"%{letter} has no precision")
    if letter in "%n" and not specifier.time:
        if flags.replace("-" if letter == "%" else "", "") or (letter == "n" and specifier.width >= 0):
            raise FormatError(f"%{letter} has no such flag")
    elif any(flag in flags for flag in _BAD_FLAGS["t" if specifier.time else letter]):
        raise FormatError(f"%{letter} has no such flag")
    if not specifier.time and letter in "bh" and "#" in flags:
        raise FormatError(f"%{letter} has no flag #")
    numeric = not specifier.time and letter in "doxegfa"
    if specifier.width < 0 and ("-" in flags or (numeric and "0" in flags)):
        raise FormatError("a width is missing")
    if numeric and (("+" in flags and " " in flags) or ("-" in flags and "0" in flags)):
        raise FormatError("flags exclude each other")


# --- values --------------------------------------------------------------------------------------------


def _formatted(specifier: _Specifier, argument: Argument) -> str:
    """Return a formatted value. Raises `FormatError` if the conversion does not accept it."""
    letter, value = specifier.conversion, argument.value
    if letter == "b" and not specifier.time:
        return _text(specifier, "true" if value is not None and (argument.kind != "boolean" or value) else "false")
    if letter == "s" and not specifier.time and "#" in specifier.flags:
        raise FormatError("the flag # needs a Formattable")
    if value is None:
        return _text(specifier, "null")
    if specifier.time:
        if argument.kind == "long":
            raise UnsupportedFormatError("%t of a number is not supported")
        raise FormatError("not a time")
    if letter == "s":
        return _text(specifier, argument.text)
    if letter in "ha":
        raise UnsupportedFormatError(f"%{letter} is not supported")
    if letter in "dox" and argument.kind in (*_BITS, "long"):
        return _integer(specifier, value, _BITS.get(argument.kind, 64))
    if letter in "efg" and argument.kind == "double":
        return _double(specifier, value)
    if letter == "c" and argument.kind in _BITS and 0 <= value <= 0x10FFFF:
        return _text(specifier, chr(value))
    raise FormatError(f"%{letter} does not accept this value")


def _text(specifier: _Specifier, text: str) -> str:
    """Return a text, cut to the precision."""
    if specifier.precision >= 0:
        text = as_units(text)[: specifier.precision]
    return _justified(specifier, upper(replace_lone_surrogates(text)) if specifier.upper else text)


def _justified(specifier: _Specifier, text: str) -> str:
    missing = specifier.width - len(as_units(text))
    if missing <= 0:
        return text
    return text + " " * missing if "-" in specifier.flags else " " * missing + text


def _integer(specifier: _Specifier, value: int, bits: int) -> str:
    if specifier.conversion == "d":
        return _justified(
            specifier, _signed(specifier, value < 0, _magnitude(specifier, str(abs(value)), value < 0, 0))
        )
    if any(flag in specifier.flags for flag in "( +"):
        raise FormatError(f"%{specifier.conversion} has no sign")
    digits = format(value % 2**bits, specifier.conversion)
    prefix = ("0x" if specifier.conversion == "x" else "0") if "#" in specifier.flags else ""
    if "0" in specifier.flags:
        digits = digits.rjust(specifier.width - len(prefix), "0")
    return _justified(specifier, (prefix + digits).upper() if specifier.upper else prefix + digits)


def _double(specifier: _Specifier, value: float) -> str:
    if math.isnan(value):
        return _justified(specifier, "NAN" if specifier.upper else "NaN")
    negative = math.copysign(1, value) < 0
    if math.isinf(value):
        return _justified(specifier, _signed(specifier, negative, "INFINITY" if specifier.upper else "Infinity"))
    # Java rounds the digits of Double.toString, not the exact value
    number = Decimal(double_text_java17(abs(value)))
    places = 6 if specifier.precision < 0 else specifier.precision
    scientific = specifier.conversion == "e"
    if specifier.conversion == "g":
        places = max(places, 1)
        rounded = _significant(number, places)
        scientific = not rounded.is_zero() and not -4 <= rounded.adjusted() < places
        places -= 1 if scientific or rounded.is_zero() else rounded.adjusted() + 1
        number = rounded
    exponent = ""
    if scientific:
        number = _significant(number, places + 1)
        power = 0 if number.is_zero() else number.adjusted()
        number = number.scaleb(-power, _ROUNDING)
        exponent = f"{'E' if specifier.upper else 'e'}{'-' if power < 0 else '+'}{abs(power):02d}"
    digits = format(number.quantize(Decimal((0, (1,), -places)), context=_ROUNDING), "f")
    if "#" in specifier.flags and not places:
        digits += "."
    return _justified(
        specifier, _signed(specifier, negative, _magnitude(specifier, digits, negative, len(exponent)) + exponent)
    )


def _significant(number: Decimal, digits: int) -> Decimal:
    """Round half up to a number of significant digits."""
    return Context(prec=digits, rounding=ROUND_HALF_UP).plus(number)


def _signed(specifier: _Specifier, negative: bool, magnitude: str) -> str:
    if negative:
        return f"({magnitude})" if "(" in specifier.flags else f"-{magnitude}"
    return ("+" if "+" in specifier.flags else " " if " " in specifier.flags else "") + magnitude


def _magnitude(specifier: _Specifier, digits: str, negative: bool, after: int) -> str:
    """Group the digits, and pad them with zeros; `after` characters of an exponent come after them."""
    whole, point, fraction = digits.partition(".")
    if "," in specifier.flags:
        whole = f"{int(whole):,}"
    digits = whole + point + fraction
    if "0" in specifier.flags:
        brackets = negative and "(" in specifier.flags
        sign = bool(negative or "+" in specifier.flags or " " in specifier.flags)
        digits = digits.rjust(specifier.width - after - brackets - sign, "0")
    return digits
