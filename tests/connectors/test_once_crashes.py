"""Exactly-once queries that are killed: each scenario of `scripts/crash_tests --only exactly-once`, with few kills."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.connectors import once_crashes

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.once, pytest.mark.slow]

KILLS = int(os.environ.get("KVFORMAT_CRASH_KILLS", "1"))


@pytest.mark.parametrize("name", once_crashes.SCENARIOS)
def test_each_record_is_there_once(broker: Any, tmp_path: Path, name: str) -> None:
    report = once_crashes.SCENARIOS[name](broker, tmp_path, KILLS, 0, random.Random(5))
    assert report.kills >= KILLS
    assert report.mid_batch >= KILLS
    assert report.records > once_crashes.BATCH
