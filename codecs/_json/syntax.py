r"""JSON text to a tree, by the grammar and the limits of Jackson, the parser in Flink.

| JSON | node |
| --- | --- |
| object | dict, or `Repeated` where a name comes twice |
| array | list |
| string | str (`\ud800` alone stays a lone surrogate) |
| number | `Integer` or `Fraction`, a str of the token as it stands in the text |
| true, false, null | True, False, None |

The grammar is RFC 8259 with raw control characters allowed in strings; the encoding is found as Jackson finds it.
A document nested more than 1000 deep or with a number of more than 1000 digits is no JSON, as in Flink; Jackson's
limits on the length of strings and names are left out. What follows the document is a fault (Flink ignores it),
unless the message is not proper UTF-8: then Flink's answer stands.
"""

from __future__ import annotations

import codecs
import re
from json import JSONDecodeError, JSONDecoder
from typing import Any, TypeAlias

from kvformat.codecs._charsets import utf16_text, utf32_text
from kvformat.codecs._scalars import decimal_of

MAX_DEPTH = 1000
MAX_DIGITS = 1000

Node: TypeAlias = "bool | str | list[Node] | dict[str, Node] | None"

_OPENING = (b"{", b"[")
_SKIP = re.compile(r"[ \t\n\r]*")
_CLOSING = {"{": "}", "[": "]"}


class Integer(str):
    """The text of a number without fraction and exponent."""

    __slots__ = ()


class Fraction(str):
    """The text of a number with a fraction or an exponent."""

    __slots__ = ()


class Repeated(dict[str, Node]):
    """An object that has a name twice: the last value of each name, and in `members` all of them in order."""

    __slots__ = ("members",)

    def __init__(self, members: list[tuple[str, Node]]) -> None:
        super().__init__(members)
        self.members = members


class JsonFault(Exception):
    """A message is not JSON; `str()` says why, and where unless the place (`at`) is not known."""

    def __init__(self, reason: str, at: int | None = None) -> None:
        self.at = at
        super().__init__(reason if at is None else f"{reason} at character {at + 1}")


class JsonParser:
    """Bytes to trees. With `keep_repeats` objects with a repeated name are `Repeated`, else plain dicts (last wins).

    With `decimals` a fraction whose exponent Java's BigDecimal can't hold is no JSON, wherever it stands. Without
    `raw_controls` control characters in strings must be escaped.
    """

    def __init__(self, *, keep_repeats: bool = False, decimals: bool = False, raw_controls: bool = True) -> None:
        self._hook = _object if keep_repeats else None
        self._raw_controls = raw_controls
        # a short text needs no check of its digits, and marking numbers by a type is faster than by a function
        self._short = self._decoder(Integer, _java_decimal if decimals else Fraction)
        self._long = self._decoder(_checked_integer, _checked_java_decimal if decimals else _checked_fraction)

    def _decoder(self, integer: Any, fraction: Any) -> JSONDecoder:
        return JSONDecoder(
            strict=not self._raw_controls,
            parse_int=integer,
            parse_float=fraction,
            parse_constant=_refuse_constant,
            object_pairs_hook=self._hook,
        )

    def parse(self, message: bytes) -> Node:
        """The tree of a message; None for `null` and for one that holds nothing but blanks.

        Raises `JsonFault` for anything that is no JSON document.
        """
        if message[:1] in _OPENING and message[1:2] != b"\0":  # so it is UTF-8, without blanks or a mark before
            try:
                text = message.decode()
            except UnicodeDecodeError:
                pass
            else:
                return self._document(text, 0)
        text, malformed = text_of(message)
        start = _skip(text, 0)
        if not malformed:
            return self._document(text, start) if start < len(text) else None
        try:
            return self._value(text, start)[0]
        except JsonFault:
            raise JsonFault("bytes that are not UTF-8") from None

    def first(self, text: str) -> Node:
        """The tree of the value that a text begins with, whatever follows it; raises `JsonFault` without one."""
        return self._value(text, _skip(text, 0))[0]

    def _document(self, text: str, start: int) -> Node:
        """The value that begins at a place, with nothing but blanks behind it."""
        tree, end = self._value(text, start)
        if end < len(text):
            end = _skip(text, end)
            if end < len(text):
                raise JsonFault("more after the end of the document", end)
        return tree

    def elements_before_fault(self, message: bytes) -> list[Node]:
        """The complete elements of a top-level array that is cut off or broken; none when only its surroundings are."""
        text, _ = text_of(message)
        at = _skip(text, 0)
        found: list[Node] = []
        before = "["
        try:
            while text.startswith(before, at):
                tree, at = self._value(text, _skip(text, at + 1))
                found.append(tree)
                at, before = _skip(text, at), ","
        except JsonFault:
            return found
        return [] if text.startswith("]", at) else found  # behind a complete array: the message is no JSON

    def _value(self, text: str, at: int) -> tuple[Node, int]:
        """The value that begins at a place, and the place behind it."""
        decoder = self._short if len(text) - at <= MAX_DIGITS else self._long
        tree: Node
        try:
            tree, end = decoder.raw_decode(text, at)
        except JSONDecodeError as fault:
            raise JsonFault(fault.msg[:1].lower() + fault.msg[1:], fault.pos) from None
        except RecursionError:
            return self._deep_value(text, at)
        if end - at > MAX_DEPTH and text.count("[", at, end) + text.count("{", at, end) > MAX_DEPTH:
            _check_depth(tree)
        return tree, end

    def _deep_value(self, text: str, at: int) -> tuple[Node, int]:
        """As `_value`, without recursion: how much of it Python allows depends on its version and on the caller."""
        open_: list[tuple[str, list[Any], str]] = []  # opening bracket, members so far, name before the bracket
        name = ""
        while True:
            at = _skip(text, at)
            bracket = text[at : at + 1]
            value: Any
            if bracket in _CLOSING:
                if len(open_) == MAX_DEPTH:
                    raise JsonFault(f"more than {MAX_DEPTH} levels", at)
                at = _skip(text, at + 1)
                if text[at : at + 1] != _CLOSING[bracket]:
                    open_.append((bracket, [], name))
                    if bracket == "{":
                        name, at = self._name(text, at)
                    continue
                value, at = {} if bracket == "{" else [], at + 1
            else:
                value, at = self._value(text, at)
            while open_:
                bracket, members, outer = open_[-1]
                members.append((name, value) if bracket == "{" else value)
                at = _skip(text, at)
                if text.startswith(",", at):
                    if bracket == "{":
                        name, at = self._name(text, _skip(text, at + 1))
                    else:
                        at += 1
                    break
                if not text.startswith(_CLOSING[bracket], at):
                    raise JsonFault("expecting ',' delimiter", at)
                open_.pop()
                value = members if bracket == "[" else (self._hook or dict)(members)
                name, at = outer, at + 1
            else:
                return value, at

    def _name(self, text: str, at: int) -> tuple[str, int]:
        if not text.startswith('"', at):
            raise JsonFault("expecting property name enclosed in double quotes", at)
        name, at = self._value(text, at)
        at = _skip(text, at)
        if not text.startswith(":", at):
            raise JsonFault("expecting ':' delimiter", at)
        return str(name), at + 1


def _skip(text: str, at: int) -> int:
    return _SKIP.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too


def _object(members: list[tuple[str, Node]]) -> dict[str, Node]:
    plain = dict(members)
    return plain if len(plain) == len(members) else Repeated(members)


def _refuse_constant(name: str) -> Node:
    raise JsonFault(f"{name} is no value in JSON")


def _checked_integer(token: str) -> Integer:
    _check_digits(token)
    return Integer(token)


def _checked_fraction(token: str) -> Fraction:
    _check_digits(token)
    return Fraction(token)


def _java_decimal(token: str) -> Fraction:
    try:
        decimal_of(token)
    except ValueError:
        raise JsonFault(f"a number with the exponent {token.lower().partition('e')[2][:30]}") from None
    return Fraction(token)


def _checked_java_decimal(token: str) -> Fraction:
    _check_digits(token)
    return _java_decimal(token)


def _check_digits(token: str) -> None:
    if len(token) > MAX_DIGITS and sum(map(str.isdigit, token)) > MAX_DIGITS:
        raise JsonFault(f"a number of more than {MAX_DIGITS} digits")


def _check_depth(tree: Node) -> None:
    level = [tree]
    for _ in range(MAX_DEPTH + 1):
        below: list[Node] = []
        for node in level:
            if isinstance(node, dict):
                below.extend(node.values())
            elif isinstance(node, list):
                below.extend(node)
        level = [node for node in below if isinstance(node, dict | list)]
        if not level:
            return
    raise JsonFault(f"more than {MAX_DEPTH} levels")


# --- encodings -----------------------------------------------------------------------------------------

_LOOSE = re.compile(rb"[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3}")
_LOOSE_ERRORS = "kvformat.jackson"


def text_of(message: bytes) -> tuple[str, bool]:
    """The text of a message, and whether it is malformed UTF-8; if so, the text ends where Jackson fails."""
    encoding, start = _encoding(message)
    body = message[start:]
    if encoding.startswith("utf-16"):
        return utf16_text(body, encoding), False
    if encoding.startswith("utf-32"):
        return utf32_text(body, encoding)
    try:
        return body.decode(), False
    except UnicodeDecodeError:
        pass
    try:
        return body.decode("utf-8", _LOOSE_ERRORS), True
    except UnicodeDecodeError as fault:
        return body[: fault.start].decode("utf-8", _LOOSE_ERRORS), True


def _encoding(message: bytes) -> tuple[str, int]:
    """Python's name of the encoding and the length of the byte order mark (Jackson's ByteSourceJsonBootstrapper)."""
    head = message[:4]
    if len(head) == 4:
        for mark, encoding in (
            (codecs.BOM_UTF32_BE, "utf-32-be"),
            (codecs.BOM_UTF32_LE, "utf-32-le"),
            (codecs.BOM_UTF16_BE, "utf-16-be"),
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (codecs.BOM_UTF8, "utf-8"),
        ):
            if head.startswith(mark):
                return encoding, len(mark)
        if head.startswith(b"\0\0\0"):
            return "utf-32-be", 0
        if head.endswith(b"\0\0\0"):
            return "utf-32-le", 0
    if len(head) >= 2 and 0 in head[:2]:
        return ("utf-16-be" if head[0] == 0 else "utf-16-le"), 0
    return "utf-8", 0


def _read_loosely(fault: UnicodeError) -> tuple[str, int]:
    """What Jackson makes of bytes that are not proper UTF-8 but have its shape, as JSON escapes.

    It takes overlong forms, surrogates and numbers above U+10FFFF in strings and names. As escapes they mean the
    same there, and stay an error elsewhere.
    """
    assert isinstance(fault, UnicodeDecodeError)
    found = _LOOSE.match(fault.object, fault.start)
    before = fault.object[max(0, fault.start - 1) : fault.start]
    if not found or (before == b"\\" and _is_escape(fault.object, fault.start)):
        raise fault
    first, *rest = found.group()
    number = first & (0x1F, 0x0F, 0x07)[len(rest) - 1]
    for byte in rest:
        number = number << 6 | byte & 0x3F
    if len(rest) < 3:
        return f"\\u{number:04x}", found.end()
    number -= 0x10000
    high, low = (0xD800 | number >> 10) & 0xFFFF, 0xDC00 | number & 0x3FF
    return f"\\u{high:04x}\\u{low:04x}", found.end()


def _is_escape(body: bytes, end: int) -> bool:
    """Whether the backslash before `end` is not itself escaped."""
    at = end
    while at and body[at - 1] == 0x5C:
        at -= 1
    return (end - at) % 2 == 1


codecs.register_error(_LOOSE_ERRORS, _read_loosely)
