r"""Translate the expressions of a transform to Spark SQL, which evaluates them.

    \*, __table_name__ AS shard             *; `__table_name__` AS `shard`
    CAST(ts AS TIMESTAMP(3))                CAST(ts AS TIMESTAMP_NTZ)
    TO_TIMESTAMP_LTZ(n, 3)                  timestamp_millis(n)
    LOCALTIMESTAMP                          localtimestamp()

Only what means something else in Spark SQL is rewritten: types in CAST, literals, and the functions in `_RENAMED`.
Everything else is passed on as written, so all functions of Spark can be used. Names of columns are resolved by Spark.
Rules: Flink CDC's page "Transform" and its `TransformParser`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvformat.ingestion.pipeline.options import Refusal
from kvformat.registry.contract.ddl import DdlReader
from kvformat.registry.contract.errors import did_you_mean
from kvformat.registry.contract.types import quoted
from kvformat.registry.sql.spark_sql import LITERAL_PREFIXES, spark_string, spark_type_text

METADATA_COLUMNS = ("__namespace_name__", "__schema_name__", "__table_name__", "__data_event_type__")
"""Columns that an expression may use beside those of the table: parts of the table's name, and the row's kind."""
_TOKEN = (
    r"`[^`]*(?:``[^`]*)*`|'[^']*(?:''[^']*)*'|\"[^\"]*\"|[^\W\d][\w$]*|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*|"
    r"\\\*|<=>|<>|!=|<=|>=|==|\|\||->|::|[^'`]"
)
_NAME = re.compile(r"`[^`]+(?:``[^`]*)*`|[^\W\d][\w$]*")
_METADATA_NAME = re.compile(r"__\w+__")
_OPEN = {"(": ")", "[": "]"}
_RENAMED = {"TO_TIMESTAMP": "to_timestamp_ntz", "LOCALTIME": "current_time", "CURRENT_TIME": "current_time"}
_CONSTANTS = {
    **{name: name.lower() for name in ("CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_TIME")},
    "LOCALTIME": "current_time",
}
_EPOCHS = {"0": "timestamp_seconds", "3": "timestamp_millis", "6": "timestamp_micros"}
_WITH_PATTERN = ("DATE_FORMAT", "FROM_UNIXTIME", "TO_DATE", "TO_TIMESTAMP", "TO_TIMESTAMP_LTZ", "UNIX_TIMESTAMP")
_NOT_IN_PATTERNS = frozenset("ABnNpYWwuec")  # letters that Spark refuses in a pattern of times
_IN_QUOTES = re.compile("'[^']*'")
_CASTS = ("CAST", "TRY_CAST")
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "JOIN")


@dataclass(frozen=True, slots=True)
class Projected:
    """A column of a projection: its name and its expression in Spark SQL, or in Flink SQL (`flink`).

    `*` has the name "" and no expression.
    """

    name: str
    spark: str = ""
    flink: str = ""

    def __str__(self) -> str:
        """The text in the SQL that the projection was written in."""
        return f"{self.spark or self.flink} AS {quoted(self.name)}" if self.name else "*"


@dataclass(frozen=True, slots=True)
class Translated:
    """A translated projection (`columns`) or filter (`spark`, or `flink`).

    `metadata` are the metadata columns that it uses, `divides` says whether it has a division. `refused` are reasons
    why an expression can't be evaluated, each for a column that is left out.
    """

    columns: tuple[Projected, ...] = ()
    spark: str = ""
    metadata: frozenset[str] = frozenset()
    divides: bool = False
    refused: tuple[Refusal, ...] = ()
    flink: str = ""


def translate_projection(text: str) -> Translated:
    """Translate a SELECT list. Raises `SchemaError` with the position, for invalid text and for repeated names."""
    return _ExpressionRewriter(text, "projection").projection()


def translate_filter(text: str) -> Translated:
    """Translate a WHERE condition. Raises `SchemaError` with the position."""
    return _ExpressionRewriter(text, "filter").condition()


class ItemsReader(DdlReader):
    """Parses the items of a SELECT list. `metadata` are the metadata columns that they use."""

    def __init__(self, text: str, subject: str) -> None:
        self.subject = subject
        super().__init__(text)
        self.metadata: set[str] = set()

    def items(self) -> tuple[Projected, ...]:
        """Parse the items between commas. Raises `SchemaError` for a name that is there twice."""
        columns: dict[str, Projected | None] = {}
        while True:
            start = self.index
            if self.peek() in ("*", "\\*") and self.peek(1) in (",", ""):
                self.index += 1
                column: Projected | None = Projected("")
                name = ""
            elif self.peek() in (",", ""):
                raise self.error("expected a column or an expression")
            else:
                name, column = self.item()
            if name in columns:
                self.index = start
                raise self.error(f"there are two columns named '{name}'" if name else "'*' is written twice")
            columns[name] = column
            if not self.skip(","):
                break
        if self.peek():
            raise self.error(f"{self.shown()}: unexpected after the name of a column")
        return tuple(column for column in columns.values() if column is not None)

    def item(self) -> tuple[str, Projected | None]:
        """Parse one item, and return its name, and the column unless it is refused."""
        raise NotImplementedError

    def note_metadata(self, name: str, shown: str, offset: int) -> None:
        """Remember a metadata column; raises `SchemaError` for an unknown one."""
        if name in METADATA_COLUMNS:
            self.metadata.add(name)
        elif _METADATA_NAME.fullmatch(name):
            raise self.error(
                f"{shown}: there is no such metadata column.{did_you_mean(name, METADATA_COLUMNS)} Columns: "
                f"{', '.join(METADATA_COLUMNS)}. Put the name of a table's own column in backticks",
                offset,
            )


class _ExpressionRewriter(ItemsReader):
    """Rewrites the tokens of one text. `_calls` are the open brackets, each with the function before it."""

    token = re.compile(_TOKEN, re.DOTALL)

    def __init__(self, text: str, subject: str) -> None:
        super().__init__(text, subject)
        self._arguments = self._find_arguments()
        self._calls: list[tuple[str, str]] = []
        self._out: list[str] = []
        self._divides = False

    def projection(self) -> Translated:
        """Translate the items between commas."""
        return Translated(self.items(), "", frozenset(self.metadata), self._divides)

    def condition(self) -> Translated:
        """Translate the whole text."""
        if not self.peek():
            raise self.error("expected a condition")
        spark = self._until(("",))
        return Translated((), spark, frozenset(self.metadata), self._divides)

    def item(self) -> tuple[str, Projected]:
        """Translate one item, up to a comma outside of brackets or to the end."""
        if _NAME.fullmatch(self.peek()) and self.peek(1) in (",", "") and self.word() not in _CONSTANTS:
            self._check_metadata()
            name = self.name()
            return name, Projected(name, quoted(name))
        spark = self._until((",", "", "AS"))
        if not self.skip("AS"):
            raise self.error("an expression needs a name: write <expression> AS <name>")
        if not spark:
            raise self.error("expected an expression before AS")
        name = self.name()
        if self.peek() not in (",", ""):
            raise self.error(f"{self.shown()}: unexpected after the name of a column")
        return name, Projected(name, spark)

    def _until(self, ends: tuple[str, ...]) -> str:
        """Translate tokens up to one of `ends` outside of brackets; "" is the end of the text."""
        self._out = []
        while self._calls or self.word() not in ends:
            if not self.peek():
                raise self.error(f"'{self._calls[-1][1]}' is missing")
            self._translate()
        return "".join(self._out).strip()

    # --- one token ---------------------------------------------------------------------------------------------

    def _translate(self) -> None:
        token, word = self.peek(), self.word()
        if token in _OPEN:
            self._calls.append(("", _OPEN[token]))
            self._write(token)
        elif token in (")", "]"):
            if not self._calls or self._calls.pop()[1] != token:
                raise self.error(f"'{token}' without its opening bracket")
            self._write(token)
        elif token.startswith("'"):
            self._write(token if self._is_raw() else spark_string(token))
        elif token in ("\\*", "\\", ";", '"'):
            raise self.error(f"{self.shown()}: unexpected here")
        elif token[0].isalpha() or token[0] == "_":
            self._translate_word(token, word)
        else:
            self._divides = self._divides or token == "/"
            self._write(token)

    def _translate_word(self, token: str, word: str) -> None:
        after_dot = self.index > 0 and self.tokens[self.index - 1] == "."
        if after_dot:
            self._write(token)
        elif word == "SELECT" or (word in _CLAUSES and not self._calls):
            raise self.error(f"{self.shown()}: only expressions on the table's columns are allowed, and no queries")
        elif word == "AS" and self._calls and self._calls[-1][0] in _CASTS:
            self._write(token)
            self._translate_type()
        elif self.peek(1) == "(":
            self._translate_call(token, word)
        elif word in _CONSTANTS:
            self._write(f"{_CONSTANTS[word]}()")
        elif word in LITERAL_PREFIXES and self.peek(1).startswith("'"):
            self._write(LITERAL_PREFIXES[word])
        else:
            self._check_metadata()
            self._write(token)

    def _translate_type(self) -> None:
        """Translate the type of a CAST; VARIANT is Spark's."""
        if self.word() == "VARIANT":
            self._write(self.peek())
        else:
            start = self.index
            text = spark_type_text(self.type(0))
            self._out.append(f" {text}")
            if self.peek() != ")":
                self.index = max(self.index, start)
                raise self.error("expected ')' after the type")

    def _translate_call(self, token: str, word: str) -> None:
        if word.startswith("AI_"):
            raise self.error(f"{self.shown()}: functions of models are not supported")
        spark = _RENAMED.get(word, token)
        if word in _WITH_PATTERN:
            arguments = [part for part in self._arguments.get(self.index + 1, []) if part]
            if len(arguments) > 1 and len(arguments[-1]) == 1:
                self._check_pattern(word, self.tokens[arguments[-1][0]])
            if word == "TO_TIMESTAMP_LTZ":
                self._translate_instant(arguments)
                return
        self._write(spark)
        self._calls.append((word, ")"))
        self._write("(")

    def _translate_instant(self, arguments: list[range]) -> None:
        """Translate TO_TIMESTAMP_LTZ; Spark's functions for numbers have the precision in their names."""
        last = self.tokens[arguments[-1][0]] if arguments and len(arguments[-1]) == 1 else ""
        if len(arguments) == 2 and last in _EPOCHS:
            comma = arguments[-1][0] - 1
            self._write(_EPOCHS[last])
            self._calls.append(("", ")"))
            self._write("(")
            while self.index < comma:
                self._translate()
            self.index += 2
        elif len(arguments) == 2 and not last.isdigit():
            self._write("to_timestamp")
        else:
            raise self.error(
                "TO_TIMESTAMP_LTZ: write a number with its precision, TO_TIMESTAMP_LTZ(n, 3) with 0, 3 or 6, or a text "
                "with its pattern, TO_TIMESTAMP_LTZ(t, 'yyyy-MM-dd HH:mm:ss')"
            )

    def _find_arguments(self) -> dict[int, list[range]]:
        """Return the indexes of the tokens of each argument, by the index of the opening bracket."""
        arguments: dict[int, list[range]] = {}
        stack: list[tuple[int, int]] = []  # the bracket, and the first token of its current argument
        for at, token in enumerate(self.tokens):
            if token in _OPEN:
                stack.append((at, at + 1))
            elif stack and token in (",", ")", "]"):
                bracket, start = stack.pop()
                arguments.setdefault(bracket, []).append(range(start, at))
                if token == ",":
                    stack.append((bracket, at + 1))
        unclosed = {bracket for bracket, _ in stack}
        return {bracket: parts for bracket, parts in arguments.items() if bracket not in unclosed}

    def _check_pattern(self, word: str, token: str) -> None:
        if token.startswith("'"):
            letters = set(_IN_QUOTES.sub("", token[1:-1].replace("''", "'"))) & _NOT_IN_PATTERNS
            if letters:
                raise self.error(
                    f"{word}: Spark's patterns of times don't have the letter '{min(letters)}'; use y, M, d, H, m, s, S"
                )

    def _check_metadata(self) -> None:
        self.note_metadata(self.peek(), self.shown(), self.offset())

    def _is_raw(self) -> bool:
        """Return whether the next string is one of Spark's raw strings, r'...'."""
        before = self.index - 1
        return before >= 0 and self.tokens[before].lower() == "r" and self.offsets[before] + 1 == self.offset()

    def _write(self, spark: str) -> None:
        """Write the Spark text of the next token, after a blank if there was one, and move behind it."""
        start = self.offset()
        blank = self.index > 0 and start > self.offsets[self.index - 1] + len(self.tokens[self.index - 1])
        self._out.append(f" {spark}" if blank else spark)
        self.index += 1
