"""Settings of Spark in the tests of ingestion."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sessions import QUICK


@pytest.fixture(autouse=True)
def _quick_plans(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let Spark generate no code: a fifth of the time of small batches. Tests of crashes keep what users have."""
    if "spark" not in request.fixturenames:
        yield
        return
    spark = request.getfixturevalue("spark")
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    yield
    for name in QUICK:
        spark.conf.unset(name)
