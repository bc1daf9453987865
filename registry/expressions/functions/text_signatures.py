"""How functions of texts are bound: which arguments Flink refuses, and what is computed once for literals.

    "REPEAT": text_function(_repeat, "TEXT INT", STRING)
    "REGEXP": prepared(_regexp, "TEXT TEXT", BOOLEAN)

Flink's older functions refuse the literal NULL, its newer ones do not. Where Flink generates a call of a method that
takes a Java `int`, a BIGINT does not compile; the kind INT of this module refuses it.
Rules: `FlinkSqlOperatorTable`, `BuiltInFunctionDefinitions`, `StringCallGen`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from kvformat.registry.contract.types import FlinkType
from kvformat.registry.expressions.bound import NULL, BindError, Bound, by_value, constant
from kvformat.registry.expressions.functions.signatures import ANY_COUNT, Function, checked
from kvformat.registry.expressions.rows import RowError
from kvformat.registry.expressions.tree import Call, Literal, Tree

Result: TypeAlias = FlinkType | Callable[[Sequence[FlinkType]], FlinkType]
"""The type of a result, or a function of the types of the arguments."""
_REMEMBERED = 256
_INT = re.compile(r"\bINT\b")


def text_function(
    compute: Callable[..., Any],
    parameters: str,
    result: Result,
    *,
    null_literals: bool = False,
    may_be_null: bool = False,
    nulls: bool = False,
) -> Function:
    """Return a function that computes one value at a time, like `signatures.by_values`.

    parameters: also has the kind INT, an integer that is not a BIGINT.
    null_literals: whether Flink accepts the literal NULL.
    may_be_null: whether `compute` returns None although Flink's type is NOT NULL if no argument may be NULL.
    """

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        values = accepted(call, arguments, parameters, null_literals=null_literals)
        function = _never_null(compute) if may_be_null and all(value.is_literal for value in values) else compute
        return fixed(_type(result, values), function, values, nulls=nulls)

    return Function(bind, *counts(parameters))


def prepared(
    prepare: Callable[..., Callable[[Any], Any]],
    parameters: str,
    result: Result,
    *,
    null_literals: bool = False,
    may_be_null: bool = False,
) -> Function:
    """Return a function of a value whose further arguments are usually literals, such as a pattern.

    `prepare` gets the further arguments, and returns the function of the value. It raises `RowError` for what Flink or
    this library cannot do. For literals, this refuses the expression.
    """
    remembered = functools.lru_cache(_REMEMBERED)(prepare)

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        values = accepted(call, arguments, parameters, null_literals=null_literals)
        type_ = _type(result, values)
        value, *rest = values
        if any(value.is_literal and value.literal is None for value in values):
            return constant(type_, None)
        if not all(argument.is_literal for argument in rest):
            return fixed(type_, lambda first, *others: remembered(*others)(first), values)
        try:
            function = prepare(*[argument.literal for argument in rest])
        except RowError as error:
            raise BindError(f"{call.name}: {error}", call.offset) from None
        return fixed(type_, _never_null(function) if may_be_null and value.is_literal else function, [value])

    return Function(bind, *counts(parameters))


def accepted(call: Call, arguments: Sequence[Bound], parameters: str, *, null_literals: bool = False) -> list[Bound]:
    """Return the arguments if Flink accepts their types. Raises `BindError` naming a wrong one."""
    kinds = parameters.split()
    for i, argument in enumerate(arguments):
        if argument.type == NULL and not null_literals:
            why = f"{call.name}: Flink refuses NULL as argument {i + 1}; cast it to a type, as in CAST(NULL AS STRING)"
            raise BindError(why, call.offset)
        kind = kinds[min(i, len(kinds) - 1)].rstrip("?*")
        if "INT" in kind.split("|") and argument.type.root == "BIGINT":
            why = f"{call.name}: argument {i + 1} must be an INT, because Flink does not compile this with a BIGINT"
            raise BindError(f"{why}; use CAST(... AS INT)", call.offset)
    return checked(call, arguments, _INT.sub("INTEGER", parameters))  # as in `signatures.KINDS`


def counts(parameters: str) -> tuple[int, int]:
    """Return the least and the most number of arguments."""
    kinds = parameters.split()
    least = sum(not kind.endswith(("?", "*")) for kind in kinds)
    return least, ANY_COUNT if parameters.endswith("*") else len(kinds)


def fixed(type_: FlinkType, compute: Callable[..., Any], arguments: Sequence[Bound], *, nulls: bool = False) -> Bound:
    """Return a call like `by_value` that does not pass literals as columns if they are the last arguments."""
    if not nulls and any(argument.is_literal and argument.literal is None for argument in arguments):
        return constant(type_, None)
    columns = list(arguments)
    while columns and columns[-1].is_literal:
        columns.pop()
    rest = [argument.literal for argument in arguments[len(columns) :]]
    if not rest:
        return by_value(type_, compute, columns, nulls=nulls)
    return by_value(type_, lambda *values: compute(*values, *rest), columns, nulls=nulls)


def is_constant(tree: Tree) -> bool:
    """Return whether an expression has no columns, so that Flink computes it once."""
    return isinstance(tree, Literal) or (isinstance(tree, Call) and all(map(is_constant, tree.arguments)))


def as_varying(types: Sequence[FlinkType]) -> FlinkType:
    """Return the VARCHAR of the first argument's length."""
    return FlinkType("VARCHAR", length=types[0].length)


def _type(result: Result, values: Sequence[Bound]) -> FlinkType:
    type_ = result if isinstance(result, FlinkType) else result([value.type for value in values])
    return replace(type_, nullable=True)


def _never_null(compute: Callable[..., Any]) -> Callable[..., Any]:
    def checked_(*values: Any) -> Any:
        result = compute(*values)
        if result is None:
            raise RowError("the result is NULL, but Flink's type for it is NOT NULL")
        return result

    return checked_
