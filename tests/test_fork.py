"""A process forks while its threads decode. The child can decode, whatever the parent's threads were doing."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

from kvformat.registry.contract.fork_safe import Guarded, cached_property
from tests import forks

FORKS = 20


def test_a_forked_child_can_decode() -> None:
    """For every kind of reader: nothing hangs, no child process remains, and the results are equal."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.forks", str(FORKS)],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        timeout=4 * forks.SECONDS,
        check=True,
    )
    done = re.fullmatch(rf"{FORKS} forks, (\d+) kinds of readers, (\d+) locks\n", run.stdout)
    assert done is not None, run.stdout
    assert int(done[1]) >= 20
    assert int(done[2]) >= 20


def test_state_in_use_is_renewed_in_the_child() -> None:
    """The state may be half changed. `renew` is called in the child."""
    made: list[list[int]] = []

    def make() -> list[int]:
        made.append([])
        return made[-1]

    guarded = Guarded(make)
    with guarded.use() as half_changed:
        half_changed.append(1)
        guarded.renew()
        with guarded.use() as fresh:  # the lock is free
            assert fresh == []
            fresh.append(2)
    with guarded.use() as again:
        assert again == [2]
    assert made == [[1], [2]]


def test_only_one_thread_uses_the_state() -> None:
    guarded, most, inside = Guarded(lambda: None), [0], [0]

    def work() -> None:
        for _ in range(300):
            with guarded.use():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    reentrant = Guarded(lambda: 7, reentrant=True)
    with reentrant.use() as outer, reentrant.use() as inner:
        assert (outer, inner) == (7, 7)


class _Slow:
    """Computes a property while another thread waits."""

    def __init__(self, started: threading.Event, go_on: threading.Event) -> None:
        self.started, self.go_on, self.computed = started, go_on, 0

    @cached_property
    def value(self) -> int:
        """The number of times that it was computed."""
        self.computed += 1
        self.started.set()
        assert self.go_on.wait(10)
        return self.computed


def test_a_property_that_is_computed_blocks_no_other_object() -> None:
    """`functools.cached_property` of Python 3.11 fails this: it has one lock for all objects of a class."""
    go_on, free = threading.Event(), threading.Event()
    free.set()
    slow, fast = _Slow(threading.Event(), go_on), _Slow(threading.Event(), free)
    first = threading.Thread(target=lambda: slow.value)
    second = threading.Thread(target=lambda: fast.value)
    first.start()
    assert slow.started.wait(10)
    second.start()
    second.join(5)
    blocked = second.is_alive()
    go_on.set()
    first.join()
    second.join()
    assert not blocked
    assert (slow.value, slow.computed, fast.value, fast.computed) == (1, 1, 1, 1)
    assert _Slow.value.__doc__ == "The number of times that it was computed."
