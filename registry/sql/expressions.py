"""Translate the expressions of computed columns from Flink SQL to Spark SQL, by a grammar of what is allowed.

    price * amount                              `price` * `amount`
    CAST(ts AS TIMESTAMP(3)) > TIMESTAMP '...'  CAST(`ts` AS TIMESTAMP_NTZ) > TIMESTAMP_NTZ '...'
    TO_TIMESTAMP_LTZ(n, 3)                      timestamp_millis(`n`)

A DDL may come from somebody else, and Spark SQL can call any Java method and read any table. So no text is passed on
unchecked. Allowed are operators, CASE, CAST, literals, intervals, the table's own columns, and the functions in
`shared_functions.py`, which mean the same in both. Everything else is refused with line and column.
Rules: Flink's "System (Built-in) Functions" page; the results were compared by running Flink 2.3 and Spark 4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvformat.registry.contract.ddl import DdlReader
from kvformat.registry.contract.errors import SchemaError, did_you_mean
from kvformat.registry.contract.types import FlinkType, quoted
from kvformat.registry.sql.shared_functions import (
    ANY_COUNT,
    DIFFERENT,
    EPOCH_FUNCTIONS,
    FUNCTIONS,
    RENAMED,
    WITHOUT_BRACKETS,
)

_MOST_NESTED = 60  # levels of brackets; each needs four frames of Python's stack of 1,000
# The word before a literal in quotes, such as DATE '2024-01-02', with Spark's word for it.
LITERAL_PREFIXES = {"DATE": "DATE", "TIME": "TIME", "TIMESTAMP": "TIMESTAMP_NTZ", "X": "X"}
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_PARTS = (*_UNITS[:-1], "DOW", "DOY")  # of EXTRACT; Spark's second has a fraction
_COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
_CALCULATIONS = ("+", "-", "*", "/", "%", "||")
_BOOLEAN = FlinkType("BOOLEAN")
_TEXTS, _BYTES = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")
_FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")
_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPARK_TYPES = {
    "CHAR": "STRING",
    "VARCHAR": "STRING",
    "BINARY": "BINARY",
    "VARBINARY": "BINARY",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression in Flink SQL (`source`) and in Spark SQL (`spark`), or the reason why it is refused (`refused`)."""

    source: str
    spark: str = ""
    refused: str = ""


class ExpressionReader(DdlReader):
    """Parses the expressions of a statement and writes each token in Flink's and in Spark's spelling.

    `hint` says what to do about an expression that is refused.
    """

    hint = "Remove the column from the DDL, and compute it in a query on the decoded DataFrame"

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        super().__init__(text, start, end)
        self._row: dict[str, FlinkType] = {}
        self._flink: list[str] = []
        self._spark: list[str] = []

    def skip_expression(self) -> None:
        """Skip the tokens up to the `,`, `)` or COMMENT after an expression."""
        depth = 0
        while self.peek() and not (depth == 0 and (self.peek() in (",", ")") or self.word() == "COMMENT")):
            depth += _BRACKETS.get(self.peek(), 0)
            self.index += 1

    def expression(self, row: dict[str, FlinkType]) -> Expression:
        """Parse the next expression; `row` has the type of each column that it may use. Never raises."""
        self._row, self._flink, self._spark = row, [], []
        start = self.index
        try:
            self._condition(0)
            if self.peek() and self.peek() not in (",", ")") and self.word() != "COMMENT":
                raise self.error(f"{self.shown()}: unexpected here")
        except SchemaError as error:
            self.index = start
            self.skip_expression()
            hint = f". {self.hint}" if self.hint else ""
            return Expression(_joined(self.tokens[start : self.index]), refused=f"{error.reason}{hint}")
        return Expression(_joined(self._flink), _joined(self._spark))

    # --- the grammar; each method parses one part and returns its type, None if the type is not known ----------

    def _condition(self, depth: int) -> FlinkType | None:
        """Parse values or comparisons, combined by AND, OR and NOT; `depth` is the number of open brackets."""
        if depth > _MOST_NESTED:
            raise self.error(f"(: brackets are nested more than {_MOST_NESTED} levels deep")
        truth = False
        while True:
            while self._copy_word("NOT"):
                truth = True
            found = self._value(depth)
            truth = self._comparison(depth) or truth
            if not (self._copy_word("AND") or self._copy_word("OR")):
                return _BOOLEAN if truth else found
            truth = True

    def _comparison(self, depth: int) -> bool:
        """Parse a comparison after its first value, if there is one; return whether there was."""
        if self.peek() in _COMPARISONS:
            self._copy()
            self._value(depth)
        elif self._copy_word("IS"):
            self._copy_word("NOT")
            if self._copy_word("DISTINCT"):
                self._copy_required("FROM")
                self._value(depth)
            elif not any(self._copy_word(word) for word in ("NULL", "TRUE", "FALSE", "UNKNOWN")):
                raise self.error(f"{self.shown()}: expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS")
        elif self.word() in ("BETWEEN", "IN", "LIKE", "NOT"):
            self._copy_word("NOT")
            if self._copy_word("BETWEEN"):
                self._value(depth)
                self._copy_required("AND")
                self._value(depth)
            elif self._copy_word("IN"):
                self._copy_required("(")
                self._arguments(depth)
            else:
                self._copy_required("LIKE")
                self._value(depth)
                if self._copy_word("ESCAPE"):
                    self._copy_string()
        else:
            return False
        return True

    def _value(self, depth: int) -> FlinkType | None:
        """Parse operands and the arithmetic operators between them."""
        found = self._operand(depth)
        left = found
        while self.peek() in _CALCULATIONS:
            sign, offset = self.peek(), self.offset()
            self._copy()
            right = self._operand(depth)
            fraction = next((t for t in (left, right) if t is not None and t.root in _FRACTIONS), None)
            if sign == "/" and fraction is None:
                why = "Flink truncates the quotient of two integers, Spark does not; divide by 2.0 or by a CAST"
                raise self.error(f"/: {why}", offset)
            found = fraction or found
            left = fraction if sign in ("*", "/", "%") else right
        return found

    def _operand(self, depth: int) -> FlinkType | None:
        while self._copy_word("-") or self._copy_word("+"):
            pass
        found = self._primary(depth)
        while self.peek() in ("[", "."):
            found = self._field_or_element(found, depth)
        return found

    def _field_or_element(self, of: FlinkType | None, depth: int) -> FlinkType | None:
        """Parse `.field` of a ROW or `[key]` of a MAP."""
        if self.peek() == ".":
            self._copy()
            offset, token = self.offset(), self.peek()
            name = self.name()
            self._write(token, quoted(name))
            members = {field.name: field.type for field in of.fields} if of is not None and of.root == "ROW" else {}
            if of is not None and name not in members:
                raise self.error(f"{token}: the ROW has no such field", offset)
            return members.get(name)
        if of is None or of.root != "MAP":
            raise self.error(
                "[...]: only for a MAP; Flink counts the elements of an ARRAY from 1, Spark from 0; use element_at"
            )
        self._copy()
        self._condition(depth + 1)
        self._copy_required("]")
        return of.fields[1].type

    def _primary(self, depth: int) -> FlinkType | None:
        token, word = self.peek(), self.word()
        if token.startswith("'"):
            self._copy_string()
        elif token and _NUMBER.fullmatch(token):
            self._copy()
            return FlinkType("DOUBLE") if set(token) & set(".eE") else None
        elif token == "(":
            self._copy()
            found = self._condition(depth + 1)
            self._copy_required(")")
            return found
        elif word in LITERAL_PREFIXES and self.peek(1).startswith("'"):
            self._copy(LITERAL_PREFIXES[word])
            self._copy_string()
        elif word == "NULL":
            self._copy()
        elif word in ("TRUE", "FALSE"):
            self._copy()
            return _BOOLEAN
        elif word == "INTERVAL":
            self._interval_literal()
        elif word == "CASE":
            self._case(depth)
        elif word in WITHOUT_BRACKETS and self.peek(1) != "(":
            self._write(token, f"{word.lower()}()")
            self.index += 1
        elif self.peek(1) == "(":
            return self._call(depth)
        else:
            return self._column()
        return None

    def _column(self) -> FlinkType:
        offset, token = self.offset(), self.peek()
        if self.peek(1) == "[" and self.word() in ("ARRAY", "MAP"):
            raise self.error(f"{token}[...]: Spark SQL does not have this constructor, its own is {token.lower()}(...)")
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if name not in self._row:
            why = "not a physical or metadata column of the table, and not SQL that Flink and Spark share."
            raise self.error(f"{self.shown()}: {why}{did_you_mean(name, self._row)}".rstrip("."), offset)
        self._write(token, quoted(self.name()))
        return self._row[name]

    def _case(self, depth: int) -> None:
        self._copy()
        if self.word() != "WHEN":
            self._condition(depth + 1)
        while self._copy_word("WHEN"):
            self._condition(depth + 1)
            self._copy_required("THEN")
            self._condition(depth + 1)
        if self._copy_word("ELSE"):
            self._condition(depth + 1)
        self._copy_required("END")

    def _interval_literal(self) -> None:
        """Parse `INTERVAL '1:30' MINUTE TO SECOND(3)`; Spark SQL has no precision here."""
        self._copy()
        self._copy_string()
        while True:
            self._copy_unit(_UNITS, plural=True)
            if self.peek() == "(":
                start = self.index
                self.numbers(2)
                self._flink += self.tokens[start : self.index]
            if not self._copy_word("TO"):
                break

    def _copy_unit(self, units: tuple[str, ...], *, plural: bool = False) -> None:
        word = self.word()
        if word not in units and not (plural and word.removesuffix("S") in units):
            raise self.error(f"{self.shown()}: expected one of {', '.join(units)}")
        self._copy()

    # --- calls -------------------------------------------------------------------------------------------------

    def _call(self, depth: int) -> FlinkType | None:
        offset, shown = self.offset(), self.shown().strip("'`")
        name = self.peek().strip("`").upper()
        special = getattr(self, f"_call_{name.lower()}", None) if name in _SPECIAL else None
        if name in DIFFERENT and special is None:
            raise self.error(f"{name}: {DIFFERENT[name]}", offset)
        if name not in FUNCTIONS and special is None:
            near = did_you_mean(name, [*FUNCTIONS, *_SPECIAL])
            why = f"not a function that means the same in Flink and in Spark.{near}"
            raise self.error(f"{shown.upper()}: {why}", offset)
        self._copy(RENAMED.get(name, name))
        self._copy()
        if special is not None:
            found: FlinkType | None = special(depth + 1)
            self._copy_required(")")
            return found
        count = self._arguments(depth)
        least, most = FUNCTIONS[name]
        if not least <= count <= most:
            allowed = (
                f"{least}" if least == most else f"at least {least}" if most == ANY_COUNT else f"{least} to {most}"
            )
            raise self.error(f"{name}: needs {allowed} arguments in Flink and in Spark, not {count}", offset)
        return None

    def _arguments(self, depth: int) -> int:
        """Parse arguments up to the closing bracket; return their number."""
        count = 0
        if self.peek() != ")":
            count = 1
            self._condition(depth + 1)
            while self._copy_word(","):
                self._condition(depth + 1)
                count += 1
        self._copy_required(")")
        return count

    def _call_cast(self, depth: int) -> FlinkType:
        """Parse the arguments of CAST.

        Flink replaces bytes that are not UTF-8 with U+FFFD. Spark's cast would keep invalid text.
        """
        at, offset = len(self._spark) - 2, self.offset()
        found = self._condition(depth)
        self._copy_required("AS")
        cast_to = self.type(0)
        if found is not None and found.root == "BOOLEAN" and cast_to.root in _TEXTS:
            raise self.error("CAST: a BOOLEAN becomes TRUE in Flink, true in Spark; write a CASE", offset)
        from_bytes = cast_to.root in _TEXTS and (found is None or found.root in _BYTES)
        if from_bytes:
            self._spark[at] = f"make_valid_utf8({self._spark[at]}"
        self._write(str(cast_to), spark_type_text(cast_to) + ")" * from_bytes)
        return cast_to

    _call_try_cast = _call_cast

    def _call_extract(self, depth: int) -> None:
        self._copy_unit(_PARTS)
        self._copy_required("FROM")
        self._condition(depth)

    def _call_position(self, depth: int) -> None:
        self._value(depth)
        self._copy_required("IN")
        self._value(depth)

    def _call_trim(self, depth: int) -> None:
        where = any(self._copy_word(word) for word in ("BOTH", "LEADING", "TRAILING"))
        self._condition(depth)
        if where or self.word() == "FROM":
            self._copy_required("FROM")
            self._condition(depth)

    def _call_substring(self, depth: int) -> None:
        self._condition(depth)
        second, third = ("FROM", "FOR") if self.word() == "FROM" else (",", ",")
        self._copy_required(second)
        self._condition(depth)
        if self._copy_word(third):
            self._condition(depth)

    _call_substr = _call_substring

    def _call_overlay(self, depth: int) -> None:
        self._condition(depth)
        for word in ("PLACING", "FROM"):
            self._copy_required(word)
            self._condition(depth)
        if self._copy_word("FOR"):
            self._condition(depth)

    def _call_regexp_replace(self, depth: int) -> None:
        for _ in range(2):
            self._condition(depth)
            self._copy_required(",")
        if not self.peek().startswith("'") or set(self.peek()) & set("$\\"):
            raise self.error(
                "REGEXP_REPLACE: the replacement must be a string without $ and \\, which mean a group in Spark only"
            )
        self._copy_string()

    def _call_timestampadd(self, depth: int) -> None:
        self._copy_unit(_UNITS)
        for _ in range(2):
            self._copy_required(",")
            self._condition(depth)

    _call_timestampdiff = _call_timestampadd

    def _call_to_timestamp_ltz(self, depth: int) -> None:
        """Parse the arguments, and write Spark's function for the precision instead of the precision."""
        at, offset = len(self._spark) - 2, self.offset()
        self._condition(depth)
        if self.peek() == "," and self.peek(1) in EPOCH_FUNCTIONS and self.peek(2) == ")":
            self._spark[at] = EPOCH_FUNCTIONS[self.peek(1)]
            self._flink += [",", self.peek(1)]
            self.index += 2
        else:
            raise self.error(f"TO_TIMESTAMP_LTZ: {DIFFERENT['TO_TIMESTAMP_LTZ']}", offset)

    # --- output ------------------------------------------------------------------------------------------------

    def _write(self, flink: str, spark: str) -> None:
        self._flink.append(flink)
        self._spark.append(spark)

    def _copy(self, spark: str | None = None) -> None:
        """Copy the next token to the output, for Spark perhaps in another spelling."""
        self._write(self.peek(), self.peek() if spark is None else spark)
        self.index += 1

    def _copy_word(self, word: str) -> bool:
        """Copy the next token if it is this word; return whether it is."""
        found = self.word() == word
        if found:
            self._copy()
        return found

    def _copy_required(self, word: str) -> None:
        if not self._copy_word(word):
            raise self.error(f"{self.shown()}: expected {word!r} here")

    def _copy_string(self) -> None:
        token = self.peek()
        if not token.startswith("'"):
            raise self.error(f"{self.shown()}: expected a string in single quotes")
        self._copy(spark_string(token))


_SPECIAL = [name.removeprefix("_call_").upper() for name in vars(ExpressionReader) if name.startswith("_call_")]
"""Functions whose arguments are not a list of values; each has a method."""


def spark_string(literal: str) -> str:
    """Return Flink's string literal as one of Spark SQL, in which a backslash begins an escape."""
    escaped = literal[1:-1].replace("''", "'").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spark_type_text(type_: FlinkType) -> str:
    """Return a type in Spark SQL's spelling."""
    members = [spark_type_text(member.type) for member in type_.fields]
    if type_.root == "ROW":
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {m}' for f, m in zip(type_.fields, members, strict=True))}>"
    if type_.root in ("ARRAY", "MAP"):
        return f"{type_.root}<{', '.join(members)}>"
    if type_.root == "MULTISET":
        return f"MAP<{members[0]}, INT>"
    if type_.root == "TIME":
        return f"TIME({min(type_.precision or 0, 6)})"
    return type_.summary() if type_.root == "DECIMAL" else _SPARK_TYPES.get(type_.root, type_.root)


def _joined(tokens: list[str]) -> str:
    """Join tokens to text, with a blank between two words but none in names and calls."""
    text = []
    before = ""
    for token in tokens:
        tight = not before or token in ("(", ")", ",", ".", "[", "]") or before in ("(", ".", "[")
        text.append(token if tight else f" {token}")
        before = token
    return "".join(text)
