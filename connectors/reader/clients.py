"""Consumers of this process, kept for the next range: a new one costs more than a small range.

    with consuming(settings) as client: ...

A consumer serves one range at a time. A forked child never uses those of its parent, whose threads it does not have.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kvformat.connectors.reader.client_settings import ReaderSettings
from kvformat.connectors.reader.fetched import LayoutError
from kvformat.connectors.reader.librdkafka import librdkafka
from kvformat.connectors.reader.message_client import MessageClient
from kvformat.registry.contract.fork_safe import Guarded

if TYPE_CHECKING:
    from kvformat.connectors.reader.direct_client import DirectClient

_MOST_KEPT = 4  # idle consumers of a process: each has some threads and connections
_LONGEST_IDLE = 300.0  # seconds after which an idle consumer is closed, when the next range is read


RangeClient: TypeAlias = "MessageClient | DirectClient"
"""A consumer that reads one range at a time."""


@contextlib.contextmanager
def consuming(settings: ReaderSettings) -> Iterator[RangeClient]:
    """Return a consumer for one range. It is kept for the next one, unless an error ends the context."""
    process, client = os.getpid(), _taken(settings) or _new(settings)
    try:
        yield client
    except GeneratorExit:  # the records that were read are enough
        _give_back(process, settings, client)
        raise
    except BaseException:
        if process == os.getpid():
            client.close()
        raise
    _give_back(process, settings, client)


def _new(settings: ReaderSettings) -> RangeClient:
    library = librdkafka()
    if isinstance(library, str) or _layout_faults:
        return MessageClient(settings)
    from kvformat.connectors.reader.direct_client import DirectClient

    return DirectClient(settings, library)


_layout_faults: list[str] = []


def give_up_loop(fault: LayoutError) -> None:
    """Read by `Message` objects from now on: the compiled loop does not know this librdkafka."""
    _layout_faults.append(str(fault))


@dataclass(slots=True)
class _Idle:
    settings: ReaderSettings
    client: RangeClient
    since: float


_idle: Guarded[list[_Idle]] = Guarded(list)


def _taken(settings: ReaderSettings) -> RangeClient | None:
    """Return an idle consumer with these settings, and close those that were idle for long."""
    now = time.monotonic()
    with _idle.use() as idle:
        old = [entry for entry in idle if now - entry.since > _LONGEST_IDLE]
        idle[:] = [entry for entry in idle if entry not in old]
        taken = next((entry for entry in reversed(idle) if entry.settings == settings), None)
        if taken is not None:
            idle.remove(taken)
    for entry in old:
        entry.client.close()
    return None if taken is None else taken.client


def _give_back(process: int, settings: ReaderSettings, client: RangeClient) -> None:
    if process != os.getpid():  # a child of a fork that has a copy of the generator
        return
    client.stop()
    with _idle.use() as idle:
        idle.append(_Idle(settings, client, time.monotonic()))
        old = idle[:-_MOST_KEPT]
        del idle[:-_MOST_KEPT]
    for entry in old:
        entry.client.close()


def close_all() -> None:
    """Close the idle consumers of this process."""
    with _idle.use() as idle:
        old = idle[:]
        idle.clear()
    for entry in old:
        entry.client.close()


atexit.register(close_all)
