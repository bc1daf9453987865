"""IF, IFNULL, NULLIF, GREATEST and LEAST: one of several values of a common type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kvformat.registry.expressions.bound import FLOATS, BindError, Bound, by_value, shown
from kvformat.registry.expressions.conditions import bind_case, bind_coalesce, bind_nullif, with_common_type
from kvformat.registry.expressions.functions.signatures import ANY_COUNT, Function
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.vectors import DTYPES


def _bind_extreme(choose: Callable[..., Any]) -> Callable[[Call, Sequence[Bound]], Bound]:
    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        values = with_common_type(call.name, arguments, call.offset, typed="function")
        type_ = values[0].type
        if type_.root not in (*DTYPES, "DECIMAL", "CHAR", "VARCHAR"):
            raise BindError(f"{call.name}: Flink does not compare values of {shown(type_)}", call.offset)
        key = _order_of_float if type_.root in FLOATS else None
        return by_value(type_, lambda *row: choose(row, key=key), values)

    return bind


def _order_of_float(value: float) -> tuple[bool, float, float]:
    """Order as `Double.compare` does: -0.0 before 0.0, and NaN last."""
    return math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value)


FUNCTIONS: dict[str, Function] = {
    "GREATEST": Function(_bind_extreme(max), 1, ANY_COUNT),
    "IF": Function(lambda call, arguments: bind_case(arguments, call.offset, name="IF", typed="function"), 3, 3),
    "IFNULL": Function(lambda call, arguments: bind_coalesce(arguments, call.offset, name="IFNULL"), 2, 2),
    "LEAST": Function(_bind_extreme(min), 1, ANY_COUNT),
    "NULLIF": Function(lambda call, arguments: bind_nullif(arguments[0], arguments[1], call.offset), 2, 2),
}
