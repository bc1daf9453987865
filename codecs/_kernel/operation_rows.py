"""The rows that an operation of change messages gives."""

from __future__ import annotations

import numpy as np


class OperationRows:
    """The rows that an operation gives, in their order.

    `rows` has for each row its kind as an index into `KINDS`, the member that it is read from (BEFORE or AFTER), and
    whether the values in BEFORE are laid over it. `unused` are the members that no row is read from. They must be
    readable too, unless the reader is lenient. `or_before` says that the only row, of AFTER, may be in BEFORE instead.
    """

    def __init__(self, rows: list[tuple[int, int, bool]], unused: list[int], *, or_before: bool = False) -> None:
        self.count, self.unused, self.or_before = len(rows), unused, or_before
        kinds, members, overlays = ([int(row[i]) for row in rows] for i in range(3))
        self.kinds, self.members, self.overlays = int_view(kinds), int_view(members), int_view(overlays)


def int_view(numbers: list[int]) -> memoryview[int]:
    """The numbers as a view of C ints, with a -1 after the last one, because a view must not be empty."""
    view: memoryview[int] = memoryview(bytearray(np.array([*numbers, -1], np.int32).tobytes())).cast("i")
    return view
