"""Limits of CPU time, in seconds of a quick machine.

They find work whose time is quadratic, which would take minutes. A limit is several times what the work takes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_QUICK = 0.1
"""CPU seconds of the work of `slowness` on a quick machine."""


def slowness() -> float:
    """Return how many times slower than a quick machine this one is now, at least 1. It times making many objects."""
    start = time.process_time()
    _ = {str(number): [number] for number in range(100_000)}
    return max(1.0, (time.process_time() - start) / _QUICK)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail if a block, or a call of the function that this decorates, needs more CPU time. A slow machine gets more."""
    start = time.process_time()
    yield
    spent = time.process_time() - start
    if spent > seconds:
        slower = slowness()
        assert spent <= seconds * slower, f"{spent:.1f} s of CPU time on a machine that is {slower:.1f} times slower"
