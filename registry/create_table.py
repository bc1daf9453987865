"""Flink's CREATE TABLE, read as it is pasted: columns, metadata, primary key, watermark, options.

    CREATE TABLE orders (
      id BIGINT,                                                    -- a physical column
      `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,      -- metadata
      total AS price * amount,                                      -- computed
      WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
      PRIMARY KEY (id) NOT ENFORCED
    ) COMMENT 'orders' WITH ('connector' = 'kafka', ...)

Errors name line and column. Expressions stay text: those of computed columns are turned into Spark SQL as far as
spelling goes (types in CAST, strings, comments), a watermark into a column and a delay.
Rules: Flink's "CREATE Statements" page and its `Parser.jj`.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

from kvformat.registry.ddl import Reader
from kvformat.registry.types import FlinkField, FlinkType, quoted

_OPERATOR = r"<>|!=|<=|>=|\|\||\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+|[<>(),:;=.+\-*/%\[\]{}?]"
# What Flink and Spark spell alike but mean otherwise, or what exists in Flink only.
_FLINK_ONLY = {
    "PROCTIME": "processing time has no counterpart in a row; use current_timestamp() in a query",
    "CURRENT_WATERMARK": "Spark SQL has no such function",
    "TO_TIMESTAMP_LTZ": "Spark has it only for a number with precision 0 or 3, TO_TIMESTAMP_LTZ(n, 3)",
}
_RENAMED = {"TO_TIMESTAMP": "to_timestamp_ntz"}  # in Flink it gives a TIMESTAMP without time zone
_EPOCHS = {"0": "timestamp_seconds", "3": "timestamp_millis"}  # TO_TIMESTAMP_LTZ by precision
_DEPTH = {"(": 1, "[": 1, ")": -1, "]": -1}
_SPARK_NAMES = {
    "CHAR": "STRING",
    "VARCHAR": "STRING",
    "BINARY": "BINARY",
    "VARBINARY": "BINARY",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
}
_MILLIS = {"WEEK": 604_800_000, "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}

ColumnKind = Literal["physical", "metadata", "computed"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `type` is None for a computed one; `key` is the metadata key.

    A computed column has its expression as written (`source`) and as Spark SQL (`expression`); `refused` says why
    Spark can't evaluate it, where that is known without Spark.
    """

    name: str
    kind: ColumnKind
    type: FlinkType | None = None
    key: str = ""
    virtual: bool = False
    source: str = ""
    expression: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Watermark:
    """An event-time column and how many milliseconds late its rows may be."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a CREATE TABLE says; `options` are as written, without the quotes."""

    name: str
    columns: tuple[Column, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    primary_key: tuple[str, ...] | None = None
    watermark: Watermark | None = None
    partition_keys: tuple[str, ...] = ()

    def physical(self) -> FlinkType:
        """The physical columns as a ROW."""
        fields = (FlinkField(c.name, c.type) for c in self.columns if c.kind == "physical" and c.type is not None)
        return FlinkType("ROW", nullable=False, fields=tuple(fields))

    def metadata(self) -> tuple[Column, ...]:
        """The metadata columns."""
        return tuple(column for column in self.columns if column.kind == "metadata")


def parse_create_table(text: str) -> TableDefinition:
    """The table of one CREATE TABLE statement; raises `SchemaError` with line and column."""
    return _Statement(text).table()


class _Statement(Reader):
    what = "CREATE TABLE"
    token = re.compile(f"{_OPERATOR}|{Reader.token.pattern}")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        for i, (token, following) in enumerate(zip(self.tokens, self.tokens[1:], strict=False)):
            if token == "/" and following == "*" and self.places[i + 1] == self.places[i] + 1:
                raise self.error("the comment is not closed", self.places[i])
        self._columns: list[Column] = []
        self._key: tuple[tuple[str, int], ...] | None = None
        self._watermark: tuple[Watermark, int] | None = None

    def where(self, place: int) -> str:
        """Line and column, both from 1."""
        line = self.text.count("\n", 0, place) + 1
        return f"line {line}, column {place - self.text.rfind(chr(10), 0, place)}"

    def near(self, place: int) -> str:
        """Nothing of the options is shown: there are passwords among them."""
        in_options = any(token.upper() == "WITH" for token in self.tokens[: bisect.bisect(self.places, place)])
        return "" if in_options else super().near(place)

    def table(self) -> TableDefinition:
        self.need("CREATE")
        self.skip("OR", "REPLACE")
        self.skip("TEMPORARY")
        self.need("TABLE")
        self.skip("IF", "NOT", "EXISTS")
        name = [self.name()]
        while self.skip("."):
            name.append(self.name())
        self.need("(")
        while True:
            self._element()
            if not self.skip(","):
                break
        self.need(")")
        if self.skip("COMMENT"):
            self._string("a comment")
        partition_keys = self._names() if self.skip("PARTITIONED", "BY") else ()
        options = self._options() if self.skip("WITH") else {}
        if self.word() in ("AS", "LIKE"):
            raise self.error(f"CREATE TABLE ... {self.word()} needs a catalog; write the columns out")
        self.skip(";")
        if self.peek():
            raise self.error(f"expected the end, found {self.peek()!r} (one statement at a time)")
        return self._checked(
            TableDefinition(
                ".".join(name),
                tuple(self._columns),
                options,
                partition_keys=tuple(name for name, _ in partition_keys),
            ),
            partition_keys,
        )

    def _plain_type(self, depth: int) -> FlinkType:
        """A type; TIME has milliseconds at most, as Flink plans it whatever the DDL says."""
        found = super()._plain_type(depth)
        return replace(found, precision=min(found.precision or 0, 3)) if found.root == "TIME" else found

    def _checked(self, table: TableDefinition, partition_keys: tuple[tuple[str, int], ...]) -> TableDefinition:
        """The table with its key and watermark, whose columns must exist."""
        kinds = {column.name: column.kind for column in table.columns}
        for name, place in self._key or ():
            if kinds.get(name) != "physical":
                what = "does not exist" if name not in kinds else "is not a physical column"
                raise self.error(f"column '{name}' of the PRIMARY KEY {what}", place)
        for name, place in partition_keys:
            if name not in kinds:
                raise self.error(f"column '{name}' of PARTITIONED BY does not exist", place)
        if self._watermark is not None:
            self._check_watermark(table, *self._watermark)
        key = None if self._key is None else tuple(name for name, _ in self._key)
        return replace(with_primary_key(table, key), watermark=None if self._watermark is None else self._watermark[0])

    def _check_watermark(self, table: TableDefinition, watermark: Watermark, place: int) -> None:
        column = next((column for column in table.columns if column.name == watermark.column), None)
        if column is None:
            raise self.error(f"column '{watermark.column}' of the WATERMARK does not exist", place)
        if column.type is not None and column.type.root not in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            raise self.error(
                f"column '{column.name}' of the WATERMARK is {column.type}, but must be TIMESTAMP or TIMESTAMP_LTZ",
                place,
            )

    # --- between the parentheses ---------------------------------------------------------------------------

    def _element(self) -> None:
        if self.word() == "CONSTRAINT" and self.word(2) == "PRIMARY":
            self.at += 2
        if self.word() == "PRIMARY" and self.word(1) == "KEY" and self.peek(2) == "(":
            place = self.place()
            self.at += 2
            self._set_key(self._names(), place)
        elif self.word() == "WATERMARK" and self.word(1) == "FOR":
            self._read_watermark()
        else:
            self._read_column()

    def _names(self) -> tuple[tuple[str, int], ...]:
        """Names in parentheses, each with its place."""
        self.need("(")
        found = []
        while True:
            place = self.place()
            found.append((self.name(), place))
            if not self.skip(","):
                break
        self.need(")")
        return tuple(found)

    def _set_key(self, names: tuple[tuple[str, int], ...], place: int) -> None:
        if self._key is not None:
            raise self.error("there is a PRIMARY KEY already", place)
        if not self.skip("NOT", "ENFORCED"):
            raise self.error("Flink doesn't own the data, so that a PRIMARY KEY must be NOT ENFORCED")
        for i, (name, at) in enumerate(names):
            if any(name == other for other, _ in names[:i]):
                raise self.error(f"column '{name}' is in the PRIMARY KEY twice", at)
        self._key = names

    def _read_column(self) -> None:
        place = self.place()
        name = self.name()
        if any(column.name == name for column in self._columns):
            raise self.error(f"column {name!r} is there twice", place)
        if self.skip("AS"):
            column = self._computed(name)
        else:
            column = Column(name, "physical", self.type(0))
            if self.skip("METADATA"):
                key = self._string("a metadata key") if self.skip("FROM") else name
                before = next((c.name for c in self._columns if c.kind == "metadata" and c.key == key), None)
                if before is not None:
                    raise self.error(f"columns '{before}' and '{name}' are both from the metadata key '{key}'", place)
                column = Column(name, "metadata", column.type, key, virtual=self.skip("VIRTUAL"))
            elif self.word() in ("CONSTRAINT", "PRIMARY"):
                if self.skip("CONSTRAINT"):
                    self.name()
                at = self.place()
                self.need("PRIMARY", "KEY")
                self._set_key(((name, place),), at)
        if self.skip("COMMENT"):
            self._string("a comment")
        self._columns.append(column)

    def _string(self, what: str) -> str:
        token = self.peek()
        if not token.startswith("'"):
            raise self.error(f"expected {what} in single quotes, found {token or 'the end'!r}")
        self.at += 1
        return token[1:-1].replace("''", "'")

    def _options(self) -> dict[str, str]:
        """`('key' = 'value', ...)`; of equal keys the last counts, as in Flink."""
        found = {}
        self.need("(")
        while True:
            key = self._string("an option")
            if not self.skip("="):
                raise self.error(f"expected '=' after option '{key}'")
            found[key] = self._string("the value of an option")
            if not self.skip(","):
                break
        if not self.skip(")"):
            raise self.error(f"expected ',' or ')' after the value of option '{key}'")
        return found

    # --- expressions -----------------------------------------------------------------------------------------

    def _computed(self, name: str) -> Column:
        pieces, written, refused, depth, start = [], [], "", 0, self.place()
        left_out: set[int] = set()
        while self.peek() and not (depth == 0 and (self.peek() in (",", ")") or self.word() == "COMMENT")):
            token, word = self.peek(), self.word()
            depth += _DEPTH.get(token, 0)
            if word == "AS" and depth:  # CAST(x AS TIMESTAMP(3)), in Spark's spelling
                self.at += 1
                cast_to = self.type(0)
                pieces += ["AS", _spark_name(cast_to)]
                written += ["AS", str(cast_to)]
                continue
            function, comma = self._epoch() if word == "TO_TIMESTAMP_LTZ" else ("", 0)
            if function:
                left_out |= {comma, comma + 1}
            else:
                refused = refused or self._refused(word, written[-1] if written else "")
            written.append(token)
            if token.startswith("'"):
                token = "'" + token[1:-1].replace("''", "'").replace("\\", "\\\\").replace("'", "\\'") + "'"
            if self.at not in left_out:
                pieces.append(function or (_RENAMED.get(word, token) if self.peek(1) == "(" else token))
            self.at += 1
        if not pieces:
            raise self.error(f"expected the expression of column {name!r}", start)
        return Column(name, "computed", source=_glued(written), expression=_glued(pieces), refused=refused)

    def _epoch(self) -> tuple[str, int]:
        """Spark's function for `TO_TIMESTAMP_LTZ(number, 0 or 3)` and where its comma is; "" for other arguments."""
        depth, commas = 0, []
        for i in range(self.at + 1, len(self.tokens)):
            depth += _DEPTH.get(self.tokens[i], 0)
            if depth == 1 and self.tokens[i] == ",":
                commas.append(i)
            if depth == 0:
                only = commas == [i - 2]
                return (_EPOCHS.get(self.tokens[i - 1], ""), commas[0]) if only else ("", 0)
        return "", 0

    def _refused(self, word: str, before: str) -> str:
        """Why Spark would not evaluate the next token as Flink does, if it wouldn't."""
        if word in _FLINK_ONLY:
            return f"{word}: {_FLINK_ONLY[word]}"
        following = self.peek(1)
        if word == "[" and before.upper() in ("ARRAY", "MAP"):
            return f"{before}[...]: Spark SQL has no such constructor; it writes {before.lower()}(...)"
        if word == "[" and not following.startswith("'"):
            return "[...]: Flink counts the elements of an ARRAY from 1, Spark from 0; use element_at in a query"
        in_path = self.peek(2) == "." or self.peek(-2) == "."
        if word == "/" and (in_path or not (self._is_fraction(before) or self._is_fraction(following))):
            return "/: Flink cuts the quotient of two whole numbers, Spark doesn't; divide in a query, or by 2.0"
        return ""

    def _is_fraction(self, token: str) -> bool:
        """Whether a token is a number with a point, or a column of such numbers."""
        types = (column.type for column in self._columns if column.name == token.strip("`"))
        return bool(re.fullmatch(r"\d*\.\d*.*", token)) or any(
            t is not None and t.root in ("FLOAT", "DOUBLE", "DECIMAL") for t in types
        )

    def _read_watermark(self) -> None:
        start = self.place()
        if self._watermark is not None:
            raise self.error("there is a WATERMARK already", start)
        self.at += 2
        place = self.place()
        name = self.name()
        if self.peek() == ".":
            raise self.error(f"a WATERMARK is for a column, not for a field of '{name}'", place)
        self.need("AS")
        at, delay = self.place(), 0
        in_brackets = self.skip("(")
        if self.word() == "SOURCE_WATERMARK":
            raise self.error("SOURCE_WATERMARK() has no counterpart in Spark; write a delay")
        if self.name() != name:
            raise self.error(f"the WATERMARK of '{name}' must be {name}, or {name} - INTERVAL '...' unit", at)
        if self.skip("-"):
            self.need("INTERVAL")
            delay = self._milliseconds()
        if in_brackets:
            self.need(")")
        if self.peek() not in (",", ")"):
            raise self.error(f"the WATERMARK of '{name}' must be {name}, or {name} - INTERVAL '...' unit", at)
        self._watermark = Watermark(name, delay), place

    def _milliseconds(self) -> int:
        """`'5' SECOND`, `'1:30' MINUTE TO SECOND`, in milliseconds."""
        place, text, units = self.place(), self._string("the length of an interval"), list(_MILLIS)
        first = last = self._unit(units)
        if self.skip("TO"):
            last = self._unit(units[units.index(first) + 1 :])
        units = units[units.index(first) : units.index(last) + 1]
        numbers = re.split(r"[ :]", text.strip())
        if len(numbers) != len(units) or not all(re.fullmatch(r"\d+(\.\d+)?", number) for number in numbers):
            what = first if first == last else f"{first} TO {last}"
            raise self.error(f"'{text}' is no interval of {what}", place)
        return int(sum(Decimal(number) * _MILLIS[unit] for number, unit in zip(numbers, units, strict=True)))

    def _unit(self, allowed: list[str]) -> str:
        word = self.word()
        unit = word[:-1] if word.endswith("S") else word
        if unit not in allowed:
            raise self.error(f"expected one of {', '.join(allowed)}, found {self.peek() or 'the end'!r}")
        self.at += 1
        self.numbers(2)
        return unit


def with_primary_key(table: TableDefinition, names: tuple[str, ...] | None) -> TableDefinition:
    """The table with this primary key, whose columns become NOT NULL."""
    columns = tuple(
        replace(column, type=replace(column.type, nullable=False))
        if names and column.name in names and column.type is not None
        else column
        for column in table.columns
    )
    return replace(table, columns=columns, primary_key=names)


def _spark_name(t: FlinkType) -> str:
    """A type in Spark SQL's spelling."""
    members = [_spark_name(member.type) for member in t.fields]
    if t.root == "ROW":
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {m}' for f, m in zip(t.fields, members, strict=True))}>"
    if t.root in ("ARRAY", "MAP"):
        return f"{t.root}<{', '.join(members)}>"
    if t.root == "MULTISET":
        return f"MAP<{members[0]}, INT>"
    if t.root == "TIME":
        return f"TIME({min(t.precision or 0, 6)})"
    return t.summary() if t.root == "DECIMAL" else _SPARK_NAMES.get(t.root, t.root)


def _glued(tokens: list[str]) -> str:
    """Tokens as text again: a blank between two words, none where it could change a name or a call."""
    text = ""
    for before, token in zip(["", *tokens], tokens, strict=False):
        tight = not before or token in ("(", ")", ",", ".", "[", "]") or before in ("(", ".", "[")
        text += token if tight else f" {token}"
    return text


def show(table: TableDefinition, options: Mapping[str, str]) -> str:
    """The table as a statement again, with these options: on one line, without comments."""
    parts = []
    for column in table.columns:
        text = quoted(column.name)
        if column.kind == "computed":
            text += f" AS {column.source}"
        else:
            text += f" {column.type}"
        if column.kind == "metadata":
            text += f" METADATA FROM {_literal(column.key)}" + (" VIRTUAL" if column.virtual else "")
        parts.append(text)
    if table.watermark is not None:
        name = table.watermark.column
        seconds = Decimal(table.watermark.delay_ms) / 1000
        parts.append(f"WATERMARK FOR {quoted(name)} AS {quoted(name)} - INTERVAL '{seconds}' SECOND")
    if table.primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, table.primary_key))}) NOT ENFORCED")
    given = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in options.items())
    names = ".".join(map(quoted, table.name.split(".")))
    by = f" PARTITIONED BY ({', '.join(map(quoted, table.partition_keys))})" if table.partition_keys else ""
    return f"CREATE TABLE {names} ({', '.join(parts)}){by} WITH ({given})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
