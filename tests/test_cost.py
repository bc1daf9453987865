"""The limits of CPU time."""

from __future__ import annotations

import pytest

from tests.support import cost


def _work(count: int) -> int:
    return sum(range(count))


def test_work_within_its_limit_passes() -> None:
    with cost.at_most(1):
        _work(1000)


def test_work_beyond_its_limit_fails_and_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "slowness", lambda: 2.0)
    with (
        pytest.raises(AssertionError, match=r"^\d+\.\d s of CPU time on a machine that is 2\.0 times slower"),
        cost.at_most(0),
    ):
        _work(100_000)


def test_a_slow_machine_gets_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "slowness", lambda: 1e9)
    with cost.at_most(1e-6):
        _work(1_000_000)


def test_a_function_has_its_limit_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "slowness", lambda: 1.0)
    limited = cost.at_most(0.02)(_work)
    for _ in range(3):
        limited(100)
    with pytest.raises(AssertionError, match="CPU time"):
        limited(10_000_000)
