"""Types whose values come in other forms than those that Flink's JSON reads.

A `ConvertedType` stands for its Flink type in the row that the kernel reads. The kernel reads the usual form itself and
gives each other value to `convert`, which makes the column's value of it or raises `ValueError`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kvformat.codecs._java.parse import BLANKS
from kvformat.codecs._kernel.tree import Integer
from kvformat.registry.contract.types import FlinkField, FlinkType


class ValueConverter(abc.ABC):
    """Reads a JSON node of any kind but null. Subclasses are frozen dataclasses, as types are compared."""

    @abc.abstractmethod
    def __call__(self, node: Any) -> Any:
        """The column's value. Raises `ValueError` for a node that the type can't mean."""

    def wrap(self, default: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function to call, given the function that reads the type's JSON as Flink does."""
        del default
        return self


@dataclass(frozen=True, slots=True)
class ConvertedType(FlinkType):
    """A type that is read by `convert`. An error calls it `name`, or as the type where there is none.

    An integer is kept `factor` times; what `convert` gives is kept as it is.
    """

    convert: ValueConverter = None  # type: ignore[assignment]  # the base class has defaults
    factor: int = 1
    name: str = ""

    @classmethod
    def of(cls, t: FlinkType, convert: ValueConverter, *, factor: int = 1, name: str = "") -> ConvertedType:
        """A Flink type with other forms."""
        return cls(t.root, t.nullable, t.length, t.precision, t.scale, t.fields, convert, factor, name)

    def summary(self) -> str:
        return self.name or FlinkType.summary(self)


@dataclass(frozen=True)
class FlexibleBoolean(ValueConverter):
    """BOOLEAN: true and false, also as texts, and 0 and 1, with `as_texts` also as texts."""

    as_texts: bool = False

    def __call__(self, node: Any) -> bool:
        if isinstance(node, bool):
            return node
        text = node.strip(BLANKS).lower() if isinstance(node, str) else ""
        if type(node) is Integer or self.as_texts:
            text = {"0": "false", "1": "true"}.get(text, text)
        if text not in ("true", "false"):
            raise ValueError(node)
        return text == "true"


def flexible_boolean(t: FlinkType, *, as_texts: bool = False) -> ConvertedType:
    """BOOLEAN as `FlexibleBoolean` reads it."""
    return ConvertedType.of(t, FlexibleBoolean(as_texts), name="BOOLEAN (true, false, 1 or 0)")


def with_flexible_booleans(t: FlinkType) -> FlinkType:
    """The type with each BOOLEAN in it read by `FlexibleBoolean` as Canal and Maxwell write MySQL's TINYINT(1)."""
    if t.root == "BOOLEAN":
        return flexible_boolean(t, as_texts=True)
    return replace(t, fields=tuple(FlinkField(field.name, with_flexible_booleans(field.type)) for field in t.fields))
