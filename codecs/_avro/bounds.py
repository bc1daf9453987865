"""What a message may become that it does not hold: items of no bytes, enum symbols, and defaults of the reader.

All else of a value stands in the message, in at least a byte for each item, so that rows are at most as many times as
large as the schema's columns are wide. Without these bounds an item of no bytes, or of one byte with a default of
thousands, would make gigabytes of a message of kilobytes.
"""

from __future__ import annotations

from typing import Any, Final

from kvformat.codecs._avro.resolve import Action, Array, Branches, Constant, Into, Map, Record, Symbol
from kvformat.registry._cache import cached_by_identity

MAX_EMPTY_ITEMS: Final = 1000
"""Items that take no bytes, in all arrays of a message."""
MAX_ADDED: Final = 2**20
"""Bytes that symbols and defaults add to the items of a message; it may have `ADDED_PER_BYTE` more for each byte."""
ADDED_PER_BYTE: Final = 64
"""Also what an item may add for each of its own bytes without being counted."""
_WIDTH: Final = 16
"""Bytes that a number in a default counts for."""


@cached_by_identity
def added_per_item(action: Array | Map) -> int:
    """The most bytes that symbols and defaults add to an item; 0 if that is never much, as in most schemas.

    Arrays and maps within the item count their own.
    """
    if isinstance(action, Array):
        item, least = action.item, max(action.least_size, 1)
    else:
        item, least = action.value, 1
    added = _added(item)
    return added if added > ADDED_PER_BYTE * least else 0


def _added(action: Action) -> int:
    match action:
        case Symbol():
            return max((len(text.encode()) for text in action.texts if text is not None), default=0)
        case Constant():
            return _size(action.value)
        case Record():
            steps = sum(_added(step.action) for step in action.steps if step.target is not None)
            return steps + sum(_added(default) for default in action.defaults.values())
        case Branches():
            return max((_added(branch) for branch in action.branches), default=0)
        case Into():
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
