"""Settings of Spark in the tests of ingestion."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest) -> None:
    if "spark" in request.fixturenames:
        request.getfixturevalue("quick_plans")
