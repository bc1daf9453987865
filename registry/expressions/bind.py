"""Give a syntax tree its types, and return an expression that evaluates it.

    bind(Call("*", (Name("price"), Literal(2, INT))), {"price": DECIMAL(10, 2)})   type DECIMAL(21, 2)

Raises `BindError` for everything that Flink refuses, and for what cannot be evaluated exactly as Flink does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kvformat.registry.contract.errors import did_you_mean
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions import conditions, operators
from kvformat.registry.expressions.bound import BOOLEAN, NULL, BindError, Bound, constant
from kvformat.registry.expressions.casts import bind_cast
from kvformat.registry.expressions.functions.signatures import Function
from kvformat.registry.expressions.rows import Rows
from kvformat.registry.expressions.tree import Call, Literal, Name, Tree, same_tree
from kvformat.registry.expressions.vectors import Vector

Row = Mapping[str, FlinkType]
"""The types of the columns by name."""


def bind(tree: Tree, row: Row, replaced: Mapping[str, Bound] | None = None) -> Bound:
    """Return the typed expression of a tree whose columns have the types of `row`. Raises `BindError`.

    `replaced` has expressions that take the place of columns.
    """
    return _Binder(row, replaced or {}).bind(tree)


def is_of_current_time(call: Call) -> bool:
    """Return whether a function depends on the current time."""
    return call.name in _OF_NOW or (call.name == "UNIX_TIMESTAMP" and not call.arguments)


def unknown_function(name: str) -> str:
    """Return why there is no function of this name; "" if there is one."""
    if name in functions() or name in _OPERATORS:
        return ""
    near = did_you_mean(name, functions())
    return _MISSING.get(name, f"no function that can be evaluated here.{near}".rstrip("."))


@functools.cache
def functions() -> Mapping[str, Function]:
    """Return the functions by name."""
    from kvformat.registry.expressions.functions import (
        choices,
        collections,
        digests,
        json_functions,
        numbers,
        regexes,
        texts,
        time_texts,
        times,
        urls,
    )

    by_name: dict[str, Function] = {}
    for module in (choices, collections, digests, json_functions, numbers, regexes, texts, time_texts, times, urls):
        by_name |= module.FUNCTIONS
    return by_name


@dataclass(frozen=True, slots=True)
class _Binder:
    """Binds trees to columns."""

    row: Row
    replaced: Mapping[str, Bound]

    def bind(self, tree: Tree) -> Bound:
        if isinstance(tree, Literal):
            return constant(NULL if tree.type is None else tree.type, tree.value)
        if isinstance(tree, Name):
            return self._column(tree)
        tree = _of_members(tree)
        arguments = [self.bind(argument) for argument in tree.arguments]
        of_call = _OPERATORS.get(tree.name) or functions().get(tree.name)
        if of_call is None:
            raise BindError(f"{tree.name}: {unknown_function(tree.name)}", tree.offset)
        bound = of_call(tree, arguments)
        # the type of another call may be that of an argument, whose value it may not have
        return bound if tree.name in _WITHOUT_NULL else replace(bound, type=replace(bound.type, nullable=True))

    def _column(self, tree: Name) -> Bound:
        name = tree.name
        if name not in self.row:
            why = "not a physical or metadata column of the table."
            raise BindError(f"'{name}': {why}{did_you_mean(name, self.row)}".rstrip("."), tree.offset)

        def evaluate(rows: Rows) -> Vector:
            return rows.column(name)

        return self.replaced.get(name) or Bound(self.row[name], evaluate)


def _of_members(tree: Call) -> Call:
    """Return `ROW(a, b) = ROW(c, d)` as Flink plans it, `a = c AND b = d`, and IN likewise, but not `<>`."""
    values = [side.arguments if isinstance(side, Call) and side.name == "ROW" else () for side in tree.arguments]
    first, size = values[0] if values else (), len(values[0]) if values else 0
    if not size or any(len(others) != size for others in values) or tree.name not in ("=", "IN"):
        return tree
    rows = [
        Call("AND", tuple(Call("=", pair, tree.offset) for pair in zip(first, others, strict=True)), tree.offset)
        for others in values[1:]
    ]
    return rows[0] if len(rows) == 1 else Call("OR", tuple(rows), tree.offset)


# --- operators -----------------------------------------------------------------------------------------------


def _comparison(call: Call, arguments: Sequence[Bound]) -> Bound:
    if same_tree(*call.arguments):
        return operators.bind_same(call.name, arguments[0])
    return operators.bind_comparison(call.name, arguments[0], arguments[1], call.offset)


def _distinct(call: Call, arguments: Sequence[Bound], *, distinct: bool) -> Bound:
    if same_tree(*call.arguments):
        return constant(BOOLEAN, not distinct)
    return operators.bind_distinct(arguments[0], arguments[1], call.offset, distinct=distinct)


def _arithmetic(call: Call, arguments: Sequence[Bound]) -> Bound:
    return operators.bind_arithmetic(call.name, arguments[0], arguments[1], call.offset)


def _case(call: Call, arguments: Sequence[Bound]) -> Bound:
    return conditions.bind_case(arguments, call.offset, name=call.name)


def _cast(call: Call, arguments: Sequence[Bound]) -> Bound:
    assert call.type is not None
    return bind_cast(arguments[0], call.type, tries=call.name == "TRY_CAST", offset=call.offset)


_OPERATORS: dict[str, Callable[[Call, Sequence[Bound]], Bound]] = {
    **dict.fromkeys(operators.COMPARISONS, _comparison),
    **dict.fromkeys("+-*/%", _arithmetic),
    "NEGATIVE": lambda call, values: operators.bind_negative(values[0], call.offset),
    "||": lambda call, both: operators.bind_concat(both[0], both[1], call.offset),
    "AND": lambda call, all_: operators.bind_logic("AND", all_, call.offset),
    "OR": lambda call, all_: operators.bind_logic("OR", all_, call.offset),
    "NOT": lambda call, values: operators.bind_not(values[0], call.offset),
    "IS": lambda call, values: operators.bind_is(call.words[0], values[0], call.offset, negated=False),
    "IS NOT": lambda call, values: operators.bind_is(call.words[0], values[0], call.offset, negated=True),
    "IS DISTINCT FROM": lambda call, both: _distinct(call, both, distinct=True),
    "IS NOT DISTINCT FROM": lambda call, both: _distinct(call, both, distinct=False),
    "CASE": _case,
    "CAST": _cast,
    "TRY_CAST": _cast,
    "IN": lambda call, arguments: operators.bind_in(arguments[0], arguments[1:], call.offset),
    ".": lambda call, values: operators.bind_field(values[0], call.words[0], call.offset),
    "[]": lambda call, both: operators.bind_item(both[0], both[1], call.offset),
    "COALESCE": lambda call, values: conditions.bind_coalesce(values, call.offset),
}


_WITHOUT_NULL = ("COALESCE", "IFNULL")
"""Functions whose value is never NULL if the type is NOT NULL."""
_MISSING = {"CURRENT_WATERMARK": "a batch of rows has no watermark; compute the column in a query"}
"""Functions of Flink that can't be had here, with the reason."""
_OF_NOW = (
    "CURRENT_DATE", "CURRENT_ROW_TIMESTAMP", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "NOW",
    "PROCTIME",
)  # fmt: skip
