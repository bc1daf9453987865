"""Types of ARRAY, MAP and ROW as arguments, implicit casts to them, and `=` of their elements.

Rules: Flink's `LogicalTypeCasts` and `LogicalTypeMerging`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from kvformat.registry.contract.types import FlinkField, FlinkType, nullable
from kvformat.registry.expressions.bound import (
    BINARIES,
    DOUBLE,
    FLOATS,
    INTEGERS,
    NULL,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    BindError,
    Bound,
    by_value,
    constant,
    shown,
)
from kvformat.registry.expressions.casts import bind_cast, same_values
from kvformat.registry.expressions.rows import RowError
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.types import common_type

NESTED: Final = ("ARRAY", "MAP", "MULTISET", "ROW", "VARIANT")


def array_of(element: FlinkType) -> FlinkType:
    """Return an ARRAY, whose elements may be NULL."""
    return FlinkType("ARRAY", fields=(FlinkField("element", nullable(element)),))


def map_of(key: FlinkType, value: FlinkType) -> FlinkType:
    """Return a MAP, whose values may be NULL."""
    return FlinkType("MAP", fields=(FlinkField("key", nullable(key)), FlinkField("value", nullable(value))))


def element_of(type_: FlinkType) -> FlinkType:
    """Return the type of the elements of an ARRAY, or of the keys of a MAP."""
    return type_.fields[0].type


def check_root(call: Call, arguments: Sequence[Bound], *roots: str) -> None:
    """Raise `BindError` for an argument of another type."""
    for i, argument in enumerate(arguments):
        if argument.type.root not in roots:
            kinds = " or ".join(roots)
            raise BindError(
                f"{call.name}: argument {i + 1} must be of {kinds}, not {shown(argument.type)}", call.offset
            )


# --- casts of arguments --------------------------------------------------------------------------------------

_IMPLICIT: Final[dict[str, tuple[str, ...]]] = {
    "CHAR": ("CHAR",),
    "VARCHAR": TEXTS,
    "BINARY": ("BINARY",),
    "VARBINARY": BINARIES,
    "TINYINT": INTEGERS[:1],
    "SMALLINT": INTEGERS[:2],
    "INT": INTEGERS[:3],
    "BIGINT": INTEGERS,
    "DECIMAL": NUMBERS,
    "FLOAT": (*INTEGERS, "DECIMAL", "FLOAT"),
    "DOUBLE": NUMBERS,
    "DATE": ("DATE", "TIMESTAMP"),
    "TIME": ("TIME", "TIMESTAMP"),
    "TIMESTAMP": TIMESTAMPS,
    "TIMESTAMP_LTZ": TIMESTAMPS,
}
"""The types that Flink casts to each type without CAST."""


def as_element(call: Call, array: Bound, value: Bound) -> Bound:
    """Cast a value to the type of the elements of an array, if Flink does so without CAST."""
    element = element_of(array.type)
    if value.type == NULL:
        return constant(element, None)
    if nullable(value.type) == nullable(element) or _same_but_names(value.type, element):
        return bind_cast(value, element, offset=call.offset)
    if value.type.root not in _IMPLICIT.get(element.root, ()):
        raise BindError(
            f"{call.name}: {shown(value.type)} is not the type of the elements of {shown(array.type)}; cast it",
            call.offset,
        )
    return bind_cast(value, element, offset=call.offset)


def _same_but_names(left: FlinkType, right: FlinkType) -> bool:
    """Return whether two nested types differ only in the names of fields and in lengths."""
    if left.root not in NESTED or left.root != right.root or len(left.fields) != len(right.fields):
        return False
    return all(
        same_values(a.type, b.type) or _same_but_names(a.type, b.type)
        for a, b in zip(left.fields, right.fields, strict=True)
    )


def with_one_type(call: Call, arguments: Sequence[Bound], *, converts: bool = True) -> list[Bound]:
    """Give arrays or maps one type, as `LogicalTypeMerging.findCommonType` does.

    Without `converts`, values must not change: there Flink's conversion fails for NULL, or makes 0 of it.
    """
    check_root(call, arguments, arguments[0].type.root)
    common: FlinkType | None = arguments[0].type
    for argument in arguments[1:]:
        common = common and _merged_type(common, argument.type)
    if common is None or not (converts or all(_is_kept(argument.type, common) for argument in arguments)):
        types = ", ".join(shown(argument.type) for argument in arguments)
        what = "no common type" if common is None else "several types, for which Flink fails if there is a NULL"
        raise BindError(f"{call.name}: its arguments have {what}: {types}; cast them to one", call.offset)
    return [_with_type(call, argument, common) for argument in arguments]


def _merged_type(left: FlinkType, right: FlinkType) -> FlinkType | None:
    fields = []
    for a, b in zip(left.fields, right.fields, strict=True):
        if {a.type.root, b.type.root} == set(FLOATS):
            common: FlinkType | None = DOUBLE
        else:
            common = common_type((a.type, b.type))
        if common is None or common == NULL:
            return None
        fields.append(FlinkField(a.name, nullable(common)))
    return replace(left, fields=tuple(fields), nullable=True)


def _is_kept(type_: FlinkType, common: FlinkType) -> bool:
    """Return whether Flink does not convert the elements of an array one by one."""
    element, other = type_.fields[0].type, common.fields[0].type
    if element.root in (*TEXTS, *BINARIES):
        return same_values(element, other)
    return nullable(element) == nullable(other)


def _with_type(call: Call, argument: Bound, type_: FlinkType) -> Bound:
    cast = bind_cast(argument, type_, offset=call.offset)
    if argument.type.root != "ARRAY" or _is_kept(argument.type, type_):
        return cast

    def checked(original: list[Any], converted: list[Any]) -> list[Any]:
        if None in original:
            raise RowError(f"{call.name}: Flink can't convert NULL in {shown(argument.type)} to {shown(type_)}")
        return converted

    return by_value(type_, checked, [argument, cast])


# --- comparisons of elements ---------------------------------------------------------------------------------

Equal = Callable[[Any, Any], bool]


def equality(call: Call, element: FlinkType) -> Equal:
    """Return `=` of two elements that are not NULL."""
    if element.root not in NESTED:
        return operator.eq
    if any(type_.root in (*FLOATS, "MAP", "MULTISET", "VARIANT") for _, type_ in element.walk()):
        raise BindError(f"{call.name}: values of {shown(element)} can't be compared here", call.offset)

    def equal(a: Any, b: Any) -> bool:
        _check_no_null(call, element, a)
        _check_no_null(call, element, b)
        return bool(a == b)

    return equal


def _check_no_null(call: Call, type_: FlinkType, value: Any) -> None:
    if type_.root == "ROW":
        for field, item in zip(type_.fields, value, strict=True):
            if item is not None:
                _check_no_null(call, field.type, item)
    elif type_.root == "ARRAY":
        for item in value:
            if item is None:
                raise RowError(f"{call.name}: an ARRAY with NULL in it can't be compared as Flink does")
            _check_no_null(call, type_.fields[0].type, item)
