"""What a message may become that it does not hold: items of no bytes, NULLs, enum symbols, defaults of the reader.

All else of a value stands in the message, in at least a byte for each item. Without these bounds an item of no bytes,
or of one byte with a default of thousands or with thousands of columns, would make gigabytes of a message of kilobytes.
"""

from __future__ import annotations

from typing import Any, Final

from kvformat.codecs._avro.resolve import Action, Array, Constant, Enum, Map, Record, ToBranch, Union
from kvformat.codecs._kernel.codes import BYTES_OF_A_CELL
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH

MAX_EMPTY_ITEMS: Final = 1000
"""Items that take no bytes, in all arrays of a message."""
MAX_ADDED: Final = MOST_CELLS * BYTES_OF_A_CELL
"""Bytes that cells, symbols and defaults add to the items of a message: as much as the cells of any other format.

It may have `ADDED_PER_BYTE` more for each of its bytes.
"""
ADDED_PER_BYTE: Final = CELLS_PER_BYTE * BYTES_OF_A_CELL
"""Also what an item may add for each of its own bytes without being counted."""
_WIDTH: Final = 16
"""Bytes that a number in a default counts for."""


class AddedBytesBudget:
    """What all messages of a batch may have beside what their bytes allow for."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_CELLS_OF_A_BATCH * BYTES_OF_A_CELL


@cached_by_identity
def added_per_item(action: Array | Map) -> int:
    """The most bytes that cells, symbols and defaults add to an item; 0 if that is never much, as in most schemas.

    Arrays and maps within the item count their own.
    """
    if isinstance(action, Array):
        item, least = action.item, max(action.least_size, 1)
    else:
        item, least = action.value, 1
    added = _added(item) + BYTES_OF_A_CELL * (action.cells - 1)
    return added if added > ADDED_PER_BYTE * least else 0


def _added(action: Action) -> int:
    match action:
        case Enum():
            return max((len(text.encode()) for text in action.texts if text is not None), default=0)
        case Constant():
            return _size(action.value)
        case Record():
            steps = sum(_added(step.action) for step in action.steps if step.target is not None)
            return steps + sum(_added(default) for default in action.defaults.values())
        case Union():
            return max((_added(branch) for branch in action.branches), default=0)
        case ToBranch():
            return _added(action.action)
        case _:
            return 0


def _size(value: Any) -> int:
    """About as many bytes as a default takes in Arrow."""
    if isinstance(value, str | bytes):
        return len(value.encode() if isinstance(value, str) else value)
    if isinstance(value, dict):
        return sum(_size(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return sum(_size(inner) for inner in value)
    return _WIDTH
