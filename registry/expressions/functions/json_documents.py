r"""Read and write JSON texts as Jackson 2.20 does with Flink's settings.

    {"a": 1.50, "a": [true]} rest      {"a": [True]}: the last of equal names counts; what is after the value does not
    1E2                                Decimal("1E+2"), written as 1E+2

| JSON | Python |
| --- | --- |
| object, array, string, true and false, null | dict, list, str, bool, None |
| integer, number with a point or an exponent | int, `Decimal` with all its digits |

Python's `json` parses nearly all documents. It differs from Jackson, and this module makes up for it:

- `NaN` and `Infinity` are not values in Jackson.
- After a number at the top there must be a blank or the end, after `true` no letter or digit. `json` stops silently.
- Jackson allows 1,000 levels, 1,000 digits of a number, 50,000 characters of a name, 20,000,000 of a string, and an
  exponent that fits 32 bits. `json` has no such limits, but fails at some hundreds of levels (`RecursionError`).
- Written objects are sorted by name, in the order of UTF-16 (`ORDER_MAP_ENTRIES_BY_KEYS`). The escapes of control
  characters have capital letters: `\u001F`.

Rules: Flink's `SqlJsonUtils`, Jackson's `ReaderBasedJsonParser`, `StreamReadConstraints`, `WriterBasedJsonGenerator`,
`StreamWriteConstraints`.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from json.scanner import make_scanner
from typing import Any, Final, NoReturn

import numpy as np

from kvformat.registry.java.numbers import decimal_text, double_text_java17
from kvformat.registry.java.parse import parse_decimal

MOST_LEVELS: Final = 1000
_MOST_DIGITS: Final = 1000
"""Characters of a number, Jackson's limit."""
_MOST_NAME: Final = 50_000
"""Characters of the name of a member, Jackson's limit."""
_MOST_STRING: Final = 20_000_000
"""Characters of a text, Jackson's limit."""
_SHORT: Final = 11
"""Characters up to which an exponent always fits 32 bits."""

_BLANKS: Final = " \t\n\r"
_NUMBER_CHARACTERS: Final = "0123456789.eE+-"
_SAMPLE: Final = 250
_SAMPLES: Final = 4  # of a number of more than 1,000 digits
_blanks = re.compile(r"[ \t\n\r]*").match
_number = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.([0-9]+))?(?:[eE][-+]?([0-9]+))?").match
_number_samples = re.compile(r"[0-9.eE+-]{4,}").finditer
_strings = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)  # the last may be without an end
_STEPS = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]], _STEPS[[ord("]"), ord("}")]] = 1, -1
_LITERALS: Final = (("true", True), ("false", False), ("null", None))


class JsonError(ValueError):
    """A text that Jackson does not read, or a value that it does not write."""


def read_json(text: str) -> Any:
    """Return the first value of a text. Raises `JsonError`; time and memory are linear in the text."""
    if len(text) <= _MOST_DIGITS and text[:1] in ("{", "["):
        try:
            return _scan(text, 0)[0]
        except (ValueError, StopIteration) as error:
            raise JsonError(_reason(error)) from None
        except RecursionError:
            return _read_step_by_step(text, 0)
    start = _after_blanks(text, 0)
    if len(text) > _MOST_DIGITS and (_has_long_number(text) or _has_long_string(text)):
        return _read_step_by_step(text, start)
    return _read_checked(text, start)


def _after_blanks(text: str, at: int) -> int:
    blanks = _blanks(text, at)
    return blanks.end() if blanks else at


def _read_checked(text: str, start: int) -> Any:
    """Read a text whose numbers, names and strings are short enough."""
    try:
        value, end = _scan(text, start)
    except (ValueError, StopIteration) as error:
        raise JsonError(_reason(error)) from None
    except RecursionError:
        return _read_step_by_step(text, start)
    if text[start] in "[{":
        if end - start > 2 * MOST_LEVELS and _levels(text[start:end]) > MOST_LEVELS:
            _fail_at_level()
    elif end < len(text) and text[start] != '"':
        _check_end(text, start, end)
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON: {error.msg} at character {error.pos + 1}"
    if isinstance(error, StopIteration):
        return f"not valid JSON: no value at character {error.value + 1}"
    return str(error)


def _check_end(text: str, start: int, end: int) -> None:
    """Check what is after a number or a word at the top."""
    after = text[end]
    if text[start] not in "tfn":
        if after not in _BLANKS:
            raise JsonError(f"not valid JSON: {after!a} after a number")
    elif after >= "0" and _is_identifier_part(after):
        raise JsonError(f"not valid JSON: {after!a} after a word")


def _is_identifier_part(character: str) -> bool:
    """Return `Character.isJavaIdentifierPart` for a character above the digits."""
    if character > "\uffff":
        return False  # half of it is not a whole character
    if "\x7f" <= character <= "\x9f":
        return True
    return unicodedata.category(character) in (
        "Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc", "Nd", "Mn", "Mc", "Cf",
    )  # fmt: skip


def _decimal(text: str) -> Decimal:
    if len(text) > _SHORT and ("e" in text or "E" in text):
        try:
            return parse_decimal(text)
        except ValueError:
            raise JsonError(f"not valid JSON: the exponent of {text:.60} is out of range") from None
    return Decimal(text)


def _no_constant(text: str) -> NoReturn:
    raise JsonError(f"not valid JSON: {text}")


_scan: Callable[[str, int], tuple[Any, int]] = make_scanner(
    json.JSONDecoder(parse_float=_decimal, parse_constant=_no_constant)  # type: ignore[arg-type]  # a decoder fits
)


# --- limits --------------------------------------------------------------------------------------------------


def _fail_at_level() -> NoReturn:
    raise JsonError(f"JSON is nested more than {MOST_LEVELS} levels deep")


def _has_long_number(text: str) -> bool:
    """Return whether a text has more than 750 characters of numbers in a row, looking only at some of them."""
    for match in _number_samples(text[::_SAMPLE]):
        for i in range(match.start(), match.end() - _SAMPLES + 1):
            if not text[i * _SAMPLE : (i + _SAMPLES - 1) * _SAMPLE].strip(_NUMBER_CHARACTERS):
                return True
    return False


def _has_long_string(text: str) -> bool:
    """Return whether a string may have more than 50,000 units of UTF-16."""
    if len(text) <= _MOST_NAME // 2:
        return False
    return any(match.end() - match.start() > _MOST_NAME // 2 for match in _strings.finditer(text))


def _levels(text: str) -> int:
    """Return how deep a valid array or object is nested; 0 if it has too few to matter."""
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return 0
    marks = np.frombuffer(_strings.sub("0", text).encode("ascii"), np.uint8)
    return int(np.cumsum(_STEPS[marks], dtype=np.int64).max())


def _units(text: str) -> int:
    """Return the length of a text in UTF-16."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _read_step_by_step(text: str, at: int) -> Any:
    """Read a text with all of Jackson's limits, without recursion."""
    reader = _Reader(text)
    reader.value(at)
    while reader.open:
        reader.step()
    if text[at] not in '[{"' and reader.at < len(text):
        _check_end(text, at, reader.at)
    return reader.root


class _Reader:
    """Reads one token of a text after the other; `open` are the arrays and objects around the next one."""

    __slots__ = ("at", "names", "open", "root", "text")

    def __init__(self, text: str) -> None:
        self.text, self.at, self.root = text, 0, None
        self.open: list[Any] = []
        self.names: list[str] = []

    def step(self) -> None:
        """Read the next member of the innermost array or object, or its end."""
        of, text = self.open[-1], self.text
        at = _after_blanks(text, self.at)
        if text[at : at + 1] == ("}" if type(of) is dict else "]"):
            self.open.pop()
            self.names.pop()
            self.at = at + 1
            return
        if of:
            at = self._after(",", at)
        if type(of) is dict:
            if text[at : at + 1] != '"':
                raise JsonError(f"not valid JSON: no name at character {at + 1}")
            name, at = self._string(at)
            if _units(name) > _MOST_NAME:
                raise JsonError(f"JSON has a name of more than {_MOST_NAME:,} characters")
            self.names[-1] = name
            at = self._after(":", _after_blanks(text, at))
        self.value(at)

    def _after(self, mark: str, at: int) -> int:
        if self.text[at : at + 1] != mark:
            raise JsonError(f"not valid JSON: no {mark!r} at character {at + 1}")
        return _after_blanks(self.text, at + 1)

    def _string(self, at: int) -> tuple[str, int]:
        try:
            return _scan(self.text, at)
        except (ValueError, StopIteration) as error:
            raise JsonError(_reason(error)) from None

    def value(self, at: int) -> None:
        """Read the value at `at`, of an array or object only its beginning."""
        text = self.text
        first = text[at : at + 1]
        if first in ("[", "{"):
            value: Any = [] if first == "[" else {}
            self._add(value)
            self.open.append(value)
            self.names.append("")
            if len(self.open) > MOST_LEVELS:
                _fail_at_level()
            self.at = at + 1
            return
        if first == '"':
            value, self.at = self._string(at)
            if len(value) > _MOST_STRING // 2 and _units(value) > _MOST_STRING:
                raise JsonError(f"JSON has a string of more than {_MOST_STRING:,} characters")
        else:
            value, self.at = self._number_or_word(at)
        self._add(value)

    def _number_or_word(self, at: int) -> tuple[Any, int]:
        for word, value in _LITERALS:
            if self.text.startswith(word, at):
                return value, at + len(word)
        match = _number(self.text, at)
        if not match:
            raise JsonError(f"not valid JSON: no value at character {at + 1}")
        whole, fraction, exponent = match.groups()
        digits = len(whole.lstrip("-")) + len(fraction or "") + len(exponent or "")
        is_integer = fraction is None and exponent is None
        is_last = match.end() == len(self.text)
        if (fraction is None) != (exponent is None) and (is_last or whole.lstrip("-") == "0"):
            digits -= 1  # Jackson's second function for numbers takes -1 for what is missing
        if digits > _MOST_DIGITS:
            raise JsonError(f"JSON has a number of more than {_MOST_DIGITS:,} digits")
        return (int(whole) if is_integer else _decimal(match[0])), match.end()

    def _add(self, value: Any) -> None:
        if not self.open:
            self.root = value
        elif type(self.open[-1]) is dict:
            self.open[-1][self.names[-1]] = value
        else:
            self.open[-1].append(value)


# --- writing -------------------------------------------------------------------------------------------------


def scalar_text(value: Any) -> str:
    """Return `String.valueOf` of a string, number or boolean."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is int:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    return double_text_java17(value.number) if kind is Double else decimal_text(value)


def write_json(value: Any) -> str:
    """Return the text of a value, in which `Double` and `RawJson` are allowed. Raises `JsonError`."""
    try:
        text = _encode(value)
        unusual = not text.isascii() and text.encode().translate(None, _BYTES_BELOW_E000)
    except (TypeError, ValueError, RecursionError):
        return _write_step_by_step(value)
    if unusual or "\\u" in text or _levels(text) > MOST_LEVELS:
        return _write_step_by_step(value)
    return text


@dataclass(frozen=True, slots=True)
class Double:
    """A number that Java holds as a double. No text is read to one."""

    number: float


@dataclass(frozen=True, slots=True)
class RawJson:
    """A text that is JSON already."""

    text: str


def _refuse(value: Any) -> NoReturn:
    raise TypeError  # a Decimal, Double or RawJson


_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":"), default=_refuse
).encode
_BYTES_BELOW_E000: Final = bytes(range(0xEE))
"""All bytes of characters in UTF-8 up to U+DFFF, whose order is that of UTF-16."""
_has_escaped = re.compile(r'[\x00-\x1f"\\]').search
_escape = re.compile(r'[\x00-\x1f"\\]').sub
_ESCAPES: Final = {chr(code): f"\\u{code:04X}" for code in range(32)} | {
    "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\",
}  # fmt: skip


def quoted_text(text: str) -> str:
    """Return a string of JSON."""
    return f'"{_escape(lambda match: _ESCAPES[match[0]], text)}"' if _has_escaped(text) else f'"{text}"'


def _utf16_order(item: tuple[str, Any]) -> bytes:
    return item[0].encode("utf-16-be", "surrogatepass")


def _write_step_by_step(value: Any) -> str:
    """Write a value without recursion. The stack has values, and texts that end a level or separate its members."""
    parts: list[str] = []
    stack: list[Any] = [value]
    levels = 0
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is _Mark:
            parts.append(item)
            levels -= item in ("]", "}")
        elif kind is RawJson:
            parts.append(item.text)
        elif kind is str:
            parts.append(quoted_text(item))
        elif kind in (list, dict):
            levels += 1
            if levels > MOST_LEVELS + (kind is dict):  # of an object Jackson checks the level around it
                _fail_at_level()
            parts.append("[" if kind is list else "{")
            stack.append(_Mark("]" if kind is list else "}"))
            stack += _members(item)
        elif item is None:
            parts.append("null")
        elif kind is Double and not math.isfinite(item.number):
            parts.append(f'"{scalar_text(item)}"')
        else:
            parts.append(scalar_text(item))
    return "".join(parts)


class _Mark(str):
    __slots__ = ()


_COMMA: Final = _Mark(",")


def _members(of: Any) -> list[Any]:
    """Return the members of an array or object with what is between them, last first."""
    parts: list[Any] = []
    if type(of) is list:
        for item in reversed(of):
            parts += (item, _COMMA)
    else:
        for name, item in sorted(of.items(), key=_utf16_order, reverse=True):
            parts += (item, _Mark(quoted_text(name) + ":"), _COMMA)
    return parts[:-1]
