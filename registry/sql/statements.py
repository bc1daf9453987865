"""A text of Flink SQL, such as a file of SET, CREATE TABLE and INSERT: its statements, and the tables that it creates.

    statements("SET 'a' = 'b'; CREATE TABLE t ...; INSERT INTO t ...")
        SET              at line 1
        CREATE TABLE t   at line 1
        INSERT t         at line 1

Only CREATE TABLE is read; of the others just the first words are looked at. They count where they change what a
name means: USE, DROP TABLE and ALTER TABLE. Strings, names in backticks and comments may hold `;`.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kvformat.registry.contract.errors import SchemaError, did_you_mean
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.sql.table_definition import TableDefinition

# What a `;` may hide in; where a quote or comment is not closed, its beginning alone.
_PIECE = re.compile(
    r"'[^']*(?:''[^']*)*'|`[^`]*(?:``[^`]*)*`|--[^\n]*|//[^\n]*|/\*.*?\*/|(?P<end>;)|(?P<open>['`]|/\*)", re.DOTALL
)
_BLANK = re.compile(r"(?:\s+|--[^\n]*|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_WORD = re.compile(r"`[^`]*(?:``[^`]*)*`|[^\W\d][\w$]*|\.")
_MOST_WORDS = 16  # CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS catalog . database . table
_MOST_BASES = 50
_BOM = "\ufeff"
_LONGEST_PATH = 4096  # characters: Linux's PATH_MAX
# One line that ends as the name of a file of SQL does, or begins as a path does, without what paths seldom have.
_PATH = re.compile(
    r"""(?!//|/\*|--)(?:[^\n;()'"`=<>]*?[^\s.;()'"`=<>]\.(?:sql|ddl|hql|txt)|(?:[A-Z]:\\|~?/|\.{1,2}/)[^\n;()'"`=<>]*)""",
    re.IGNORECASE,
)
_DEFAULTS = ("default_catalog", "default_database")
_BEGINNING = re.compile(
    "ADD|ALTER|ANALYZE|BEGIN|CALL|CLEAR|COMPILE|CREATE|DELETE|DESC|DESCRIBE|DROP|END|EXECUTE|EXIT|EXPLAIN|HELP|INSERT|"
    "LOAD|QUIT|REMOVE|RESET|SELECT|SET|SHOW|STOP|TRUNCATE|UNLOAD|UPDATE|USE|VALUES|WITH"
)
_NO_PART_OF_KIND = ("OR", "REPLACE", "ALTER", "TEMPORARY", "SYSTEM", "IF", "NOT", "EXISTS")
_OBJECTS = ("CATALOG", "CONNECTION", "DATABASE", "FUNCTION", "MATERIALIZED", "MODEL", "TABLE", "VIEW")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a text: `kind` ('CREATE TABLE', 'SET', ...), the `name` of its table or the like, or "", its line.

    The name is as written. Nothing else of the text is kept, as there may be passwords in it.
    """

    kind: str
    name: str
    line: int
    _start: int = field(repr=False)
    _end: int = field(repr=False)
    _options: frozenset[str] = field(repr=False)  # words between kind and name


def statements(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order.

    Raises `SchemaError` for a quote or comment that is not closed, and for what no statement of Flink begins with.
    """
    _check_text(text)
    found, start, line, counted = [], 0, 1, 0
    ends = []
    for match in _PIECE.finditer(text):
        if match["open"]:
            what = "comment" if match["open"] == "/*" else "quote"
            raise SchemaError(f"cannot read the Flink SQL: the {what} is not closed, at {_where(text, match.start())}")
        if match["end"]:
            ends.append(match.start())
    for end in [*ends, len(text)]:
        statement = _statement(text, start, end)
        if statement is not None:
            line += text.count("\n", counted, statement._start)
            counted = statement._start
            found.append(replace(statement, line=line))
        start = end + 1
    return tuple(found)


def _check_text(text: str) -> None:
    """Raise for what was handed over in place of the text, or together with it, by mistake."""
    if text.startswith(_BOM):
        raise SchemaError(
            "cannot read the Flink SQL: it begins with a byte order mark (U+FEFF), which some editors write and Flink "
            "refuses, too. Read the file by Path(...).read_text(encoding='utf-8-sig'), or save it without the mark"
        )
    words = text[:_LONGEST_PATH].split(None, 1)
    is_statement = len(words) > 1 and _BEGINNING.fullmatch(words[0].upper()) is not None
    if not is_statement and len(text) <= _LONGEST_PATH and _PATH.fullmatch(text.strip()):
        raise SchemaError(
            f"cannot read the Flink SQL: {text.strip()!r} is the path of a file, where the text of the file is "
            "expected: Path(...).read_text(encoding='utf-8')"
        )


def find_table(
    text: str, name: str | None = None, *, choose: Callable[[str], str] = "from_ddl(text, table={!r})".format
) -> TableDefinition:
    """The table of this name that a text creates, or its only one.

    `choose` says, given the name of a table, how the caller is told to choose it. Raises `SchemaError`, which lists the
    tables, where there is no such table or more than one.
    """
    return _Tables(text, choose).table(name)


class _Tables:
    """The tables that a text creates, by their full names: of those of one name the last."""

    def __init__(self, text: str, choose: Callable[[str], str]) -> None:
        self.text, self.statements, self.choose = text, statements(text), choose
        self.created: dict[tuple[str, ...], list[tuple[int, Statement | None]]] = {}  # after which statement it is what
        self.altered: dict[tuple[str, ...], int] = {}
        self.current: list[tuple[str, str]] = []
        current = _DEFAULTS
        for i, statement in enumerate(self.statements):
            words = _names(statement.name)
            if statement.kind == "USE CATALOG":
                current = (words[-1], "")
            elif statement.kind == "USE" and words:
                current = (words[0] if len(words) > 1 else current[0], words[-1])
            self.current.append(current)
            if statement.kind.endswith(" TABLE"):
                self._take(i, statement, _full(current, words))

    def _take(self, i: int, statement: Statement, full: tuple[str, ...]) -> None:
        if statement.kind == "DROP TABLE":
            self.created.setdefault(full, []).append((i, None))
        elif statement.kind == "ALTER TABLE":
            self.altered[full] = statement.line
        elif statement.kind == "CREATE TABLE":
            before = self._at(full, i)
            if before is not None and "EXISTS" in statement._options:
                return
            if before is not None and not {"REPLACE", "TEMPORARY"} & statement._options:
                raise SchemaError(
                    f"cannot read the Flink SQL: table '{statement.name}' is created at line {before.line} and again "
                    f"at line {statement.line}, without a DROP TABLE between",
                    field=statement.name,
                )
            self.created.setdefault(full, []).append((i, statement))
            self.altered.pop(full, None)

    def _at(self, full: tuple[str, ...], before: int) -> Statement | None:
        """The table of this name that there is before a statement."""
        states = self.created.get(full, [])
        i = bisect.bisect_left(states, before, key=lambda state: state[0])
        return states[i - 1][1] if i else None

    def table(self, name: str | None) -> TableDefinition:
        there = [full for full in self.created if self._at(full, len(self.statements)) is not None]
        if name is None:
            if len(there) != 1:
                raise SchemaError(self._which(there))
            (full,) = there
        else:
            asked = _names(name)
            fitting = [full for full in there if full[-len(asked) :] == asked or full[-1] == name]
            if len(fitting) != 1:
                several = "no" if not fitting else "more than one"
                near = did_you_mean(name, [_shown(full) for full in there]) if not fitting else ""
                raise SchemaError(
                    f"the text creates {several} table '{name}'.{near} It creates {self._listed(there)}", field=name
                )
            (full,) = fitting
        return self._read(full, len(self.statements), 0)

    def _read(self, full: tuple[str, ...], before: int, depth: int) -> TableDefinition:
        statement = self._at(full, before)
        assert statement is not None
        if full in self.altered:
            raise SchemaError(
                f"table '{_shown(full)}' is changed by ALTER TABLE, at line {self.altered[full]}, which is not read: "
                "write the change into its CREATE TABLE",
                field=_shown(full),
            )
        at = self.statements.index(statement)

        def base(name: tuple[str, ...]) -> TableDefinition:
            of_base = _full(self.current[at], name)
            if self._at(of_base, at) is None:
                there = [full for full in self.created if self._at(full, at) is not None]
                if not there:
                    raise LookupError("the text creates no table before it: put the CREATE TABLE of that table there")
                raise LookupError(f"there is no such table before it, only {self._listed(there)}")
            if depth == _MOST_BASES:
                raise LookupError(f"more than {_MOST_BASES} tables are each LIKE the one before")
            return self._read(of_base, at, depth + 1)

        return parse_create_table(self.text, statement._start, statement._end, base)

    def _which(self, there: Sequence[tuple[str, ...]]) -> str:
        if there:
            first = _shown(there[0])
            return f"the text creates {self._listed(there)}: choose one, {self.choose(first)}"
        skipped = ", ".join(f"{one.kind} (line {one.line})" for one in self.statements[:20])
        return f"the text has no CREATE TABLE; it has {skipped or 'no statement'}"

    def _listed(self, there: Sequence[tuple[str, ...]]) -> str:
        return f"the tables {', '.join(map(_shown, there))}" if there else "no table"


# --- the first words of a statement --------------------------------------------------------------------------


def _statement(text: str, start: int, end: int) -> Statement | None:
    """The statement between two places, without its line; None where there is nothing but comments."""
    begin = place = _behind_blank(text, start, end)
    if begin == end:
        return None
    words: list[str] = []
    while len(words) < _MOST_WORDS and (match := _WORD.match(text, place, end)):
        words.append(match.group())
        place = _behind_blank(text, match.end(), end)
    upper = [word.upper() for word in words]
    if upper[:1] == [] or not _BEGINNING.fullmatch(upper[0]):
        raise SchemaError(
            f"cannot read the Flink SQL: no statement begins as the one at {_where(text, begin)} does; is a quote or "
            "a ; missing before it?"
        )
    kind, at = upper[0], 1
    if kind in ("CREATE", "DROP", "ALTER"):
        at = _behind_options(upper, at)
        if at < len(upper) and upper[at] in _OBJECTS:
            kind, at = f"{kind} {upper[at]}", _behind_options(upper, at + 1)
    elif kind == "USE" and upper[1:2] in (["CATALOG"], ["MODULES"]):
        kind, at = f"{kind} {upper[1]}", 2
    elif kind == "INSERT":
        at = 2
    elif kind != "USE":
        at = len(words)
    name = words[at : at + 1]
    while words[at + 1 : at + 2] == ["."] and at + 2 < len(words):
        name += [".", words[at + 2]]
        at += 2
    return Statement(kind, "".join(name), 0, begin, end, frozenset(upper[1:at]))


def _behind_blank(text: str, place: int, end: int) -> int:
    """The place behind blanks and comments."""
    match = _BLANK.match(text, place, end)
    assert match  # the pattern matches the empty text too
    return match.end()


def _behind_options(upper: list[str], at: int) -> int:
    """The place behind OR REPLACE, TEMPORARY, IF NOT EXISTS."""
    while at < len(upper) and upper[at] in _NO_PART_OF_KIND:
        at += 1
    return at


def _names(path: str) -> tuple[str, ...]:
    """The parts of a name as written: catalog, database, table."""
    parts = re.findall(r"`[^`]*(?:``[^`]*)*`|[^.`]+", path)
    return tuple(part[1:-1].replace("``", "`") if part.startswith("`") else part for part in parts)


def _full(current: tuple[str, str], name: tuple[str, ...]) -> tuple[str, ...]:
    """A name with catalog and database before it."""
    return (*current[: max(0, 3 - len(name))], *name)


def _shown(full: tuple[str, ...]) -> str:
    """A full name without the catalog and database that are Flink's default."""
    shown = full[2:] if full[:2] == _DEFAULTS else full[1:] if full[0] == _DEFAULTS[0] else full
    return ".".join(part for part in shown if part)


def _where(text: str, place: int) -> str:
    return f"line {text.count(chr(10), 0, place) + 1}, column {place - text.rfind(chr(10), 0, place)}"
