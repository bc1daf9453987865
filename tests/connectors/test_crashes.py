"""Killed queries and brokers: each scenario of `scripts/crash_tests` once."""

from __future__ import annotations

import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvformat.connectors.source_choice import Source
from tests.connectors import crashes

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.once]

KILLS = int(os.environ.get("KVFORMAT_CRASH_KILLS", "1"))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["spark", "python"])
def test_killed_query_loses_no_change_and_keeps_the_order(broker: Any, tmp_path: Path, by: Source) -> None:
    report = crashes.copy_with_kills(broker, tmp_path, KILLS, random.Random(f"4 {by}"), by=by)
    assert report.mid_batch > 0


@pytest.mark.slow
@pytest.mark.parametrize("by", ["spark", "python"])
def test_killed_broker_loses_no_change(tmp_path: Path, by: Source) -> None:
    assert crashes.copy_with_broker_kills(tmp_path, 1, random.Random(f"4 {by}"), by=by).kills == 1


@pytest.mark.slow
@pytest.mark.parametrize("by", ["spark", "python"])
def test_table_is_correct_if_its_query_is_killed_between_writes(
    spark: Any, broker: Any, tmp_path: Path, by: Source
) -> None:
    report = crashes.maintain_with_kills(broker, tmp_path, KILLS, random.Random(f"4 {by}"), by=by)
    assert report.mid_batch > 0


class Recorded:
    """A fake broker with given records."""

    def __init__(self, records: list[tuple[bytes, bytes | None]]) -> None:
        self._records = records

    def records(self, _: str) -> list[Any]:
        return [SimpleNamespace(key=lambda k=k: k, value=lambda v=v: v) for k, v in self._records]


def test_check_copied_allows_repeats_but_no_loss_or_wrong_order() -> None:
    changes = crashes.changes(5)
    half = len(changes) // 2
    assert crashes.check_copied(Recorded(changes), "t", 5) == 0
    again = changes[half - crashes.KEYS : half]
    assert crashes.check_copied(Recorded([*changes[:half], *again, *changes[half:]]), "t", 5) == crashes.KEYS
    swapped = [*changes[: crashes.KEYS], *changes[2 * crashes.KEYS : 3 * crashes.KEYS], *changes[crashes.KEYS :]]
    for wrong in (changes[:half] + changes[half + 1 :], changes[:-1], swapped, changes + changes[:1]):
        with pytest.raises(AssertionError):
            crashes.check_copied(Recorded(wrong), "t", 5)
