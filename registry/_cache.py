"""A cache for what is derived from a schema, once per batch on the hottest path."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, Concatenate, ParamSpec, TypeVar

_A = TypeVar("_A")
_R = TypeVar("_R")
_P = ParamSpec("_P")
_BOUND = 256
_changing = threading.Lock()


def cached_by_identity(function: Callable[Concatenate[_A, _P], _R]) -> Callable[Concatenate[_A, _P], _R]:
    """Remember results per first argument *object* (and equal further ones), without hashing it.

    Hashing a schema of ten columns costs as much as decoding a hundred messages, and Arrow's schemas count as
    equal when only their metadata differs. The objects are kept alive; the oldest go first. Threads may call at the
    same time: to find a result takes no lock, to keep one does.
    """
    known: dict[tuple[int, Hashable], tuple[Any, Any]] = {}

    @functools.wraps(function)
    def cached(first: _A, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        key = (id(first), args)
        found = known.get(key)
        if found is None or found[0] is not first:
            found = (first, function(first, *args, **kwargs))
            with _changing:  # or another thread changes what `next` goes over
                while len(known) >= _BOUND:
                    del known[next(iter(known))]
                known[key] = found
        result: _R = found[1]
        return result

    return cached


def _after_fork() -> None:
    """A thread that is no more may hold the lock."""
    global _changing
    _changing = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
