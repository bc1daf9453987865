r"""JSON values as Python objects: for rare forms of values, and for formats that need the whole document.

| JSON | node |
| --- | --- |
| object | dict, or `Repeated` if a name is repeated |
| array | list |
| string | str (`\ud800` alone stays a lone surrogate) |
| number | `Integer` or `Fraction`, a str with the text of the number |
| true, false, null | True, False, None |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kvformat.codecs._kernel.codes import CONTROL, EXPECTED_COMMA, MAX_DEPTH, TOO_DEEP
from kvformat.codecs._kernel.reader import Reader

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import (
        COMMA,
        LEFT_BRACE,
        LEFT_BRACKET,
        LOWER_F,
        LOWER_N,
        LOWER_T,
        QUOTE,
        RIGHT_BRACE,
        RIGHT_BRACKET,
        byte,
        token,
    )

Node: TypeAlias = "bool | str | list[Node] | dict[str, Node] | None"


class Integer(str):
    """The text of a number without a fraction and an exponent."""

    __slots__ = ()


class Fraction(str):
    """The text of a number with a fraction or an exponent."""

    __slots__ = ()


class Repeated(dict):  # type: ignore[type-arg]  # compiled classes take no parameters
    """An object with a repeated name. The dict has the last value of each name, `members` all members in order."""

    __slots__ = ("members",)

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        self.members = members


class Tree:
    """Reads values as nodes. An object with a repeated name is a `Repeated` with `keep_repeats`, else a dict."""

    def __init__(self, *, keep_repeats: bool) -> None:
        self.keep_repeats = keep_repeats
        self.end = 0

    def read_node(self, r: Reader, at: int) -> Any:
        """Return the node of the value at an offset. Set `end` to the value's end, or to a code if it is invalid."""
        open_: list[Any] = []  # for each open bracket: members, is it an object, its own name
        name: Any = None
        value: Any
        while True:
            c = byte(r.data, at, r.end)
            if c in (LEFT_BRACE, LEFT_BRACKET):
                if r.depth + len(open_) >= MAX_DEPTH:
                    return self.stop(r.fail(at, TOO_DEEP))
                closing = c + 2
                at = token(r.data, at + 1, r.end)
                if byte(r.data, at, r.end) != closing:
                    open_.append(([], c == LEFT_BRACE, name))
                    if c == LEFT_BRACE:
                        name = self.name(r, at)
                        at = self.end
                        if at < 0:
                            return None
                    continue
                value = {} if c == LEFT_BRACE else []
                at += 1
            else:
                value = self.scalar(r, at)
                at = self.end
                if at < 0:
                    return None
            while open_:
                members, is_object, outer = open_[len(open_) - 1]
                members.append((name, value) if is_object else value)
                at = token(r.data, at, r.end)
                c = byte(r.data, at, r.end)
                if c == COMMA:
                    at = token(r.data, at + 1, r.end)
                    if is_object:
                        name = self.name(r, at)
                        at = self.end
                        if at < 0:
                            return None
                    break
                if c != (RIGHT_BRACE if is_object else RIGHT_BRACKET):
                    return self.stop(r.fail(at, EXPECTED_COMMA))
                open_.pop()
                value = self.object_of(members) if is_object else members
                name = outer
                at += 1
            else:
                self.end = at
                return value

    def scalar(self, r: Reader, at: int) -> Any:
        """Return the node of a value that is neither an object nor an array. Set `end`."""
        end = r.scalar(at)
        self.end = end
        if end < 0:
            return None
        c = byte(r.data, at, r.end)
        if c == QUOTE:
            return self.string(r, at, end)
        if c == LOWER_N:
            return None
        if c in (LOWER_T, LOWER_F):
            return c == LOWER_T
        return Integer(r.text(at, end)) if r.whole else Fraction(r.text(at, end))

    def name(self, r: Reader, at: int) -> Any:
        """Return the name of a member. Set `end` to the offset of its value."""
        end = r.name(at)
        self.end = end
        if end < 0:
            return None
        return self.string(r, at, r.string(at))

    def string(self, r: Reader, at: int, end: int) -> Any:
        """Return the content of a string. Set `end` to a code if it has a forbidden control character."""
        said = r.string_text(at + 1, end)
        if not r.raw_controls:
            for place in range(at, end):
                if byte(r.data, place, r.end) < 32:
                    return self.stop(r.fail(place, CONTROL))
        return said

    def stop(self, code: int) -> Any:
        """Set `end` to a code. Return None."""
        self.end = code
        return None

    def object_of(self, members: list[Any]) -> Any:
        """Return the node of an object."""
        plain = dict(members)
        return plain if len(plain) == len(members) or not self.keep_repeats else Repeated(members)
