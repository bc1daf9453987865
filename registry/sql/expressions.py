"""Parse the expressions of Flink SQL that computed columns contain, to a syntax tree.

    price * amount                      Call("*", (Name("price"), Name("amount")))
    CAST(ts AS TIMESTAMP(3)) > b        Call(">", (Call("CAST", (Name("ts"),), type=TIMESTAMP(3)), Name("b")))

`registry.expressions` has the meaning of a tree: its types, and the evaluation of rows. Nothing of a text is passed on
to Spark, so that a DDL from somebody else cannot run code or read other tables.
Rules: the grammar of Calcite and Flink's "System (Built-in) Functions" page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions.bind import bind, is_of_current_time, unknown_function
from kvformat.registry.expressions.bound import BIGINT, BOOLEAN, INT, INTERVALS, NULL, BindError, Bound
from kvformat.registry.expressions.tree import Call, Literal, Name, Tree
from kvformat.registry.java.regex_search import unit_count
from kvformat.registry.sql.literals import NUMBER, LiteralReader, whole_type

_MOST_NESTED = 60  # levels of brackets; each needs some frames of Python's stack of 1,000
_MOST_LEVELS = 150  # levels of operators in one another; evaluation needs some frames for each
OPERATOR_TOKEN = (
    r"<>|!=|<=|>=|\|\||\d+[eE][+-]?\d+|\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[<>(),:;=.+\-*/%\[\]{}?]"
)
"""The tokens of expressions, in addition to those of column lists."""
_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}
_LITERALS = ("DATE", "TIME", "TIMESTAMP", "X")
_WITHOUT_BRACKETS = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
_UNITS = (
    "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND",
)  # fmt: skip
_PARTS = (*_UNITS, "DOW", "DOY", "ISODOW", "ISOYEAR", "EPOCH", "DECADE", "CENTURY", "MILLENNIUM")
# Operators with their precedence in Calcite; of equal ones the left binds first.
_PRECEDENCE = {
    "OR": 22, "AND": 24, "IS": 28, "=": 30, "<>": 30, "!=": 30, "<": 30, "<=": 30, ">": 30, ">=": 30,
    "BETWEEN": 32, "IN": 32, "LIKE": 32, "NOT": 32, "SIMILAR": 32, "+": 40, "-": 40,
    "*": 60, "/": 60, "%": 60, "||": 60,
}  # fmt: skip
_NOT, _ADDITION = 26, 40
_FLATTENED = ("AND", "OR")
_NEGATED = ("BETWEEN", "IN", "LIKE", "SIMILAR")
_LEAVE_OUT = (
    "Leave the column out of decoding (skip_computed, on the command line --skip-computed), or remove it from the DDL, "
    "and compute it in a query on the decoded DataFrame"
)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression in Flink SQL (`source`) with the type of its values; `refused` says why it can't be evaluated."""

    source: str
    type: FlinkType | None = None
    refused: str = ""


def read_expression(text: str, row: Mapping[str, FlinkType], replaced: Mapping[str, Bound] | None = None) -> Bound:
    """Parse and bind an expression that stands alone. Raises `SchemaError`.

    `row` has the types of the columns, `replaced` the expressions that take the place of some of them.
    """
    reader = _SingleExpressionReader(text)
    try:
        bound = _column(bind(reader.tree(), row, replaced or {}))
    except BindError as error:
        raise reader.error(str(error), error.offset) from None
    if reader.peek():
        raise reader.error(f"{reader.shown()}: unexpected here")
    return bound


def _column(bound: Bound) -> Bound:
    """Return an expression whose values a column can hold. Raises `BindError` for another."""
    if bound.type == NULL:
        raise BindError("its type is unknown, because every value is NULL; write CAST(NULL AS STRING)")
    if _has_interval(bound.type):
        raise BindError("a column of the type INTERVAL; add it to a time, or CAST it to STRING")
    return bound


def _has_interval(type_: FlinkType) -> bool:
    return type_.root in INTERVALS or any(_has_interval(field.type) for field in type_.fields)


def uses_current_time(text: str) -> bool:
    """Return whether an expression calls a function of the current time."""
    return any(
        isinstance(node, Call) and is_of_current_time(node) for node in _walk(_SingleExpressionReader(text).tree())
    )


class ExpressionReader(LiteralReader):
    """Parses expressions among the tokens of a statement. `hint` says what to do about one that is refused."""

    hint = _LEAVE_OUT

    def skip_expression(self) -> None:
        """Skip the tokens up to the `,`, `)` or COMMENT after an expression."""
        depth = 0
        while self.peek() and not (depth == 0 and (self.peek() in (",", ")") or self.word() == "COMMENT")):
            depth += _BRACKETS.get(self.peek(), 0)
            self.index += 1

    def expression(self, row: Mapping[str, FlinkType]) -> Expression:
        """Parse the next expression; `row` has the type of each column that it may use. Never raises."""
        start = self.index
        try:
            tree = self.tree()
            if self.peek() and self.peek() not in (",", ")") and self.word() != "COMMENT":
                raise self.error(f"{self.shown()}: unexpected here")
            try:
                bound = _column(bind(tree, row))
            except BindError as error:
                raise self.error(str(error), error.offset) from None
        except SchemaError as error:
            self.index = start
            self.skip_expression()
            hint = f". {self.hint}" if self.hint else ""
            return Expression(joined(self.tokens[start : self.index]), refused=f"{error.reason}{hint}")
        return Expression(joined(self.tokens[start : self.index]), replace(bound.type, nullable=True))

    def tree(self) -> Tree:
        """Parse the next expression. Raises `SchemaError`."""
        offset = self.offset()
        tree = self._operation(0, 0)
        if _levels(tree) > _MOST_LEVELS:
            raise self.error(f"operators are nested more than {_MOST_LEVELS} levels deep", offset)
        return tree

    def _plain_type(self, depth: int) -> FlinkType:
        """Parse a type. TIME has at most milliseconds, because Flink plans it so whatever the DDL says."""
        plain = super()._plain_type(depth)
        return replace(plain, precision=min(plain.precision or 0, 3)) if plain.root == "TIME" else plain

    # --- operators -------------------------------------------------------------------------------------------

    def _operation(self, least: int, depth: int) -> Tree:
        """Parse operands and the operators between them of at least a precedence; `depth` counts open brackets."""
        if depth > _MOST_NESTED:
            raise self.error(f"(: brackets are nested more than {_MOST_NESTED} levels deep")
        offset = self.offset()
        if self.skip("NOT"):
            left: Tree = Call("NOT", (self._operation(_NOT, depth + 1),), offset)
        else:
            left = self._operand(depth)
        while True:
            name, offset = self.word(), self.offset()
            precedence = _PRECEDENCE.get(name, -1)
            if precedence < max(least, 0) or (name == "NOT" and self.word(1) not in _NEGATED):
                return left
            self.index += 1
            if name == "IS":
                left = self._test(left, depth, offset)
            elif precedence == _PRECEDENCE["LIKE"]:
                negated = name == "NOT"
                if negated:
                    name = self.word()
                    self.index += 1
                left = self._membership(name, left, depth, offset)
                left = Call("NOT", (left,), offset) if negated else left
            else:
                right = self._operation(precedence + 1, depth)
                name = "<>" if name == "!=" else name
                if name in _FLATTENED and isinstance(left, Call) and left.name == name:
                    left = Call(name, (*left.arguments, right), left.offset)
                else:
                    left = Call(name, (left, right), offset)

    def _test(self, of: Tree, depth: int, offset: int) -> Tree:
        """Parse what is after IS."""
        name = "IS NOT" if self.skip("NOT") else "IS"
        if self.skip("DISTINCT"):
            self.expect("FROM")
            return Call(f"{name} DISTINCT FROM", (of, self._operation(_PRECEDENCE["="] + 1, depth)), offset)
        if self.skip("JSON"):
            kind = next((word for word in ("VALUE", "OBJECT", "ARRAY", "SCALAR") if self.skip(word)), "VALUE")
            return Call(f"{name} JSON", (of,), offset, words=(kind,))
        test = self._keyword("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT", "JSON")
        return Call(name, (of,), offset, words=(test,))

    def _membership(self, name: str, of: Tree, depth: int, offset: int) -> Tree:
        """Parse what is after BETWEEN, IN or LIKE."""
        if name == "BETWEEN":
            symmetric = self.skip("SYMMETRIC")
            self.skip("ASYMMETRIC")
            low = self._operation(_ADDITION, depth)
            self.expect("AND")
            high = self._operation(_ADDITION, depth)
            membership = _between(of, low, high, offset)
            return Call("OR", (membership, _between(of, high, low, offset)), offset) if symmetric else membership
        if name == "IN":
            self.expect("(")
            return Call("IN", (of, *self._arguments(depth + 1)), offset)
        if name == "SIMILAR":
            self.expect("TO")
        pattern = self._operation(_ADDITION, depth)
        escape = (self._operand(depth),) if self.skip("ESCAPE") else ()
        return Call(name, (of, pattern, *escape), offset)

    def _operand(self, depth: int) -> Tree:
        """Parse signs, a value, and the members of it that are read."""
        offset, negative = self.offset(), self._sign() < 0
        operand = self._primary(depth)
        while True:
            at = self.offset()
            if self.skip("."):
                operand = Call(".", (operand,), at, words=(self.name(),))
            elif self.skip("["):
                operand = Call("[]", (operand, self._operation(0, depth + 1)), at)
                self.expect("]")
            else:
                break
        if negative and isinstance(operand, Literal) and not isinstance(operand.value, str | bytes | None):
            is_whole = operand.type is not None and (operand.type in (INT, BIGINT) or operand.type.scale == 0)
            return Literal(-operand.value, whole_type(-operand.value) if is_whole else operand.type, offset)
        return Call("NEGATIVE", (operand,), offset) if negative else operand

    # --- values ----------------------------------------------------------------------------------------------

    def _primary(self, depth: int) -> Tree:
        token, word, offset = self.peek(), self.word(), self.offset()
        if token.startswith("'"):
            text = self.text_literal()
            return Literal(text, FlinkType("CHAR", length=unit_count(text)), offset)
        if token and NUMBER.fullmatch(token):
            self.index += 1
            return self._number(token, offset)
        if self.skip("("):
            inner = self._operation(0, depth + 1)
            if self.skip(","):
                inner = Call("ROW", (inner, *self._arguments(depth + 1)), offset)
            else:
                self.expect(")")
            return inner
        if word in _LITERALS and self.peek(1).startswith("'"):
            self.index += 1
            return self._typed_literal(word, offset)
        if self.skip("NULL"):
            return Literal(None, None, offset)
        if self.skip("TRUE") or self.skip("FALSE"):
            return Literal(word == "TRUE", BOOLEAN, offset)
        if self.skip("INTERVAL"):
            return self.interval()
        if self.skip("CASE"):
            return self._case(depth, offset)
        if word in ("ARRAY", "MAP") and self.peek(1) == "[":
            self.index += 2
            return Call(f"{word}[]", self._arguments(depth + 1, "]"), offset)
        if word in _WITHOUT_BRACKETS and self.peek(1) != "(":
            self.index += 1
            return Call(word, (), offset)
        if self.peek(1) == "(":
            self.index += 2
            return self._call(token.strip("`").upper(), depth + 1, offset)
        return Name(self.name(), offset)

    def _case(self, depth: int, offset: int) -> Tree:
        of = None if self.word() == "WHEN" else self._operation(0, depth + 1)
        operands: list[Tree] = []
        while self.skip("WHEN"):
            condition = self._operation(0, depth + 1)
            operands.append(condition if of is None else Call("=", (of, condition), offset))
            self.expect("THEN")
            operands.append(self._operation(0, depth + 1))
        if not operands:
            raise self.error(f"{self.shown()}: expected WHEN")
        operands.append(self._operation(0, depth + 1) if self.skip("ELSE") else Literal(None, None, offset))
        self.expect("END")
        return Call("CASE", tuple(operands), offset)

    # --- calls -----------------------------------------------------------------------------------------------

    def _arguments(self, depth: int, close: str = ")") -> tuple[Tree, ...]:
        """Parse values separated by commas, up to the closing bracket."""
        arguments: list[Tree] = []
        if not self.skip(close):
            while True:
                arguments.append(self._operation(0, depth))
                if not self.skip(","):
                    break
            self.expect(close)
        return tuple(arguments)

    def _call(self, name: str, depth: int, offset: int) -> Tree:
        """Parse the arguments of a function after its opening bracket."""
        special = _SPECIAL_CALLS.get(name)
        why = unknown_function(name)
        if special is None and why:
            raise self.error(f"{name}: {why}", offset)
        if special is None:
            return Call(name, self._arguments(depth), offset)
        call = special(self, name, depth, offset)
        self.expect(")")
        return call

    def _keyword(self, *words: str) -> str:
        """Skip one of these words and return it."""
        word = self.word()
        if word not in words:
            raise self.error(f"{self.shown()}: expected {', '.join(words[:-1])} or {words[-1]}")
        self.index += 1
        return word

    def _cast(self, name: str, depth: int, offset: int) -> Tree:
        value = self._operation(0, depth)
        self.expect("AS")
        return Call(name, (value,), offset, type=self.type(0))

    def _extract(self, name: str, depth: int, offset: int) -> Tree:
        unit = self._time_unit(_PARTS)
        self.expect("FROM")
        return Call(name, (self._operation(0, depth),), offset, words=(unit,))

    def _position(self, name: str, depth: int, offset: int) -> Tree:
        sought = self._operation(_ADDITION, depth)
        self.expect("IN")
        where = self._operation(0, depth)
        start = (self._operation(0, depth),) if self.skip("FROM") else ()
        return Call(name, (sought, where, *start), offset)

    def _trim(self, name: str, depth: int, offset: int) -> Tree:
        side = next((word for word in ("BOTH", "LEADING", "TRAILING") if self.skip(word)), "")
        blank = Literal(" ", FlinkType("CHAR", length=1), offset)
        first: Tree = blank if side and self.word() == "FROM" else self._operation(0, depth)
        if self.skip("FROM"):
            return Call(name, (first, self._operation(0, depth)), offset, words=(side or "BOTH",))
        if side:
            raise self.error(f"{self.shown()}: expected FROM")
        return Call(name, (blank, first), offset, words=("BOTH",))

    def _substring(self, name: str, depth: int, offset: int) -> Tree:
        arguments = [self._operation(0, depth)]
        start, length = ("FROM", "FOR") if self.word() == "FROM" else (",", ",")
        self.expect(start)
        arguments.append(self._operation(0, depth))
        if self.skip(length):
            arguments.append(self._operation(0, depth))
        return Call(name, tuple(arguments), offset)

    def _overlay(self, name: str, depth: int, offset: int) -> Tree:
        arguments = [self._operation(0, depth)]
        for word in ("PLACING", "FROM"):
            self.expect(word)
            arguments.append(self._operation(0, depth))
        if self.skip("FOR"):
            arguments.append(self._operation(0, depth))
        return Call(name, tuple(arguments), offset)

    def _with_unit(self, name: str, depth: int, offset: int) -> Tree:
        """Parse TIMESTAMPADD and TIMESTAMPDIFF."""
        unit = self.word().removeprefix("SQL_TSI_")
        if unit not in _UNITS:
            raise self.error(f"{self.shown()}: expected one of {', '.join(_UNITS)}")
        self.index += 1
        self.expect(",")
        first = self._operation(0, depth)
        self.expect(",")
        return Call(name, (first, self._operation(0, depth)), offset, words=(unit,))

    def _rounded(self, name: str, depth: int, offset: int) -> Tree:
        """Parse FLOOR and CEIL, of a number or `TO` a unit of time."""
        value = self._operation(0, depth)
        words = (self._time_unit(_PARTS),) if self.skip("TO") else ()
        return Call(name, (value,), offset, words=words)

    def _json(self, name: str, depth: int, offset: int) -> Tree:
        """Parse JSON_VALUE, JSON_QUERY and JSON_EXISTS.

        `words` are the behaviors ON EMPTY and ON ERROR, of JSON_EXISTS only ON ERROR, of JSON_QUERY also the wrapper.
        The values of DEFAULT are further arguments, that of ON EMPTY first.
        """
        arguments = [self._operation(0, depth)]
        self.expect(",")
        arguments.append(self._operation(0, depth))
        type_ = self._plain_type(0) if name != "JSON_EXISTS" and self.skip("RETURNING") else None
        wrapper = self._wrapper() if name == "JSON_QUERY" else ""
        behaviors, defaults = {"EMPTY": "", "ERROR": ""}, dict[str, Tree]()
        while self.peek() not in (")", ""):
            behavior = self._keyword("NULL", "ERROR", "DEFAULT", "EMPTY", "TRUE", "FALSE", "UNKNOWN")
            default = self._operation(0, depth) if behavior == "DEFAULT" else None
            if behavior == "EMPTY":
                behavior = f"EMPTY {self._keyword('ARRAY', 'OBJECT')}"
            self.expect("ON")
            event = self._keyword("EMPTY", "ERROR")
            if behaviors[event]:
                raise self.error(f"{name}: ON {event} is given twice", offset)
            behaviors[event] = behavior
            if default is not None:
                defaults[event] = default
        arguments += (defaults[event] for event in ("EMPTY", "ERROR") if event in defaults)
        if name == "JSON_EXISTS":
            return Call(name, tuple(arguments), offset, words=(behaviors["ERROR"],))
        words: tuple[str, ...] = (behaviors["EMPTY"], behaviors["ERROR"])
        if name == "JSON_QUERY":
            words = (wrapper, *words)
        return Call(name, tuple(arguments), offset, words=words, type=type_)

    def _json_made(self, name: str, depth: int, offset: int) -> Tree:
        """Parse JSON_OBJECT, whose arguments are keys and values by turns, and JSON_ARRAY.

        `words` is what happens to a NULL, if it is given: NULL or ABSENT.
        """
        arguments: list[Tree] = []
        while self.peek() not in (")", "") and not (self.word() in ("NULL", "ABSENT") and self.word(1) == "ON"):
            if arguments:
                self.expect(",")
            if name == "JSON_OBJECT":
                self.skip("KEY")
                arguments.append(self._operation(0, depth))
                if not self.skip(":"):
                    self.expect("VALUE")
            arguments.append(self._operation(0, depth))
        words: tuple[str, ...] = ()
        if self.peek() != ")":
            words = (self._keyword("NULL", "ABSENT"),)
            self.expect("ON", "NULL")
        return Call(name, tuple(arguments), offset, words=words)

    def _wrapper(self) -> str:
        wrapper = ""
        if self.skip("WITHOUT"):
            wrapper = "WITHOUT"
        elif self.skip("WITH"):
            wrapper = "CONDITIONAL" if self.skip("CONDITIONAL") else "UNCONDITIONAL"
            self.skip("UNCONDITIONAL")
        if wrapper:
            self.skip("ARRAY")
            self.expect("WRAPPER")
        return wrapper


class _SingleExpressionReader(ExpressionReader):
    """Parses an expression that stands alone."""

    subject = "expression"
    token = re.compile(f"{OPERATOR_TOKEN}|{ExpressionReader.token.pattern}")


_SPECIAL_CALLS: dict[str, Callable[[ExpressionReader, str, int, int], Tree]] = {
    "CAST": ExpressionReader._cast,
    "TRY_CAST": ExpressionReader._cast,
    "EXTRACT": ExpressionReader._extract,
    "POSITION": ExpressionReader._position,
    "TRIM": ExpressionReader._trim,
    "SUBSTRING": ExpressionReader._substring,
    "SUBSTR": ExpressionReader._substring,
    "OVERLAY": ExpressionReader._overlay,
    "TIMESTAMPADD": ExpressionReader._with_unit,
    "TIMESTAMPDIFF": ExpressionReader._with_unit,
    "FLOOR": ExpressionReader._rounded,
    "CEIL": ExpressionReader._rounded,
    "CEILING": ExpressionReader._rounded,
    "JSON_VALUE": ExpressionReader._json,
    "JSON_QUERY": ExpressionReader._json,
    "JSON_EXISTS": ExpressionReader._json,
    "JSON_OBJECT": ExpressionReader._json_made,
    "JSON_ARRAY": ExpressionReader._json_made,
}
"""Functions whose arguments are not a list of values."""


def _between(of: Tree, low: Tree, high: Tree, offset: int) -> Tree:
    low, high = _as_decimal(low, high), _as_decimal(high, low)
    return Call("AND", (Call(">=", (of, low), offset), Call("<=", (of, high), offset)), offset)


def _as_decimal(bound: Tree, other: Tree) -> Tree:
    """Return the literal of a whole number as a DECIMAL if the other bound is one, as Flink does."""
    if not (isinstance(bound, Literal) and isinstance(other, Literal)) or bound.type != INT:
        return bound
    if other.type is None or other.type.root != "DECIMAL":
        return bound
    return Literal(bound.value, FlinkType("DECIMAL", precision=10, scale=0), bound.offset)


def _levels(tree: Tree) -> int:
    """Return how deep the operators of a tree are nested."""
    levels, level = 0, [tree]
    while level:
        levels += 1
        level = [argument for node in level if isinstance(node, Call) for argument in node.arguments]
    return levels


def _walk(tree: Tree) -> Iterator[Tree]:
    rest = [tree]
    while rest:
        node = rest.pop()
        yield node
        if isinstance(node, Call):
            rest += node.arguments


def joined(tokens: list[str]) -> str:
    """Join tokens to text, with a blank between two words but none in names and calls."""
    text = []
    before = ""
    for token in tokens:
        tight = not before or token in ("(", ")", ",", ".", "[", "]") or before in ("(", ".", "[")
        text.append(token if tight else f" {token}")
        before = token
    return "".join(text)
