"""Whether Flink's streaming reader fails on a message that takes it out of step.

That reader sees tokens, and its BOOLEAN takes the bracket of an object or array for the text of a value: false. It
then goes on inside of the container, as if this were the row. Mostly it comes out with a row; but it fails when it runs
into the end of the message, or into a value that a column can't take.

Rules: `JsonParserToRowDataConverters` and `JsonParserRowDataDeserializationSchema`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import TypeAlias

from kvformat.codecs._json.scalars import ScalarRules, scalar_converter
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.tree import Node, Repeated, Tree
from kvformat.registry.contract.types import FlinkType


class _Mark(enum.Enum):
    """A token that is no value."""

    OBJECT = "{"
    OBJECT_END = "}"
    ARRAY = "["
    ARRAY_END = "]"
    END = None


class _Name(str):
    """The name of a member, as a token."""

    __slots__ = ()


_Token: TypeAlias = "_Mark | bool | str | None"
_OPENING, _CLOSING = (_Mark.OBJECT, _Mark.ARRAY), (_Mark.OBJECT_END, _Mark.ARRAY_END)


class _Cursor:
    """A place in the tokens of a tree; behind the last one is `END`, without end."""

    def __init__(self, tree: Node) -> None:
        self._tokens = _tokens(tree)
        self.token = next(self._tokens)

    def advance(self) -> _Token:
        self.token = next(self._tokens)
        return self.token

    def close(self) -> None:
        """Go from an opening bracket to the closing one; stay at anything else."""
        depth = int(self.token in _OPENING)
        while depth:
            self.advance()
            depth += (self.token in _OPENING) - (self.token in _CLOSING)

    def skip(self) -> None:
        """Go behind a value; ValueError at the end."""
        if self.token is _Mark.END:
            raise ValueError
        self.close()
        self.advance()

    def members(self, closing: _Mark) -> Iterator[None]:
        """Stop at each member of a container.

        ValueError at the end, which Flink does not see: it reads nulls until the heap is full, or for ever.
        """
        while self.advance() is not closing:
            if self.token is _Mark.END:
                raise ValueError
            yield


def _tokens(tree: Node) -> Iterator[_Token]:
    ahead: list[Node | _Mark] = [tree]
    while ahead:
        token = ahead.pop()
        if isinstance(token, dict):
            yield _Mark.OBJECT
            ahead.append(_Mark.OBJECT_END)
            for name, value in reversed(token.members if isinstance(token, Repeated) else token.items()):
                ahead += (value, _Name(name))
        elif isinstance(token, list):
            yield _Mark.ARRAY
            ahead.append(_Mark.ARRAY_END)
            ahead += reversed(token)
        else:
            yield token
    while True:
        yield _Mark.END


def _text(token: _Token) -> str | None:
    """What a token is compared with column names as; None at the end."""
    if isinstance(token, str):
        return token
    if isinstance(token, _Mark):
        bracket: str | None = token.value
        return bracket
    return "null" if token is None else "true" if token else "false"


_Step: TypeAlias = Callable[[_Cursor], None]


class StreamingModel:
    """The way of Flink's streaming reader through the tokens of a message, without the values.

    It is the reader that fails on bad values (not `ignore-parse-errors`). Made once per schema.
    """

    def __init__(self, row: FlinkType, rules: ScalarRules, *, fail_on_missing: bool) -> None:
        self._rules, self._fail_on_missing = rules, fail_on_missing
        self._row = self._step(row)

    def fails(self, message: bytes) -> bool:
        """Whether Flink has no answer to a message in UTF-8: an object or an array of objects."""
        reader = Reader()
        reader.open_message(message)
        cursor = _Cursor(Tree(keep_repeats=True).read_node(reader, reader.first_token()))
        try:
            if cursor.token is not _Mark.ARRAY:
                self._row(cursor)
            else:
                for _ in cursor.members(_Mark.ARRAY_END):
                    self._row(cursor)
        except ValueError:
            return True
        return False

    def _step(self, t: FlinkType) -> _Step:
        """The converter of a type: it goes from a value's first token to what it takes for the last one."""
        if t.root == "ROW":
            step = self._members(t)
        elif t.root == "ARRAY":
            step = self._array(t)
        elif t.root in ("MAP", "MULTISET"):
            step = self._map(t)
        elif t.root in ("CHAR", "VARCHAR"):
            step = _Cursor.close
        else:
            step = self._scalar(t)

        def unless_null(cursor: _Cursor) -> None:
            if cursor.token is not None and cursor.token is not _Mark.END:
                step(cursor)

        return unless_null

    def _members(self, t: FlinkType) -> _Step:
        columns: dict[str | None, _Step] = {field.name: self._step(field.type) for field in t.fields}

        def read(cursor: _Cursor) -> None:
            _check(cursor.token is _Mark.OBJECT)
            hits = 0
            cursor.advance()
            while cursor.token is not _Mark.OBJECT_END:
                column = None
                if hits < len(columns):  # a repeated name counts again
                    column = columns.get(_text(cursor.token))
                    cursor.advance()
                if column is None:
                    cursor.skip()
                else:
                    column(cursor)
                    cursor.advance()
                    hits += 1
            _check(hits == len(columns) or not self._fail_on_missing)

        return read

    def _array(self, t: FlinkType) -> _Step:
        element = self._step(t.fields[0].type)

        def read(cursor: _Cursor) -> None:
            _check(cursor.token is _Mark.ARRAY)
            for _ in cursor.members(_Mark.ARRAY_END):
                element(cursor)

        return read

    def _map(self, t: FlinkType) -> _Step:
        value = self._step(t.fields[1].type if t.root == "MAP" else FlinkType("INT"))

        def read(cursor: _Cursor) -> None:
            _check(cursor.token is _Mark.OBJECT)
            for _ in cursor.members(_Mark.OBJECT_END):
                cursor.close()  # the key, a text
                cursor.advance()
                value(cursor)

        return read

    def _scalar(self, t: FlinkType) -> _Step:
        convert = scalar_converter(t, self._rules)
        by_text = t.root not in ("DECIMAL", "BINARY", "VARBINARY")  # these ask whether the token is a string

        def read(cursor: _Cursor) -> None:
            token = cursor.token
            if by_text and isinstance(token, _Mark | _Name):
                token = str(_text(token))
            convert(token)

        return read


def _check(fine: bool) -> None:
    if not fine:
        raise ValueError
