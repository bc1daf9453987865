"""Types that accept JSON values which Flink's JSON format does not accept.

A `ConvertedType` replaces its Flink type in the row that the kernel reads. The kernel reads the most frequent form
itself. It calls `convert` for all other values.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kvformat.codecs._kernel.tree import Integer
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.java.parse import BLANKS


class ValueConverter(abc.ABC):
    """Converts a JSON node that is not null. Subclasses are frozen dataclasses, because types are compared."""

    @abc.abstractmethod
    def __call__(self, node: Any) -> Any:
        """Return the column's value. Raises `ValueError` if the node is not a value of the type."""

    def wrap(self, default: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function that converts nodes. `default` converts them by the rules of Flink's JSON format."""
        del default
        return self


@dataclass(frozen=True, slots=True)
class ConvertedType(FlinkType):
    """A type with its own converter, `convert`. Errors show `name`, or the type if `name` is empty.

    The kernel multiplies integers that it reads itself by `factor`. It stores results of `convert` as they are.
    """

    convert: ValueConverter = None  # type: ignore[assignment]  # the base class has defaults
    factor: int = 1
    name: str = ""

    @classmethod
    def of(cls, t: FlinkType, convert: ValueConverter, *, factor: int = 1, name: str = "") -> ConvertedType:
        """Add a converter to a Flink type."""
        return cls(t.root, t.nullable, t.length, t.precision, t.scale, t.fields, convert, factor, name)

    def summary(self) -> str:
        return self.name or FlinkType.summary(self)


@dataclass(frozen=True)
class FlexibleBoolean(ValueConverter):
    """BOOLEAN: accepts true and false, also in quotes, and 0 and 1. With `as_texts` it also accepts "0" and "1"."""

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
    """Return a BOOLEAN that `FlexibleBoolean` reads."""
    return ConvertedType.of(t, FlexibleBoolean(as_texts), name="BOOLEAN (true, false, 1 or 0)")


def with_flexible_booleans(t: FlinkType) -> FlinkType:
    """Let each BOOLEAN in a type accept 0 and 1, as Canal and Maxwell write MySQL's TINYINT(1)."""
    if t.root == "BOOLEAN":
        return flexible_boolean(t, as_texts=True)
    return replace(t, fields=tuple(FlinkField(field.name, with_flexible_booleans(field.type)) for field in t.fields))
