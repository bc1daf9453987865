"""Compare types, routes, changes of schemas and the Kafka sink's bytes with the answers of real Flink CDC."""

from __future__ import annotations

import pytest

from tests.support.cdc_vectors import DOCUMENTED, difference, lines

COMPARED = {"merge": 1724, "evolve": 287, "sink": 272}
"""The minimum number of compared lines of each file."""


@pytest.mark.parametrize("name", COMPARED)
def test_answers_equal_flink_cdc(name: str) -> None:
    """Exactly the lines in `DOCUMENTED` differ."""
    cases, problems = lines(name), []
    for line in cases:
        problem = difference(line)
        if line["id"] in DOCUMENTED:
            problem = None if problem else f"{line['id']} answers as Flink CDC: remove it from DOCUMENTED"
        problems += [problem] if problem else []
    assert not problems, f"{len(problems)} answers differ, the first:\n" + "\n".join(problems[:5])
    assert len(cases) >= COMPARED[name]
