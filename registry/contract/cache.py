"""A cache for what is derived from a schema, once per batch on the hottest path."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa

from kvformat.registry.contract.fork_safe import Guarded

_A = TypeVar("_A")
_R = TypeVar("_R")
_P = ParamSpec("_P")
_BOUND = 256
_UNKNOWN: Any = object()
_changing: Guarded[None] = Guarded(lambda: None)


def cached_by_identity(function: Callable[Concatenate[_A, _P], _R]) -> Callable[Concatenate[_A, _P], _R]:
    """Remember results per first argument *object* (and equal further ones), without hashing it.

    Hashing a schema of ten columns costs as much as decoding a hundred messages, and Arrow's schemas count as
    equal when only their metadata differs. An object that is not known has the result of an equal one: each task of
    Spark unpickles a table anew, and readers with their buffers are not to pile up. The objects are kept alive; the
    oldest go first. Threads may call at the same time: to find a result takes no lock, to keep one does.
    """
    known: dict[tuple[int, Hashable], tuple[Any, Any]] = {}
    by_content: dict[Hashable, Any] = {}

    @functools.wraps(function)
    def cached(first: _A, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        key = (id(first), args)
        found = known.get(key)
        if found is None or found[0] is not first:
            content = (_content(first), args)
            result = by_content.get(content, _UNKNOWN)
            is_new = result is _UNKNOWN
            if is_new:
                result = function(first, *args, **kwargs)
            found = (first, result)
            with _changing.use():  # or another thread changes what `next` goes over
                _keep(known, key, found)
                if is_new:
                    _keep(by_content, content, result)
        kept: _R = found[1]
        return kept

    return cached


def _content(first: object) -> Hashable:
    """What equal objects have alike; of a schema its metadata too. What can't be hashed is like nothing else."""
    if isinstance(first, pa.Schema):
        return pa.Schema, first.serialize().to_pybytes()
    return type(first), first if isinstance(first, Hashable) else object()


def _keep(known: dict[Any, Any], key: Hashable, value: object) -> None:
    while len(known) >= _BOUND:
        del known[next(iter(known))]
    known[key] = value
