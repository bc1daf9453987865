"""A placeholder, to develop the build with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import shadow as cython

if not cython.compiled:

    def load(data: memoryview, at: int) -> int:
        """Eight bytes."""
        return int.from_bytes(data[at : at + 8], "little")


class Longs:
    """Numbers that grow."""

    def __init__(self) -> None:
        self.values = memoryview(bytearray(8)).cast("q")
        self.length = 0

    def add(self, value: int) -> int:
        """One more."""
        if self.length == len(self.values):
            with cython.gil:
                self.grow()
        self.values[self.length] = value
        self.length += 1
        return 0

    def grow(self) -> int:
        """Twice the room."""
        fresh = memoryview(bytearray(self.length * 16)).cast("q")
        fresh[: self.length] = self.values
        self.values = fresh
        return 0
