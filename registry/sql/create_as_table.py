"""Read a job of CREATE TABLE ... AS TABLE statements: tables that follow a Kafka table, as Ververica writes them.

    CREATE TABLE IF NOT EXISTS lake.shop.orders (PRIMARY KEY (id) NOT ENFORCED)
    PARTITIONED BY (`day`) WITH ('connector' = 'delta')
    AS TABLE orders /*+ OPTIONS('scan.startup.mode' = 'earliest-offset') */
    ADD COLUMN `day` AS CAST(placed AS DATE)

The followed table is a CREATE TABLE earlier in the text. It may have no columns, because they come from the messages,
and its PRIMARY KEY may have metadata. Several statements may be a set: BEGIN STATEMENT SET; ... END;
Errors have line and column, and never quote options.
Rules: the pages "CREATE TABLE AS (CTAS)" and "Kafka connector" of Ververica.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.sql.create_table import CreateTableReader
from kvformat.registry.sql.expressions import Expression
from kvformat.registry.sql.projected_expressions import SomeColumns, projected_expression
from kvformat.registry.sql.statements import CreatedTables, Statement
from kvformat.registry.sql.table_definition import TableDefinition

_SKIPPED = r"'[^']*(?:''[^']*)*'|`[^`]*(?:``[^`]*)*`|--[^\n]*|//[^\n]*|/\*.*?\*/"
_BLANKS = r"(?:\s|--[^\n]*\n|//[^\n]*\n|/\*.*?\*/)+"
_AS = re.compile(rf"{_SKIPPED}|\bAS{_BLANKS}(?P<what>TABLE|SELECT|DATABASE)\b", re.IGNORECASE | re.DOTALL)
_BEGIN_SET = re.compile(
    rf"EXECUTE{_BLANKS}STATEMENT{_BLANKS}SET(?:{_BLANKS}BEGIN\b)?{_BLANKS}", re.IGNORECASE | re.DOTALL
)
_CREATE = re.compile(rf"CREATE{_BLANKS}TABLE\b", re.IGNORECASE | re.DOTALL)
_PLAIN_SETTING = re.compile(r"SET\s+([^\s'=]+)\s*=\s*([^\s'](?:.*\S)?)\s*", re.IGNORECASE | re.DOTALL)
_TARGET = re.compile(rf"CREATE{_BLANKS}TABLE(?:{_BLANKS}IF{_BLANKS}NOT{_BLANKS}EXISTS)?", re.IGNORECASE | re.DOTALL)
_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}
_AFTER_EXPRESSION = ("COMMENT", "FIRST", "AFTER")
_VERVERICA_DEFAULTS = ("vvp", "default")  # the catalog and database in which tables are, unless the text says where
_IN_SETS = ("BEGIN", "END", "USE", "USE CATALOG", "DROP TABLE")
"""Statements that change the meaning of names, or that are around a set of statements."""
_NOT_RUN = {
    "CREATE CATALOG": "the catalogs are those of the Spark session",
    "CREATE DATABASE": "targets create the namespaces of their tables",
    "CREATE VIEW": "only a Kafka table can be followed",
    "CREATE FUNCTION": "functions of the JVM can't be called",
    "ALTER TABLE": "the tables are those of the CREATE TABLE statements",
    "ADD": "functions of the JVM can't be called",
    "RESET": "the settings are those of the SET statements",
}
"""Statements without an effect on a job, and why."""
_CLEANING = ("DROP", "REMOVE", "SHOW", "DESC", "DESCRIBE", "HELP", "CLEAR", "UNLOAD", "EXIT", "QUIT")


@dataclass(frozen=True)
class FollowedTable:
    """The Kafka table that a statement follows, with the options of its hint.

    name: as the CREATE TABLE has it. places: where each option is written, and "" for the table's name.
    """

    name: str
    table: TableDefinition
    places: Mapping[str, str]


@dataclass(frozen=True)
class ProjectedColumn:
    """A column of ADD COLUMN. `first` and `after` say where it is; otherwise it is the last. `place` is in the text."""

    name: str
    expression: Expression
    place: str
    first: bool = False
    after: str = ""


@dataclass(frozen=True)
class CreateAsTable:
    """A CREATE TABLE ... AS TABLE statement.

    name: the parts of the target's name, with the current catalog and database. primary_key: that of the statement,
    otherwise of the followed table. places: where each option is written, and "" for the target's name.
    """

    name: tuple[str, ...]
    line: int
    options: Mapping[str, str]
    places: Mapping[str, str]
    source: FollowedTable
    primary_key: tuple[str, ...]
    partition_keys: tuple[str, ...]
    added: tuple[ProjectedColumn, ...]
    comment: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SqlJob:
    """The statements of a text: its tables that follow others, and the settings of SET, each with its place."""

    tables: tuple[CreateAsTable, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_job(text: str) -> SqlJob:
    """Read all statements of a text.

    Raises `SchemaError` with line and column, also for a statement that a job can't have, such as INSERT, and for a
    text without a CREATE TABLE ... AS TABLE.
    """
    return _JobReader(text).job()


def following_tables(text: str) -> dict[str, str]:
    """Return the names of the targets of CREATE TABLE ... AS TABLE in a text, each with the table that it follows.

    Both are as written. Statements are not checked.
    """
    followed = {}
    for statement in CreatedTables(text, str).statements:
        begin, source = statement.span[0], _as_what(text, statement)
        if statement.kind == "EXECUTE" and (words := _BEGIN_SET.match(text, begin)):
            begin = words.end()
        target = _TARGET.match(text, begin)
        if target is not None and source is not None and source["what"].upper() == "TABLE":
            followed[_name_at(text, target.end())] = _name_at(text, source.end())
    return followed


def followed_by_table(text: str) -> dict[tuple[str, ...], str]:
    """Return the full names of the tables whose CREATE TABLE has AS TABLE, each with the table that it follows.

    A full name has catalog, database and table, as in `table_names`. Of equal names the last statement counts.
    """
    tables = CreatedTables(text, str)
    sources = {}
    for full, states in tables.created.items():
        statement = states[-1][1]
        source = None if statement is None else _as_what(text, statement)
        if source is not None and source["what"].upper() == "TABLE":
            sources[full] = _name_at(text, source.end())
    return sources


def _as_what(text: str, statement: Statement) -> re.Match[str] | None:
    """Return the words AS TABLE, AS SELECT or AS DATABASE of a statement, outside of quotes and comments."""
    return next((match for match in _AS.finditer(text, *statement.span) if match["what"]), None)


def _name_at(text: str, offset: int) -> str:
    part = r"(?:`[^`]*(?:``[^`]*)*`|[\w$]+)"
    match = re.compile(rf"(?:{_BLANKS})?({part}(?:\s*\.\s*{part})*)", re.DOTALL).match(text, offset)
    return re.sub(r"\s*\.\s*", ".", match[1]) if match else ""


class _JobReader:
    """Reads the statements of a text in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._created = CreatedTables(text, str)
        self._tables: list[CreateAsTable] = []
        self._settings: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._notes: list[str] = []

    def job(self) -> SqlJob:
        for i, statement in enumerate(self._created.statements):
            self._read(i, statement)
        if not self._tables:
            shown = ", ".join(f"{s.kind} {s.name}".strip() + f" (line {s.line})" for s in self._created.statements[:20])
            raise SchemaError(
                "the text has no CREATE TABLE ... AS TABLE, which is what an ingestion runs; it has "
                f"{shown or 'no statement'}. To read a Kafka table, use KafkaTable.from_ddl; to keep one with declared "
                "columns current, KafkaTable.maintain"
            )
        return SqlJob(tuple(self._tables), self._settings, self._places, tuple(self._notes))

    def _read(self, i: int, statement: Statement) -> None:
        kind = statement.kind
        what = _as_what(self._text, statement)
        word = "" if what is None else what["what"].upper()
        if kind == "CREATE TABLE":
            if word:
                self._read_following(i, statement, statement.span[0])
        elif kind == "EXECUTE":
            begin = _BEGIN_SET.match(self._text, *statement.span)
            if begin is None or not _CREATE.match(self._text, begin.end()):
                raise self._error(statement, _not_allowed("EXECUTE"))
            self._read_following(i, statement, begin.end())
        elif kind == "CREATE DATABASE" and word == "DATABASE":
            raise self._error(
                statement,
                "CREATE DATABASE ... AS DATABASE is not supported: it follows all tables of a database. Write a CREATE "
                "TABLE ... AS TABLE for each topic, or a pipeline in YAML, which finds the tables in the messages",
            )
        elif kind == "SET":
            plain = _PLAIN_SETTING.fullmatch(self._text, *statement.span)
            setting = plain.groups() if plain else _SettingReader(self._text, *statement.span).setting()
            if setting is not None:
                key, value = setting
                self._settings[key], self._places[key] = value, self._position(statement)
        elif kind in _NOT_RUN:
            self._notes.append(f"{kind} at line {statement.line} is not run: {_NOT_RUN[kind]}")
        elif kind.startswith(_CLEANING) and kind != "DROP TABLE":
            self._notes.append(f"{kind} at line {statement.line} is not run")
        elif kind not in _IN_SETS:
            raise self._error(statement, _not_allowed(kind))

    def _read_following(self, i: int, statement: Statement, start: int) -> None:
        reader = _CreateAsReader(self._text, start, statement.span[1])
        self._tables.append(reader.following(self, i))

    def followed(self, i: int, name: tuple[str, ...]) -> FollowedTable:
        """Return the table of a name in statement `i`; raises `LookupError` with the reason."""
        created = self._statement(i, name)
        index = self._created.statements.index(created)
        of_bases: dict[str, str] = {}

        def base(of: tuple[str, ...]) -> TableDefinition:
            base_table = self.followed(index, of)
            of_bases.update(base_table.places)
            return base_table.table

        reader = _FollowedReader(self._text, *created.span)
        if _as_what(self._text, created) is not None:
            raise LookupError(f"the table '{created.name}' follows another one itself, so it is no table of Kafka")
        table = reader.table(base)
        places = {key: reader.position(offset) for key, offset in reader.option_offsets.items()}
        return FollowedTable(created.name, table, {**of_bases, **places, "": reader.position(created.span[0])})

    def _statement(self, i: int, name: tuple[str, ...]) -> Statement:
        try:
            return self._created.seen_by(i, name)
        except LookupError:
            for begin in (_VERVERICA_DEFAULTS, _VERVERICA_DEFAULTS[1:]):
                if name[: len(begin)] == begin and len(name) > len(begin):
                    return self._created.seen_by(i, name[len(begin) :])
            raise

    def target_name(self, i: int, name: tuple[str, ...]) -> tuple[str, ...]:
        """Return the parts of a target's name, with the current catalog and database if the text sets them."""
        return self._created.written_parts(i, name)

    def _position(self, statement: Statement) -> str:
        return CreateTableReader(self._text, 0, 0).position(statement.span[0])

    def _error(self, statement: Statement, why: str) -> SchemaError:
        return SchemaError(f"cannot read the job: {why}, at {self._position(statement)}")


def _not_allowed(kind: str) -> str:
    if kind == "INSERT":
        return (
            "INSERT is a query, and a job has either queries or CREATE TABLE ... AS TABLE. Write the query with "
            "KafkaTable.read_stream and write_stream"
        )
    return f"{kind} is not allowed in a job of CREATE TABLE ... AS TABLE statements"


class _SettingReader(CreateTableReader):
    """Parses `SET 'key' = 'value'`."""

    subject = "SET"

    def setting(self) -> tuple[str, str] | None:
        """Return the key and the value; None for a SET alone, which shows the settings."""
        self.expect("SET")
        if not self.peek():
            return None
        key = self.quoted_text("the name of a setting")
        self.expect("=")
        value = self.quoted_text("the value of a setting")
        if self.peek():
            raise self.error("expected the end of the statement")
        return key, value


class _OptionsReader(CreateTableReader):
    """Parses statements with options. `option_offsets` are the offsets of the options' names."""

    option_offsets: Mapping[str, int] = {}

    def _options(self) -> dict[str, str]:
        start = self.index
        options = super()._options()
        offsets: dict[str, int] = {}
        place = start + 1
        for name in range(place, self.index):
            if self.tokens[name] == "=":
                key = "".join(token[1:-1].replace("''", "'") for token in self.tokens[place:name])
                offsets[key] = self.offsets[place]
            elif self.tokens[name] == ",":
                place = name + 1
        self.option_offsets = offsets
        return options


class _FollowedReader(_OptionsReader):
    """Parses the CREATE TABLE of a table that others follow."""

    key_kinds = ("physical", "metadata")
    needs_columns = False
    hint = ""


class _CreateAsReader(_OptionsReader):
    """Parses one CREATE TABLE ... AS TABLE statement."""

    subject = "CREATE TABLE ... AS TABLE"
    takes_hints = True
    token = re.compile(rf"/\*\+|\*/(?!\*)|{CreateTableReader.token.pattern}")

    def quote_from(self, offset: int) -> None:
        """Let errors quote the text after an offset, but no hint."""
        super().quote_from(offset)
        hint = self.text.find("/*+", offset, self.end)
        self._options_offset = self._options_offset if hint < 0 else min(hint, self._options_offset)

    def following(self, job: _JobReader, i: int) -> CreateAsTable:
        """Parse the statement; `job` knows the tables that statement `i` can see."""
        start = self.offset()
        self.expect("CREATE")
        for words, why in (
            (("OR", "REPLACE"), "OR REPLACE would empty the table at each start; write CREATE TABLE IF NOT EXISTS"),
            (("TEMPORARY",), "a TEMPORARY table has no rows of its own; write CREATE TABLE"),
        ):
            if self.word() == words[0]:
                raise self.error(why)
        self.expect("TABLE")
        notes = []
        if not self.skip("IF", "NOT", "EXISTS"):
            notes.append("the table is used if it exists, as with IF NOT EXISTS")
        at, name = self.offset(), self._path()
        notes += self._read_constraints()
        comment = self.quoted_text("a comment") if self.skip("COMMENT") else ""
        if self.word() == "DISTRIBUTED":
            raise self.error("DISTRIBUTED BY is not supported; 'partition-keys' are those of PARTITIONED BY")
        partition_keys = self._names() if self.skip("PARTITIONED", "BY") else ()
        options = self._options() if self.skip("WITH") else {}
        self.quote_from(self.offset())
        places = {key: self.position(offset) for key, offset in self.option_offsets.items()}
        self.expect("AS")
        if not self.skip("TABLE"):
            raise self.error("only AS TABLE is supported, and no query; ADD COLUMN adds computed columns")
        source = self._followed(job, i)
        added = self._added(source.table)
        self.skip(";")
        if self.peek():
            raise self.error(f"expected ADD COLUMN or the end of the statement, found {self.shown()}")
        keys = tuple(self._key) if self._key is not None else source.table.primary_key or ()
        where = self.position(at)
        line = self.text.count("\n", 0, start) + 1
        return CreateAsTable(
            job.target_name(i, name),
            line,
            options,
            {**places, "": where},
            source,
            keys,
            tuple(name for name, _ in partition_keys),
            added,
            comment,
            tuple(f"{'.'.join(name)} ({where}): {note}" for note in notes),
        )

    def _read_constraints(self) -> list[str]:
        """Parse the brackets after the name, which have a PRIMARY KEY at most; returns notes.

        A bracket that is not closed before WITH, as in an example of the product page, is read as if it was not there.
        """
        offset = self.offset()
        if not self.skip("("):
            return []
        if self.word() == "WITH":
            return [f"the bracket '(' at {self.position(offset)} is not closed: remove it"]
        while self.peek() != ")":
            start = self.offset()
            if self.word() not in ("PRIMARY", "CONSTRAINT"):
                raise self.error(
                    "only a PRIMARY KEY is allowed here: the columns are those of the followed table. Declare types "
                    "there, and add columns by ADD COLUMN"
                )
            self._element()
            if self._columns:
                raise self.error("expected PRIMARY KEY (...) NOT ENFORCED", start)
            if not self.skip(","):
                break
        self.expect(")")
        return []

    def _followed(self, job: _JobReader, i: int) -> FollowedTable:
        """Parse the name after AS TABLE, and its hint."""
        offset = self.offset()
        name = self._path()
        try:
            followed = job.followed(i, name)
        except LookupError as cause:
            hint = ". A topic of a Kafka catalog needs a CREATE TABLE, without columns" if len(name) > 1 else ""
            raise self.error(f"AS TABLE: {cause.args[0]}{hint}", offset) from None
        if not self.skip("/*+"):
            return followed
        self.expect("OPTIONS")
        hinted = self._options()
        self.expect("*/")
        self.quote_from(self.offset())
        places = {key: self.position(offset) for key, offset in self.option_offsets.items()}
        table = replace(followed.table, options={**followed.table.options, **hinted})
        return replace(followed, table=table, places={**followed.places, **places})

    def _added(self, table: TableDefinition) -> tuple[ProjectedColumn, ...]:
        """Parse ADD COLUMN: computed columns, perhaps in brackets."""
        added: dict[str, ProjectedColumn] = {}
        if not self.skip("ADD"):
            return ()
        self.expect("COLUMN")
        in_brackets = self.skip("(")
        while True:
            offset = self.offset()
            column = self._added_column(table)
            if column.name in added or any(other.name == column.name for other in table.columns):
                raise self.error(f"there are two columns named {column.name!r}", offset)
            if column.after and column.after not in added and all(c.name != column.after for c in table.columns):
                raise self.error(
                    f"AFTER {column.after}: the followed table does not declare this column, so its place is not known "
                    "before the messages have it. Declare it there, or remove AFTER",
                    offset,
                )
            added[column.name] = column
            if not self.skip(","):
                break
        if in_brackets:
            self.expect(")")
        return tuple(added.values())

    def _added_column(self, table: TableDefinition) -> ProjectedColumn:
        place = self.position(self.offset())
        name = self.name()
        if not self.skip("AS"):
            raise self.error("ADD COLUMN adds computed columns only: name AS expression")
        end = self._end_of_expression()
        stop = self.offsets[end] if end < len(self.offsets) else self.end
        known = {c.name: c.type for c in table.columns if c.type is not None and c.kind != "computed"}
        columns: dict[str, FlinkType] = SomeColumns({n: replace(t, nullable=True) for n, t in known.items()})
        computed = {c.name: c.source for c in table.columns if c.kind == "computed"}
        expression = projected_expression(self.text, self.offset(), stop, columns=columns, inlined=computed)
        self.index = end
        if self.skip("COMMENT"):
            self.quoted_text("a comment")
        first = self.skip("FIRST")
        return ProjectedColumn(name, expression, place, first, self.name() if not first and self.skip("AFTER") else "")

    def _end_of_expression(self) -> int:
        """Return the index of the token after an expression."""
        depth = 0
        for place in range(self.index, len(self.tokens)):
            token = self.tokens[place]
            ends = token in (",", ")", ";") or token.upper() in _AFTER_EXPRESSION
            if depth == 0 and ends:
                return place
            depth += _BRACKETS.get(token, 0)
        return len(self.tokens)
