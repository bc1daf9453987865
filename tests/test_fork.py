"""A process forks while its threads decode. The child can decode, whatever the parent's threads were doing."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

from kvformat.registry.contract.fork_safe import Guarded
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
