r"""Patterns of table names, and the routes from source tables to target tables.

Flink CDC has two syntaxes of patterns. In both, `.` separates the parts of a name, `\.` is any character of a regular
expression, and a comma separates alternatives. So a comma can't be part of a pattern, as in `{1,2}`.

| | routes | selectors of transforms and of `sink.tableId-to-topic.mapping` |
| --- | --- | --- |
| compared | with the whole name | part by part, from the right |
| upper and lower case | differ | are equal |
| `mydb.orders` and the table `orders` | no match | match: parts that the name lacks are not compared |
| `orders` and the table `mydb.orders` | no match | no match |

    {"source-table": r"mydb.orders_\.*", "sink-table": "ods.orders"}                       tables merged to one
    {"source-table": r"mydb.\.*", "sink-table": "ods.<>", "replace-symbol": "<>"}          <> is the table's last part
    {"source-table": r"mydb.(\.*)_(\.*)", "sink-table": "$1.$2"}                           groups of the pattern

Rules: Flink CDC's `Selectors`, `Predicates` and `TableIdRouter`. Its routes replace each place where the pattern is
found in a name. Here, the groups of the whole name are inserted once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.schemas.table_id import MOST_PARTS, TableId
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.java.regex import JavaPattern, RegexError, SlowMatchError, compile_java

RouteMode = Literal["ALL_MATCH", "FIRST_MATCH"]
_MOST_ROUTED = 10_000  # the routes of so many tables are remembered
_ALTERNATIVES_IN_CLASS = re.compile(r"\[[^\]]*\|[^\]]*\]")
_GROUP = re.compile(r"\\(.)|\$(\d+)|(\$)", re.DOTALL)


def pattern_warning(text: str) -> str:
    """Return a warning for a pattern with `|` in a class, as in Flink's documentation, or "".

    `[app|web]` is one of the characters `abepw|`. `(app|web)` is one of the words.
    """
    match = _ALTERNATIVES_IN_CLASS.search(text)
    if not match:
        return ""
    words = match[0][1:-1]
    return f"the pattern {text!r} has a class of characters, {match[0]}; for one of several words, write ({words})"


def _compiled(text: str, option: str, whole: str) -> JavaPattern:
    try:
        return compile_java(text)
    except RegexError as cause:
        comma = ". A comma separates alternatives, so it can't be part of a pattern" if "," in whole else ""
        raise OptionError(
            f"'{option}' is {whole!r}, which is not a pattern of table names: {cause}{comma}. A dot separates the "
            r"parts of a name, and \. is any character",
            option=option,
        ) from cause


def _matched(pattern: JavaPattern, text: str, option: str) -> bool:
    try:
        return pattern.matches(text)
    except SlowMatchError as cause:
        raise OptionError(
            f"'{option}' needs more than {cause.seconds:g} s to compare with {text!r}: its repeats are nested; write "
            "it without a repeat inside of a repeat",
            option=option,
        ) from cause


# --- selectors -----------------------------------------------------------------------------------------


class Selector:
    """A pattern of a transform or of a mapping to topics.

    Raises `OptionError` naming `option` for a text that is not one.
    """

    def __init__(self, text: str, option: str) -> None:
        self.text, self._option = text, option
        alternatives = [_split(alternative, ".", text, option) for alternative in _split(text, ",", text, option)]
        for parts in alternatives:
            if not 1 <= len(parts) <= MOST_PARTS:
                raise OptionError(
                    f"'{option}' is {text!r}, and a pattern of table names has one to three parts with dots between "
                    r"them; \. is any character",
                    option=option,
                )
        if not alternatives:
            raise OptionError(f"'{option}' is {text!r}, which names no table", option=option)
        self._alternatives = [
            [[_compiled(f"(?i){p}", option, text) for p in _split(part, ",", text, option)] for part in parts]
            for parts in alternatives
        ]

    def __reduce__(self) -> tuple[type[Selector], tuple[str, str]]:
        return Selector, (self.text, self._option)  # Spark's workers compile the patterns again

    def matches(self, table: TableId) -> bool:
        """Whether the pattern matches a table."""
        names = table.shown_parts()
        return any(
            len(parts) >= len(names)
            and all(
                any(_matched(pattern, name, self._option) for pattern in patterns)
                for patterns, name in zip(parts[-len(names) :], names, strict=True)
            )
            for parts in self._alternatives
        )


def _split(text: str, separator: str, whole: str, option: str) -> list[str]:
    r"""Split at a separator that has no backslash before it, and remove the backslashes of the others.

    Empty pieces are skipped, spaces around a piece are removed.
    """
    pieces, start, index = [], 0, 0
    while index < len(text):
        if text[index] == "\\":
            if index + 1 == len(text):
                raise OptionError(f"'{option}' is {whole!r}, which ends with a backslash", option=option)
            index += 1
        elif text[index] == separator:
            pieces.append(text[start:index])
            start = index + 1
        index += 1
    pieces.append(text[start:])
    return [piece.strip().replace(f"\\{separator}", separator) for piece in pieces if piece]


# --- routes --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Route:
    """A rule: tables that match `source` become the table `sink`.

    Groups of the pattern replace `$1`, ... in `sink`. If `symbol` is not None, the source table's last part replaces it
    instead.
    """

    source: str
    sink: str
    symbol: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the rule of a `route` block."""
        return cls(options["source-table"], options["sink-table"], options.get("replace-symbol") or None)

    def pattern(self) -> JavaPattern:
        """Return the pattern of the whole name. Raises `OptionError` for a text that is not one."""
        alternatives = [piece.strip() for piece in self.source.split(",")]
        # a dot is a dot, and \. is a dot of a regular expression
        expressions = [re.sub(r"\\?\.", lambda match: {".": r"\."}.get(match[0], "."), a) for a in alternatives if a]
        return _compiled("|".join(expressions), "route.source-table", self.source)

    def target_of(self, table: TableId) -> TableId | None:
        """Return the target of a table, or None if the rule does not match it.

        Raises `OptionError` if `sink` names a group that the pattern does not have, and `SchemaChangeError` if the
        result is not a name: that of a topic may have many parts, and a group may be empty.
        """
        pattern, name = self.pattern(), str(table)
        if not _matched(pattern, name, "route.source-table"):
            return None
        if self.symbol is not None:
            target = self.sink.replace(self.symbol, table.table)
        else:
            target = self._with_groups((name, *(pattern.groups(name) or ())))
        try:
            return TableId.parse(target)
        except OptionError as error:
            raise SchemaChangeError(
                f"table {table}: the route of {self.source!r} leads to {self.sink!r}: {error}", table=name
            ) from error

    def check(self) -> None:
        """Raise `OptionError` for a rule that fails for each table that it matches."""
        groups = self.pattern().group_count
        name = self.sink if self.symbol is None else self.sink.replace(self.symbol, "table")
        TableId.parse(name if self.symbol is not None else self._with_groups(("group",) * (groups + 1)))

    def _with_groups(self, groups: Sequence[str | None]) -> str:
        """Insert groups; `groups` begins with the whole match, `$0`.

        As in Java, `$12` is group 1 and the digit 2 if there are fewer than 12 groups.
        """

        def inserted(match: re.Match[str]) -> str:
            escaped, digits, _ = match.groups()
            if escaped is not None:
                return escaped
            for end in range(len(digits or ""), 0, -1):
                if int(digits[:end]) < len(groups):
                    return (groups[int(digits[:end])] or "") + digits[end:]
            raise OptionError(
                f"'route.sink-table' is {self.sink!r}, and 'route.source-table' {self.source!r} has {len(groups) - 1} "
                r"groups: write one of $1 to $n for the n-th pair of parentheses, and \$ for the character",
                option="route.sink-table",
            )

        return _GROUP.sub(inserted, self.sink)


class Router:
    """All routes. A table that no rule matches keeps its name.

    `ALL_MATCH` applies all rules that match, `FIRST_MATCH` only the first one. Raises `OptionError` for a pattern that
    is not one; `check` finds the other mistakes.
    """

    def __init__(self, routes: Sequence[Route], mode: RouteMode = "ALL_MATCH") -> None:
        self.routes, self.mode = tuple(routes), mode
        for route in routes:
            route.pattern()
        self._remembered = functools.lru_cache(_MOST_ROUTED)(self._targets)

    def __reduce__(self) -> tuple[type[Router], tuple[tuple[Route, ...], RouteMode]]:
        return Router, (self.routes, self.mode)

    def check(self) -> None:
        """Raise `OptionError` for a rule that can't be applied to any table."""
        for route in self.routes:
            route.check()

    def targets(self, table: TableId) -> tuple[TableId, ...]:
        """Return the targets of a table, each once."""
        return self._remembered(table)

    def _targets(self, table: TableId) -> tuple[TableId, ...]:
        targets = [target for route in self.routes if (target := route.target_of(table))]
        return tuple(dict.fromkeys(targets[:1] if self.mode == "FIRST_MATCH" else targets)) or (table,)
