"""Locks that work in the child of a fork, and state that is made anew there.

A fork copies the memory of a process, but only one of its threads. A lock that another thread holds at that moment
stays locked in the child for ever, and what that thread was changing stays half changed. Spark's workers fork, and so
does `multiprocessing`. Every lock of the library is one of these, so no other module imports one from `threading`.
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
    """State that one thread at a time may use: `make` makes it, now and, when it is used, in each child of a fork.

    With `reentrant`, a thread that uses it may ask for it again.
    """

    def __init__(self, make: Callable[[], _T], *, reentrant: bool = False) -> None:
        self._make = make
        self._new_lock: Callable[[], Any] = threading.RLock if reentrant else threading.Lock
        self._lock, self._states = self._new_lock(), [make()]
        _guarded.add(self)

    @contextmanager
    def use(self) -> Iterator[_T]:
        """The state, for the block of a `with` statement; other threads wait."""
        with self._lock:
            if not self._states:
                self._states.append(self._make())
            yield self._states[0]

    def renew(self) -> None:
        """Forget the state and the lock, whoever holds it."""
        self._lock, self._states = self._new_lock(), []


def renew_all() -> None:
    """What happens in the child of a fork: all locks are free, and all state is made anew when it is used."""
    for guarded in list(_guarded):
        guarded.renew()


os.register_at_fork(after_in_child=renew_all)
