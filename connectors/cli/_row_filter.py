"""Conditions on rows: `--where 'amount > 10'`.

    COLUMN OP VALUE      OP is one of =  !=  <  <=  >  >=  and ~, which searches a regular expression in a text
    place.city = Berlin  a field of a ROW
    row_kind = -D        the row kind, in tables of changes
    name != null         a NULL; any other comparison with a NULL is false

The type of the column defines the form of a value: as in JSON, but strings without quotes. So numbers are compared as
numbers, and timestamps as timestamps.
"""

from __future__ import annotations

import contextlib
import decimal
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
import pyarrow as pa

from kvformat.connectors.cli._table import ShownTable
from kvformat.connectors.cli._values import ValueRefused, python_value, read_json
from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.errors import did_you_mean, listed
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable
from kvformat.registry.table.metadata import VALUE_PREFIX

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION: Final = re.compile(r"\s*(`[^`]+`|[^`=!<>~]+?)\s*(!=|<=|>=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
_KIND: Final = "row_kind"
_MOMENTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
_NESTED: Final = ("ROW", "ARRAY", "MAP", "MULTISET")
_IN_JSON: Final = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "INTERVAL", *_NESTED)
"""Types whose values are written as JSON; the others are texts."""


class Conditions:
    """Selects the rows that meet all conditions. Raises `click.BadParameter` for a text that is not a condition."""

    def __init__(self, texts: Sequence[str], table: ShownTable) -> None:
        self._types, self._has_kinds = _types(table), table.has_kinds
        self._all = [self._condition(text) for text in texts]

    def hold(self, row: Mapping[str, Any], kind: str) -> bool:
        """Return whether a row, in the form that is shown, and its kind meet all conditions."""
        return all(condition(row, kind) for condition in self._all)

    def _condition(self, text: str) -> Callable[[Mapping[str, Any], str], bool]:
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise _refused(
                f"{text!r} is not a condition: write COLUMN OP VALUE, as in 'amount > 10'; OP is one of "
                f"{' '.join(_OPERATORS)} ~"
            )
        name, sign, value = match[1].strip("`"), match[2], match[3]
        if name == _KIND and self._has_kinds and name not in self._types:
            return self._of_kind(sign, value)
        path, t = self._resolved(name)
        if sign == "~":
            pattern = _pattern(value)
            return lambda row, _: (there := _member(row, path)) is not None and bool(pattern.search(str(there)))
        if value == "null":
            if sign not in ("=", "!="):
                raise _refused(f"{text!r}: a comparison {sign} null is never true; use = or !=")
            return lambda row, _: (_member(row, path) is None) == (sign == "=")
        compare, wanted = _OPERATORS[sign], _wanted(value, t, name)
        return lambda row, _: _holds(compare, _member(row, path), wanted, t)

    def _of_kind(self, sign: str, value: str) -> Callable[[Mapping[str, Any], str], bool]:
        kinds = [kind.value for kind in RowKind]
        if sign not in ("=", "!=") or value not in kinds:
            raise _refused(f"{_KIND} is = or != one of {listed(kinds)}, not {sign} {value!r}")
        return lambda _, kind: (kind == value) == (sign == "=")

    def _resolved(self, name: str) -> tuple[list[str], FlinkType]:
        """Return the names of a column and its fields, and the type of the value."""
        if name in self._types:
            return [name], self._types[name]
        first, *path = name.split(".")
        t = self._types.get(first)
        for part in path:
            fields = {field.name: field.type for field in t.fields} if t is not None and t.root == "ROW" else {}
            t = fields.get(part)
        if t is None:
            raise _refused(
                f"there is no column {name!r}.{did_you_mean(name, self._types)} Columns: {listed(self._types)}"
            )
        return [first, *path], t


def _refused(reason: str) -> click.BadParameter:
    return click.BadParameter(reason, param_hint="'--where'")


def _types(table: ShownTable) -> dict[str, FlinkType]:
    """Return the types of the shown columns, by name; metadata has the type of its key."""
    option = "format" if "format" in table.kv.options else "value.format"
    of_value = format_class(table.kv.options[option]).metadata_types
    types = {}
    for column in table.columns:
        known = table.physical[column.place].type if column.place >= 0 else column.type
        types[column.name] = known or parse_type(of_value[column.key.removeprefix(VALUE_PREFIX)])
    return types


def _member(row: Any, path: Sequence[str]) -> Any:
    for name in path:
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as cause:
        raise _refused(f"{text!r} is not a regular expression: {cause}") from None


def _wanted(text: str, t: FlinkType, name: str) -> Any:
    """A value of the type."""
    is_json = t.root.startswith(_IN_JSON)
    if not is_json and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    value: Any = text
    with contextlib.suppress(ValueRefused):
        value = _as_shown(read_json(text.encode("utf-8", "surrogateescape"))) if is_json else text
    try:
        return _comparable(value, t, name)
    except ValueRefused as refused:
        raise _refused(str(refused)) from None


def _as_shown(value: Any) -> Any:
    """Return a value of JSON with the numbers that rows have: in arrays and objects, a FLOAT or DOUBLE is a float."""
    if isinstance(value, list):
        return [float(element) if isinstance(element, decimal.Decimal) else _as_shown(element) for element in value]
    if isinstance(value, dict):
        return dict(zip(value, _as_shown(list(value.values())), strict=True))
    return value


def _comparable(value: Any, t: FlinkType, name: str = "") -> Any:
    if t.root in _NESTED or isinstance(value, float):
        return value
    found = python_value(value, t, name)
    # a number, because no calendar of Python has all days and times
    return pa.scalar(found, arrow_type(nullable(t))).value if t.root in _MOMENTS else found


def _holds(compare: Callable[[Any, Any], Any], value: Any, wanted: Any, t: FlinkType) -> bool:
    """Whether a comparison is true, which it never is with NULL or with what has no order."""
    if value is None:
        return False
    try:
        return bool(compare(_comparable(value, t), wanted))
    except (TypeError, ValueRefused):
        return False
