"""Conversions of wire values to column values, array by array.

A format reads a column as the type that the message has, such as a text. It then converts the Arrow array. A value that
can't be converted becomes null, and `RowErrors` gets the error of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import (
    Ints,
    Mask,
    RowsOf,
    field_lookup,
    row_lookup,
    stored_type,
    with_elements,
    with_entries,
    with_fields,
)
from kvformat.codecs.json.scalars import preview
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.types import FlinkType

_SHOWN = 100  # characters of a value that an error quotes


class RowErrors:
    """The reasons why rows can't be read, by row number. The first reason of a row counts."""

    def __init__(self) -> None:
        self.reasons: dict[int, Reason] = {}

    def add(self, rows: Ints, reason: Callable[[int], Reason]) -> None:
        """Add these rows; `reason(i)` is the error of `rows[i]`. A row number of -1 is ignored."""
        for i, row in enumerate(rows.tolist()):
            if row >= 0 and row not in self.reasons:
                self.reasons[row] = reason(i)


@dataclass(frozen=True)
class Conversion:
    """Converts wire values to values of a Flink type. Subclasses implement `values`, or `convert` if they have parts.

    `source` says in errors where the wire type comes from: the message's schema, or an option.
    """

    type: FlinkType
    source: str
    error_code = ErrorCode.OUT_OF_RANGE

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Return the converted values, and a mask of those that can't be converted. No mask means that all can."""
        raise NotImplementedError

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        """Convert an array, which is at `path` in the row.

        A value that can't be converted becomes null. Its row, which `rows_of` finds, is added to `errors`.
        """
        values, bad = self.values(wire)
        if bad is None or not bad.any():
            return values
        places = np.flatnonzero(bad)
        refused = wire.take(pa.array(places)).to_pylist()
        errors.add(rows_of(places), lambda i: self.reason(refused[i], path))
        return pc.if_else(pa.array(bad), pa.scalar(None, values.type), values)

    def reason(self, value: Any, path: str) -> Reason:
        """The error of a value that can't be converted."""
        text = value.hex() if isinstance(value, bytes) else value
        quoted = preview(text) if isinstance(text, str) else str(text)[:_SHOWN]
        return Reason(self.error_code, f"field '{path}': cannot read {quoted} ({self.source}) as {self.type.summary()}")


@dataclass(frozen=True)
class RefusedValues(Conversion):
    """Refuses every value that is not null. `hint` says what to do."""

    hint: str = ""
    error_code = ErrorCode.WRONG_TYPE

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        return pa.nulls(len(wire), stored_type(self.type)), np.asarray(wire.is_valid())

    def reason(self, value: Any, path: str) -> Reason:
        refused: Reason = super().reason(value, path)
        return replace(refused, text=f"{refused.text}{self.hint}")


@dataclass(frozen=True)
class EachValue(Conversion):
    """Converts value by value, for rare types.

    `read` returns a column value and raises `ValueError` or `ArithmeticError` for a wire value that it can't read.
    """

    read: Callable[[Any], Any] = field(default=str)
    error_code = ErrorCode.WRONG_TYPE

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        read_values: list[Any] = []
        bad = np.zeros(len(wire), np.bool_)
        for place, value in enumerate(wire.to_pylist()):
            try:
                read_values.append(None if value is None else self.read(value))
            except (ValueError, ArithmeticError):
                read_values.append(None)
                bad[place] = True
        target = stored_type(self.type)
        if not pa.types.is_temporal(target):
            return pa.array(read_values, target), bad
        return pa.array(read_values, pa.int32() if target == pa.date32() else pa.int64()).cast(target), bad


@dataclass(frozen=True)
class Nested(Conversion):
    """Converts the parts of a ROW, an ARRAY or a MAP.

    `parts` has conversions by the names of the type's fields, such as `element`. Other parts stay as they are.
    """

    parts: Mapping[str, Conversion] = field(default_factory=dict)

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        target = stored_type(self.type)
        if self.type.root == "ROW":
            above = field_lookup(wire, rows_of)
            children = [
                self._part(f.name, wire.field(i), f"{path}.{f.name}" if path else f.name, above, errors)
                for i, f in enumerate(self.type.fields)
            ]
            return with_fields(wire, target, children)
        above = row_lookup(wire, rows_of)
        if self.type.root == "ARRAY":
            items = self._part("element", wire.values, f"{path}.element", above, errors)
            return with_elements(wire, target, items)
        items = self._part("value", wire.items, f"{path}.value", above, errors)
        return with_entries(wire, target, wire.keys, items)

    def _part(self, name: str, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        conversion = self.parts.get(name)
        return wire if conversion is None else conversion.convert(wire, path, rows_of, errors)
