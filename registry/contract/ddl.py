"""Parse column lists and types from text, in Flink's or Spark's spelling, without a JVM.

    id BIGINT NOT NULL, ts TIMESTAMP(3), r ROW<a INT, b ARRAY<STRING>>          Flink
    id LONG, ts TIMESTAMP_NTZ COMMENT 'event time', r STRUCT<a: INT>            Spark

If a word exists in both, it has Flink's meaning: TIMESTAMP is TIMESTAMP(6) without time zone, TIME is TIME(0),
BINARY is BINARY(1) (nothing enforces the length), DECIMAL is DECIMAL(10, 0). Names need backticks only for characters
other than letters, digits, `_` and `$`. Comments are skipped: `-- ...`, `// ...`, `/* ... */`.
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
_MAX_DEPTH = 100  # levels of nested types; each needs up to five frames of Python's stack of 1,000
_MOST_DIGITS = 10  # digits of a precision or length, which is at most 2147483647
_SHOWN = 60  # characters of a token that an error shows

_SIMPLE_TYPES: dict[str, tuple[str, dict[str, int]]] = {
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
    "VARIANT": ("VARIANT", {}),
}
_NESTED = ("ARRAY", "MULTISET", "MAP", "ROW", "STRUCT")
_UNSUPPORTED = ("RAW", "NULL", "VOID", "SYMBOL", "DESCRIPTOR", "BITMAP", "TIMESTAMP_TZ")
_NO_PARAMETERS = ("STRING", "BYTES", "REAL", "BYTE", "SHORT", "LONG")
_INTERVAL_YEAR, _INTERVAL_DAY = ("YEAR", "MONTH"), ("DAY", "HOUR", "MINUTE", "SECOND")


def parse_schema(text: str) -> FlinkType:
    """Parse a column list (`a INT, b STRING`), or one `ROW<...>`, into a ROW.

    Raises `SchemaError`, with the position and the text around it, for invalid text and for types that no format
    supports.
    """
    return _parse(text, "schema")


def parse_type(text: str) -> FlinkType:
    """Parse a single type, such as `MAP<STRING, ROW<a INT NOT NULL>>`. Raises `SchemaError`."""
    return _parse(text, "type")


@functools.lru_cache(maxsize=1024)
def _parse(text: str, subject: str) -> FlinkType:
    reader = DdlReader(text)
    if subject == "type":
        found = reader.type(0)
    elif reader.word() in ("ROW", "STRUCT") and reader.peek(1) in ("<", "("):
        found = replace(reader.type(0), nullable=False)
    else:
        found = FlinkType("ROW", nullable=False, fields=reader.columns("", 0))
    if reader.peek():
        raise reader.error(f"expected the end of the text, found {reader.shown()}")
    return found


_LOOKALIKES = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4\uff07", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\uff02", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    "\uff08": "(", "\uff09": ")", "\uff0c": ",", "\uff1b": ";", "\uff1d": "=", "\u037e": ";",
}  # fmt: skip
"""Characters that word processors insert, and the character of SQL that each looks like."""


def lookalike(character: str) -> str:
    """Return what is wrong with a character that is invisible or looks like one of SQL; "" for any other character."""
    name = f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
    if character in _LOOKALIKES:
        return f"unexpected character {character} ({name}) instead of {_LOOKALIKES[character]}"
    if unicodedata.category(character) in ("Cf", "Zs", "Zl", "Zp"):
        return f"unexpected character {name}, which is invisible: delete it"
    return ""


class DdlReader:
    """Splits a text into tokens and parses types from them.

    `index` is the index of the next token, `offsets` are the offsets of the tokens in the text. Errors begin with
    "cannot read the" and `subject`.
    """

    subject = "schema"
    token = re.compile(_TOKEN + "|[<>(),:]")
    takes_hints = False
    """Whether `/*+` is a token, and not an error."""

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self.text, self.index = text, 0
        self.start, self.end = start, len(text) if end is None else end
        self.tokens: list[str] = []
        self.offsets: list[int] = []
        offset = self._skip_blank(start)
        while offset < self.end:
            match = self.token.match(text, offset, self.end)
            if not match:
                raise self.error(self.unreadable(offset), offset)
            self.tokens.append(match.group())
            self.offsets.append(offset)
            offset = self._skip_blank(match.end())

    def _skip_blank(self, offset: int) -> int:
        while offset < self.end:
            if self.text.startswith("/*+", offset):
                if self.takes_hints:
                    break
                raise self.error("/*+ begins a hint, and a hint is not allowed here", offset)
            if self.text.startswith("/*", offset):
                close = self.text.find("*/", offset + 2, self.end)
                if close < 0:
                    raise self.error("the comment is not closed", offset)
                offset = close + 2
                continue
            match = _BLANK.match(self.text, offset, self.end)
            if not match:
                break
            offset = match.end()
        return offset

    def unreadable(self, offset: int) -> str:
        """Return why no token begins at an offset."""
        character = self.text[offset]
        if character in "'`":
            return "the quote is not closed"
        return lookalike(character) or f"unexpected character {character!r}"

    def offset(self) -> int:
        """Return the offset of the next token."""
        return self.offsets[self.index] if self.index < len(self.offsets) else self.end

    def error(self, why: str, offset: int | None = None) -> SchemaError:
        """Return an error for the next token, or for an offset; its `reason` does not have the introduction."""
        offset = self.offset() if offset is None else offset
        reason = f"{why}, at {self.position(offset)}{self.context(offset)}"
        return SchemaError(f"cannot read the {self.subject}: {reason}", reason=reason)

    def context(self, offset: int) -> str:
        """Return the text around an offset, for an error."""
        before = self.text[max(self.start, offset - 30) : offset]
        return f": {f'{before} ⟨here⟩ {self.text[offset : min(offset + 30, self.end)]}'.strip()}"

    def shown(self) -> str:
        """Return the next token, quoted and shortened for an error."""
        token = self.peek()
        if not token:
            return "the end of the text"
        return repr(token if len(token) <= _SHOWN else f"{token[:_SHOWN]}...")

    def position(self, offset: int) -> str:
        """Return an offset in words."""
        return f"character {offset + 1}"

    def peek(self, ahead: int = 0) -> str:
        """Return the next token, or the one `ahead` tokens later; "" at the end."""
        return self.tokens[self.index + ahead] if self.index + ahead < len(self.tokens) else ""

    def word(self, ahead: int = 0) -> str:
        """Return the next token, or a later one, in upper case."""
        return self.peek(ahead).upper()

    def skip(self, *words: str) -> bool:
        """Skip these words if they are next; return whether they were."""
        if any(self.word(i) != word for i, word in enumerate(words)):
            return False
        self.index += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Skip these words; raises `SchemaError` if they are not next."""
        for word in words:
            if not self.skip(word):
                raise self.error(f"expected {word!r}, found {self.shown()}")

    def columns(self, close: str, depth: int) -> tuple[FlinkField, ...]:
        """Parse the fields of a ROW up to the closing bracket `close`, or to the end if it is ""."""
        fields: list[FlinkField] = []
        names: set[str] = set()
        while self.peek() != close:
            name = self.name()
            self.skip(":")
            after_name = self.index
            fields.append(FlinkField(name, self.type(depth + 1)))
            self.skip("COMMENT")
            if self.peek().startswith("'"):
                self.index += 1
            if name in names:
                self.index = after_name - 1
                raise self.error(f"there are two columns named {name!r}")
            names.add(name)
            if self.peek() != close:
                self.expect(",")
                if self.peek() == close:
                    raise self.error("expected a column after the comma")
        return tuple(fields)

    def name(self) -> str:
        """Parse a name and remove its backticks."""
        token = self.peek()
        if token.startswith("`"):
            name = token[1:-1].replace("``", "`")
        elif token and (token[0].isalnum() or token[0] == "_"):
            name = token
        else:
            raise self.error(f"expected a column name, found {self.shown()}")
        if not name.strip():
            raise self.error("a column name must not be empty or blank")
        if not name.isascii() and (wrong := half_a_character(name)):
            offset = self.offset()
            raise SchemaError(f"cannot read the {self.subject}: {wrong}, at {self.position(offset)}", reason=wrong)
        self.index += 1
        return name

    def numbers(self, most: int) -> list[int]:
        """Parse up to `most` numbers in parentheses; returns [] if no parenthesis is next."""
        found: list[int] = []
        if self.skip("("):
            while True:
                if not (self.peek().isascii() and self.peek().isdecimal()):
                    raise self.error(f"expected a number, found {self.shown()}")
                digits = self.peek().lstrip("0")
                if len(digits) > _MOST_DIGITS:
                    raise self.error(
                        f"a number of {len(digits)} digits is too large, the limit is {_MOST_DIGITS} digits"
                    )
                found.append(int(digits or "0"))
                self.index += 1
                if len(found) == most or not self.skip(","):
                    break
            self.expect(")")
        return found

    def type(self, depth: int) -> FlinkType:
        """Parse a type, with its NULL or NOT NULL."""
        if depth > _MAX_DEPTH:
            raise self.error(f"types are nested more than {_MAX_DEPTH} levels deep")
        found = self._nullability(self._plain_type(depth))
        while self.word() in ("ARRAY", "MULTISET") and self.peek(1) != "<":  # `INT ARRAY`, SQL's postfix form
            depth += 1
            if depth > _MAX_DEPTH:
                raise self.error(f"types are nested more than {_MAX_DEPTH} levels deep")
            root = self.word()
            self.index += 1
            found = self._nullability(FlinkType(root, fields=(FlinkField("element", found),)))
        return found

    def _nullability(self, found: FlinkType) -> FlinkType:
        if self.skip("NOT", "NULL"):
            return replace(found, nullable=False)
        self.skip("NULL")
        return found

    def _plain_type(self, depth: int) -> FlinkType:
        start, word = self.index, self.word()
        if not word or not (word[0].isalpha() or word[0] == "_"):
            raise self.error(f"expected a type, found {self.shown()}")
        self.index += 1
        if word in _NESTED:
            return self._nested(word, depth)
        if word == "INTERVAL":
            return self._interval()
        if word in _UNSUPPORTED:
            self.index = start
            raise self.error(f"no format supports the type {word}")
        if word not in _SIMPLE_TYPES:
            self.index = start
            known = [*_SIMPLE_TYPES, *_NESTED, "INTERVAL"]
            raise self.error(f"unknown type {self.shown()}.{did_you_mean(word, known)} Known types: {', '.join(known)}")
        root, defaults = _SIMPLE_TYPES[word]
        if word == "DOUBLE":
            self.skip("PRECISION")
        if self.skip("VARYING"):
            if word not in ("CHAR", "CHARACTER", "BINARY"):
                self.index = start
                raise self.error(f"{word} VARYING is not a type")
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
            self.index = start
            raise self.error(f"no format supports {found.root} WITH TIME ZONE; use TIMESTAMP or TIMESTAMP_LTZ")
        return found

    def _check(self, found: FlinkType, start: int) -> None:
        wrong = ""
        if found.root == "DECIMAL" and not (
            1 <= (found.precision or 0) <= 38 and (found.scale or 0) <= (found.precision or 0)
        ):
            wrong = "DECIMAL needs a precision from 1 to 38 and a scale from 0 to the precision"
        elif found.root in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ") and (found.precision or 0) > 9:
            wrong = f"{found.root} needs a precision from 0 to 9"
        elif found.length is not None and not 1 <= found.length <= MAX_LENGTH:
            wrong = f"{found.root} needs a length from 1 to {MAX_LENGTH}"
        if wrong:
            self.index = start
            raise self.error(wrong)

    def _nested(self, word: str, depth: int) -> FlinkType:
        if word in ("ROW", "STRUCT"):
            close = {"<": ">", "(": ")"}.get(self.peek())
            if close is None:
                raise self.error(f"expected '<' after {word}")
            self.index += 1
            fields = self.columns(close, depth)
            self.expect(close)
            return FlinkType("ROW", fields=fields)
        self.expect("<")
        names = ("key", "value") if word == "MAP" else ("element",)
        members = []
        for i, name in enumerate(names):
            if i:
                self.expect(",")
            members.append(FlinkField(name, self.type(depth + 1)))
        self.expect(">")
        return FlinkType(word, fields=tuple(members))

    def _interval(self) -> FlinkType:
        """Parse `YEAR(4) TO MONTH`, `DAY TO SECOND(3)` and shorter forms.

        The type has months or milliseconds, whatever the precision.
        """
        units = _INTERVAL_YEAR if self.word() in _INTERVAL_YEAR else _INTERVAL_DAY
        first = self._interval_unit(units, -1)
        if self.skip("TO"):
            self._interval_unit(units, first)
        return FlinkType("INTERVAL YEAR TO MONTH" if units is _INTERVAL_YEAR else "INTERVAL DAY TO SECOND")

    def _interval_unit(self, units: tuple[str, ...], after: int) -> int:
        if self.word() not in units[after + 1 :]:
            raise self.error(f"expected one of {', '.join(units[after + 1 :])}, found {self.shown()}")
        self.index += 1
        self.numbers(1)
        return units.index(self.word(-1)) if self.word(-1) in units else after + 1
