"""Parse Flink's CREATE TABLE: columns, metadata, primary key, watermark, options.

    CREATE TABLE orders (
      id BIGINT,                                                    -- a physical column
      `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,      -- metadata
      total AS price * amount,                                      -- computed
      WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
      PRIMARY KEY (id) NOT ENFORCED
    ) COMMENT 'orders' WITH ('connector' = 'kafka', ...)

Errors have line and column, and never quote the options. A computed column keeps the text of
its expression, and gets its type. A watermark becomes a column and a delay.
Rules: Flink's "CREATE Statements" page and its `Parser.jj`.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable
from dataclasses import replace

from kvformat.registry.contract.ddl import literal_text, lookalike
from kvformat.registry.sql.confluent_tables import ROWTIME, is_confluent, rowtime_column
from kvformat.registry.sql.connector_options import is_secret, shown_option
from kvformat.registry.sql.expressions import OPERATOR_TOKEN
from kvformat.registry.sql.reserved_words import RESERVED_WORDS
from kvformat.registry.sql.table_definition import TableColumn, TableDefinition, with_primary_key
from kvformat.registry.sql.table_like import FEATURES, STRATEGIES, Strategy, merge_with_base
from kvformat.registry.sql.watermarks import WatermarkClause, WatermarkReader

# Where options may begin in a text with syntax errors: at WITH, at a quoted name before `=`, or where a double quote
# follows `=`, as in JAAS.
_OPTIONS = re.compile(
    r"\bWITH\b(?!\s++(?:LOCAL|TIME)\b)|(?:'|(?<![\w.-]))(?P<name>[\w.-]++)'?+(?=\s*+=)|=\s*+\\?\"", re.IGNORECASE
)
_AFTER_COLUMNS = ("COMMENT", "DISTRIBUTED", "PARTITIONED", "WITH", "LIKE", "AS")
_OPTIONS_WITHOUT_DOT = ("connector", "format", "topic")


def parse_create_table(
    text: str, start: int = 0, end: int | None = None, base: Callable[[tuple[str, ...]], TableDefinition] | None = None
) -> TableDefinition:
    """Parse one CREATE TABLE statement, the whole text or the part from `start` to `end`.

    `base` returns the table that LIKE names, or raises `LookupError` with the reason. Raises `SchemaError` with line
    and column.
    """
    return _CreateTableReader(text, start, end).table(base)


class _CreateTableReader(WatermarkReader):
    """Parses one CREATE TABLE statement."""

    key_kinds: tuple[str, ...] = ("physical",)
    """The kinds of columns that a PRIMARY KEY may have."""
    needs_columns = True
    """Whether a table needs a column."""

    subject = "CREATE TABLE"
    token = re.compile(f"{OPERATOR_TOKEN}|{WatermarkReader.token.pattern}")

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self._options_offset = _options_begin(text, start, len(text) if end is None else end)
        self._lines = [match.end() for match in re.finditer("\n", text)]
        super().__init__(text, start, end)
        self._columns: dict[str, TableColumn] = {}
        self._computed: dict[str, int] = {}  # by name, the index of the first token of the expression
        self._metadata: dict[str, str] = {}  # by metadata key, the name of the column
        self._key: dict[str, int] | None = None  # by column, the offset of its name in the PRIMARY KEY
        self._watermark: WatermarkClause | None = None

    def position(self, offset: int) -> str:
        """Return line and column of an offset, both from 1."""
        line = bisect.bisect(self._lines, offset)
        return f"line {line + 1}, column {offset - (self._lines[line - 1] if line else 0) + 1}"

    def context(self, offset: int) -> str:
        """Return the text around an offset, without the options, because they may contain passwords."""
        if offset >= self._options_offset:
            return ""
        end = min(offset + 30, self.end, self._options_offset)
        return f": {f'{self.text[max(self.start, offset - 30) : offset]} ⟨here⟩ {self.text[offset:end]}'.strip()}"

    def quote_from(self, offset: int) -> None:
        """Let errors quote the text after an offset, up to the next options, and none of the text before it."""
        self.start, self._options_offset = offset, _options_begin(self.text, offset, self.end)

    def shown(self) -> str:
        """Return the next token for an error, unless it is in the options."""
        return "something else" if self.peek() and self.offset() >= self._options_offset else super().shown()

    def unreadable(self, offset: int) -> str:
        """Return why no token begins at an offset; in the options without the character."""
        if offset < self._options_offset or self.text[offset] in "'`\"":
            return super().unreadable(offset)
        hidden = "unexpected character (hidden, it may be part of a secret); is a quote missing before it?"
        return lookalike(self.text[offset]) or hidden

    def name(self) -> str:
        """Parse a name; a word that Flink reserves needs backticks."""
        if self.word() in RESERVED_WORDS:
            raise self.error(f"{self.shown()} is a reserved word: to use it as a name, put it in backticks")
        return super().name()

    def table(self, find: Callable[[tuple[str, ...]], TableDefinition] | None) -> TableDefinition:
        """Parse the statement; `find` returns the table that LIKE names."""
        if not self.skip("REPLACE"):
            self.expect("CREATE")
            self.skip("OR", "REPLACE")
            self.skip("TEMPORARY")
        self.expect("TABLE")
        self.skip("IF", "NOT", "EXISTS")
        name = self._path()
        offset = self.offset()
        if self.word() not in _AFTER_COLUMNS:
            self.expect("(")
            while self.needs_columns or self._columns or self.peek() != ")":
                self._element()
                if not self.skip(","):
                    break
            self.expect(")")
        if self.skip("COMMENT"):
            self.plain_text("a comment")
        distribution = self._distribution() if self.skip("DISTRIBUTED") else None
        partition_keys = self._names() if self.skip("PARTITIONED", "BY") else ()
        options = self._options() if self.skip("WITH") else {}
        if self.word() == "AS":
            why = "takes its columns from a query, which is not supported; list the columns"
            if self.word(1) == "TABLE":
                why = "TABLE follows another table: run it with 'kvformat ingest FILE.sql', or Pipeline.from_sql"
            raise self.error(f"CREATE TABLE ... AS {why}")
        like, base, strategies = self.offset(), None, {}
        if self.skip("LIKE"):
            base, strategies = self._base(find), self._strategies()
        elif self.needs_columns and not self._columns:
            raise self.error("the table has no columns", offset)
        self.skip(";")
        if self.peek():
            raise self.error(f"expected the end of the statement, found {self.shown()}")
        self._read_expressions(() if base is None else base.columns)
        table = TableDefinition(
            ".".join(name),
            tuple(self._columns.values()),
            options,
            None if self._key is None else tuple(self._key),
            None if self._watermark is None else self._watermark.watermark,
            tuple(name for name, _ in partition_keys),
            None if distribution is None else tuple(name for name, _ in distribution),
            name[-1],
        )
        if base is not None:
            try:
                table = merge_with_base(base, table, strategies)
            except ValueError as cause:
                raise self.error(f"LIKE: {cause}", like) from None
        return self._checked(table, {"PARTITIONED BY": partition_keys, "DISTRIBUTED BY": distribution or ()})

    def _path(self) -> tuple[str, ...]:
        """Parse a name, perhaps with catalog and database before it."""
        name = [self.name()]
        while self.skip("."):
            name.append(self.name())
        return tuple(name)

    def _base(self, find: Callable[[tuple[str, ...]], TableDefinition] | None) -> TableDefinition:
        """Parse the name after LIKE and return its table."""
        offset = self.offset()
        name = self._path()
        if find is None:
            raise self.error("LIKE needs the CREATE TABLE of its base table earlier in the same text", offset)
        try:
            return find(name)
        except LookupError as cause:
            raise self.error(f"LIKE: {cause.args[0]}", offset) from None

    def _strategies(self) -> dict[str, Strategy]:
        """Parse `(EXCLUDING ALL INCLUDING GENERATED)` into a strategy per feature."""
        strategies: dict[str, Strategy] = {}
        if self.skip("("):
            while True:
                strategy = next((word for word in STRATEGIES if self.skip(word)), None)
                if strategy is None:
                    raise self.error(f"expected one of {', '.join(STRATEGIES)}, found {self.shown()}")
                feature = self.word()
                if feature not in FEATURES:
                    raise self.error(f"expected one of {', '.join(FEATURES)}, found {self.shown()}")
                if feature in strategies:
                    raise self.error(f"{feature} is given twice")
                self.index += 1
                strategies[feature] = strategy
                if self.skip(")"):
                    break
        return strategies

    def _distribution(self) -> tuple[tuple[str, int], ...]:
        """Parse `BY HASH(id) INTO 6 BUCKETS` after DISTRIBUTED; returns the columns, each with its offset."""
        names: tuple[tuple[str, int], ...] = ()
        if by := self.skip("BY"):
            if self.word() == "RANGE":
                raise self.error("a topic of Kafka is DISTRIBUTED BY HASH, not by RANGE")
            self.skip("HASH")
            names = self._names()
        if not by or self.word() == "INTO":
            self.expect("INTO")
            if not (self.peek().isascii() and self.peek().isdecimal()):
                raise self.error(f"expected a number of buckets, found {self.shown()}")
            self.index += 1
            self.expect("BUCKETS")
        return names

    def _checked(self, table: TableDefinition, clauses: dict[str, tuple[tuple[str, int], ...]]) -> TableDefinition:
        """Return the table with its primary key; raises `SchemaError` if a clause names no column.

        `clauses` are the columns that clauses after the list of columns name, each with its offset.
        """
        kinds = {column.name: column.kind for column in table.columns}
        for name, offset in (self._key or {}).items():
            if kinds.get(name) not in self.key_kinds:
                what = "does not exist" if name not in kinds else "is not a physical column"
                raise self.error(f"column '{name}' of the PRIMARY KEY {what}", offset)
        for clause, names in clauses.items():
            for name, offset in names:
                if name not in kinds:
                    raise self.error(f"column '{name}' of {clause} does not exist", offset)
        if self._watermark is not None:
            name = self._watermark.watermark.column
            if name == ROWTIME and ROWTIME not in kinds and is_confluent(table):
                table = replace(table, columns=(*table.columns, rowtime_column()))
            column = next((column for column in table.columns if column.name == name), None)
            self.check_watermark(self._watermark, column)
        return with_primary_key(table, table.primary_key)

    # --- between the parentheses ---------------------------------------------------------------------------

    def _element(self) -> None:
        if self.word() == "CONSTRAINT" and self.word(2) == "PRIMARY":
            self.index += 2
        if self.word() == "PRIMARY" and self.word(1) == "KEY" and self.peek(2) == "(":
            offset = self.offset()
            self.index += 2
            self._set_key(self._names(), offset)
        elif self.word() == "WATERMARK" and self.word(1) == "FOR":
            if self._watermark is not None:
                raise self.error("the table has a WATERMARK already")
            self.index += 2
            self._watermark = self.watermark()
        else:
            self._read_column()

    def _names(self) -> tuple[tuple[str, int], ...]:
        """Parse names in parentheses, each with its offset."""
        self.expect("(")
        names = []
        while True:
            offset = self.offset()
            names.append((self.name(), offset))
            if not self.skip(","):
                break
        self.expect(")")
        return tuple(names)

    def _set_key(self, names: tuple[tuple[str, int], ...], offset: int) -> None:
        if self._key is not None:
            raise self.error("the table has a PRIMARY KEY already", offset)
        if not self.skip("NOT", "ENFORCED"):
            raise self.error("a PRIMARY KEY must be NOT ENFORCED, because Flink does not own the data")
        if self.word() == "ON" and self.word(1) == "CONFLICT":
            raise self.error("ON CONFLICT is a clause of INSERT INTO, not of a PRIMARY KEY: move it after the query")
        self._key = {}
        for name, at in names:
            if name in self._key:
                raise self.error(f"column '{name}' is in the PRIMARY KEY twice", at)
            self._key[name] = at

    def _read_column(self) -> None:
        offset = self.offset()
        name = self.name()
        if name in self._columns:
            raise self.error(f"there are two columns named {name!r}", offset)
        if self.skip("AS"):
            column, start = TableColumn(name, "computed"), self.index
            self._computed[name] = start
            self.skip_expression()
            if self.index == start:
                raise self.error(f"expected the expression of column {name!r}")
        else:
            column = TableColumn(name, "physical", self.type(0))
            if self.skip("METADATA"):
                key = self.quoted_text("a metadata key") if self.skip("FROM") else name
                before = self._metadata.setdefault(key, name)
                if before != name:
                    raise self.error(f"columns '{before}' and '{name}' have the same metadata key '{key}'", offset)
                column = TableColumn(name, "metadata", column.type, key, virtual=self.skip("VIRTUAL"))
            elif self.word() in ("CONSTRAINT", "PRIMARY"):
                if self.skip("CONSTRAINT"):
                    self.name()
                at = self.offset()
                self.expect("PRIMARY", "KEY")
                self._set_key(((name, offset),), at)
        if self.skip("COMMENT"):
            self.plain_text("a comment")
        self._columns[name] = column

    def quoted_text(self, what: str) -> str:
        """Parse a string in single quotes, and those that continue it; an error says that `what` is expected."""
        if not self.peek().startswith("'"):
            raise self.error(f"expected {what} in single quotes, found {self.shown()}")
        is_last = self.text[self.offset()] in "eE"  # Flink continues every string except E'...'
        text = literal_text(self.peek())
        self.index += 1
        while not is_last and self.peek().startswith("'") and self.text[self.offset()] == "'":
            text += literal_text(self.peek())
            self.index += 1
        return text

    def _options(self) -> dict[str, str]:
        """Parse `('key' = 'value', ...)`; of equal keys the last counts, as in Flink."""
        options: dict[str, str] = {}
        self.expect("(")
        while options or not self.skip(")"):
            start = self.index
            key = self.quoted_text("an option")
            if not self.skip("="):
                self.index = start + 1  # not after the strings that continue the name
                raise self.error(f"expected '=' after {shown_option(literal_text(self.peek(-1)))}")
            options[key] = self.quoted_text("the value of an option")
            if self.skip(")"):
                break
            if not self.skip(","):
                raise self.error(f"expected ',' or ')' after the value of {shown_option(key)}")
        return options

    # --- expressions -----------------------------------------------------------------------------------------

    def _read_expressions(self, base: tuple[TableColumn, ...]) -> None:
        """Parse the expressions of computed columns, which may use later columns, and physical ones of `base`."""
        known = [*(column for column in base if column.kind == "physical"), *self._columns.values()]
        row = {column.name: replace(column.type, nullable=True) for column in known if column.type is not None}
        after = self.index
        for name, at in self._computed.items():
            self.index = at
            expression = self.expression(row)
            self._columns[name] = TableColumn(
                name, "computed", expression.type, source=expression.source, refused=expression.refused
            )
        self.index = after


def _options_begin(text: str, start: int, end: int) -> int:
    """Return the offset where the options begin, which errors must not quote; `end` if there are none."""
    for match in _OPTIONS.finditer(text, start, end):
        name = match["name"]
        is_option = name is not None and ("." in name or is_secret(name) or name.lower() in _OPTIONS_WITHOUT_DOT)
        if name is None or (is_option and "'" in match[0]):
            return match.start()
    return end


CreateTableReader = _CreateTableReader
"""The reader, for statements that extend CREATE TABLE."""
