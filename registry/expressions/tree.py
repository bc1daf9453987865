"""The syntax tree of an expression, as `registry.sql.expressions` parses it. Only literals have a type yet.

price * 2       Call("*", (Name("price"), Literal(2, INT)))
CAST(a AS INT)  Call("CAST", (Name("a"),), type=INT)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvformat.registry.contract.types import FlinkType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. `value` has the form that `vectors.Vector.values` describes; NULL has the type None."""

    value: Any
    type: FlinkType | None
    offset: int


@dataclass(frozen=True, slots=True)
class Name:
    """A column of the table."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator by its name in upper case.

    words: keywords among the arguments, such as the unit of EXTRACT.
    type: the type that the call names, such as that of a CAST.
    """

    name: str
    arguments: tuple[Tree, ...]
    offset: int
    words: tuple[str, ...] = ()
    type: FlinkType | None = None


Tree = Literal | Name | Call


_RANDOM = ("RAND", "RAND_INTEGER", "UUID")


def names(tree: Tree) -> set[str]:
    """Return the names of the columns that an expression uses."""
    columns, rest = set(), [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, Name):
            columns.add(node.name)
        elif isinstance(node, Call):
            rest += node.arguments
    return columns


def same_tree(left: Tree, right: Tree) -> bool:
    """Return whether two trees are the same expression, which has the same value each time."""
    if isinstance(left, Call) and isinstance(right, Call):
        return (
            left.name not in _RANDOM
            and (left.name, left.words, left.type) == (right.name, right.words, right.type)
            and len(left.arguments) == len(right.arguments)
            and all(same_tree(a, b) for a, b in zip(left.arguments, right.arguments, strict=True))
        )
    if isinstance(left, Literal) and isinstance(right, Literal):
        return left.type == right.type and repr(left.value) == repr(right.value)
    return isinstance(left, Name) and isinstance(right, Name) and left.name == right.name
