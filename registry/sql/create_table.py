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
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from kvformat.registry.contract.types import FlinkType
from kvformat.registry.sql.connector_options import is_secret, shown_option
from kvformat.registry.sql.ddl import lookalike
from kvformat.registry.sql.expressions import ExpressionReader
from kvformat.registry.sql.reserved_words import RESERVED_WORDS
from kvformat.registry.sql.table_definition import TableColumn, TableDefinition, Watermark, with_primary_key
from kvformat.registry.sql.table_like import FEATURES, STRATEGIES, Strategy, merged

_OPERATOR = (
    r"<>|!=|<=|>=|\|\||\d+[eE][+-]?\d+|\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[<>(),:;=.+\-*/%\[\]{}?]"
)
# Where options may begin in a text that is perhaps broken: at WITH, at a name in quotes before `=`, or where a double
# quote follows `=`, as in JAAS.
_OPTIONS = re.compile(
    r"\bWITH\b(?!\s++(?:LOCAL|TIME)\b)|(?:'|(?<![\w.-]))(?P<name>[\w.-]++)'?+(?=\s*+=)|=\s*+\\?\"", re.IGNORECASE
)
_BEHIND_COLUMNS = ("COMMENT", "PARTITIONED", "WITH", "LIKE", "AS")
_BARE_NAMES = ("connector", "format", "topic")
_MOST_MILLIS = 2**63 - 1  # of a Java long
_MILLIS = {"WEEK": 604_800_000, "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}


def parse_create_table(
    text: str,
    start: int = 0,
    end: int | None = None,
    base: Callable[[tuple[str, ...]], TableDefinition] | None = None,
) -> TableDefinition:
    """The table of one CREATE TABLE statement, which may be a part of a text.

    `base` gives the table that LIKE names, or raises `LookupError` with what is wrong.
    Raises `SchemaError` with line and column.
    """
    return _Statement(text, start, end).table(base)


class _Statement(ExpressionReader):
    what = "CREATE TABLE"
    token = re.compile(f"{_OPERATOR}|{ExpressionReader.token.pattern}")

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self._options_at = _options_place(text, start, len(text) if end is None else end)
        self._lines = [match.end() for match in re.finditer("\n", text)]
        super().__init__(text, start, end)
        self._columns: dict[str, TableColumn] = {}
        self._computed: dict[str, int] = {}  # by name, where the expression begins
        self._metadata: dict[str, str] = {}  # by metadata key, the column
        self._key: dict[str, int] | None = None
        self._watermark: tuple[Watermark, int] | None = None

    def where(self, place: int) -> str:
        """Line and column, both from 1."""
        line = bisect.bisect(self._lines, place)
        return f"line {line + 1}, column {place - (self._lines[line - 1] if line else 0) + 1}"

    def near(self, place: int) -> str:
        """The text around a place, but nothing of the options: there are passwords among them."""
        if place >= self._options_at:
            return ""
        before, behind = self.text[max(self.start, place - 30) : place], min(place + 30, self.end, self._options_at)
        return f": {f'{before} ⟨here⟩ {self.text[place:behind]}'.strip()}"

    def shown(self) -> str:
        """The next token, if it is none of the options."""
        return "something else" if self.peek() and self.place() >= self._options_at else super().shown()

    def unreadable(self, place: int) -> str:
        """Why there is no token, without what is there."""
        if place < self._options_at or self.text[place] in "'`":
            return super().unreadable(place)
        hidden = "unexpected character (not shown, as it may be one of a secret); is a quote missing before it?"
        return lookalike(self.text[place]) or hidden

    def name(self) -> str:
        """A name; what Flink reserves must stand in backticks."""
        if self.word() in RESERVED_WORDS:
            raise self.error(f"{self.shown()} is a reserved word: as a name it needs backticks")
        return super().name()

    def table(self, find: Callable[[tuple[str, ...]], TableDefinition] | None) -> TableDefinition:
        self.need("CREATE")
        self.skip("OR", "REPLACE")
        self.skip("TEMPORARY")
        self.need("TABLE")
        self.skip("IF", "NOT", "EXISTS")
        name = self._path()
        place = self.place()
        if self.word() not in _BEHIND_COLUMNS:
            self.need("(")
            while True:
                self._element()
                if not self.skip(","):
                    break
            self.need(")")
        if self.skip("COMMENT"):
            self.quoted_text("a comment")
        partition_keys = self._names() if self.skip("PARTITIONED", "BY") else ()
        options = self._options() if self.skip("WITH") else {}
        if self.word() == "AS":
            raise self.error("CREATE TABLE ... AS takes its columns from a query; write the columns out")
        like, base, strategies = self.place(), None, {}
        if self.skip("LIKE"):
            base, strategies = self._base(find), self._strategies()
        elif not self._columns:
            raise self.error("the table has no columns", place)
        self.skip(";")
        if self.peek():
            raise self.error(f"expected the end, found {self.shown()} (one statement at a time)")
        self._read_expressions(() if base is None else base.columns)
        table = TableDefinition(
            ".".join(name),
            tuple(self._columns.values()),
            options,
            None if self._key is None else tuple(self._key),
            None if self._watermark is None else self._watermark[0],
            tuple(name for name, _ in partition_keys),
        )
        if base is not None:
            try:
                table = merged(base, table, strategies)
            except ValueError as cause:
                raise self.error(f"LIKE: {cause}", like) from None
        return self._checked(table, partition_keys)

    def _path(self) -> tuple[str, ...]:
        """A name, with those of catalog and database before it."""
        name = [self.name()]
        while self.skip("."):
            name.append(self.name())
        return tuple(name)

    def _base(self, find: Callable[[tuple[str, ...]], TableDefinition] | None) -> TableDefinition:
        """The table that LIKE names."""
        place = self.place()
        name = self._path()
        if find is None:
            raise self.error("LIKE needs the CREATE TABLE of its base in the same text, before it", place)
        try:
            return find(name)
        except LookupError as cause:
            raise self.error(f"LIKE: {cause.args[0]}", place) from None

    def _strategies(self) -> dict[str, Strategy]:
        """`(EXCLUDING ALL INCLUDING GENERATED)`, by feature."""
        found: dict[str, Strategy] = {}
        if self.skip("("):
            while True:
                strategy = next((one for one in STRATEGIES if self.skip(one)), None)
                if strategy is None:
                    raise self.error(f"expected one of {', '.join(STRATEGIES)}, found {self.shown()}")
                feature = self.word()
                if feature not in FEATURES:
                    raise self.error(f"expected one of {', '.join(FEATURES)}, found {self.shown()}")
                if feature in found:
                    raise self.error(f"{feature} is there twice")
                self.at += 1
                found[feature] = strategy
                if self.skip(")"):
                    break
        return found

    def _plain_type(self, depth: int) -> FlinkType:
        """A type; TIME has milliseconds at most, as Flink plans it whatever the DDL says."""
        found = super()._plain_type(depth)
        return replace(found, precision=min(found.precision or 0, 3)) if found.root == "TIME" else found

    def _checked(self, table: TableDefinition, partition_keys: tuple[tuple[str, int], ...]) -> TableDefinition:
        """The table with its key and watermark, whose columns must exist."""
        kinds = {column.name: column.kind for column in table.columns}
        for name, place in (self._key or {}).items():
            if kinds.get(name) != "physical":
                what = "does not exist" if name not in kinds else "is not a physical column"
                raise self.error(f"column '{name}' of the PRIMARY KEY {what}", place)
        for name, place in partition_keys:
            if name not in kinds:
                raise self.error(f"column '{name}' of PARTITIONED BY does not exist", place)
        if self._watermark is not None:
            self._check_watermark(table, *self._watermark)
        return with_primary_key(table, table.primary_key)

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
        if self.word() == "ON" and self.word(1) == "CONFLICT":
            raise self.error("ON CONFLICT is a clause of INSERT INTO, not of a PRIMARY KEY: move it after the query")
        self._key = {}
        for name, at in names:
            if name in self._key:
                raise self.error(f"column '{name}' is in the PRIMARY KEY twice", at)
            self._key[name] = at

    def _read_column(self) -> None:
        place = self.place()
        name = self.name()
        if name in self._columns:
            raise self.error(f"column {name!r} is there twice", place)
        if self.skip("AS"):
            column, start = TableColumn(name, "computed"), self.at
            self._computed[name] = start
            self.skip_expression()
            if self.at == start:
                raise self.error(f"expected the expression of column {name!r}")
        else:
            column = TableColumn(name, "physical", self.type(0))
            if self.skip("METADATA"):
                key = self.quoted_text("a metadata key") if self.skip("FROM") else name
                before = self._metadata.setdefault(key, name)
                if before != name:
                    raise self.error(f"columns '{before}' and '{name}' are both from the metadata key '{key}'", place)
                column = TableColumn(name, "metadata", column.type, key, virtual=self.skip("VIRTUAL"))
            elif self.word() in ("CONSTRAINT", "PRIMARY"):
                if self.skip("CONSTRAINT"):
                    self.name()
                at = self.place()
                self.need("PRIMARY", "KEY")
                self._set_key(((name, place),), at)
        if self.skip("COMMENT"):
            self.quoted_text("a comment")
        self._columns[name] = column

    def quoted_text(self, what: str) -> str:
        token = self.peek()
        if not token.startswith("'"):
            raise self.error(f"expected {what} in single quotes, found {self.shown()}")
        self.at += 1
        return token[1:-1].replace("''", "'")

    def _options(self) -> dict[str, str]:
        """`('key' = 'value', ...)`; of equal keys the last counts, as in Flink."""
        found = {}
        self.need("(")
        while True:
            key = self.quoted_text("an option")
            if not self.skip("="):
                raise self.error(f"expected '=' after {shown_option(key)}")
            found[key] = self.quoted_text("the value of an option")
            if not self.skip(","):
                break
        if not self.skip(")"):
            raise self.error(f"expected ',' or ')' after the value of {shown_option(key)}")
        return found

    # --- expressions -----------------------------------------------------------------------------------------

    def _read_expressions(self, base: tuple[TableColumn, ...]) -> None:
        """The computed columns, once the columns that they may name are known: also the base's physical ones."""
        known = [*(column for column in base if column.kind == "physical"), *self._columns.values()]
        row = {column.name: column.type for column in known if column.type is not None}
        behind = self.at
        for name, at in self._computed.items():
            self.at = at
            found = self.expression(row)
            self._columns[name] = TableColumn(
                name, "computed", source=found.source, expression=found.spark, refused=found.refused
            )
        self.at = behind

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
        place, text, units = self.place(), self.quoted_text("the length of an interval"), list(_MILLIS)
        first = last = self._unit(units)
        if self.skip("TO"):
            last = self._unit(units[units.index(first) + 1 :])
        units = units[units.index(first) : units.index(last) + 1]
        numbers = re.split(r"[ :]", text.strip())
        what = first if first == last else f"{first} TO {last}"
        if len(numbers) != len(units) or not all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", number) for number in numbers):
            raise self.error(f"'{text:.60}' is no interval of {what}", place)
        found = sum(Decimal(number) * _MILLIS[unit] for number, unit in zip(numbers, units, strict=True))
        if found > _MOST_MILLIS:
            raise self.error(f"'{text:.60}' {what} is longer than an interval may be, {_MOST_MILLIS} ms", place)
        return int(found)

    def _unit(self, allowed: list[str]) -> str:
        word = self.word()
        unit = word[:-1] if word.endswith("S") else word
        if unit not in allowed:
            raise self.error(f"expected one of {', '.join(allowed)}, found {self.shown()}")
        self.at += 1
        self.numbers(2)
        return unit


def _options_place(text: str, start: int, end: int) -> int:
    """Where the options begin, which no error may quote; the end where there are none."""
    for match in _OPTIONS.finditer(text, start, end):
        name = match["name"]
        of_option = name is not None and ("." in name or is_secret(name) or name.lower() in _BARE_NAMES)
        if name is None or (of_option and "'" in match[0]):
            return match.start()
    return end
