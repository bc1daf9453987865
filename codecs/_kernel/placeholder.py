"""A placeholder, to develop the build with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.codecs._kernel.placeholder_memory import Longs

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import shadow as cython

if not cython.compiled:
    from kvformat.codecs._kernel.placeholder_memory import load

ONES = 0x0101010101010101


class Reader:
    """Reads digits."""

    def __init__(self, data: bytes, out: Longs) -> None:
        self.data = memoryview(data)
        self.out = out

    def digits(self) -> int:
        """All of them."""
        at = 0
        mantissa = 0
        while at < len(self.data):
            mantissa = mantissa * 10 + (self.data[at] - ord("0"))
            at += 1
        if load(self.data, 0) & ONES:
            self.out.add(1)
        self.out.add(mantissa)
        return 0


def total(data: bytes) -> int:
    """The number and how many there are."""
    out = Longs()
    reader = Reader(data, out)
    with cython.nogil:
        reader.digits()
    return out.values[out.length - 1]
