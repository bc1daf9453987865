"""How many cases the tests try whose cases are drawn at random.

`scripts/test` tries few, `scripts/test --all` many: it sets `KVFORMAT_TEST_EXTENT=all` in the environment.
"""

from __future__ import annotations

import os

EXTENT = os.environ.get("KVFORMAT_TEST_EXTENT", "quick")
if EXTENT not in ("quick", "all"):
    raise ValueError(f"the environment variable KVFORMAT_TEST_EXTENT is {EXTENT!r}; allowed: quick, all")


def case_count(variable: str | None = None, *, quick: int, all: int) -> int:
    """Return how many cases to try: what the environment variable says, otherwise the number of the extent."""
    told = os.environ.get(variable) if variable else None
    return int(told) if told else {"quick": quick, "all": all}[EXTENT]
