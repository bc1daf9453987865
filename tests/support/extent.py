"""The number of cases in tests with random cases.

`scripts/test`, also with `--all`, tests few cases: the seeds are always the same, so that more cases in each run would
find little. `KVFORMAT_TEST_EXTENT=night` tests all.
"""

from __future__ import annotations

import os

EXTENT = os.environ.get("KVFORMAT_TEST_EXTENT", "quick")
if EXTENT not in ("quick", "night"):
    raise ValueError(f"the environment variable KVFORMAT_TEST_EXTENT is {EXTENT!r}; allowed: quick, night")


def case_count(variable: str | None = None, *, quick: int, night: int) -> int:
    """Return the number of cases: the value of the environment variable, or the number of the extent."""
    value = os.environ.get(variable) if variable else None
    return int(value) if value else {"quick": quick, "night": night}[EXTENT]
