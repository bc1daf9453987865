r"""Parse column lists and types from text, in Flink's or Spark's spelling, without a JVM.

    id BIGINT NOT NULL, ts TIMESTAMP(3), r ROW<a INT, b ARRAY<STRING>>          Flink
    id LONG, ts TIMESTAMP_NTZ COMMENT 'event time', r STRUCT<a: INT>            Spark

If a word exists in both, it has Flink's meaning: TIMESTAMP is TIMESTAMP(6) without time zone, TIME is TIME(0),
BINARY is BINARY(1) (nothing enforces the length), DECIMAL is DECIMAL(10, 0). Names need backticks only for characters
other than letters, digits, `_` and `$`. Comments are skipped: `-- ...`, `// ...`, `/* ... */`.

A string literal may have a prefix. The reader turns each into the token of a plain literal with the same text:

    U&'\0001'    U&'!0001' UESCAPE '!'    four hexadecimal digits of UTF-16 after each escape character
    E'\t'        E'\u0001'                escapes as in C
    N'a'         _UTF8'a'                 a character set, which does not change the text
    U&"a\0062"                            a name, with the token of a name in backticks

Rules: Flink's "Data Types" page; the literals are those of Calcite's `Parser.jj`, as Flink 2.3 reads them.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import replace

from kvformat.registry.contract.errors import SchemaError, did_you_mean
from kvformat.registry.contract.types import MAX_LENGTH, FlinkField, FlinkType, half_a_character

_BLANK = re.compile(r"\s+|--[^\n\r]*|//[^\n\r]*")
STRING = r"'[^']*(?:''[^']*)*'"
PREFIXED = (
    rf"(?:[uU]&|[nN]|_[A-Za-z0-9][A-Za-z0-9:._-]*){STRING}|"
    r"[eE]'[^'\\]*(?:(?:''|\\[\s\S])[^'\\]*)*'|"
    r'[uU]&"(?:[^"\n\r]|"")+"'
)
NAME = r"`[^`]*(?:``[^`]*)*`|(?:[^\W\d]|\$(?=[\w$]))[\w$]*"
"""Patterns of a plain string literal, of literals and names with a prefix, and of other names and words."""
_TOKEN = rf"{STRING}|(?P<prefixed>{PREFIXED})|{NAME}|\d[\w$]*"
_STRING = re.compile(STRING)
_UESCAPE = re.compile(r"UESCAPE(?![\w$])", re.IGNORECASE)
_NOT_ESCAPE = re.compile(r'[0-9A-Fa-f+"\s]')
_CHARSETS = (
    "BIG5", "GB2312", "GBK", "ISO-8859-1", "LATIN1", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-8", "UTF16", "UTF8",
)  # fmt: skip
_LATIN = ("N", "_ISO-8859-1", "_LATIN1")  # prefixes of strings whose characters Flink checks
_C_ESCAPE = re.compile(
    r"''|\\(?:(?P<letter>[bfnrt\\'])|(?P<octal>[0-7]{1,3})|x(?P<byte>[0-9A-Fa-f]{0,2})|"
    r"(?P<wide>[uU])(?P<code>(?<=u)[0-9A-Fa-f]{4}|(?<=U)[0-9A-Fa-f]{8})?)"
)
_C_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'"}
_MOST_BYTE, _MOST_UNIT, _MOST_CODE = 0xFF, 0xFFFF, 0x10FFFF  # of a byte, of UTF-16, of Unicode
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
    "VARCHAR": ("VARCHAR", {"length": MAX_LENGTH}),
    "STRING": ("VARCHAR", {"length": MAX_LENGTH}),
    "BINARY": ("BINARY", {"length": 1}),
    "VARBINARY": ("VARBINARY", {"length": MAX_LENGTH}),
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
        parsed = reader.type(0)
    elif reader.word() in ("ROW", "STRUCT") and reader.peek(1) in ("<", "("):
        parsed = replace(reader.type(0), nullable=False)
    else:
        parsed = FlinkType("ROW", nullable=False, fields=reader.columns("", 0))
    if reader.peek():
        raise reader.error(f"expected the end of the text, found {reader.shown()}")
    return parsed


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


def literal_text(token: str) -> str:
    """Return the text that the token of a string literal means. A token of `DdlReader` is always a plain literal."""
    return token[1:-1].replace("''", "'")


def _unicode_unescaped(text: str, escape: str) -> str:
    """Replace an escape character and four hexadecimal digits by a character. Raises `ValueError` with the reason."""
    unescaped, *rest = text.split(escape)
    after = iter(rest)
    for part in after:
        if not part and (literal := next(after, None)) is not None:  # the escape character twice means itself
            unescaped += escape + literal
        elif re.match("[0-9A-Fa-f]{4}", part):
            unescaped += chr(int(part[:4], 16)) + part[4:]
        else:
            raise ValueError("an escape character in U&'...' needs exactly four hexadecimal digits after it")
    return _whole_characters(unescaped)


def _c_unescaped(text: str) -> str:
    """Replace the escapes of E'...' by what they mean. Raises `ValueError` with the reason."""

    def meaning(match: re.Match[str]) -> str:
        if match["letter"] is not None:
            return _C_LETTERS[match["letter"]]
        if match["octal"] is not None:
            code = int(match["octal"], 8)
            return chr(code) if code <= _MOST_BYTE else match.group()
        if match["byte"] is not None:
            return chr(int(match["byte"], 16)) if match["byte"] else "x"
        if match["wide"] is None:
            return "'"
        if match["code"] is None:
            raise ValueError("in E'...' \\u needs four hexadecimal digits after it, and \\U eight")
        if int(match["code"], 16) > _MOST_CODE:
            raise ValueError("in E'...' the number after \\U is larger than 0010FFFF, the last character")
        return chr(int(match["code"], 16))

    return _whole_characters(_C_ESCAPE.sub(meaning, text))


def _whole_characters(text: str) -> str:
    """Join two surrogates to the character that they mean. Raises `ValueError` for a single surrogate."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if half_a_character(text):
            raise ValueError("an escape means half of a character (a single surrogate): write both halves")
    return text


def _check_charset(prefix: str, text: str) -> None:
    """Check the character set of N'...' and _UTF8'...'. Raises `ValueError` with the reason."""
    if prefix != "N" and prefix[1:] not in _CHARSETS:
        raise ValueError(f"unknown character set before the quote; known are _{', _'.join(_CHARSETS)}")
    if prefix in _LATIN and max(text, default="") > "\xff":
        raise ValueError("N'...', _LATIN1'...' and _ISO-8859-1'...' have only characters of ISO-8859-1: use '...'")


class DdlReader:
    """Splits a text into tokens and parses types from them.

    `index` is the index of the next token, `offsets` are the offsets of the tokens in the text. A literal with a prefix
    has the token of the plain literal with the same text, and U&"..." that of a name in backticks. Errors begin with
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
            if match.lastgroup == "prefixed":
                offset = self._add_prefixed(offset, match.end())
            else:
                self.tokens.append(match.group())
                self.offsets.append(offset)
                offset = self._skip_blank(match.end())

    def _add_prefixed(self, start: int, end: int) -> int:
        """Add the tokens of a literal or name with a prefix, and of the strings that continue it.

        Returns the offset of the next token.
        """
        prefix, quote, _ = re.split("(['\"])", self.text[start:end], maxsplit=1)
        prefix = prefix.upper()
        parts = [(start, self.text[start + len(prefix) : end])]
        end = self._skip_blank(end)
        while quote == "'" and prefix != "E" and (match := _STRING.match(self.text, end, self.end)):
            parts.append((end, match.group()))
            end = self._skip_blank(match.end())
        escape = "\\"
        if prefix == "U&" and (match := _UESCAPE.match(self.text, end, self.end)):
            escape, end = self._escape_character(self._skip_blank(match.end()))
        for offset, part in parts:
            text = part[1:-1].replace(quote * 2, quote) if prefix != "E" else part[1:-1]
            try:
                if prefix == "U&":
                    text = _unicode_unescaped(text, escape)
                elif prefix == "E":
                    text = _c_unescaped(text)
                else:
                    _check_charset(prefix, text)
            except ValueError as cause:
                raise self.error(str(cause), start) from None
            mark = "'" if quote == "'" else "`"
            self.tokens.append(mark + text.replace(mark, mark * 2) + mark)
            self.offsets.append(offset)
        return end

    def _escape_character(self, offset: int) -> tuple[str, int]:
        """Parse the character after UESCAPE; returns it, and the offset of the next token."""
        match = _STRING.match(self.text, offset, self.end)
        escape = literal_text(match.group()) if match else ""
        if match is None or len(escape) != 1 or _NOT_ESCAPE.match(escape) or ord(escape) > _MOST_UNIT:
            raise self.error(
                'UESCAPE needs one character in single quotes, which is not a hexadecimal digit, a blank, + or "',
                offset,
            )
        return escape, self._skip_blank(match.end())

    def _skip_blank(self, offset: int) -> int:
        while offset < self.end:
            if self.text.startswith("/*+", offset):
                if self.takes_hints:
                    break
                raise self.error("/*+ begins a hint, and a hint is not allowed here", offset)
            if self.text.startswith("/*", offset):
                # Calcite skips the character after /**, unless it ends the comment /**/. So /***/ is not closed.
                formal = self.text.startswith("/**", offset) and not self.text.startswith("/**/", offset)
                close = self.text.find("*/", offset + (4 if formal else 2), self.end)
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
        if character == '"':
            return (
                "a double quote begins no string and no name in Flink SQL: write 'text' or `name`; is a single quote "
                "missing before it?"
            )
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
            if self.skip("COMMENT") or self.peek().startswith("'"):
                self.plain_text("a comment")
            if name in names:
                self.index = after_name - 1
                raise self.error(f"there are two columns named {name!r}")
            names.add(name)
            if self.peek() != close:
                self.expect(",")
                if self.peek() == close:
                    raise self.error("expected a column after the comma")
        return tuple(fields)

    def plain_text(self, what: str) -> str:
        """Parse a string literal without a prefix; an error says that `what` is expected."""
        token = self.peek()
        if not token.startswith("'") or not self.text.startswith(token, self.offset()):
            raise self.error(f"expected {what} in single quotes without a prefix, found {self.shown()}")
        self.index += 1
        return literal_text(token)

    def name(self) -> str:
        """Parse a name and remove its backticks."""
        token = self.peek()
        if token.startswith("`"):
            name = token[1:-1].replace("``", "`")
        elif token and (token[0].isalnum() or token[0] in "_$"):
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
        numbers: list[int] = []
        if self.skip("("):
            while True:
                if not (self.peek().isascii() and self.peek().isdecimal()):
                    raise self.error(f"expected a number, found {self.shown()}")
                digits = self.peek().lstrip("0")
                if len(digits) > _MOST_DIGITS:
                    raise self.error(
                        f"a number of {len(digits)} digits is too large, the limit is {_MOST_DIGITS} digits"
                    )
                numbers.append(int(digits or "0"))
                self.index += 1
                if len(numbers) == most or not self.skip(","):
                    break
            self.expect(")")
        return numbers

    def type(self, depth: int) -> FlinkType:
        """Parse a type, with its NULL or NOT NULL."""
        if depth > _MAX_DEPTH:
            raise self.error(f"types are nested more than {_MAX_DEPTH} levels deep")
        parsed = self._nullability(self._plain_type(depth))
        while self.word() in ("ARRAY", "MULTISET") and self.peek(1) != "<":  # `INT ARRAY`, SQL's postfix form
            depth += 1
            if depth > _MAX_DEPTH:
                raise self.error(f"types are nested more than {_MAX_DEPTH} levels deep")
            root = self.word()
            self.index += 1
            parsed = self._nullability(FlinkType(root, fields=(FlinkField("element", parsed),)))
        return parsed

    def _nullability(self, parsed: FlinkType) -> FlinkType:
        if self.skip("NOT", "NULL"):
            return replace(parsed, nullable=False)
        self.skip("NULL")
        return parsed

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
            root, defaults = _SIMPLE_TYPES["VARBINARY" if word == "BINARY" else "VARCHAR"]
        numbers = self.numbers(len(defaults)) if defaults and word not in _NO_PARAMETERS else []
        parsed = FlinkType(root, **(defaults | dict(zip(defaults, numbers, strict=False))))  # type: ignore[arg-type]
        if root in ("TIME", "TIMESTAMP") and word != "TIMESTAMP_NTZ":
            parsed = self._time_zone(parsed, start)
        self._check(parsed, start)
        return parsed

    def _time_zone(self, parsed: FlinkType, start: int) -> FlinkType:
        if self.skip("WITHOUT", "TIME", "ZONE"):
            return parsed
        if parsed.root == "TIMESTAMP" and self.skip("WITH", "LOCAL", "TIME", "ZONE"):
            return replace(parsed, root="TIMESTAMP_LTZ")
        if self.word() in ("WITH", "WITHOUT"):
            self.index = start
            raise self.error(f"no format supports {parsed.root} WITH TIME ZONE; use TIMESTAMP or TIMESTAMP_LTZ")
        return parsed

    def _check(self, parsed: FlinkType, start: int) -> None:
        wrong = ""
        if parsed.root == "DECIMAL" and not (
            1 <= (parsed.precision or 0) <= 38 and (parsed.scale or 0) <= (parsed.precision or 0)
        ):
            wrong = "DECIMAL needs a precision from 1 to 38 and a scale from 0 to the precision"
        elif parsed.root in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ") and (parsed.precision or 0) > 9:
            wrong = f"{parsed.root} needs a precision from 0 to 9"
        elif parsed.length is not None and not 1 <= parsed.length <= MAX_LENGTH:
            wrong = f"{parsed.root} needs a length from 1 to {MAX_LENGTH}"
        if wrong:
            self.index = start
            raise self.error(wrong)

    def _nested(self, word: str, depth: int) -> FlinkType:
        if word in ("ROW", "STRUCT"):
            if self.skip("<>"):
                return FlinkType("ROW")
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
