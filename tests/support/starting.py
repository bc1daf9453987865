"""Starts streaming queries on a busy machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ATTEMPTS = 4


def started(start: Callable[[], Any]) -> Any:
    """Return the query that `start` starts.

    Spark Connect waits ten seconds for the Python worker of `foreachBatch`, and no setting changes that. A busy machine
    needs longer to start Python, so the start is repeated.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return start()
        except Exception as error:
            if "Python worker failed to connect back" not in str(error):
                raise
    return start()
