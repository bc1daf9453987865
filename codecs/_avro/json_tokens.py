"""Avro's JSON token by token, as `org.apache.avro.io.JsonDecoder` walks through it: for documents of unusual shape.

Avro's decoder compares tokens with what the schema wants next, and does the rest (braces, names) just before the next
value that it reads. So what follows the last value is hardly looked at, the end of an object with too much in it may be
taken for another's, and members are put aside while a field is looked for. The tokens are those of Jackson, which reads
no further than the token it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]  # it has no stub
from typing import Any, Protocol, TypeVar

from kvformat.codecs._json.document import JsonFault
from kvformat.codecs._json.scalars import BadValue, shown
from kvformat.codecs._kernel.codes import MAX_DEPTH, MAX_DIGITS
from kvformat.codecs._kernel.tree import Fraction, Integer, Node
from kvformat.registry.contract.error_codes import ErrorCode

_Value = TypeVar("_Value")
_SKIP = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![0-9.eE])")
_LITERAL = re.compile(r"(?:true|false|null)(?![\w$])")
_LITERALS = {"true": True, "false": False, "null": None}
_CLOSING = {"{": "}", "[": "]"}
_SHOWN: dict[str, Node] = {"{": {}, "[": []}
_MISSING = "is missing; every field must be there, as null if it is null"

NAME, STRING, NUMBER, LITERAL = "name", "string", "number", "literal"
_SCALARS = (STRING, NUMBER, LITERAL)


class _Source(Protocol):
    """Tokens: `kind` is a bracket, NAME, STRING, NUMBER, LITERAL or, behind the last one, None."""

    kind: str | None

    def value(self) -> Any: ...

    def next(self) -> None: ...


class _Text:
    """The tokens of a text. Raises `JsonFault` at the first that is none."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._open: list[str] = []
        self._first = True  # in its object or array
        self._behind_name = False
        self._string: int | None = None  # where a string begins that nobody has read so far
        self._value: Any = None
        self.kind: str | None = None
        self.next()

    def value(self) -> Any:
        """The text of a name or string, the node of a scalar."""
        if self._string is not None:
            self._value, self._at = self._read_string(self._string)
            self._string = None
        return self._value

    def next(self) -> None:
        self.value()
        if self._behind_name and self.kind == NAME:
            return self._take_value()
        text, at = self._text, self._skip(self._at)
        if at == len(text):
            if self._open:
                raise JsonFault("it ends too early", at)
            self.kind = None
            return None
        if self._open:
            if text[at] == _CLOSING[self._open[-1]]:
                self.kind, self._at, self._first = text[at], at + 1, False
                self._open.pop()
                return None
            if not self._first:
                if text[at] != ",":
                    raise JsonFault("expecting ',' delimiter", at)
                at = self._skip(at + 1)
            if self._open[-1] == "{":
                return self._take_name(at)
        self._at = at
        return self._take_value()

    def _take_name(self, at: int) -> None:
        """A name. Jackson looks at what stands behind it, and reads it unless it is a string or has a bracket."""
        if not self._text.startswith('"', at):
            raise JsonFault("expecting property name enclosed in double quotes", at)
        name, at = self._read_string(at + 1)
        at = self._skip(at)
        if not self._text.startswith(":", at):
            raise JsonFault("expecting ':' delimiter", at)
        self._at = self._skip(at + 1)
        if self._text[self._at : self._at + 1] not in ('"', "{", "["):
            self._scalar(self._at)
        self.kind, self._value, self._behind_name = NAME, name, True

    def _take_value(self) -> None:
        self._behind_name, self._first = False, False
        at = self._at
        first = self._text[at : at + 1]
        if first in _CLOSING:
            if len(self._open) == MAX_DEPTH:
                raise JsonFault(f"more than {MAX_DEPTH} levels", at, code=ErrorCode.TOO_DEEP)
            self._open.append(first)
            self.kind, self._at, self._first = first, at + 1, True
        elif first == '"':
            self.kind, self._string = STRING, at + 1
        else:
            self.kind, self._value, self._at = self._scalar(at)

    def _scalar(self, at: int) -> tuple[str, Node, int]:
        found = _NUMBER.match(self._text, at)
        if found:
            if found.end() - at > MAX_DIGITS and sum(map(str.isdigit, found.group())) > MAX_DIGITS:
                raise JsonFault(f"a number of more than {MAX_DIGITS} digits", code=ErrorCode.TOO_LARGE)
            return NUMBER, (Fraction if found[2] else Integer)(found.group()), found.end()
        found = _LITERAL.match(self._text, at)
        if not found:
            raise JsonFault("expecting value", at)
        return LITERAL, _LITERALS[found.group()], found.end()

    def _skip(self, at: int) -> int:
        return _SKIP.match(self._text, at).end()  # type: ignore[union-attr]  # it matches nothing, too

    def _read_string(self, at: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self._text, at, True)
        except JSONDecodeError as fault:
            raise JsonFault(fault.msg[:1].lower() + fault.msg[1:], fault.pos) from None
        return text, end


class _Saved:
    """The tokens of a member that was put aside."""

    def __init__(self, tokens: list[tuple[str, Any]]) -> None:
        self._rest = iter(tokens)
        self._value: Any = None
        self.kind: str | None = None
        self.next()

    def value(self) -> Any:
        return self._value

    def next(self) -> None:
        self.kind, self._value = next(self._rest, (None, None))


class AvroJsonDecoder:
    """One document. Raises `BadValue` for what is not what the schema wants, `JsonFault` for what is no JSON."""

    def __init__(self, text: str) -> None:
        self._in: _Source = _Text(text)
        self._due: list[Callable[[], None]] = []  # what to do before the next value is read
        self._saved: dict[str, _Saved] = {}  # members of the record that were put aside
        self._outer: list[tuple[dict[str, _Saved], _Source | None]] = []
        self._origin: _Source | None = None  # where to go on behind a member that was put aside

    # --- values ----------------------------------------------------------------------------------------

    def scalar(self) -> Node:
        """The next value as a node; an object or array as an empty one, for it is none."""
        self._catch_up()
        if self._in.kind in _SHOWN:
            return _SHOWN[self._in.kind]
        if self._in.kind not in _SCALARS:
            raise BadValue(_MISSING, ErrorCode.MISSING_FIELD)
        node: Node = self._in.value()
        return node

    def pass_scalar(self) -> None:
        """Go on behind the value that `scalar` gave."""
        self._in.next()

    def union(self) -> str | None:
        """The name of the branch that comes next, None for a null."""
        if self.scalar() is None:
            return None
        if self._in.kind == "{":
            self._in.next()
        if self._in.kind != NAME:
            raise BadValue("expected null or an object with the name of a branch")
        name: str = self._in.value()
        self._in.next()
        return name

    def end_union(self) -> None:
        """What follows the value of a branch that has a name."""
        self._due.append(self._close)

    def field(self, name: str, read: Callable[[AvroJsonDecoder], _Value]) -> _Value:
        """The value of the next field of a record."""
        self._due.append(lambda: self._find(name))
        value = read(self)
        self._due.append(self._end_field)
        return value

    def begin_record(self) -> None:
        self._due.append(self._start_record)

    def end_record(self) -> None:
        self._due.append(self._close_record)

    def begin(self, bracket: str, what: str) -> bool:
        """Enter an array or a map; whether it has an element."""
        node = self.scalar()
        if self._in.kind != bracket:
            raise BadValue(f"expected {what}, found {shown(node)}")
        self._in.next()
        return self._has_more(bracket)

    def again(self, bracket: str) -> bool:
        """Whether the array or map has another element."""
        self._catch_up()
        return self._has_more(bracket)

    def key(self) -> str:
        """The key of the next entry of a map."""
        if self._in.kind != NAME:
            raise BadValue("expected a key")
        key: str = self._in.value()
        self._in.next()
        return key

    def _has_more(self, bracket: str) -> bool:
        if self._in.kind != _CLOSING[bracket]:
            return True
        self._in.next()
        return False

    # --- what is done before the next value ------------------------------------------------------------

    def _catch_up(self) -> None:
        due, self._due = self._due, []
        for action in due:
            action()

    def _start_record(self) -> None:
        if self._in.kind is None:
            raise JsonFault("nothing but blanks")
        if self._in.kind != "{":
            found = shown(self._in.value()) if self._in.kind in _SCALARS else "none"
            raise BadValue(f"expected an object, found {found}")
        self._in.next()
        self._outer.append((self._saved, self._origin))
        self._saved, self._origin = {}, None

    def _find(self, name: str) -> None:
        saved = self._saved.pop(name, None)
        if saved is not None:
            self._origin, self._in = self._in, saved
            return
        if self._in.kind != NAME:
            return
        while self._in.kind == NAME:
            found = self._in.value()
            self._in.next()
            if found == name:
                return
            self._saved[found] = _Saved(self._structure())
            self._in.next()
        raise BadValue(_MISSING, ErrorCode.MISSING_FIELD)

    def _structure(self) -> list[tuple[str, Any]]:
        """The tokens of the value that comes next, of which the last one is the current one afterwards."""
        tokens: list[tuple[str, Any]] = []
        depth = 0
        while True:
            kind = self._in.kind
            assert kind is not None  # a text that ends within an object is no JSON
            tokens.append((kind, self._in.value() if kind in _SCALARS or kind == NAME else None))
            depth += (kind in _CLOSING) - (kind in _CLOSING.values())
            if not depth:
                return tokens
            self._in.next()

    def _end_field(self) -> None:
        if self._origin is not None:
            self._in, self._origin = self._origin, None

    def _close(self) -> None:
        while self._in.kind != "}":
            if self._in.kind is None:
                raise BadValue("the object does not end")
            self._in.next()
        self._in.next()

    def _close_record(self) -> None:
        self._close()
        if self._saved:
            others = ", ".join(map(shown, self._saved))
            raise BadValue(f"the record before it has members that are no fields: {others}", ErrorCode.UNEXPECTED_FIELD)
        self._saved, self._origin = self._outer.pop()
