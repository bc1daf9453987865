"""Declarations of the functions of Flink SQL: their arguments, and how a call is bound to them.

    FUNCTIONS = {"UPPER": by_values(java_upper, "TEXT", STRING), "IF": Function(_bind_if, 3, 3)}

Each module of functions has such a table; `bind.py` joins them. A `Function` takes a call and its typed arguments, and
returns a typed expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvformat.registry.contract.types import BYTES, STRING, FlinkType
from kvformat.registry.expressions.bound import (
    BIGINT,
    BINARIES,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOATS,
    INT,
    INTEGERS,
    NULL,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    BindError,
    Bound,
    constant,
    shown,
    with_session,
)
from kvformat.registry.expressions.casts import bind_cast
from kvformat.registry.expressions.rows import Session
from kvformat.registry.expressions.tree import Call

ANY_COUNT = 2**31
_TIMESTAMP = FlinkType("TIMESTAMP", precision=6)
KINDS: dict[str, tuple[str, tuple[str, ...], FlinkType | None]] = {
    "TEXT": ("a text", TEXTS, STRING),
    "BYTES": ("bytes", BINARIES, BYTES),
    "INTEGER": ("an integer", INTEGERS, INT),
    "LONG": ("an integer", INTEGERS, BIGINT),
    "NUMBER": ("a number", NUMBERS, INT),
    "EXACT": ("an integer or a DECIMAL", (*INTEGERS, "DECIMAL"), INT),
    "FLOATING": ("a FLOAT or DOUBLE", FLOATS, DOUBLE),
    "DOUBLE": ("a number", NUMBERS, DOUBLE),
    "BOOLEAN": ("a BOOLEAN", ("BOOLEAN",), BOOLEAN),
    "DATE": ("a DATE", ("DATE",), DATE),
    "TIME": ("a TIME", ("TIME",), FlinkType("TIME", precision=0)),
    "TIMESTAMP": ("a timestamp", TIMESTAMPS, _TIMESTAMP),
    "ARRAY": ("an ARRAY", ("ARRAY",), None),
    "MAP": ("a MAP", ("MAP",), None),
}
"""Kinds of parameters: in words, the types that they take, and the type of NULL there. DOUBLE casts its argument."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Flink SQL with its least and most numbers of arguments.

    bind: gets the call and its arguments, and returns the typed call. Raises `BindError`.
    """

    bind: Callable[[Call, Sequence[Bound]], Bound]
    least: int
    most: int

    def __call__(self, call: Call, arguments: Sequence[Bound]) -> Bound:
        """Return the typed call. Raises `BindError` for a wrong number of arguments."""
        count = len(arguments)
        if not self.least <= count <= self.most:
            few, many = self.least, self.most
            allowed = f"{few}" if few == many else f"at least {few}" if many == ANY_COUNT else f"{few} to {many}"
            raise BindError(f"{call.name}: needs {allowed} arguments in Flink, not {count}", call.offset)
        return self.bind(call, arguments)


Result = FlinkType | Callable[[Sequence[FlinkType]], FlinkType]
"""The type of a result, or a function of the types of the arguments."""


def by_values(compute: Callable[..., Any], parameters: str, result: Result, *, nulls: bool = False) -> Function:
    """Return a function that computes one value at a time.

    `parameters` are kinds of `KINDS`, or ANY, separated by blanks: `TEXT INTEGER|LONG INTEGER?`. A question mark means
    that the parameter may be missing, a star at the last one that it may be repeated or missing. If an argument is NULL
    the result is NULL, unless `nulls` passes None to `compute`, which raises `RowError` where Flink fails.
    """
    return in_session(lambda _: compute, parameters, result, nulls=nulls)


def in_session(
    factory: Callable[[Session], Callable[..., Any]], parameters: str, result: Result, *, nulls: bool = False
) -> Function:
    """Return a function like `by_values` that depends on the session; `factory` returns the function for it."""
    kinds = parameters.split()

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        values = checked(call, arguments, parameters)
        type_ = result if isinstance(result, FlinkType) else result([value.type for value in values])
        return with_session(type_, lambda rows: factory(rows.session), values, nulls=nulls)

    repeated = bool(kinds) and kinds[-1].endswith("*")
    least = sum(not kind.endswith(("?", "*")) for kind in kinds)
    return Function(bind, least, ANY_COUNT if repeated else len(kinds))


def checked(call: Call, arguments: Sequence[Bound], parameters: str) -> list[Bound]:
    """Return the arguments with the types that the parameters take. Raises `BindError` naming a wrong one."""
    kinds = parameters.split()
    return [
        _argument(call.name, i, argument, kinds[min(i, len(kinds) - 1)].rstrip("?*"), call.offset)
        for i, argument in enumerate(arguments)
    ]


def _argument(name: str, index: int, argument: Bound, kind: str, offset: int) -> Bound:
    if kind == "ANY":
        return argument
    wanted = [KINDS[alternative] for alternative in kind.split("|")]
    if argument.type == NULL and wanted[0][2] is not None:
        return constant(wanted[0][2], None)
    if not any(argument.type.root in roots for _, roots, _ in wanted):
        words = " or ".join(words for words, _, _ in wanted)
        raise BindError(f"{name}: argument {index + 1} must be {words}, not {shown(argument.type)}", offset)
    if kind == "DOUBLE":
        return bind_cast(argument, DOUBLE)
    return argument


def same_type(types: Sequence[FlinkType]) -> FlinkType:
    """Return the type of the first argument."""
    return replace(types[0], nullable=True)
