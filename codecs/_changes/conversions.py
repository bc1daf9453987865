"""Conversions of wire values to column values, array by array.

A format reads a column as a type that its wire has, such as a text, and converts the Arrow array afterwards. A value
that can't be converted becomes null, and the error is noted for its row.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import RowsOf, owners, relisted, valid_of
from kvformat.codecs._columnar import Ints, Mask, validity
from kvformat.codecs._json.scalars import shown
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

_SHOWN = 100  # characters of a value that an error quotes


class RowErrors:
    """Why rows can't be read, by their places; the first reason of a row counts."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}

    def add(self, rows: Ints, reason: Callable[[int], str]) -> None:
        """Rows with the reason for each of them, by its number among these; -1 is no row."""
        for number, row in enumerate(rows.tolist()):
            if row >= 0 and row not in self.reasons:
                self.reasons[row] = reason(number)


@dataclass(frozen=True)
class Conversion(abc.ABC):
    """From values on the wire to those of a type; `said` is what the wire's schema, or an option, calls them."""

    type: FlinkType
    said: str

    @abc.abstractmethod
    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        """The values, and which of those that are not null can't be; None for none."""

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        """The values; those that can't be are null and are noted."""
        values, bad = self.values(wire)
        if bad is None or not bad.any():
            return values
        places = np.flatnonzero(bad)
        told = wire.take(pa.array(places)).to_pylist()
        errors.add(rows_of(places), lambda number: self.fault(told[number], path))
        return pc.if_else(pa.array(bad), pa.scalar(None, values.type), values)

    def fault(self, value: Any, path: str) -> str:
        """The reason for a value."""
        text = value.hex() if isinstance(value, bytes) else value
        told = shown(text) if isinstance(text, str) else str(text)[:_SHOWN]
        code = ErrorCode.OUT_OF_RANGE if self.is_range else ErrorCode.WRONG_TYPE
        return code.marked(f"field '{path}': cannot read {told} ({self.said}) as {self.type.summary()}")

    is_range = True


@dataclass(frozen=True)
class RefusedValues(Conversion):
    """Values of a kind that the column can't hold: each is a fault, whatever it is. `hint` says what to do."""

    hint: str = ""
    is_range = False

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        there: Mask = np.asarray(wire.is_valid())
        return pa.nulls(len(wire), arrow_type(nullable(self.type))), there

    def fault(self, value: Any, path: str) -> str:
        return f"{super().fault(value, path)}{self.hint}"


@dataclass(frozen=True)
class EachValue(Conversion):
    """Each value by a function that raises `ValueError` for what it can't read: for what is rare."""

    read: Callable[[Any], Any] = field(default=str)

    is_range = False

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        found: list[Any] = []
        bad = np.zeros(len(wire), np.bool_)
        for place, value in enumerate(wire.to_pylist()):
            try:
                found.append(None if value is None else self.read(value))
            except (ValueError, ArithmeticError):
                found.append(None)
                bad[place] = True
        target = arrow_type(nullable(self.type))
        if not pa.types.is_temporal(target):
            return pa.array(found, target), bad
        return pa.array(found, pa.int32() if target == pa.date32() else pa.int64()).cast(target), bad


@dataclass(frozen=True)
class Nested(Conversion):
    """What is in a ROW, an ARRAY or a MAP: the change of each part, by its name in the type; others stay."""

    parts: Mapping[str, Conversion] = field(default_factory=dict)

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        raise NotImplementedError("its parts are converted")

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        target = arrow_type(nullable(self.type))
        if self.type.root == "ROW":
            return self._row(wire, target, path, rows_of, errors)
        above = owners(wire, rows_of)
        if self.type.root == "ARRAY":
            items = self._part("element", wire.values, f"{path}.element", above, errors)
            return relisted(wire, target, items)
        items = self._part("value", wire.items, f"{path}.value", above, errors)
        entries = pa.StructArray.from_arrays([wire.keys, items], fields=[target.key_field, target.item_field])
        return relisted(wire, target, entries)

    def _part(self, name: str, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        change = self.parts.get(name)
        return wire if change is None else change.convert(wire, path, rows_of, errors)

    def _row(
        self, wire: pa.StructArray, target: pa.DataType, path: str, rows_of: RowsOf, errors: RowErrors
    ) -> pa.StructArray:
        valid = valid_of(wire)

        def above(places: Ints) -> Ints:
            return rows_of(places if valid is None else np.where((places >= 0) & valid[places], places, -1))

        children = [
            self._part(f.name, wire.field(i), f"{path}.{f.name}" if path else f.name, above, errors)
            for i, f in enumerate(self.type.fields)
        ]
        return pa.Array.from_buffers(target, len(wire), [None if valid is None else validity(valid)], children=children)
