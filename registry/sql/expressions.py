"""Expressions of computed columns: Flink SQL read by a grammar of what is allowed, written as Spark SQL.

    price * amount                              `price` * `amount`
    CAST(ts AS TIMESTAMP(3)) > TIMESTAMP '...'  CAST(`ts` AS TIMESTAMP_NTZ) > TIMESTAMP_NTZ '...'
    TO_TIMESTAMP_LTZ(n, 3)                      timestamp_millis(`n`)

A DDL may be somebody else's, and Spark's SQL can call any method of Java and read any table. So nothing is handed
on as it is: operators, CASE, CAST, literals, intervals, the table's own columns and the functions below are known
to mean the same in both, and all else is refused with line and column.
Rules: Flink's "System (Built-in) Functions" page; what both give was compared by running Flink 2.3 and Spark 4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvformat.registry.contract.errors import SchemaError, did_you_mean
from kvformat.registry.contract.types import FlinkType, quoted
from kvformat.registry.sql.ddl import DdlReader

_ANY = 2**31
_MOST_NESTED = 60  # brackets within each other; each takes four frames of Python's stack of 1,000
# The functions that Flink and Spark share, by how many arguments they take in both.
_FUNCTIONS = {
    name: arguments
    for arguments, names in {
        (0, 0): "E NOW PI UUID",
        (0, 1): "RAND",
        (0, 2): "UNIX_TIMESTAMP",
        (1, 1): "ABS ACOS ARRAY_DISTINCT ARRAY_MAX ARRAY_MIN ASIN ATAN BIN CARDINALITY LTRIM RTRIM CEIL CEILING "
        "CHARACTER_LENGTH CHAR_LENGTH CHR COS COSH COT DAYOFMONTH DAYOFWEEK DAYOFYEAR DEGREES EXP FLOOR "
        "HEX HOUR LN LOG10 LOG2 LOWER MAP_ENTRIES MAP_KEYS MAP_VALUES MD5 MINUTE MONTH QUARTER RADIANS "
        "REVERSE SECOND SHA1 SIN SINH SQRT TAN TANH UNHEX UPPER URL_DECODE URL_ENCODE YEAR",
        (1, 2): "BTRIM FROM_UNIXTIME LOG ROUND TO_DATE TO_TIMESTAMP",
        (1, _ANY): "COALESCE CONCAT",
        (2, 2): "ARRAY_APPEND ARRAY_CONTAINS ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_POSITION ARRAY_PREPEND "
        "ARRAY_REMOVE ARRAY_UNION ATAN2 DATE_FORMAT DECODE ENCODE ENDSWITH IFNULL INSTR LEFT "
        "MAP_FROM_ARRAYS MOD NULLIF POWER REGEXP REGEXP_COUNT REGEXP_INSTR REGEXP_SUBSTR REPEAT RIGHT "
        "SHA2 STARTSWITH",
        (2, 3): "ARRAY_JOIN LOCATE PARSE_URL",
        (2, _ANY): "CONCAT_WS ELT PRINTF",
        (3, 3): "IF LPAD REPLACE RPAD STR_TO_MAP TRANSLATE",
    }.items()
    for name in names.split()
}
_RENAMED = {"TO_TIMESTAMP": "to_timestamp_ntz"}  # in Flink it gives a TIMESTAMP without time zone
_EPOCHS = {"0": "timestamp_seconds", "3": "timestamp_millis"}  # TO_TIMESTAMP_LTZ by precision
# What both have and mean otherwise, or what has a near relation in Spark.
_OTHERWISE = {
    "ASCII": "Flink gives the first byte, Spark the first character",
    "CURRENT_WATERMARK": "Spark SQL has no such function",
    "GREATEST": "Flink gives NULL where an argument is NULL, Spark leaves it out",
    "INITCAP": "a word ends at any mark in Flink, at blanks only in Spark",
    "LEAST": "Flink gives NULL where an argument is NULL, Spark leaves it out",
    "PROCTIME": "processing time has no counterpart in a row; use current_timestamp() in a query",
    "REGEXP_EXTRACT": "where nothing matches Flink gives NULL, Spark an empty text",
    "SIGN": "Flink gives a number of the argument's type, Spark a DOUBLE",
    "SPLIT": "Flink splits at a text, Spark at a regular expression",
    "TO_TIMESTAMP_LTZ": "Spark has it only for a number with precision 0 or 3, TO_TIMESTAMP_LTZ(n, 3)",
}
_NOW = {"CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"}  # functions without brackets
_TYPED = {"DATE": "DATE", "TIME": "TIME", "TIMESTAMP": "TIMESTAMP_NTZ", "X": "X"}  # DATE '2024-01-02', as Spark has it
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
    """An expression as written (`source`) and as Spark SQL (`spark`), or why it has no Spark SQL (`refused`)."""

    source: str
    spark: str = ""
    refused: str = ""


class ExpressionReader(DdlReader):
    """Reads expressions among the tokens of a statement."""

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        super().__init__(text, start, end)
        self._row: dict[str, FlinkType] = {}
        self._flink: list[str] = []
        self._spark: list[str] = []

    def skip_expression(self) -> None:
        """Step to the `,`, the `)` or the COMMENT behind an expression."""
        depth = 0
        while self.peek() and not (depth == 0 and (self.peek() in (",", ")") or self.word() == "COMMENT")):
            depth += _BRACKETS.get(self.peek(), 0)
            self.at += 1

    def expression(self, row: dict[str, FlinkType]) -> Expression:
        """The expression that comes next; `row` are the columns that it may name."""
        self._row, self._flink, self._spark = row, [], []
        start = self.at
        try:
            self._condition(0)
            if self.peek() and self.peek() not in (",", ")") and self.word() != "COMMENT":
                raise self.error(f"{self.shown()}: not expected here")
        except SchemaError as error:
            self.at = start
            self.skip_expression()
            hint = "Leave the column out, and compute it in a query on what decode gives"
            return Expression(_glued(self.tokens[start : self.at]), refused=f"{error.reason}. {hint}")
        return Expression(_glued(self._flink), _glued(self._spark))

    # --- the grammar; each part returns the type that it has, None where it is not known -----------------------

    def _condition(self, depth: int) -> FlinkType | None:
        """Comparisons with AND, OR and NOT between, or a value; `depth` counts brackets."""
        if depth > _MOST_NESTED:
            raise self.error(f"(: brackets are nested more than {_MOST_NESTED} deep")
        truth = False
        while True:
            while self._take("NOT"):
                truth = True
            found = self._value(depth)
            truth = self._comparison(depth) or truth
            if not (self._take("AND") or self._take("OR")):
                return _BOOLEAN if truth else found
            truth = True

    def _comparison(self, depth: int) -> bool:
        """What makes a condition of a value, if it comes next; whether it did."""
        if self.peek() in _COMPARISONS:
            self._put()
            self._value(depth)
        elif self._take("IS"):
            self._take("NOT")
            if self._take("DISTINCT"):
                self._need("FROM")
                self._value(depth)
            elif not any(self._take(word) for word in ("NULL", "TRUE", "FALSE", "UNKNOWN")):
                raise self.error(f"{self.shown()}: after IS there may be NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        elif self.word() in ("BETWEEN", "IN", "LIKE", "NOT"):
            self._take("NOT")
            if self._take("BETWEEN"):
                self._value(depth)
                self._need("AND")
                self._value(depth)
            elif self._take("IN"):
                self._need("(")
                self._list(depth)
            else:
                self._need("LIKE")
                self._value(depth)
                if self._take("ESCAPE"):
                    self._string()
        else:
            return False
        return True

    def _value(self, depth: int) -> FlinkType | None:
        """Operands with arithmetic signs between."""
        found = self._operand(depth)
        left = found
        while self.peek() in _CALCULATIONS:
            sign, place = self.peek(), self.place()
            self._put()
            right = self._operand(depth)
            fraction = next((t for t in (left, right) if t is not None and t.root in _FRACTIONS), None)
            if sign == "/" and fraction is None:
                why = "Flink cuts the quotient of two whole numbers, Spark doesn't; divide by 2.0 or by a CAST"
                raise self.error(f"/: {why}", place)
            found = fraction or found
            left = fraction if sign in ("*", "/", "%") else right
        return found

    def _operand(self, depth: int) -> FlinkType | None:
        while self._take("-") or self._take("+"):
            pass
        found = self._primary(depth)
        while self.peek() in ("[", "."):
            found = self._member(found, depth)
        return found

    def _member(self, of: FlinkType | None, depth: int) -> FlinkType | None:
        """`.field` of a ROW, `[key]` of a MAP."""
        if self.peek() == ".":
            self._put()
            place, token = self.place(), self.peek()
            name = self.name()
            self._write(token, quoted(name))
            members = {field.name: field.type for field in of.fields} if of is not None and of.root == "ROW" else {}
            if of is not None and name not in members:
                raise self.error(f"{token}: there is no such field", place)
            return members.get(name)
        if of is None or of.root != "MAP":
            raise self.error(
                "[...]: only of a MAP; Flink counts the elements of an ARRAY from 1, Spark from 0, so use element_at"
            )
        self._put()
        self._condition(depth + 1)
        self._need("]")
        return of.fields[1].type

    def _primary(self, depth: int) -> FlinkType | None:
        token, word = self.peek(), self.word()
        if token.startswith("'"):
            self._string()
        elif token and _NUMBER.fullmatch(token):
            self._put()
            return FlinkType("DOUBLE") if set(token) & set(".eE") else None
        elif token == "(":
            self._put()
            found = self._condition(depth + 1)
            self._need(")")
            return found
        elif word in _TYPED and self.peek(1).startswith("'"):
            self._put(_TYPED[word])
            self._string()
        elif word == "NULL":
            self._put()
        elif word in ("TRUE", "FALSE"):
            self._put()
            return _BOOLEAN
        elif word == "INTERVAL":
            self._interval_literal()
        elif word == "CASE":
            self._case(depth)
        elif word in _NOW and self.peek(1) != "(":
            self._write(token, f"{word.lower()}()")
            self.at += 1
        elif self.peek(1) == "(":
            return self._call(depth)
        else:
            return self._column()
        return None

    def _column(self) -> FlinkType:
        place, token = self.place(), self.peek()
        if self.peek(1) == "[" and self.word() in ("ARRAY", "MAP"):
            raise self.error(f"{token}[...]: Spark SQL has no such constructor; it writes {token.lower()}(...)")
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if name not in self._row:
            why = "no physical or metadata column of the table, and nothing else that Flink and Spark share."
            raise self.error(f"{self.shown()}: {why}{did_you_mean(name, self._row)}".rstrip("."), place)
        self._write(token, quoted(self.name()))
        return self._row[name]

    def _case(self, depth: int) -> None:
        self._put()
        if self.word() != "WHEN":
            self._condition(depth + 1)
        while self._take("WHEN"):
            self._condition(depth + 1)
            self._need("THEN")
            self._condition(depth + 1)
        if self._take("ELSE"):
            self._condition(depth + 1)
        self._need("END")

    def _interval_literal(self) -> None:
        """`INTERVAL '1:30' MINUTE TO SECOND(3)`; Spark knows no precision there."""
        self._put()
        self._string()
        while True:
            self._put_unit(_UNITS, plural=True)
            if self.peek() == "(":
                start = self.at
                self.numbers(2)
                self._flink += self.tokens[start : self.at]
            if not self._take("TO"):
                break

    def _put_unit(self, units: tuple[str, ...], *, plural: bool = False) -> None:
        word = self.word()
        if word not in units and not (plural and word.removesuffix("S") in units):
            raise self.error(f"{self.shown()}: expected one of {', '.join(units)}")
        self._put()

    # --- calls -------------------------------------------------------------------------------------------------

    def _call(self, depth: int) -> FlinkType | None:
        place, shown = self.place(), self.shown().strip("'`")
        name = self.peek().strip("`").upper()
        special = getattr(self, f"_call_{name.lower()}", None) if name in _SPECIAL else None
        if name in _OTHERWISE and special is None:
            raise self.error(f"{name}: {_OTHERWISE[name]}", place)
        if name not in _FUNCTIONS and special is None:
            near = did_you_mean(name, [*_FUNCTIONS, *_SPECIAL])
            why = f"not a function that means the same in Flink and in Spark, so that a DDL may call it.{near}"
            raise self.error(f"{shown.upper()}: {why}", place)
        self._put(_RENAMED.get(name, name))
        self._put()
        if special is not None:
            found: FlinkType | None = special(depth + 1)
            self._need(")")
            return found
        count = self._list(depth)
        least, most = _FUNCTIONS[name]
        if not least <= count <= most:
            allowed = f"{least}" if least == most else f"at least {least}" if most == _ANY else f"{least} to {most}"
            raise self.error(f"{name}: takes {allowed} arguments in Flink and in Spark, not {count}", place)
        return None

    def _list(self, depth: int) -> int:
        """Values up to the closing bracket; how many."""
        count = 0
        if self.peek() != ")":
            count = 1
            self._condition(depth + 1)
            while self._take(","):
                self._condition(depth + 1)
                count += 1
        self._need(")")
        return count

    def _call_cast(self, depth: int) -> FlinkType:
        """A cast. Flink puts U+FFFD where bytes are not UTF-8, Spark's own cast hands on text that is not valid."""
        at, place = len(self._spark) - 2, self.place()
        found = self._condition(depth)
        self._need("AS")
        cast_to = self.type(0)
        if found is not None and found.root == "BOOLEAN" and cast_to.root in _TEXTS:
            raise self.error("CAST: the text of a BOOLEAN is TRUE in Flink, true in Spark; write a CASE", place)
        made_of_bytes = cast_to.root in _TEXTS and (found is None or found.root in _BYTES)
        if made_of_bytes:
            self._spark[at] = f"make_valid_utf8({self._spark[at]}"
        self._write(str(cast_to), _spark_type(cast_to) + ")" * made_of_bytes)
        return cast_to

    _call_try_cast = _call_cast

    def _call_extract(self, depth: int) -> None:
        self._put_unit(_PARTS)
        self._need("FROM")
        self._condition(depth)

    def _call_position(self, depth: int) -> None:
        self._value(depth)
        self._need("IN")
        self._value(depth)

    def _call_trim(self, depth: int) -> None:
        where = any(self._take(word) for word in ("BOTH", "LEADING", "TRAILING"))
        self._condition(depth)
        if where or self.word() == "FROM":
            self._need("FROM")
            self._condition(depth)

    def _call_substring(self, depth: int) -> None:
        self._condition(depth)
        second, third = ("FROM", "FOR") if self.word() == "FROM" else (",", ",")
        self._need(second)
        self._condition(depth)
        if self._take(third):
            self._condition(depth)

    _call_substr = _call_substring

    def _call_overlay(self, depth: int) -> None:
        self._condition(depth)
        for word in ("PLACING", "FROM"):
            self._need(word)
            self._condition(depth)
        if self._take("FOR"):
            self._condition(depth)

    def _call_regexp_replace(self, depth: int) -> None:
        for _ in range(2):
            self._condition(depth)
            self._need(",")
        if not self.peek().startswith("'") or set(self.peek()) & set("$\\"):
            raise self.error("REGEXP_REPLACE: only by a text without $ and \\, which mean a group in Spark only")
        self._string()

    def _call_timestampadd(self, depth: int) -> None:
        self._put_unit(_UNITS)
        for _ in range(2):
            self._need(",")
            self._condition(depth)

    _call_timestampdiff = _call_timestampadd

    def _call_to_timestamp_ltz(self, depth: int) -> None:
        """Spark's function for the precision, which is then no argument."""
        at, place = len(self._spark) - 2, self.place()
        self._condition(depth)
        if self.peek() == "," and self.peek(1) in _EPOCHS and self.peek(2) == ")":
            self._spark[at] = _EPOCHS[self.peek(1)]
            self._flink += [",", self.peek(1)]
            self.at += 2
        else:
            raise self.error(f"TO_TIMESTAMP_LTZ: {_OTHERWISE['TO_TIMESTAMP_LTZ']}", place)

    # --- what is written ---------------------------------------------------------------------------------------

    def _write(self, flink: str, spark: str) -> None:
        self._flink.append(flink)
        self._spark.append(spark)

    def _put(self, spark: str | None = None) -> None:
        """Step over a token and write it, or what Spark has for it."""
        self._write(self.peek(), self.peek() if spark is None else spark)
        self.at += 1

    def _take(self, word: str) -> bool:
        """The same if it comes next."""
        found = self.word() == word
        if found:
            self._put()
        return found

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise self.error(f"{self.shown()}: expected {word!r} here")

    def _string(self) -> None:
        token = self.peek()
        if not token.startswith("'"):
            raise self.error(f"{self.shown()}: expected a text in single quotes")
        escaped = token[1:-1].replace("''", "'").replace("\\", "\\\\").replace("'", "\\'")
        self._put(f"'{escaped}'")


_SPECIAL = [
    name.removeprefix("_call_").upper() for name in vars(ExpressionReader) if name.startswith("_call_")
]  # functions whose arguments are not a list of values


def _spark_type(t: FlinkType) -> str:
    """A type in Spark SQL's spelling."""
    members = [_spark_type(member.type) for member in t.fields]
    if t.root == "ROW":
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {m}' for f, m in zip(t.fields, members, strict=True))}>"
    if t.root in ("ARRAY", "MAP"):
        return f"{t.root}<{', '.join(members)}>"
    if t.root == "MULTISET":
        return f"MAP<{members[0]}, INT>"
    if t.root == "TIME":
        return f"TIME({min(t.precision or 0, 6)})"
    return t.summary() if t.root == "DECIMAL" else _SPARK_TYPES.get(t.root, t.root)


def _glued(tokens: list[str]) -> str:
    """Tokens as text again: a blank between two words, none where it could change a name or a call."""
    text = []
    before = ""
    for token in tokens:
        tight = not before or token in ("(", ")", ",", ".", "[", "]") or before in ("(", ".", "[")
        text.append(token if tight else f" {token}")
        before = token
    return "".join(text)
