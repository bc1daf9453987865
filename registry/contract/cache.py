"""A cache for results that are derived from a schema and looked up for every batch."""

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
_NAMED: Any = object()  # before the arguments that are given by name
_store_lock: Guarded[None] = Guarded(lambda: None)


def cached_by_identity(function: Callable[Concatenate[_A, _P], _R]) -> Callable[Concatenate[_A, _P], _R]:
    """Cache the results of a function by the identity of its first argument and the values of the others.

    A lookup does not hash the first argument. Hashing a schema of ten columns costs as much as decoding a hundred
    messages, and Arrow's schemas are equal even if their metadata differs.
    For an unknown object, the cache returns the result of an equal object if there is one. Each Spark task unpickles
    its table again, and its readers and buffers must not accumulate.
    The cache keeps the objects alive and removes the oldest entries first. Threads may call the function at the same
    time: only storing a result takes a lock.
    """
    known: dict[tuple[int, Hashable], tuple[Any, Any]] = {}
    by_content: dict[Hashable, Any] = {}

    @functools.wraps(function)
    def cached(first: _A, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        more = (*args, _NAMED, *sorted(kwargs.items())) if kwargs else args
        key = (id(first), more)
        entry = known.get(key)
        if entry is None or entry[0] is not first:
            content = (_content_key(first), more)
            result = by_content.get(content, _UNKNOWN)
            is_new = result is _UNKNOWN
            if is_new:
                result = function(first, *args, **kwargs)
            entry = (first, result)
            with _store_lock.use():  # another thread must not change the dict during `next(iter(...))`
                _store(known, key, entry)
                if is_new:
                    _store(by_content, content, result)
        kept: _R = entry[1]
        return kept

    return cached


def _content_key(first: object) -> Hashable:
    """Return a key that equal objects share. The key of a schema includes its metadata.

    An object that can't be hashed gets a key of its own.
    """
    if isinstance(first, pa.Schema):
        return pa.Schema, first.serialize().to_pybytes()
    return type(first), first if isinstance(first, Hashable) else object()


def _store(known: dict[Any, Any], key: Hashable, value: object) -> None:
    while len(known) >= _BOUND:
        del known[next(iter(known))]
    known[key] = value
