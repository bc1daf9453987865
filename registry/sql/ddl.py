"""Column lists and types as text, in Flink's or Spark's spelling, read without a JVM.

    id BIGINT NOT NULL, ts TIMESTAMP(3), r ROW<a INT, b ARRAY<STRING>>          Flink
    id LONG, ts TIMESTAMP_NTZ COMMENT 'event time', r STRUCT<a: INT>            Spark

Where both know a word, Flink's meaning wins: TIMESTAMP is TIMESTAMP(6) without time zone, TIME is TIME(0),
BINARY is BINARY(1), whose length nothing enforces, DECIMAL is DECIMAL(10, 0). Names need no backticks unless
they hold other characters than letters, digits, `_` and `$`. Comments are skipped: `-- ...`, `// ...`, `/* ... */`.
Rules: Flink's "Data Types" page.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import replace

from kvformat.registry.contract.errors import SchemaError, did_you_mean
from kvformat.registry.contract.types import MAX_LENGTH, FlinkField, FlinkType, half_a_character

_BLANK = re.compile(r"\s+|--[^\n]*|//[^\n]*")
_TOKEN = r"`[^`]*(?:``[^`]*)*`|'[^']*(?:''[^']*)*'|[^\W\d][\w$]*|\d[\w$]*"
_MAX_DEPTH = 100  # nested types; each takes up to five frames of Python's stack of 1,000
_MOST_DIGITS = 10  # of a precision or length, which is at most 2147483647
_SHOWN = 60  # so many characters of a token are shown in an error

_WORDS: dict[str, tuple[str, dict[str, int]]] = {
    "BOOLEAN": ("BOOLEAN", {}),
    "TINYINT": ("TINYINT", {}),
    "BYTE": ("TINYINT", {}),
    "SMALLINT": ("SMALLINT", {}),
    "SHORT": ("SMALLINT", {}),
    "INT": ("INT", {}),
    "INTEGER": ("INT", {}),
    "BIGINT": ("BIGINT", {}),
    "LONG": ("BIGINT", {}),
    "FLOAT": ("FLOAT", {}),
    "REAL": ("FLOAT", {}),
    "DOUBLE": ("DOUBLE", {}),
    "DECIMAL": ("DECIMAL", {"precision": 10, "scale": 0}),
    "DEC": ("DECIMAL", {"precision": 10, "scale": 0}),
    "NUMERIC": ("DECIMAL", {"precision": 10, "scale": 0}),
    "CHAR": ("CHAR", {"length": 1}),
    "CHARACTER": ("CHAR", {"length": 1}),
    "VARCHAR": ("VARCHAR", {"length": 1}),
    "STRING": ("VARCHAR", {"length": MAX_LENGTH}),
    "BINARY": ("BINARY", {"length": 1}),
    "VARBINARY": ("VARBINARY", {"length": 1}),
    "BYTES": ("VARBINARY", {"length": MAX_LENGTH}),
    "DATE": ("DATE", {}),
    "TIME": ("TIME", {"precision": 0}),
    "TIMESTAMP": ("TIMESTAMP", {"precision": 6}),
    "TIMESTAMP_NTZ": ("TIMESTAMP", {"precision": 6}),
    "TIMESTAMP_LTZ": ("TIMESTAMP_LTZ", {"precision": 6}),
}
_NESTED = ("ARRAY", "MULTISET", "MAP", "ROW", "STRUCT")
_UNSUPPORTED = ("RAW", "VARIANT", "NULL", "VOID", "SYMBOL", "DESCRIPTOR", "BITMAP", "TIMESTAMP_TZ")
_NO_PARAMETERS = ("STRING", "BYTES", "REAL", "BYTE", "SHORT", "LONG")
_INTERVAL_YEAR, _INTERVAL_DAY = ("YEAR", "MONTH"), ("DAY", "HOUR", "MINUTE", "SECOND")


def parse_schema(text: str) -> FlinkType:
    """A column list (`a INT, b STRING`), or one `ROW<...>`, as a ROW.

    Raises `SchemaError`, which quotes the place, for anything that can't be read or that no format can hold.
    """
    return _parse(text, "schema")


def parse_type(text: str) -> FlinkType:
    """A single type, such as `MAP<STRING, ROW<a INT NOT NULL>>`."""
    return _parse(text, "type")


@functools.lru_cache(maxsize=1024)
def _parse(text: str, what: str) -> FlinkType:
    reader = DdlReader(text)
    if what == "type":
        found = reader.type(0)
    elif reader.word() in ("ROW", "STRUCT") and reader.peek(1) in ("<", "("):
        found = replace(reader.type(0), nullable=False)
    else:
        found = FlinkType("ROW", nullable=False, fields=reader.columns("", 0))
    if reader.peek():
        raise reader.error(f"expected the end, found {reader.shown()}")
    return found


_STRAIGHT = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4\uff07", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\uff02", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    "\uff08": "(", "\uff09": ")", "\uff0c": ",", "\uff1b": ";", "\uff1d": "=", "\u037e": ";",
}  # fmt: skip
"""What word processors write instead of a character of SQL."""


def lookalike(character: str) -> str:
    """What is wrong with a character that looks like one of SQL or like nothing; empty for any other."""
    name = f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
    if character in _STRAIGHT:
        return f"unexpected character {character} ({name}), where Flink SQL has {_STRAIGHT[character]}"
    if unicodedata.category(character) in ("Cf", "Zs", "Zl", "Zp"):
        return f"unexpected character {name}, which is invisible: delete it"
    return ""


class DdlReader:
    """The tokens of a text and a place in them."""

    what = "schema"
    token = re.compile(_TOKEN + "|[<>(),:]")

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self.text, self.at = text, 0
        self.start, self.end = start, len(text) if end is None else end
        self.tokens: list[str] = []
        self.places: list[int] = []
        place = self._skip_blank(start)
        while place < self.end:
            match = self.token.match(text, place, self.end)
            if not match:
                raise self.error(self.unreadable(place), place)
            self.tokens.append(match.group())
            self.places.append(place)
            place = self._skip_blank(match.end())

    def _skip_blank(self, place: int) -> int:
        while place < self.end:
            if self.text.startswith("/*+", place):
                raise self.error("a hint has no place here, and Flink takes what begins with /*+ for one", place)
            if self.text.startswith("/*", place):
                close = self.text.find("*/", place + 2, self.end)
                if close < 0:
                    raise self.error("the comment is not closed", place)
                place = close + 2
                continue
            match = _BLANK.match(self.text, place, self.end)
            if not match:
                break
            place = match.end()
        return place

    def unreadable(self, place: int) -> str:
        """Why there is no token."""
        character = self.text[place]
        if character in "'`":
            return "the quote is not closed"
        return lookalike(character) or f"unexpected character {character!r}"

    def place(self) -> int:
        """Where the next token begins."""
        return self.places[self.at] if self.at < len(self.places) else self.end

    def error(self, why: str, place: int | None = None) -> SchemaError:
        """The error of something that can't be read here, or at a place; its `reason` has no introduction."""
        place = self.place() if place is None else place
        reason = f"{why}, at {self.where(place)}{self.near(place)}"
        return SchemaError(f"cannot read the {self.what}: {reason}", reason=reason)

    def near(self, place: int) -> str:
        """The text around a place, to be shown in an error."""
        before = self.text[max(self.start, place - 30) : place]
        return f": {f'{before} ⟨here⟩ {self.text[place : min(place + 30, self.end)]}'.strip()}"

    def shown(self) -> str:
        """The next token as it may be shown in an error."""
        token = self.peek() or "the end"
        return repr(token if len(token) <= _SHOWN else f"{token[:_SHOWN]}...")

    def where(self, place: int) -> str:
        """A place in words."""
        return f"character {place + 1}"

    def peek(self, ahead: int = 0) -> str:
        """The next token, or a later one; empty at the end."""
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def word(self, ahead: int = 0) -> str:
        """The same in capitals."""
        return self.peek(ahead).upper()

    def skip(self, *words: str) -> bool:
        """Step over these words if they come next."""
        if any(self.word(i) != word for i, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def need(self, *words: str) -> None:
        """Step over these words, which must come next."""
        for word in words:
            if not self.skip(word):
                raise self.error(f"expected {word!r}, found {self.shown()}")

    def columns(self, close: str, depth: int) -> tuple[FlinkField, ...]:
        """The members of a ROW, up to a closing bracket."""
        fields: list[FlinkField] = []
        names: set[str] = set()
        while self.peek() != close:
            name = self.name()
            self.skip(":")
            place = self.at
            fields.append(FlinkField(name, self.type(depth + 1)))
            self.skip("COMMENT")
            if self.peek().startswith("'"):
                self.at += 1
            if name in names:
                self.at = place - 1
                raise self.error(f"column {name!r} is there twice")
            names.add(name)
            if self.peek() != close:
                self.need(",")
                if self.peek() == close:
                    raise self.error("expected a column after the comma")
        return tuple(fields)

    def name(self) -> str:
        """A name, its backticks removed."""
        token = self.peek()
        if token.startswith("`"):
            name = token[1:-1].replace("``", "`")
        elif token and (token[0].isalnum() or token[0] == "_"):
            name = token
        else:
            raise self.error(f"expected a column name, found {self.shown()}")
        if not name.strip():
            raise self.error("a column name must have a character other than a blank")
        if not name.isascii() and (wrong := half_a_character(name)):
            place = self.place()
            raise SchemaError(f"cannot read the {self.what}: {wrong}, at {self.where(place)}", reason=wrong)
        self.at += 1
        return name

    def numbers(self, most: int) -> list[int]:
        """Up to `most` numbers in parentheses, if they come next."""
        found: list[int] = []
        if self.skip("("):
            while True:
                if not (self.peek().isascii() and self.peek().isdecimal()):
                    raise self.error(f"expected a number, found {self.shown()}")
                digits = self.peek().lstrip("0")
                if len(digits) > _MOST_DIGITS:
                    raise self.error(f"a number of {len(digits)} digits is too large, at most {_MOST_DIGITS} are read")
                found.append(int(digits or "0"))
                self.at += 1
                if len(found) == most or not self.skip(","):
                    break
            self.need(")")
        return found

    def type(self, depth: int) -> FlinkType:
        """A type, with its NULL or NOT NULL."""
        if depth > _MAX_DEPTH:
            raise self.error(f"types are nested more than {_MAX_DEPTH} deep")
        found = self._nullability(self._plain_type(depth))
        while self.word() in ("ARRAY", "MULTISET") and self.peek(1) != "<":  # `INT ARRAY`, SQL's postfix form
            depth += 1
            if depth > _MAX_DEPTH:
                raise self.error(f"types are nested more than {_MAX_DEPTH} deep")
            root = self.word()
            self.at += 1
            found = self._nullability(FlinkType(root, fields=(FlinkField("element", found),)))
        return found

    def _nullability(self, found: FlinkType) -> FlinkType:
        if self.skip("NOT", "NULL"):
            return replace(found, nullable=False)
        self.skip("NULL")
        return found

    def _plain_type(self, depth: int) -> FlinkType:
        start, word = self.at, self.word()
        if not word or not (word[0].isalpha() or word[0] == "_"):
            raise self.error(f"expected a type, found {self.shown()}")
        self.at += 1
        if word in _NESTED:
            return self._nested(word, depth)
        if word == "INTERVAL":
            return self._interval()
        if word in _UNSUPPORTED:
            self.at = start
            raise self.error(f"no format can hold the type {word}")
        if word not in _WORDS:
            self.at = start
            known = [*_WORDS, *_NESTED, "INTERVAL"]
            raise self.error(f"unknown type {self.shown()}.{did_you_mean(word, known)} Known types: {', '.join(known)}")
        root, defaults = _WORDS[word]
        if word == "DOUBLE":
            self.skip("PRECISION")
        if self.skip("VARYING"):
            if word not in ("CHAR", "CHARACTER", "BINARY"):
                self.at = start
                raise self.error(f"{word} VARYING is no type")
            root = "VARBINARY" if word == "BINARY" else "VARCHAR"
        numbers = self.numbers(len(defaults)) if defaults and word not in _NO_PARAMETERS else []
        found = FlinkType(root, **(defaults | dict(zip(defaults, numbers, strict=False))))  # type: ignore[arg-type]
        if root in ("TIME", "TIMESTAMP") and word != "TIMESTAMP_NTZ":
            found = self._time_zone(found, start)
        self._check(found, start)
        return found

    def _time_zone(self, found: FlinkType, start: int) -> FlinkType:
        if self.skip("WITHOUT", "TIME", "ZONE"):
            return found
        if found.root == "TIMESTAMP" and self.skip("WITH", "LOCAL", "TIME", "ZONE"):
            return replace(found, root="TIMESTAMP_LTZ")
        if self.word() in ("WITH", "WITHOUT"):
            self.at = start
            raise self.error(f"no format can hold {found.root} WITH TIME ZONE; use TIMESTAMP or TIMESTAMP_LTZ")
        return found

    def _check(self, found: FlinkType, start: int) -> None:
        wrong = ""
        if found.root == "DECIMAL" and not (
            1 <= (found.precision or 0) <= 38 and (found.scale or 0) <= (found.precision or 0)
        ):
            wrong = "DECIMAL takes a precision from 1 to 38 and a scale from 0 to the precision"
        elif found.root in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ") and (found.precision or 0) > 9:
            wrong = f"{found.root} takes a precision from 0 to 9"
        elif found.length is not None and not 1 <= found.length <= MAX_LENGTH:
            wrong = f"{found.root} takes a length from 1 to {MAX_LENGTH}"
        if wrong:
            self.at = start
            raise self.error(wrong)

    def _nested(self, word: str, depth: int) -> FlinkType:
        if word in ("ROW", "STRUCT"):
            close = {"<": ">", "(": ")"}.get(self.peek())
            if close is None:
                raise self.error(f"expected '<' after {word}")
            self.at += 1
            fields = self.columns(close, depth)
            self.need(close)
            return FlinkType("ROW", fields=fields)
        self.need("<")
        names = ("key", "value") if word == "MAP" else ("element",)
        members = []
        for i, name in enumerate(names):
            if i:
                self.need(",")
            members.append(FlinkField(name, self.type(depth + 1)))
        self.need(">")
        return FlinkType(word, fields=tuple(members))

    def _interval(self) -> FlinkType:
        """`YEAR(4) TO MONTH`, `DAY TO SECOND(3)` and shorter forms; months and milliseconds whatever the precision."""
        units = _INTERVAL_YEAR if self.word() in _INTERVAL_YEAR else _INTERVAL_DAY
        first = self._interval_unit(units, -1)
        if self.skip("TO"):
            self._interval_unit(units, first)
        return FlinkType("INTERVAL YEAR TO MONTH" if units is _INTERVAL_YEAR else "INTERVAL DAY TO SECOND")

    def _interval_unit(self, units: tuple[str, ...], after: int) -> int:
        if self.word() not in units[after + 1 :]:
            raise self.error(f"expected one of {', '.join(units[after + 1 :])}, found {self.shown()}")
        self.at += 1
        self.numbers(1)
        return units.index(self.word(-1)) if self.word(-1) in units else after + 1
