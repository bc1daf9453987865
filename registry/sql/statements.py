"""Split a text of Flink SQL into statements, and find the tables that it creates.

    statements("SET 'a' = 'b'; CREATE TABLE t ...; INSERT INTO t ...")
        SET              at line 1
        CREATE TABLE t   at line 1
        INSERT t         at line 1
    find_table(text, "t")        the definition of one table
    created_tables(text)         the definitions of all, for a text that only creates tables

Only CREATE TABLE is parsed. Of other statements only the first words are read, because USE, DROP TABLE and ALTER TABLE
change the meaning of names. Strings, names in backticks and comments may contain `;`. The client commands SET, RESET,
ADD and REMOVE may contain texts that are not SQL, up to the first `;`:

    SET state.checkpoints.dir = s3://bucket/checkpoints;    `//` does not begin a comment here
    ADD JAR hdfs:///lib/udf.jar;

Rules: Flink's `ScriptExecutor` and `SetOperationParseStrategy`, and the statements of its `Parser.tdd`.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvformat.registry.contract.ddl import NAME, PREFIXED, STRING, DdlReader
from kvformat.registry.contract.errors import SchemaError, did_you_mean
from kvformat.registry.sql.confluent_tables import kafka_table
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.sql.legacy_options import check_not_legacy
from kvformat.registry.sql.table_definition import TableDefinition

# A hint, /*+ ... */, is not a comment: it may contain strings. About /***/ see `DdlReader`.
_COMMENT = r"--[^\n\r]*|//[^\n\r]*|/\*(?!\+)(?:\*[^/])?+.*?\*/"
_CREATE_TABLE = r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+)?TABLE(?![\w$])"
# Texts that may contain a `;`, words, the `;` itself (`end`), or the start of a quote or comment that is not closed
# (`open`).
_PIECE = re.compile(
    rf"{STRING}|{PREFIXED}|{_COMMENT}|(?P<create>{_CREATE_TABLE})|{NAME}|\d[\w$]*|(?P<end>;)|(?P<open>['`]|/\*(?!\+))",
    re.DOTALL | re.IGNORECASE,
)
_BLANK = re.compile(rf"(?:\s+|{_COMMENT})*+", re.DOTALL)
_ESCAPE = rf"{_BLANK.pattern}UESCAPE{_BLANK.pattern}{STRING}"
_WORD = re.compile(rf'(?P<unicode>U&"(?:[^"\n\r]|"")+"(?:{_ESCAPE})?)|{NAME}|\.', re.DOTALL | re.IGNORECASE)
_COMMAND = re.compile(r"(?:SET|RESET|ADD|REMOVE|SOURCE|LIST)(?:\s+JARS?)?(?![\w$])", re.IGNORECASE)
_QUOTED = re.compile(rf"{STRING}|{PREFIXED}|=")
_COMMAND_PIECE = re.compile(r"(?<![^\s=])(?:'[^']*'|(?P<open>'))|(?P<end>;)")
_MOST_WORDS = 16  # words: CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS catalog . database . table
_MOST_BASES = 50
_BOM = "\ufeff"
_LONGEST_PATH = 4096  # characters: Linux's PATH_MAX
# One line that ends like the name of an SQL file or begins like a path, without characters that are rare in paths.
_PATH = re.compile(
    r"""(?!//|/\*|--)(?:[^\n;()'"`=<>]*?[^\s.;()'"`=<>]\.(?:sql|ddl|hql|txt)|(?:[A-Z]:\\|~?/|\.{1,2}/)[^\n;()'"`=<>]*)""",
    re.IGNORECASE,
)
_DEFAULTS = ("default_catalog", "default_database")
_FIRST_WORDS = re.compile(
    "ADD|ALTER|ANALYZE|BEGIN|CALL|CLEAR|COMPILE|CREATE|DELETE|DESC|DESCRIBE|DROP|END|EXECUTE|EXIT|EXPLAIN|HELP|INSERT|"
    "LIST|LOAD|MERGE|QUIT|REMOVE|REPLACE|RESET|SELECT|SET|SHOW|SOURCE|STOP|TABLE|TRUNCATE|UNLOAD|UPDATE|USE|VALUES|WITH"
)
_WITH_CREATE_TABLE = ("COMPILE", "EXECUTE", "EXPLAIN", "SHOW")  # statements that may contain CREATE TABLE
_NEXT_STATEMENT = re.compile(rf"(?:^[ \t]*(?:{_FIRST_WORDS.pattern})(?=[\s;]|\Z)|{_CREATE_TABLE})", re.I | re.M)
_OPTION_WORDS = ("OR", "REPLACE", "ALTER", "TEMPORARY", "SYSTEM", "IF", "NOT", "EXISTS")
_OBJECTS = ("CATALOG", "CONNECTION", "DATABASE", "FUNCTION", "MATERIALIZED", "MODEL", "TABLE", "VIEW")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: its `kind` ('CREATE TABLE', 'SET', ...), the `name` of its table or other object, and its line.

    The name is as written, "" if there is none. U&"..." is a name in backticks. The rest of the text is not kept,
    because it may contain passwords.
    """

    kind: str
    name: str
    line: int
    _start: int = field(repr=False)
    _end: int = field(repr=False)
    _options: frozenset[str] = field(repr=False)  # words that are not part of kind and name

    @property
    def span(self) -> tuple[int, int]:
        """The offsets in the text where the statement begins and ends."""
        return self._start, self._end


def statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a text, in order.

    Raises `SchemaError` for a quote or comment that is not closed, and for text that does not begin like a statement.
    """
    _check_text(text)
    parsed, start, line, counted = [], 0, 1, 0
    while (begin := _after_blank(text, start, len(text))) < len(text):
        command = _COMMAND.match(text, begin)
        end = _command_end(text, begin, command.end()) if command else _statement_end(text, begin)
        if begin < end:
            line += text.count("\n", counted, begin)
            counted = begin
            parsed.append(_statement(text, begin, end, line))
        start = end + 1
    return tuple(parsed)


def _statement_end(text: str, begin: int) -> int:
    """Return the offset of the `;` after a statement, or the end of the text."""
    for match in _PIECE.finditer(text, begin):
        if match["open"]:
            raise _not_closed("comment" if match["open"] == "/*" else "quote", text, match.start())
        if match["create"] and match.start() > begin:
            first = _WORD.match(text, begin)
            if first is None or first.group().upper() not in _WITH_CREATE_TABLE:
                raise _missing_end(text, begin, match.start())
        if match["end"]:
            return match.start()
    return len(text)


def _command_end(text: str, begin: int, after_words: int) -> int:
    """Return the offset of the `;` after a client command, or the end of the text.

    Flink parses a command as SQL if all its texts are in quotes. A text without quotes may contain anything except `;`,
    such as `//`, `--` and `it's`.
    """
    offset, end = _after_blank(text, after_words, len(text)), len(text)
    while match := _QUOTED.match(text, offset):
        offset = _after_blank(text, match.end(), end)
    if offset == end or text[offset] == ";":
        return offset
    for match in _COMMAND_PIECE.finditer(text, begin):
        if match["open"]:
            raise _not_closed("quote", text, match.start())
        if match["end"]:
            end = match.start()
            break
    following = _NEXT_STATEMENT.search(text, begin + 1, end)
    if following:
        raise _missing_end(text, begin, following.end())
    return end


def _not_closed(what: str, text: str, offset: int) -> SchemaError:
    return SchemaError(f"cannot read the Flink SQL: the {what} is not closed, at {_position(text, offset)}")


def _missing_end(text: str, begin: int, following: int) -> SchemaError:
    """Return the error for a statement without a `;` before the next one."""
    return SchemaError(
        f"cannot read the Flink SQL: a ; is missing after the statement at {_position(text, begin)}, because another "
        f"one begins at line {text.count(chr(10), 0, following) + 1}"
    )


def _check_text(text: str) -> None:
    """Raise `SchemaError` for a byte order mark, and for a path instead of a text."""
    if text.startswith(_BOM):
        raise SchemaError(
            "cannot read the Flink SQL: it begins with a byte order mark (U+FEFF), which some editors write and Flink "
            "refuses, too. Read the file with Path(...).read_text(encoding='utf-8-sig'), or save it without the mark"
        )
    if is_path(text):
        raise SchemaError(
            f"cannot read the Flink SQL: {text.strip()!r} is the path of a file; pass the text of the "
            "file: Path(...).read_text(encoding='utf-8')"
        )


def is_path(text: str) -> bool:
    """Return whether a text is the path of a file, and no SQL."""
    words = text[:_LONGEST_PATH].split(None, 1)
    is_statement = len(words) > 1 and _FIRST_WORDS.fullmatch(words[0].upper()) is not None
    return not is_statement and len(text) <= _LONGEST_PATH and _PATH.fullmatch(text.strip()) is not None


def find_table(
    text: str,
    name: str | None = None,
    *,
    options: Mapping[str, str | None] | None = None,
    choose: Callable[[str], str] = "from_ddl(text, table={!r})".format,
) -> TableDefinition:
    """Return the table of this name that a text creates, or its only table; always one of the connectors for Kafka.

    `options` replace its own; None removes one.
    `choose` takes the name of a table and returns how to choose it, for an error. Raises `SchemaError` with the list of
    tables if there is no such table or more than one.
    """
    table = CreatedTables(text, choose).table(name)
    merged = {key: value for key, value in {**table.options, **(options or {})}.items() if value is not None}
    check_not_legacy(table.name, merged)
    return kafka_table(replace(table, options=merged))


def table_names(text: str, names: Sequence[str] | None = None) -> dict[str, tuple[str, ...]]:
    """Return the tables that exist after the statements of a text, or those of these names.

    The full name of each (catalog, database, table), by a name that chooses it and has no default catalog.
    Raises `SchemaError` for a text without a table, and for a name of no table or of several.
    """
    tables = CreatedTables(text, "tables=[{!r}]".format)
    existing = tables._existing(len(tables.statements))
    if not existing:
        raise SchemaError(tables._choice(existing))
    paths = existing if names is None else [tables.full(name) for name in names]
    last_parts = [full[-1] for full in existing]
    full_names = {}
    for full in paths:
        is_ambiguous = _shown(full) == full[-1] and last_parts.count(full[-1]) > 1
        full_names[".".join(full[1:]) if is_ambiguous else _shown(full)] = full
    return full_names


def created_tables(text: str) -> dict[tuple[str, ...], TableDefinition]:
    """Return the tables that a text of CREATE TABLE statements creates, by the parts of their names as written.

    Raises `SchemaError` with line and column; also for other statements, and for a table that is created twice.
    """
    tables: dict[tuple[str, ...], TableDefinition] = {}
    for statement in statements(text):
        if statement.kind != "CREATE TABLE":
            raise SchemaError(
                f"cannot read the Flink SQL: only CREATE TABLE is allowed here, not {statement.kind}, at line "
                f"{statement.line}"
            )
        table = parse_create_table(text, statement._start, statement._end)
        if tables.setdefault(_names(statement.name), table) is not table:
            raise SchemaError(
                f"cannot read the Flink SQL: table '{statement.name}' is created twice, again at line {statement.line}",
                field=statement.name,
            )
    return tables


class CreatedTables:
    """The tables that a text creates, by full name (catalog, database, table); of equal names the last counts."""

    def __init__(self, text: str, choose: Callable[[str], str]) -> None:
        self.text, self.statements, self.choose = text, statements(text), choose
        # of each table its history: the index of a statement, and the CREATE TABLE that counts after it (None: dropped)
        self.created: dict[tuple[str, ...], list[tuple[int, Statement | None]]] = {}
        self.altered: dict[tuple[str, ...], list[tuple[int, int]]] = {}  # of each ALTER TABLE its index and line
        self.current: list[tuple[str, str]] = []  # of each statement the current catalog and database
        current = _DEFAULTS
        for i, statement in enumerate(self.statements):
            words = _names(statement.name)
            if statement.kind == "USE CATALOG" and words:
                current = _DEFAULTS if words[-1] == _DEFAULTS[0] else (words[-1], "")
            elif statement.kind == "USE" and words:
                current = (words[0] if len(words) > 1 else current[0], words[-1])
            self.current.append(current)
            if statement.kind.endswith(" TABLE"):
                self._record(i, statement, _full(current, words))

    def _record(self, i: int, statement: Statement, full: tuple[str, ...]) -> None:
        if statement.kind == "DROP TABLE":
            self.created.setdefault(full, []).append((i, None))
        elif statement.kind == "ALTER TABLE":
            self.altered.setdefault(full, []).append((i, statement.line))
        elif statement.kind in ("CREATE TABLE", "REPLACE TABLE"):
            before = self._at(full, i)
            if before is not None and "EXISTS" in statement._options:
                return
            if before is not None and not {"REPLACE", "TEMPORARY"} & statement._options:
                raise SchemaError(
                    f"cannot read the Flink SQL: table '{statement.name}' is created at line {before.line} and again "
                    f"at line {statement.line}, without a DROP TABLE in between",
                    field=statement.name,
                )
            self.created.setdefault(full, []).append((i, statement))

    def _at(self, full: tuple[str, ...], before: int) -> Statement | None:
        """Return the CREATE TABLE that counts before a statement; None if the table does not exist then."""
        return self._state(full, before)[1]

    def _state(self, full: tuple[str, ...], before: int) -> tuple[int, Statement | None]:
        """Return the index of the last CREATE or DROP before a statement, and the CREATE TABLE that counts after it."""
        states = self.created.get(full, [])
        i = bisect.bisect_left(states, before, key=lambda state: state[0])
        return states[i - 1] if i else (-1, None)

    def seen_by(self, i: int, name: tuple[str, ...]) -> Statement:
        """Return the CREATE TABLE that counts for a name in statement `i`; raises `LookupError` with the reason."""
        full = _full(self.current[i], name)
        statement = self._at(full, i)
        if statement is None:
            tables = self._existing(i)
            there = f"only {_listed(tables)}" if tables else "and the text creates no other table before it"
            raise LookupError(f"the table '{_shown(full)}' does not exist before it, {there}")
        if changed := self._altered(full, i):
            raise LookupError(changed)
        return statement

    def _altered(self, full: tuple[str, ...], before: int) -> str:
        """Return the error for a table that ALTER TABLE has changed before a statement; "" if it has not."""
        changes = self.altered.get(full, [])
        i = bisect.bisect_left(changes, before, key=lambda change: change[0])
        if not i or changes[i - 1][0] < self._state(full, before)[0]:
            return ""
        return (
            f"table '{_shown(full)}' is changed by ALTER TABLE, at line {changes[i - 1][1]}, which is not "
            "supported: write the change into its CREATE TABLE"
        )

    def written_parts(self, i: int, name: tuple[str, ...]) -> tuple[str, ...]:
        """Return a name in statement `i` with the current catalog and database, without Flink's defaults."""
        full = _full(self.current[i], name)
        begin = 2 if full[:2] == _DEFAULTS else 1 if full[0] == _DEFAULTS[0] else 0
        return tuple(part for part in full[begin:] if part)

    def table(self, name: str | None) -> TableDefinition:
        """Return the table of this name, or the only table; raises `SchemaError`."""
        tables = self._existing(len(self.statements))
        if name is None:
            if len(tables) != 1:
                raise SchemaError(self._choice(tables))
            (full,) = tables
        else:
            full = self.full(name)
        return self._read(full, len(self.statements), 0)

    def full(self, name: str) -> tuple[str, ...]:
        """Return the full name of the table with this name; raises `SchemaError`."""
        tables = self._existing(len(self.statements))
        wanted = _names(name)
        matching = [full for full in tables if full[-len(wanted) :] == wanted or full[-1] == name]
        if len(matching) > 1:  # `db.t` is the table of the default catalog, also beside `cat.db.t`
            matching = [full for full in matching if full == (_DEFAULTS[0], *wanted)] or matching
        if len(matching) != 1:
            count = "no" if not matching else "more than one"
            near = did_you_mean(name, [_shown(full) for full in tables]) if not matching else ""
            raise SchemaError(
                f"the text creates {count} table '{name}'.{near} It creates {_listed(tables)}", field=name
            )
        return matching[0]

    def _existing(self, before: int) -> list[tuple[str, ...]]:
        """Return the tables that exist before a statement."""
        return [full for full in self.created if self._at(full, before) is not None]

    def _read(self, full: tuple[str, ...], before: int, depth: int) -> TableDefinition:
        """Parse the CREATE TABLE that counts before a statement; `depth` is the number of LIKEs that led to it."""
        statement = self._at(full, before)
        assert statement is not None
        if changed := self._altered(full, before):
            raise SchemaError(changed, field=_shown(full))
        at = self.statements.index(statement)

        def base(name: tuple[str, ...]) -> TableDefinition:
            of_base = _full(self.current[at], name)
            if self._at(of_base, at) is None:
                tables = self._existing(at)
                if not tables:
                    raise LookupError(
                        "the text creates no table before it: put the CREATE TABLE of the base table there"
                    )
                raise LookupError(f"the table does not exist before it, only {_listed(tables)}")
            if depth == _MOST_BASES:
                raise LookupError(f"more than {_MOST_BASES} tables are LIKE one another in a chain")
            return self._read(of_base, at, depth + 1)

        return parse_create_table(self.text, statement._start, statement._end, base)

    def _choice(self, tables: Sequence[tuple[str, ...]]) -> str:
        """Return the error for a text that has several tables, or none, if no name is given."""
        if tables:
            return f"the text creates {_listed(tables)}: choose one, {self.choose(_shown(tables[0]))}"
        skipped = ", ".join(f"{statement.kind} (line {statement.line})" for statement in self.statements[:20])
        return f"the text has no CREATE TABLE; it has {skipped or 'no statement'}"


def _listed(tables: Sequence[tuple[str, ...]]) -> str:
    return f"the tables {', '.join(map(_shown, tables))}" if tables else "no table"


# --- the first words of a statement --------------------------------------------------------------------------


def _statement(text: str, begin: int, end: int, line: int) -> Statement:
    """Return the statement between two offsets."""
    offset = begin
    while text[offset] == "(":  # a query
        offset = _after_blank(text, offset + 1, end)
        if offset == end:
            break
    words: list[str] = []
    while len(words) < _MOST_WORDS and (match := _WORD.match(text, offset, end)):
        words.append(DdlReader(match.group()).tokens[0] if match["unicode"] else match.group())
        offset = _after_blank(text, match.end(), end)
    upper = [word.upper() for word in words]
    if upper[:1] == [] or not _FIRST_WORDS.fullmatch(upper[0]):
        raise SchemaError(
            f"cannot read the Flink SQL: no statement begins like the text at {_position(text, begin)}; is a quote "
            "or a ; missing before it?"
        )
    kind, at = upper[0], 1
    if kind in ("CREATE", "DROP", "ALTER"):
        at = _after_options(upper, at)
        if at < len(upper) and upper[at] in _OBJECTS:
            words_of_object = 2 if upper[at : at + 2] == ["MATERIALIZED", "TABLE"] else 1
            kind, at = " ".join([kind, *upper[at : at + words_of_object]]), _after_options(upper, at + words_of_object)
    elif kind == "USE" and upper[1:2] in (["CATALOG"], ["MODULES"]):
        kind, at = f"{kind} {upper[1]}", 2
    elif kind == "REPLACE" and upper[1:2] == ["TABLE"]:
        kind, at = "REPLACE TABLE", 2
    elif kind == "INSERT":
        at = 2
    elif kind != "USE":
        at = len(words)
    name = words[at : at + 1]
    while words[at + 1 : at + 2] == ["."] and at + 2 < len(words):
        name += [".", words[at + 2]]
        at += 2
    return Statement(kind, "".join(name), line, begin, end, frozenset([*upper[1:at], *kind.split()]))


def _after_blank(text: str, offset: int, end: int) -> int:
    """Return the offset after blanks and comments."""
    match = _BLANK.match(text, offset, end)
    assert match  # the pattern matches the empty text too
    return match.end()


def _after_options(upper: list[str], at: int) -> int:
    """Return the index after OR REPLACE, TEMPORARY, IF NOT EXISTS."""
    while at < len(upper) and upper[at] in _OPTION_WORDS:
        at += 1
    return at


def _names(path: str) -> tuple[str, ...]:
    """Return the parts of a name: catalog, database, table, as far as they are written."""
    parts = re.findall(r"`[^`]*(?:``[^`]*)*`|[^.`]+", path)
    return tuple(part[1:-1].replace("``", "`") if part.startswith("`") else part for part in parts)


def _full(current: tuple[str, str], name: tuple[str, ...]) -> tuple[str, ...]:
    """Return a name with the current catalog and database before it, if it does not have them."""
    return (*current[: max(0, 3 - len(name))], *name)


def _shown(full: tuple[str, ...]) -> str:
    """Return a full name as text, without Flink's default catalog and database."""
    shown = full[2:] if full[:2] == _DEFAULTS else full[1:] if full[0] == _DEFAULTS[0] else full
    return ".".join(part for part in shown if part)


def _position(text: str, offset: int) -> str:
    return f"line {text.count(chr(10), 0, offset) + 1}, column {offset - text.rfind(chr(10), 0, offset)}"
