"""Locks that work in a forked child process, and state that is created again there.

A fork copies the memory of a process, but only one of its threads. If another thread holds a lock at that moment, the
lock stays locked in the child forever, and the state that the thread was changing stays incomplete. Spark's workers
fork, and so does `multiprocessing`. The library therefore uses only these locks; no other module imports a lock from
`threading`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_guarded: weakref.WeakSet[Guarded[Any]] = weakref.WeakSet()


class Guarded(Generic[_T]):
    """State that one thread at a time may use.

    `make` creates the state, once now and once in each forked child, on first use there. With `reentrant`, a thread
    that uses the state may call `use` again.
    """

    def __init__(self, make: Callable[[], _T], *, reentrant: bool = False) -> None:
        self._make = make
        self._new_lock: Callable[[], Any] = threading.RLock if reentrant else threading.Lock
        self._lock, self._states = self._new_lock(), [make()]
        _guarded.add(self)

    @contextmanager
    def use(self) -> Iterator[_T]:
        """Return the state for the block of a `with` statement; other threads wait."""
        with self._lock:
            if not self._states:
                self._states.append(self._make())
            yield self._states[0]

    def renew(self) -> None:
        """Discard the state and the lock, even if a thread holds the lock."""
        self._lock, self._states = self._new_lock(), []


def renew_all() -> None:
    """Release all locks and discard all state in a forked child; state is created again on first use."""
    for guarded in list(_guarded):
        guarded.renew()


os.register_at_fork(after_in_child=renew_all)


class cached_property(Generic[_T]):  # the name and the use of Python's own
    """A property that is computed once for each object, like `functools.cached_property` of Python 3.12.

    That of Python 3.11 takes one lock for all objects of a class. A process that forks while a thread holds the lock
    has a child that waits for it forever. Without a lock, two threads may both compute the value.
    """

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, _: type | None = None) -> _T:
        if instance is None:
            return self  # type: ignore[return-value]  # as the class attribute
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
