r"""JSON values as Python has them: for what is rare, and for formats that want all of a document.

| JSON | node |
| --- | --- |
| object | dict, or `Repeated` where a name comes twice |
| array | list |
| string | str (`\ud800` alone stays a lone surrogate) |
| number | `Integer` or `Fraction`, a str of the token as it stands in the text |
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
    """The text of a number without fraction and exponent."""

    __slots__ = ()


class Fraction(str):
    """The text of a number with a fraction or an exponent."""

    __slots__ = ()


class Repeated(dict):  # type: ignore[type-arg]  # compiled classes take no parameters
    """An object that has a name twice: the last value of each name, and in `members` all of them in order."""

    __slots__ = ("members",)

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        self.members = members


class Tree:
    """Reads values as nodes. With `keep_repeats` objects with a repeated name are `Repeated`, else dicts."""

    def __init__(self, *, keep_repeats: bool) -> None:
        self.keep_repeats = keep_repeats
        self.end = 0

    def read_node(self, r: Reader, at: int) -> Any:
        """The value at a place. Its end is then in `end`; there is no value where that is negative."""
        open_: list[Any] = []  # members so far, whether of an object, the name before the bracket
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
        """A value that is no object and no array; sets `end`."""
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
        """The name of a member; sets `end` to the value behind it."""
        end = r.name(at)
        self.end = end
        if end < 0:
            return None
        return self.string(r, at, r.string(at))

    def string(self, r: Reader, at: int, end: int) -> Any:
        """What a string says; sets `end` where it may not say so."""
        said = r.string_text(at + 1, end)
        if not r.raw_controls:
            for place in range(at, end):
                if byte(r.data, place, r.end) < 32:
                    return self.stop(r.fail(place, CONTROL))
        return said

    def stop(self, code: int) -> Any:
        """Set `end` to a code."""
        self.end = code
        return None

    def object_of(self, members: list[Any]) -> Any:
        """The node of an object."""
        plain = dict(members)
        return plain if len(plain) == len(members) or not self.keep_repeats else Repeated(members)
