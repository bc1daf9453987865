"""Limits on output that is larger than its message: items without bytes, NULLs, enum symbols, reader's defaults.

All other output has its bytes in the message. Some items need one byte or none, but become a default of thousands of
bytes or thousands of columns. Without these limits, a message of kilobytes could become gigabytes. The kernel counts
what a message adds; the limits are in `codecs/_kernel/avro_codes.py`.
"""

from __future__ import annotations

from typing import Any, Final

from kvformat.codecs._kernel.avro_codes import ADDED_PER_BYTE
from kvformat.codecs._kernel.codes import BYTES_OF_A_CELL
from kvformat.codecs.avro.resolve import Action, Array, Constant, Enum, Map, Record, Union
from kvformat.registry.contract.cache import cached_by_identity

_WIDTH: Final = 16
"""Bytes that a number in a default counts as."""


@cached_by_identity
def added_per_item(action: Array | Map) -> int:
    """Return the largest number of bytes that cells, enum symbols and defaults add to an item.

    0 if an item never adds more than `ADDED_PER_BYTE` for each of its bytes, as in most schemas. Arrays and maps
    inside the item are counted separately.
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
        case _:
            return 0


def _size(value: Any) -> int:
    """Estimate the size of a default in Arrow, in bytes."""
    if isinstance(value, str | bytes):
        return len(value.encode() if isinstance(value, str) else value)
    if isinstance(value, dict):
        return sum(_size(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return sum(_size(inner) for inner in value)
    return _WIDTH
